"""Documents: sessions, agents, messages, traces, spans and trace events."""

from alembic.operations import Operations
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Integer,
    Text,
    UniqueConstraint,
)

revision = "r0001"
down_revision = None


def upgrade(op: Operations) -> None:
    """Make the tables."""
    session_columns = [
        *_texts("session_id", "user_id", "chat_id"),
        _boolean("is_active"),
        _number("created_us"),
    ]
    _table(op, "session", session_columns, key=("session_id",))
    op.create_index("windlass_session_order", "windlass_session", ["created_us", "position"])
    op.create_index("windlass_session_user", "windlass_session", ["user_id", "created_us", "position"])
    op.create_index("windlass_session_chat", "windlass_session", ["chat_id", "created_us", "position"])
    agent_columns = [*_texts("agent_id"), _boolean("is_archived"), _number("sort_key"), _number("created_us")]
    _table(op, "agent", agent_columns, key=("agent_id",))
    op.create_index("windlass_agent_order", "windlass_agent", ["sort_key", "created_us", "position"])
    _table(op, "message", _texts("chat_id", "message_id"), key=("chat_id", "message_id"))
    op.create_index("windlass_message_order", "windlass_message", ["chat_id", "position"])
    _table(op, "trace", [*_texts("trace_id", "session_id"), _number("started_us")], key=("trace_id",))
    op.create_index("windlass_trace_session", "windlass_trace", ["session_id", "started_us", "position"])
    for name, key in (("span", "span_id"), ("trace_event", "event_id")):
        _table(op, name, _texts("trace_id", key), key=("trace_id", key), is_traced=True)
        op.create_index(f"windlass_{name}_order", f"windlass_{name}", ["trace_id", "position"])


def _table(
    op: Operations,
    name: str,
    columns: list[Column[str] | Column[int] | Column[bool]],
    *,
    key: tuple[str, ...],
    is_traced: bool = False,
) -> None:
    trace = ForeignKeyConstraint(["trace_id"], ["windlass_trace.trace_id"], ondelete="CASCADE")
    op.create_table(
        f"windlass_{name}",
        Column("position", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
        *columns,
        *_texts("body"),
        UniqueConstraint(*key, name=f"windlass_{name}_key"),
        *([trace] if is_traced else []),
        sqlite_autoincrement=True,
    )


def _texts(*names: str) -> list[Column[str] | Column[int] | Column[bool]]:
    return [Column(name, Text, nullable=False) for name in names]


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _boolean(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)
