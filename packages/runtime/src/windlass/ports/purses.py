"""Port of purses: what runs have spent of the limits that they share, and what their calls may spend.

A limit has a purse for each period, and for each owner or agent if it is one for each. A call under way is
held in its purses with the most that it can cost; the append that ends it says what it has cost. So records
and purses agree after any crash, and a call of a dead process is settled by the next owner of its session.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from windlass.ports.journal import Claim
from windlass_harness.loop.rules import CallBounds
from windlass_protocol import BudgetName
from windlass_protocol.frozen import frozen

PURSE: Final = "purse"
"""The kind of the documents of purses."""
PURSE_CALLS: Final = "purse-calls"
"""The kind of the documents with the calls of a session that purses hold, by its id."""


@frozen
class Purse:
    """A purse, and the limit that it is kept to."""

    limit: str
    """The name of the limit."""
    subject: str
    """The owner or the agent that it is for; empty if it is for all."""
    period: str
    """The day or the month."""
    max_cost_micros: int | None = None
    max_tokens: int | None = None
    over_micros: int = 0
    """What a person lets the run spend, whatever is left."""
    over_tokens: int = 0

    @property
    def name(self) -> str:
        """The name of its document."""
        return f"{self.limit}/{self.period}/{self.subject}"

    def available(self, state: "PurseState") -> tuple[int | None, int | None]:
        """Return the money and the tokens that a call may use; None does not limit them."""
        micros, tokens = self.max_cost_micros, self.max_tokens
        return (
            None if micros is None else max(micros - state.cost_micros - state.held_micros, self.over_micros),
            None if tokens is None else max(tokens - state.tokens - state.held_tokens, self.over_tokens),
        )


@frozen
class PurseState:
    """What a purse has spent, and what it holds for calls under way."""

    cost_micros: int = 0
    tokens: int = 0
    held_micros: int = 0
    held_tokens: int = 0


@frozen
class CallAsk:
    """A model call that may begin if it fits all purses that it counts for."""

    claim: Claim
    call: str
    """What the call is known by in its session; the same call again takes the place of the first."""
    purses: tuple[Purse, ...]
    bounds: CallBounds


@frozen
class CallGrant:
    """A call is held in its purses with an answer of so many tokens."""

    answer_tokens: int


@frozen
class CallRefusal:
    """A call does not fit a purse; it is held in none."""

    purse: Purse
    state: PurseState
    needed_micros: int
    """What the shortest answer may cost."""
    needed_tokens: int

    @property
    def budget(self) -> BudgetName:
        """What it does not fit: the limit in money, or the one in tokens."""
        micros, _ = self.purse.available(self.state)
        is_about_money = micros is not None and self.needed_micros > micros
        return BudgetName.COST if is_about_money else BudgetName.TOKENS


@runtime_checkable
class PurseStore(Protocol):
    """A store that keeps purses; `Batch.calls` settles what is held in them."""

    async def hold_call(self, ask: CallAsk) -> CallGrant | CallRefusal:
        """Hold a call in all its purses, or in none; an answer that does not fit is made shorter.

        Raises:
            Conflict: the claim is stale; nothing is held.
            Unavailable: nothing is held.
            Ambiguous: it may be held: ask again.
        """
        ...

    async def purses(self, names: Sequence[str]) -> tuple[PurseState, ...]:
        """Return what purses have spent and hold, by their names; nothing if no call has used one."""
        ...
