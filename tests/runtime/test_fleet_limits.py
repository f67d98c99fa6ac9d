"""Limits of providers that several processes share: the counts of the store, and gates in fake time."""

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from windlass.adapters.journals.rules import misconfiguration, unavailable
from windlass.engine.spending.provider_limits import RuntimeLimits
from windlass.errors import Rejected
from windlass.parts import ProviderLimit, ProviderLimits
from windlass.ports.model import ModelFault, ModelUnavailable
from windlass.ports.permits import PERMIT_LEASE_MS, PERMIT_POLL_MS, PermitAsk, PermitGrant
from windlass.postgres.permits import STARTS_MS, TICK_MS, PermitState, schema_of_limits
from windlass.testing import FakeClock, run_in_fake_time
from windlass_harness.retry import RETRY_AFTER_MS_MAX
from windlass_protocol.generated import records
from windlass_server.tenants import schema_name

NOW_MS: Final = 1_000_000
MINUTE_S: Final = 60.0


def ask(holder: str, number: int, **told: Any) -> PermitAsk:
    given: dict[str, Any] = {"at_once": 4, "per_minute": None, "tokens_per_minute": None, "held": 0, **told}
    return PermitAsk("acme", holder, number, **given)


def empty() -> PermitState:
    return PermitState.read("{}")


def test_permits_at_once_never_exceed_the_limit_and_come_back_when_they_are_not_told_of() -> None:
    state = empty()
    assert state.settle(ask("a", 1, wants=3), NOW_MS).count == 3
    assert state.settle(ask("b", 1, wants=3), NOW_MS).count == 1
    told = state.settle(ask("b", 2, held=1, wants=2), NOW_MS)
    assert (told.count, told.is_contended, told.retry_ms) == (0, False, PERMIT_POLL_MS)
    assert state.settle(ask("a", 2, held=2), NOW_MS) == PermitGrant(0, NOW_MS, True, PERMIT_POLL_MS, 0)
    assert state.settle(ask("b", 3, held=1, wants=2), NOW_MS).count == 1


def test_the_permits_of_a_dead_process_come_back_at_the_end_of_its_lease() -> None:
    state = empty()
    state.settle(ask("a", 1, wants=4), NOW_MS)
    assert state.settle(ask("b", 1, wants=4), NOW_MS + PERMIT_LEASE_MS - 1).count == 0
    assert state.settle(ask("b", 2, wants=4), NOW_MS + PERMIT_LEASE_MS).count == 4
    # It was only frozen: it is counted again, and gets no more.
    assert state.settle(ask("a", 2, held=4, wants=1), NOW_MS + PERMIT_LEASE_MS).count == 0


def test_processes_that_wait_are_served_in_turn() -> None:
    state = empty()
    assert state.settle(ask("a", 1, at_once=1, wants=5), NOW_MS).count == 1
    assert state.settle(ask("b", 1, at_once=1, wants=5), NOW_MS + 1).count == 0
    assert state.settle(ask("c", 1, at_once=1, wants=5), NOW_MS + 2).count == 0
    served, numbers = ["a"], itertools.count(2)
    for now_ms in range(NOW_MS + 10, NOW_MS + 70, 10):
        # The call of the last one has ended; it asks first.
        for name in sorted("abc", key=lambda one: one != served[-1]):
            if state.settle(ask(name, next(numbers), at_once=1, wants=4), now_ms).count:
                served.append(name)
                break
    # The first one waited with further calls before the others came.
    assert served == ["a", "a", "b", "c", "a", "b", "c"]


def test_room_is_divided_among_those_who_wait() -> None:
    state = empty()
    state.settle(ask("x", 1, wants=4), NOW_MS)
    state.settle(ask("a", 1, wants=9), NOW_MS + 1)
    state.settle(ask("b", 1, wants=9), NOW_MS + 2)
    state.settle(ask("x", 2), NOW_MS + 3)
    assert state.settle(ask("b", 2, wants=9), NOW_MS + 4).count == 2
    assert state.settle(ask("a", 2, wants=9), NOW_MS + 5).count == 1
    assert state.settle(ask("a", 3, held=1, wants=8), NOW_MS + 6).count == 0, "the other one is first"
    assert state.settle(ask("b", 3, held=2, wants=7), NOW_MS + 7).count == 1


def test_permits_for_calls_to_come_are_given_from_what_is_left() -> None:
    state = empty()
    assert state.settle(ask("a", 1, at_once=9, wants=1, ahead=99), NOW_MS).count == 5
    state.settle(ask("b", 1, at_once=9, wants=9), NOW_MS)
    assert state.settle(ask("a", 2, at_once=9, held=1, ahead=99), NOW_MS).count == 0


def test_permits_of_a_minute_count_until_every_call_is_a_minute_old_and_unused_ones_come_back() -> None:
    state = empty()
    given = state.settle(ask("a", 1, at_once=None, per_minute=3, wants=3), NOW_MS + 1)
    assert (given.count, given.at_ms) == (3, NOW_MS + TICK_MS)
    short = state.settle(ask("b", 1, at_once=None, per_minute=3, wants=1), NOW_MS + 1)
    assert (short.count, short.retry_ms) == (0, STARTS_MS + TICK_MS - 1)
    back = ask("a", 2, at_once=None, per_minute=3, returned=((given.at_ms, 1), (given.at_ms - TICK_MS, 9)))
    for _ in range(2):
        # An ask that is repeated, because its answer was lost, returns nothing twice.
        state.settle(back, NOW_MS + 2)
    assert state.settle(ask("b", 2, at_once=None, per_minute=3, wants=9), NOW_MS + 2).count == 1
    late_ms = NOW_MS + TICK_MS + STARTS_MS
    assert state.settle(ask("b", 3, at_once=None, per_minute=3, wants=9), late_ms - 1).count == 0
    assert state.settle(ask("b", 4, at_once=None, per_minute=3, wants=9), late_ms).count == 3


def test_tokens_are_those_of_ended_calls_and_of_as_many_as_are_expected() -> None:
    state = empty()
    tokens: dict[str, Any] = {"at_once": None, "tokens_per_minute": 250}
    assert state.settle(ask("a", 1, wants=1, **tokens), NOW_MS).count == 1
    assert state.settle(ask("a", 2, wants=9, spent=100, expected=100, **tokens), NOW_MS).count == 2
    assert state.settle(ask("b", 1, wants=9, **tokens), NOW_MS).count == 0
    told = state.settle(ask("a", 3, spent=200, expected=100, **tokens), NOW_MS)
    assert told.retry_ms == 60_000
    assert state.settle(ask("b", 2, wants=9, **tokens), NOW_MS + 59_999).count == 0
    assert state.settle(ask("b", 3, wants=9, **tokens), NOW_MS + 60_000).count == 3


def test_a_clock_that_goes_back_frees_nothing_too_early_and_holds_nothing_for_ever() -> None:
    state = empty()
    state.settle(ask("a", 1, per_minute=4, wants=4), NOW_MS)
    earlier_ms = NOW_MS - 500_000
    assert state.settle(ask("b", 1, per_minute=4, wants=4), earlier_ms).count == 0
    assert state.settle(ask("b", 2, per_minute=4, wants=4), earlier_ms + PERMIT_LEASE_MS).count == 0
    assert state.settle(ask("b", 3, per_minute=4, wants=4), earlier_ms + STARTS_MS + TICK_MS).count == 4


def test_a_pause_that_a_fast_clock_told_is_no_longer_than_a_provider_may_ask_for() -> None:
    state = empty()
    a_day_ms = 86_400_000
    state.settle(ask("a", 1, wants=1, pause_ms=5_000), NOW_MS + a_day_ms)
    assert state.settle(ask("b", 1, wants=1), NOW_MS).paused_ms == RETRY_AFTER_MS_MAX


def test_a_row_stays_small_and_is_read_as_it_was_kept() -> None:
    state = empty()
    for number in range(1, 3_000):
        state.settle(ask("a", number, per_minute=100_000, wants=1), NOW_MS + number * 50)
    assert len(state.text()) < 8_000
    assert PermitState.read(state.text()) == state


def test_tenants_of_a_server_are_counted_together() -> None:
    names = [schema_name(tenant) for tenant in ("local", "acme", "Über uns")]
    assert {schema_of_limits(name) for name in names} == {"windlass"}
    assert schema_of_limits("app") == "app"


@dataclass
class Counted:
    """The store of a fleet in fake time; it can be away."""

    clock: FakeClock
    state: PermitState = field(default_factory=empty)
    asks: int = 0
    is_away: bool = False
    error: Exception | None = None

    async def take_permits(self, ask: PermitAsk) -> PermitGrant:
        self.asks += 1
        if self.error is not None:
            raise self.error
        await self.clock.sleep(0.002)
        if self.is_away:
            raise unavailable("away")
        return self.state.settle(ask, int(self.clock.monotonic() * 1_000))


@dataclass
class Provider:
    """Calls as their provider sees them."""

    clock: FakeClock
    starts: list[float] = field(default_factory=list[float])
    at_once: int = 0
    most_at_once: int = 0

    async def call(self, process: RuntimeLimits, seconds: float, *, error: Exception | None = None) -> bool:
        """Make a call; return whether it was told to wait."""
        turn, told = process.slot("acme", self.clock), list[str]()
        if not turn.try_take():
            await turn.take(told.append)
        assert (turn.queued_ms is None) is (not told)
        self.starts.append(self.clock.monotonic())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.clock.sleep(seconds)
        self.at_once -= 1
        turn.free(error, usage=records.Usage(input_tokens=80, output_tokens=20))
        return bool(told)

    def most_in_a_minute(self) -> int:
        return max(sum(1 for later in self.starts if 0 <= later - first < MINUTE_S) for first in self.starts)


Story = Callable[[Counted, Provider, list[RuntimeLimits]], Coroutine[Any, Any, None]]


def play(story: Story, *, processes: int = 2, **limit: int) -> tuple[Counted, Provider]:
    clock = FakeClock()
    store, provider = Counted(clock), Provider(clock)
    limits = ProviderLimits({"acme": ProviderLimit(**limit)})
    fleet = [RuntimeLimits(limits, store, holder=str(number)) for number in range(processes)]

    async def main() -> None:
        await story(store, provider, fleet)
        for process in fleet:
            await process.aclose()

    run_in_fake_time(main(), clock=clock)
    return store, provider


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit", [{"at_once": 5}, {"per_minute": 40}, {"at_once": 6, "per_minute": 50}, {"at_once": 1}], ids=str
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_processes_together_never_exceed_a_limit_and_every_call_is_made(
    seed: int, limit: dict[str, int]
) -> None:
    chance = random.Random(seed)

    async def story(_: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        async def client(process: RuntimeLimits) -> None:
            for _ in range(6):
                await provider.clock.sleep(chance.choice([0, 0, 0.01, 1, 8]))
                await provider.call(process, chance.choice([0.05, 1, 7]))

        await asyncio.gather(*(client(fleet[number % 3]) for number in range(15)))

    store, provider = play(story, processes=3, **limit)
    assert len(provider.starts) == 90
    assert provider.most_at_once <= limit.get("at_once", 90)
    assert provider.most_in_a_minute() <= limit.get("per_minute", 90)
    # The limit is used: it is no toll.
    assert provider.most_at_once == limit.get("at_once", provider.most_at_once)
    assert {one.held for one in store.state.holders.values()} == {0}, "all permits were given back"


def test_most_calls_of_a_busy_process_cost_no_question_to_the_store() -> None:
    async def story(_: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        async def client() -> None:
            for _ in range(100):
                await provider.call(fleet[0], 0.05)

        await asyncio.gather(*(client() for _ in range(4)))

    for limit in ({"at_once": 8}, {"per_minute": 10_000}):
        store, provider = play(story, **limit)
        assert len(provider.starts) == 400
        assert store.asks < 100


def test_a_call_is_told_to_wait_only_if_the_store_gives_it_no_permit() -> None:
    told: list[bool] = []

    async def story(_: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(provider.call(fleet[number % 2], 10)) for number in range(3)]
        told.extend(call.result() for call in calls)

    play(story, at_once=2)
    assert sorted(told) == [False, False, True]


def test_a_process_that_dies_leaves_its_permits_to_the_others() -> None:
    async def story(store: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        dead = RuntimeLimits(
            ProviderLimits({"acme": ProviderLimit(at_once=2)}), Counted(provider.clock, store.state)
        )
        calls = [asyncio.create_task(provider.call(dead, 1_000)) for _ in range(2)]
        await provider.clock.sleep(5)
        # No call ends and nothing is told any more.
        for gate in dead._gates.values():  # pyright: ignore[reportPrivateUsage]
            gate._beating.cancel()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
        for call in calls:
            call.cancel()
        provider.at_once = 0
        began = provider.clock.monotonic()
        await asyncio.gather(*(provider.call(fleet[0], 1) for _ in range(2)))
        waited_ms = (provider.starts[-1] - began) * 1_000
        assert PERMIT_LEASE_MS - 2_000 < waited_ms < PERMIT_LEASE_MS + 1_000

    _, provider = play(story, at_once=2)
    assert provider.most_at_once == 2


def test_calls_wait_while_the_store_is_away_and_those_under_way_go_on() -> None:
    told: list[str] = []

    async def story(store: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        first = asyncio.create_task(provider.call(fleet[0], 10))
        await provider.clock.sleep(1)
        store.is_away = True
        turn = fleet[0].slot("acme", provider.clock)
        assert not turn.try_take()
        waiting = asyncio.create_task(turn.take(told.append))
        await first
        assert not waiting.done()
        store.is_away = False
        await waiting
        turn.free(usage=None)

    play(story, per_minute=100)
    assert told == ["the store that counts the calls to provider acme cannot be reached"]


def test_a_store_that_cannot_count_fails_the_call() -> None:
    async def story(store: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        store.error = misconfiguration("no right to make a table")
        with pytest.raises(Rejected, match="no right"):
            await provider.call(fleet[0], 1)
        store.error = None

    play(story, at_once=1)


def test_a_pause_that_the_provider_asks_of_one_process_holds_back_all() -> None:
    busy = ModelUnavailable("rate limit", fault=ModelFault.RATE_LIMIT, retry_after_ms=20_000)

    async def story(_: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        await provider.call(fleet[0], 0, error=busy)
        await provider.clock.sleep(1)
        await asyncio.gather(*(provider.call(process, 0) for process in fleet))

    _, provider = play(story, at_once=9)
    assert len(provider.starts) == 3
    assert all(later - provider.starts[0] >= 20 for later in provider.starts[1:])


def test_tokens_of_all_processes_are_limited() -> None:
    async def story(_: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        await provider.call(fleet[0], 1)
        await provider.clock.sleep(MINUTE_S + 2)
        await asyncio.gather(*(provider.call(fleet[number % 2], 10) for number in range(8)))

    _, provider = play(story, tokens_per_minute=400)
    # 100 tokens each: 400 within any minute.
    starts = provider.starts[1:]
    assert all(later - first > MINUTE_S for first, later in zip(starts, starts[4:], strict=False))
    assert len(starts) == 8
    assert all(first <= later for first, later in itertools.pairwise(starts))


def test_a_call_that_is_cancelled_while_the_store_is_asked_leaves_its_permit_to_the_next() -> None:
    async def story(store: Counted, provider: Provider, fleet: list[RuntimeLimits]) -> None:
        first = asyncio.create_task(provider.call(fleet[0], 0.5))
        second = asyncio.create_task(provider.call(fleet[0], 0.5))
        await provider.clock.sleep(0.001)
        first.cancel()
        await second
        assert store.asks == 1

    _, provider = play(story, per_minute=9)
    assert len(provider.starts) == 1
