"""Forgetting: a runtime believes what its journal says, and nothing else."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from windlass.engine.writer import SessionWriter
from windlass.ports.journal import Journal, Standing
from windlass_harness.loop.state import LoopState

_PAGE: Final = 4_096

ReadJournal = Callable[[SessionWriter], Journal]
"""Where to read a session that a writer has just written; by default, where it wrote it."""


@contextmanager
def always_replay(journal: ReadJournal | None = None) -> Generator[None]:
    """Drop the state of every session after each commit and fold all its records anew.

    Whatever a session knows and its journal does not is lost at once, so a test that passes with and without
    this proves that a crash after any commit would have changed nothing.
    """
    commit = SessionWriter.commit

    async def forgetful(
        self: SessionWriter, *, standing: Standing, wake_at_ms: int | None, is_last: bool = False
    ) -> None:
        await commit(self, standing=standing, wake_at_ms=wake_at_ms, is_last=is_last)
        state = self.state
        found = await folded(journal(self) if journal else self.journal, self.session_id, upto=state.seq)
        found.epoch = state.epoch
        # The driver and its work hold the very same object, so it is emptied and filled again.
        vars(state).clear()
        vars(state).update(vars(found))

    SessionWriter.commit = forgetful
    try:
        yield
    finally:
        SessionWriter.commit = commit


async def folded(journal: Journal, session_id: str, *, upto: int) -> LoopState:
    """Fold the first records of a session."""
    state = LoopState()
    while state.seq < upto:
        records = await journal.read(session_id, after=state.seq, limit=_PAGE)
        state.apply_all(record for record in records if record.seq <= upto)
    return state
