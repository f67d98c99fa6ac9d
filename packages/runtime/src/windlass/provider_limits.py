"""Limits of providers: model calls at once, and calls and tokens a minute, for all runs of a process.

Calls that wait are sent in the order in which they came. A session waits with one call at a time, so no
session is sent a second one before another session that waits. A `Retry-After` of the provider holds back all
calls to it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, cast
from weakref import WeakKeyDictionary

from windlass.agent import OBJECT_ROUTE
from windlass.errors import check_whole, kind_of, wrong
from windlass.ports.clock import Clock
from windlass.ports.model import ModelFault, ModelUnavailable
from windlass_harness.loop.rules import AWAKE_MS_MAX
from windlass_harness.retry import RETRY_AFTER_MS_MAX
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

AT_ONCE_MAX: Final = 10_000
PER_MINUTE_MAX: Final = 100_000
TOKENS_PER_MINUTE_MAX: Final = 1_000_000_000
MINUTE_S: Final = 60.0
_TICK_S: Final = 0.001
"""A shorter wait is none."""


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


class ProviderGate:
    """The model calls of one provider in one event loop."""

    def __init__(self, route_id: str, limit: ProviderLimit) -> None:
        self._route_id = route_id
        self._limit = limit
        self._queue: deque[asyncio.Future[None]] = deque()
        """Calls that wait; the future of the first one is done."""
        self._freed: asyncio.Future[None] | None = None
        self._under_way = 0
        self._starts: deque[float] = deque(maxlen=limit.per_minute or 0)
        """When the last calls began, by the monotonic clock."""
        self._spent: deque[tuple[float, int]] = deque()
        """When calls ended within the last minute, and their tokens."""
        self._expected = 0
        """The tokens of the last call."""
        self._paused_until_s = 0.0

    def try_enter(self, clock: Clock) -> bool:
        """Begin a call if nothing holds it back; return whether it has begun. `leave` ends it.

        Raises:
            Unavailable: the provider asked for a pause that is too long to be awake; nothing is sent.
        """
        if self._delay_s(clock) > _TICK_S or self._queue or self._is_full(clock):
            return False
        self._begin(clock)
        return True

    async def enter(self, clock: Clock) -> None:
        """Begin a call after all that wait already; `leave` ends it.

        Raises:
            Unavailable: the provider asked for a pause that is too long to be awake; nothing is sent.
        """
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._call_first()
        try:
            await turn
            while True:
                if self._is_full(clock):
                    self._freed = asyncio.get_running_loop().create_future()
                    await self._freed
                elif (delay_s := self._delay_s(clock)) > _TICK_S:
                    await clock.sleep(delay_s)
                else:
                    break
            self._begin(clock)
        finally:
            self._queue.remove(turn)
            self._call_first()

    def leave(self, clock: Clock, tokens: int | None) -> None:
        """End a call that was sent, with the tokens that the provider reported."""
        self._under_way -= 1
        if tokens and self._limit.tokens_per_minute is not None:
            self._expected = tokens
            self._spent.append((clock.monotonic(), tokens))
        if self._freed is not None and not self._freed.done():
            self._freed.set_result(None)

    def pause(self, retry_after_ms: int, clock: Clock) -> None:
        """Send no call before the time that the provider named."""
        until_s = clock.monotonic() + min(retry_after_ms, RETRY_AFTER_MS_MAX) / 1_000
        self._paused_until_s = max(self._paused_until_s, until_s)

    def _is_full(self, clock: Clock) -> bool:
        """Whether a call under way has to end first."""
        limit = self._limit
        if limit.at_once is not None and self._under_way >= limit.at_once:
            return True
        if limit.tokens_per_minute is None or not self._under_way:
            return False
        spent = self._spent_tokens(clock.monotonic())
        return spent < limit.tokens_per_minute <= spent + self._expected * self._under_way

    def _spent_tokens(self, now_s: float) -> int:
        while self._spent and self._spent[0][0] + MINUTE_S <= now_s:
            self._spent.popleft()
        return sum(tokens for _, tokens in self._spent)

    def _tokens_delay_s(self, now_s: float) -> float:
        """Return the seconds until the tokens of the last minute are below the limit."""
        most = self._limit.tokens_per_minute
        if most is None:
            return 0.0
        left = self._spent_tokens(now_s)
        for ended_s, tokens in self._spent:
            if left < most:
                break
            left -= tokens
            delay_s = ended_s + MINUTE_S - now_s
            if left < most:
                return delay_s
        return 0.0

    def _begin(self, clock: Clock) -> None:
        self._under_way += 1
        if self._limit.per_minute is not None:
            self._starts.append(clock.monotonic())

    def _call_first(self) -> None:
        if self._queue and not self._queue[0].done():
            self._queue[0].set_result(None)

    def _delay_s(self, clock: Clock) -> float:
        """Return the seconds until the next call may be sent."""
        now_s = clock.monotonic()
        paused_s = self._paused_until_s - now_s
        if paused_s * 1_000 > AWAKE_MS_MAX:
            raise ModelUnavailable(
                f"the provider {self._route_id} asked all calls to wait: rate limit",
                fault=ModelFault.RATE_LIMIT,
                retry_after_ms=int(paused_s * 1_000),
            )
        is_spent = self._limit.per_minute is not None and len(self._starts) == self._limit.per_minute
        calls_s = self._starts[0] + MINUTE_S - now_s if is_spent else 0.0
        return max(paused_s, calls_s, self._tokens_delay_s(now_s))

    def reason(self, clock: Clock) -> str:
        """Return why a call has to wait."""
        if self._paused_until_s > clock.monotonic():
            return f"the provider {self._route_id} asked for a pause (Retry-After)"
        return f"the limit of provider {self._route_id} is reached: {self._limit}"


class ProviderTurn:
    """The turn of one model call at the limit of its provider."""

    def __init__(self, gate: ProviderGate | None, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._is_open = False
        self.queued_ms: int | None = None
        """How long the call waited; None if it did not."""

    def try_begin(self) -> bool:
        """Begin the turn if nothing holds it back; return whether it has begun.

        Raises:
            Unavailable: as `ProviderGate.try_enter`.
        """
        self._is_open = self._gate is None or self._gate.try_enter(self._clock)
        return self._is_open

    async def begin(self, on_wait: Callable[[str], None]) -> None:
        """Wait for the turn; `on_wait` is called with the reason.

        Raises:
            Unavailable: as `ProviderGate.enter`.
        """
        assert self._gate is not None, "without a gate no turn waits"
        on_wait(self._gate.reason(self._clock))
        since_s = self._clock.monotonic()
        await self._gate.enter(self._clock)
        self._is_open = True
        self.queued_ms = int((self._clock.monotonic() - since_s) * 1_000)

    def end(self, error: BaseException | None = None, *, usage: JsonObject | None) -> None:
        """End the turn, once, with the usage that the provider reported.

        A rate limit of the provider with a pause holds back all calls to it.
        """
        if self._gate is None or not self._is_open:
            return
        self._is_open = False
        counts = [(usage or {}).get(name) for name in ("inputTokens", "outputTokens")]
        self._gate.leave(self._clock, sum(count for count in counts if isinstance(count, int)))
        if isinstance(error, ModelUnavailable) and error.fault is ModelFault.RATE_LIMIT:
            self._gate.pause(error.retry_after_ms or 0, self._clock)


class ProviderLimits:
    """The limits of providers, by route: `ProviderLimits({"openai": ProviderLimit(at_once=8)})`.

    Runtimes of one event loop that are given the same object share the limits. A provider without a limit is
    only held back by a `Retry-After`.

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

    def turn(self, route_id: str, clock: Clock) -> ProviderTurn:
        """Return the turn of a call to a provider; objects without a `route_id` have no limit."""
        if route_id == OBJECT_ROUTE:
            return ProviderTurn(None, clock)
        gates = self._gates.setdefault(asyncio.get_running_loop(), {})
        if route_id not in gates:
            gates[route_id] = ProviderGate(route_id, self._limits.get(route_id, ProviderLimit()))
        return ProviderTurn(gates[route_id], clock)
