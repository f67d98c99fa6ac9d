"""R22: hooks that raise, hang, return too much, or exceed their declared rights."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic import BaseModel
from tests.runtime.engine.hook_rig import CHARGE, HookRun, Ledger, events_of, play, run, shop

from windlass.agent.hooks import POINTS, hook
from windlass.engine.binding import Binding
from windlass.engine.deadline import Raised, Returned, TimedOut, run_with_deadline
from windlass.engine.hook_points import after_call
from windlass.engine.hooks import BoundHook, Hooks
from windlass.limits import (
    HOOK_CONTEXT_CHARS_MAX,
    HOOK_CONTEXT_TEXTS_MAX,
    HOOK_STUCK_THREADS_MAX,
    HOOK_WORDS_CHARS_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.ports.host import Change, HookCall, Veto
from windlass.runtime.compose import AgentRuntime
from windlass.testing import FakeClock, call, say
from windlass_harness.loop.events import CallReturned, RunTool
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import RunState
from windlass_protocol import ActionStatus, HookSpec, JsonObject
from windlass_protocol.generated import records

LOOSE_HOOK: Any = hook
LOOSE_CHANGE: Any = Change


class Answer(BaseModel):
    value: int


def at(point: str, function: Callable[[HookCall], object], **options: Any) -> Any:
    timeout_ms = 20 if function in (hangs, hangs_on) else 30_000
    return LOOSE_HOOK(point, **{"hook_id": "h", "timeout_ms": timeout_ms, **options})(function)


def raises(_call: HookCall) -> None:
    raise ValueError("the secret is 42\nand more")


async def raises_async(_call: HookCall) -> None:
    raise KeyError("x")


async def exits(_call: HookCall) -> None:
    raise SystemExit(3)


async def cancels(_call: HookCall) -> None:
    raise asyncio.CancelledError


async def hangs(_call: HookCall) -> None:
    await asyncio.Event().wait()


async def hangs_on(_call: HookCall) -> None:
    """Ignores its first cancellation."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


def nonsense(_call: HookCall) -> Any:
    return {"arguments": {"cents": 0}}


def changes(_call: HookCall) -> Change:
    return Change(arguments={"cents": 0})


def vetoes(_call: HookCall) -> Veto:
    return Veto("no")


def mutates_input(told: HookCall) -> None:
    """Changes everything that it is given, and declares nothing."""
    if told.arguments is not None:
        told.arguments["cents"] = 0
    if isinstance(told.result, dict):
        told.result["charged"] = 0
    for message in told.messages:
        for one in message.tool_calls:
            one.arguments["cents"] = 0
        for part in message.parts:
            part.clear()
    for one in told.asked:
        cast(dict[str, int], one.input)["cents"] = 0
    if isinstance(told.value, dict):
        told.value["value"] = 0


BAD: list[tuple[Callable[[HookCall], object], str, str]] = [
    (raises, "failed", "ValueError: the secret is 42"),
    (raises_async, "failed", "KeyError"),
    (exits, "failed", "SystemExit"),
    (cancels, "failed", "CancelledError"),
    (hangs, "timed_out", "it did not answer within 20 ms"),
    (hangs_on, "timed_out", "it did not answer within 20 ms"),
    (nonsense, "rejected", "it returned dict; a hook returns None, a Change or a Veto"),
    (changes, "rejected", "it changed arguments, and its right is observe"),
    (vetoes, "rejected", "it vetoed, and its right is observe"),
]


@pytest.mark.promise("H2")
@pytest.mark.parametrize(("function", "status", "told"), BAD, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize(
    "point", ["run_starting", "before_model_call", "after_model_call", "after_tool_call"]
)
def test_a_hook_that_fails_open_is_recorded_and_changes_nothing(
    point: str, function: Any, status: str, told: str
):
    found = run(at(point, function, failure="fail_open"))
    assert (found.result.status, found.result.output, found.ledger.charges) == ("completed", "done", [5])
    failed = found.all("hook.failed")
    times = 2 if point.endswith("model_call") else 1
    assert [data["status"] for data in failed] == [status] * times
    error = failed[0]["error"]
    assert isinstance(error, dict)
    assert told in str(error["message"])
    assert "and more" not in str(error["message"])
    assert failed[0]["failure"] == "fail_open"


@pytest.mark.promise("H2")
@pytest.mark.parametrize(("function", "status", "told"), BAD, ids=lambda one: getattr(one, "__name__", ""))
def test_a_hook_that_denies_when_it_fails_refuses_the_call_and_nothing_else(
    function: Any, status: str, told: str
):
    found = run(at("before_tool_call", function, failure="deny"))
    assert (found.result.status, found.ledger.charges) == ("completed", [])
    assert found.hooks() == [("h", status)]
    result = found.all("action.result")[0]
    assert result["status"] == "rejected"
    assert "hook h failed" in str(result["error"])
    assert told in str(result["error"])


@pytest.mark.promise("H2")
@pytest.mark.parametrize("failure", ["interrupt_run", "fail_run"])
@pytest.mark.parametrize("point", [one for one in POINTS if not POINTS[one].is_observed])
def test_a_hook_that_stops_the_run_when_it_fails_does_so_cleanly_at_every_point(point: str, failure: str):
    is_asked = "approval" in point
    first = call("mail", {"to": "a"}) if is_asked else call("charge", {"cents": 5})
    script = [first, say('{"value": 1}')]
    found = stopped(at(point, raises, failure=failure), script)
    assert found.result.status == "failed"
    assert found.error.startswith("hook_failure: hook h failed: ValueError")
    assert found.types.count("run.failed") == 1
    assert found.types.index("turn.failed") < found.types.index("run.failed")
    assert len(found.hooks()) == 1
    error = found.all("run.failed")[0]["error"]
    assert error["causalIds"]["turnId"] == "turn_0"
    assert found.all("hook.failed")[0]["stop"] == {key: error[key] for key in error if key != "causalIds"}
    retry = found.result.error and found.result.error.retry
    assert retry == ("not_retryable" if failure == "fail_run" else "repair_needed")


def stopped(hook: Any, script: Any) -> Any:
    """Drive a run to its end, saying yes to everything."""

    async def story() -> HookRun:
        ledger = Ledger()
        agent = shop(script, ledger, hooks=[hook], output=Answer)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    (request,) = await handle.open_requests()
                    await handle.answer(request.request_id, "approve", responder="ann")
            result = await handle.wait(timeout=300)
            return HookRun(result, await events_of(runtime, until=["session.waiting"]), ledger)

    return play(story())


DENIED: list[tuple[str, str]] = [
    ("run_starting", "policy_denial: Hook h stopped the run: hook h failed"),
    ("before_model_call", "policy_denial: Hook h stopped the run: hook h failed"),
    ("before_run_complete", "policy_denial: Hook h stopped the run: hook h failed"),
    ("before_structured_output_validation", "policy_denial"),
    ("after_structured_output_validation", "policy_denial"),
]


@pytest.mark.promise("H2")
@pytest.mark.parametrize(("point", "told"), DENIED)
def test_where_there_is_only_the_run_to_deny_it_is_the_run_that_ends(point: str, told: str):
    found = stopped(at(point, raises, failure="deny"), [say('{"value": 1}')])
    assert found.error.startswith(told)


@pytest.mark.promise("H2")
def test_a_result_with_a_failed_hook_is_withheld():
    found = run(at("after_tool_call", raises, failure="deny"))
    assert (found.result.status, found.ledger.charges) == ("completed", [5])
    result = found.all("action.result")[0]
    assert result["status"] == "failed"
    assert "The call ran; its result is withheld: hook h failed" in str(result["error"])
    assert '"charged"' not in str(result)


def test_a_call_is_refused_if_a_hook_fails_to_see_the_consent_to_it():
    found = stopped(
        at("after_approval_decision", raises, failure="deny"),
        [call("mail", {"to": "a"}), say('{"value": 1}')],
    )
    assert found.result.status == "completed"
    result = found.all("action.result")[0]
    assert (result["status"], result["error"]["code"]) == ("failed", "hook.failed")
    assert "action.started" not in found.types


@pytest.mark.promise("H2")
def test_mutating_the_input_of_a_hook_changes_nothing():
    hooks = [at(point, mutates_input, hook_id=f"h-{point}") for point in POINTS]
    script = [call("charge", {"cents": 5}), say('{"value": 1}')]
    found = run(*hooks, script=script, output=Answer)
    assert found.ledger.charges == [5]
    assert found.result.structured_output == {"value": 1}
    assert cast(JsonObject, found.all("action.result")[0]["result"])["output"] == {"charged": 5}
    assert "arguments" not in found.all("action.started")[0]
    assert all(status == "completed" for _, status in found.hooks())


FLOODS: list[tuple[str, object, str]] = [
    ("run_starting", Change(context=["x"] * (HOOK_CONTEXT_TEXTS_MAX + 1)), "too many texts: 17, limit 16"),
    ("run_starting", Change(context=["x" * (HOOK_CONTEXT_CHARS_MAX + 1)]), "context too large: 100,001"),
    ("run_starting", Change(context=["x" * HOOK_CONTEXT_CHARS_MAX, "y"]), "over the limit of 100,000"),
    ("run_starting", Change(context="text"), "context is a list of texts, found str"),
    ("run_starting", LOOSE_CHANGE(context=[1]), "context is text, found int"),
    ("run_starting", Change(arguments={}), "at run_starting only context can be changed"),
    ("before_tool_call", Change(arguments={"cents": 1}, prompt="x"), "only arguments can be changed"),
    ("before_tool_call", LOOSE_CHANGE(arguments=[1]), "arguments are parameters by name"),
    ("before_tool_call", Change(arguments={"cents": "x" * 600_000}), "its change is not valid JSON"),
    ("before_tool_call", LOOSE_CHANGE(arguments={"cents": object()}), "its change is not valid JSON"),
    ("before_tool_call", Change(arguments={"cents": "many"}), "the arguments of charge do not fit"),
    ("before_tool_call", Change(arguments={"dollars": 1}), "the arguments of charge do not fit"),
    ("after_tool_call", Change(result="x" * (TOOL_OUTPUT_CHARS_MAX + 1)), "its change is not valid JSON"),
]


@pytest.mark.promise("H2")
@pytest.mark.parametrize(("point", "change", "told"), FLOODS)
def test_a_change_that_is_unsound_or_too_large_is_not_made(point: str, change: Change, told: str):
    found = run(at(point, lambda _call: change, right="mutate", failure="fail_run"))
    assert found.result.status == "failed"
    (failed,) = found.all("hook.failed")
    assert failed["status"] == "rejected"
    assert told in str(failed["error"])


def test_an_empty_change_of_a_hook_changes_nothing():
    found = run(at("after_tool_call", lambda _call: Change()))
    assert found.hooks() == [("h", "completed")]
    assert found.all("hook.completed")[0]["changed"] is False


def test_a_veto_says_why_in_words_and_not_too_many():
    told = run(at("before_tool_call", lambda _call: Veto("x" * 9_000), right="veto"))
    error = told.all("action.result")[0]["error"]
    assert isinstance(error, dict)
    assert error["message"] == "x" * HOOK_WORDS_CHARS_MAX
    told = run(at("before_tool_call", lambda _call: LOOSE_VETO(5), right="veto"))
    assert "the reason of its veto is a text, found int" in str(told.all("hook.failed"))


LOOSE_VETO: Any = Veto


class Trap(dict[str, int]):
    """Raises when it is looked into."""

    def __iter__(self) -> Any:
        raise RuntimeError("trap")

    def keys(self) -> Any:
        raise RuntimeError("trap")


class TrapVeto(Veto):
    """A veto that raises when it is read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "reason":
            raise RuntimeError("trap")
        return super().__getattribute__(name)


@pytest.mark.promise("H2")
def test_an_answer_that_raises_when_it_is_read_is_a_failure_of_the_hook():
    found = run(at("before_tool_call", lambda _call: Change(arguments=Trap()), right="mutate"))
    assert found.all("hook.failed")[0]["status"] == "rejected"
    assert found.ledger.charges == []
    found = run(at("before_tool_call", lambda _call: TrapVeto("x"), right="veto"))
    assert found.all("hook.failed")[0]["status"] == "rejected"


def test_a_function_may_return_something_to_wait_for():
    async def later() -> Veto:
        return Veto("later")

    found = run(at("before_tool_call", lambda _call: later(), right="veto"))
    assert found.hooks() == [("h", "completed")]
    assert found.ledger.charges == []


@pytest.mark.promise("H2")
def test_a_hook_that_hangs_in_its_thread_is_abandoned_and_disabled():
    gate = threading.Event()
    started: list[int] = []

    def stuck(_call: HookCall) -> None:
        started.append(1)
        gate.wait(300)

    spec = at("run_starting", stuck, timeout_ms=10)

    async def story() -> list[str]:
        hooks = Hooks([BoundHook(spec.spec, spec)])
        told = HookCall("run_starting", "s1", "r1", "a")
        codes: list[str] = []
        # A thread that a busy machine starts after the limit never calls the hook, and does not count.
        while codes[-2:] != ["stuck"] * 2:
            outcome = await hooks.run(told, clock=FakeClock())
            note = outcome.notes[0]
            assert isinstance(note, records.HookFailed)
            codes.append(note.error.code)
        assert len(started) == HOOK_STUCK_THREADS_MAX
        gate.set()
        while True:  # the story has its own limit; how soon the threads come back is not ours to say
            outcome = await hooks.run(told, clock=FakeClock())
            if isinstance(outcome.notes[0], records.HookCompleted):
                return codes
            await asyncio.to_thread(gate.wait)

    codes = play(story())
    assert {*codes[:-2]} == {"timeout"}
    assert len(codes) >= HOOK_STUCK_THREADS_MAX + 2
    assert len(started) > HOOK_STUCK_THREADS_MAX


def test_a_thread_that_starts_after_its_call_was_abandoned_does_not_call_the_hook(
    monkeypatch: pytest.MonkeyPatch,
):
    late: list[Callable[[], object]] = []
    calls: list[HookCall] = []

    async def start_late(function: Callable[[], object]) -> object:
        late.append(function)
        return await asyncio.Event().wait()

    monkeypatch.setattr("windlass.engine.hooks.in_thread", start_late)
    spec = at("run_starting", calls.append, timeout_ms=10)

    async def story() -> None:
        hooks = Hooks([BoundHook(spec.spec, spec)])
        for _ in range(HOOK_STUCK_THREADS_MAX + 1):
            outcome = await hooks.run(HookCall("run_starting", "s1", "r1", "a"), clock=FakeClock())
            (note,) = outcome.notes
            assert isinstance(note, records.HookFailed)
            assert note.error.code == "timeout"

    play(story())
    for start in late:
        start()
    assert calls == []


def test_a_hook_without_a_function_fails_as_its_spec_says():
    async def story() -> list[str]:
        found: list[str] = []
        for failure in ("fail_open", "interrupt_run"):
            spec = HookSpec.model_validate({"hook_id": "h", "point": "after_tool_call", "failure": failure})
            hooks = Hooks([BoundHook(spec, None)])
            assert hooks.guards("after_tool_call") == (failure != "fail_open")
            outcome = await hooks.run(HookCall("after_tool_call", "s", "r", "a"), clock=FakeClock())
            (note,) = outcome.notes
            assert isinstance(note, records.HookFailed)
            found.append(f"{note.status} {outcome.stop is not None}")
        return found

    assert play(story()) == ["failed False", "failed True"]


def test_a_spec_that_says_nothing_has_the_defaults_of_its_schema():
    bare = HookSpec(hook_id="bare", point="after_tool_call")
    order: list[str] = []

    async def story() -> None:
        first = at("after_tool_call", lambda _call: order.append("first"), hook_id="first", order=99)
        last = at("after_tool_call", lambda _call: order.append("bare"), hook_id="bare")
        hooks = Hooks([BoundHook(bare, last), BoundHook(first.spec, first)])
        await hooks.run(HookCall("after_tool_call", "s", "r", "a"), clock=FakeClock())

    play(story())
    assert order == ["first", "bare"]


RUN = RunState("r1", "a", "s1", "2026-01-01T00:00:00.000Z")
EFFECT = RunTool("c", "charge", {}, "k", 0, 1)
RETURNED = CallReturned("c", ActionStatus.COMPLETED, {"charged": 5})


@pytest.mark.parametrize(("failure", "status"), [("deny", "failed"), ("fail_open", "completed")])
def test_a_tool_that_has_run_keeps_its_result_though_the_run_is_cancelled_in_its_hooks(
    failure: str, status: str
):
    started = asyncio.Event()

    async def slow(_call: HookCall) -> None:
        started.set()
        await asyncio.Event().wait()

    async def story() -> CallReturned:
        one = at("after_tool_call", slow, failure=failure)
        binding = cast(Binding, Bound(Hooks([BoundHook(one.spec, one)])))
        task = asyncio.create_task(
            after_call(binding, RUN, state=LoopState(), effect=EFFECT, returned=RETURNED, clock=FakeClock())
        )
        await started.wait()
        task.cancel()
        return await task

    assert play(story()).status.value == status


class Bound:
    """As much of a binding as a point needs."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks


def test_a_coroutine_is_cut_at_its_timeout_and_the_cancel_of_its_caller_passes():
    async def story() -> list[object]:
        async def quick() -> int:
            return 5

        async def slow() -> None:
            await asyncio.Event().wait()

        async def itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

        found: list[object] = [
            await run_with_deadline(quick(), 5),
            await run_with_deadline(slow(), 0.001),
            await run_with_deadline(itself(), 5),
        ]
        task = asyncio.create_task(run_with_deadline(slow(), 5))
        await asyncio.wait({task}, timeout=0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return found

    assert play(story()) == [Returned(5), TimedOut(), TimedOut()]
    assert Raised(ValueError()) != TimedOut()


def test_nothing_of_a_run_without_hooks_is_different():
    plain, watched = run(), run(at("after_tool_call", lambda _call: None))
    assert [one for one in watched.types if "hook" not in one] == plain.types


def forbids(_call: HookCall) -> Veto:
    return Veto("Not today.")


@pytest.mark.parametrize(
    ("function", "words", "cause"),
    [
        (forbids, "hook h at before_tool_call failed, fail_open: ", "hook_not_allowed"),
        (
            raises,
            "hook h at before_tool_call failed, fail_open: ValueError: [redacted]",
            "hook_raised",
        ),
    ],
)
def test_a_hook_that_failed_is_logged_and_is_a_problem_of_the_ledger(
    function: Callable[[HookCall], object], words: str, cause: str, caplog: pytest.LogCaptureFixture
):
    async def story() -> list[str | None]:
        agent = shop(CHARGE, Ledger(), hooks=[at("before_tool_call", function)])
        async with AgentRuntime.in_memory([agent], secrets=["the secret is 42"]) as runtime:
            await (await runtime.start_run(agent, "go", run_id="r1")).wait(timeout=300)
            return [problem.root_cause for problem in (await runtime.handle("r1").decisions()).problems]

    assert play(story()) == [cause]
    assert words in caplog.text
