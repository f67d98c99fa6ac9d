"""What every command starts from, and the runtime that it opens."""

import asyncio
import getpass
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import typer

import windlass
from windlass_cli.agents import load_agents
from windlass_cli.problems import Exit, Problem
from windlass_cli.settings import Settings
from windlass_cli.terminal import Terminal

if TYPE_CHECKING:
    from windlass import Agent, AgentRuntime


@dataclass(frozen=True, slots=True)
class Session:
    """The settings and the terminal of one command."""

    settings: Settings
    terminal: Terminal

    @property
    def user(self) -> str:
        """Who answers requests."""
        return self.settings.user or getpass.getuser()

    def agents(self) -> "tuple[Agent, ...]":
        """Return the agents.

        Raises:
            Problem: they cannot be loaded.
        """
        return load_agents(self.settings.agents, self.settings.folder)

    @asynccontextmanager
    async def working(self) -> "AsyncGenerator[AgentRuntime]":
        """Open the store and go on with what was left unfinished in it."""
        settings = self.settings
        _make_folder(settings.store.parent)
        agents = self.agents()
        runtime = await windlass.AgentRuntime.open(
            settings.store, agents=agents, durability=settings.durability
        )
        async with runtime:
            yield runtime

    @asynccontextmanager
    async def reading(self) -> "AsyncGenerator[AgentRuntime]":
        """Open the store to look at it, and to answer: nothing in it is driven.

        Raises:
            Problem: there is none.
        """
        settings = self.settings
        if not settings.store.is_file():
            raise Problem(
                f"there is no store {settings.store}", 'Make one: windlass run "…", or name it: --store PATH'
            )
        runtime = await windlass.AgentRuntime.open(settings.store, agents=(), durability=settings.durability)
        async with runtime:
            yield runtime


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Problem(
            f"the folder {folder} cannot be made: {error.strerror}", "Name another: --store PATH"
        ) from None


def finish(work: Coroutine[object, object, Exit]) -> NoReturn:
    """Do what a command has to do, and end it; Ctrl-C ends it in good order."""
    try:
        code = asyncio.run(work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = Exit.INTERRUPTED
    raise typer.Exit(code)


def session_of(context: typer.Context) -> Session:
    """Return what the command starts from."""
    return cast(Session, context.obj)
