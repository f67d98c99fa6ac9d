"""A session read from its journal: the newest snapshot, and every record after it."""

import zlib
from dataclasses import dataclass
from typing import Final

from windlass.ports.store import Journal, Snapshots
from windlass_harness.loop.snapshot import dump_loop, load_loop
from windlass_harness.loop.state import LoopState

SNAPSHOT_RECORDS_MIN: Final = 256
"""A shorter tail of records is read faster than a snapshot is written."""
STATE_BYTES_MAX: Final = 1_073_741_824
"""A larger state is folded from its records again."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A session, and the number of the last record in its snapshot."""

    state: LoopState
    snapshot_seq: int


async def load(store: Journal, snapshots: Snapshots, *, session_id: str) -> Loaded:
    """Fold a session. A snapshot that cannot be used is passed over.

    Raises:
        Corrupt: the journal is damaged.
    """
    state, seq = LoopState(), 0
    saved = await snapshots.load(session_id)
    if saved is not None:
        found = _unpacked(saved[1])
        if found is not None and found.seq == saved[0]:
            state, seq = found, saved[0]
    while True:
        records = await store.read(session_id, after=state.seq)
        if not records:
            return Loaded(state, seq)
        state.apply_all(records)


def wants_snapshot(state: LoopState, snapshot_seq: int) -> bool:
    """Whether enough has happened for a new snapshot to be worth its bytes.

    The distance grows with the session, so that all snapshots of it together stay a fraction of its records.
    """
    return state.seq - snapshot_seq >= max(SNAPSHOT_RECORDS_MIN, snapshot_seq)


async def save(snapshots: Snapshots, session_id: str, *, state: LoopState) -> None:
    """Keep the state of a session."""
    await snapshots.save(session_id, state.seq, state=zlib.compress(dump_loop(state), 1))


def _unpacked(snapshot: bytes) -> LoopState | None:
    """Return the state in a snapshot; None if it cannot be used."""
    unpacker = zlib.decompressobj()
    try:
        dump = unpacker.decompress(snapshot, STATE_BYTES_MAX)
    except zlib.error:
        return None
    return load_loop(dump) if unpacker.eof else None
