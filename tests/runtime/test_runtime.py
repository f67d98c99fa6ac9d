"""Runs: started, watched, waited for, cancelled and asked about."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pytest
from pydantic import BaseModel, field_validator
from tests.runtime.runtime_rig import CountingStore, model_of, play, request, shop, until

from windlass.adapters.system import SystemClock, chance, new_id
from windlass.agent import Agent
from windlass.agent.policy import allow_start
from windlass.engine.writing.folds import JournalFolds
from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable
from windlass.feed import Feed
from windlass.ports.feed import EventFilter
from windlass.ports.machine import Machine
from windlass.ports.model import LLMUsage
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.handle import typed_result
from windlass.runtime.options import RuntimeOptions
from windlass.runtime.runs import Runs, record_of
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer, FakeClock, ScriptedModel, call, fail, run_in_fake_time, say
from windlass_harness.budget import Budget
from windlass_harness.views.runs import fold_runs
from windlass_protocol import (
    CausalIds,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    InputResponse,
    RetryClass,
    RunRequest,
    RunResult,
    RunStatus,
    SourceKind,
    SourceRef,
)

ASKS = [call("mail", {"to": "ada"}), say("done")]


def memory(*answers: Answer, **options: Unpack[RuntimeOptions]) -> AgentRuntime:
    """A runtime in memory with a model that says this."""
    return AgentRuntime.in_memory([shop(ScriptedModel(answers))], **options)


# Typed results


class Price(BaseModel):
    """A price."""

    cents: int
    tags: tuple[str, ...] = ()


class Even(BaseModel):
    """A number with a validator beyond its schema."""

    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


@dataclass(frozen=True)
class Point:
    """A place."""

    x: int
    y: int


def typed() -> RunRequest:
    return request(package_id="shop")


def test_a_typed_run_returns_a_model_and_its_result() -> None:
    async def story() -> None:
        async with memory(say('{"cents": 5, "tags": ["a"]}')) as runtime:
            made = await runtime.run_typed(typed(), Price)
            assert made.output == Price(cents=5, tags=("a",))
            assert made.result.structured_output == {"cents": 5, "tags": ["a"]}
            assert made.output is made.output
            assert made.result == await runtime.handle("r1").wait()
            assert (made.run_id, made.session_id, made.status) == ("r1", "session:r1", RunStatus.COMPLETED)
            assert (made.error, made.reason, made.usage) == (None, None, made.result.usage)
            assert repr(made) == "TypedResult('r1', completed)"

    play(story())


def test_a_typed_run_takes_dataclasses_lists_and_schemas() -> None:
    async def story() -> None:
        answers = [say('{"x": 1, "y": 2}'), say("[1, 2]"), say('{"a": null}'), say("null")]
        async with memory(*answers) as runtime:
            place = await runtime.run_typed(request("r1", package_id="shop"), Point)
            assert place.output == Point(1, 2)
            numbers = await runtime.run_typed(request("r2", package_id="shop"), list[int])
            assert numbers.output == [1, 2]
            schema = {"title": "Any", "type": "object"}
            plain = await runtime.run_typed(request("r3", package_id="shop"), schema)
            assert plain.output == {"a": None}
            nothing = await runtime.run_typed(request("r4", package_id="shop"), {"type": "null"})
            assert nothing.output is None

    play(story())


def test_a_typed_run_replaces_the_contract_of_the_request() -> None:
    async def story() -> None:
        async with memory(say('{"cents": 5}')) as runtime:
            other = (await runtime.resolve_effective_package(typed())).package
            assert other.output_contracts is None
            await runtime.run_typed(typed(), Price)
            state = [event async for event in runtime.handle("r1").events()]
            asked = next(event for event in state if event.type == "output.requested")
            assert '"schemaId": "Price"' in str(asked.data).replace("'", '"')

    play(story())


def test_a_value_that_the_type_refuses_beyond_its_schema_is_an_error_that_does_not_quote_it() -> None:
    async def story() -> None:
        async with memory(*[say('{"number": 77}')] * 3) as runtime:
            with pytest.raises(Rejected) as caught:
                await runtime.run_typed(typed(), Even)
            error = caught.value
            assert error.kind is ErrorKind.STRUCTURED_OUTPUT_FAILURE
            assert "No answer fitted the output contract in 3 attempts" in error.message
            assert "77" not in error.message
            assert error.causal_ids.run_id == "r1"
            assert error.__context__ is None

    play(story())


def test_a_typed_run_that_fails_raises_the_error_of_the_run() -> None:
    async def story() -> None:
        async with memory(say("no"), say("no"), say("no")) as runtime:
            with pytest.raises(Rejected) as caught:
                await runtime.run_typed(typed(), Price)
            sealed = (await runtime.handle("r1").wait()).error
            assert sealed is not None
            assert (caught.value.kind, caught.value.message) == (sealed.kind, sealed.message)
            assert caught.value.causal_ids.run_id == "r1"
            assert caught.value.causal_ids.session_id == "session:r1"

    play(story())


def test_a_typed_run_that_was_cancelled_or_ran_out_of_budget_has_no_value() -> None:
    def ended(status: RunStatus) -> AgentError:
        result = RunResult(run_id="r1", status=status, output="", session_id="s1")
        with pytest.raises(AgentError) as caught:
            typed_result(result, Price)
        return caught.value

    cancelled = ended(RunStatus.CANCELLED)
    assert type(cancelled) is Conflict
    assert (cancelled.kind, cancelled.causal_ids.run_id) == (ErrorKind.CANCELLATION, "r1")
    exhausted = ended(RunStatus.BUDGET_EXHAUSTED)
    assert type(exhausted) is Denied
    assert "budget" in exhausted.message


def test_the_error_of_a_run_keeps_its_class_rules_and_ids() -> None:
    info = ErrorInfo(
        code=ErrorCode.UNAVAILABLE,
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.RETRYABLE,
        message="away",
        causal_ids=CausalIds(call_id="c1"),
        source=SourceRef(kind=SourceKind.USER, id="ada"),
    )
    result = RunResult(run_id="r1", status=RunStatus.FAILED, output="", error=info)
    with pytest.raises(Unavailable) as caught:
        typed_result(result, Price)
    assert caught.value.causal_ids == CausalIds(run_id="r1", call_id="c1")
    assert caught.value.source == info.source


# Waiting


def test_wait_waits_until_the_run_has_ended_for_as_many_as_ask() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        async with memory(Answer("done", gate=gate)) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            waits = [asyncio.create_task(handle.wait()) for _ in range(5)]
            waits.append(asyncio.create_task(runtime.handle("r1").wait(timeout=300)))
            await until(handle, "step.started")
            assert not any(wait.done() for wait in waits)
            gate.set()
            results = await asyncio.gather(*waits)
            assert {result.output for result in results} == {"done"}
            assert await handle.wait() == results[0]

    play(story())


def test_a_wait_that_takes_too_long_ends_and_the_run_goes_on() -> None:
    clock = FakeClock()

    async def story() -> None:
        gate = asyncio.Event()
        runtime = built(CountingStore(), ScriptedModel([Answer("done", gate=gate)]), clock)
        async with runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            before = clock.monotonic()
            with pytest.raises(TimeoutError):
                await handle.wait(timeout=5)
            assert clock.monotonic() - before == pytest.approx(5)
            assert await handle.status() is RunStatus.RUNNING
            gate.set()
            assert (await handle.wait(timeout=300)).output == "done"
            assert (await handle.wait(timeout=0)).output == "done"

    run_in_fake_time(story(), clock=clock)


def built(store: CountingStore, model: ScriptedModel, clock: FakeClock) -> AgentRuntime:
    """A runtime in the time of a clock."""
    return (
        AgentRuntime.builder()
        .options(clock=clock)
        .journal(store)
        .event_bus(Feed(store, clock))
        .content(store)
        .policy(allow_start)
        .agent(shop(model))
        .options(is_attended=True)
        .build()
    )


def test_a_wait_that_is_cancelled_cancels_nothing_else() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        async with memory(Answer("done", gate=gate)) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            wait = asyncio.create_task(handle.wait())
            await until(handle, "step.started")
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait
            gate.set()
            assert (await handle.wait()).output == "done"

    play(story())


@pytest.mark.parametrize(
    "use",
    [
        "wait",
        "status",
        "cancel",
        "requests",
        "run_snapshot",
        "answer",
        "deliveries",
        "events",
        "subscribe_run",
        "terminal_event",
    ],
)
def test_an_unknown_run_is_a_conflict_with_its_id(use: str) -> None:
    async def story() -> None:
        async with memory() as runtime:
            handle = runtime.handle("nobody")
            uses = {
                "wait": handle.wait,
                "status": handle.status,
                "cancel": handle.cancel,
                "requests": handle.open_requests,
                "run_snapshot": lambda: runtime.run_snapshot("nobody"),
                "answer": lambda: handle.answer("request", "approve"),
                "deliveries": lambda: runtime.handle("nobody").deliveries(),
                "events": lambda: anext(aiter(handle.events())),
                "subscribe_run": lambda: runtime.subscribe_run("nobody").open(),
                "terminal_event": lambda: runtime.events().terminal_event("nobody"),
            }
            with pytest.raises(Conflict) as caught:
                await uses[use]()
            error = caught.value
            assert error.kind is ErrorKind.INVALID_STATE_TRANSITION
            assert error.retry is RetryClass.REPAIR_NEEDED
            assert error.message == "unknown run: nobody"
            assert error.causal_ids == CausalIds(run_id="nobody")

    play(story())


# Results


def test_the_result_comes_from_the_journal() -> None:
    async def story() -> None:
        usage = LLMUsage(input_tokens=3, output_tokens=4)
        script = [
            call("look", {"item": "key"}) + Answer(usage=usage),
            say("done", usage=usage),
            fail(Rejected("no", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)),
            say("null"),
        ]
        store = CountingStore()
        runtime = built(store, ScriptedModel(script), FakeClock())
        async with runtime:
            plain = await (await runtime.start_run("shop", "go", run_id="r1", session_id="s1")).wait()
            failed = await (await runtime.start_run("shop", "go", run_id="r2", session_id="s1")).wait()
            null = await (
                await runtime.start_run("shop", "go", run_id="r3", session_id="s1", output={"type": "null"})
            ).wait()
            runs = fold_runs(await store.read("s1")).runs
        assert [run.result for run in runs.values()] == [plain, failed, null]
        assert (plain.output, plain.status) == ("done", RunStatus.COMPLETED)
        assert plain.usage is not None
        assert (plain.usage.input_tokens, plain.usage.output_tokens) == (6, 8)
        assert "structured_output" not in plain.model_fields_set
        assert failed.error is not None
        assert failed.error.kind is ErrorKind.PROVIDER_FAILURE
        assert null.structured_output is None
        assert "structured_output" in null.model_fields_set

    play(story())


def test_a_run_that_uses_up_its_budget_says_so() -> None:
    async def story() -> None:
        async with memory(*ASKS) as runtime:
            handle = await runtime.start_run("shop", "go", budget=Budget(max_steps=0))
            result = await handle.wait()
            assert result.status is RunStatus.BUDGET_EXHAUSTED
            assert result.error is not None
            assert result.error.details == {
                "reason": "budget_exhausted",
                "budgets": [{"name": "steps", "limit": 0, "used": 0}],
            }

    play(story())


# Later


def test_a_handle_can_be_had_after_a_restart_for_a_run_that_waits_and_for_one_that_has_ended(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.db"

    async def open_runtime() -> AgentRuntime:
        return await AgentRuntime.open(path, agents=[shop(ScriptedModel(lambda _: next(answers)))])

    answers = iter([say("first"), *ASKS])

    async def story() -> None:
        async with await open_runtime() as runtime:
            first = await (await runtime.start_run("shop", "go", run_id="r1")).wait()
            waiting = await runtime.start_run("shop", "go", run_id="r2")
            await until(waiting, "run.waiting")
            events = [event.seq async for event in runtime.handle("r1").events()]
        async with await open_runtime() as runtime:
            assert runtime.registered_run_count == 0
            ended = runtime.handle("r1")
            assert await ended.wait(timeout=0) == first
            assert await ended.status() is RunStatus.COMPLETED
            assert [event.seq async for event in ended.events()] == events
            assert [event.seq async for event in ended.events(after=events[1])] == events[2:]
            later = runtime.handle("r2")
            assert await later.status() is RunStatus.WAITING
            assert (await runtime.run_snapshot("r2")).status is RunStatus.WAITING
            (asked,) = await later.open_requests()
            await later.answer(asked.request_id, "approve")
            assert (await later.wait()).output == "done"

    play(story())


class Hasty(SystemClock):
    """A clock for those who cannot wait."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


def test_a_run_that_another_process_drives_can_be_waited_for_answered_and_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        agents = [shop(ScriptedModel([*ASKS, *ASKS]))]
        machine = Machine(Hasty(), new_id, chance)
        driving = await AgentRuntime.open(path, agents=agents, machine=machine, durability="process")
        watching = await AgentRuntime.open(path, agents=agents, machine=machine, durability="process")
        async with driving, watching:
            started = await driving.start_run("shop", "go", run_id="r1")
            handle = watching.handle("r1")
            waiting = asyncio.create_task(handle.wait())
            await until(started, "run.waiting")
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, "approve")
            assert await waiting == await started.wait()
            second = await driving.start_run("shop", "go", run_id="r2")
            await until(second, "run.waiting")
            await watching.handle("r2").cancel()
            assert (await watching.handle("r2").wait()).status is RunStatus.CANCELLED
            assert (await second.wait()).status is RunStatus.CANCELLED

    play(story())


# Snapshots


def test_a_snapshot_has_the_status_of_a_run_from_the_inbox_to_its_end() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        source = SourceRef(kind=SourceKind.USER, id="ada")
        async with memory(Answer("one", gate=gate), say("two")) as runtime:
            await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            second = await runtime.start_run(
                "shop", "go", run_id="r2", session_id="s1", source=source, turn_id="my turn"
            )
            await until(runtime.handle("r1"), "step.started")
            snapshot = await runtime.run_snapshot("r2")
            assert snapshot.status is RunStatus.PENDING
            assert (snapshot.session_id, snapshot.agent_id) == ("s1", "shop")
            assert (snapshot.source, snapshot.turn_id) == (source, "my turn")
            assert snapshot.cancellation_requested is False
            running = await runtime.run_snapshot("r1")
            assert running.status is RunStatus.RUNNING
            assert running.package_fingerprint == snapshot.package_fingerprint
            assert (running.route_id, running.model_id) == (snapshot.route_id, snapshot.model_id)
            gate.set()
            await second.wait()
            done = await runtime.run_snapshot("r2")
            assert done == snapshot.model_copy(update={"status": RunStatus.COMPLETED})

    play(story())


# Errors


NO_KEY = Rejected("no key", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)


@pytest.mark.parametrize(
    ("answers", "budget", "ids"),
    [
        ([fail(NO_KEY)], None, {"turn_id": "turn_0", "step_index": 0}),
        ([call("look", {"item": "x"}), fail(NO_KEY)], None, {"turn_id": "turn_0", "step_index": 1}),
        (
            [call("look", {"item": "x"}), say("done")],
            Budget(max_tool_calls=0),
            {"turn_id": "turn_0", "step_index": 0, "call_id": "call-1"},
        ),
    ],
)
def test_the_error_of_a_run_names_what_it_belongs_to(
    answers: list[Answer], budget: Budget | None, ids: dict[str, Any]
) -> None:
    async def story() -> None:
        async with memory(*answers) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1", budget=budget)
            error = (await handle.wait()).error
            assert error is not None
            assert error.causal_ids == CausalIds(run_id="r1", session_id="s1", **ids)

    play(story())


# Cancelling


def test_a_run_is_cancelled_wherever_it_is() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        async with memory(Answer("one", gate=gate), *ASKS) as runtime:
            first = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            queued = await runtime.start_run("shop", "go", run_id="r2", session_id="s1")
            await until(first, "step.started")
            await queued.cancel(by="ada", reason="not needed")
            await queued.cancel(by="bob", reason="another reason")
            assert (await runtime.run_snapshot("r2")).cancellation_requested is True
            await runtime.cancel_run("r1")
            assert (await first.wait()).status is RunStatus.CANCELLED
            assert (await queued.wait()).status is RunStatus.CANCELLED
            snapshot = await runtime.run_snapshot("r2")
            assert (snapshot.status, snapshot.cancellation_requested) == (RunStatus.CANCELLED, True)

    play(story())


def test_a_run_that_waits_for_people_can_be_cancelled() -> None:
    async def story() -> None:
        async with memory(*ASKS) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            await handle.cancel()
            assert (await handle.wait()).status is RunStatus.CANCELLED
            assert await handle.open_requests() == ()

    play(story())


def test_cancelling_a_run_that_has_ended_changes_nothing() -> None:
    async def story() -> None:
        async with memory(say("done")) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            result = await handle.wait()
            await handle.cancel(reason="too late")
            assert await handle.wait() == result
            snapshot = await runtime.run_snapshot("r1")
            assert (snapshot.status, snapshot.cancellation_requested) == (RunStatus.COMPLETED, False)

    play(story())


def test_a_cancel_shows_at_once_while_a_driver_is_busy() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        async with memory(Answer("one", gate=gate)) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            await until(handle, "step.started")
            await handle.cancel()
            snapshot = await runtime.run_snapshot("r1")
            assert snapshot.cancellation_requested is True
            assert snapshot.status in (RunStatus.CANCELLING, RunStatus.CANCELLED)
            assert await handle.status() in (RunStatus.CANCELLING, RunStatus.CANCELLED)
            assert (await handle.wait()).status is RunStatus.CANCELLED

    play(story())


def test_a_cancel_closes_approvals_with_a_record_and_refuses_later_ones() -> None:
    async def story() -> None:
        async with memory(*ASKS) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            await handle.cancel()
            assert await handle.open_requests() == ()
            with pytest.raises(Conflict, match="the run was cancelled") as refused:
                await handle.answer(asked.request_id, "approve")
            assert refused.value.causal_ids.request_id == asked.request_id
            await handle.wait()
            settled = await until(handle, "approval.settled")
            assert settled.data["outcome"] == "cancelled"
            assert settled.data["requestId"] == asked.request_id

    play(story())


# People


def test_requests_of_a_run_are_not_those_of_another_run_of_its_session() -> None:
    async def story() -> None:
        async with memory(say("one"), *ASKS) as runtime:
            first = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            await first.wait()
            second = await runtime.start_run("shop", "go", run_id="r2", session_id="s1")
            await until(second, "run.waiting")
            (asked,) = await second.open_requests()
            assert await first.open_requests() == ()
            assert await runtime.sessions.open_requests("s1") == (asked,)
            with pytest.raises(Conflict, match="no open request with this id"):
                await first.answer(asked.request_id, "approve")
            assert await second.open_requests() == (asked,)

    play(story())


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"option_id": "maybe"}, Rejected, "unknown option"),
        ({}, Rejected, "has no option"),
        ({"option_id": "approve", "responder": "eve"}, Denied, "this responder may not answer"),
        ({"option_id": "approve", "request_id": "other"}, Conflict, "no open request with this id"),
    ],
    ids=["option", "nothing", "responder", "request"],
)
def test_an_answer_that_does_not_count_is_refused_with_its_ids(
    answer: dict[str, str], error: type[AgentError], message: str
) -> None:
    async def story() -> None:
        async with memory(*ASKS, responders=["ada"]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            response = InputResponse.model_validate(
                {"request_id": asked.request_id, "responder": "ada", **answer}
            )
            with pytest.raises(error, match=message) as caught:
                await runtime.sessions.answer("s1", [response])
            assert type(caught.value) is error
            assert caught.value.kind is ErrorKind.APPROVAL_FAILURE
            ids = CausalIds(session_id="s1", request_id=response.request_id)
            assert caught.value.causal_ids == ids
            assert await handle.open_requests() == (asked,)

    play(story())


def test_an_answer_after_its_time_is_a_conflict() -> None:
    clock = FakeClock()

    async def story() -> None:
        store = CountingStore()
        builder = AgentRuntime.builder().options(clock=clock).journal(store).event_bus(Feed(store, clock))
        builder.content(store).policy(allow_start).agent(shop(ScriptedModel(ASKS))).options(is_attended=True)
        async with builder.options(approval_expires_ms=1_000).build() as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            clock.jump(2)
            with pytest.raises(Conflict, match="expired"):
                await handle.answer(asked.request_id, "approve")

    run_in_fake_time(story(), clock=clock)


# Watching


def test_runs_can_be_watched_by_run_session_agent_and_filter() -> None:
    async def story() -> None:
        async with memory(say("done")) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            await handle.wait()
            ends = EventFilter(types=["run.completed"]).compile()
            streams = (
                runtime.subscribe_all(),
                runtime.sessions.subscribe("s1"),
                runtime.subscribe_run("r1"),
                runtime.subscribe_agent("shop"),
                runtime.subscribe_events(ends),
            )
            for stream in streams:
                async for event in stream:
                    if event.type == "run.completed":
                        break
                await stream.aclose()
            assert runtime.events() is not None

    play(story())


# The inbox


def test_a_secret_is_not_in_the_inbox_either() -> None:
    secret = "correct-horse-battery-staple"

    async def story() -> None:
        gate = asyncio.Event()
        store = CountingStore()
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        builder.policy(allow_start).options(secrets=[secret]).agent(
            shop(ScriptedModel([Answer("x", gate=gate)]))
        )
        async with builder.build() as runtime:
            first = await runtime.start_run("shop", "go", session_id="s1")
            await until(first, "step.started")
            second = await runtime.start_run(
                "shop", f"use {secret}", session_id="s1", metadata={"key": secret}
            )
            await second.cancel(reason=f"because of {secret}")
            items = repr(await store.pending("s1"))
            assert "use " in items
            assert "because of " in items
            assert secret not in items

    play(story())


def test_a_package_is_kept_once_and_looked_for_again_only_when_very_many_were_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windlass.runtime.starts.packages.KNOWN_PACKAGES_MAX", 2)

    async def story() -> None:
        store = CountingStore()
        runtime = built(store, model_of(*"111111"), FakeClock())
        async with runtime:
            for at, title in enumerate(("A", "A", "B", "B", "C", "A")):
                output = {"title": title, "type": "integer"}
                handle = await runtime.start_run("shop", "go", run_id=f"r{at}", output=output)
                assert (await handle.wait()).structured_output == 1
        assert store.writes.count("put") == 4

    play(story())


# Closing


def test_a_runtime_that_could_not_be_opened_lets_go_of_the_file(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        twice = [shop(), shop()]
        with pytest.raises(Rejected, match="duplicate agent or package shop"):
            await AgentRuntime.open(path, agents=twice)
        store = await SqliteStore.open(path)
        await store.aclose()

    play(story())


def test_a_runtime_is_opened_once_however_often_it_is_resumed() -> None:
    async def story() -> None:
        store = CountingStore()
        runtime = built(store, model_of("done"), FakeClock())
        await asyncio.gather(runtime.core.resume(), runtime.core.resume())
        await runtime.core.resume()
        assert store.writes.count("enlist") == 1
        await runtime.aclose()

    play(story())


def test_a_session_of_an_agent_that_this_process_does_not_have_is_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        async with AgentRuntime.open(path, agents=[shop(ScriptedModel(ASKS))]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            await until(handle, "run.waiting")
        other = Agent("other", model=model_of())
        async with AgentRuntime.open(path, agents=[other]) as runtime:
            handle = runtime.handle("r1")
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, "approve")
        after = ScriptedModel([say("done")])
        async with AgentRuntime.open(path, agents=[shop(after)]) as runtime:
            assert (await runtime.handle("r1").wait()).output == "done"

    play(story())


def test_every_event_of_a_run_can_be_read_as_its_record() -> None:
    async def story() -> None:
        store = CountingStore()
        feed = Feed(store, SystemClock())
        runtime = built(store, model_of("done"), FakeClock())
        async with runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            await handle.wait()
            stored = [one for one in await store.read("s1") if one.run_id == "r1"]
            seen = [record_of(event, "s1") async for event in feed.replay_run_from_cursor("r1")]
            assert [(one.seq, one.type, one.data) for one in seen] == [
                (one.seq, one.type, one.data) for one in stored
            ]
            runs = Runs(store, feed, folds=JournalFolds(store), hide=str)
            assert (await runs.row("r1")).status is RunStatus.COMPLETED

    play(story())


@pytest.mark.parametrize("message", ["", []])
def test_a_run_needs_a_message(message: Any) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop()]) as runtime:
            with pytest.raises(Rejected, match="the message is empty: it must hold at least one part"):
                await runtime.start_run("shop", message)

    play(story())


def test_a_budget_is_one_for_a_run_as_for_an_agent() -> None:
    async def story() -> None:
        loose: Any = {"max_steps": 1}
        with pytest.raises(Rejected, match="budget"):
            shop(budget=loose)
        async with AgentRuntime.in_memory([shop()]) as runtime:
            with pytest.raises(Rejected, match=r"must be a Budget, such as Budget\(max_steps=20\)"):
                await runtime.start_run("shop", "go", budget=loose)

    play(story())
