"""Approvals and questions in steps: requests, answers and outcomes."""

from typing import cast

import pytest
from tests.steps.steps_rig import Stage, add, guarded, inside, play, staged

from windlass.agent.policy import RulesPolicy
from windlass.errors import Rejected
from windlass.limits import OPTIONS_MAX
from windlass.steps import HarnessTool, KeyedTool, answer_to
from windlass.testing import ScriptedModel, call, say
from windlass.tools import ApprovalCheck, ApprovalName, Tool, tool
from windlass_harness.policy import PolicySet, Rule
from windlass_protocol import (
    InputDisplay,
    InputOption,
    InputRequest,
    InputResponse,
    JsonObject,
    JsonValue,
    SessionCapabilities,
    StepInput,
    ToolCallAction,
    ToolMessage,
    ToolResultPart,
)

RED_AND_BLUE = (InputOption(id="red", label="Rot"), InputOption(id="blue", label="Blau"))
NOBODY = SessionCapabilities(request_input=False)
COLORS: JsonObject = {
    "prompt": "Which color?",
    "options": [{"id": "red", "label": "Rot"}, {"id": "blue", "label": "Blau"}],
}


def results(stage: Stage) -> list[ToolResultPart]:
    """The results in the history."""
    return [
        part
        for message in stage.session.history
        if isinstance(message, ToolMessage)
        for part in message.content
        if isinstance(part, ToolResultPart)
    ]


def outcomes(stage: Stage) -> list[object]:
    return [
        resolution["outcome"]
        for data in stage.data("input.resolved")
        for resolution in cast(list[JsonObject], data["resolutions"])
    ]


def counted(approval: ApprovalCheck | ApprovalName, calls: list[JsonObject]) -> Tool[..., object]:
    @tool(mode="safe_write", approval=approval)
    async def pay(cents: int, to: str = "bank") -> str:
        """Pay."""
        calls.append({"cents": cents, "to": to})
        return "paid"

    return cast(Tool[..., object], pay)


def request(
    *options: InputOption, is_select: bool = True, allow_freeform: bool | None = None
) -> InputRequest:
    return InputRequest(
        request_id="r",
        action=ToolCallAction(call_id="c", tool_name="ask_question", input={}),
        prompt="?",
        display=InputDisplay.SELECT,
        options=(options or RED_AND_BLUE) if is_select else None,
        allow_freeform=allow_freeform,
    )


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("red", "red"),
        (" rOT ", "red"),
        ("2", "blue"),
        ("0", None),
        ("3", None),
        ("99999", None),
        ("\u0662", None),
        ("RED", "red"),
        ("reddish", None),
        ("", None),
    ],
)
def test_a_text_names_an_option_by_id_or_label_or_number(text: str, option: str | None) -> None:
    expected = None if option is None else InputResponse(request_id="r", option_id=option)
    assert answer_to(request(), text) == expected


def test_an_id_counts_before_a_label_and_a_label_before_a_number() -> None:
    tricky = (
        InputOption(id="2", label="one"),
        InputOption(id="b", label="1"),
        InputOption(id="c", label="x"),
    )
    assert answer_to(request(*tricky), "2") == InputResponse(request_id="r", option_id="2")
    assert answer_to(request(*tricky), "1") == InputResponse(request_id="r", option_id="b")


def test_a_channel_can_make_an_answer_of_a_text() -> None:
    assert answer_to(request(), "blau") == InputResponse(request_id="r", option_id="blue")
    assert answer_to(request(), "green") is None
    assert answer_to(request(allow_freeform=True), "green") == InputResponse(request_id="r", text="green")
    named = request(is_select=False, allow_freeform=True)
    assert answer_to(named, "green") == InputResponse(request_id="r", text="green")


def test_a_text_that_names_no_option_is_no_consent() -> None:
    stage = staged(call("guarded", {"x": 1}))
    play(stage.send("Go."), stage)
    (asked,) = stage.requests
    for text in ("sure, why not", "yes", "Yes", "1", " 1 ", "ok", "y"):
        assert answer_to(asked, text) is None
    assert answer_to(asked, "Approve") == InputResponse(request_id=asked.request_id, option_id="approve")


def test_an_answer_reaches_the_model_as_the_result_of_its_question() -> None:
    stage = staged(call("ask_question", COLORS), say("Red it is."))
    play(stage.send("Paint it."), stage)
    assert [one.prompt for one in stage.requests] == ["Which color?"]
    play(stage.answer("red"), stage)
    assert results(stage)[0].output.value == {"status": "answered", "optionId": "red"}
    assert outcomes(stage) == ["answered"]


@pytest.mark.parametrize("message", ["Blau", "How long will it take?"])
def test_a_message_ignores_an_open_question(message: str) -> None:
    stage = staged(call("ask_question", COLORS), say("I choose blue."))
    play(stage.send("Paint it."), stage)
    play(stage.send(message), stage)
    assert results(stage)[0].output.value == {"status": "ignored"}
    assert outcomes(stage) == ["ignored"]
    said = [one.content for one in stage.session.history if one.role == "user"]
    assert said == ["Paint it.", message]
    assert [data.get("delivery") for data in stage.data("message.received")] == [None, "steer"]


def test_a_text_answers_a_question_that_takes_any() -> None:
    stage = staged(call("ask_question", {"prompt": "Your name?"}), say("Hello Bob."))
    play(stage.send("Hi."), stage)
    response = answer_to(stage.requests[0], "Bob")
    assert response is not None
    play(stage.send(StepInput(input_responses=(response,))), stage)
    assert results(stage)[0].output.value == {"status": "answered", "text": "Bob"}


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ({"text": "rot"}, ["answered"]),
        ({"text": "green"}, []),
        ({"optionId": "green"}, []),
        ({}, []),
    ],
)
def test_an_answer_counts_if_it_fits_the_question(response: JsonObject, found: list[str]) -> None:
    stage = staged(call("ask_question", COLORS), say("Done."))
    play(stage.send("Paint it."), stage)
    given = InputResponse.model_validate({**response, "requestId": stage.requests[0].request_id})
    play(stage.send(StepInput(input_responses=(given,))), stage)
    assert outcomes(stage) == found
    assert len(stage.requests) == len(stage.data("approval.candidate")) == 1 - len(found)


def test_several_requests_are_answered_in_parts() -> None:
    calls: list[JsonObject] = []
    pay = counted("always", calls)
    asks = call("ask_question", COLORS) + call("pay", {"cents": 1}) + call("add", {"a": 1, "b": 2})
    stage = staged(asks, say("Done."), tools={"pay": pay, "add": add})
    play(stage.send("Do all."), stage)
    assert [one.display.value for one in stage.requests] == ["select", "confirmation"]
    assert len(stage.data("action.result")) == 1
    play(stage.answer("red"), stage)
    assert len(stage.requests) == 1
    assert calls == []
    play(stage.answer("approve"), stage)
    assert calls == [{"cents": 1, "to": "bank"}]
    assert [part.tool_call_id for part in results(stage)] == ["call-1", "call-2", "call-3"]
    answer_ids = [
        str(resolution["answerId"])
        for data in stage.data("input.resolved")
        for resolution in cast(list[JsonObject], data["resolutions"])
    ]
    assert len({*answer_ids}) == 2, "each answer has an id of its own"


@pytest.mark.parametrize(
    "malformed",
    [
        {},
        {"prompt": ""},
        "what?",
        {"prompt": "?", "options": [{"id": 1}]},
        {"prompt": "?", "options": [{"id": "a", "label": "A"}] * 2},
    ],
)
def test_a_malformed_question_fails_the_call_and_is_not_asked(malformed: JsonObject | str) -> None:
    stage = staged(call("ask_question", malformed), say("Sorry."))
    play(stage.send("Ask."), stage)
    assert stage.data("action.result")[0]["status"] == "failed"
    assert stage.data("input.requested") == []


def test_the_number_of_options_of_a_question_is_limited() -> None:
    def asked(count: int) -> Stage:
        options: list[JsonValue] = [{"id": f"o{at}", "label": f"O{at}"} for at in range(count)]
        stage = staged(call("ask_question", {"prompt": "?", "options": options}), say("Sorry."))
        play(stage.send("Ask."), stage)
        return stage

    assert len(asked(OPTIONS_MAX).requests) == 1
    assert len(asked(OPTIONS_MAX + 1).requests) == 0


def test_without_people_a_question_is_refused() -> None:
    stage = staged(call("ask_question", COLORS), say("Nobody."), capabilities=NOBODY)
    play(stage.send("Ask."), stage)
    assert inside(stage.data("action.result")[0], "error", "code") == "unattended"
    assert stage.data("input.requested") == []


@pytest.mark.parametrize(("can_ask", "offered"), [(True, True), (False, False)])
def test_the_tool_to_ask_people_is_offered_only_if_they_can_be_asked(can_ask: bool, offered: bool) -> None:
    model = ScriptedModel([say("Hi.")])
    stage = Stage().harness(model, capabilities=SessionCapabilities(request_input=can_ask))
    play(stage.send("Hi."), stage)
    assert ("ask_question" in [tool["name"] for tool in model.requests[0].tools]) is offered


def test_a_call_that_needs_approval_is_denied_without_request_input() -> None:
    calls: list[JsonObject] = []
    stage = staged(
        call("pay", {"cents": 1}), say("No."), tools={"pay": counted("always", calls)}, capabilities=NOBODY
    )
    play(stage.send("Pay."), stage)
    assert calls == []
    assert stage.data("action.result")[0]["status"] == "rejected"
    assert results(stage)[0].output.type == "execution-denied"


def test_an_approval_is_bound_to_the_hash_of_the_shown_arguments() -> None:
    calls: list[JsonObject] = []
    stage = staged(call("pay", {"cents": 99}), say("Done."), tools={"pay": counted("always", calls)})
    play(stage.send("Pay."), stage)
    asked = stage.requests[0]
    assert "99" in asked.prompt
    other = InputResponse(
        request_id=asked.request_id, option_id="approve", arguments_hash="sha256:" + "0" * 64
    )
    play(stage.send(StepInput(input_responses=(other,))), stage)
    assert calls == []
    same = other.model_copy(update={"arguments_hash": asked.arguments_hash})
    play(stage.send(StepInput(input_responses=(same,))), stage)
    assert calls == [{"cents": 99, "to": "bank"}]


@pytest.mark.parametrize("text", ["approve", "APPROVE"])
def test_an_answer_in_words_consents_if_it_names_the_option(text: str) -> None:
    calls: list[JsonObject] = []
    stage = staged(call("pay", {"cents": 1}), say("Done."), tools={"pay": counted("always", calls)})
    play(stage.send("Pay."), stage)
    words = InputResponse(request_id=stage.requests[0].request_id, text=text)
    play(stage.send(StepInput(input_responses=(words,))), stage)
    assert len(calls) == 1


@pytest.mark.parametrize("text", ["approve", "sure", "no"])
def test_a_message_never_consents(text: str) -> None:
    calls: list[JsonObject] = []
    stage = staged(call("pay", {"cents": 1}), say("Done."), tools={"pay": counted("always", calls)})
    play(stage.send("Pay."), stage)
    play(stage.send(text), stage)
    assert calls == []
    assert outcomes(stage) == ["ignored"]


def test_a_denied_call_is_not_made_and_its_result_is_a_denial() -> None:
    calls: list[JsonObject] = []
    stage = staged(call("pay", {"cents": 1}), say("Fine."), tools={"pay": counted("always", calls)})
    play(stage.send("Pay."), stage)
    play(stage.answer("deny"), stage)
    assert calls == []
    assert results(stage)[0].output.type == "execution-denied"
    assert outcomes(stage) == ["denied"]


def test_an_answer_counts_once_and_a_stale_one_never() -> None:
    calls: list[JsonObject] = []
    stage = staged(
        call("pay", {"cents": 1}), say("Done."), say("Again."), tools={"pay": counted("always", calls)}
    )
    play(stage.send("Pay."), stage)
    given = StepInput(
        input_responses=(InputResponse(request_id=stage.requests[0].request_id, option_id="approve"),)
    )
    play(stage.send(given), stage)
    assert play(stage.send(given), stage).next is None
    assert len(calls) == 1
    assert outcomes(stage) == ["approved"]
    assert len(stage.data("approval.candidate")) == 1


def test_an_answer_to_another_request_changes_nothing() -> None:
    stage = staged(call("guarded", {"x": 1}), say("Done."))
    play(stage.send("Go."), stage)
    play(
        stage.send(StepInput(input_responses=(InputResponse(request_id="other", option_id="approve"),))),
        stage,
    )
    assert outcomes(stage) == []
    assert len(stage.requests) == 1


def test_always_asks_each_time() -> None:
    calls: list[JsonObject] = []
    pays = [call("pay", {"cents": 1}, call_id=f"p{at}") for at in range(2)]
    stage = staged(*pays, say("Done."), tools={"pay": counted("always", calls)})
    play(stage.send("Pay."), stage)
    play(stage.answer("approve"), stage)
    assert len(stage.requests) == 1


def test_a_tool_with_approval_never_runs_without_a_request() -> None:
    calls: list[JsonObject] = []
    stage = staged(call("pay", {"cents": 1}), say("Done."), tools={"pay": counted("never", calls)})
    play(stage.send("Pay."), stage)
    assert len(calls) == 1


def test_once_asks_until_a_person_approves() -> None:
    calls: list[JsonObject] = []
    pays = [call("pay", {"cents": at}, call_id=f"p{at}") for at in range(4)]
    stage = staged(*pays, say("Done."), tools={"pay": counted("once", calls)})
    play(stage.send("Pay."), stage)
    play(stage.answer("deny"), stage)
    assert len(stage.requests) == 1
    play(stage.answer("approve"), stage)
    assert [one["cents"] for one in calls] == [1]
    assert stage.state.approved_tools is None
    play(stage.answer("approve_session"), stage)
    assert [one["cents"] for one in calls] == [1, 2, 3]
    assert stage.state.approved_tools == ("pay",)


def test_a_key_says_how_far_an_approval_reaches() -> None:
    calls: list[JsonObject] = []
    keyed: HarnessTool = KeyedTool(counted("once", calls), lambda arguments: str(arguments["to"]))
    pays = [
        call("pay", {"cents": 1, "to": to}, call_id=f"p{at}") for at, to in enumerate(("ann", "ann", "bob"))
    ]
    stage = staged(*pays, say("Done."), tools={"pay": keyed})
    play(stage.send("Pay."), stage)
    play(stage.answer("approve_session"), stage)
    assert [one["to"] for one in calls] == ["ann", "ann"]
    assert len(stage.requests) == 1


def test_a_key_that_fails_denies_the_call() -> None:
    calls: list[JsonObject] = []
    keyed: HarnessTool = KeyedTool(counted("once", calls), lambda arguments: str(arguments["nothing"]))
    stage = staged(call("pay", {"cents": 1}), say("Done."), tools={"pay": keyed})
    play(stage.send("Pay."), stage)
    assert calls == []
    assert inside(stage.data("action.result")[0], "error", "code") == "policy.failed"


def test_a_shell_is_never_approved_by_its_name_alone() -> None:
    @tool(mode="read", approval="once")
    async def shell(command: str) -> str:
        """Run a command."""
        return command

    runs = [call("shell", {"command": one}, call_id=f"{at}") for at, one in enumerate(("ls", "ls", "pwd"))]
    stage = staged(*runs, say("Done."), tools={"shell": shell.with_options(is_shell=True)})
    play(stage.send("Go."), stage)
    labels = [option.label for option in stage.requests[0].options or ()]
    assert labels == ["Approve", "Approve this exact command of shell in this session", "Deny"]
    play(stage.answer("approve_session"), stage)
    (request,) = stage.requests
    assert request.action.input == {"command": "pwd"}


def test_a_function_can_decide_which_calls_need_approval() -> None:
    calls: list[JsonObject] = []
    pays = [call("pay", {"cents": cents}, call_id=f"p{cents}") for cents in (1, 1000)]
    stage = staged(
        *pays,
        say("Done."),
        tools={"pay": counted(lambda arguments: int(str(arguments["cents"])) > 10, calls)},
    )
    play(stage.send("Pay."), stage)
    assert [one["cents"] for one in calls] == [1]
    assert len(stage.requests) == 1


def test_a_policy_denial_overrides_an_approval() -> None:
    calls: list[JsonObject] = []
    tools: dict[str, HarnessTool] = {"pay": counted("always", calls)}
    stage = staged(call("pay", {"cents": 1}), say("Done."), tools=tools)
    play(stage.send("Pay."), stage)
    rule = Rule("no.pay", "deny", reason="Not today.", tools=("pay",))
    stage.harness(ScriptedModel([say("Ok.")]), tools=tools, policy=RulesPolicy(PolicySet(rules=(rule,))))
    play(stage.answer("approve"), stage)
    assert calls == []
    assert stage.data("action.result")[-1]["status"] == "rejected"


def test_an_approved_call_of_a_removed_tool_fails_as_unknown() -> None:
    stage = staged(call("guarded", {"x": 1}), say("Done."))
    play(stage.send("Go."), stage)
    stage.harness(ScriptedModel([say("Ok.")]), tools={"add": add})
    play(stage.answer("approve"), stage)
    assert inside(stage.data("action.result")[-1], "error", "code") == "unknown_tool"


def test_a_request_shows_the_arguments_modified_by_a_policy() -> None:
    calls: list[JsonObject] = []
    rule = Rule("cap", "modify", reason="A cap.", tools=("pay",), arguments={"cents": 5})
    policy = RulesPolicy(PolicySet(rules=(rule,)))
    stage = staged(
        call("pay", {"cents": 500}), say("Ok."), tools={"pay": counted("always", calls)}, policy=policy
    )
    play(stage.send("Pay."), stage)
    assert "500" not in stage.requests[0].prompt
    play(stage.answer("approve"), stage)
    assert calls[0]["cents"] == 5


def test_a_policy_that_changes_approved_arguments_asks_again() -> None:
    calls: list[JsonObject] = []
    tools: dict[str, HarnessTool] = {"pay": counted("always", calls)}
    stage = staged(call("pay", {"cents": 500}), tools=tools)
    play(stage.send("Pay."), stage)
    rule = Rule("cap", "modify", reason="A cap.", tools=("pay",), arguments={"cents": 5})
    stage.harness(ScriptedModel([say("Ok.")]), tools=tools, policy=RulesPolicy(PolicySet(rules=(rule,))))
    play(stage.answer("approve"), stage)
    assert calls == []
    assert "500" not in stage.requests[0].prompt
    play(stage.answer("approve"), stage)
    assert calls == [{"cents": 5, "to": "bank"}]


@pytest.mark.parametrize("arguments", [{"cents": "many"}, {"euros": 1}])
def test_arguments_of_a_policy_that_do_not_fit_are_not_used(arguments: JsonObject) -> None:
    calls: list[JsonObject] = []
    rule = Rule("cap", "modify", reason="A cap.", tools=("pay",), arguments=arguments)
    stage = staged(
        call("pay", {"cents": 500}),
        say("Ok."),
        tools={"pay": counted("never", calls)},
        policy=RulesPolicy(PolicySet(rules=(rule,))),
    )
    play(stage.send("Pay."), stage)
    assert calls == []
    assert stage.data("action.result")[-1]["status"] == "rejected"


def test_a_call_that_is_too_large_to_show_is_denied() -> None:
    @tool(mode="safe_write", approval="always")
    async def write(text: str) -> str:
        """Write."""
        return text

    stage = staged(call("write", {"text": "x" * 200_000}), say("Ok."), tools={"write": write})
    play(stage.send("Go."), stage)
    assert stage.requests == ()
    assert stage.data("action.result")[0]["status"] == "rejected"


def test_names_of_requests_are_the_same_when_a_step_is_made_again() -> None:
    first, second = (staged(call("guarded", {"x": 1})) for _ in range(2))
    for stage in (first, second):
        play(stage.send("Go."), stage)
    assert first.requests == second.requests


def test_names_that_the_steps_use_themselves_are_refused() -> None:
    @tool(mode="read", name="ask_question")
    async def own() -> str:
        """Ask."""
        return ""

    with pytest.raises(Rejected, match="ask_question"):
        staged(tools={"ask_question": own})
    with pytest.raises(Rejected, match="own name"):
        staged(tools={"other": guarded})
