"""Hooks at every point of a run: their input, and their allowed changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, JsonValue
from tests.runtime.engine.hook_rig import CHARGE, HookRun, Ledger, events_of, play, run, shop

from windlass.agent.hooks import POINTS, hook
from windlass.ports.host import Change, HookAnswer, HookCall, Veto
from windlass.ports.model import LLMUsage
from windlass.runtime.compose import AgentRuntime
from windlass.testing import Answer as Scripted
from windlass.testing import ScriptedModel, by_history, call, fail, say
from windlass.tools import tool
from windlass.tools.calling import arguments_hash
from windlass_protocol import AllowDecision, HookSpec, JsonObject, PolicyKind, PolicyRef

LOOSE_HOOK: Any = hook


class Seen(list[HookCall]):
    """A hook function that records its inputs and returns a scripted answer."""

    def __init__(self, *answers: HookAnswer) -> None:
        super().__init__()
        self._answers = list(answers)

    def __call__(self, told: HookCall) -> HookAnswer:
        self.append(told)
        return self._answers.pop(0) if self._answers else None


def at(point: str, seen: Callable[[HookCall], object], **options: Any) -> Any:
    return LOOSE_HOOK(point, **{"hook_id": f"{point}-hook", "timeout_ms": 30_000, **options})(seen)


ALLOW = AllowDecision(code="ok", reason="ok", policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="t"),))


class Answer(BaseModel):
    value: int


def test_hooks_see_a_whole_run_in_its_order():
    seen = Seen()
    hooks = [at(point, seen) for point in POINTS]
    script = [call("charge", {"cents": 5}), say('{"value": 1}')]
    told = run(*hooks, script=script, output=Answer, until=["session.waiting", "hook.completed"])
    assert told.result.structured_output == {"value": 1}
    points = [one.point for one in seen]
    assert points == [
        "run_starting",
        "before_model_call",
        "after_model_call",
        "before_tool_call",
        "after_tool_call",
        "before_model_call",
        "after_model_call",
        "before_structured_output_validation",
        "after_structured_output_validation",
        "before_run_complete",
        "after_run_terminal",
    ]
    assert {(one.session_id, one.run_id, one.agent_id) for one in seen} == {("s1", "r1", "shop")}
    by_point = {one.point: one for one in seen}
    assert by_point["before_tool_call"].arguments == {"cents": 5}
    assert by_point["after_tool_call"].result == {"charged": 5}
    assert by_point["before_run_complete"].value == {"value": 1}
    assert by_point["after_run_terminal"].status == "completed"
    assert [message.role for message in seen[1].messages] == ["system", "user"]
    assert [one.tool_name for one in seen[2].asked] == ["charge"]


def test_each_hook_call_is_recorded_once_and_before_its_consequences():
    told = run(at("before_tool_call", Seen()), at("after_tool_call", Seen()))
    calls = [
        event.type for event in told.events if event.data.get("callId") == "call-1" or "hook" in event.type
    ]
    assert calls == ["hook.completed", "policy.decided", "action.started", "hook.completed"]
    first = told.all("hook.completed")[0]
    assert first["callId"] == "call-1"
    assert (first["changed"], first["vetoed"], first["status"]) == (False, False, "completed")
    assert isinstance(first["durationMs"], int)


def test_hooks_of_a_point_run_by_phase_then_order_then_id():
    order: list[str] = []

    def named(name: str, **options: Any) -> Any:
        return at("run_starting", lambda _call: order.append(name), hook_id=name, **options)

    run(
        named("b"),
        named("a"),
        named("late", phase="late", order=-5),
        named("first", order=1),
        named("early", phase="early", order=999),
    )
    assert order == ["early", "first", "a", "b", "late"]


def test_arguments_that_a_hook_changes_are_checked_judged_run_and_recorded():
    judged: list[object] = []

    class Watching:
        version = "1"

        def before(self, call: Any, *, is_attended: bool) -> Any:
            judged.append(call.arguments)
            return ALLOW

        def after(self, call: Any, output: object) -> Any:
            return ALLOW

    async def story() -> tuple[Ledger, list[Any]]:
        ledger = Ledger()
        cap = at("before_tool_call", Seen(Change(arguments={"cents": 3})), right="mutate")
        agent = shop(list(CHARGE), ledger, hooks=[cap])
        async with AgentRuntime.in_memory([agent], tool_policy=Watching()) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)
            return ledger, await events_of(runtime, until=["session.waiting"])

    ledger, events = play(story())
    assert ledger.charges == [3]
    assert judged == [{"cents": 3}]
    started = next(event.data for event in events if event.type == "action.started")
    assert started["arguments"] == {"cents": 3}
    assert started["argumentsHash"] == arguments_hash({"cents": 3})
    changed = next(event.data for event in events if event.type == "hook.completed")
    assert changed["changed"] is True
    assert changed["change"] == {"arguments": {"cents": 3}}


def test_a_hook_sees_the_changes_of_the_hook_before_it():
    second = Seen()
    told = run(
        at("before_tool_call", Seen(Change(arguments={"cents": 3})), right="mutate", order=1),
        at("before_tool_call", second, hook_id="second", order=2),
    )
    assert second[0].arguments == {"cents": 3}
    assert told.ledger.charges == [3]


def test_a_vetoed_call_is_rejected_with_the_reason_and_not_made():
    told = run(at("before_tool_call", Seen(Veto("not on sundays")), right="veto"))
    assert told.ledger.charges == []
    assert told.result.status == "completed"
    result = told.all("action.result")[0]
    assert (result["status"], result["error"]) == (
        "rejected",
        {"code": "hook.veto", "message": "not on sundays"},
    )
    decided = told.all("policy.decided")[0]["decision"]
    assert isinstance(decided, dict)
    assert decided["policyRefs"] == [{"kind": "host", "id": "hook.before_tool_call-hook"}]


def test_after_a_veto_the_other_hooks_are_not_called():
    second = Seen()
    run(
        at("before_tool_call", Seen(Veto("no")), right="veto", order=1),
        at("before_tool_call", second, hook_id="second", order=2),
    )
    assert second == []


def test_a_result_changed_by_a_hook_is_recorded_and_sent_to_the_model():
    model = ScriptedModel(list(CHARGE))
    told = run(at("after_tool_call", Seen(Change(result={"charged": "some"})), right="mutate"), model=model)
    assert output_of(told) == {"charged": "some"}
    assert model.requests[1].messages[-1].content == '{"charged":"some"}'
    assert "change" not in told.all("hook.completed")[0]


def test_null_is_a_result_too():
    told = run(at("after_tool_call", Seen(Change(result=None)), right="mutate"))
    assert output_of(told) is None


def test_hooks_see_that_a_call_failed_and_cannot_give_it_a_result():
    @tool(mode="read")
    async def broken() -> str:
        raise ValueError("it broke")

    seen = Seen(Change(result="fine"))
    script = [call("broken"), say("done")]
    told = run(at("after_tool_call", seen, right="mutate", failure="deny"), script=script, tools=[broken])
    assert seen[0].error is not None
    assert told.hooks() == [("after_tool_call-hook", "rejected")]
    assert told.all("action.result")[0]["status"] == "failed"


def test_context_of_the_start_stays_and_context_of_a_model_call_is_for_that_call():
    model = ScriptedModel(list(CHARGE))
    told = run(
        at("run_starting", Seen(Change(context=["be kind"])), right="mutate"),
        at("before_model_call", Seen(Change(context=["be quick"])), right="mutate"),
        model=model,
    )
    texts = [[message.content for message in request.messages] for request in model.requests]
    assert texts[0] == ["go", "be kind", "be quick"]
    assert "be quick" not in texts[1]
    assert "be kind" in texts[1]
    changes = [data.get("change") for data in told.all("hook.completed")]
    assert {"context": ["be quick"]} in changes


@pytest.mark.parametrize("point", ["run_starting", "before_model_call", "after_model_call"])
def test_a_veto_of_the_start_or_of_the_model_stops_the_run(point: str):
    told = run(at(point, Seen(Veto("not today")), right="veto"))
    assert told.result.status == "failed"
    assert told.error == f"policy_denial: Hook {point}-hook stopped the run: not today"
    assert told.ledger.charges == []
    assert told.types.count("run.failed") == 1
    assert "message.completed" not in told.types
    assert ("step.failed" in told.types) == (point != "run_starting")


def test_the_usage_of_a_vetoed_answer_counts():
    script = [say("hi", usage=LLMUsage(input_tokens=3, output_tokens=4))]
    told = run(at("after_model_call", Seen(Veto("no")), right="veto"), script=script)
    assert told.result.usage is not None
    assert told.result.usage.output_tokens == 4


def test_hooks_before_a_model_call_are_recorded_though_the_model_fails():
    script = [fail(ConnectionError("gone")), say("done")]
    told = run(at("before_model_call", Seen()), script=script)
    assert told.hooks() == [("before_model_call-hook", "completed")] * 2
    assert told.result.output == "done"


def test_a_completion_that_is_vetoed_goes_back_to_the_model():
    seen = Seen(Veto("run the tests"))
    told = run(at("before_run_complete", seen, right="veto"), script=[say("done"), say("tested, done")])
    assert told.result.output == "tested, done"
    assert [one.text for one in seen] == ["done", "tested, done"]


def test_a_completion_that_is_always_vetoed_fails_the_run():
    never = at("before_run_complete", lambda _call: Veto("never"), right="veto")
    told = run(never, script=[say("done")] * 9)
    assert told.error.startswith("policy_denial: A hook did not let the run complete, over 3 times")
    assert len(told.hooks()) == 4


def test_a_validator_of_meaning_sends_the_model_back_within_its_attempts():
    check = at("after_structured_output_validation", Seen(Veto("must be even")), right="veto")
    told = run(check, script=[say('{"value": 1}'), say('{"value": 2}')], output=Answer)
    assert told.result.structured_output == {"value": 2}
    assert told.all("output.rejected")[0]["errors"] == [
        {"path": "", "code": "hook", "message": "must be even"}
    ]
    assert len(told.all("result.completed")) == 1


def test_hooks_see_where_an_answer_misses_its_contract():
    seen = Seen()
    run(
        at("after_structured_output_validation", seen), script=[say("{}"), say('{"value": 2}')], output=Answer
    )
    assert [error.code for error in seen[0].errors] == ["required"]
    assert seen[1].value == {"value": 2}


def test_a_typed_output_is_published_only_when_the_run_may_complete():
    told = run(
        at("before_run_complete", Seen(Veto("again")), right="veto"),
        script=[say('{"value": 1}'), say('{"value": 2}')],
        output=Answer,
    )
    assert [data["result"] for data in told.all("result.completed")] == [{"value": 2}]
    assert [str(data["hash"])[:7] for data in told.all("output.validated")] == ["sha256:"] * 2


def asking(*hooks: Any, answer: str = "approve") -> HookRun:
    """Drive an agent that mails, and answer when it asks."""

    async def story() -> HookRun:
        ledger = Ledger()
        agent = shop([call("mail", {"to": "ann"}), say("done")], ledger, hooks=list(hooks))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    (request,) = await handle.open_requests()
                    await handle.answer(request.request_id, answer, responder="ann")
            return HookRun(
                await handle.wait(timeout=300), await events_of(runtime, until=["session.waiting"]), ledger
            )

    return play(story())


def test_hooks_see_a_request_and_the_decision_about_it():
    before, after, call_hook = Seen(), Seen(), Seen()
    told = asking(
        at("before_approval_request", before),
        at("after_approval_decision", after),
        at("before_tool_call", call_hook),
    )
    assert before[0].tool_name == "mail"
    assert before[0].prompt
    assert (after[0].decision, after[0].tool_name, after[0].arguments) == ("approved", "mail", {"to": "ann"})
    assert len(call_hook) == 1, "a call is judged twice, and its hooks run once"
    assert told.all("action.result")[0]["status"] == "completed"


def test_hooks_see_that_a_person_said_no():
    after = Seen()
    told = asking(at("after_approval_decision", after), answer="deny")
    assert after[0].decision == "denied"
    assert told.all("action.result")[0]["status"] == "rejected"


def asked_for(told: HookRun) -> JsonObject:
    (request,) = cast(list[JsonObject], told.all("input.requested")[0]["requests"])
    return request


def output_of(told: HookRun) -> JsonValue:
    return cast(JsonObject, told.all("action.result")[0]["result"])["output"]


def test_a_hook_can_change_the_prompt_of_a_request_and_cannot_hide_the_call():
    told = asking(at("before_approval_request", Seen(Change(prompt="Is ann fine?")), right="mutate"))
    request = asked_for(told)
    assert "Is ann fine?" in str(request["prompt"])
    assert "mail" in str(request["prompt"])


def test_a_request_that_a_hook_vetoes_is_never_made():
    script = [call("mail", {"to": "ann"}), say("done")]
    told = run(at("before_approval_request", Seen(Veto("not by mail")), right="veto"), script=script)
    assert "input.requested" not in told.types
    assert told.all("action.result")[0]["error"] == {"code": "hook.veto", "message": "not by mail"}


def test_arguments_that_a_hook_changed_are_those_that_a_person_approves_and_that_run():
    told = asking(at("before_tool_call", Seen(Change(arguments={"to": "bob"})), right="mutate"))
    request = asked_for(told)
    assert request["argumentsHash"] == arguments_hash({"to": "bob"})
    assert output_of(told) == "sent to bob"
    assert len(told.all("input.requested")) == 1


def test_hooks_see_that_a_run_is_cancelled_and_how_it_ended():
    cancelled, ended = Seen(), Seen()

    async def story() -> list[str]:
        gate = asyncio.Event()
        ledger = Ledger()
        hooks = [at("on_run_cancel_requested", cancelled), at("after_run_terminal", ended)]
        agent = shop(lambda _messages: say("late") + Scripted(gate=gate), ledger, hooks=hooks)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await events_of(runtime, until=["step.started"])
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status == "cancelled"
            events = await events_of(runtime, until=["run.cancelled", "hook.completed", "hook.completed"])
            return [event.type for event in events if "hook" in event.type or event.type.startswith("run.")]

    types = play(story())
    assert len(cancelled) == 1
    assert ended[0].status == "cancelled"
    assert types == [
        "run.started",
        "run.cancel_requested",
        "hook.completed",
        "run.cancelled",
        "hook.completed",
    ]


def test_a_hook_of_the_runtime_serves_packages_that_name_it():
    seen = Seen()
    spec = HookSpec(hook_id="watch", point="after_tool_call")

    async def story() -> None:
        agent = shop(list(CHARGE), Ledger(), hooks=[spec])
        watch = at("after_tool_call", seen, hook_id="watch")
        async with AgentRuntime.in_memory([agent], hooks=[watch]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)

    play(story())
    assert len(seen) == 1


@pytest.mark.promise("H2")
def test_hooks_that_were_recorded_do_not_run_again_after_a_restart(tmp_path: Path):
    seen, later = Seen(None, Change(arguments={"to": "bob"})), Seen(None, Change(arguments={"to": "eve"}))

    def agent_with(told: Seen) -> Any:
        hooks = [at("before_tool_call", told, right="mutate"), at("run_starting", told, hook_id="start")]
        return shop(by_history([call("mail", {"to": "ann"}), say("done")]), Ledger(), hooks=hooks)

    async def story() -> list[Any]:
        agent = agent_with(seen)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await events_of(runtime, until=["run.waiting"])
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent_with(later)]) as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve", responder="ann")
            await handle.wait(timeout=300)
            return await events_of(runtime, until=["session.waiting"])

    events = play(story())
    assert sorted(one.point for one in seen) == ["before_tool_call", "run_starting"]
    assert later == []
    results = [event.data["result"] for event in events if event.type == "action.result"]
    assert [cast(JsonObject, result)["output"] for result in results] == ["sent to bob"]


def test_a_hook_sees_nothing_that_a_crash_could_make_untrue():
    """The answer of the model is durable before a hook is called about it."""
    durable: list[list[str]] = []

    async def story() -> None:
        async def look(told: HookCall) -> None:
            durable.append([event.type for event in await events_of(runtime, until=["actions.requested"])])

        agent = shop(list(CHARGE), Ledger(), hooks=[at("before_tool_call", look)])
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, "go", session_id="s1", run_id="r1")).wait(timeout=300)

    play(story())
    assert durable[0][-1] == "actions.requested"
