"""Event hooks of a runtime: which events they get, when, and that they cannot hurt a run."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from tests.runtime.runtime_rig import STORY_S_MAX, look, mail, play, until

from windlass import Agent, AgentRuntime, Event, Rejected, tool
from windlass.agent.hooks import LIVE_EVENTS, EventHook, hook, on_event
from windlass.agent.package import compile_package, fingerprint
from windlass.engine import hooks as event_hooks
from windlass.engine.writing.writer import SessionWriter
from windlass.limits import EVENT_HOOKS_CLOSE_S, EVENT_HOOKS_PENDING_MAX, HOOK_STUCK_THREADS_MAX
from windlass.parts import Machine, OutputSinkSpec
from windlass.ports.host import Delivery, HookCall
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass_harness import views
from windlass_harness.record import Record
from windlass_protocol import EVENT_DATA
from windlass_protocol.generated.values import EventTypeValue

SECRET = "correct-horse-battery"
PATIENT_MS = 30_000
RUNS_MAX = 6
"""Runs of one session."""
ANY_HOOK: Any = on_event
"""For functions that a type checker would refuse."""
LOOKING: Sequence[Answer] = [call("look", {"item": "hat"}), say("done")]
ASKING: Sequence[Answer] = [call("mail", {"to": "ann"}), say("done")]


def watch(seen: list[Event], *types: EventTypeValue | Literal["*"], **options: Any) -> EventHook:
    """An event hook that collects its events."""

    @on_event(*types or ("*",), timeout_ms=PATIENT_MS, **options)
    async def collect(event: Event) -> None:
        seen.append(event)

    return collect


def agent_of(*hooks: EventHook, script: Sequence[Answer] = LOOKING, name: str = "shop") -> Agent:
    return Agent(
        name, model=ScriptedModel(by_history([*script] * RUNS_MAX)), tools=[look, mail], hooks=list(hooks)
    )


async def stored(runtime: AgentRuntime, session_id: str = "s") -> list[Event]:
    """All events of a session, as its feed shows them; the session must be waiting."""
    events: list[Event] = []
    async for event in runtime.sessions.subscribe(session_id):
        if event.index is None:
            events.append(event)
        if event.type == "session.waiting":
            break
    return events


async def ran(runtime: AgentRuntime, agent: Agent, run_id: str = "r1", message: str = "go") -> None:
    handle = await runtime.start_run(agent, message, run_id=run_id, session_id="s")
    assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"


def types_of(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


# which events, and when


def test_a_hook_on_every_type_gets_the_events_of_the_feed_in_the_order_of_the_journal(tmp_path: Path) -> None:
    seen: list[Event] = []
    agent = agent_of(watch(seen))

    async def story() -> list[Event]:
        async with await AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            await ran(runtime, agent)
            return await stored(runtime)

    shown = play(story())
    assert seen == shown
    assert [event.seq for event in seen] == [*range(1, len(seen) + 1)]
    assert types_of(seen)[0] == "session.started"
    assert types_of(seen)[-2:] == ["run.completed", "session.waiting"]


def test_an_event_is_durable_before_a_hook_gets_it(tmp_path: Path) -> None:
    found: list[object] = []
    path = tmp_path / "a.db"

    @on_event("*", timeout_ms=PATIENT_MS)
    def read(event: Event) -> None:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as other:
            (last,) = other.execute("SELECT last_seq FROM sessions WHERE session_id = 's'").fetchone()
        found.append(event.seq is not None and last >= event.seq)

    agent = agent_of(read)

    async def story() -> int:
        async with await AgentRuntime.open(path, agents=[agent]) as runtime:
            await ran(runtime, agent)
            return len(await stored(runtime))

    assert found == [True] * play(story())


def test_hooks_get_the_types_they_name_and_are_called_in_the_order_of_their_declaration() -> None:
    calls: list[tuple[str, str]] = []

    def noting(name: str, *types: EventTypeValue | Literal["*"]) -> EventHook:
        @on_event(*types, hook_id=name, timeout_ms=PATIENT_MS)
        async def note(event: Event) -> None:
            calls.append((name, event.type))

        return note

    agent = agent_of(noting("all", "*"), noting("ends", "run.completed", "turn.completed"))

    async def story() -> list[Event]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent)
            return await stored(runtime)

    expected: list[tuple[str, str]] = []
    for event_type in types_of(play(story())):
        expected.append(("all", event_type))
        if event_type in ("run.completed", "turn.completed"):
            expected.append(("ends", event_type))
    assert calls == expected


def test_each_run_is_shown_to_the_hooks_of_its_own_agent(tmp_path: Path) -> None:
    one: list[Event] = []
    two: list[Event] = []
    plain, first, second = (
        agent_of(name="plain"),
        agent_of(watch(one), name="first"),
        agent_of(watch(two), name="second"),
    )

    async def story() -> None:
        agents = [plain, first, second]
        async with await AgentRuntime.open(tmp_path / "a.db", agents=agents) as runtime:
            for number, agent in enumerate((plain, first, second, plain, first)):
                await ran(runtime, agent, f"r{number}")

    play(story())
    assert [event.run_id for event in one if event.type == "run.started"] == ["r1", "r4"]
    assert [event.run_id for event in two if event.type == "run.started"] == ["r2"]
    assert {event.agent_id for event in one} == {"first", None}
    assert {event.agent_id for event in two} == {"second", None}
    assert types_of(two)[-1] == "session.waiting"


def test_runs_that_wait_for_each_other_are_shown_in_order_to_the_hooks_of_both() -> None:
    one: list[Event] = []
    two: list[Event] = []
    first, second = agent_of(watch(one), name="first"), agent_of(watch(two), name="second")

    async def story() -> None:
        async with AgentRuntime.in_memory([first, second]) as runtime:
            handles = [
                await runtime.start_run(agent, "go", run_id=f"r{number}", session_id="s")
                for number, agent in enumerate((first, second, first, second))
            ]
            for handle in handles:
                assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"

    play(story())
    for events, run_ids in ((one, ["r0", "r2"]), (two, ["r1", "r3"])):
        ends = [event.run_id for event in events if event.type == "run.completed"]
        assert ends == run_ids
        assert [event.seq for event in events] == sorted(event.seq or 0 for event in events)


def test_a_run_that_waits_is_shown_further_by_the_process_that_continues_it(tmp_path: Path) -> None:
    before: list[Event] = []
    after: list[Event] = []
    path = tmp_path / "a.db"

    async def story() -> None:
        agent = agent_of(watch(before), script=ASKING)
        async with await AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            await until(handle, "run.waiting")
        agent = agent_of(watch(after), script=ASKING)
        async with await AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"

    play(story())
    assert types_of(before)[-1] == "run.waiting"
    assert "action.result" in types_of(after)
    assert [event.seq for event in [*before, *after]] == [*range(1, len(before) + len(after) + 1)]


def _die_in_a_hook(path: str) -> None:
    @on_event("action.result")
    async def die(event: Event) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def story() -> None:
        agent = agent_of(die)
        async with await AgentRuntime.open(path, agents=[agent]) as runtime:
            await ran(runtime, agent)

    asyncio.run(story())


@pytest.mark.slow
def test_after_a_crash_no_event_is_passed_a_second_time(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    process = get_context("spawn").Process(target=_die_in_a_hook, args=(str(path),))
    process.start()
    process.join(STORY_S_MAX)
    assert process.exitcode == -signal.SIGKILL
    seen: list[Event] = []

    async def story() -> list[Event]:
        async with await AgentRuntime.open(path, agents=[agent_of(watch(seen))]) as runtime:
            await runtime.handle("r1").wait(timeout=STORY_S_MAX)
            return await stored(runtime)

    shown = play(story())
    (result,) = [event for event in shown if event.type == "action.result"]
    assert seen == shown[-len(seen) :]
    assert result not in seen
    assert "run.completed" in types_of(seen)


def test_the_run_of_a_subagent_is_shown_to_the_hooks_of_the_subagent(tmp_path: Path) -> None:
    above: list[Event] = []
    below: list[Event] = []
    helper = agent_of(watch(below), name="helper")
    caller = Agent(
        "caller",
        model=ScriptedModel([call("helper", {"message": "Look."}), say("done")]),
        subagents=[helper],
        hooks=[watch(above)],
    )

    async def story() -> None:
        async with await AgentRuntime.open(tmp_path / "a.db", agents=[caller]) as runtime:
            await ran(runtime, caller)

    play(story())
    assert {event.session_id for event in above} == {"s"}
    (child,) = {event.session_id for event in below}
    assert child not in ("s", None)
    assert "action.result" in types_of(below)
    assert (types_of(above)[-1], types_of(below)[-1]) == ("session.waiting", "session.completed")


class Sink:
    """A sink that keeps a delivery open for as long as a test wants."""

    sink_id = "out"

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def deliver(self, output: Delivery) -> None:
        await self.free.wait()


def test_a_delivery_that_ends_in_the_next_run_is_shown_to_the_agent_of_its_own_run() -> None:
    one: list[Event] = []
    two: list[Event] = []

    async def story() -> None:
        sink = Sink()

        @tool(mode="read")
        async def free() -> str:
            """End the delivery of the run before."""
            sink.free.set()
            async for event in runtime.sessions.subscribe("s"):
                if event.type == "delivery.completed":
                    break
            return "freed"

        first = Agent(
            "first",
            model=ScriptedModel([say("one")]),
            hooks=[watch(one)],
            output_sinks=[OutputSinkSpec(sink_id="out")],
        )
        script = [call("free", {}), say("two")]
        second = Agent("second", model=ScriptedModel(script), tools=[free], hooks=[watch(two)])
        async with AgentRuntime.in_memory([first, second], output_sinks=[sink]) as runtime:
            for agent in (first, second):
                await ran(runtime, agent, agent.name)

    play(story())
    (ended,) = [event for event in one if event.type == "delivery.completed"]
    (begun,) = [event for event in two if event.type == "run.started"]
    assert (ended.run_id, ended.agent_id) == ("first", None)
    assert (ended.seq or 0) > (begun.seq or 0)
    assert "delivery.completed" not in types_of(two)


def test_a_run_that_cannot_be_bound_is_shown(tmp_path: Path) -> None:
    seen: list[Event] = []
    path = tmp_path / "a.db"

    async def story() -> None:
        agent = agent_of(script=ASKING)
        async with await AgentRuntime.open(path, agents=[agent]) as runtime:
            await until(await runtime.start_run(agent, "go", run_id="r1", session_id="s"), "run.waiting")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            # The package that the run is bound to.
            other.execute("DELETE FROM contents")
        changed = Agent("shop", model=agent.model, instructions="New.", hooks=[watch(seen)])
        async with await AgentRuntime.open(path, agents=[changed]) as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "deny")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "failed"

    play(story())
    assert "run.failed" in types_of(seen)


# a hook only observes


def test_a_run_does_not_wait_for_its_event_hooks_and_a_runtime_passes_the_rest_before_it_closes(
    tmp_path: Path,
) -> None:
    seen: list[Event] = []

    async def story() -> list[Event]:
        gate = asyncio.Event()

        @on_event("*", timeout_ms=PATIENT_MS)
        async def hold(event: Event) -> None:
            await gate.wait()
            seen.append(event)

        agent = agent_of(hold)
        runtime = await AgentRuntime.open(tmp_path / "a.db", agents=[agent])
        await ran(runtime, agent)
        shown = await stored(runtime)
        assert seen == []
        close_task = asyncio.create_task(runtime.aclose())
        asyncio.get_running_loop().call_soon(gate.set)
        await close_task
        return shown

    assert seen == play(story())
    assert seen


def test_pending_events_are_passed_before_those_of_the_next_drive_of_the_session() -> None:
    seen: list[Event] = []

    async def story() -> list[Event]:
        gate = asyncio.Event()

        @on_event("*", timeout_ms=PATIENT_MS)
        async def hold(event: Event) -> None:
            await gate.wait()
            seen.append(event)

        agent = agent_of(hold)
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent, "r1")
            await stored(runtime)
            await ran(runtime, agent, "r2")
            assert seen == []
            gate.set()
            shown: list[Event] = []
            async for event in runtime.sessions.subscribe("s"):
                shown += [event] if event.index is None else []
                if types_of(shown).count("session.waiting") == 2:
                    break
        return shown

    assert seen == play(story())
    assert {event.run_id for event in seen} == {"r1", "r2", None}


STEPS = 40
AHEAD_MAX = 20
"""Records that one append of the story has, and a few."""


@pytest.mark.parametrize(("pending_max", "is_ahead"), [(EVENT_HOOKS_PENDING_MAX, True), (5, False)])
def test_a_run_waits_when_too_many_events_are_pending(
    pending_max: int, is_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hooks, "EVENT_HOOKS_PENDING_MAX", pending_max)
    clock = FakeClock()
    ahead: list[int] = []
    seen: list[Event] = []

    async def story() -> list[Event]:
        runtime: AgentRuntime

        @on_event("*", timeout_ms=PATIENT_MS)
        async def slow(event: Event) -> None:
            # Fake time passes only when everything else waits.
            await clock.sleep(0.01)
            records = await runtime.sessions.records("s", limit=1_000)
            ahead.append(records[-1].seq - (event.seq or 0))
            seen.append(event)

        script = [call("look", {"item": str(number)}) for number in range(STEPS)]
        agent = agent_of(slow, script=[*script, say("done")])
        machine = Machine(clock, sequential_ids(), seeded_random(1))
        async with AgentRuntime.in_memory([agent], machine=machine) as runtime:
            await ran(runtime, agent)
            return await stored(runtime)

    shown = run_in_fake_time(story(), clock=clock)
    assert seen == shown
    assert len(shown) > 4 * STEPS
    assert (max(ahead) > AHEAD_MAX) is is_ahead


def test_a_record_that_is_no_valid_event_is_logged_and_the_others_are_passed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def strict(record: Record) -> Event:
        if record.type == "turn.started":
            raise ValueError(f"{record.type} is no event")
        return to_event(record)

    to_event = views.to_event
    monkeypatch.setattr(views, "to_event", strict)
    seen: list[Event] = []
    agent = agent_of(watch(seen))

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent)

    play(story())
    assert [event.type for event in seen][-2:] == ["run.completed", "session.waiting"]
    assert "turn.started, record 3 of" in caplog.text


def test_an_agent_refuses_a_hook_on_events_that_are_never_recorded() -> None:
    for kind in LIVE_EVENTS:
        with pytest.raises(Rejected, match="is live only and not recorded"):
            agent_of(watch([], cast(EventTypeValue, kind)))


def test_live_events_are_those_that_the_spec_names_so() -> None:
    live = {name for name, data in EVENT_DATA.items() if "live only" in (data.__doc__ or "")}
    assert live == LIVE_EVENTS


@pytest.mark.promise("H2")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_hook_that_raises_is_logged_and_changes_nothing(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Event) -> None:
        raise ValueError(f"no luck with {SECRET}")

    async def fail_later(event: Event) -> None:
        fail(event)

    broken = on_event("turn.completed", hook_id="broken")(fail_later if is_async else fail)
    seen: list[Event] = []
    agent = agent_of(broken, watch(seen))

    async def story() -> list[Event]:
        async with AgentRuntime.in_memory([agent], secrets=[SECRET]) as runtime:
            await ran(runtime, agent)
            return await stored(runtime)

    with caplog.at_level("WARNING", "windlass.failures"):
        shown = play(story())
    assert seen == shown
    assert not [event for event in shown if event.type.startswith("hook.")]
    (told,) = [one.getMessage() for one in caplog.records if one.name == "windlass.failures"]
    assert told.startswith("event hook broken failed at turn.completed, session s: ")
    assert "in fail" in told
    assert SECRET not in told


@pytest.mark.promise("H2")
def test_a_hook_that_returns_something_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    def talk(event: Event) -> object:
        return {"veto": True}

    agent = agent_of(ANY_HOOK("run.completed", timeout_ms=PATIENT_MS)(talk))

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent)

    with caplog.at_level("WARNING", "windlass.failures"):
        play(story())
    assert "event hook talk failed at run.completed, session s: it returned dict" in caplog.text


@pytest.mark.promise("H2")
def test_a_hook_that_hangs_is_cut_at_its_deadline_and_the_next_is_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @on_event("turn.started", timeout_ms=1)
    async def hang(event: Event) -> None:
        await asyncio.Event().wait()

    seen: list[Event] = []
    agent = agent_of(hang, watch(seen))

    async def story() -> list[Event]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent)
            return await stored(runtime)

    with caplog.at_level("WARNING", "windlass.failures"):
        assert seen == play(story())
    assert "event hook hang failed at turn.started, session s: it did not answer within 1 ms" in caplog.text


@pytest.mark.promise("H2")
def test_a_synchronous_hook_runs_in_a_thread_and_is_left_alone_when_its_threads_are_stuck(
    caplog: pytest.LogCaptureFixture,
) -> None:
    free = threading.Event()
    threads: list[int] = []

    @on_event("*", timeout_ms=100)
    def stick(event: Event) -> None:
        threads.append(threading.get_ident())
        free.wait()

    agent = agent_of(stick)

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent)

    try:
        with caplog.at_level("WARNING", "windlass.failures"):
            play(story())
    finally:
        free.set()
    assert len(threads) == HOOK_STUCK_THREADS_MAX
    assert threading.get_ident() not in threads
    assert f"{HOOK_STUCK_THREADS_MAX} earlier calls of it have not ended" in caplog.text


def test_a_hook_gets_a_copy_that_it_may_change() -> None:
    @on_event("*", timeout_ms=PATIENT_MS)
    async def spoil(event: Event) -> None:
        for value in event.data.values():
            if isinstance(value, dict):
                value.clear()
        event.data.clear()

    seen: list[Event] = []
    agent = agent_of(spoil, watch(seen))

    async def story() -> list[Event]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await ran(runtime, agent)
            return await stored(runtime)

    shown = play(story())
    assert seen == shown
    (result,) = [event.data for event in shown if event.type == "action.result"]
    assert cast(Any, result)["result"]["output"] == "hat is there"


@tool(mode="read")
async def peek() -> str:
    """Read a thing that must not be shown."""
    return f"the password is {SECRET}"


def test_an_event_has_no_secret() -> None:
    seen: list[Event] = []
    agent = Agent(
        "shop", model=ScriptedModel([call("peek", {}), say(SECRET)]), tools=[peek], hooks=[watch(seen)]
    )

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], secrets=[SECRET]) as runtime:
            await ran(runtime, agent, message=f"my password: {SECRET}")

    play(story())
    told = "\n".join(event.model_dump_json() for event in seen)
    assert SECRET not in told
    assert told.count("[redacted") >= 3


# an agent with event hooks, and one without


def test_event_hooks_are_no_part_of_the_package() -> None:
    plain, watched = agent_of(), agent_of(watch([]))
    assert fingerprint(compile_package(watched)) == fingerprint(compile_package(plain))
    assert compile_package(watched).hooks is None
    assert watched.event_hooks == watched.hooks
    assert watched.hook_specs == ()


def test_the_session_of_an_agent_without_event_hooks_is_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[str] = []
    observe = SessionWriter.observe

    def note(writer: SessionWriter, observer: Any) -> None:
        observed.append(writer.session_id)
        observe(writer, observer)

    monkeypatch.setattr(SessionWriter, "observe", note)
    plain, watched = agent_of(name="plain"), agent_of(watch([]), name="watched")

    async def story() -> None:
        async with AgentRuntime.in_memory([plain, watched]) as runtime:
            for agent in (plain, watched):
                handle = await runtime.start_run(agent, "go", session_id=agent.name)
                await handle.wait(timeout=STORY_S_MAX)

    play(story())
    assert set(observed) == {"watched"}


def test_the_hooks_of_an_agent_have_names_of_their_own() -> None:
    @hook("after_tool_call", hook_id="audit")
    def look_at(_call: HookCall) -> None: ...

    with pytest.raises(Rejected, match="hooks: duplicate name audit"):
        Agent("a", model="p/m", hooks=[look_at, watch([], hook_id="audit")])


def test_a_runtime_that_is_closed_in_a_run_passes_all_that_was_recorded_of_it(tmp_path: Path) -> None:
    seen: list[Event] = []

    async def story() -> int:
        begun, is_closing = asyncio.Event(), asyncio.Event()

        @tool(mode="read")
        async def wait() -> str:
            """Wait until the runtime is closing."""
            begun.set()
            await is_closing.wait()
            return "waited"

        agent = Agent("shop", model=ScriptedModel([call("wait", {})]), tools=[wait], hooks=[watch(seen)])
        runtime = await AgentRuntime.open(tmp_path / "a.db", agents=[agent])
        await runtime.start_run(agent, "go", run_id="r1", session_id="s")
        await begun.wait()
        close_task = asyncio.create_task(runtime.aclose())
        asyncio.get_running_loop().call_soon(is_closing.set)
        await close_task
        with closing(sqlite3.connect(tmp_path / "a.db")) as other:
            (last,) = other.execute("SELECT last_seq FROM sessions WHERE session_id = 's'").fetchone()
        return last

    last = play(story())
    assert [event.seq for event in seen] == [*range(1, last + 1)]
    assert "action.result" in types_of(seen)
    assert "run.completed" not in types_of(seen)


def test_closing_a_runtime_waits_for_slow_event_hooks_for_a_limited_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, seen = FakeClock(), list[str]()

    @on_event("*", timeout_ms=PATIENT_MS)
    async def slow(event: Event) -> None:
        seen.append(event.type)
        await asyncio.Event().wait()

    async def story() -> float:
        agent = agent_of(slow)
        machine = Machine(clock, sequential_ids("i"), seeded_random(1))
        async with AgentRuntime.in_memory([agent], machine=machine) as runtime:
            await (await runtime.start_run(agent, "go", run_id="r1")).wait()
            began = clock.monotonic()
        return clock.monotonic() - began

    assert run_in_fake_time(story(), clock=clock) <= EVENT_HOOKS_CLOSE_S + 5
    assert 1 <= len(seen) <= 2
    assert "events did not reach their event hooks before the runtime was closed" in caplog.text
