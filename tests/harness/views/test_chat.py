"""The conversation as chat clients show it."""

from hypothesis import given
from tests.harness.views.journal import Journal, at, request, some, streams

from windlass_harness.record import Record
from windlass_harness.views import fold_chat, step_message_id
from windlass_protocol import ChatMessage, ToolResult


def chat(journal: Journal) -> tuple[ChatMessage, ...]:
    return fold_chat(journal.records).messages


def lines(journal: Journal) -> list[tuple[str, str]]:
    return [(message.role.value, message.content) for message in chat(journal)]


def test_a_chat_has_the_messages_of_people_model_and_tools() -> None:
    journal = Journal().begin().answer("a", text="I look.").result("a", {"n": 1}).answer(text="Done.", step=1)
    assert lines(journal) == [
        ("user", "the task"),
        ("assistant", "I look."),
        ("tool", '{"n":1}'),
        ("assistant", "Done."),
    ]
    asked = some(chat(journal)[1].tool_calls)[0]
    assert (asked.id, asked.name, asked.arguments) == ("a", "look", {"for": "a"})
    assert chat(journal)[2].tool_result == ToolResult.model_validate(
        {"success": True, "data": {"n": 1}, "id": "a"}
    )


def test_ids_are_those_given_or_made_of_the_place() -> None:
    said = {"message": "hi", "messageId": "m1", "sequence": 0, "turnId": "t0"}
    journal = Journal().begin().add("message.received", said).answer("a").result("a")
    journal.start(1).say("x", 1, messageId="m2").end(1)
    assert [message.id for message in chat(journal)] == ["s1/4", "m1", "s1/t0/0", "s1/t0/0/a", "m2"]
    assert step_message_id("s1", turn_id="t0", step_index=0) == "s1/t0/0"


def test_times_are_those_of_the_first_and_the_last_word() -> None:
    journal = Journal().begin().start().say("I look.").ask("a")
    message = chat(journal)[-1]
    assert message.created_at == journal.records[5].at
    assert message.updated_at == journal.records[6].at
    assert chat(Journal().begin())[0].updated_at is None


def test_words_before_and_after_calls_are_one_message() -> None:
    journal = Journal().begin().start().say("First.").ask("a").say("Then.").say(None).end()
    (message,) = chat(journal)[1:]
    assert message.content == "First.\n\nThen."
    assert len(some(message.tool_calls)) == 1


def test_an_attempt_that_said_nothing_leaves_the_id_to_the_next() -> None:
    journal = Journal().begin().start().start(attempt=2).say("x").end()
    assert chat(journal)[-1].id == "s1/t0/0"


def test_a_message_of_another_step_than_the_newest_does_not_take_its_id() -> None:
    journal = Journal().begin().answer(text="one").answer(text="two", step=1)
    journal.add("input.requested", {"requests": [request("r", "q")], **at(0)})
    ids = [message.id for message in chat(journal)]
    assert ids[-1] == f"s1/t0/0/{len(journal.records)}"


def test_arguments_that_are_no_object_are_shown_as_input() -> None:
    action = {"kind": "load-skill", "callId": "a", "input": "pdf"}
    journal = Journal().begin().start().add("actions.requested", {"actions": [action], **at()})
    assert some(chat(journal)[-1].tool_calls)[0].arguments == {"input": "pdf"}


def test_a_request_of_a_subagent_is_no_call_of_this_conversation() -> None:
    journal = Journal().begin().answer("sub")
    journal.add("input.requested", {"requests": [request("r", "q")], "childSessionId": "s2", **at()})
    assert [call.id for call in some(chat(journal)[-1].tool_calls)] == ["sub"]


def test_a_question_of_a_run_is_open_until_that_run_ends() -> None:
    asked = {"requests": [request("r", "q", kind="question")], **at()}
    answered = {"resolutions": [{"requestId": "r", "outcome": "answered"}], **at()}
    journal = Journal().begin().answer("q").add("input.requested", asked)
    journal.add("run.cancelled", {"runId": "other"}).add("input.resolved", answered)
    assert len(chat(journal)) == 3
    journal = Journal().begin().answer("q").add("input.requested", asked)
    journal.add("run.cancelled", {"runId": "r1"}).add("input.resolved", answered)
    assert len(chat(journal)) == 2


def test_a_call_started_when_its_attempt_is_over_belongs_to_the_next_attempt() -> None:
    journal = Journal().begin().start().say("one").ask("a").start(attempt=2).run("a").say("two").end()
    journal.result("a")
    assert lines(journal)[1:] == [("assistant", "two"), ("tool", "found")]
    assert [call.id for call in some(chat(journal)[1].tool_calls)] == ["a"]


def test_a_started_call_without_a_request_is_shown() -> None:
    journal = Journal().begin().run("ghost")
    assert [call.name for call in some(chat(journal)[-1].tool_calls)] == ["look"]
    assert lines(journal.result("ghost"))[-1] == ("tool", "found")
    other = Journal().begin().answer("a").start(1).say("x", 1).run("a").start(1, attempt=2).say("y", 1)
    assert lines(other)[2:] == [("assistant", "y")], "the call that began was another step's"


def test_a_call_that_is_skipped_says_so() -> None:
    journal = Journal().begin().answer("a").run("a")
    for choice in ("retry", "supply", "skip"):
        assert len(chat(journal)) == 2
        journal.add("recovery.effect_settled", {"callId": "a", "choice": choice})
    result = some(chat(journal)[-1].tool_result)
    assert (result.success, str(result.error).split(":")[0]) == (False, "Skipped")


def test_the_agent_that_spoke_is_named() -> None:
    journal = Journal().begin().start()
    journal.add("message.completed", {"message": "hi", "finishReason": "stop", **at()}, agentId="helper")
    assert [message.agent_id for message in chat(journal)] == [None, "helper"]


def test_clearing_and_compacting_the_context_leave_the_conversation_alone() -> None:
    journal = Journal().begin().answer(text="hi")
    before = chat(journal)
    data = {"modelId": "m", "summary": "s", "keptFrom": 2, "sequence": 0, "turnId": "t0"}
    assert chat(journal.add("context.cleared").add("compaction.completed", data)) == before


@given(records=streams())
def test_messages_only_ever_change_in_place_and_new_ones_come_last(records: list[Record]) -> None:
    state = fold_chat([])
    for record in records:
        before = [message.id for message in state.messages]
        state = fold_chat([record], state)
        assert [message.id for message in state.messages][: len(before)] == before
