"""`windlass copy`: a store in a file, moved to PostgreSQL."""

from pathlib import Path
from typing import Annotated

import typer

from windlass_cli.backend import Command, command_of, finish
from windlass_cli.output import Exit, Problem, to_json


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
    from windlass.adapters.journals.opening import check_psycopg, is_postgres  # noqa: PLC0415 - slow to import

    if not is_postgres(target):
        raise Problem("a store is copied to PostgreSQL", "Name its address: postgresql://user@host/database")
    check_psycopg()
    from rich.progress import Progress  # noqa: PLC0415 - slow to import

    from windlass.adapters.journals.copying import copy_store  # noqa: PLC0415 - slow to import

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
