"""Port of permits: how many model calls all processes of a store send to a provider."""

from typing import Final, Protocol, runtime_checkable

from windlass_protocol.frozen import frozen

PERMIT_MS: Final = 2_000
"""How long a permit may be kept before its call begins."""
PERMIT_LEASE_MS: Final = 15_000
"""A process that has not asked for this long is taken for dead; its permits are free."""
PERMIT_POLL_MS: Final = 250
"""Pause before a process asks again after it got no permit."""


@frozen
class PermitAsk:
    """What a process tells of its calls to a model provider, and how many more it wants to begin."""

    provider: str
    holder: str
    """The process: a unique id."""
    number: int
    """1 for its first; a repeated ask has the number of the original."""
    at_once: int | None
    per_minute: int | None
    tokens_per_minute: int | None
    held: int
    """Its calls under way, and the permits that it keeps; those that it held before are free."""
    wants: int = 0
    """Calls that wait."""
    ahead: int = 0
    """Further permits, for calls to come; given if no other process waits."""
    returned: tuple[tuple[int, int], ...] = ()
    """Permits of earlier grants that were not used: `at_ms` of the grant, and how many."""
    spent: int = 0
    """Tokens of calls that ended since the last ask."""
    expected: int = 0
    """Tokens of its last call; 0 if it is not known."""
    pause_ms: int = 0
    """For how long the provider asked for a pause."""


@frozen
class PermitGrant:
    """How many calls a process may begin, by the clock of the database."""

    count: int
    """Permits, each for one call that begins within `PERMIT_MS` after the ask was sent."""
    at_ms: int
    """The time that the permits count from."""
    is_contended: bool
    """Whether another process waits, so that unused permits must be returned."""
    retry_ms: int
    """When to ask again if calls still wait."""
    paused_ms: int
    """For how long no call may begin."""


@runtime_checkable
class PermitStore(Protocol):
    """A store that counts the model calls of all processes that share it."""

    async def take_permits(self, ask: PermitAsk) -> PermitGrant:
        """Note what a process holds, and give it permits.

        The limits of an ask hold for all processes together. Processes that wait are served in turn. A lost
        answer costs permits, and never gives too many.

        Raises:
            Unavailable: the database cannot be reached; nothing was given.
            Rejected: its user may not make the table of permits.
        """
        ...
