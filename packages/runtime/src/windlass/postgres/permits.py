"""Permits for model calls, counted for all processes of a database: one row for each provider.

The row is locked for the few milliseconds of an ask, and all times are those of the database. Counts expire
after a minute, so the table is no part of the versions of the schema: the first ask makes it. Tenants share
the account at the provider, so their calls are counted in the schema `windlass`, by the user of the address.
"""

import json
from collections.abc import Iterable
from typing import Final, cast

from windlass.ports.permits import PERMIT_LEASE_MS, PERMIT_MS, PERMIT_POLL_MS, PermitAsk, PermitGrant
from windlass.postgres.link import PostgresAddress, PostgresLink
from windlass.postgres.reads import NOW
from windlass.postgres.schema import SCHEMA, in_transaction
from windlass_harness.retry import RETRY_AFTER_MS_MAX
from windlass_protocol.frozen import mutable

MINUTE_MS: Final = 60_000
STARTS_MS: Final = MINUTE_MS + PERMIT_MS
"""How long a permit counts as a call that began: it may have begun late."""
TICK_MS: Final = 250
"""Times are rounded up to this, so that a row stays small whatever the rate."""
ANY: Final = 2**53 - 1
_TENANTS: Final = (f"{SCHEMA}_t_", f"{SCHEMA}_d_")
"""How the schemas of a server's tenants begin."""

_KNOWN: Final = """SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = ?1),
    to_regclass(?1 || '.provider_limits') IS NOT NULL"""
_TABLE: Final = """CREATE TABLE provider_limits (
    provider TEXT COLLATE "C" PRIMARY KEY, state TEXT NOT NULL) WITH (fillfactor = 50)"""
_ROW: Final = "INSERT INTO provider_limits VALUES (?, '{}') ON CONFLICT DO NOTHING"
_LOCK: Final = "SELECT state FROM provider_limits WHERE provider = ? FOR UPDATE"
_KEEP: Final = "UPDATE provider_limits SET state = ? WHERE provider = ?"


def schema_of_limits(schema: str) -> str:
    """Return the schema in which the calls of a store are counted."""
    return SCHEMA if schema.startswith(_TENANTS) else schema


def make_table(address: PostgresAddress) -> None:
    """Make the table of permits, unless it is there.

    Raises:
        Rejected: the user may not make it.
        Unavailable: the database cannot be reached.
    """
    schema = schema_of_limits(address.schema)

    def work(link: PostgresLink) -> None:
        [(has_schema, has_table)] = link.execute(_KNOWN, (schema,)).fetchall()
        if not has_schema:
            link.execute(f'CREATE SCHEMA "{schema}"')
        if not has_table:
            link.execute(_TABLE)
        link.check()

    in_transaction(PostgresAddress(address.conninfo, schema, address.name), work)


def take(link: PostgresLink, address: PostgresAddress, ask: PermitAsk) -> PermitGrant:
    """Settle an ask in a transaction that was begun."""
    # The role of a tenant has no rights outside of its schema.
    link.execute(
        "SELECT set_config('search_path', ?, true), set_config('role', 'none', true)",
        (schema_of_limits(address.schema),),
    )
    link.execute(_ROW, (ask.provider,))
    row = link.execute(_LOCK, (ask.provider,))
    # A statement of its own: it runs when the row is locked.
    [(now_ms,)] = link.execute(NOW).fetchall()
    [(text,)] = row.fetchall()
    state = PermitState.read(cast("str", text))
    grant = state.settle(ask, cast("int", now_ms))
    link.execute(_KEEP, (state.text(), ask.provider))
    link.check()
    return grant


@mutable
class Holder:
    """A process that holds permits or waits for some."""

    number: int
    """The number of its last ask."""
    held: int
    wants: int
    since_ms: int
    """When it began to wait, or got its last permit."""
    until_ms: int
    """The end of its lease."""


@mutable
class PermitState:
    """The calls to one provider."""

    holders: dict[str, Holder]
    starts: dict[int, int]
    """Permits, by the time of their grants."""
    spent: dict[int, int]
    """Tokens, by the time of their report."""
    expected: int = 0
    """Tokens of the last call."""
    paused_until_ms: int = 0

    @staticmethod
    def read(text: str) -> "PermitState":
        """Return the state in a row; a new row is empty."""
        state = json.loads(text)
        return PermitState(
            {name: Holder(*numbers) for name, numbers in state.get("holders", {}).items()},
            {int(at_ms): count for at_ms, count in state.get("starts", {}).items()},
            {int(at_ms): count for at_ms, count in state.get("spent", {}).items()},
            state.get("expected", 0),
            state.get("paused", 0),
        )

    def text(self) -> str:
        """Return the state as it is kept."""
        holders = {
            name: (holder.number, holder.held, holder.wants, holder.since_ms, holder.until_ms)
            for name, holder in self.holders.items()
        }
        return json.dumps(
            {
                "holders": holders,
                "starts": self.starts,
                "spent": self.spent,
                "expected": self.expected,
                "paused": self.paused_until_ms,
            }
        )

    def settle(self, ask: PermitAsk, now_ms: int) -> PermitGrant:
        """Record the calls and permits of a process, and give it permits."""
        tick_ms = -(-now_ms // TICK_MS) * TICK_MS
        mine = self._age(ask.holder, now_ms, tick_ms)
        if mine is None or mine.number != ask.number:
            self._note(ask, now_ms, tick_ms)
        others = self.holders.values()
        room = self._room(ask, sum(other.held for other in others))
        waiting = [other for other in others if other.wants]
        since_ms = mine.since_ms if mine is not None and mine.wants else now_ms
        paused_ms = max(0, self.paused_until_ms - now_ms)
        count = 0 if paused_ms else min(ask.wants, room)
        if waiting:
            share = max(1, room // (len(waiting) + 1))
            earlier = sum(min(other.wants, share) for other in waiting if other.since_ms < since_ms)
            count = max(0, min(count, share, room - earlier))
        elif not paused_ms:
            count += min(ask.ahead, (room - count) // 2)
        if count and ask.per_minute is not None:
            self.starts[tick_ms] = self.starts.get(tick_ms, 0) + count
        # Also without permits: a repeated ask is recognised by its number.
        self.holders[ask.holder] = Holder(
            ask.number,
            ask.held + count,
            max(0, ask.wants - count),
            now_ms if count else since_ms,
            now_ms + PERMIT_LEASE_MS,
        )
        return PermitGrant(count, tick_ms, bool(waiting), self._retry_ms(ask, now_ms), paused_ms)

    def _age(self, holder: str, now_ms: int, tick_ms: int) -> Holder | None:
        """Drop expired counts and leases; remove the process that asks and return it.

        After a failover the clock may be earlier: times later than now are cut to now.
        """
        mine = self.holders.pop(holder, None)
        self.holders = {name: other for name, other in self.holders.items() if other.until_ms > now_ms}
        for other in self.holders.values():
            other.until_ms = min(other.until_ms, now_ms + PERMIT_LEASE_MS)
        self.paused_until_ms = min(self.paused_until_ms, now_ms + RETRY_AFTER_MS_MAX)
        self.starts = _recent(self.starts.items(), now_ms - STARTS_MS, tick_ms)
        self.spent = _recent(self.spent.items(), now_ms - MINUTE_MS, tick_ms)
        return mine

    def _note(self, ask: PermitAsk, now_ms: int, tick_ms: int) -> None:
        for at_ms, count in ask.returned:
            if at_ms in self.starts:
                self.starts[at_ms] = max(0, self.starts[at_ms] - count)
        if ask.spent:
            self.spent[tick_ms] = self.spent.get(tick_ms, 0) + ask.spent
        self.expected = ask.expected or self.expected
        if ask.pause_ms:
            self.paused_until_ms = max(self.paused_until_ms, now_ms + ask.pause_ms)

    def _room(self, ask: PermitAsk, held_by_others: int) -> int:
        """Return how many more calls may begin now."""
        room, held_calls = ANY, held_by_others + ask.held
        if ask.at_once is not None:
            room = ask.at_once - held_calls
        if ask.per_minute is not None:
            room = min(room, ask.per_minute - sum(self.starts.values()))
        if ask.tokens_per_minute is not None:
            left = ask.tokens_per_minute - sum(self.spent.values()) - held_calls * self.expected
            room = min(room, -(-left // self.expected) if self.expected and left > 0 else left)
        return max(0, room)

    def _retry_ms(self, ask: PermitAsk, now_ms: int) -> int:
        """Return the pause before the next ask: until the minute has room, or short, until calls end."""
        if ask.per_minute is not None and sum(self.starts.values()) >= ask.per_minute:
            return max(1, min(self.starts) + STARTS_MS - now_ms)
        if ask.tokens_per_minute is not None and sum(self.spent.values()) >= ask.tokens_per_minute:
            return max(1, min(self.spent) + MINUTE_MS - now_ms)
        return PERMIT_POLL_MS


def _recent(counts: Iterable[tuple[int, int]], since_ms: int, tick_ms: int) -> dict[int, int]:
    recent: dict[int, int] = {}
    for at_ms, count in counts:
        if at_ms > since_ms and count:
            recent[min(at_ms, tick_ms)] = recent.get(min(at_ms, tick_ms), 0) + count
    return recent
