"""`windlass sessions`: list, show, fork, export, import and delete sessions."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass import parts
from windlass.limits import RETENTION_DAYS_MAX
from windlass.private_files import open_private
from windlass_cli.backend import Backend, Command, command_of, find_session, finish
from windlass_cli.output import (
    CommandError,
    Exit,
    Terminal,
    cost,
    show_page,
    show_table,
    to_json,
    tokens,
    when,
)

if TYPE_CHECKING:
    from windlass_cli.backend import SessionRow

app = typer.Typer(no_args_is_help=True, help="Sessions: list, show, fork, export, import, delete.")
Id = Annotated[str, typer.Argument(help="The session: its id, or the beginning of it.")]
_PRUNED_AT_ONCE: Final = 100
"""Sessions that are deleted between two lines of progress."""
_HEADER: Final = ("session", "status", "agent", "changed", "runs", "tokens", "cost", "title")


@app.command("list")
def list_sessions(
    context: typer.Context,
    *,
    text: Annotated[
        str | None,
        typer.Argument(help="Only sessions with these words in messages, answers or names of called tools."),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only sessions of this agent.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="idle, pending, running, waiting, cancelling, completed, failed, cancelled or "
            "budget_exhausted."
        ),
    ] = None,
    subagents: Annotated[bool, typer.Option("--subagents", help="Also the sessions of subagents.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of sessions.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each session.")] = False,
) -> None:
    """List sessions, the newest first.

    Example: windlass sessions list --status waiting
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        page = await backend.sessions.list(
            text=text, agent_id=agent, status=status, limit=limit, root_only=not subagents
        )
        show_page(
            command.terminal,
            page,
            show=lambda items: show_table(command.terminal, _HEADER, rows=map(_row, items)),
            empty=f"No sessions found. Start one: windlass chat{command.other_stores()}",
            as_json=as_json,
        )

    command.ask(work)


def _row(session: "SessionRow") -> tuple[str, ...]:
    used = (str(session.run_count), tokens(session.usage), cost(session.usage))
    return (
        session.session_id,
        session.status.value,
        session.agent_id,
        when(session.updated_at),
        *used,
        session.title,
    )


@app.command()
def show(
    context: typer.Context,
    session_id: Id,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each message.")] = False,
) -> None:
    """Show the messages of a session.

    Example: windlass sessions show monday
    """
    terminal = command_of(context).terminal

    async def work(backend: Backend) -> None:
        known_id = (await find_session(backend, session_id)).session_id
        after: str | None = None
        while True:
            page = await backend.sessions.history(known_id, after=after, limit=200)
            for message in page.items:
                if as_json:
                    terminal.line(to_json(message))
                else:
                    terminal.write(f"{message.role}: {_text(message)}\n")
            if page.next is None:
                return
            after = page.next

    command_of(context).ask(work)


def _text(message: object) -> str:
    parts = [getattr(message, name, None) for name in ("content", "tool_calls", "tool_result")]
    return " ".join(part if isinstance(part, str) else to_json(part) for part in parts if part)


@app.command()
def fork(
    context: typer.Context,
    session_id: Id,
    *,
    at: Annotated[int | None, typer.Option(min=1, help="The number of a record; default: the last.")] = None,
    name: Annotated[str | None, typer.Option(help="The id of the new session.")] = None,
) -> None:
    """Copy a session to a new one, up to a record. The original does not change.

    Example: windlass sessions fork monday --at 12 --name monday-again
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await fork_session(command, backend, session_id=session_id, at=at, name=name)

    command.ask(work)


async def fork_session(
    command: Command, backend: Backend, *, session_id: str, at: int | None, name: str | None
) -> None:
    """Fork a session and write the id of the new one.

    Raises:
        CommandError: the session is unknown.
        AgentError: it cannot be forked at this record.
    """
    session = await find_session(backend, session_id)
    copy = await backend.sessions.fork(session.session_id, at=at, session_id_new=name)
    command.terminal.line(copy.session_id)
    command.terminal.say(f"Continue it: windlass chat --session {copy.session_id}", "dim")


@app.command()
def export(
    context: typer.Context,
    session_id: Id,
    *,
    to: Annotated[Path | None, typer.Option(help="A new file; default: standard output.")] = None,
) -> None:
    """Write a session as lines of JSON with a checksum.

    Example: windlass sessions export monday --to monday.jsonl
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await export_session(command, backend, session_id=session_id, to=to)

    command.ask(work)


async def export_session(command: Command, backend: Backend, *, session_id: str, to: Path | None) -> None:
    """Write a session to a new file, or to standard output.

    Raises:
        CommandError: the session is unknown, or the file cannot be written.
    """
    known_id = (await find_session(backend, session_id)).session_id
    if to is None:
        async for line in backend.sessions.export(known_id):
            command.terminal.line(line.rstrip("\n"))
        return
    count = 0
    try:
        handle = open_private(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            async for line in backend.sessions.export(known_id):
                file.write(line.rstrip("\n") + "\n")
                count += 1
    except OSError as error:
        raise CommandError(f"cannot write {to}: {error.strerror}") from None
    command.terminal.say(f"{to}: {count:,} lines")


@app.command("import")
def import_session(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that export wrote; - reads standard input.")],
) -> None:
    """Import a session that was exported: all of it or nothing.

    Example: windlass sessions import monday.jsonl
    """
    command = command_of(context)

    async def work() -> Exit:
        try:
            lines = sys.stdin if str(file) == "-" else file.open(encoding="utf-8")
            with lines:
                async with command.driving() as runtime:
                    session = await runtime.sessions.import_(lines)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"cannot read {file}: {error}") from None
        command.terminal.line(session.session_id)
        return Exit.DONE

    finish(work())


@app.command()
def prune(
    context: typer.Context,
    *,
    days: Annotated[int, typer.Option(min=1, max=RETENTION_DAYS_MAX, help="The age in days.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete all sessions that ended more than some days ago. This cannot be undone.

    Sessions with an unfinished run, an open request or an unread message stay. It can be interrupted and
    run again. The setting retention_days does the same all the time.

    Example: windlass sessions prune --days 90
    """
    command = command_of(context)

    async def work() -> Exit:
        before = parts.SystemClock().now() - timedelta(days=days)
        if not yes and not await _confirm(command.terminal, f"Delete what ended before {before:%Y-%m-%d}?"):
            return Exit.CANCELLED
        async with command.reading() as runtime:
            deleted = 0
            while count := await runtime.sessions.prune(before, limit=_PRUNED_AT_ONCE):
                deleted += count
                command.terminal.say(f"Deleted: {deleted:,} sessions")
        command.terminal.line(str(deleted))
        return Exit.DONE

    finish(work())


async def _confirm(terminal: Terminal, question: str) -> bool:
    if not terminal.is_interactive:
        raise CommandError("cannot ask for confirmation: this is not a terminal", "Confirm with --yes.")
    terminal.forget()
    return (await terminal.ask(f"{question} [y/N] ") or "").strip().lower() in {"y", "yes"}


@app.command()
def delete(
    context: typer.Context,
    session_id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a session and those of its subagents. This cannot be undone.

    Example: windlass sessions delete monday
    """
    terminal = command_of(context).terminal

    async def work(backend: Backend) -> Exit:
        session = await find_session(backend, session_id)
        question = f"Delete {session.session_id} with {session.run_count} runs?"
        if not yes and not await _confirm(terminal, question):
            return Exit.CANCELLED
        deleted = await backend.sessions.delete(session.session_id)
        terminal.say(f"Deleted: {', '.join(deleted)}")
        return Exit.DONE

    command_of(context).ask(work)
