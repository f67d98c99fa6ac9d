"""Wakes: the port that calls `drive` for a session with something to do, in some process.

The journal makes driving safe: every append names the epoch of its owner, so a session that is driven twice,
late or by a process that was replaced is never damaged. An engine of wakes has one duty: after each wake,
call `drive` at least once, in any process, and again if the call failed. Lost wakes are repeated: every
process that drives looks for sessions that are due and have no owner.
"""

from collections.abc import Awaitable
from typing import Protocol

from windlass_protocol.frozen import frozen


@frozen
class Parked:
    """A session with nothing to do before an item arrives, or a time."""

    wake_in_ms: int | None
    """After how long it must be driven again; None if only an item wakes it."""
    agent_id: str | None = None
    """The agent of its newest run."""
    status: str | None = None
    """The status of that run."""


class NotParked(Exception):
    """The session was not driven until it parked: the wake is not done, and `drive` has to be called again.

    Another owner has the session or took it, this process stops, or it does not have the agent.
    """


class Drive(Protocol):
    """Drives sessions in this process."""

    def __call__(self, session_id: str) -> Awaitable[Parked]:
        """Begin to drive a session until it parks; a session that is driven here reads its inbox again.

        The drive begins with the call; await the result to learn how it ends. Cancelling the awaitable ends
        the drive, and the next one continues as after a crash: shield it.

        Raises:
            NotParked: call again, later or elsewhere.
            AgentError: the drive failed; as above.
        """
        ...


class Wakes(Protocol):
    """Has sessions driven, by this process or another."""

    @property
    def lost_after_ms(self) -> int:
        """How long a session may be due without an owner before its wake is taken for lost and repeated."""
        ...

    async def open(self, drive: Drive | None) -> None:
        """Begin to call `drive` for wakes of any process; None if this process only wakes.

        Raises:
            Unavailable: the engine of wakes cannot be reached.
            Rejected: it refuses this process.
        """
        ...

    def wake(self, session_id: str, *, is_lost: bool = False) -> None:
        """Have a session driven. It returns at once and never fails.

        A wake during a drive leads to another drive, unless the drive under way sees all that was written
        before the wake. Wakes may be merged, repeated and made in any order. `is_lost` says that an earlier
        wake had no effect for `lost_after_ms`: the engine of wakes may have to repair what it has of the
        session.
        """
        ...

    async def aclose(self) -> None:
        """Call `drive` no more; return once no call waits. Wakes that were not sent may be lost."""
        ...
