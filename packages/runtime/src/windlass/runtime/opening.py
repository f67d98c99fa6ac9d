"""Opening a store by its address: the path of a SQLite file, or a URL of PostgreSQL."""

from pathlib import Path
from typing import Final

from windlass.adapters.journals.rules import misconfiguration
from windlass.runtime import rooms

POSTGRES: Final = ("postgresql://", "postgres://")


def is_postgres(address: object) -> bool:
    """Return whether an address names a PostgreSQL database."""
    return isinstance(address, str) and address.startswith(POSTGRES)


async def open_store(address: str | Path, *, durability: rooms.Durability = "power") -> rooms.OpenedStore:
    """Open a store, and take in what recorders of dead processes left beside a file.

    PostgreSQL has its own settings of durability.

    Raises:
        Rejected: the address is not valid, or another version or application made what is there.
        Corrupt: the store is damaged.
        Unavailable: it cannot be reached now.
    """
    if is_postgres(address):
        return await rooms.open_postgres(str(address))
    if isinstance(address, str) and "://" in address:
        # Not a path: it would be shown in messages, with a password.
        raise misconfiguration(
            "a store is a file or postgresql://user@host/database, found an address of another form"
        )
    return await rooms.open_sqlite(address, durability=durability)
