"""Opening a store by its address: the path of a SQLite file, or a URL of PostgreSQL."""

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from windlass.adapters.journals.rules import misconfigured
from windlass.errors import install_hint
from windlass.ports.store import (
    RunFilter,
    RunOrder,
    SessionFilter,
    SessionOrder,
    place_of_run,
    place_of_session,
)

if TYPE_CHECKING:
    from windlass.adapters.journals.postgres.store import PostgresStore
    from windlass.adapters.journals.sqlite.store import SqliteStore

POSTGRES: Final = ("postgresql://", "postgres://")


def is_postgres(place: object) -> bool:
    """Return whether an address names a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(POSTGRES)


def check_psycopg() -> None:
    """Refuse PostgreSQL without its driver; Rejected says how to install it."""
    if find_spec("psycopg") is None:
        raise misconfigured(f"a store in PostgreSQL needs psycopg: {install_hint('postgres')}")


async def migrate_postgres(address: str, *, is_trial: bool) -> tuple[str, int, int]:
    """Bring a store to the version of this release, unless it is a trial; an empty database gets its tables.

    Returns the address without its password, the version that was found, and that of this release.

    Raises:
        Rejected: the store is of a newer release, or the user lacks a right.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.adapters.journals.postgres.link import address_of  # noqa: PLC0415 - an extra
    from windlass.adapters.journals.postgres.schema import SCHEMA, migrated  # noqa: PLC0415 - an extra

    place = address_of(address, schema=SCHEMA)
    found, known = await asyncio.to_thread(migrated, place, is_trial=is_trial)
    return place.name, found, known


async def look_at_postgres(address: str) -> tuple[str, int, int, int, int | None]:
    """Look at a store without changing it, see `looked_at`.

    Returns the address without its password, the version found, that of this release, the clock of the server
    and the newest heartbeat of an owner, in milliseconds since 1970.

    Raises:
        Rejected: it cannot be used, or a newer release made it.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.adapters.journals.postgres.link import address_of  # noqa: PLC0415 - an extra
    from windlass.adapters.journals.postgres.schema import MIGRATIONS, SCHEMA, looked_at  # noqa: PLC0415

    place = address_of(address, schema=SCHEMA)
    found, now_ms, beat_ms = await asyncio.to_thread(looked_at, place)
    return place.name, found, len(MIGRATIONS), now_ms, beat_ms


async def verify_postgres(address: str) -> int:
    """Read every record, session and run of a store, which may be in use; return the number of records.

    Raises:
        Corrupt: a row is not what was written, or a record is missing.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.adapters.journals.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

    store, position, count = await PostgresStore.open(address), 0, 0
    try:
        while records := await store.read_all(after=position):
            position, count = records[-1].position or 0, count + len(records)
        name: str | None = None
        while sessions := await store.sessions(after=name):
            name = sessions[-1].session_id
        wanted, order = RunFilter(), RunOrder(is_ascending=True)
        while runs := await store.listed_runs(wanted, order=order):
            order = replace(order, after=place_of_run(runs[-1], wanted=wanted, by=order.by))
        every, newest = SessionFilter(root_only=False), SessionOrder()
        while listed := await store.listed(every, order=newest):
            newest = replace(newest, after=place_of_session(listed[-1], by=newest.by))
    finally:
        await store.aclose()
    return count


def names_schema(address: str) -> bool:
    """Return whether an address of PostgreSQL names one schema, as `?schema=…`."""
    return any(one.startswith("schema=") for one in address.partition("?")[2].split("&"))


def with_schema(address: str, schema: str) -> str:
    """Return the address of another schema in the same database."""
    head, _, query = address.partition("?")
    options = [one for one in query.split("&") if one and not one.startswith("schema=")]
    return f"{head}?{'&'.join([*options, f'schema={schema}'])}"


async def postgres_schemas(address: str) -> tuple[str, ...]:
    """Return the schemas of a database that hold a store.

    Raises:
        Rejected: the address is not valid, or the server refuses the user.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.adapters.journals.postgres.link import address_of  # noqa: PLC0415 - an extra
    from windlass.adapters.journals.postgres.schema import SCHEMA, schemas_at  # noqa: PLC0415 - an extra

    return await asyncio.to_thread(schemas_at, address_of(address, schema=SCHEMA))


async def open_store(
    place: str | Path, *, durability: Literal["power", "process"] = "power"
) -> "SqliteStore | PostgresStore":
    """Open a store, and take in what recorders of dead processes left beside a file.

    PostgreSQL has its own settings of durability.

    Raises:
        Rejected: the address is not valid, or another version or application made what is there.
        Corrupt: the store is damaged.
        Unavailable: it cannot be reached now.
    """
    if is_postgres(place):
        check_psycopg()
        from windlass.adapters.journals.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

        return await PostgresStore.open(str(place))
    if isinstance(place, str) and "://" in place:
        # Not a path: it would be shown in messages, with a password.
        raise misconfigured(
            "a store is a file or postgresql://user@host/database, found an address of another form"
        )
    from windlass.adapters.journals.sqlite.spool import spool_folder  # noqa: PLC0415 - slow to import
    from windlass.adapters.journals.sqlite.store import SqliteStore  # noqa: PLC0415 - slow to import

    store = await SqliteStore.open(place, durability=durability)
    if spool_folder(store.path).is_dir():
        from windlass.adapters.journals.sqlite.recorded import take_in_left  # noqa: PLC0415 - slow to import

        try:
            await asyncio.to_thread(take_in_left, store.path, durability=durability)
        except BaseException:
            await store.aclose()
            raise
    return store
