"""The tables of the SQL storage, as the newest migration leaves them."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from windlass.adapters.storage.documents import AGENT, EVENT, MESSAGE, SESSION, SPAN, TRACE

METADATA: Final = MetaData()

_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers its rows only in a column that is called INTEGER."""


def _position() -> Column[int]:
    # Never reused, so that a cursor never comes to stand before a new row by accident.
    return Column("position", _NUMBER, primary_key=True)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _trace_id() -> Column[str]:
    return Column("trace_id", Text, ForeignKey("windlass_trace.trace_id", ondelete="CASCADE"), nullable=False)


def _search_text() -> Column[str]:
    return Column("search_text", Text, nullable=False, server_default=text("''"))


_SESSIONS = Table(
    "windlass_session",
    METADATA,
    _position(),
    _text("session_id"),
    _text("user_id"),
    _text("chat_id"),
    Column("is_active", Boolean, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    _text("body"),
    _search_text(),
    UniqueConstraint("session_id", name="windlass_session_key"),
    Index("windlass_session_order", "created_us", "position"),
    Index("windlass_session_user", "user_id", "created_us", "position"),
    Index("windlass_session_chat", "chat_id", "created_us", "position"),
    sqlite_autoincrement=True,
)
_AGENTS = Table(
    "windlass_agent",
    METADATA,
    _position(),
    _text("agent_id"),
    Column("is_archived", Boolean, nullable=False),
    Column("sort_key", BigInteger, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    _text("body"),
    UniqueConstraint("agent_id", name="windlass_agent_key"),
    Index("windlass_agent_order", "sort_key", "created_us", "position"),
    sqlite_autoincrement=True,
)
_MESSAGES = Table(
    "windlass_message",
    METADATA,
    _position(),
    _text("chat_id"),
    _text("message_id"),
    _text("body"),
    _search_text(),
    UniqueConstraint("chat_id", "message_id", name="windlass_message_key"),
    Index("windlass_message_order", "chat_id", "position"),
    sqlite_autoincrement=True,
)
_TRACES = Table(
    "windlass_trace",
    METADATA,
    _position(),
    _text("trace_id"),
    _text("session_id"),
    Column("started_us", BigInteger, nullable=False),
    _text("body"),
    UniqueConstraint("trace_id", name="windlass_trace_key"),
    Index("windlass_trace_session", "session_id", "started_us", "position"),
    sqlite_autoincrement=True,
)
_SPANS = Table(
    "windlass_span",
    METADATA,
    _position(),
    _trace_id(),
    _text("span_id"),
    _text("body"),
    UniqueConstraint("trace_id", "span_id", name="windlass_span_key"),
    Index("windlass_span_order", "trace_id", "position"),
    sqlite_autoincrement=True,
)
_EVENTS = Table(
    "windlass_trace_event",
    METADATA,
    _position(),
    _trace_id(),
    _text("event_id"),
    _text("body"),
    UniqueConstraint("trace_id", "event_id", name="windlass_trace_event_key"),
    Index("windlass_trace_event_order", "trace_id", "position"),
    sqlite_autoincrement=True,
)

TABLES: Final[dict[str, Table]] = {
    SESSION.name: _SESSIONS,
    AGENT.name: _AGENTS,
    MESSAGE.name: _MESSAGES,
    TRACE.name: _TRACES,
    SPAN.name: _SPANS,
    EVENT.name: _EVENTS,
}
"""The table of each shape, by its name."""
