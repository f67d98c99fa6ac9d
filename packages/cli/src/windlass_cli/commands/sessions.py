"""`windlass sessions`: find, read, fork, move and delete what agents were told."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import windlass
from windlass_cli.listing import Shape, show_list, table
from windlass_cli.problems import Exit, Problem
from windlass_cli.session import Session, finish, session_of
from windlass_cli.shapes import cost, to_json, tokens, when

if TYPE_CHECKING:
    from windlass import client
    from windlass.ports.store import SessionInfo
    from windlass_cli.session import Place

app = typer.Typer(no_args_is_help=True, help="Sessions: list, show, fork, export, import, delete.")
Id = Annotated[str, typer.Argument(help="The session.")]
Json = Annotated[bool, typer.Option("--json", help="A line of JSON for each.")]


@app.command("list")
def list_sessions(
    context: typer.Context,
    *,
    text: Annotated[str | None, typer.Argument(help="Words of the title.")] = None,
    agent: Annotated[str | None, typer.Option(help="Of this agent.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="idle, pending, running, waiting, cancelling, completed, failed, cancelled, "
            "budget_exhausted."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    as_json: Json = False,
) -> None:
    """List sessions, the newest first.

    Example: windlass sessions list --status waiting
    """
    show_list(
        session_of(context),
        lambda runtime: runtime.sessions.list(text=text, agent_id=agent, status=status, limit=limit),
        shape=_LIST,
        as_json=as_json,
    )


def _row(one: "SessionInfo | client.SessionInfo") -> tuple[str, ...]:
    used = (str(one.run_count), tokens(one.usage), cost(one.usage))
    return (one.session_id, one.status.value, one.agent_id, when(one.updated_at), *used, one.title)


_LIST: Final = Shape(
    table(("session", "status", "agent", "changed", "runs", "tokens", "cost", "title"), _row),
    "No such sessions. Begin one: windlass chat",
)


async def _known(runtime: "Place", session_id: str) -> "SessionInfo | client.SessionInfo":
    try:
        return await runtime.sessions.get(session_id)
    except windlass.Conflict:
        raise Problem(
            f"there is no session {session_id}", "See which there are: windlass sessions list"
        ) from None


@app.command()
def show(context: typer.Context, session_id: Id, *, as_json: Json = False) -> None:
    """Show what was said in a session.

    Example: windlass sessions show monday
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await _known(runtime, session_id)
            after: str | None = None
            while True:
                page = await runtime.sessions.history(session_id, after=after, limit=200)
                for message in page.items:
                    if as_json:
                        self.terminal.line(to_json(message))
                    else:
                        self.terminal.write(f"{message.role}: {_words(message)}\n")
                if page.next is None:
                    return Exit.DONE
                after = page.next

    finish(work())


def _words(message: object) -> str:
    parts = [getattr(message, name, None) for name in ("content", "tool_calls", "tool_result")]
    return " ".join(part if isinstance(part, str) else to_json(part) for part in parts if part)


@app.command()
def fork(
    context: typer.Context,
    session_id: Id,
    *,
    at: Annotated[int | None, typer.Option(min=1, help="The number of a record; now when left out.")] = None,
    name: Annotated[str | None, typer.Option(help="The id of the new session.")] = None,
) -> None:
    """Begin a new session as another one was; the old one does not notice.

    Example: windlass sessions fork monday --at 12 --name monday-again
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            return await fork_session(self, runtime, session_id=session_id, at=at, name=name)

    finish(work())


async def fork_session(
    self: Session, runtime: "Place", *, session_id: str, at: int | None, name: str | None
) -> Exit:
    """Fork a session; say what the new one is called.

    Raises:
        Problem: there is no such session.
        AgentError: it cannot be forked there.
    """
    await _known(runtime, session_id)
    made = await runtime.sessions.fork(session_id, at=at, session_id_new=name)
    self.terminal.line(made.session_id)
    self.terminal.say(f"Go on with it: windlass chat --session {made.session_id}", "dim")
    return Exit.DONE


@app.command()
def export(
    context: typer.Context,
    session_id: Id,
    *,
    to: Annotated[Path | None, typer.Option(help="A new file; the output when left out.")] = None,
) -> None:
    """Write a session as lines of JSON, with a checksum at the end.

    Example: windlass sessions export monday --to monday.jsonl
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            return await export_session(self, runtime, session_id=session_id, to=to)

    finish(work())


async def export_session(self: Session, runtime: "Place", *, session_id: str, to: Path | None) -> Exit:
    """Write a session to a new file, or to the output.

    Raises:
        Problem: there is no such session, or the file cannot be written.
    """
    await _known(runtime, session_id)
    if to is None:
        async for line in runtime.sessions.export(session_id):
            self.terminal.line(line.rstrip("\n"))
        return Exit.DONE
    count = 0
    try:
        with to.open("x", encoding="utf-8") as file:
            async for line in runtime.sessions.export(session_id):
                file.write(line.rstrip("\n") + "\n")
                count += 1
    except OSError as error:
        raise Problem(f"{to} cannot be written: {error.strerror}") from None
    self.terminal.say(f"{to}: {count:,} lines")
    return Exit.DONE


@app.command("import")
def import_session(
    context: typer.Context, file: Annotated[Path, typer.Argument(help="What export wrote; - for the input.")]
) -> None:
    """Bring a session in that was exported: all of it or nothing.

    Example: windlass sessions import monday.jsonl
    """
    self = session_of(context)

    async def work() -> Exit:
        try:
            lines = sys.stdin if str(file) == "-" else file.open(encoding="utf-8")
            with lines:
                async with self.working() as runtime:
                    made = await runtime.sessions.import_(lines)
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(f"{file} cannot be read: {error}") from None
        self.terminal.line(made.session_id)
        return Exit.DONE

    finish(work())


@app.command()
def delete(
    context: typer.Context,
    session_id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a session and those of its subagents, for good.

    Example: windlass sessions delete monday
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            known = await _known(runtime, session_id)
            if not yes:
                if not self.terminal.is_interactive:
                    raise Problem("nobody is here to ask", "Say that you mean it: --yes")
                self.terminal.forget()
                answer = await self.terminal.ask(f"Remove {session_id}, {known.run_count} runs? [y/N] ")
                if (answer or "").strip().lower() not in {"y", "yes"}:
                    return Exit.CANCELLED
            removed = await runtime.sessions.delete(session_id)
        self.terminal.say(f"Removed: {', '.join(removed)}")
        return Exit.DONE

    finish(work())
