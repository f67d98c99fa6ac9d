"""The first answer to a request counts: every other answer is refused, with the first one."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.policy import allow_start
from windlass.catalog import SettledRequest
from windlass.engine.driving.inbox import ANSWER
from windlass.errors import Conflict
from windlass.feed import Feed
from windlass.ports.inbox import STEER, Posted
from windlass.ports.journal import Appended, Batch
from windlass.ports.listing import OpenRequest
from windlass.runtime.handle import RunHandle
from windlass.runtime.requests import Approval
from windlass.testing import FakeClock, ScriptedModel, by_history, call, run_in_fake_time, say
from windlass.tools.question import ask_question
from windlass_protocol import InputRequest, InputResponse, JsonObject, RunStatus

PAID: list[int] = []


@tool(mode="external")
async def pay(cents: int) -> str:
    """Pay."""
    PAID.append(cents)
    return f"paid {cents}"


def clerk() -> Agent:
    script = [call("pay", {"cents": 100}), say("done"), say("more")]
    return Agent("clerk", model=ScriptedModel(by_history(script)), tools=[pay])


def asker() -> Agent:
    question = call("ask_question", {"prompt": "Which?", "allow_freeform": True})
    return Agent("asker", model=ScriptedModel(by_history([question, say("done")])), tools=[ask_question])


Write = Callable[[], Awaitable[Posted]]
Hold = Callable[[Write], Awaitable[Posted]]


def hold_posts(runtime: AgentRuntime, kind: str, hold: Hold) -> None:
    """Let a function decide when the inbox items of a kind are written."""
    store = runtime.core.ports.store
    assert store is not None
    post = store.post

    async def held(session_id: str, **parts: Any) -> Posted:
        write = lambda: post(session_id, **parts)  # noqa: E731
        return await (hold(write) if parts["kind"] == kind else write())

    store.post = held  # type: ignore[method-assign] - a process that is slow at this point


@asynccontextmanager
async def two_processes(path: Path, agent: Agent) -> AsyncGenerator[tuple[AgentRuntime, AgentRuntime]]:
    """Two runtimes on one store; the first one drives the runs."""
    async with (
        AgentRuntime.open(path / "app.db", agents=[agent]) as first,
        AgentRuntime.open(path / "app.db", agents=[agent], is_driving=False) as second,
    ):
        yield first, second


async def waiting(handle: RunHandle) -> InputRequest:
    await until(handle, "run.waiting")
    [request] = await handle.open_requests()
    return request


async def second_answer(
    path: Path, agent: Agent, first: JsonObject, second: JsonObject
) -> tuple[Conflict, list[JsonObject]]:
    """Answer a request in two processes, and return the error of the second and the records.

    Both read that the request is open; the second writes after the first answer has settled it.
    """
    PAID.clear()
    async with two_processes(path, agent) as (here, there):
        handle = await here.start_run(agent.agent_id, "go", session_id="s1")
        request = await waiting(handle)

        async def after_the_first(write: Write) -> Posted:
            await here.sessions.answer("s1", [response(request, first)])
            await handle.wait()
            return await write()

        hold_posts(there, ANSWER, after_the_first)
        with pytest.raises(Conflict) as refused:
            await there.sessions.answer("s1", [response(request, second)])
        await until_taken(here, request.request_id)
        records = await here.sessions.records("s1", limit=1_000)
        return refused.value, [{"type": record.type, **record.data} for record in records]


async def until_taken(runtime: AgentRuntime, request_id: str) -> None:
    """Wait for the record of an answer that does not count."""
    async for event in runtime.events().subscribe_session("s1"):
        if event.type == "approval.candidate" and event.data["requestId"] == request_id:
            return


def response(request: InputRequest, parts: JsonObject) -> InputResponse:
    return InputResponse.model_validate({"request_id": request.request_id, **parts})


def resolution_of(records: list[JsonObject]) -> Any:
    [resolutions] = [record["resolutions"] for record in records if record["type"] == "input.resolved"]
    assert isinstance(resolutions, list)
    [resolution] = resolutions
    return resolution


def test_of_two_people_who_approve_at_once_one_is_refused_with_the_name_of_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        ann: JsonObject = {"option_id": "approve", "responder": "ann", "arguments": {"cents": 7}}
        bob: JsonObject = {
            "option_id": "approve",
            "responder": "bob",
            "arguments": {"cents": 9},
            "text": "ok",
        }
        conflict, records = await second_answer(tmp_path, clerk(), ann, bob)
        assert "already settled: approved (approve) by ann, at 20" in conflict.message
        assert PAID == [7]
        first = resolution_of(records)
        assert (first["response"]["responder"], first["response"]["arguments"]) == ("ann", {"cents": 7})
        [candidate] = [record for record in records if record["type"] == "approval.candidate"]
        assert {name: candidate[name] for name in ("responder", "optionId", "text", "arguments")} == {
            "responder": "bob",
            "optionId": "approve",
            "text": "ok",
            "arguments": {"cents": 9},
        }
        assert candidate["answerId"] != first["answerId"]

    play(story())


def test_of_two_texts_the_second_is_refused_and_kept(tmp_path: Path) -> None:
    async def story() -> None:
        ann: JsonObject = {"text": "blue", "responder": "ann"}
        conflict, records = await second_answer(tmp_path, asker(), ann, {"text": "red", "responder": "bob"})
        assert "already settled: answered by ann" in conflict.message
        assert resolution_of(records)["response"]["text"] == "blue"
        [candidate] = [record for record in records if record["type"] == "approval.candidate"]
        assert (candidate["responder"], candidate["text"]) == ("bob", "red")

    play(story())


def test_the_same_answer_of_another_person_or_of_nobody_is_refused_too(tmp_path: Path) -> None:
    async def story() -> None:
        for number, second in enumerate([{"responder": "bob"}, {}, {"responder": "ann"}]):
            folder = tmp_path / str(number)
            folder.mkdir()
            ann: JsonObject = {"option_id": "approve", "responder": "ann"}
            conflict, _ = await second_answer(folder, clerk(), ann, {"option_id": "approve", **second})
            assert "by ann" in conflict.message
            assert PAID == [100]

    play(story())


def test_an_answer_that_waits_in_the_inbox_is_named_to_the_second_person(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            request = await waiting(await runtime.start_run("clerk", "go", session_id="s1"))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[]) as runtime:
            await runtime.sessions.answer(
                "s1", [response(request, {"option_id": "deny", "responder": "ann"})]
            )
            with pytest.raises(Conflict, match=r"answered already \(deny\) by ann, at 20\d\d-.*waits for"):
                await runtime.sessions.answer(
                    "s1", [response(request, {"option_id": "deny", "responder": "bob"})]
                )

    play(story())


@pytest.mark.parametrize("moment", ["before it is taken", "after it is taken", "while it is written"])
def test_an_answer_with_the_same_key_is_accepted_again(moment: str, tmp_path: Path) -> None:
    async def story() -> None:
        PAID.clear()
        is_early = moment == "before it is taken"
        async with two_processes(tmp_path, clerk()) as (here, there):
            handle = await here.start_run("clerk", "go", session_id="s1")
            request = await waiting(handle)
            answer = [response(request, {"option_id": "approve", "responder": "ann"})]
            if moment == "while it is written":

                async def after_the_first(write: Write) -> Posted:
                    await here.sessions.answer("s1", answer, key="k")
                    return await write()

                hold_posts(there, ANSWER, after_the_first)
                await there.sessions.answer("s1", answer, key="k")
            elif is_early:
                await here.aclose()
                await there.sessions.answer("s1", answer, key="k")
            else:
                await here.sessions.answer("s1", answer, key="k")
                await handle.wait()
            await there.sessions.answer("s1", answer, key="k")
            other = [response(request, {"option_id": "deny", "responder": "ann"})]
            with pytest.raises(Conflict):
                await there.sessions.answer("s1", other, key="k")
            with pytest.raises(Conflict, match="by ann"):
                await there.sessions.answer("s1", answer)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            assert (await runtime.handle(handle.run_id).wait()).status is RunStatus.COMPLETED
            assert PAID == [100]

    play(story())


@pytest.mark.parametrize("closer", ["a cancel", "a message"])
def test_an_answer_behind_an_item_that_closes_its_request_is_refused(closer: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1")
            request = await waiting(handle)
        # No process drives the run: the items wait in the inbox.
        async with (
            AgentRuntime.open(tmp_path / "app.db", agents=[clerk()], is_driving=False) as here,
            AgentRuntime.open(tmp_path / "app.db", agents=[clerk()], is_driving=False) as there,
        ):

            async def after_the_closer(write: Write) -> Posted:
                if closer == "a cancel":
                    await there.cancel_run(handle.run_id)
                else:
                    await there.steer("clerk", "Wait!", session_id="s1")
                return await write()

            hold_posts(here, ANSWER, after_the_closer)
            with pytest.raises(Conflict, match="which closed its requests"):
                await here.sessions.answer(
                    "s1", [response(request, {"option_id": "approve", "responder": "ann"})]
                )

    play(story())


def test_a_message_with_an_answer_that_was_not_the_first_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_processes(tmp_path, asker()) as (here, there):
            handle = await here.start_run("asker", "go", session_id="s1")
            request = await waiting(handle)

            async def after_the_first(write: Write) -> Posted:
                await here.sessions.answer("s1", [response(request, {"text": "blue", "responder": "ann"})])
                await handle.wait()
                return await write()

            hold_posts(there, STEER, after_the_first)
            answers = [response(request, {"text": "red", "responder": "bob"})]
            with pytest.raises(Conflict, match="already settled: answered by ann"):
                await there.steer("asker", "And hurry.", session_id="s1", responses=answers)

    play(story())


def test_a_request_says_why_its_answer_was_not_the_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                assert await request.deny("no", by="ann")
                await until(handle, "approval.settled")
                assert request.conflict is None
                assert not await request.approve(by="bob")
                assert request.conflict is not None
                assert "by ann" in request.conflict.message
                settled = await runtime.sessions.request(request.request_id)
                assert isinstance(settled, SettledRequest)
                assert settled.responder == "ann"

    play(story())


def test_answers_at_once_in_one_process_count_once(tmp_path: Path) -> None:
    async def story() -> None:
        PAID.clear()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1")
            request = await waiting(handle)

            async def answer(name: str) -> str | None:
                try:
                    await handle.answer(request.request_id, "approve", responder=name)
                except Conflict as error:
                    return error.message
                return None

            conflicts = await asyncio.gather(*(answer(f"p{number}") for number in range(8)))
            [first] = [number for number, conflict in enumerate(conflicts) if conflict is None]
            assert all(f"by p{first}" in conflict for conflict in conflicts if conflict is not None)
            await handle.wait()
            assert PAID == [100]

    play(story())


EXPIRES_MS = 10_000


def expiring(clock: FakeClock, store: MemoryStore, *, is_driving: bool = True) -> AgentRuntime:
    """A runtime with requests that expire."""
    builder = (
        AgentRuntime.builder()
        .options(clock=clock)
        .journal(store)
        .event_bus(Feed(store, clock))
        .content(store)
    )
    builder = builder.policy(allow_start).agent(clerk()).options(approval_expires_ms=EXPIRES_MS)
    return builder.options(is_attended=True, is_driving=is_driving).build()


class SharedStore(MemoryStore):
    """A store that outlives the runtimes that use it."""

    async def aclose(self) -> None:
        """Stay open."""


class HeldExpiry(MemoryStore):
    """A store that is slow to append the expiry of a request."""

    def __init__(self) -> None:
        super().__init__()
        self.decided, self.released, self.looked_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def append(self, batch: Batch) -> Appended:
        if any(draft.type == "approval.settled" for draft in batch.drafts):
            self.decided.set()
            await self.released.wait()
        return await super().append(batch)

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        request = await super().find_request(request_id)
        if self.decided.is_set():
            self.looked_up.set()
        return request


async def outcomes(store: MemoryStore) -> list[JsonValue]:
    """Return how the requests of the session were settled, in order."""
    records = await store.read("s1")
    return [record.data["outcome"] for record in records if record.type == "approval.settled"]


def test_an_answer_that_is_posted_while_the_expiry_is_recorded_is_refused() -> None:
    clock = FakeClock()
    PAID.clear()

    async def story() -> None:
        store = HeldExpiry()
        async with expiring(clock, store) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1")
            request = await waiting(handle)

            async def after_the_decision(write: Write) -> Posted:
                await store.decided.wait()
                return await write()

            hold_posts(runtime, ANSWER, after_the_decision)
            await clock.sleep(EXPIRES_MS / 1_000 - 0.001)
            answering = asyncio.create_task(handle.answer(request.request_id, "approve", responder="ann"))
            await store.looked_up.wait()
            store.released.set()
            with pytest.raises(Conflict, match="already settled: expired"):
                await answering
            assert (await handle.wait()).status is RunStatus.COMPLETED
            assert await outcomes(store) == ["expired"]
        assert PAID == []

    run_in_fake_time(story(), clock=clock)


def test_an_answer_in_the_last_second_of_its_request_counts() -> None:
    clock = FakeClock()
    PAID.clear()

    async def story() -> None:
        async with expiring(clock, MemoryStore()) as runtime:
            handle = await runtime.start_run("clerk", "go")
            request = await waiting(handle)
            await clock.sleep(EXPIRES_MS / 1_000 - 0.001)
            answered_at = clock.monotonic()
            await handle.answer(request.request_id, "approve")
            assert clock.monotonic() == answered_at
            await handle.wait()
        assert PAID == [100]

    run_in_fake_time(story(), clock=clock)


def test_an_answer_in_the_last_second_without_a_driver_settles_its_request_later() -> None:
    clock = FakeClock()
    PAID.clear()

    async def story() -> None:
        store = SharedStore()
        async with expiring(clock, store) as runtime:
            handle = await runtime.start_run("clerk", "go", run_id="r1", session_id="s1")
            request = await waiting(handle)
        await clock.sleep(EXPIRES_MS / 1_000 - 0.001)
        async with expiring(clock, store, is_driving=False) as runtime:
            await runtime.handle("r1").answer_all(
                [response(request, {"option_id": "approve", "responder": "ann"})]
            )
        async with expiring(clock, store) as runtime:
            await runtime.handle("r1").wait()
        # The consent has lapsed when a process takes it, so the person is asked again.
        assert await outcomes(store) == ["approved", "expired"]
        assert PAID == []

    run_in_fake_time(story(), clock=clock)
