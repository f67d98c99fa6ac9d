"""Forks: a session that begins as another one was at some record.

A fork is cut at the end of an append. What became durable together stays together, so the copy is what a
crash at that moment would have left, and the rules that go on after a crash hold for it. Among those cuts
only such are safe at which no call is between its beginning and its result: the fork could otherwise neither
know what came of the call nor make it again. A run that is under way at the cut is cancelled in the fork.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from windlass.ports.archive import Archive, SessionCopy, StoredAppend
from windlass.ports.listing import SessionInfo
from windlass.refusals import bad_request
from windlass_harness.loop.advance import advance
from windlass_harness.loop.drafts import Draft, number
from windlass_harness.loop.events import CancelAsked, Moment
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.take import take
from windlass_harness.views.listing import Told, content_hashes
from windlass_harness.views.steps import CallStage
from windlass_protocol import Record

_APPENDS_PER_READ: Final = 64
_REASON: Final = "The session was forked."


async def prepare(archive: Archive, info: SessionInfo, *, new_id: str, at: int, now: Moment) -> SessionCopy:
    """Return the copy of a session up to the last safe point before or at a record.

    Raises:
        Rejected: there is none.
    """
    appends = await _appends(archive, info.session_id, at)
    # Folding a long session takes a while: no event loop does it.
    return await asyncio.to_thread(_copy, appends, info, new_id=new_id, at=at, now=now)


def _copy(
    appends: Sequence[StoredAppend], info: SessionInfo, *, new_id: str, at: int, now: Moment
) -> SessionCopy:
    safe = _safe(appends)
    if not safe:
        raise bad_request(f"there is no safe point up to record {at:,}: fork at a later one")
    copied = appends[: safe[-1]]
    last_seq = copied[-1].records[-1].seq
    epoch = max(append.epoch for append in copied) + 1
    closing = StoredAppend(_closing(copied, info.session_id, epoch=epoch, now=now), epoch)
    records = [record for append in copied for record in append.records]
    told = Told(
        now.at,
        now.at,
        title=info.title,
        agent_id=info.agent_id,
        owner=info.owner,
        predecessor=info.session_id,
        predecessor_seq=last_seq,
    )
    return SessionCopy(
        new_id,
        tuple(_renamed(append, new_id) for append in (*copied, closing)),
        told,
        uses=content_hashes(records),
        copied_from=info.session_id,
    )


def is_same(known: SessionInfo, made: SessionCopy, *, is_any: bool) -> bool:
    """Whether a session is the fork that is wanted; at any record if none was named."""
    told = made.told
    is_there = is_any or known.predecessor_seq == told.predecessor_seq
    return known.predecessor_id == told.predecessor and is_there


async def _appends(archive: Archive, session_id: str, at: int) -> list[StoredAppend]:
    """The appends of a session that end at or before a record."""
    found: list[StoredAppend] = []
    after = 0
    while more := await archive.appends(session_id, after=after, limit=_APPENDS_PER_READ):
        found += [append for append in more if append.records[-1].seq <= at]
        after = more[-1].records[-1].seq
        if after >= at:
            break
    return found


async def safe_points(archive: Archive, session_id: str, *, at: int) -> tuple[int, ...]:
    """Return the records up to one at which a fork can begin."""
    appends = await _appends(archive, session_id, at)
    safe = await asyncio.to_thread(_safe, appends)
    return tuple(appends[count - 1].records[-1].seq for count in safe)


def _safe(appends: Sequence[StoredAppend]) -> list[int]:
    """How many appends lead to each safe point."""
    state, found = LoopState(), list[int]()
    for count, append in enumerate(appends, 1):
        state.apply_all(append.records)
        calls = state.session.history.open_calls()
        if not any(call.stage is CallStage.STARTED for call in calls):
            found.append(count)
    return found


def _closing(
    copied: Sequence[StoredAppend], session_id: str, *, epoch: int, now: Moment
) -> tuple[Record, ...]:
    """Where the fork came from, and the end of the run that was under way."""
    state, records = LoopState(), list[Record]()
    for append in copied:
        state.apply_all(append.records)
    cut = state.seq
    state.epoch = epoch

    def add(drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            # Whatever other sessions would be told of the end, it is not theirs.
            record = number(draft, session_id, seq=state.seq + 1, epoch=epoch)
            records.append(record)
            state.apply(record)

    add([Draft("session.forked", now.at, {"predecessor": session_id, "predecessorSeq": cut})])
    if state.run is not None:
        add(take(state, CancelAsked(state.run.run_id, reason=_REASON), now=now))
    while state.run is not None:
        plan = advance(state, frozenset(), now=now)
        assert plan.drafts, "a run that is cancelled, with nothing under way, ends"
        add(plan.drafts)
    return tuple(records)


def _renamed(append: StoredAppend, session_id: str) -> StoredAppend:
    """The append in the fork; its body does not name the session."""
    records = tuple(record.model_copy(update={"session_id": session_id}) for record in append.records)
    return replace(append, records=records)
