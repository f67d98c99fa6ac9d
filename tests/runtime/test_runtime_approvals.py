"""Approval dispatchers: called once for each request, and again only if the outcome is unknown."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from tests.runtime.runtime_rig import CountingStore, play, shop, until

from windlass.adapters.system import SystemClock
from windlass.agent.policy import allow_start
from windlass.engine.driving.inbox import DISPATCHED
from windlass.errors import Rejected, Unavailable
from windlass.feed import Feed
from windlass.ports.catalog import SessionRow
from windlass.ports.inbox import NewRun, Posted
from windlass.runtime.approvals import DISPATCHES_MAX, ApprovalDesk
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.handle import RunHandle
from windlass.runtime.options import RuntimeOptions
from windlass.testing import FakeClock, ScriptedModel, by_history, call, run_in_fake_time, say
from windlass_protocol import (
    ErrorKind,
    InputRequest,
    InputResponse,
    JsonObject,
    RetryClass,
    RunStatus,
)

ASKS = [call("mail", {"to": "ada"}), say("done")]

Reply = Callable[[InputRequest], Awaitable[InputResponse | None]]


class Desk:
    """A dispatcher that records its requests, and replies as the test says."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.called = asyncio.Event()
        self._reply = reply

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        self.asked.append((request.request_id, session_id, run_id))
        self.called.set()
        return None if self._reply is None else await self._reply(request)


async def approve(request: InputRequest) -> InputResponse:
    return InputResponse(request_id=request.request_id, option_id="approve", responder="ada")


def memory(desk: Desk, responders: Sequence[str] = ()) -> AgentRuntime:
    agent = shop(ScriptedModel(by_history(ASKS)))
    options: RuntimeOptions = {"approval_dispatcher": desk}
    if responders:
        options["responders"] = responders
    return AgentRuntime.in_memory([agent], **options)


def test_an_answer_of_the_dispatcher_is_an_answer_like_any_other() -> None:
    async def story() -> None:
        desk = Desk(approve)
        async with memory(desk, responders=["ada"]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            assert (await handle.wait()).output == "done"
            ((_, session_id, run_id),) = desk.asked
            assert (session_id, run_id) == ("s1", "r1")
            settled = await until(runtime.handle("r1"), "approval.settled")
            assert settled.data["responder"] == "ada"

    play(story())


def test_a_request_is_durable_before_the_dispatcher_is_called() -> None:
    async def story() -> None:
        store = CountingStore()
        seen: list[list[str]] = []

        async def look(request: InputRequest) -> None:
            records = await store.read("s1")
            seen.append([str(one.data) for one in records if one.type == "input.requested"])

        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        builder.policy(allow_start).agent(shop(ScriptedModel(ASKS))).approval_dispatcher(Desk(look))
        async with builder.build() as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, "approve")
            await handle.wait()
            assert asked.request_id in seen[0][0]

    play(story())


def test_a_dispatcher_that_says_nothing_leaves_the_request_to_others() -> None:
    async def story() -> None:
        desk = Desk()
        async with memory(desk) as runtime:
            handle = await runtime.start_run("shop", "go")
            await desk.called.wait()
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, "deny")
            assert (await handle.wait()).status is RunStatus.COMPLETED
            assert len(desk.asked) == 1

    play(story())


async def raises(request: InputRequest) -> None:
    raise ValueError("a secret")


async def refuses(request: InputRequest) -> InputResponse:
    return InputResponse(request_id=request.request_id, option_id="approve", responder="eve")


async def answers_another(request: InputRequest) -> InputResponse:
    return InputResponse(request_id="approval:other", option_id="approve", responder="ada")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (raises, "an approval dispatcher failed: ValueError"),
        (refuses, "the answer of the approval dispatcher was refused: approval_failure"),
        (
            answers_another,
            "the approval dispatcher answered another request than the one it was given",
        ),
    ],
    ids=["it raises", "it may not answer", "it answers another request"],
)
def test_a_dispatcher_that_fails_is_logged_by_kind_and_leaves_the_request_open(
    reply: Reply, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        ear = LogSignal()
        logging.getLogger("windlass.runtime.approvals").addHandler(ear)
        async with memory(Desk(reply), responders=["ada"]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            await ear.heard.wait()
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, "approve", responder="ada")
            assert (await handle.wait()).output == "done"
        logging.getLogger("windlass.runtime.approvals").removeHandler(ear)

    play(story())
    assert [record.getMessage() for record in caplog.records] == [told]
    assert "secret" not in caplog.text


class LogSignal(logging.Handler):
    """A log handler that sets an event."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.set()


def test_a_dispatcher_that_hangs_is_given_up_and_the_request_stays_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()

    async def hang(request: InputRequest) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        store = CountingStore()
        builder = AgentRuntime.builder().options(clock=clock).journal(store).event_bus(Feed(store, clock))
        builder.content(store).policy(allow_start).agent(shop(ScriptedModel(ASKS)))
        async with (
            builder.approval_dispatcher(Desk(hang)).options(approval_timeout_ms=5_000).build() as runtime
        ):
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            await clock.sleep(6)
            assert [one.getMessage() for one in caplog.records] == [
                "an approval dispatcher failed: TimeoutError"
            ]
            assert len(await handle.open_requests()) == 1

    run_in_fake_time(story(), clock=clock)


def test_a_slow_dispatcher_does_not_block_runs_and_is_cancelled_at_close() -> None:
    async def story() -> None:
        ended: list[str] = []

        async def hang(request: InputRequest) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(request.request_id)

        desk = Desk(hang)
        async with memory(desk) as runtime:
            handle = await runtime.start_run("shop", "go")
            await desk.called.wait()
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, "approve")
            assert (await handle.wait()).output == "done"
            assert ended == []
        assert len(ended) == 1

    play(story())


def test_a_request_that_was_dispatched_is_not_dispatched_again_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        first = Desk()
        async with await opened(path, first) as runtime:
            for handle in await asks(runtime, 3):
                await until(handle, "approval.dispatched")
        assert len(first.asked) == 3
        for _ in range(2):
            later = Desk(approve)
            async with await opened(path, later) as runtime:
                new = await runtime.start_run("shop", "go")
                await new.wait()
                if await runtime.handle("r0").status() is RunStatus.WAITING:
                    await answered(runtime.handle("r0"))
                    await runtime.handle("r0").wait()
                assert await runtime.handle("r1").status() is RunStatus.WAITING
            assert [run_id for _, _, run_id in later.asked] == [new.run_id]
        async with await opened(path, Desk()) as runtime:
            types = [event.type async for event in runtime.handle("r0").events()]
        assert types.count("input.requested") == types.count("approval.dispatched") == 1

    play(story())


def test_a_request_that_was_dispatched_with_an_unknown_outcome_is_dispatched_again(tmp_path: Path) -> None:
    async def fails(request: InputRequest) -> None:
        if "r0" in request.request_id:
            raise ValueError
        if "r1" in request.request_id:
            await asyncio.Event().wait()

    async def story() -> None:
        path = tmp_path / "app.db"
        first = Desk(fails)
        async with await opened(path, first) as runtime:
            *_, last = await asks(runtime, 3)
            await until(last, "approval.dispatched")
        assert len(first.asked) == 3
        second = Desk(approve)
        async with await opened(path, second) as runtime:
            for at in (0, 1):
                assert (await runtime.handle(f"r{at}").wait()).output == "done"
        assert {run_id for _, _, run_id in second.asked} == {"r0", "r1"}
        assert {one[0] for one in second.asked} < {one[0] for one in first.asked}

    play(story())


class Full(CountingStore):
    """A store with inboxes that refuse notes."""

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        if kind == DISPATCHED:
            raise Unavailable("full", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
        return await super().post(session_id, kind=kind, key=key, body=body, run=run)


def test_a_dispatch_that_cannot_be_noted_is_logged_and_may_be_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        store, first, second = Full(), Desk(), Desk(approve)
        one, other = on(store, first), on(store, second)
        await asks(one, 1)
        await first.called.wait()
        await other.core.resume()
        assert (await other.handle("r0").wait()).output == "done"
        assert first.asked == second.asked
        await other.aclose()

    play(story())
    assert [one.getMessage() for one in caplog.records] == [
        "the dispatch of a request could not be recorded, and may be repeated: journal_failure"
    ]


def on(store: CountingStore, desk: Desk) -> AgentRuntime:
    builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock()))
    agent = shop(ScriptedModel(by_history(ASKS)))
    return builder.content(store).policy(allow_start).agent(agent).approval_dispatcher(desk).build()


async def asks(runtime: AgentRuntime, count: int) -> list[RunHandle]:
    """Start runs, and wait until each of them asks."""
    handles = [await runtime.start_run("shop", "go", run_id=f"r{at}") for at in range(count)]
    for handle in handles:
        await until(handle, "run.waiting")
    return handles


async def opened(path: Path, desk: Desk) -> AgentRuntime:
    agent = shop(ScriptedModel(by_history(ASKS)))
    return await AgentRuntime.open(path, agents=[agent], approval_dispatcher=desk, durability="process")


async def answered(handle: RunHandle) -> None:
    (asked,) = await handle.open_requests()
    await handle.answer(asked.request_id, "approve")


@pytest.mark.uncounted
def test_requests_of_many_sessions_are_found_again() -> None:
    async def story() -> None:
        store = CountingStore()

        async def fails(_: InputRequest) -> None:
            raise ValueError

        count = DISPATCHES_MAX + 20
        first = on(store, Desk(fails))
        for at in range(count):
            handle = await first.start_run("shop", "go", run_id=f"r{at}")
            await until(handle, "run.waiting")
        desk = Desk(approve)
        second = on(store, desk)
        await second.core.resume()
        for at in range(count):
            await first.handle(f"r{at}").status()
            await second.handle(f"r{at}").wait()
        assert len(desk.asked) == count
        await second.aclose()

    play(story())


class UnreadableCatalogue(CountingStore):
    """A store with an unreadable catalogue."""

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        raise Unavailable("away", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)


def test_a_store_that_is_away_while_open_requests_are_looked_for_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        store = UnreadableCatalogue()
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        builder.policy(allow_start).agent(shop(ScriptedModel(ASKS))).approval_dispatcher(Desk(approve))
        async with builder.build() as runtime:
            handle = await runtime.start_run("shop", "go")
            assert (await handle.wait()).output == "done"

    play(story())
    assert [one.getMessage() for one in caplog.records] == ["open requests cannot be listed: journal_failure"]


def test_a_request_that_comes_while_older_ones_are_looked_for_is_dispatched_once() -> None:
    async def story() -> None:
        gate = asyncio.Event()

        class Slow(CountingStore):
            """A store with a slow catalogue."""

            async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
                await gate.wait()
                return await super().sessions(after=after, limit=limit)

        store = Slow()
        desk = Desk()
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        builder.policy(allow_start).agent(shop(ScriptedModel(ASKS))).approval_dispatcher(desk)
        async with builder.build() as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            await desk.called.wait()
            gate.set()
            await answered(handle)
            await handle.wait()
        assert len(desk.asked) == 1

    play(story())


def test_a_desk_that_was_never_opened_can_be_closed() -> None:
    async def story() -> None:
        async def ignore_answer(session_id: str, responses: object) -> None: ...

        store = CountingStore()
        desk = ApprovalDesk(
            Desk(), Feed(store, SystemClock()), store=store, answer=ignore_answer, timeout_ms=1
        )
        await desk.aclose()

    play(story())


def test_a_session_that_cannot_be_read_hides_no_open_request_of_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        path, agent = tmp_path / "store.db", shop(ScriptedModel(by_history(ASKS)))
        async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
            for name in ("a", "b", "c"):
                await until(await runtime.start_run(agent, "go", session_id=name), "run.waiting")
        database = sqlite3.connect(path)
        database.execute(
            "UPDATE appends SET body = x'00' WHERE session_key ="
            " (SELECT session_key FROM sessions WHERE session_id = 'b')"
        )
        database.commit()
        database.close()
        desk, done = Desk(), asyncio.Event()
        desk.called = Count(2, done)
        async with AgentRuntime.open(path, agents=[agent], durability="process", approval_dispatcher=desk):
            await done.wait()
        assert sorted(session_id for _, session_id, _ in desk.asked) == ["a", "c"]

    with caplog.at_level(logging.ERROR, "windlass.runtime.approvals"):
        play(story())
    assert caplog.messages == ["open requests of session b cannot be read: recovery_repair_needed"]


class Count(asyncio.Event):
    """An event that sets another one after a number of sets."""

    def __init__(self, times: int, done: asyncio.Event) -> None:
        super().__init__()
        self._times = times
        self._done = done

    def set(self) -> None:
        self._times -= 1
        if self._times == 0:
            self._done.set()


def test_a_dispatcher_that_ignores_cancellation_does_not_block_close() -> None:
    async def story() -> None:
        ending = asyncio.Event()

        async def hang(_: InputRequest) -> InputResponse | None:
            while not ending.is_set():
                with suppress(asyncio.CancelledError):
                    await ending.wait()
            return None

        desk = Desk(hang)
        async with memory(desk) as runtime:
            await runtime.start_run("shop", "go", session_id="s1")
            await desk.called.wait()
        ending.set()

    play(story())


def test_answers_may_come_as_any_iterable_and_there_must_be_one() -> None:
    async def story() -> None:
        agent = shop(ScriptedModel(by_history(ASKS)))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            empty: list[object] = [[], (), iter(())]
            for nothing in empty:
                with pytest.raises(Rejected, match="responses is empty"):
                    await runtime.handle("r1").answer_all(cast(Sequence[InputResponse], nothing))
                with pytest.raises(Rejected, match="responses is empty"):
                    await runtime.sessions.answer("s1", cast(Sequence[InputResponse], nothing))
            response = InputResponse(request_id=asked.request_id, option_id="approve")
            await runtime.handle("r1").answer_all(cast(Sequence[InputResponse], iter([response])))
            assert (await handle.wait()).output == "done"

    play(story())
