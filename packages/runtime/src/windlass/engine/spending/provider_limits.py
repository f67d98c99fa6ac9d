"""Limits of providers: model calls at once, and calls and tokens a minute.

They hold for all runs of a process, and for all processes of a store that counts them: see `FleetGate`.

Calls that wait are sent in the order in which they came. A session waits with one call at a time, so no
session is sent a second one before another session that waits. A `Retry-After` of the provider holds back all
calls to it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakKeyDictionary

from windlass.agent.agent import OBJECT_ROUTE
from windlass.errors import AgentError, Ambiguous, Unavailable, check_whole, kind_of, wrong
from windlass.ports.clock import IDLE, Clock
from windlass.ports.model import ModelFault, ModelUnavailable
from windlass.ports.permits import PERMIT_MS, PermitAsk, PermitStore
from windlass_harness.loop.rules import AWAKE_MS_MAX
from windlass_harness.retry import RETRY_AFTER_MS_MAX
from windlass_harness.views.payloads import token_count
from windlass_protocol.frozen import mutable, sealed

if TYPE_CHECKING:
    from windlass_protocol.generated import records

AT_ONCE_MAX: Final = 10_000
PER_MINUTE_MAX: Final = 100_000
TOKENS_PER_MINUTE_MAX: Final = 1_000_000_000
MINUTE_S: Final = 60.0
_TICK_S: Final = 0.001
"""A shorter wait is none."""
BEAT_S: Final = 1.0
"""How often a process tells the store of its calls under way, and returns permits that it does not need."""
OnWait = Callable[[str], None]
"""Called with the reason why a call has to wait."""


@sealed
class ProviderLimit:
    """The limit of one provider; None sets none.

    Raises:
        Rejected: a limit is not a whole number, or out of range.
    """

    at_once: int | None = None
    """Model calls under way at the same time."""
    per_minute: int | None = None
    """Model calls that begin within any 60 seconds."""
    tokens_per_minute: int | None = None
    """Tokens, of prompts and answers together, that the provider reports within any 60 seconds.

    A call under way counts with as many tokens as the last one used, until it has ended.
    """

    def __post_init__(self) -> None:
        for name, most in (
            ("at_once", AT_ONCE_MAX),
            ("per_minute", PER_MINUTE_MAX),
            ("tokens_per_minute", TOKENS_PER_MINUTE_MAX),
        ):
            number = getattr(self, name)
            if number is not None:
                check_whole(number, name, most=most)

    def __str__(self) -> str:
        parts = [] if self.at_once is None else [f"{self.at_once:,} at once"]
        parts += [] if self.per_minute is None else [f"{self.per_minute:,} a minute"]
        parts += [] if self.tokens_per_minute is None else [f"{self.tokens_per_minute:,} tokens a minute"]
        return ", ".join(parts) or "without a limit"


@mutable(eq=False)
class _Waiter:
    """A call that waits."""

    called: asyncio.Future[None]
    """Done when all calls before it have begun."""
    on_wait: OnWait | None
    """None once it was called."""


class ProviderGate:
    """The model calls to one provider: they wait in a line, and while the provider asks for a pause."""

    def __init__(self, route_id: str, limit: ProviderLimit) -> None:
        self._route_id = route_id
        self._limit = limit
        self._line: deque[_Waiter] = deque()
        """Calls that wait; the future of the first one is done."""
        self._under_way: int = 0
        self._paused_until_s: float = 0.0

    def try_enter(self, clock: Clock) -> bool:
        """Begin a call if nothing holds it back; return whether it has begun. `leave` ends it.

        Raises:
            Unavailable: the provider asked for a pause that is too long to be awake; nothing is sent.
        """
        return not self._line and self._try_begin(clock)

    async def enter(self, clock: Clock, on_wait: OnWait) -> None:
        """Begin a call after all that wait already; `leave` ends it.

        Raises:
            Unavailable: the provider asked for a pause that is too long to be awake; nothing is sent.
        """
        waiter = _Waiter(asyncio.get_running_loop().create_future(), on_wait)
        self._line.append(waiter)
        self._call_first()
        try:
            self._join(waiter, clock)
            await waiter.called
            while not self._try_begin(clock):
                await self._wait(clock)
        finally:
            self._line.remove(waiter)
            self._call_first()

    def leave(self, clock: Clock, tokens: int | None) -> None:
        """End a call that was sent, with the tokens that the provider reported."""
        raise NotImplementedError

    def pause(self, retry_after_ms: int, clock: Clock) -> None:
        """Send no call before the time that the provider named."""
        until_s = clock.monotonic() + min(retry_after_ms, RETRY_AFTER_MS_MAX) / 1_000
        self._paused_until_s = max(self._paused_until_s, until_s)

    async def aclose(self) -> None:
        """Stop counting; no call is under way."""

    def _try_begin(self, clock: Clock) -> bool:
        raise NotImplementedError

    async def _wait(self, clock: Clock) -> None:
        """Wait until the first call may have a chance to begin."""
        raise NotImplementedError

    def _join(self, waiter: _Waiter, clock: Clock) -> None:
        """Tell a call that joins the line why it waits."""
        self._tell(waiter, self._reason(clock))

    def _tell(self, waiter: _Waiter, reason: str) -> None:
        on_wait, waiter.on_wait = waiter.on_wait, None
        if on_wait is not None:
            on_wait(reason)

    def _call_first(self) -> None:
        if self._line and not self._line[0].called.done():
            self._line[0].called.set_result(None)

    def _pause_s(self, clock: Clock) -> float:
        """Return the seconds for which the provider wants no call."""
        paused_s = self._paused_until_s - clock.monotonic()
        if paused_s * 1_000 > AWAKE_MS_MAX:
            raise ModelUnavailable(
                f"the provider {self._route_id} asked all calls to wait: rate limit",
                fault=ModelFault.RATE_LIMIT,
                retry_after_ms=int(paused_s * 1_000),
            )
        return paused_s

    def _reason(self, clock: Clock) -> str:
        """Return why a call has to wait."""
        if self._paused_until_s > clock.monotonic():
            return f"the provider {self._route_id} asked for a pause (Retry-After)"
        return f"the limit of provider {self._route_id} is reached: {self._limit}"


class LocalGate(ProviderGate):
    """The calls of one event loop."""

    def __init__(self, route_id: str, limit: ProviderLimit) -> None:
        super().__init__(route_id, limit)
        self._freed: asyncio.Future[None] | None = None
        self._starts: deque[float] = deque(maxlen=limit.per_minute or 0)
        """When the last calls began, by the monotonic clock."""
        self._spent: deque[tuple[float, int]] = deque()
        """When calls ended within the last minute, and their tokens."""
        self._expected = 0
        """The tokens of the last call."""

    def leave(self, clock: Clock, tokens: int | None) -> None:
        """End a call that was sent, with the tokens that the provider reported."""
        self._under_way -= 1
        if tokens and self._limit.tokens_per_minute is not None:
            self._expected = tokens
            self._spent.append((clock.monotonic(), tokens))
        if self._freed is not None and not self._freed.done():
            self._freed.set_result(None)

    def _try_begin(self, clock: Clock) -> bool:
        if self._delay_s(clock) > _TICK_S or self._is_full(clock):
            return False
        self._under_way += 1
        if self._limit.per_minute is not None:
            self._starts.append(clock.monotonic())
        return True

    async def _wait(self, clock: Clock) -> None:
        if self._is_full(clock):
            self._freed = asyncio.get_running_loop().create_future()
            await self._freed
        else:
            await clock.sleep(self._delay_s(clock))

    def _is_full(self, clock: Clock) -> bool:
        """Whether a call under way has to end first."""
        limit = self._limit
        if limit.at_once is not None and self._under_way >= limit.at_once:
            return True
        if limit.tokens_per_minute is None or not self._under_way:
            return False
        spent = self._count_tokens(clock.monotonic())
        return spent < limit.tokens_per_minute <= spent + self._expected * self._under_way

    def _count_tokens(self, now_s: float) -> int:
        while self._spent and self._spent[0][0] + MINUTE_S <= now_s:
            self._spent.popleft()
        return sum(tokens for _, tokens in self._spent)

    def _tokens_delay_s(self, now_s: float) -> float:
        """Return the seconds until the tokens of the last minute are below the limit."""
        most = self._limit.tokens_per_minute
        if most is None:
            return 0.0
        left = self._count_tokens(now_s)
        for ended_s, tokens in self._spent:
            if left < most:
                break
            left -= tokens
            delay_s = ended_s + MINUTE_S - now_s
            if left < most:
                return delay_s
        return 0.0

    def _delay_s(self, clock: Clock) -> float:
        """Return the seconds until the next call may be sent."""
        paused_s, now_s = self._pause_s(clock), clock.monotonic()
        is_spent = self._limit.per_minute is not None and len(self._starts) == self._limit.per_minute
        calls_s = self._starts[0] + MINUTE_S - now_s if is_spent else 0.0
        return max(paused_s, calls_s, self._tokens_delay_s(now_s))


@mutable(eq=False)
class _Permits:
    """Permits of one grant that are not used yet."""

    at_ms: int | None
    """The time of the grant by the clock of the store; None for the permit of a call that has ended."""
    until_s: float
    """When they cannot be used any more, by the monotonic clock."""
    count: int


class FleetGate(ProviderGate):
    """The calls of one runtime, counted by its store together with those of other processes.

    A call needs a permit of the store. One ask brings permits for all calls that wait, and for as many as
    began in the last second; a permit that is not used goes back. With a limit of calls at once alone, the
    permit of a call that has ended serves the next one, unless another process waits. While the store cannot
    be reached, calls wait; those under way go on.
    """

    def __init__(self, route_id: str, limit: ProviderLimit, store: PermitStore, holder: str) -> None:
        super().__init__(route_id, limit)
        self._store = store
        self._holder = holder
        self._number = 0
        self._permits: deque[_Permits] = deque()
        self._returned: list[tuple[int, int]] = []
        self._spent = self._expected = self._pause_ms = 0
        self._begun = self._begun_before = 0
        """Calls that began since the last beat, and in the one before."""
        self._is_known = False
        """Whether the store counts calls, or waiting calls, of this process."""
        self._is_contended = False
        self._is_short = False
        """Whether the last ask left calls without a permit."""
        self._retry_s = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._sleeping: asyncio.Future[None] | None = None

    def leave(self, clock: Clock, tokens: int | None) -> None:
        """End a call that was sent, with the tokens that the provider reported."""
        self._under_way -= 1
        if tokens and self._limit.tokens_per_minute is not None:
            self._expected = tokens
            self._spent += tokens
        has_rate = self._limit.per_minute is not None or self._limit.tokens_per_minute is not None
        if not has_rate and not self._is_contended:
            self._permits.append(_Permits(None, clock.monotonic() + PERMIT_MS / 1_000, 1))
        if self._sleeping is not None:
            # The first call that waits tries again.
            self._sleeping.cancel()
        elif self._is_contended:
            self._ask(clock)

    def pause(self, retry_after_ms: int, clock: Clock) -> None:
        """Send no call before the time that the provider named, in any process."""
        super().pause(retry_after_ms, clock)
        if retry_after_ms:
            self._pause_ms = min(retry_after_ms, RETRY_AFTER_MS_MAX)
            self._ask(clock)

    async def aclose(self) -> None:
        """Give back everything; no call is under way."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        if self._asking is not None:
            await asyncio.wait([self._asking])
        if self._is_known:
            # If it fails, the permits come back at the end of their lease.
            with suppress(AgentError):
                self._give_back(0)
                self._number += 1
                await self._store.take_permits(self._permit_ask(held=0))

    def _try_begin(self, clock: Clock) -> bool:
        if self._pause_s(clock) > _TICK_S:
            return False
        self._drop_late(clock)
        if not self._permits:
            return False
        self._permits[0].count -= 1
        if not self._permits[0].count:
            self._permits.popleft()
        self._under_way += 1
        self._begun += 1
        return True

    async def _wait(self, clock: Clock) -> None:
        if (paused_s := self._pause_s(clock)) > _TICK_S:
            await clock.sleep(paused_s)
            return
        asking = self._ask(clock)
        await asyncio.wait([asking])
        try:
            asking.result()
        except (Unavailable, Ambiguous):
            self._retry_s = BEAT_S
            reason = f"the store that counts the calls to provider {self._route_id} cannot be reached"
            for waiter in self._line:
                self._tell(waiter, reason)
        if self._permits:
            return
        # A call that ends wakes the first one that waits.
        self._sleeping = asyncio.ensure_future(clock.sleep(min(self._retry_s, BEAT_S)))
        try:
            await asyncio.wait([self._sleeping])
        finally:
            self._sleeping.cancel()
            self._sleeping = None

    def _join(self, waiter: _Waiter, clock: Clock) -> None:
        # Otherwise `_exchange` tells it, if the store gives it no permit.
        if self._is_short or self._paused_until_s > clock.monotonic():
            super()._join(waiter, clock)

    def _ask(self, clock: Clock) -> "asyncio.Task[None]":
        """Ask the store in a task of its own: a call that is cancelled leaves the answer to others."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._exchange(clock))
            # Retrieve the exception, or asyncio logs it; callers that need the result await the task.
            self._asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat(clock), name=IDLE)
        return self._asking

    async def _exchange(self, clock: Clock) -> None:
        self._drop_late(clock)
        self._give_back(0 if self._is_contended else self._begun_before)
        granted, wants, sent_s = (
            sum(permit.count for permit in self._permits),
            len(self._line),
            clock.monotonic(),
        )
        self._number += 1
        ask = self._permit_ask(
            held=self._under_way + granted, wants=wants, ahead=max(0, self._begun_before - granted)
        )
        self._returned, self._spent, self._pause_ms = [], 0, 0
        self._is_known = True
        try:
            grant = await self._store.take_permits(ask)
        except AgentError:
            self._spent += ask.spent
            self._pause_ms = max(self._pause_ms, ask.pause_ms)
            raise
        if grant.count:
            self._permits.append(_Permits(grant.at_ms, sent_s + PERMIT_MS / 1_000, grant.count))
        self._is_known = ask.held + grant.count + wants > 0
        self._is_contended = grant.is_contended
        self._is_short = grant.count < wants
        self._retry_s = grant.retry_ms / 1_000
        self._paused_until_s = max(self._paused_until_s, clock.monotonic() + grant.paused_ms / 1_000)
        if self._is_short:
            for waiter in [*self._line][grant.count :]:
                self._tell(waiter, self._reason(clock))

    def _permit_ask(self, *, held: int, wants: int = 0, ahead: int = 0) -> PermitAsk:
        limit = self._limit
        return PermitAsk(
            self._route_id,
            self._holder,
            self._number,
            limit.at_once,
            limit.per_minute,
            limit.tokens_per_minute,
            held=held,
            wants=wants,
            ahead=ahead,
            returned=tuple(self._returned),
            spent=self._spent,
            expected=self._expected,
            pause_ms=self._pause_ms,
        )

    async def _beat(self, clock: Clock) -> None:
        """Tell the store of calls under way, until there are none."""
        while self._is_known or self._under_way or self._line:
            await clock.sleep(BEAT_S)
            self._begun, self._begun_before = 0, self._begun
            await asyncio.wait([self._ask(clock)])

    def _drop_late(self, clock: Clock) -> None:
        """Return permits that were kept for too long."""
        while self._permits and self._permits[0].until_s <= clock.monotonic():
            self._put_back(self._permits[0].count)

    def _give_back(self, keep: int) -> None:
        """Return permits, the oldest first, but for some."""
        excess = sum(permit.count for permit in self._permits) - keep
        while excess > 0:
            excess -= self._put_back(excess)

    def _put_back(self, most: int) -> int:
        oldest = self._permits[0]
        count = min(most, oldest.count)
        oldest.count -= count
        if oldest.at_ms is not None:
            self._returned.append((oldest.at_ms, count))
        if not oldest.count:
            self._permits.popleft()
        return count


class ProviderSlot:
    """The slot of one model call at the limit of its provider."""

    def __init__(self, gate: ProviderGate | None, clock: Clock, *, queued_ms: int | None = None) -> None:
        self._gate = gate
        self._clock = clock
        self._is_open = False
        self.queued_ms = queued_ms
        """How long the call waited; None if it did not."""

    def try_take(self) -> bool:
        """Take the slot if nothing holds it back; return whether it was taken.

        Raises:
            Unavailable: as `ProviderGate.try_enter`.
        """
        self._is_open = self._gate is None or self._gate.try_enter(self._clock)
        return self._is_open

    async def take(self, on_wait: OnWait) -> None:
        """Wait for the slot; `on_wait` is called with the reason if that takes its time.

        Raises:
            Unavailable: as `ProviderGate.enter`.
        """
        assert self._gate is not None, "without a gate no call waits"
        is_told = False

        def tell(reason: str) -> None:
            nonlocal is_told
            is_told = True
            on_wait(reason)

        since_s = self._clock.monotonic()
        await self._gate.enter(self._clock, tell)
        self._is_open = True
        if is_told:
            self.queued_ms = int((self._clock.monotonic() - since_s) * 1_000)

    def free(self, error: BaseException | None = None, *, usage: "records.Usage | None") -> None:
        """Free the slot, once, with the usage that the provider reported.

        A rate limit of the provider with a pause holds back all calls to it.
        """
        if self._gate is None or not self._is_open:
            return
        self._is_open = False
        self._gate.leave(self._clock, token_count(usage))
        if isinstance(error, ModelUnavailable) and error.fault is ModelFault.RATE_LIMIT:
            self._gate.pause(error.retry_after_ms or 0, self._clock)


class ProviderLimits:
    """The limits of providers, by route: `ProviderLimits({"openai": ProviderLimit(at_once=8)})`.

    Runtimes of one event loop that are given the same object share the limits. Runtimes on one PostgreSQL
    database share them whatever their process, also with another object: the database counts. A provider
    without a limit is only held back by a `Retry-After`.

    Raises:
        Rejected: a limit is not a `ProviderLimit`.
    """

    def __init__(self, limits: Mapping[str, ProviderLimit] | None = None) -> None:
        self._limits = dict(limits or {})
        for route_id, limit in self._limits.items():
            if not isinstance(cast(object, limit), ProviderLimit):
                raise wrong(f"the limit of {route_id} must be a ProviderLimit(…), found {kind_of(limit)}")
        # Futures belong to one event loop, and a program may run several loops in turn.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ProviderGate]] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"ProviderLimits({self._limits!r})"

    def get(self, route_id: str) -> ProviderLimit | None:
        """Return the limit of a provider; None if it has none."""
        return self._limits.get(route_id)

    def gate(self, route_id: str) -> ProviderGate:
        """Return the gate of a provider in this event loop."""
        gates = self._gates.setdefault(asyncio.get_running_loop(), {})
        if route_id not in gates:
            gates[route_id] = LocalGate(route_id, self._limits.get(route_id, ProviderLimit()))
        return gates[route_id]


class RuntimeLimits:
    """The limits of providers as one runtime meets them.

    A store that other processes share counts the calls of all; see `FleetGate`. `holder` is a unique id.
    """

    def __init__(
        self, limits: ProviderLimits | None = None, store: object = None, *, holder: str = ""
    ) -> None:
        self._limits = limits or ProviderLimits()
        self._store = store if isinstance(store, PermitStore) else None
        self._holder = holder
        self._gates: dict[str, ProviderGate] = {}

    def slot(self, route_id: str, clock: Clock) -> ProviderSlot:
        """Return the slot of a call to a provider; objects without a `route_id` have no limit."""
        if route_id == OBJECT_ROUTE:
            return ProviderSlot(None, clock)
        if route_id not in self._gates:
            limit = self._limits.get(route_id)
            if self._store is None or limit is None:
                self._gates[route_id] = self._limits.gate(route_id)
            else:
                self._gates[route_id] = FleetGate(route_id, limit, self._store, self._holder)
        return ProviderSlot(self._gates[route_id], clock)

    async def aclose(self) -> None:
        """Give back the permits of this runtime; no call is under way."""
        for gate in self._gates.values():
            await gate.aclose()
