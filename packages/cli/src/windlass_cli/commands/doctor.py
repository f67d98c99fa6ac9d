"""`windlass doctor`: what is here, what is missing, and what to do about it."""

import importlib.metadata
import os
import platform
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import typer

import windlass
from windlass.adapters import models
from windlass_cli.problems import Exit
from windlass_cli.session import Session, finish, session_of

_PARTS: Final = ("windlass-protocol", "windlass-harness", "windlass", "windlass-cli")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: str
    hint: str = ""
    """What to do; empty if it is well."""
    is_fatal: bool = True


def doctor(context: typer.Context) -> None:
    """Check the environment, the settings, the agents, their models and the store.

    Nothing is changed. Exit code 1 if something has to be mended first.

    Example: windlass doctor
    """
    session = session_of(context)
    session.check_store()
    finish(_doctor(session))


async def _doctor(session: Session) -> Exit:
    findings = await _findings(session)
    for finding in findings:
        mark, style = (
            ("✓", "green") if not finding.hint else ("✗", "red") if finding.is_fatal else ("!", "yellow")
        )
        session.terminal.show(f"{mark} {finding.what}: {finding.state}", style)
        if finding.hint:
            session.terminal.show(f"    {finding.hint}")
    is_ill = any(finding.hint and finding.is_fatal for finding in findings)
    return Exit.FAILED if is_ill else Exit.DONE


async def _findings(session: Session) -> list[Finding]:
    return [*_environment(), *_agents(session), *[one async for one in _store(session)], _port(session)]


def _environment() -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    versions = {name: _version(name) for name in _PARTS}
    is_alike = len(set(versions.values())) == 1
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield Finding(
        "parts",
        told,
        "" if is_alike else "Install them in one version, from one checkout or one set of wheels.",
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _agents(session: Session) -> Iterator[Finding]:
    try:
        agents = session.agents()
    except windlass.AgentError as error:
        yield Finding("agents", session.settings.agents, error.message)
        return
    names = ", ".join(agent.name for agent in agents)
    yield Finding("agents", f"{names}, of {session.settings.agents}")
    for agent in agents:
        if not isinstance(agent.model, str):
            yield Finding(f"model of {agent.name}", type(agent.model).__name__)
            continue
        try:
            models.provider_for(agent.model, os.environ)  # noqa: TID251 - the command is where the environment comes from
        except windlass.AgentError as error:
            yield Finding(f"model of {agent.name}", agent.model, error.message)
        else:
            yield Finding(f"model of {agent.name}", f"{agent.model}; it was not called")


async def _store(session: Session) -> AsyncIterator[Finding]:
    path, settings = session.settings.store, session.settings
    if not path.exists():
        # The first run makes one folder, if need be.
        above = path.parent if path.parent.exists() else path.parent.parent
        can = above.is_dir() and os.access(above, os.W_OK)
        hint = "" if can else f"Make the folder {path.parent}, or name another file: --store PATH"
        yield Finding("store", f"{path} is not there yet; the first run makes it", hint)
        return
    try:
        runtime = await windlass.AgentRuntime.open(path, agents=(), durability=settings.durability)
        await runtime.aclose()
    except windlass.AgentError as error:
        yield Finding("store", str(path), error.message)
        return
    yield Finding("store", f"{path}, {path.stat().st_size:,} bytes, durability {settings.durability}")


def _port(session: Session) -> Finding:
    host, port = session.settings.host, session.settings.port
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = "A server runs there already, or choose another: WINDLASS_SERVER_PORT=0"
            return Finding("server", f"{host}:{port}: {error.strerror}", hint, is_fatal=False)
    return Finding("server", f"{host}:{port} is free")
