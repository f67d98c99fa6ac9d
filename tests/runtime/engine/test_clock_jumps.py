"""Wall clock jumps while a session waits and while a run is active."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import pytest

from windlass import Agent, AgentRuntime, Budget, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.policy import allow_start
from windlass.engine.driving.engine import SWEEP_S
from windlass.errors import Unavailable
from windlass.feed import Feed
from windlass.ports.journal import Appended, Batch, Standing
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.testing import Answer, FakeClock, ScriptedModel, call, fail, run_in_fake_time, say
from windlass_harness.loop.rules import Rules
from windlass_harness.retry import RetryPolicy
from windlass_protocol import ErrorKind, JsonObject, RetryClass, RunStatus

DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0
SHORT_S: Final = 20.0
LONG_S: Final = 120.0
SLACK_S: Final = 2 * SWEEP_S
RULES: Final = Rules(retry=RetryPolicy(base_delay_ms=20_000, max_delay_ms=20_000, jitter=False))


def busy(after_s: float | None = None) -> Answer:
    after_ms = None if after_s is None else int(after_s * 1_000)
    facts: dict[str, Any] = {"kind": ErrorKind.PROVIDER_FAILURE, "retry": RetryClass.RETRYABLE}
    return fail(Unavailable("busy", retry_after_ms=after_ms, **facts))


class TimedModel(ScriptedModel):
    """A model that notes when it is asked, by the clock that does not jump."""

    def __init__(self, script: Iterable[Answer], clock: FakeClock) -> None:
        super().__init__(script)
        self._pause_clock = clock
        self.asked_s: list[float] = []

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.asked_s.append(self._pause_clock.monotonic())
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk


class CountingStore(MemoryStore):
    """A store that counts its writes, and survives its runtime."""

    append_count = 0
    during: Callable[[Batch], Awaitable[None]] | None = None
    """Called before an append."""

    async def aclose(self) -> None:
        pass

    async def append(self, batch: Batch) -> Appended:
        self.append_count += 1
        if self.during is not None:
            await self.during(batch)
        return await super().append(batch)


class Scene:
    """A runtime with clocks that the test sets."""

    def __init__(
        self, *script: Answer, clock: FakeClock | None = None, store: CountingStore | None = None
    ) -> None:
        self.clock, self.store = clock or FakeClock(), store or CountingStore()
        self.model = TimedModel(script, self.clock)

        @tool(mode="safe_write", effect="once", timeout=30)
        async def work() -> str:
            """Take ten seconds."""
            await self.clock.sleep(10)
            return "worked"

        @tool(mode="external")
        async def mail() -> str:
            """Ask first."""
            return "sent"

        agent = Agent("shop", model=self.model, tools=[work, mail])
        builder = (
            AgentRuntime.builder()
            .options(clock=self.clock)
            .journal(self.store)
            .content(self.store)
            .agent(agent)
        )
        builder.event_bus(Feed(self.store, self.clock)).policy(allow_start).options(
            is_attended=True, rules=RULES
        )
        self.runtime = builder.options(approval_expires_ms=int(HOUR_S * 1_000)).build()

    async def standing(self) -> Standing | None:
        row = await self.store.session("s1")
        return None if row is None else row.standing


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S, 15.0, -15.0, -1.0])
@pytest.mark.parametrize("is_rung", [False, True], ids=["undisturbed", "an item arrives"])
def test_a_pause_of_a_driver_ends_by_the_clock_that_does_not_jump(jump_s: float, is_rung: bool) -> None:
    scene = Scene(busy(), say("one"), say("two"))

    async def story() -> None:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(5)
            scene.clock.jump(jump_s)
            if is_rung:
                await scene.clock.sleep(1)
                await runtime.start_run("shop", "go", session_id="s1", run_id="r2")
            assert (await handle.wait(timeout=HOUR_S)).output == "one"

    run_in_fake_time(story(), clock=scene.clock)
    first_s, second_s = scene.model.asked_s[:2]
    assert SHORT_S <= second_s - first_s <= SHORT_S + 0.1


def test_a_pause_that_ends_while_its_record_is_written_is_over_when_the_clock_was_set_back() -> None:
    """The session was parked until the wall clock reached the end of the pause, a day later."""
    scene = Scene(busy(), say("one"))

    async def set_back(batch: Batch) -> None:
        if any(draft.type == "step.retrying" for draft in batch.drafts):
            scene.clock.jump(-DAY_S)
            await scene.clock.sleep(SHORT_S + 1)

    async def story() -> None:
        scene.store.during = set_back
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=HOUR_S)).output == "one"

    run_in_fake_time(story(), clock=scene.clock)
    first_s, second_s = scene.model.asked_s
    assert second_s - first_s <= SHORT_S + 2


@pytest.mark.parametrize("jump_s", [DAY_S, 40.0, -DAY_S, -40.0])
@pytest.mark.parametrize("is_rung", [False, True], ids=["undisturbed", "an item arrives"])
def test_a_parked_pause_ends_by_the_clock_that_does_not_jump(jump_s: float, is_rung: bool) -> None:
    scene = Scene(busy(LONG_S), say("one"), say("two"))

    async def story() -> None:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(10)
            assert await scene.standing() is Standing.WAITING
            scene.clock.jump(jump_s)
            written = scene.store.append_count
            await scene.clock.sleep(40)
            if is_rung:
                await runtime.start_run("shop", "go", session_id="s1", run_id="r2")
                await scene.clock.sleep(5)
            assert await scene.standing() is Standing.WAITING
            assert scene.store.append_count - written <= 2, "it is looked after once, not again and again"
            assert (await handle.wait(timeout=2 * DAY_S)).output == "one"

    run_in_fake_time(story(), clock=scene.clock)
    first_s, second_s = scene.model.asked_s[:2]
    assert LONG_S <= second_s - first_s <= LONG_S + SLACK_S


def test_a_pause_goes_by_the_wall_clock_when_its_process_is_gone() -> None:
    """All that is left of it is a row, and that has no other clock."""
    scene = Scene(busy(LONG_S))
    later = Scene(say("one"), clock=scene.clock, store=scene.store)

    async def story() -> None:
        async with scene.runtime as runtime:
            await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(10)
        scene.clock.jump(DAY_S)
        async with later.runtime as runtime:
            assert (await runtime.handle("r1").wait(timeout=SLACK_S)).output == "one"

    run_in_fake_time(story(), clock=scene.clock)


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
def test_an_active_run_is_not_affected_by_a_clock_jump(jump_s: float) -> None:
    scene = Scene(call("work"), say("one"))

    async def story() -> float:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(5)
            scene.clock.jump(jump_s)
            result = await handle.wait(timeout=HOUR_S)
            assert (result.status, result.output) == (RunStatus.COMPLETED, "one")
            types = [record.type for record in await scene.store.read("s1")]
            assert types.count("action.started") == types.count("action.result") == 1
            assert "recovery.started" not in types, "no owner was taken for dead"
            return scene.clock.monotonic()

    assert run_in_fake_time(story(), clock=scene.clock) <= 11


def test_a_request_expires_at_once_when_the_clock_is_put_behind_its_time() -> None:
    scene = Scene(call("mail"), say("one"))

    async def story() -> None:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(10)
            assert len(await handle.open_requests()) == 1
            scene.clock.jump(DAY_S)
            assert (await handle.wait(timeout=SLACK_S)).output == "one"
            settled = [one for one in await scene.store.read("s1") if one.type == "approval.settled"]
            assert [one.data["outcome"] for one in settled] == ["expired"]

    run_in_fake_time(story(), clock=scene.clock)


@pytest.mark.uncounted
def test_a_request_stays_open_until_the_wall_clock_says_that_it_has_expired() -> None:
    scene = Scene(call("mail"), say("one"))

    async def story() -> None:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(10)
            scene.clock.jump(-DAY_S)
            written = scene.store.append_count
            await scene.clock.sleep(3 * HOUR_S)
            assert len(await handle.open_requests()) == 1
            assert await scene.standing() is Standing.WAITING
            assert scene.store.append_count - written <= 2, "it is looked after once, not again and again"
            await scene.clock.sleep(DAY_S - 3 * HOUR_S)
            assert len(await handle.open_requests()) == 1
            await handle.wait(timeout=HOUR_S + SLACK_S)

    run_in_fake_time(story(), clock=scene.clock)


def test_an_owner_with_a_clock_set_back_keeps_its_sessions_and_can_close() -> None:
    scene = Scene(busy(LONG_S), say("one"))

    async def story() -> None:
        async with scene.runtime as runtime:
            await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(10)
            scene.clock.jump(-DAY_S)
            await scene.clock.sleep(SLACK_S)
        assert scene.clock.sleepers == 0, "no task is left to wake it"

    run_in_fake_time(story(), clock=scene.clock)


@pytest.mark.parametrize("jump_s", [0.0, HOUR_S, -HOUR_S])
def test_the_wall_budget_of_a_run_goes_by_the_clock_that_does_not_jump(jump_s: float) -> None:
    scene = Scene(*[call("work", {}) for _ in range(9)])

    async def story() -> None:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", budget=Budget(max_wall_ms=25_000))
            await scene.clock.sleep(15)
            scene.clock.jump(jump_s)
            result = await handle.wait(timeout=DAY_S)
            assert result.status is RunStatus.BUDGET_EXHAUSTED
            assert result.error is not None
            assert "30000 of 25000 milliseconds" in result.error.message.replace(",", "")

    run_in_fake_time(story(), clock=scene.clock)
    assert [round(asked_s - scene.model.asked_s[0]) for asked_s in scene.model.asked_s] == [0, 10, 20]


@pytest.mark.parametrize("jump_s", [0.0, HOUR_S, -HOUR_S])
def test_the_timeout_of_a_model_call_uses_the_monotonic_clock(jump_s: float) -> None:
    scene = Scene(call("work", {}), say("done"))

    async def story() -> None:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("shop", "go", budget=Budget(max_wall_ms=25_000))
            await scene.clock.sleep(5)
            scene.clock.jump(jump_s)
            assert (await handle.wait(timeout=DAY_S)).output == "done"

    run_in_fake_time(story(), clock=scene.clock)
