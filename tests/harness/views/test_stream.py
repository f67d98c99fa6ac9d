"""The fold from events to the changes of a chat: each text once, however it came."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.views.journal import ERROR, SPENT, Facts, Journal, at, call, request, sessions

from windlass_harness.record import Record
from windlass_harness.views import fold_chat
from windlass_harness.views.payloads import SKIPPED
from windlass_harness.views.stream import (
    CallDelta,
    CallProgress,
    CallRequested,
    CallSettled,
    CallStarted,
    Change,
    ChatFold,
    MessageReceived,
    Noted,
    RequestAnswered,
    RequestsOpened,
    RunEnded,
    RunWaiting,
    Spent,
    StateChanged,
    StepEnded,
    StepRetrying,
    StepStarted,
    StepVoided,
    SubagentEnded,
    SubagentStarted,
    TextDelta,
    TextEnded,
)
from windlass_protocol import ChatRole, Event, FinishReason, InputRequest, RunStatus, Usage


def event(kind: str, data: Facts, session_id: str | None = "s1") -> Event:
    facts = {"type": kind, "data": data, "meta": {"at": "2026-01-31T09:00:00Z"}}
    return Event.model_validate({**facts, "sessionId": session_id})


def started(step: int = 0) -> Event:
    return event("step.started", at(step))


def more(text: str, step: int = 0, kind: str = "message", **facts: object) -> Event:
    return event(f"{kind}.appended", {f"{kind}Delta": text, **at(step), **facts})


def whole(text: str, step: int = 0, kind: str = "message") -> Event:
    return event(f"{kind}.completed", {kind: text, "finishReason": "stop", **at(step)})


def changes(*events: Event | Record) -> list[Change]:
    return ChatFold("r1").apply_all(events)


def texts(found: Sequence[Change]) -> list[str]:
    """The deltas, and where they are void."""
    return [
        "void" if isinstance(one, StepVoided) else one.delta
        for one in found
        if isinstance(one, StepVoided | TextDelta)
    ]


def shown(found: Sequence[Change]) -> dict[str, str]:
    """The texts that a reader has at the end, by key."""
    has: dict[str, tuple[int, str]] = {}
    for one in found:
        match one:
            case StepVoided():
                has = {key: (step, text) for key, (step, text) in has.items() if step != one.step}
            case TextDelta():
                has[one.key] = (one.step, has.get(one.key, (0, ""))[1] + one.delta)
            case _:
                pass
    return {key: text for key, (_, text) in has.items()}


# texts


def test_a_text_that_came_whole_says_so() -> None:
    assert changes(started(), whole("Hello")) == [
        StepStarted(0),
        TextDelta("text", "r1/0", 0, "Hello", "s1/t0/0", is_whole=True),
        TextEnded("text", "r1/0"),
    ]


def test_a_hole_in_the_middle_voids_the_step_and_all_of_it_is_shown_again() -> None:
    thought = more("hm", kind="reasoning")
    piece = event("action.input.appended", {"callId": "c", "toolName": "look", "inputDelta": "{", **at()})
    unnamed = event("action.input.appended", {"callId": "d", "inputDelta": "{", **at()})
    found = changes(started(), thought, piece, unnamed, more("Hel"), more("o"), whole("Hello"))
    assert found[-6:] == [
        StepVoided(0),
        TextDelta("reasoning", "r1/0/thought", 0, "hm", "s1/t0/0", is_whole=True),
        TextEnded("reasoning", "r1/0/thought"),
        TextDelta("text", "r1/0", 0, "Hello", "s1/t0/0", is_whole=True),
        TextEnded("text", "r1/0"),
        CallDelta("r1/0/c", 0, "c", "look", "{", is_first=True),
    ]
    assert texts(found) == ["hm", "Hel", "o", "void", "hm", "Hello"]


def test_a_text_that_is_still_empty_is_not_shown_again() -> None:
    found = changes(started(), more("", kind="reasoning"), more("Hel"), whole("Bye"))
    assert texts(found) == ["Hel", "void", "Bye"]


def test_a_piece_may_repeat_the_text_so_far() -> None:
    found = changes(started(), more("Hel", messageSoFar="Hel"), more("x", messageSoFar="Hello"))
    assert texts(found) == ["Hel", "lo"]
    assert texts(changes(started(), more("Hel"), more("x", messageSoFar="By"))) == ["Hel", "void", "By"]


def test_an_empty_text_is_not_shown_and_keeps_no_key() -> None:
    found = changes(started(), whole(""), whole("", kind="reasoning"), whole("one"), whole("two"))
    assert shown(found) == {"r1/0": "one", "r1/0.1": "two"}
    assert shown(changes(started(), more("", kind="reasoning"), whole("x", kind="reasoning"))) == {
        "r1/0/thought": "x"
    }


def test_a_reader_that_joins_in_the_middle_gets_no_beginning_twice() -> None:
    assert texts(changes(more("lo"), whole("Hello"))) == ["lo"]
    assert texts(changes(more("a"), more("b"), whole("ab ab"))) == ["a", "b"]
    assert texts(changes(more("Hel"), whole("Hello"))) == ["Hel", "void", "Hello"]
    assert texts(changes(more("lo"), more("Hello", messageSoFar="Hello"))) == ["lo", "void", "Hello"]
    assert texts(changes(more("Hel", messageSoFar="Hel"), more("lo"), whole("Hello"))) == ["Hel", "lo"]
    assert texts(changes(started(), whole("a"), more("b", step=1), whole("ab", step=1))) == ["a", "b"]


@pytest.mark.parametrize(("has_deltas", "expected"), [(True, ["lo"]), (False, ["lo", "void", "Hello"])])
def test_a_reader_that_resumes_has_the_beginning_if_it_has_deltas(
    has_deltas: bool, expected: list[str]
) -> None:
    fold = ChatFold("r1")
    fold.apply(started())
    fold.resume(has_deltas=has_deltas)
    assert texts(fold.apply_all([more("lo"), whole("Hello")])) == expected


# steps


def test_a_step_that_is_tried_again_voids_what_was_shown() -> None:
    retry = {"code": "E", "attempt": 1, "delayMs": 5, "usage": {"inputTokens": 3}, **at()}
    broken = event("step.retrying", {**retry, "message": "it broke"})
    found = changes(started(), more("Hel"), broken, started(), whole("Bye"))
    assert [type(one) for one in found] == [
        StepStarted,
        TextDelta,
        Spent,
        StepVoided,
        StepRetrying,
        TextDelta,
        TextEnded,
    ]
    assert StepRetrying("it broke") in found
    assert shown(found) == {"r1/0": "Bye"}
    assert changes(event("step.retrying", retry))[-1] == StepRetrying("E")


def test_calls_that_were_not_started_are_void_and_those_that_were_are_not() -> None:
    journal = Journal().start().ask("a")
    assert changes(*journal.records, started())[-1] == StepVoided(0)
    again = changes(*journal.records, started(), *Journal().result("a").records)
    assert isinstance(again[-1], CallSettled)
    assert not again[-1].is_known
    begun = changes(*journal.run("a").records, started())
    assert begun[-1] == StepStarted(1)
    retried = {"code": "E", "attempt": 1, "delayMs": 5, **at()}
    assert StepVoided(0) not in changes(*journal.records, event("step.retrying", retried))


def test_the_end_of_a_step_tells_its_usage_and_its_reason() -> None:
    started_with = event("step.started", {**at(), "modelId": "m"})
    journal = Journal().end(usage={"inputTokens": 2})
    spent, ended = changes(started_with, *journal.records)[1:]
    assert isinstance(spent, Spent)
    assert (spent.model, spent.usage.input_tokens) == ("m", 2)
    assert ended == StepEnded(FinishReason.STOP, Usage(input_tokens=2))
    assert changes(event("step.failed", {"code": "E", "message": "no", **at()})) == []


# calls


def test_the_arguments_of_a_call_are_shown_in_pieces_from_its_name_on() -> None:
    def piece(text: str, **facts: object) -> Event:
        return event("action.input.appended", {"callId": "c", "inputDelta": text, **at(), **facts})

    found = changes(
        started(),
        piece('{"'),
        piece("a", toolName="look"),
        piece("", inputSoFar='{"ab'),
        piece("", inputSoFar='{"x'),
        event("actions.requested", {"actions": [call("c")], **at()}),
    )
    assert found[1:3] == [
        CallDelta("r1/0/c", 0, "c", "look", '{"a', is_first=True),
        CallDelta("r1/0/c", 0, "c", "look", "b", is_first=False),
    ]
    [last] = found[3:]
    assert isinstance(last, CallRequested)
    assert (last.streamed, last.name, last.arguments) == ('{"ab', "look", {"for": "c"})


def test_a_call_is_requested_started_and_settled() -> None:
    journal = Journal().start().ask("a").run("a").result("a")
    partial = event("action.partial", {"callId": "a", "output": 1, **at()})
    stray = event("action.partial", {"callId": "z", "output": 1, **at()})
    found = changes(*journal.records[:3], partial, stray, *journal.records[3:])
    assert [type(one) for one in found[1:]] == [CallRequested, CallStarted, CallProgress, CallSettled]
    settled = found[-1]
    assert isinstance(settled, CallSettled)
    assert (settled.key, settled.is_known, settled.output.value) == ("r1/0/a", True, "found")
    assert settled.result is not None


def test_a_call_of_a_program_names_the_call_of_the_program() -> None:
    whole = {"actions": [call("p/0")], "parentCallId": "p", **at()}
    program, inner = changes(
        event("actions.requested", {"actions": [call("p")], **at()}), event("actions.requested", whole)
    )
    assert isinstance(program, CallRequested)
    assert isinstance(inner, CallRequested)
    assert (program.parent_id, program.parent_key) == (None, None)
    assert (inner.parent_id, inner.parent_key) == ("p", program.key)


def test_a_call_that_no_record_requested_is_requested_by_its_start() -> None:
    assert [type(one) for one in changes(*Journal().run("a").records)] == [CallRequested, CallStarted]


@pytest.mark.parametrize(("choice", "count"), [("skip", 1), ("retry", 0)])
def test_an_interrupted_call_is_settled_if_it_is_skipped(choice: str, count: int) -> None:
    journal = Journal().start().ask("a").run("a")
    journal.add("recovery.effect_settled", {"callId": "a", "choice": choice})
    settled = [one for one in changes(*journal.records) if isinstance(one, CallSettled)]
    assert [one.output for one in settled] == [SKIPPED] * count


# people and subagents


def asked(*requests: Facts, **facts: object) -> Event:
    return event("input.requested", {"requests": list(requests), **at(), **facts})


def resolved(request_id: str, outcome: str = "answered") -> Event:
    one = {"requestId": request_id, "outcome": outcome}
    return event("input.resolved", {"resolutions": [one], **at()})


WAITS = event("run.waiting", {"runId": "r1", "on": "input"})


def test_a_question_is_opened_waited_for_and_answered() -> None:
    question = request("q", "a", kind="question")
    found = changes(started(), asked(question), WAITS, resolved("q"), resolved("q"), WAITS)
    kinds = [StepStarted, CallRequested, RequestsOpened, RunWaiting, RequestAnswered, CallSettled]
    assert [type(one) for one in found] == kinds
    opened, waiting = found[2], found[3]
    assert isinstance(opened, RequestsOpened)
    assert isinstance(waiting, RunWaiting)
    assert [ask.request for ask in opened.asks] == [InputRequest.model_validate(question)]
    assert opened.asks == waiting.asks
    assert opened.asks[0].call_key == "r1/0/a"


def test_an_approval_settles_no_call() -> None:
    approval = request("q", "a", kind="approval")
    ask = event("actions.requested", {"actions": [call("a")], **at()})
    found = changes(started(), ask, asked(approval), resolved("q", "approved"))
    assert [type(one) for one in found[2:]] == [RequestsOpened, RequestAnswered]


def test_a_run_that_waits_for_something_else_does_not_wait_for_people() -> None:
    timer = event("run.waiting", {"runId": "r1", "on": "timer"})
    assert changes(asked(request("q", "a")), timer)[2:] == []


def test_the_request_of_a_subagent_belongs_to_the_call_that_started_it() -> None:
    step = event("actions.requested", {"actions": [call("sub")], **at()})
    facts = {"name": "helper", "toolName": "helper", "sessionId": "s1", "sequence": 0, "turnId": "t0"}
    begun = event("subagent.called", {"callId": "sub", "childSessionId": "s2", **facts})
    question = request("q", "inner", kind="question")
    child = asked(question, childSessionId="s2", callId="sub")
    ended = {"callId": "sub", "subagentName": "helper", "output": "x", "usage": {"inputTokens": 1}}
    found = changes(
        started(), step, begun, child, resolved("q"), event("subagent.completed", ended), asked(question)
    )
    assert found[2] == SubagentStarted("s2", "r1/0/sub", "helper")
    opened = found[3]
    assert isinstance(opened, RequestsOpened)
    assert (opened.asks[0].call_key, opened.asks[0].subagent) == ("r1/0/sub", "s2")
    assert [type(one) for one in found[4:7]] == [RequestAnswered, Spent, SubagentEnded]
    stray = changes(asked(question, childSessionId="s2"), begun, event("subagent.completed", ended))
    assert SubagentStarted("s2", None, "helper") in stray
    assert isinstance(stray[0], RequestsOpened)
    assert stray[0].asks[0].call_key is None


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({}, None),
        ({"isError": True}, "helper failed"),
        ({"error": ERROR, "isError": True}, "late"),
    ],
)
def test_a_subagent_ends_with_its_error(facts: Facts, error: str | None) -> None:
    data = {"name": "helper", "toolName": "helper", "sessionId": "s1", "sequence": 0, "turnId": "t0"}
    begun = event("subagent.called", {"callId": "c", "childSessionId": "s2", "childRunId": "r2", **data})
    ended = event("subagent.completed", {"callId": "c", "subagentName": "helper", "output": "x", **facts})
    assert changes(begun, ended)[-1] == SubagentEnded("r2", "helper", "x", error)
    assert changes(ended) == []


def test_messages_state_and_notes_are_changes_too() -> None:
    journal = Journal().turn("go").turn("stop")
    first, second = changes(*journal.records)
    assert first == MessageReceived("r1/said/2", "go", is_first=True)
    assert second == MessageReceived("r1/said/4", "stop", is_first=False)
    for delivery in ("correction", "repair"):
        back = {"message": "", "context": ["Again."], "delivery": delivery, "sequence": 0, "turnId": "t0"}
        assert changes(event("message.received", back)) == []
    changed = event("session.state_changed", {"set": {"a": 1}, "removed": ["b"]})
    assert changes(changed) == [StateChanged({"a": 1}, ("b",))]
    assert changes(event("recovery.started", {"epoch": 2})) == [Noted("recovering")]
    compacted = {"modelId": "m", "sequence": 0, "turnId": "t0"}
    assert changes(event("compaction.completed", compacted)) == [Noted("compacted")]
    assert changes(event("something.new", {})) == []


# the end


def test_the_end_of_a_run_settles_what_is_open() -> None:
    approval = request("q", "a", kind="approval")
    ended = event("run.cancelled", {"runId": "r1", "reason": "enough"})
    found = changes(started(), more("Hel"), asked(approval), ended)
    kinds = [TextEnded, RequestAnswered, CallSettled, RunEnded]
    assert [type(one) for one in found[-4:]] == kinds
    assert found[-1] == RunEnded(RunStatus.CANCELLED, reason="enough")


def test_a_run_ends_with_its_output_its_error_or_its_budget() -> None:
    def end(kind: str, **facts: object) -> RunEnded:
        [found] = changes(event(kind, {"runId": "r1", **facts}))
        assert isinstance(found, RunEnded)
        return found

    assert end("run.completed", output="x").output == "x"
    done = end("run.completed", output="x", structuredOutput=None, usage={"inputTokens": 1})
    assert (done.output, done.usage.input_tokens) == (None, 1)
    failed = end("run.failed", error=ERROR)
    assert failed.error is not None
    assert failed.error.message == "late"
    exhausted = end("run.budget_exhausted", exceeded=["tokens"], used=SPENT, limits={})
    assert (exhausted.status, exhausted.exceeded) == (RunStatus.BUDGET_EXHAUSTED, ("tokens",))


# properties


@st.composite
def watched(draw: st.DrawFn, records: Sequence[Record]) -> list[Event | Record]:
    """The records with the deltas that came before each text, some of them lost."""
    found: list[Event | Record] = []
    for record in records:
        kind = record.type.partition(".")[0]
        text = record.data.get(kind)
        if record.type.endswith(".completed") and isinstance(text, str) and "stepIndex" in record.data:
            place = {name: record.data[name] for name in ("turnId", "stepIndex", "sequence")}
            cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
            for start, end in pairwise([0, *cuts]):
                facts = {f"{kind}Delta": text[start:end], **place}
                if draw(st.integers(0, 2)):
                    found.append(event(f"{kind}.appended", facts))
        found.append(record)
    return found


@given(st.data())
def test_lost_deltas_do_not_change_the_text_that_is_shown_in_the_end(data: st.DataObject) -> None:
    # Each step is seen from its start: of a text that was under way before, the reader has the beginning.
    records = data.draw(sessions())
    assert shown(changes(*data.draw(watched(records)))) == shown(changes(*records))


@given(sessions())
def test_the_texts_are_those_of_the_conversation(records: list[Record]) -> None:
    messages = fold_chat(records).messages
    said = [one.content for one in messages if one.role is ChatRole.ASSISTANT and one.content]
    assert list(shown(changes(*records)).values()) == said
