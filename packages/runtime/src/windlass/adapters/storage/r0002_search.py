"""Search: sessions and messages have a folded text, also the old ones."""

from collections.abc import Callable
from typing import Final

from alembic.operations import Operations
from sqlalchemy import Connection, Text, bindparam, column, select, table, text, update
from sqlalchemy.schema import Column

from windlass.adapters.storage.documents import session_search_text
from windlass.adapters.storage.words import fold
from windlass_protocol.codec import CodecError, parse

revision = "r0002"
down_revision = "r0001"

_BATCH_ROWS: Final = 100
"""Documents that are in memory at a time."""


def upgrade(op: Operations) -> None:
    """Add the column and fill it."""
    for name, folded in (("windlass_session", session_search_text), ("windlass_message", _content)):
        op.add_column(name, Column("search_text", Text, nullable=False, server_default=text("''")))
        _fill(op.get_bind(), name, folded)


def _content(body: str) -> str:
    match parse(body):
        case {"content": str(content)}:
            return fold(content)
        case _:
            return ""


def _fill(connection: Connection, name: str, folded: Callable[[str], str]) -> None:
    rows = table(name, column("position"), column("body"), column("search_text"))
    batch = select(rows.c.position, rows.c.body).order_by(rows.c.position).limit(_BATCH_ROWS)
    change = update(rows).where(rows.c.position == bindparam("at")).values(search_text=bindparam("folded"))
    found = connection.execute(batch).all()
    while found:
        connection.execute(
            change, [{"at": row.position, "folded": _attempt(folded, row.body)} for row in found]
        )
        found = connection.execute(batch.where(rows.c.position > found[-1].position)).all()


def _attempt(folded: Callable[[str], str], body: str) -> str:
    # A damaged document is reported when somebody reads it; it must not keep all others from being opened.
    try:
        return folded(body)
    except CodecError:
        return ""
