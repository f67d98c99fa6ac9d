"""`windlass init`, `config` and `doctor`: create a project, show its settings, check its environment."""

import asyncio
import os
import platform
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

import windlass
from windlass.adapters import models
from windlass_cli.backend import Command, command_of, finish
from windlass_cli.commands.serve import port_problem
from windlass_cli.output import Exit, Problem, show_table
from windlass_cli.settings import FILE
from windlass_harness.redact import mask_text
from windlass_protocol.frozen import sealed

_AGENT: Final = '''"""The agent of this project; try it: windlass run weather."""

from windlass import Agent, tool


@tool(mode="read")
async def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"Rain all day in {city}."


# "demo/paced" answers by fixed rules, without an API key. Others: "openai/…", "anthropic/…", "ollama/…".
agent = Agent("helper", model="demo/paced", instructions="Be brief.", tools=[weather])
'''
_TOML: Final = """# Show every setting and its source: windlass config
agents = "agent.py:agent"
data = "windlass-data"
"""
_IGNORED: Final = """windlass-data/
__pycache__/
.env
"""
_AGENT_FILE: Final = "agent.py"
_FILES: Final = {_AGENT_FILE: _AGENT, FILE: _TOML, ".gitignore": _IGNORED}


def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder; it is created if it does not exist.")] = Path(),
) -> None:
    """Create a project that runs: an agent with a tool, the settings and a .gitignore.

    Existing files are not changed. With an existing agent.py or windlass.toml, no file is written.

    Example: windlass init shop
    """
    terminal = command_of(context).terminal
    _check_empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            if not (folder / name).exists():
                (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(f"cannot write {folder}: {error.strerror}") from None
    for name in _FILES:
        terminal.say(f"  {folder / name}")
    terminal.say(f'Run it: {_enter(folder)}windlass run "what is the weather in Oslo?"')


def _check_empty(folder: Path) -> None:
    enter = _enter(folder)
    if (folder / FILE).exists():
        raise Problem(
            f"{folder.absolute()} is a project already: it contains {FILE}",
            f'Run it: {enter}windlass run "…", or create another project: windlass init NAME',
        )
    if (folder / _AGENT_FILE).exists():
        raise Problem(
            f"{folder / _AGENT_FILE} exists already",
            f'Run its agent: {enter}windlass --agents {_AGENT_FILE} run "…", '
            "or create a project in another folder: windlass init NAME",
        )


def _enter(folder: Path) -> str:
    return "" if folder.absolute() == Path.cwd() else f"cd {folder} && "


def config(context: typer.Context) -> None:
    """Show every setting, its value and its source.

    Example: WINDLASS_STORE=other.db windlass config
    """
    command = command_of(context)
    rows = (
        (one.setting.key, mask_text(one.value) or "–", one.source, one.setting.variable, one.setting.words)
        for one in command.settings.values.values()
    )
    show_table(command.terminal, ("setting", "value", "source", "variable", "meaning"), rows=rows)


# doctor

_PACKAGES: Final = ("windlass-protocol", "windlass-harness", "windlass", "windlass-cli")


_DAMAGED: Final = "The store is damaged: restore it from a backup."


@sealed
class Finding:
    """The result of one check."""

    what: str
    state: str
    hint: str = ""
    """The next step for the user; empty if the check passed."""
    is_fatal: bool = True


def doctor(
    context: typer.Context,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every record of the store, and compare its index with them.")
    ] = False,
    load: Annotated[
        bool, typer.Option("--load", help="Run the code that windlass.toml names, to check its agents.")
    ] = False,
) -> None:
    """Check the installation, the agents, their models, the store and the port.

    Nothing is changed. Agents that a windlass.toml names are code of its folder: they are loaded only with
    --load. Exit code 1 if a check failed.

    Example: windlass doctor --load
    """
    command = command_of(context)
    command.check_store()
    finish(_check(command, is_deep=deep, may_load=load))


async def _check(command: Command, *, is_deep: bool, may_load: bool) -> Exit:
    findings = await _findings(command, is_deep=is_deep, may_load=may_load)
    for finding in findings:
        mark, style = (
            ("✓", "green") if not finding.hint else ("✗", "red") if finding.is_fatal else ("!", "yellow")
        )
        command.terminal.show(f"{mark} {finding.what}: {finding.state}", style)
        if finding.hint:
            command.terminal.show(f"    {finding.hint}")
    has_failed = any(finding.hint and finding.is_fatal for finding in findings)
    return Exit.FAILED if has_failed else Exit.DONE


async def _findings(command: Command, *, is_deep: bool, may_load: bool) -> list[Finding]:
    found = command.settings.values["agents"]
    if found.is_from_file and not may_load:
        agents = [Finding("agents", f"{found.value}, not loaded", _LOAD, is_fatal=False)]
    else:
        agents = [*_agents(command)]
    stores = [one async for one in _store(command, is_deep=is_deep)]
    return [*_environment(), *agents, *stores, _port(command)]


_LOAD: Final = "windlass.toml names this code. To run it and check the agents: windlass doctor --load"


def _environment() -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    versions = {name: _version(name) for name in _PACKAGES}
    is_alike = len(set(versions.values())) == 1
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield Finding(
        "packages",
        told,
        "" if is_alike else "Install all packages in one version, from one checkout or one set of wheels.",
    )


def _version(name: str) -> str:
    import importlib.metadata  # noqa: PLC0415 - slow to import

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _agents(command: Command) -> Iterator[Finding]:
    try:
        agents = command.agents()
    except windlass.AgentError as error:
        yield Finding("agents", command.settings.agents, error.message)
        return
    names = ", ".join(agent.name for agent in agents)
    yield Finding("agents", f"{names}, of {command.settings.agents}")
    for agent in agents:
        for model in (agent.first_model, *agent.fallback_models):
            yield _model(f"model of {agent.name}", model)


def _model(what: str, model: str | windlass.LLMProvider) -> Finding:
    if not isinstance(model, str):
        return Finding(what, type(model).__name__)
    try:
        models.provider_for(model, os.environ)  # noqa: TID251 - the command is where the environment comes from
    except windlass.AgentError as error:
        return Finding(what, model, error.message)
    return Finding(what, f"{model}; not called")


async def _store(command: Command, *, is_deep: bool) -> AsyncIterator[Finding]:
    from windlass.adapters.journals.sqlite.audit import problems_of  # noqa: PLC0415 - slow to import

    path, settings = command.settings.store, command.settings
    if settings.address:
        yield await _database(settings.address)
        return
    if not path.exists():
        # The first run creates at most one folder.
        above = path.parent if path.parent.exists() else path.parent.parent
        can = above.is_dir() and os.access(above, os.W_OK)
        hint = "" if can else f"Create the folder {path.parent}, or name another file: --store PATH"
        yield Finding("store", f"{path} does not exist yet; the first run creates it", hint)
        return
    try:
        runtime = await windlass.AgentRuntime.open(path, agents=(), durability=settings.durability)
        await runtime.aclose()
        problems = await asyncio.to_thread(problems_of, path, is_deep=is_deep)
    except windlass.AgentError as error:
        yield Finding("store", str(path), error.message)
        return
    for problem in problems:
        yield Finding("store", problem, _DAMAGED)
    if problems:
        return
    yield Finding("store", f"{path}, {path.stat().st_size:,} bytes, durability {settings.durability}")


async def _database(address: str) -> Finding:
    try:
        runtime = await windlass.AgentRuntime.open(address, agents=())
        await runtime.aclose()
    except windlass.AgentError as error:
        return Finding("store", "PostgreSQL", error.message)
    return Finding("store", "PostgreSQL, its tables are of this release")


def _port(command: Command) -> Finding:
    host, port = command.settings.host, command.settings.port
    if problem := port_problem(host, port):
        hint = "A server may run there already; or choose another port: WINDLASS_SERVER_PORT=0"
        return Finding("server", problem, hint, is_fatal=False)
    return Finding("server", f"{host}:{port} is free")
