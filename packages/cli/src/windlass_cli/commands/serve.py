"""`windlass serve` and `dev`: agents over HTTP."""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

import windlass_server
from windlass import parts
from windlass_cli.problems import Exit, Problem
from windlass_cli.reload import Files
from windlass_cli.session import Session, finish, session_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass_server import Settings, Tenants

WATCHED: Final = "WINDLASS_DEV_WATCHED"
"""Set for the server that another process starts anew."""
LOOK_S: Final = 0.5
"""Between two looks at the files of a project."""


def serve(
    context: typer.Context,
    *,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = None,
) -> None:
    """Serve your agents over HTTP.

    Without keys or tokens it answers this machine alone, and refuses to be bound to anything else.

    Example: windlass --agents app:agents serve --port 8700
    """
    serve_agents(session_of(context), port=port)


def dev(
    context: typer.Context,
    *,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = None,
    reload: Annotated[bool, typer.Option(help="Start again when a file of the project changes.")] = True,
) -> None:
    """Serve your agents while you write them, with a new start for every change.

    What goes on is kept: a run goes on after each new start.

    Example: windlass dev
    """
    session = session_of(context)
    if reload and WATCHED not in os.environ:  # noqa: TID251 - told by the process that watches
        finish(_watched(session))
    serve_agents(session, port=port)


def serve_agents(
    session: Session, *, port: int | None, also: "Callable[[Tenants, str], None] | None" = None
) -> NoReturn:
    """Serve until a signal ends it; `also` gets the address once there is one."""
    settings, terminal = session.settings, session.terminal
    if settings.text("store"):
        raise Problem(
            "a server keeps a store for each tenant in a folder, and one file was named",
            f"Name a folder, with data or WINDLASS_DATA, and leave out: {settings.values['store'].source}.",
        )
    agents = session.agents()
    where = server_settings(session, port)
    settings.data.mkdir(exist_ok=True)
    tenants = windlass_server.Tenants(settings.data, agents, durability=settings.durability)

    def told(address: str) -> None:
        terminal.say(f"Windlass is running on {address}")
        names = ", ".join(agent.name for agent in agents)
        terminal.say(f"Agents: {names}. Everything is kept in {settings.data}. Ctrl-C ends it.", "dim")
        if also is not None:
            also(tenants, address)

    if windlass_server.serve(where, tenants, told=told):
        hint = f"Something else may listen on {where.host}:{where.port}; choose another port: --port 0"
        raise Problem("the server could not start", hint, code=Exit.FAILED)
    raise typer.Exit(Exit.DONE)


def server_settings(session: Session, port: int | None) -> "Settings":
    """Return the settings of the server: those of the command that begin with `server.`.

    Raises:
        Rejected: the settings cannot be used; see `windlass_server.Settings`.
    """
    settings = session.settings
    values = {key.removeprefix("server."): settings.text(key) for key in settings.values}
    if port is not None:
        values["port"] = str(port)
    return windlass_server.Settings.read(values, folder=settings.folder, goals=session.goals())


async def _watched(session: Session) -> Exit:
    """Run the server in a process of its own, anew whenever a file changes."""
    clock, files = parts.SystemClock(), Files(session.settings.folder)
    environment = {**os.environ, WATCHED: "1"}  # noqa: TID251 - handed on
    mine = asyncio.current_task()
    assert mine is not None, "a command is a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, mine.cancel)
    while True:
        command = (sys.executable, "-m", "windlass_cli", *sys.argv[1:])
        child = await asyncio.create_subprocess_exec(*command, env=environment)
        ended = asyncio.ensure_future(child.wait())
        try:
            while not ended.done() and not files.have_changed():
                await clock.sleep(LOOK_S)
        except asyncio.CancelledError:
            if not ended.done():
                child.terminate()  # a terminal tells both, anybody else only this one
            await ended
            raise
        if ended.done():
            # A slip in a file ends it; the next change of a file may mend that.
            session.terminal.say("It has ended; waiting for a file to change.", "yellow")
            while not files.have_changed():
                await clock.sleep(LOOK_S)
        else:
            child.terminate()
            await ended
        session.terminal.say("A file has changed: starting again.", "dim")
