"""Purses in documents: the same steps in every store, inside one of its transactions.

The append of a session changes the document of that session alone, so sessions do not wait for each other
at a purse that all share. Calls that have ended are moved from what is held to what is spent by the next
transaction that holds a call or reads a purse.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from windlass.ports.journal import SharedCalls
from windlass.ports.purses import PURSE, PURSE_CALLS, CallAsk, CallGrant, CallRefusal, Purse, PurseState
from windlass_protocol import JsonObject
from windlass_protocol.frozen import mutable


class PurseRows(Protocol):
    """Documents inside a transaction, read and written without regard to their revision."""

    def read_row(self, kind: str, name: str) -> JsonObject | None:
        """Return the body of a document, which no other transaction changes until the end of this one."""
        ...

    def write_row(
        self, kind: str, name: str, body: JsonObject | None, *, due_at_ms: int | None = None
    ) -> None:
        """Write the body of a document; None deletes it."""
        ...

    def due_rows(self, kind: str) -> Iterable[tuple[str, JsonObject]]:
        """Return the names and bodies of the documents that are due and no other transaction changes."""
        ...


@mutable
class HeldCall:
    """A call in the document of its session."""

    purses: list[str]
    micros: int
    tokens: int
    paid: tuple[int, int] | None = None
    """What it has cost; None while it is under way."""

    @staticmethod
    def read(body: JsonObject) -> "HeldCall":
        """Return a call as it was written."""
        paid = cast("list[int] | None", body.get("paid"))
        return HeldCall(
            cast("list[str]", body["purses"]),
            cast("int", body["micros"]),
            cast("int", body["tokens"]),
            None if paid is None else (paid[0], paid[1]),
        )

    def body(self) -> JsonObject:
        """Return the call as it is written."""
        body: JsonObject = {"purses": [*self.purses], "micros": self.micros, "tokens": self.tokens}
        return body if self.paid is None else {**body, "paid": [*self.paid]}


def hold_call(rows: PurseRows, ask: CallAsk) -> CallGrant | CallRefusal:
    """Hold a call in its purses if it fits all; see `PurseStore.hold_call`."""
    _move_paid(rows)
    session_id, bounds = ask.claim.session_id, ask.bounds
    calls = _read_calls(rows, session_id)
    before = calls.pop(ask.call, None)
    if before is not None:
        _add(rows, before.purses, held=(-before.micros, -before.tokens))
    longest = bounds.answer_tokens
    for purse in ask.purses:
        state = _state_of(rows.read_row(PURSE, purse.name))
        longest = min(longest, _fit(purse, state, ask))
        if longest < bounds.answer_tokens_min:
            _write_calls(rows, session_id, calls)
            return CallRefusal(purse, state, *bounds.amounts(bounds.answer_tokens_min))
    held = HeldCall([purse.name for purse in ask.purses], *bounds.amounts(longest))
    _add(rows, held.purses, held=(held.micros, held.tokens))
    calls[ask.call] = held
    _write_calls(rows, session_id, calls)
    return CallGrant(longest)


def settle_calls(rows: PurseRows, session_id: str, shared: SharedCalls) -> None:
    """Note what calls of a session have cost; one that is neither paid nor open never began."""
    calls = _read_calls(rows, session_id)
    for paid_call in shared.paid:
        if paid_call.purses:
            calls[paid_call.call] = HeldCall([*paid_call.purses], 0, 0)
    if not calls:
        return
    paid = {paid_call.call: paid_call for paid_call in shared.paid}
    for name, call in calls.items():
        if name in paid:
            micros, tokens = paid[name].micros, paid[name].tokens
            call.paid = (
                call.micros if micros is None else micros,
                call.tokens if tokens is None else tokens,
            )
        elif name != shared.open_call and call.paid is None:
            call.paid = (0, 0)
    _write_calls(rows, session_id, calls)


def read_purses(rows: PurseRows, names: Sequence[str]) -> tuple[PurseState, ...]:
    """Return the states of purses, with all calls that have ended."""
    _move_paid(rows)
    return tuple(_state_of(rows.read_row(PURSE, name)) for name in names)


def _state_of(body: JsonObject | None) -> PurseState:
    if body is None:
        return PurseState()
    return PurseState(*(cast("int", body[name]) for name in ("micros", "tokens", "heldMicros", "heldTokens")))


def _fit(purse: Purse, state: PurseState, ask: CallAsk) -> int:
    micros, tokens = purse.available(state)
    return ask.bounds.longest(micros=micros, tokens=tokens)


def _move_paid(rows: PurseRows) -> None:
    """Move calls that have ended from what is held to what is spent."""
    for session_id, body in rows.due_rows(PURSE_CALLS):
        calls = {name: HeldCall.read(cast("JsonObject", call)) for name, call in body.items()}
        for call in calls.values():
            if call.paid is not None:
                _add(rows, call.purses, held=(-call.micros, -call.tokens), spent=call.paid)
        _write_calls(rows, session_id, {name: call for name, call in calls.items() if call.paid is None})


def _add(
    rows: PurseRows, purses: Iterable[str], *, held: tuple[int, int], spent: tuple[int, int] = (0, 0)
) -> None:
    for name in purses:
        state = _state_of(rows.read_row(PURSE, name))
        body: JsonObject = {
            "micros": state.cost_micros + spent[0],
            "tokens": state.tokens + spent[1],
            "heldMicros": state.held_micros + held[0],
            "heldTokens": state.held_tokens + held[1],
        }
        rows.write_row(PURSE, name, body)


def _read_calls(rows: PurseRows, session_id: str) -> dict[str, HeldCall]:
    body = rows.read_row(PURSE_CALLS, session_id) or {}
    return {name: HeldCall.read(cast("JsonObject", call)) for name, call in body.items()}


def _write_calls(rows: PurseRows, session_id: str, calls: dict[str, HeldCall]) -> None:
    body: JsonObject = {name: call.body() for name, call in calls.items()}
    is_due = any(call.paid is not None for call in calls.values())
    rows.write_row(PURSE_CALLS, session_id, body or None, due_at_ms=0 if is_due else None)
