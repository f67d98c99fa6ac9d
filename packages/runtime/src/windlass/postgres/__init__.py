"""Stores in PostgreSQL.

They need the extra `windlass-runtime[postgres]`, which is imported when the first store is opened.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.postgres.maintenance import postgres_schemas as postgres_schemas
    from windlass.postgres.maintenance import with_schema as with_schema
    from windlass.postgres.store import PostgresStore as PostgresStore

_HOMES = {
    "windlass.postgres.maintenance": ("postgres_schemas", "with_schema"),
    "windlass.postgres.store": ("PostgresStore",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
