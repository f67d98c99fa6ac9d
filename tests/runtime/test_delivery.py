"""Output delivery to sinks: at most once for each key, and unknown after an interruption."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.runtime.engine.hook_rig import Box, HookRun, Ledger, events_of, play, run, shop

from windlass.agent.agent import Agent, check_sink, receipt_of
from windlass.engine.delivery import deliver
from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass.limits import DELIVERY_ATTEMPTS_MAX, DELIVERY_TIMEOUT_MS, RECEIPT_BYTES_MAX, SINKS_PER_AGENT_MAX
from windlass.ports.host import Delivery
from windlass.ports.machine import Machine
from windlass.runtime.compose import AgentRuntime
from windlass.testing import Answer as Scripted
from windlass.testing import FakeClock, run_in_fake_time, say, seeded_random, sequential_ids
from windlass_harness.loop.events import Deliver
from windlass_harness.loop.rules import Dedupe, SinkRule
from windlass_harness.views.runs import DeliveryState, RunState
from windlass_protocol import ErrorKind, OutputSinkSpec, RetryClass, RunResult, RunStatus

BOX = OutputSinkSpec(sink_id="box")


class Answer(BaseModel):
    value: int


def error(kind: type[AgentError], retry: RetryClass = RetryClass.NOT_RETRYABLE) -> AgentError:
    return kind("it did not work", kind=ErrorKind.EXTENSION_FAILURE, retry=retry)


def delivered(box: Box, kind: str = "delivery.completed", **parts: Any) -> HookRun:
    return run(
        script=[say("done")],
        sinks=[BOX],
        output_sinks=[box],
        until=["run.completed", kind],
        **parts,
    )


def test_output_is_delivered_after_the_end_of_the_run_and_the_intent_is_written_first():
    box = Box({"id": 7})
    told = delivered(box)
    assert told.types[-5:] == [
        "turn.completed",
        "run.completed",
        "session.waiting",
        "delivery.intended",
        "delivery.completed",
    ]
    (output,) = box.got
    assert output == Delivery(
        "r1/box",
        "r1/box",
        "box",
        session_id="s1",
        run_id="r1",
        agent_id="shop",
        kind="final_message",
        output="done",
    )
    assert told.all("delivery.completed") == [{"deliveryId": "r1/box", "sinkId": "box", "receipt": {"id": 7}}]


def test_typed_output_is_delivered_as_a_value():
    box = Box()
    told = run(
        script=[say('{"value": 1}')],
        output=Answer,
        sinks=[BOX],
        output_sinks=[box],
        until=["delivery.completed"],
    )
    assert told.result.status == "completed"
    assert (box.got[0].kind, box.got[0].structured_output) == ("final_validated_output", {"value": 1})


FAILURES = [error(kind) for kind in (Unavailable, Rejected, Denied, Conflict)]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
def test_a_sink_that_says_that_nothing_happened_has_failed_and_the_run_has_not(failure: AgentError):
    box = Box(failure)
    told = delivered(box, "delivery.failed")
    assert told.result.status == "completed"
    assert len(box.got) == 1
    found = told.all("delivery.failed")[0]["error"]
    assert isinstance(found, dict)
    assert (found["code"], found["message"]) == (failure.code.value, "it did not work")


UNKNOWN = [error(Ambiguous), error(Corrupt), OSError("payload"), TimeoutError(), asyncio.CancelledError()]


@pytest.mark.parametrize("failure", UNKNOWN, ids=lambda one: type(one).__name__)
def test_a_sink_that_fails_in_any_other_way_leaves_the_outcome_unknown(failure: BaseException):
    box = Box(failure)
    told = delivered(box, "delivery.unknown")
    assert told.result.status == "completed"
    assert len(box.got) == 1
    reason = str(told.all("delivery.unknown")[0]["reason"])
    assert type(failure).__name__ in reason
    assert "payload" not in reason


RESULT = RunResult(run_id="r1", status=RunStatus.COMPLETED, output="done", session_id="s1")
EFFECT = Deliver(
    "d",
    "box",
    "k",
    kind="final_message",
    run=RunState("r1", "a", "s1", "2026-01-01T00:00:00.000Z", status=RunStatus.COMPLETED, result=RESULT),
)


def settle(box: Box) -> Any:
    clock = FakeClock()
    return run_in_fake_time(deliver({"box": box}, EFFECT, clock=clock), clock=clock), clock.monotonic()


def test_a_sink_that_cannot_be_reached_now_is_tried_again_a_few_times():
    passing = [error(Unavailable, RetryClass.RETRYABLE) for _ in range(DELIVERY_ATTEMPTS_MAX)]
    box = Box(*passing[:2], {"id": 1})
    settled, seconds = settle(box)
    assert (settled.receipt, len(box.got), seconds) == ({"id": 1}, 3, 3.0)
    box = Box(*passing)
    settled, _ = settle(box)
    assert settled.error is not None
    assert len(box.got) == DELIVERY_ATTEMPTS_MAX


def test_a_hanging_sink_is_cancelled_and_its_outcome_is_unknown():
    box = Box(asyncio.Event())
    settled, seconds = settle(box)
    assert settled.reason == f"The sink did not answer within {DELIVERY_TIMEOUT_MS:,} ms."
    assert (len(box.got), seconds) == (1, DELIVERY_TIMEOUT_MS / 1_000)


def test_a_sink_that_is_gone_is_a_matter_of_configuration():
    clock = FakeClock()
    settled = run_in_fake_time(deliver({}, EFFECT, clock=clock), clock=clock)
    assert settled.error is not None
    assert settled.error.kind is ErrorKind.HOST_CONFIGURATION_NEEDED


def test_a_bad_receipt_does_not_make_a_delivery_a_failure():
    assert receipt_of({"a": 1}) == {"a": 1}
    assert receipt_of(None) is None
    assert receipt_of("text") is None
    assert receipt_of({"a": object()}) is None
    assert receipt_of({"a": "x" * (RECEIPT_BYTES_MAX - len('{"a":""}'))}) is not None
    assert receipt_of({"a": "x" * (RECEIPT_BYTES_MAX + 1 - len('{"a":""}'))}) is None


def test_a_run_that_needs_a_sink_that_is_not_there_does_not_start():
    async def story() -> None:
        agent = shop([say("done")], Ledger(), output_sinks=[BOX])
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected, match="output sink box"):
                await runtime.start_run(agent, "go")

    play(story())


def test_the_dedupe_policy_comes_from_the_sink_spec():
    assert check_sink(BOX) == SinkRule("box", Dedupe.RUN)
    assert check_sink(OutputSinkSpec(sink_id="box", dedupe_policy="output")).dedupe is Dedupe.OUTPUT
    with pytest.raises(Rejected, match="dedupe_policy must be one of run, output, session; found 'never'"):
        Agent("a", model="p/m", output_sinks=[OutputSinkSpec(sink_id="box", dedupe_policy="never")])


def test_the_number_of_sinks_of_an_agent_is_limited():
    sinks = [OutputSinkSpec(sink_id=f"s{number}") for number in range(SINKS_PER_AGENT_MAX + 1)]
    assert len(Agent("a", model="p/m", output_sinks=sinks[:-1]).output_sinks) == SINKS_PER_AGENT_MAX
    with pytest.raises(Rejected, match="output sinks: found 33, limit 32"):
        Agent("a", model="p/m", output_sinks=sinks)


def test_the_same_output_twice_in_a_session_is_delivered_once_under_dedupe_by_output():
    box = Box()
    spec = OutputSinkSpec(sink_id="box", dedupe_policy="output")

    async def story() -> list[DeliveryState]:
        agent = shop(lambda _messages: say("done"), Ledger(), output_sinks=[spec])
        async with AgentRuntime.in_memory([agent], output_sinks=[box]) as runtime:
            for run_id in ("r1", "r2"):
                handle = await runtime.start_run(agent, "go", session_id="s1", run_id=run_id)
                await handle.wait(timeout=300)
            await events_of(runtime, until=["delivery.completed", "delivery.deduped"])
            return [*await runtime.handle("r1").deliveries(), *await runtime.handle("r2").deliveries()]

    states = play(story())
    assert [one.stage.value for one in states] == ["completed", "deduped"]
    assert len(box.got) == 1


def test_a_slow_sink_holds_up_neither_the_next_run_nor_its_cancelling():
    gate = asyncio.Event()
    box = Box(gate, {"second": True})

    async def story() -> list[str]:
        held = Scripted("late", gate=asyncio.Event())
        answers = iter([say("one"), held, say("three")])
        agent = shop(lambda _messages: next(answers), Ledger(), output_sinks=[BOX])
        async with AgentRuntime.in_memory([agent], output_sinks=[box]) as runtime:
            first = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await first.wait(timeout=300)
            second = await runtime.start_run(agent, "go", session_id="s1", run_id="r2")
            await events_of(runtime, until=["step.started", "step.started"])
            await second.cancel()
            assert (await second.wait(timeout=300)).status == "cancelled"
            third = await runtime.start_run(agent, "go", session_id="s1", run_id="r3")
            assert (await third.wait(timeout=300)).output == "three"
            gate.set()
            await events_of(runtime, until=["delivery.completed", "delivery.completed"])
            return [
                one.stage.value
                for run_id in ("r1", "r3")
                for one in await runtime.handle(run_id).deliveries()
            ]

    assert play(story()) == ["completed", "completed"]


async def left_behind(path: Path, box: Box, until: str) -> None:
    """A runtime that is closed while its sink hangs, which looks like a crash."""
    agent = shop([say("done")], Ledger(), output_sinks=[BOX])
    async with AgentRuntime.open(path, agents=[agent], output_sinks=[box]) as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        await handle.wait(timeout=300)
        await events_of(runtime, until=[until])


def test_a_delivery_that_a_restart_interrupted_is_unknown_and_not_made_again(tmp_path: Path):
    box, later = Box(asyncio.Event()), Box()

    async def story() -> tuple[tuple[DeliveryState, ...], list[str]]:
        await left_behind(tmp_path / "app.db", box, "delivery.intended")
        agent = shop([say("done")], Ledger(), output_sinks=[BOX])
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent], output_sinks=[later]) as runtime:
            events = await events_of(runtime, until=["delivery.unknown"])
            result = await runtime.handle("r1").wait(timeout=300)
            assert (result.status, result.output) == ("completed", "done")
            return await runtime.handle("r1").deliveries(), [event.type for event in events]

    states, types = play(story())
    assert [(one.stage.value, one.sink_id) for one in states] == [("unknown", "box")]
    assert "interrupted" in str(states[0].reason)
    assert types.count("delivery.intended") == types.count("run.completed") == 1
    assert (len(box.got), later.got) == (1, [])


def test_a_delivery_that_was_recorded_is_not_made_again_after_a_restart(tmp_path: Path):
    box, later = Box({"id": 1}), Box()

    async def story() -> tuple[DeliveryState, ...]:
        await left_behind(tmp_path / "app.db", box, "delivery.completed")
        agent = shop([say("done")], Ledger(), output_sinks=[BOX])
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent], output_sinks=[later]) as runtime:
            return await runtime.handle("r1").deliveries()

    (state,) = play(story())
    assert (state.stage.value, state.receipt) == ("completed", {"id": 1})
    assert later.got == []


def test_the_output_of_a_run_goes_to_no_sink_that_its_agent_got_later(tmp_path: Path):
    box, later = Box(asyncio.Event()), Box(sink_id="later")

    async def story() -> tuple[DeliveryState, ...]:
        await left_behind(tmp_path / "app.db", box, "delivery.intended")
        agent = shop([say("done")], Ledger(), output_sinks=[BOX, OutputSinkSpec(sink_id="later")])
        async with AgentRuntime.open(
            tmp_path / "app.db", agents=[agent], output_sinks=[Box(), later], package_change="move"
        ) as runtime:
            await events_of(runtime, until=["delivery.unknown"])
            return await runtime.handle("r1").deliveries()

    assert [one.sink_id for one in play(story())] == ["box"]
    assert later.got == []


def test_a_delivery_that_ends_while_the_runtime_closes_is_recorded(tmp_path: Path):
    gate = asyncio.Event()

    class Slow(Box):
        async def deliver(self, output: Delivery) -> Any:
            self.got.append(output)
            gate.set()
            await asyncio.wait({asyncio.create_task(asyncio.Event().wait())}, timeout=0.05)
            return {"slow": True}

    async def story() -> tuple[DeliveryState, ...]:
        agent = shop([say("done")], Ledger(), output_sinks=[BOX])
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent], output_sinks=[Slow()]) as runtime:
            await (await runtime.start_run(agent, "go", session_id="s1", run_id="r1")).wait(timeout=300)
            await gate.wait()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent], output_sinks=[Box()]) as runtime:
            return await runtime.handle("r1").deliveries()

    (state,) = play(story())
    assert (state.stage.value, state.receipt) == ("completed", {"slow": True})


def test_a_runtime_is_asked_only_about_runs_that_were_started():
    async def story() -> None:
        async with AgentRuntime.in_memory([]) as runtime:
            with pytest.raises(Conflict):
                await runtime.handle("nobody").deliveries()

    play(story())


def test_in_the_time_of_a_test_a_hanging_sink_costs_a_minute_and_the_result_nothing():
    clock = FakeClock()

    async def story() -> tuple[str, tuple[DeliveryState, ...]]:
        agent = shop([say("done")], Ledger(), output_sinks=[BOX])
        machine = Machine(clock, sequential_ids(), seeded_random(1))
        async with AgentRuntime.in_memory(
            [agent], output_sinks=[Box(asyncio.Event())], machine=machine
        ) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            result = await handle.wait()
            await events_of(runtime, until=["delivery.unknown"])
            return result.output, await runtime.handle("r1").deliveries()

    output, (state,) = run_in_fake_time(story(), clock=clock)
    assert (output, state.stage.value) == ("done", "unknown")
