"""Limits of providers: order, rate, pauses of a provider, cancels and budgets, in fake time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import pairwise
from typing import Final

import pytest
from tests.runtime.engine.compaction_rig import Guide, walk_tool
from tests.runtime.test_outages import KeptStore

from windlass import Agent, AgentRuntime, Budget, LLMUsage, Rejected
from windlass.agent.agent import OBJECT_ROUTE
from windlass.agent.policy import allow_start
from windlass.engine.spending.provider_limits import AT_ONCE_MAX, PER_MINUTE_MAX, TOKENS_PER_MINUTE_MAX
from windlass.feed import Feed
from windlass.parts import Machine, ProviderLimit, ProviderLimits, chance, new_id
from windlass.ports.model import LLMMessage, LLMStreamChunk, ModelFault, ModelUnavailable
from windlass.testing import Answer, FakeClock, ScriptedModel, run_in_fake_time, say
from windlass_protocol import CompactionConfig, Event, JsonObject, RunStatus

HOUR_S: Final = 3_600.0


class SlowModel(ScriptedModel):
    """A model whose answers take ten seconds of the clock; `fails` are its first answers."""

    def __init__(self, clock: FakeClock, *fails: Exception, route_id: str = "acme") -> None:
        usage = LLMUsage(input_tokens=80, output_tokens=20)
        super().__init__(lambda _: say("done", usage=usage), route_id=route_id)
        self._clock, self._fails = clock, list(fails)
        self.begun: list[tuple[str, float]] = []
        """The last message of each call, and when it came."""
        self.at_once = self.most_at_once = 0

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.begun.append((messages[-1].content, self._clock.monotonic()))
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            if self._fails:
                raise self._fails.pop(0)
            await self._clock.sleep(10)
            async for chunk in super().stream(messages, tools=tools, temperature=temperature):
                yield chunk
        finally:
            self.at_once -= 1

    @property
    def starts_s(self) -> list[float]:
        return [at for _, at in self.begun]


def busy(retry_after_ms: int | None) -> ModelUnavailable:
    return ModelUnavailable("rate limit", fault=ModelFault.RATE_LIMIT, retry_after_ms=retry_after_ms)


def opened(clock: FakeClock, agent: Agent, limits: ProviderLimits | None = None) -> AgentRuntime:
    machine = Machine(clock, new_id, chance)
    return AgentRuntime.in_memory([agent], provider_limits=limits or ProviderLimits(), machine=machine)


def limits(
    at_once: int | None = None, per_minute: int | None = None, tokens: int | None = None
) -> ProviderLimits:
    limit = ProviderLimit(at_once=at_once, per_minute=per_minute, tokens_per_minute=tokens)
    return ProviderLimits({"acme": limit})


async def all_of(runtime: AgentRuntime, agent: Agent, count: int) -> list[list[Event]]:
    """Start runs one after the other and return the events of each."""
    handles = [await runtime.start_run(agent, str(number)) for number in range(count)]
    results = await asyncio.gather(*(handle.wait(timeout=HOUR_S) for handle in handles))
    assert {result.status for result in results} == {RunStatus.COMPLETED}
    return [[event async for event in handle.events()] for handle in handles]


def completed(events: list[Event]) -> JsonObject:
    return next(event.data or {} for event in events if event.type == "step.completed")


def test_calls_at_once_are_limited_and_sent_in_the_order_in_which_they_came() -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    async def story() -> list[list[Event]]:
        async with opened(clock, agent, limits(at_once=2)) as runtime:
            return await all_of(runtime, agent, 6)

    runs = run_in_fake_time(story(), clock=clock)
    assert model.most_at_once == 2
    assert [name for name, _ in model.begun] == [str(number) for number in range(6)]
    assert [round(at) for at in model.starts_s] == [0, 0, 10, 10, 20, 20]
    waited = [completed(events).get("queuedMs") for events in runs]
    assert waited[:2] == [None, None]
    assert [round(int(str(ms)), -2) for ms in waited[2:]] == [10_000, 10_000, 20_000, 20_000]


def test_runtimes_that_share_the_object_share_the_limit() -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent, shared = Agent("a", model=model), limits(at_once=1)

    async def story() -> None:
        async with opened(clock, agent, shared) as one, opened(clock, agent, shared) as two:
            await asyncio.gather(all_of(one, agent, 2), all_of(two, agent, 2))

    run_in_fake_time(story(), clock=clock)
    assert model.most_at_once == 1


def test_calls_a_minute_are_limited_in_every_minute() -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    async def story() -> None:
        async with opened(clock, agent, limits(per_minute=2)) as runtime:
            await all_of(runtime, agent, 5)

    run_in_fake_time(story(), clock=clock)
    assert [round(at) for at in model.starts_s] == [0, 0, 60, 60, 120]


def test_a_call_that_waits_is_shown_with_its_reason() -> None:
    clock = FakeClock()
    agent = Agent("a", model=SlowModel(clock))

    async def story() -> Event:
        async with opened(clock, agent, limits(at_once=1)) as runtime:
            await runtime.start_run(agent, "first")
            second = await runtime.start_run(agent, "second")
            async for event in second.events():
                if event.type == "step.queued":
                    return event
            raise AssertionError("the call did not wait")

    event = run_in_fake_time(story(), clock=clock)
    assert event.data is not None
    assert event.index is not None
    assert event.data["provider"] == "acme"
    assert event.data["reason"] == "the limit of provider acme is reached: 1 at once"


def test_a_call_that_waits_can_be_cancelled_and_leaves_its_place_to_the_next() -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    async def story() -> RunStatus:
        async with opened(clock, agent, limits(at_once=1)) as runtime:
            first, second, third = [await runtime.start_run(agent, text) for text in ("1", "2", "3")]
            async for event in second.events():
                if event.type == "step.queued":
                    break
            await second.cancel()
            ended = await second.wait(timeout=HOUR_S)
            assert (await first.wait(timeout=HOUR_S)).output == "done"
            assert (await third.wait(timeout=HOUR_S)).output == "done"
            return ended.status

    assert run_in_fake_time(story(), clock=clock) is RunStatus.CANCELLED
    assert [name for name, _ in model.begun] == ["1", "3"]
    assert round(model.starts_s[1]) == 10


def test_a_restart_while_a_call_waits_continues_the_run() -> None:
    clock, store = FakeClock(), KeptStore()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    def runtime() -> AgentRuntime:
        builder = (
            AgentRuntime.builder()
            .options(clock=clock)
            .journal(store)
            .content(store)
            .options(is_attended=True)
            .agent(agent)
        )
        builder.event_bus(Feed(store, clock)).policy(allow_start).options(provider_limits=limits(at_once=1))
        return builder.build()

    async def story() -> list[Event]:
        async with runtime() as one:
            await one.start_run(agent, "1", run_id="r1")
            second = await one.start_run(agent, "2", run_id="r2")
            async for event in second.events():
                if event.type == "step.queued":
                    break
        async with runtime() as two:
            await two.core.resume()
            for run_id in ("r1", "r2"):
                assert (await two.handle(run_id).wait(timeout=HOUR_S)).output == "done"
            return [event async for event in two.handle("r2").events()]

    events = run_in_fake_time(story(), clock=clock)
    assert sorted(name for name, _ in model.begun) == ["1", "1", "2"]
    codes = [(event.data or {})["code"] for event in events if event.type == "step.retrying"]
    assert codes == ["handed_over"], "the call was not interrupted"


def test_summaries_of_a_compaction_count() -> None:
    clock = FakeClock()
    guide, starts_s = Guide(steps=12, threshold=3_000), list[float]()

    def timed(messages: Sequence[LLMMessage]) -> Answer:
        starts_s.append(clock.monotonic())
        return guide(messages)

    model = ScriptedModel(timed, route_id="acme")
    config = CompactionConfig(threshold=guide.threshold, recent_window_size=4)
    agent = Agent("walker", model=model, tools=[walk_tool()], compaction=config)

    async def story() -> None:
        async with opened(clock, agent, limits(per_minute=1)) as runtime:
            result = await (await runtime.start_run(agent, guide.task)).wait(timeout=10 * HOUR_S)
            assert result.status is RunStatus.COMPLETED

    run_in_fake_time(story(), clock=clock)
    assert guide.summaries > 0
    assert len(starts_s) > guide.steps
    assert all(later - before > 59.9 for before, later in pairwise(starts_s))


def test_a_wait_counts_for_the_time_budget_of_the_run() -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    async def story() -> RunStatus:
        async with opened(clock, agent, limits(per_minute=1)) as runtime:
            await (await runtime.start_run(agent, "1")).wait(timeout=HOUR_S)
            second = await runtime.start_run(agent, "2", budget=Budget(max_wall_ms=20_000))
            return (await second.wait(timeout=HOUR_S)).status

    assert run_in_fake_time(story(), clock=clock) is RunStatus.BUDGET_EXHAUSTED
    assert [name for name, _ in model.begun] == ["1"]


def test_a_pause_that_the_provider_asks_for_holds_back_all_runs() -> None:
    clock = FakeClock()
    model = SlowModel(clock, busy(20_000))
    agent = Agent("a", model=model)

    async def story() -> list[list[Event]]:
        async with opened(clock, agent) as runtime:
            first = await runtime.start_run(agent, "0")
            async for event in first.events():
                if event.type == "step.retrying":
                    break
            rest = await all_of(runtime, agent, 2)
            assert (await first.wait(timeout=HOUR_S)).output == "done"
            return rest

    rest = run_in_fake_time(story(), clock=clock)
    assert len(model.begun) == 4
    assert all(round(at) >= 20 for at in model.starts_s[1:])
    assert all(completed(events).get("queuedMs") for events in rest)


def test_a_long_pause_parks_the_other_runs_without_asking_the_provider() -> None:
    clock = FakeClock()
    model = SlowModel(clock, busy(600_000))
    agent = Agent("a", model=model)

    async def story() -> list[Event]:
        async with opened(clock, agent) as runtime:
            first = await runtime.start_run(agent, "0")
            async for event in first.events():
                if event.type == "run.waiting":
                    break
            [events] = await all_of(runtime, agent, 1)
            return events

    events = run_in_fake_time(story(), clock=clock)
    [waiting] = [event.data or {} for event in events if event.type == "run.waiting"]
    assert (waiting["on"], waiting["reason"]) == (
        "provider",
        "the provider acme asked all calls to wait: rate limit",
    )
    assert len(model.begun) == 3
    assert all(round(at) >= 600 for at in model.starts_s[1:])


def test_a_long_pause_sends_the_other_runs_to_their_next_model() -> None:
    clock = FakeClock()
    away, other = SlowModel(clock, busy(600_000)), SlowModel(clock, route_id="other")
    agent = Agent("a", model=[away, other])

    async def story() -> None:
        async with opened(clock, agent) as runtime:
            await all_of(runtime, agent, 1)
            await all_of(runtime, agent, 1)

    run_in_fake_time(story(), clock=clock)
    assert (len(away.begun), len(other.begun)) == (1, 2)


@pytest.mark.parametrize(
    ("retry_after_ms", "first_route", "second_route"),
    [(600_000, "acme", "other"), (600_000, OBJECT_ROUTE, OBJECT_ROUTE), (None, "acme", "acme")],
    ids=["another provider", "objects without a route", "no Retry-After"],
)
def test_only_a_named_pause_of_the_same_provider_holds_back(
    retry_after_ms: int | None, first_route: str, second_route: str
) -> None:
    clock = FakeClock()
    away = SlowModel(clock, busy(retry_after_ms), route_id=first_route)
    other = SlowModel(clock, route_id=second_route)
    first, second = Agent("a", model=away), Agent("b", model=other)

    async def story() -> None:
        shared = ProviderLimits()
        async with opened(clock, first, shared) as one, opened(clock, second, shared) as two:
            handle = await one.start_run(first, "0")
            async for event in handle.events():
                if event.type == "step.retrying":
                    break
            await all_of(two, second, 1)

    run_in_fake_time(story(), clock=clock)
    assert other.starts_s[0] < 10


def test_a_limit_that_cannot_be_used_is_refused() -> None:
    assert str(ProviderLimit()) == "without a limit"
    assert str(ProviderLimit(AT_ONCE_MAX, PER_MINUTE_MAX)) == "10,000 at once, 100,000 a minute"
    assert str(ProviderLimit(tokens_per_minute=TOKENS_PER_MINUTE_MAX)) == "1,000,000,000 tokens a minute"
    with pytest.raises(Rejected, match="tokens_per_minute must be 1 to 1,000,000,000"):
        ProviderLimit(tokens_per_minute=TOKENS_PER_MINUTE_MAX + 1)
    for wrong in (0, AT_ONCE_MAX + 1, True, "8"):
        with pytest.raises(Rejected, match="at_once must be"):
            ProviderLimit(at_once=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Rejected, match="per_minute must be 1 to 100,000"):
        ProviderLimit(per_minute=PER_MINUTE_MAX + 1)
    with pytest.raises(Rejected, match=r"the limit of acme must be a ProviderLimit\(…\), found int"):
        ProviderLimits({"acme": 8})  # pyright: ignore[reportArgumentType]
    with pytest.raises(Rejected, match="provider_limits must be ProviderLimits"):
        AgentRuntime.in_memory([], provider_limits={"acme": 8})  # pyright: ignore[reportArgumentType]
    assert "at_once=8" in repr(limits(at_once=8))


@pytest.mark.parametrize(
    ("tokens", "starts"),
    [
        # Ten seconds and 100 tokens each. The first calls are sent together: nothing is known of them.
        (250, [0, 0, 0, 0, 70, 70]),
        (1_000, [0, 0, 0, 0, 10, 10]),
        (None, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_calls_wait_while_the_tokens_of_a_minute_are_spent(tokens: int | None, starts: list[float]) -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    async def story() -> None:
        at_once = None if tokens is None else 4
        async with opened(clock, agent, limits(at_once=at_once, tokens=tokens)) as runtime:
            await all_of(runtime, agent, 6)

    began = clock.monotonic()
    run_in_fake_time(story(), clock=clock)
    assert [round(at - began) for at in model.starts_s] == starts


def test_a_call_under_way_counts_with_the_tokens_of_the_last_one() -> None:
    clock = FakeClock()
    model = SlowModel(clock)
    agent = Agent("a", model=model)

    async def story() -> None:
        async with opened(clock, agent, limits(tokens=250)) as runtime:
            await all_of(runtime, agent, 1)
            await clock.sleep(60)
            await all_of(runtime, agent, 4)

    began = clock.monotonic()
    run_in_fake_time(story(), clock=clock)
    # Three of them are expected to use 300 tokens; when they have, the fourth waits for a minute.
    assert [round(at - began) for at in model.starts_s] == [0, 70, 70, 70, 140]


@pytest.mark.parametrize(
    ("retry_after_ms", "told"), [(None, "next attempt in"), (60_000, "the run waits until")]
)
def test_each_retry_is_logged(
    retry_after_ms: int | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    agent = Agent("a", model=SlowModel(clock, busy(retry_after_ms)))

    async def story() -> None:
        async with opened(clock, agent) as runtime:
            await all_of(runtime, agent, 1)

    with caplog.at_level(logging.WARNING, "windlass"):
        run_in_fake_time(story(), clock=clock)
    [line] = [one for one in caplog.records if "rate limit" in one.getMessage()]
    assert told in line.getMessage()
    said = getattr(line, "windlass", {})
    assert (said["agentId"], said["code"]) == ("a", "unavailable")
    assert said["runId"] in line.getMessage()
