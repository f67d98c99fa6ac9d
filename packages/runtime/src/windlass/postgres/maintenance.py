"""Stores in PostgreSQL by their addresses: migrate, look at and verify them, and name their schemas.

It can be imported without psycopg.
"""

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from windlass.adapters.journals.rules import misconfiguration
from windlass.errors import install_hint
from windlass.ports.listing import (
    RunFilter,
    RunOrder,
    SessionFilter,
    SessionOrder,
    place_of_run,
    place_of_session,
)

if TYPE_CHECKING:
    from windlass.postgres.store import PostgresStore


def check_psycopg() -> None:
    """Refuse PostgreSQL without its driver; Rejected says how to install it."""
    if find_spec("psycopg") is None:
        raise misconfiguration(f"a store in PostgreSQL needs psycopg: {install_hint('postgres')}")


async def open_postgres(address: str) -> "PostgresStore":
    """Open a store.

    Raises:
        Rejected: psycopg is not installed, the address is not valid, or another version made what is there.
        Corrupt: the store is damaged.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

    return await PostgresStore.open(address)


async def migrate_postgres(address: str, *, is_trial: bool) -> tuple[str, int, int]:
    """Bring a store to the version of this release, unless it is a trial; an empty database gets its tables.

    Returns the address without its password, the version that was found, and that of this release.

    Raises:
        Rejected: the store is of a newer release, or the user lacks a right.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.postgres.link import parse_address  # noqa: PLC0415 - an extra
    from windlass.postgres.schema import SCHEMA, migrate_tables  # noqa: PLC0415 - an extra

    parsed = parse_address(address, schema=SCHEMA)
    stored_version, release_version = await asyncio.to_thread(migrate_tables, parsed, is_trial=is_trial)
    return parsed.name, stored_version, release_version


async def look_at_postgres(address: str) -> tuple[str, int, int, int, int | None]:
    """Look at a store without changing it, see `inspect_tables`.

    Returns the address without its password, the version found, that of this release, the clock of the server
    and the newest heartbeat of an owner, in milliseconds since 1970.

    Raises:
        Rejected: it cannot be used, or a newer release made it.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.postgres.link import parse_address  # noqa: PLC0415 - an extra
    from windlass.postgres.schema import MIGRATIONS, SCHEMA, inspect_tables  # noqa: PLC0415

    parsed = parse_address(address, schema=SCHEMA)
    stored_version, now_ms, beat_ms = await asyncio.to_thread(inspect_tables, parsed)
    return parsed.name, stored_version, len(MIGRATIONS), now_ms, beat_ms


async def verify_postgres(address: str) -> int:
    """Read every record, session and run of a store, which may be in use; return the number of records.

    Raises:
        Corrupt: a row is not what was written, or a record is missing.
        Unavailable: the database cannot be reached.
    """
    store, position, count = await open_postgres(address), 0, 0
    try:
        while records := await store.read_all(after=position):
            position, count = records[-1].position or 0, count + len(records)
        name: str | None = None
        while sessions := await store.sessions(after=name):
            name = sessions[-1].session_id
        every_run, order = RunFilter(), RunOrder(is_ascending=True)
        while runs := await store.list_runs(every_run, order=order):
            order = replace(order, after=place_of_run(runs[-1], where=every_run, by=order.by))
        every_session, newest = SessionFilter(root_only=False), SessionOrder()
        while listed := await store.list_sessions(every_session, order=newest):
            newest = replace(newest, after=place_of_session(listed[-1], by=newest.by))
    finally:
        await store.aclose()
    return count


def names_schema(address: str) -> bool:
    """Return whether an address of PostgreSQL names one schema, as `?schema=…`."""
    return any(option.startswith("schema=") for option in address.partition("?")[2].split("&"))


def with_schema(address: str, schema: str) -> str:
    """Return the address of another schema in the same database."""
    head, _, query = address.partition("?")
    options = [option for option in query.split("&") if option and not option.startswith("schema=")]
    return f"{head}?{'&'.join([*options, f'schema={schema}'])}"


async def postgres_schemas(address: str) -> tuple[str, ...]:
    """Return the schemas of a database that hold a store.

    Raises:
        Rejected: the address is not valid, or the server refuses the user.
        Unavailable: the database cannot be reached.
    """
    check_psycopg()
    from windlass.postgres.link import parse_address  # noqa: PLC0415 - an extra
    from windlass.postgres.schema import SCHEMA, schemas_at  # noqa: PLC0415 - an extra

    return await asyncio.to_thread(schemas_at, parse_address(address, schema=SCHEMA))
