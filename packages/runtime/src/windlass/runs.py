"""Runs as the store has them: where each is, and what came of it."""

import asyncio
from typing import Final

from windlass.ports.feed import EventBus
from windlass.ports.journal import COMPACT, RunRow, Store
from windlass.refusals import unknown_run, unknown_session
from windlass_harness.views.runs import RUN_ENDS, RunState, advance_run, start_run, unstarted_run
from windlass_protocol import Event, Record, RunResult, RunSnapshot, RunStatus

TERMINAL: Final = frozenset(RUN_ENDS.values())


class Runs:
    """Reads runs; it starts none."""

    def __init__(self, store: Store, bus: EventBus) -> None:
        self._store = store
        self._bus = bus

    async def row(self, run_id: str) -> RunRow:
        """Return what the catalogue knows of a run.

        Raises:
            Conflict: nobody ever started it.
        """
        row = await self._store.run(run_id)
        if row is None:
            raise unknown_run(run_id)
        return row

    async def ask_compaction(self, session_id: str, *, key: str) -> None:
        """Put the wish for a shorter history into the inbox of a session.

        Raises:
            Conflict: there is no such session.
        """
        if await self._store.session(session_id) is None:
            raise unknown_session(session_id)
        await self._store.post(session_id, kind=COMPACT, key=f"{COMPACT}:{key}", body={})

    async def snapshot(self, run_id: str) -> RunSnapshot:
        """Return what is known of a run, also of one that has not begun.

        Raises:
            Conflict: nobody ever started it.
        """
        row = await self.row(run_id)
        waiting = await self._waiting(row)
        # What is not in the inbox any more was begun, if only since we looked.
        return waiting or await self._begun(row)

    async def _waiting(self, row: RunRow) -> RunSnapshot | None:
        items = await self._store.pending(row.session_id)
        ours = {item.kind: item.body for item in items if item.body.get("runId") == row.run_id}
        body = ours.get("start")
        if body is None:
            return None
        given = ("packageId", "packageFingerprint", "routeId", "modelId", "turnId", "source")
        return RunSnapshot.model_validate(
            {
                **{name: body[name] for name in given if name in body},
                "runId": row.run_id,
                "agentId": row.agent_id,
                "status": RunStatus.PENDING,
                "sessionId": row.session_id,
                "cancellationRequested": "cancel" in ours,
            }
        )

    async def _begun(self, row: RunRow) -> RunSnapshot:
        run: RunState | None = None
        async for event in self._bus.replay_run_from_cursor(row.run_id):
            record = record_of(event, row.session_id)
            started = start_run(record) or unstarted_run(record)
            run = started if started is not None else run and advance_run(run, record)
        snapshot = None if run is None else run.snapshot
        assert snapshot is not None, "a run that has left the inbox begins with its package"
        return snapshot

    async def result(self, run_id: str, timeout: float | None = None) -> RunResult:  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return what came of a run, once it has ended.

        Raises:
            TimeoutError: it did not end in so many seconds. It goes on.
            Conflict: nobody ever started it.
        """
        row = await self.row(run_id)
        if row.status in TERMINAL:
            event = await self._bus.latest_terminal_event(run_id)
        else:
            async with asyncio.timeout(timeout):
                event = await self._bus.terminal_event(run_id)
        assert event is not None, "a run that has ended has a last event"
        run = RunState(run_id, row.agent_id, row.session_id, started_at=event.meta.at)
        result = advance_run(run, record_of(event, row.session_id)).result
        assert result is not None, "the last event of a run seals its result"
        return result


def record_of(event: Event, session_id: str) -> Record:
    """Return the record that an event shows."""
    return Record.model_construct(
        session_id=event.session_id or session_id,
        seq=event.seq or 1,
        type=event.type,
        at=event.meta.at,
        data=event.data,
        run_id=event.run_id,
        agent_id=event.agent_id,
        turn_id=None,
    )
