"""`windlass migrate` and `copy`: stores brought up to date, and moved from a file to PostgreSQL."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass import parts
from windlass_cli.backend import Command, check_file, command_of, finish, tenant_stores
from windlass_cli.output import CommandError, Exit, to_json
from windlass_cli.settings import LOCAL

if TYPE_CHECKING:
    from windlass.sqlite.schema import StoreVersion


def migrate(
    context: typer.Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    backup: Annotated[bool, typer.Option(help="Keep a copy of each store as it was.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each store.")] = False,
) -> None:
    """Bring the store up to date with this release, and keep a copy of it as it was.

    Without --store these are all stores of the data folder. Every command does the same when it opens one,
    without a copy. End the processes that use the stores first: an older release cannot read them afterwards.
    Stores in PostgreSQL are migrated by this command alone, and not copied: use pg_dump. An empty database
    gets its tables.

    Example: windlass migrate --dry-run
    """
    command = command_of(context)
    finish(_migrate(command, is_trial=dry_run, with_copy=backup, as_json=as_json))


async def _migrate(command: Command, *, is_trial: bool, with_copy: bool, as_json: bool) -> Exit:
    from windlass.sqlite import schema as sqlite_versions  # noqa: PLC0415 - slow to import

    if command.settings.address:
        return await _migrate_database(command, is_trial=is_trial, as_json=as_json)
    # All are looked at before the first is changed.
    stores = [await asyncio.to_thread(sqlite_versions.version_of, path) for path in _stores(command)]
    for store in stores:
        copy: Path | None = None
        if store.is_older and not is_trial:
            copy = await asyncio.to_thread(sqlite_versions.back_up, store) if with_copy else None
            opened = await parts.SqliteStore.open(store.path, durability=command.settings.durability)
            await opened.aclose()
        if as_json:
            backup = None if copy is None else str(copy)
            is_done = store.is_older and not is_trial
            fields = {"path": str(store.path), "from": store.found, "to": store.known, "isMigrated": is_done}
            command.terminal.line(to_json({**fields, "backup": backup}))
        else:
            command.terminal.show(_status_line(store, copy, is_trial=is_trial))
    return Exit.DONE


async def _migrate_database(command: Command, *, is_trial: bool, as_json: bool) -> Exit:
    from windlass.postgres.maintenance import (  # noqa: PLC0415 - slow to import
        migrate_postgres,
        names_schema,
        postgres_schemas,
        with_schema,
    )

    address = command.settings.address
    # A schema of its own for each tenant, unless the address names one.
    schemas = () if names_schema(address) else await postgres_schemas(address)
    for store_address in [with_schema(address, schema) for schema in schemas] or [address]:
        name, version, newest = await migrate_postgres(store_address, is_trial=is_trial)
        is_done = version < newest and not is_trial
        if as_json:
            fields = {"path": name, "from": version, "to": newest, "isMigrated": is_done, "backup": None}
            command.terminal.line(to_json(fields))
        elif version == newest:
            command.terminal.show(f"{name}: schema version {version}, up to date")
        else:
            done = "migrated" if is_done else "to be migrated; copy it with pg_dump first"
            command.terminal.show(f"{name}: schema version {version} → {newest}, {done}")
    return Exit.DONE


def _stores(command: Command) -> list[Path]:
    settings = command.settings
    if settings.text("store"):
        check_file(settings.store)
        if not settings.store.is_file():
            raise CommandError(f"there is no store {settings.store}", "Name a file: --store PATH")
        return [settings.store]
    local = settings.data / LOCAL
    check_file(local)
    # Other .db files do not belong to a server, which ignores them as well.
    ours = sorted({local, *(path for _, path in tenant_stores(settings))})
    paths = [path for path in ours if path.exists()]
    if not paths:
        raise CommandError(f"there are no stores in {settings.data}", "Name one: --store PATH")
    return paths


def _status_line(store: "StoreVersion", copy: Path | None, *, is_trial: bool) -> str:
    if not store.is_older:
        return f"{store.path}: schema version {store.found}, up to date"
    step = f"{store.path}: schema version {store.found} → {store.known}"
    if is_trial:
        return f"{step}, to be migrated"
    return f"{step}, migrated" if copy is None else f"{step}, migrated; as it was: {copy}"


def copy(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="The file of a store that no process has open.")],
    target: Annotated[str, typer.Argument(help="The address of an empty database: postgresql://…")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON.")] = False,
) -> None:
    """Copy a store to PostgreSQL, and verify every record of the copy.

    The file is not changed. A copy that was interrupted goes on where it ended; until it is whole, it cannot
    be opened.

    Example: windlass copy .windlass/local.db postgresql://app@db/app
    """
    command = command_of(context)
    finish(_copy(command, source, target, as_json=as_json))


async def _copy(command: Command, source: Path, target: str, *, as_json: bool) -> Exit:
    from windlass.postgres.maintenance import check_psycopg  # noqa: PLC0415 - slow to import
    from windlass.runtime.opening import is_postgres  # noqa: PLC0415 - slow to import

    if not is_postgres(target):
        raise CommandError(
            "a store is copied to PostgreSQL", "Name its address: postgresql://user@host/database"
        )
    check_psycopg()
    from rich.progress import Progress  # noqa: PLC0415 - slow to import

    from windlass.postgres.copying import copy_store  # noqa: PLC0415 - slow to import

    with Progress(console=command.terminal.err, transient=True) as bar:
        task = bar.add_task("copying and verifying", total=None)
        done = await copy_store(
            source,
            target,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        command.terminal.line(to_json({"target": done.target, "sessions": done.sessions, "rows": done.rows}))
    else:
        command.terminal.show(
            f"{done.target}: {done.sessions:,} sessions copied, {done.rows:,} rows verified; name it instead "
            f"of {source} from now on"
        )
    return Exit.DONE
