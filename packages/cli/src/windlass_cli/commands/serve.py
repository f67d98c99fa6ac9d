"""`windlass serve`, `dev`, `worker` and `sidecar`: agents over HTTP, in the background, over JSON-RPC."""

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

import windlass
import windlass_server
from windlass import parts
from windlass.limits import DRAIN_S, SERVICE_DRAIN_S
from windlass_cli.backend import (
    Command,
    command_of,
    finish,
    make_data_folder,
    price_problems,
    put_schedules,
    runtime_options,
    unknown_providers,
)
from windlass_cli.output import CommandError, Exit
from windlass_protocol import RetryClass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from windlass import AgentRuntime
    from windlass_server import Settings, Tenants

_LOG: Final = logging.getLogger("windlass.worker")
Agents = Annotated[
    str | None, typer.Argument(help="Your agents: module:name or file.py:name.", show_default=False)
]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="The store, as before the command: postgresql://…")
]
WakesOption = Annotated[
    str | None, typer.Option("--wakes", help="The engine that wakes workers: temporal://host:port/namespace.")
]
DrainOption = Annotated[
    str | None,
    typer.Option(
        "--drain-s",
        metavar="SECONDS",
        help="How long tool calls under way may take to end after SIGTERM or Ctrl-C.",
    ),
]
SessionsOption = Annotated[
    str | None,
    typer.Option("--sessions-max", metavar="NUMBER", help="How many sessions are driven at once."),
]
CONNECT_S: Final = 5.0
"""How long a process waits before it tries again to open a store that cannot be reached."""
TENANTS_LOOK_S: Final = 5.0
"""Interval at which a worker looks for new tenants."""
WATCHED: Final = "WINDLASS_DEV_WATCHED"
"""Set in the environment of the server that `dev` starts, so that it does not watch files itself."""
LOOK_S: Final = 0.5
"""Interval between two checks of the files."""
FILES_MAX: Final = 5_000
"""Files that are checked; the rest of a larger project is not."""
_IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "windlass-data"})


def serve(
    context: typer.Context,
    agents: Agents = None,
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port; 0 chooses a free port.")
    ] = None,
    drive: Annotated[
        bool, typer.Option("--drive/--no-drive", help="Whether runs are driven here, or by workers alone.")
    ] = True,
    store: StoreOption = None,
    wakes: WakesOption = None,
    drain_s: DrainOption = None,
    sessions_max: SessionsOption = None,
) -> None:
    """Serve your agents over HTTP.

    Without API keys or JWTs the server is open, and refuses to listen on other addresses than this machine's.
    With --no-drive it starts, answers, steers and shows runs, and `windlass worker` drives them.
    SIGTERM and Ctrl-C drain it: it drives no more runs, tool calls under way may end, and it answers requests
    meanwhile. The same signal again ends it at once.

    Example: windlass serve app.py:agent --port 8700
    """
    options = {"agents": agents, "store": store, "wakes": wakes, "drain_s": drain_s}
    command = command_of(context).with_options(**options, sessions_max=sessions_max)
    serve_agents(command, port=port, drives=drive, drain_s=SERVICE_DRAIN_S)


def worker(
    context: typer.Context,
    agents: Agents = None,
    *,
    store: StoreOption = None,
    wakes: WakesOption = None,
    drain_s: DrainOption = None,
    sessions_max: SessionsOption = None,
    port: Annotated[
        str | None,
        typer.Option(metavar="PORT", help="The port for probes and metrics; 0 chooses a free port."),
    ] = None,
) -> None:
    """Drive runs in the background, beside servers and other workers of the same store.

    SIGTERM and Ctrl-C drain it: it drives no more runs, tool calls under way may end, and other workers
    continue its runs. The same signal again ends it at once. With --port it answers /v1/health, /v1/ready and
    /v1/metrics.

    Example: windlass worker app.py:agent --store postgresql://user@host/database
    """
    options = {"agents": agents, "store": store, "wakes": wakes, "drain_s": drain_s}
    options |= {"sessions_max": sessions_max, "worker.port": port}
    finish(_work(command_of(context).with_options(**options)))


async def _work(command: Command) -> Exit:
    settings = command.settings
    level = server_settings(command, None).log_level
    command.agents()
    windlass_server.configure(level)
    shutdown = _Shutdown()
    async with AsyncExitStack() as stack:
        if port := settings.text("worker.port"):
            from windlass_server.probes import Probes, probes  # noqa: PLC0415 - slow to import

            app = Probes(shutdown.runtimes, is_closing=shutdown.has_begun.is_set)
            address = await stack.enter_async_context(probes(settings.text("worker.host"), int(port), app))
            _LOG.info("worker answers probes at %s", address, extra={"windlass": {"address": address}})
        runtime = await _first_runtime(command, shutdown, stack)
        if runtime is not None:
            await _drive(command, runtime, shutdown)
    return Exit.DONE


async def _first_runtime(
    command: Command, shutdown: "_Shutdown", stack: AsyncExitStack
) -> "AgentRuntime | None":
    """Open the store, and wait as long as it cannot be reached; None if the worker is to end."""
    while not shutdown.has_begun.is_set():
        try:
            return await stack.enter_async_context(command.driving(command.settings.text("wakes")))
        except windlass.Unavailable as error:
            if error.retry is not RetryClass.RETRYABLE:
                raise
            _LOG.warning("the store cannot be opened, next attempt in %d s: %s", CONNECT_S, error.message)
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await shutdown.has_begun.wait()
    return None


async def _drive(command: Command, runtime: "AgentRuntime", shutdown: "_Shutdown") -> None:
    """Drive the store, and those of further tenants, until a signal ends the worker."""
    settings, agents = command.settings, command.agents()
    parts.shorten_stalls()
    shutdown.runtimes.append(runtime)
    store = runtime.core.ports.store
    names = ", ".join(agent.name for agent in agents)
    name = getattr(store, "name", "memory")
    if command.terminal.err.is_terminal:
        command.terminal.say(f"Windlass drives {names} in {name}. Stop with Ctrl-C.")
    _LOG.info("worker started", extra=_log_fields(name, settings.text("wakes"), sorted(names.split(", "))))
    async with AsyncExitStack() as opened:
        tenants = _DrivenTenants(command, opened, shutdown.runtimes)
        while not shutdown.has_begun.is_set():
            await tenants.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(TENANTS_LOOK_S):
                    await shutdown.has_begun.wait()
        _LOG.info("worker stops")
        # Side by side: each waits for its tools.
        await asyncio.gather(*(driven.drain() for driven in shutdown.runtimes))


class _Shutdown:
    """The end of a worker: the first signal begins it, the same signal again ends the drain."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.runtimes: list[AgentRuntime] = []
        self._signals: set[int] = set()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._begin, number)

    def _begin(self, number: int) -> None:
        if number in self._signals:
            for runtime in self.runtimes:
                runtime.core.end_drain()
        self._signals.add(number)
        self.has_begun.set()


class _DrivenTenants:
    """The tenants that a worker drives, beside the store of its address."""

    def __init__(self, command: Command, opened: AsyncExitStack, runtimes: "list[AgentRuntime]") -> None:
        self._command = command
        self._opened = opened
        self._runtimes = runtimes
        self._driven: set[str] = set()
        self._undriven: dict[str, str] = {}
        """Why schemas are not driven; each reason is logged once."""

    async def look(self) -> None:
        """Drive the tenants that a server has made since the last look.

        An address that names a schema has no other tenants. A schema that cannot be used does not keep the
        worker from the others: it is logged, and tried again at the next look.
        """
        from windlass.postgres.maintenance import (  # noqa: PLC0415 - slow to import
            names_schema,
            postgres_schemas,
            with_schema,
        )
        from windlass_server.tenants import LOCAL, schema_name  # noqa: PLC0415 - slow to import

        address = self._command.settings.address
        if not address or names_schema(address):
            return
        try:
            schemas = await postgres_schemas(address)
        except windlass.AgentError as error:
            _LOG.warning(
                "tenants cannot be listed, the next look is in %d s: %s", TENANTS_LOOK_S, error.message
            )
            return
        for schema in schemas:
            if schema == schema_name(LOCAL) or schema in self._driven:
                continue
            try:
                await self._drive(schema, with_schema(address, schema))
            except windlass.AgentError as error:
                self._leave(schema, error.message)

    async def _drive(self, schema: str, address: str) -> None:
        from windlass_server.tenants import schema_name, tenant_at  # noqa: PLC0415 - slow to import

        name = await tenant_at(address)
        if name is None:
            return
        if schema_name(name) != schema:
            # Its runs are those of the other schema: their effects would happen twice.
            self._leave(schema, f"it is a copy of {schema_name(name)}")
            return
        self._runtimes.append(await self._opened.enter_async_context(_driving(self._command, name, address)))
        self._driven.add(schema)
        _LOG.info("worker drives another tenant")

    def _leave(self, schema: str, why: str) -> None:
        if self._undriven.get(schema) != why:
            self._undriven[schema] = why
            _LOG.warning("schema %s is not driven: %s", schema, why)


@asynccontextmanager
async def _driving(command: Command, tenant: str, address: str) -> "AsyncGenerator[AgentRuntime]":
    """Drive the sessions of a tenant, and export its telemetry."""
    from windlass import telemetry  # noqa: PLC0415 - slow to import

    settings = command.settings
    options = runtime_options(settings)
    options["tenant"] = tenant
    options.setdefault("drain_s", SERVICE_DRAIN_S)
    if settings.text("wakes"):
        options["wakes"] = settings.text("wakes")
    captures = settings.is_on("telemetry.capture_content")
    async with (
        windlass.AgentRuntime.open(address, agents=command.agents(), **options) as runtime,
        telemetry.export_from_environment(runtime, capture_content=captures),
    ):
        yield runtime


def _log_fields(store: str, wakes: str, agents: list[str]) -> dict[str, object]:
    return {"windlass": {"store": store, "wakes": wakes or "local", "agents": agents}}


def dev(
    context: typer.Context,
    agents: Agents = None,
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port; 0 chooses a free port.")
    ] = None,
    reload: Annotated[bool, typer.Option(help="Restart when a file of the project changes.")] = True,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="A page that may call the server, such as http://localhost:5173; repeatable."),
    ] = None,
    drain_s: DrainOption = None,
) -> None:
    """Serve your agents during development: the server restarts when a file changes.

    Runs under way continue after a restart.

    Example: windlass dev app.py:agent
    """
    command = command_of(context).with_options(agents=agents, drain_s=drain_s)
    if reload and WATCHED not in os.environ:  # noqa: TID251 - set by the process that watches
        parts.hide_environment()
        finish(_serve_and_watch(command, port))
    serve_agents(command, port=port, origins=cors or ())


def serve_agents(
    command: Command,
    *,
    port: int | None,
    drives: bool = True,
    drain_s: float = DRAIN_S,
    origins: "Sequence[str]" = (),
    also: "Callable[[Tenants, str], None] | None" = None,
) -> NoReturn:
    """Serve until a signal ends the process; `also` is called with the address once the server listens."""
    settings, terminal = command.settings, command.terminal
    if settings.text("store") and not settings.address:
        raise CommandError(
            "a server keeps one store for each tenant in a folder, and the setting store names a file",
            f"Set data or WINDLASS_DATA to a folder, and remove: {settings.values['store'].source}.",
        )
    if not settings.address and (settings.text("wakes") or not drives):
        raise CommandError(
            "workers need a store in PostgreSQL: a folder of stores is driven by its server",
            "Name one: --store postgresql://user@host/database; or leave out --wakes and --no-drive.",
        )
    options = runtime_options(settings)
    options["is_driving"] = drives
    options.setdefault("drain_s", drain_s)
    if settings.text("wakes"):
        options["wakes"] = settings.text("wakes")
    if odd := unknown_providers(settings):
        terminal.say(odd, "yellow")
    agents = command.agents()
    for problem in price_problems(settings, agents):
        terminal.say(problem, "yellow")
    where = server_settings(command, port, origins)
    make_data_folder(settings.data)
    if settings.schedules:
        if not where.is_open:
            raise CommandError(
                "schedules of windlass.toml belong to the user of this machine, and a server with keys or "
                "JWTs has other users",
                f"Make them with POST /v1/schedules, and remove: {settings.values['schedules'].source}.",
            )
        asyncio.run(_schedule(command))
    tenants = windlass_server.Tenants(
        settings.data,
        agents,
        durability=settings.durability,
        capture_content=settings.is_on("telemetry.capture_content"),
        address=settings.address,
        webhooks=command.webhooks(),
        endpoints=command.endpoints(),
        **options,
    )

    def announce(address: str) -> None:
        # Elsewhere the log is JSON, and says it.
        if terminal.err.is_terminal:
            terminal.say(f"Windlass is running on {address}")
            names = ", ".join(agent.name for agent in agents)
            where = "PostgreSQL" if settings.address else str(settings.data)
            if not drives:
                where += ", driven by workers"
            terminal.say(f"Agents: {names}. Stores: {where}. Stop with Ctrl-C.", "dim")
        if also is not None:
            also(tenants, address)

    if windlass_server.serve(where, tenants, on_ready=announce):
        hint = f"Another process may listen on {where.host}:{where.port}. Choose another port: --port 0"
        raise CommandError("the server could not start", hint, code=Exit.FAILED)
    raise typer.Exit(Exit.DONE)


async def _schedule(command: Command) -> None:
    """Make the schedules of the project in the store that an open server uses."""
    settings = command.settings
    runtime = await windlass.AgentRuntime.open(
        settings.address or settings.store, agents=(), durability=settings.durability
    )
    async with runtime:
        await put_schedules(command, runtime)


def server_settings(command: Command, port: int | None, origins: "Sequence[str]" = ()) -> "Settings":
    """Return the settings of the server: those of the command that begin with `server.`.

    `origins` are pages that may call it besides those of the settings.

    Raises:
        Rejected: the settings cannot be used; see `windlass_server.Settings`.
    """
    settings = command.settings
    values = {key.removeprefix("server."): settings.text(key) for key in settings.values}
    if port is not None:
        values["port"] = str(port)
    if origins:
        values["cors_origins"] = ",".join([*filter(None, [values.get("cors_origins")]), *origins])
    return windlass_server.Settings.read(values, folder=settings.folder, goals=command.goals())


async def _serve_and_watch(command: Command, port: int | None) -> Exit:
    """Run the server in a child process and restart it when a file changes.

    Raises:
        CommandError: the port is taken: a change of a file would not help.
    """
    settings = command.settings
    problem = port_problem(settings.host, settings.port if port is None else port)
    if problem:
        raise CommandError(problem, "Stop the process that listens there, or choose another port: --port 0")
    clock, files = parts.SystemClock(), Files(settings.folder)
    environment = {**os.environ, WATCHED: "1"}  # noqa: TID251 - passed on
    mine = asyncio.current_task()
    assert mine is not None, "a command is a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, mine.cancel)
    while True:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "windlass_cli", *sys.argv[1:], env=environment
        )
        ended = asyncio.ensure_future(child.wait())
        try:
            while not ended.done() and not files.have_changed():
                await clock.sleep(LOOK_S)
        except asyncio.CancelledError:
            if not ended.done():
                child.terminate()  # Ctrl-C on a terminal reaches both processes, other signals only this one
            await ended
            raise
        if ended.done():
            # An error in a file of the project: the next change may repair it.
            command.terminal.say("The server has ended; waiting for a file to change.", "yellow")
            while not files.have_changed():
                await clock.sleep(LOOK_S)
        else:
            child.terminate()
            await ended
        command.terminal.say("A file has changed: restarting.", "dim")


def port_problem(host: str, port: int) -> str:
    """Return why a server cannot listen on a port; empty if it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return f"cannot listen on {host}:{port}: {error.strerror}"
    return ""


class Files:
    """The Python files of a project and its windlass.toml, with their times and sizes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def have_changed(self) -> bool:
        """Return whether a file was added, removed or written since the last call."""
        now = self._look()
        is_new = now != self._seen
        self._seen = now
        return is_new

    def _look(self) -> dict[Path, tuple[int, int]]:
        states: dict[Path, tuple[int, int]] = {}
        for root, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if name not in _IGNORED and not name.startswith(".")]
            for name in names:
                if name.endswith(".py") or name == "windlass.toml":
                    path = Path(root, name)
                    try:
                        state = path.stat()
                    except OSError:
                        continue  # removed since the folder was listed
                    states[path] = (state.st_mtime_ns, state.st_size)
                    if len(states) >= FILES_MAX:
                        return states
        return states


# the sidecar

ALL_ARGUMENTS: Final[dict[str, object]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": (),
}
"""Typer passes all arguments on to the sidecar, --help included."""


def sidecar(context: typer.Context) -> None:
    """Serve the runtime to a program in any language: JSON-RPC on standard input and output.

    The same as `windlass-sidecar`, with its options: see windlass sidecar --help. The setting `store` becomes
    its --store.

    Example: windlass sidecar --store app.db --tools shop.tools
    """
    from windlass_sidecar.main import main  # noqa: PLC0415 - slow to import

    settings = command_of(context).settings
    store = ["--store", settings.address or str(settings.store)] if settings.text("store") else []
    main([*store, *context.args])
