"""`windlass config` and `doctor`: show the settings of a project, check its environment."""

import asyncio
import importlib.metadata
import os
import platform
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.request import ProxyHandler, build_opener

import typer

import windlass
from windlass import models, parts
from windlass.errors import Corrupt
from windlass_cli.backend import (
    Command,
    command_of,
    finish,
    price_problems,
    runtime_options,
    tenant_stores,
    unknown_providers,
)
from windlass_cli.commands.serve import port_problem
from windlass_cli.output import CommandError, Exit, show_table
from windlass_harness.redact import mask_text
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from windlass.agent.agent import AnyAgent
    from windlass_server.auth import KeyEntry


def config(context: typer.Context) -> None:
    """Show every setting, its value and its source.

    Example: WINDLASS_STORE=other.db windlass config
    """
    command = command_of(context)
    rows = (
        (
            value.setting.key,
            mask_text(value.value) or "–",
            value.source,
            value.setting.variable,
            value.setting.meaning,
        )
        for value in command.settings.values.values()
    )
    show_table(command.terminal, ("setting", "value", "source", "variable", "meaning"), rows=rows)
    if odd := unknown_providers(command.settings):
        command.terminal.say(odd, "yellow")
    for finding in _options(command):
        command.terminal.say(f"{finding.state}. {finding.hint}", "yellow")


# doctor

_PACKAGES: Final = (
    "windlass-protocol",
    "windlass-harness",
    "windlass-runtime",
    "windlass-server",
    "windlass-sidecar",
    "windlass-cli",
)


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
    """Check the installation, the agents with their subagents and models, all stores, the keys and the port.

    Of a store in PostgreSQL these are the connection, the tables and the clocks; with --deep also every
    record, session and run. Wakes are checked as well.

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
    setting = command.settings.values["agents"]
    if setting.is_from_file and not may_load:
        agents = [Finding("agents", f"{setting.value}, not loaded", _LOAD, is_fatal=False)]
    else:
        agents = [*_agents(command)]
    address = command.settings.address
    if address:
        stores = [finding async for finding in _database(address, is_deep=is_deep)]
    else:
        stores = [finding async for finding in _store(command, command.settings.store, is_deep=is_deep)]
    if not command.settings.text("store"):
        for name, path in tenant_stores(command.settings):
            if path != command.settings.store:
                more = _store(command, path, is_deep=is_deep, what=f"store of tenant {name}")
                stores += [finding async for finding in more]
    wakes = command.settings.text("wakes")
    if wakes:
        stores.append(await _wakes(wakes))
    return [
        *_environment(),
        *agents,
        *_limits(command),
        *_options(command),
        *stores,
        *_keys(command),
        _port(command),
    ]


_LOAD: Final = "windlass.toml names this code. To run it and check the agents: windlass doctor --load"


def _environment() -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    versions = {name: _version(name) for name in _PACKAGES}
    is_alike = len(set(versions.values())) == 1
    state = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield Finding(
        "packages",
        state,
        "" if is_alike else "Install all packages in one version, from one checkout or one set of wheels.",
    )


def _version(name: str) -> str:
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
    for agent in _family(agents):
        for model in (agent.first_model, *agent.fallback_models):
            yield _model(f"model of {agent.name}", model)
    try:
        for problem in price_problems(command.settings, agents):
            yield Finding("prices", "a budget is in money, and a model has no price", problem)
    except windlass.AgentError as error:
        yield Finding("agents", command.settings.agents, error.message)
    except CommandError:
        pass  # see `_options`


def _family(agents: "Iterable[AnyAgent]") -> "Iterator[AnyAgent]":
    """Yield agents and their subagents, each once."""
    visited: set[int] = set()
    queue = list(agents)
    while queue:
        agent = queue.pop(0)
        if id(agent) not in visited:
            visited.add(id(agent))
            yield agent
            queue += agent.subagents


def _model(what: str, model: str | windlass.LLMProvider) -> Finding:
    if not isinstance(model, str):
        return Finding(what, type(model).__name__)
    try:
        models.provider_for(model, os.environ)  # noqa: TID251 - the command is where the environment comes from
    except windlass.AgentError as error:
        return Finding(what, model, error.message)
    return Finding(what, f"{model}; not called")


def _limits(command: Command) -> Iterator[Finding]:
    if limits := command.settings.text("providers"):
        yield Finding("providers", limits, unknown_providers(command.settings), is_fatal=False)


def _options(command: Command) -> Iterator[Finding]:
    """Check the prices and limits that the runtimes of the project get."""
    try:
        runtime_options(command.settings)
    except CommandError as error:
        yield Finding("settings", error.message, error.hint)


async def _store(
    command: Command, path: Path, *, is_deep: bool, what: str = "store"
) -> AsyncIterator[Finding]:
    from windlass.sqlite.audit import problems_of  # noqa: PLC0415 - slow to import
    from windlass.sqlite.schema import check_reachable  # noqa: PLC0415 - slow to import

    settings = command.settings
    try:
        check_reachable(path)
        if (missing := _missing(path)) is not None:
            yield missing
            return
        runtime = await windlass.AgentRuntime.open(path, agents=(), durability=settings.durability)
        await runtime.aclose()
        problems = await asyncio.to_thread(problems_of, path, is_deep=is_deep)
    except windlass.AgentError as error:
        yield Finding(what, str(path), error.message)
        return
    for problem in problems:
        yield Finding(what, problem, _DAMAGED)
    if problems:
        return
    yield Finding(what, f"{path}, {_size(path):,} bytes, durability {settings.durability}")


def _size(path: Path) -> int:
    return path.stat().st_size


def _missing(path: Path) -> Finding | None:
    """Return the finding about a store that does not exist; None if it does."""
    if path.exists():
        return None
    # The first run creates at most one folder.
    above = path.parent if path.parent.exists() else path.parent.parent
    can = above.is_dir() and os.access(above, os.W_OK)
    hint = "" if can else f"Create the folder {path.parent}, or name another file: --store PATH"
    return Finding("store", f"{path} does not exist yet; the first run creates it", hint)


def _keys(command: Command) -> Iterator[Finding]:
    """Check the key file of the server: that it can be read, and that a key in it is valid."""
    file_name = command.settings.text("server.keys")
    if not file_name:
        return
    from windlass_server.auth import read_keys  # noqa: PLC0415 - slow to import

    path = command.settings.folder / file_name
    if not path.is_file():
        yield Finding("keys", f"{path} does not exist", "Make a key: windlass keys add ID USER")
        return
    try:
        entries = read_keys(path)
    except windlass.AgentError as error:
        yield Finding("keys", str(path), error.message)
        return
    now = parts.SystemClock().now()
    valid = [
        entry
        for entry in entries
        if not entry.revoked and (entry.expires_at is None or entry.expires_at > now)
    ]
    state = f"{path}, {len(valid)} valid of {len(entries)}"
    if not valid:
        yield Finding("keys", state, "Every request is refused. Make a key: windlass keys add ID USER")
    elif not command.settings.is_on("server.own_approvals") and not _can_approve(command, valid):
        hint = (
            "No key has the role approver, so calls that need an approval wait. Make one: "
            "windlass keys add ID USER --role approver, or set own_approvals = true under [server]"
        )
        yield Finding("keys", state, hint, is_fatal=False)
    else:
        yield Finding("keys", state)


def _can_approve(command: Command, entries: "Iterable[KeyEntry]") -> bool:
    responders = command.settings.text("approvals.responders").split(",")
    return any("approver" in entry.roles or entry.user in responders for entry in entries)


CLOCK_MS_MAX: Final = 2_000
"""Difference of clocks that does no harm."""


async def _database(address: str, *, is_deep: bool) -> AsyncIterator[Finding]:
    """Check the database, the tables of all tenants, and the clocks of this machine, server and workers."""
    from windlass.postgres.maintenance import (  # noqa: PLC0415 - slow to import
        look_at_postgres,
        names_schema,
        postgres_schemas,
        with_schema,
    )

    clocks: list[tuple[int, int]] = []
    try:
        # A schema of its own for each tenant, unless the address names one.
        schemas = () if names_schema(address) else await postgres_schemas(address)
        for store_address in [with_schema(address, schema) for schema in schemas] or [address]:
            name, version, newest, server_ms, beat_ms = await look_at_postgres(store_address)
            now_ms = int(parts.SystemClock().now().timestamp() * 1_000)
            clocks.append((now_ms - server_ms, 0 if beat_ms is None else beat_ms - server_ms))
            yield _tables(name, version, newest)
            if version == newest and is_deep:
                yield await _records(store_address)
    except windlass.AgentError as error:
        yield Finding("store", "PostgreSQL", error.message)
        return
    ahead_ms = max((ahead_ms for ahead_ms, _ in clocks), key=abs)
    beats_ms = max(beats_ms for _, beats_ms in clocks)
    if abs(ahead_ms) > CLOCK_MS_MAX:
        state = f"this machine is {ahead_ms / 1_000:+.1f} s from the clock of PostgreSQL"
        yield Finding("clocks", state, _CLOCKS)
    elif beats_ms > CLOCK_MS_MAX:
        yield Finding(
            "clocks", f"a worker is {beats_ms / 1_000:+.1f} s from the clock of PostgreSQL", _CLOCKS
        )
    else:
        yield Finding("clocks", f"this machine and PostgreSQL differ by {abs(ahead_ms):,} ms")


def _tables(name: str, version: int, newest: int) -> Finding:
    if not version:
        return Finding("store", f"{name} has no tables yet; the first process that opens it makes them")
    if version < newest:
        hint = "End the processes that use it, copy it with pg_dump, and run: windlass migrate"
        return Finding("store", f"{name} has schema version {version}, this release has {newest}", hint)
    return Finding("store", f"{name}, its tables are of this release")


async def _records(address: str) -> Finding:
    from windlass.postgres.maintenance import verify_postgres  # noqa: PLC0415 - slow to import

    try:
        count = await verify_postgres(address)
    except windlass.AgentError as error:
        is_damaged = isinstance(error, Corrupt)
        state = error.message if is_damaged else "not verified"
        return Finding("records", state, _DAMAGED if is_damaged else error.message)
    return Finding("records", f"{count:,}, with their sessions and runs as they were written")


_CLOCKS: Final = "Set the clocks of all machines by NTP: timers and the times of records go by them."


async def _wakes(address: str) -> Finding:
    from windlass.temporal import wakes_at  # noqa: PLC0415 - slow to import

    try:
        await wakes_at(address, "doctor").check()
    except windlass.AgentError as error:
        return Finding("wakes", address, error.message)
    return Finding("wakes", f"{address} answers")


_STALLED: Final = (
    'Its log names the session and the code of each stall: search it for "the event loop stood still".'
)
_METRICS_S: Final = 2.0
_METRICS_BYTES_MAX: Final = 16 * 1_048_576
_STALLS: Final = re.compile(rb"^windlass_loop_(stalls|stall_seconds)_total (\S+)$", re.MULTILINE)


def server_stalls(host: str, port: int) -> tuple[int, float] | None:
    """Return how often the event loop of a running server stood still, and for how many seconds.

    None if another program listens there, or the server has keys. No key is sent: the program at this port is
    not known.
    """
    address = f"[{host}]" if ":" in host else host
    try:
        with build_opener(ProxyHandler({})).open(
            f"http://{address}:{port}/v1/metrics", timeout=_METRICS_S
        ) as answer:
            text = answer.read(_METRICS_BYTES_MAX)
        counts = {name: float(value) for name, value in _STALLS.findall(text)}
    except (OSError, HTTPException, ValueError):
        return None
    if counts.keys() != {b"stalls", b"stall_seconds"}:
        return None
    return int(counts[b"stalls"]), counts[b"stall_seconds"]


def _port(command: Command) -> Finding:
    host, port = command.settings.host, command.settings.port
    if problem := port_problem(host, port):
        stalls = server_stalls(host, port)
        if stalls is not None:
            state = f"runs on {host}:{port}; its event loop stood still {stalls[0]:,} times"
            state = f"{state}, {stalls[1]:.1f} s in all" if stalls[0] else state
            return Finding("server", state, _STALLED if stalls[0] else "", is_fatal=False)
        hint = "A server may run there already; or choose another port: WINDLASS_SERVER_PORT=0"
        return Finding("server", problem, hint, is_fatal=False)
    return Finding("server", f"{host}:{port} is free")
