"""A session read from its records: its chat, its past, the traces of its runs."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from windlass.catalog.page import Page, page_of
from windlass.ports.journal import Journal, RunRow
from windlass.refusals import bad_request, not_begun
from windlass_harness.tracing import TraceState, fold_trace
from windlass_harness.views import (
    ChatState,
    RunsState,
    SessionState,
    UsageState,
    fold_chat,
    fold_runs,
    fold_session,
    fold_usage,
)
from windlass_protocol import ChatMessage, HarnessTrace, Record, TraceEvent, TraceSpan

_RECORDS_PER_READ: Final = 512
MESSAGES: Final = "messages"
"""The kind of the cursors of a chat."""


@dataclass(frozen=True, slots=True)
class SessionAt:
    """A session as it was after one of its records."""

    seq: int
    session: SessionState
    messages: tuple[ChatMessage, ...]
    runs: RunsState
    usage: UsageState


@dataclass(frozen=True, slots=True)
class RunTrace:
    """What a run did and how long it took; the first span is the run itself."""

    trace: HarnessTrace
    spans: tuple[TraceSpan, ...]
    events: tuple[TraceEvent, ...]


async def pages_of(
    journal: Journal, session_id: str, *, after: int = 0, last: int | None = None
) -> AsyncIterator[tuple[Record, ...]]:
    """Return the records of a session in pieces, up to one of them or to the end."""
    while last is None or after < last:
        records = await journal.read(session_id, after=after, limit=_RECORDS_PER_READ)
        if last is not None:
            records = tuple(record for record in records if record.seq <= last)
        if not records:
            return
        yield records
        after = records[-1].seq


async def chat_page(journal: Journal, session_id: str, *, after: int, limit: int) -> Page[ChatMessage]:
    """Return messages of the chat of a session, the first `after` of them left out.

    The records are read from the first on, and no further than the page needs.
    """
    chat, end = ChatState(), after + limit
    async for records in pages_of(journal, session_id):
        chat = fold_chat(records, chat)
        if len(chat.messages) > end and _is_settled(chat, end):
            break
    found = [*enumerate(chat.messages[after : end + 1], after + 1)]
    page = page_of(found, limit, kind=MESSAGES, place=lambda numbered: numbered[0])
    return Page(tuple(message for _, message in page.items), page.next)


def _is_settled(chat: ChatState, end: int) -> bool:
    """Whether the messages before one stay: only the newest step is written on."""
    return chat.step is None or chat.step.at is None or chat.step.at >= end


async def session_at(journal: Journal, session_id: str, *, seq: int, last_seq: int) -> SessionAt:
    """Return a session as it was after a record.

    Raises:
        Rejected: it has no such record.
    """
    if not 0 <= seq <= last_seq:
        raise bad_request(f"the session has records 1 to {last_seq:,}, found {seq:,}")
    session, chat, runs, usage = SessionState(), ChatState(), RunsState(), UsageState()
    async for records in pages_of(journal, session_id, last=seq):
        session, chat = fold_session(records, session), fold_chat(records, chat)
        runs, usage = fold_runs(records, runs), fold_usage(records, usage)
    return SessionAt(seq, session, chat.messages, runs, usage)


async def trace_of(row: RunRow, journal: Journal, *, owner: str | None) -> RunTrace:
    """Return the trace of a run, whether it goes on or has ended.

    Raises:
        Conflict: it has not begun.
    """
    state = TraceState()
    if row.first_seq:
        async for records in pages_of(journal, row.session_id, after=row.first_seq - 1):
            state = fold_trace(records, state, run_id=row.run_id, user_id=owner)
            if state.trace is not None and state.trace.ended_at is not None:
                break
    if state.trace is None:
        raise not_begun(row.run_id)
    return RunTrace(state.trace, state.spans, state.events)
