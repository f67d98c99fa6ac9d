"""Backends of the command: the store on this machine, or a server.

`Command` holds the settings and the terminal of one command and opens its backend. `Backend` is what commands
ask of either kind. `LocalStore` implements it here; `windlass_cli.remote` implements it over HTTP and is
imported only when a server is named, because the client is slow to import.
"""

import asyncio
import getpass
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, Protocol, TypeVar, Unpack, cast

import typer

import windlass
from windlass import ledger, parts
from windlass.limits import SERVICE_DRAIN_S
from windlass.private_files import make_folder
from windlass_cli.output import CommandError, Exit, Terminal
from windlass_cli.settings import KEY, LOCAL, OWNER, CommandSettings
from windlass_protocol import SourceKind, SourceRef
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass import AgentRuntime, RunHandle, Schedule, client
    from windlass.agent.agent import AnyAgent, BatchChoice
    from windlass.catalog import Page, RunQuery, RunTrace, SettledRequest
    from windlass.ports import listing
    from windlass.runtime.options import RuntimeOptions
    from windlass.webhooks import Endpoint, Webhook
    from windlass_harness.record import Record
    from windlass_protocol import (
        BudgetLimits,
        ChatMessage,
        DecisionRun,
        DeliveryInfo,
        Event,
        InputRequest,
        JsonObject,
        LimitInfo,
        RunResult,
        RunSnapshot,
        ScheduleInfo,
        UndoPlan,
    )

    SessionRow = listing.SessionInfo | client.SessionInfo
    RunRow = listing.RunInfo | client.RunRow
    RequestRow = listing.OpenRequest | client.ApprovalInfo
    RefusedRow = listing.RefusedStart | client.RefusedStart

T = TypeVar("T")
BatchOption = Annotated[
    bool | None,
    typer.Option(
        help="Answer model calls in batches, within 24 hours, at a lower price, or at once; as the agent "
        "says by default."
    ),
]
ENDS: Final = frozenset({"completed", "failed", "cancelled", "budget_exhausted"})
"""The statuses of a run that has ended; its last record is `run.` and one of them."""
RECORDS_PER_READ: Final = 500
UNDRIVEN_MAX: Final = 1_000
"""Sessions without a driver that a list marks."""
PER_PAGE: Final = 200
SEARCHED_MAX: Final = 10_000
"""Newest runs, sessions or requests among which an id is completed."""
CANDIDATES_MAX: Final = 8
"""Ids that an ambiguous beginning is answered with."""


def batch_choice(is_batched: bool | None) -> "BatchChoice | None":
    """Return what a start says of batches, by an option of a command."""
    if is_batched is None:
        return None
    return "within 24h" if is_batched else "off"


class BackendRun(Protocol):
    """A run in a backend: `windlass.RunHandle`, or `remote.RemoteRun`."""

    run_id: str

    def events(self) -> "AsyncIterable[Event]":
        """Return the events of the run, stored and live, up to its end."""
        ...

    async def wait(self, timeout: float | None = None) -> "RunResult":  # noqa: ASYNC109 - the run continues
        """Return the result of the run once it has ended.

        Raises:
            TimeoutError: it has not ended after so many seconds. It continues.
        """
        ...

    async def open_requests(self) -> "tuple[InputRequest, ...]":
        """Return the open requests of the run."""
        ...

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        responder: str,
        arguments: "JsonObject | None" = None,
    ) -> None:
        """Answer a request.

        Raises:
            Conflict: the request is not open any more.
            AgentError: the answer is refused.
        """
        ...

    async def cancel(self, *, by: str, reason: str | None = None) -> None:
        """Request that the run ends."""
        ...

    async def send(self, name: str, data: "JsonValue", *, key: str | None, by: str) -> None:
        """Send an event that the workflow of the run waits for."""
        ...


class BackendSessions(Protocol):
    """The sessions and runs of a backend: `runtime.sessions`, or `remote.RemoteSessions`."""

    async def list(
        self,
        *,
        text: str | None = None,
        agent_id: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int = 50,
        root_only: bool = True,
    ) -> "Page[SessionRow]":
        """Return a page of sessions, the newest first; with `root_only`, without those of subagents."""
        ...

    async def runs(
        self, *, after: str | None = None, limit: int = 50, **query: "Unpack[RunQuery]"
    ) -> "Page[RunRow]":
        """Return a page of runs, newest first unless sorted otherwise."""
        ...

    async def refused_starts(self, *, agent_id: str | None = None, limit: int = 50) -> "Page[RefusedRow]":
        """Return a page of refused starts, the newest first."""
        ...

    async def requests(self, *, after: str | None = None, limit: int = 50) -> "Page[RequestRow]":
        """Return a page of open requests, the oldest first."""
        ...

    async def request(self, request_id: str) -> "RequestRow | SettledRequest | None":
        """Return a request, open or settled; None if it is unknown."""
        ...

    async def get(self, session_id: str) -> "SessionRow":
        """Return a session.

        Raises:
            Conflict: the session is unknown.
        """
        ...

    async def history(
        self, session_id: str, *, after: str | None = None, limit: int = 50
    ) -> "Page[ChatMessage]":
        """Return a page of the messages of a session."""
        ...

    async def trace(self, run_id: str) -> "RunTrace | client.TraceInfo":
        """Return the spans and events of a run."""
        ...

    async def fork(
        self, session_id: str, *, at: int | None = None, session_id_new: str | None = None
    ) -> "SessionRow":
        """Copy a session up to a record.

        Raises:
            CommandError: an id is given for the copy, and a server chooses its own.
        """
        ...

    def export(self, session_id: str) -> AsyncIterator[str]:
        """Return a session as lines of JSON."""
        ...

    async def delete(self, session_id: str) -> tuple[str, ...]:
        """Delete a session and those of its subagents; return their ids."""
        ...


class BackendSchedules(Protocol):
    """The schedules of a store or a server."""

    async def put(self, schedule: "Schedule") -> "ScheduleInfo":
        """Make or replace a schedule."""
        ...

    async def list(self, *, limit: int = 100) -> "Page[ScheduleInfo]":
        """Return a page of schedules, by name."""
        ...

    async def run_now(self, name: str) -> str:
        """Start a run at once; return its id."""
        ...

    async def pause(self, name: str) -> "ScheduleInfo":
        """Start no further runs."""
        ...

    async def resume(self, name: str) -> "ScheduleInfo":
        """Start runs again."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a schedule."""
        ...


class BackendLimits(Protocol):
    """The limits for people and teams of a store or a server."""

    async def infos(self, *, owner: str | None = None) -> "tuple[LimitInfo, ...]":
        """Return limits with what is left of them, by name."""
        ...

    async def set(self, limit: "parts.SpendLimit") -> "LimitInfo":
        """Set or replace a limit."""
        ...

    async def remove(self, name: str) -> "LimitInfo":
        """Remove a limit."""
        ...


class BackendDeliveries(Protocol):
    """The deliveries of a store or a server that were not taken."""

    async def list(self, *, dead_only: bool = False, limit: int = 100) -> "Page[DeliveryInfo]":
        """Return a page of deliveries, by id."""
        ...

    async def retry(self, delivery_id: str) -> "DeliveryInfo":
        """Try a delivery again now."""
        ...

    async def delete(self, delivery_id: str) -> None:
        """Give a delivery up."""
        ...


class Backend(Protocol):
    """The operations that commands need, on a store or on a server."""

    @property
    def deliveries(self) -> BackendDeliveries:
        """The deliveries that were not taken."""
        ...

    @property
    def limits(self) -> BackendLimits:
        """The limits for people and teams."""
        ...

    @property
    def schedules(self) -> BackendSchedules:
        """The schedules."""
        ...

    @property
    def sessions(self) -> BackendSessions:
        """The sessions and runs."""
        ...

    async def agent(self, name: str | None) -> str:
        """Return the name of an agent; of the first one if `name` is None.

        Raises:
            CommandError: the agent is unknown.
        """
        ...

    async def new_session(self, agent: str) -> str:
        """Return the id of a new session."""
        ...

    async def start(
        self, agent: str, message: str, *, session_id: str | None, batch: "BatchChoice | None" = None
    ) -> BackendRun:
        """Start a run.

        Raises:
            CommandError: the server does not have the session.
            AgentError: the run was refused.
        """
        ...

    def handle(self, run_id: str) -> BackendRun:
        """Return a run."""
        ...

    async def retry(self, run_id: str, *, budget: "BudgetLimits | None" = None) -> BackendRun:
        """Continue a failed run; return the run that does. `budget` are the limits of both runs together.

        Raises:
            Conflict: the run is unknown or cannot be continued.
        """
        ...

    async def undo(self, run_id: str) -> BackendRun:
        """Reverse the calls of a run; return the run that does.

        Raises:
            Conflict: the run is unknown or cannot be undone.
        """
        ...

    async def undo_plan(self, run_id: str) -> "UndoPlan":
        """Return the calls of a run that may have changed something, newest first.

        Raises:
            Conflict: the run is unknown.
        """
        ...

    async def run_snapshot(self, run_id: str) -> "RunSnapshot":
        """Return the status and usage of a run.

        Raises:
            Conflict: the run is unknown.
        """
        ...

    async def undriven(self) -> frozenset[str]:
        """Return the sessions with work that no process does."""
        ...

    def can_drive(self, agent_id: str) -> bool:
        """Whether runs of an agent are driven here; a server answers for itself."""
        ...

    async def decisions(self, run_id: str) -> "DecisionRun":
        """Return the decisions of a run."""
        ...

    def session_records(self, session_id: str) -> "AsyncIterator[Record | Event]":
        """Yield what is stored of a session, in order, up to now."""
        ...

    def run_records(self, run_id: str) -> "AsyncIterator[Record | Event]":
        """Yield what is stored of a run, in order, up to its end or to now."""
        ...


class LocalStore:
    """The `Backend` on this machine: a runtime with the store open."""

    def __init__(
        self, runtime: "AgentRuntime", agents: "Callable[[], tuple[AnyAgent, ...]]", *, user: str
    ) -> None:
        self.runtime = runtime
        self.sessions = runtime.sessions
        self.schedules = runtime.schedules
        self.limits = runtime.sessions.limits
        self.handle = runtime.handle
        self.run_snapshot = runtime.run_snapshot
        self._agents = agents
        self._source = SourceRef(kind=SourceKind.USER, id=user)

    @property
    def deliveries(self) -> BackendDeliveries:
        from windlass.webhooks import Deliveries  # noqa: PLC0415 - slow to import

        store = self.runtime.core.ports.store
        assert store is not None, "it was opened on one"
        return Deliveries(store, self.runtime.core.ports.machine.clock)

    async def agent(self, name: str | None) -> str:
        return choose_agent(name, [agent.name for agent in self._agents()])

    async def new_session(self, agent: str) -> str:
        return f"chat-{parts.new_id()}"

    async def start(
        self, agent: str, message: str, *, session_id: str | None, batch: "BatchChoice | None" = None
    ) -> "RunHandle":
        """Start a run for the user of this machine.

        A session without an owner was begun by a program; it stays without one.
        """
        owner: str | None = OWNER
        if session_id is not None:
            try:
                session = await self.sessions.get(session_id)
            except windlass.Conflict:  # a new session
                pass
            else:
                owner = None if session.owner is None else OWNER
        return await self.runtime.start_run(
            agent, message, session_id=session_id, owner=owner, source=self._source, batch=batch
        )

    async def retry(self, run_id: str, *, budget: "BudgetLimits | None" = None) -> "RunHandle":
        return await self.handle(run_id).retry(budget=budget)

    async def undo(self, run_id: str) -> "RunHandle":
        return await self.handle(run_id).undo()

    async def undo_plan(self, run_id: str) -> "UndoPlan":
        return await self.handle(run_id).undo_plan()

    async def decisions(self, run_id: str) -> "DecisionRun":
        return await self.handle(run_id).decisions()

    async def undriven(self) -> frozenset[str]:
        store = self.runtime.core.ports.store
        assert store is not None, "it was opened on one"
        return frozenset(await store.due(now_ms=self.runtime.core.now_ms(), limit=UNDRIVEN_MAX))

    def can_drive(self, agent_id: str) -> bool:
        return agent_id in self.runtime.core.ports.registry.agent_ids

    async def session_records(self, session_id: str) -> "AsyncIterator[Record]":
        after = 0
        while records := await self.sessions.records(session_id, after=after, limit=RECORDS_PER_READ):
            for record in records:
                yield record
            after = records[-1].seq

    async def run_records(self, run_id: str) -> "AsyncIterator[Record]":
        async for record in self.session_records(await session_of_run(self, run_id)):
            if record.run_id == run_id:
                yield record
                if record.type.startswith("run.") and record.type.removeprefix("run.") in ENDS:
                    return


# the command


def runtime_options(settings: CommandSettings) -> "RuntimeOptions":
    """Return the options of the runtimes that this command and its server open.

    Raises:
        CommandError: a limit of a provider is too large.
    """
    try:
        limits = {name: parts.ProviderLimit(**limit) for name, limit in settings.provider_limits.items()}
    except windlass.Rejected as error:
        source = settings.values["providers"].source
        raise CommandError(f"providers: {error.message}", f"Change it: {source}.") from None
    from windlass.prices import check_prices  # noqa: PLC0415 - slow to import

    try:
        check_prices(settings.prices, "prices")
    except windlass.Rejected as error:
        raise CommandError(error.message, f"Change it: {settings.values['prices'].source}.") from None
    options: RuntimeOptions = {**settings.runtime_options, "provider_limits": parts.ProviderLimits(limits)}
    if settings.prices:
        options["prices"] = settings.prices
    if settings.limits:
        options["limits"] = _spend_limits(settings)
    return options


def _spend_limits(settings: CommandSettings) -> "list[parts.SpendLimit]":
    limits: list[parts.SpendLimit] = []
    for name, fields in settings.limits.items():
        try:
            limits.append(parts.SpendLimit(name, **fields))
        except (TypeError, windlass.Rejected) as error:
            source = settings.values["limits"].source
            problem = error.message if isinstance(error, windlass.Rejected) else f"it takes {_LIMIT_KEYS}"
            raise CommandError(f"limits.{name}: {problem}", f"Change it: {source}.") from None
    return limits


_LIMIT_KEYS: Final = "per, max_cost_micros, max_tokens, owner, agent and timezone"


def unknown_providers(settings: CommandSettings) -> str:
    """Return what is odd about the providers that have limits; empty if Windlass knows all of them."""
    from windlass.models import providers_from_environment  # noqa: PLC0415 - slow to import

    providers = providers_from_environment({}).routes
    odd = [name for name in settings.provider_limits if name not in providers]
    if not odd:
        return ""
    near = get_close_matches(odd[0], providers, 1)
    return (
        f"providers.{odd[0]} limits no provider that Windlass knows"
        f"{f', did you mean {near[0]}?' if near else ': ' + ', '.join(providers) + '.'} "
        f"It is right only if a provider object of yours has the route_id {odd[0]}."
    )


def price_problems(settings: CommandSettings, agents: "Iterable[AnyAgent]") -> Iterator[str]:
    """Yield why agents with a budget in money cannot start a run: a model of theirs has no price."""
    limited = [agent for agent in agents if agent.budget and agent.budget.max_cost_micros is not None]
    if not limited:
        return
    from windlass.runtime.starts.executors import check_priced  # noqa: PLC0415 - slow to import

    ports = windlass.AgentRuntime.in_memory(limited, **runtime_options(settings)).core.ports
    for agent in limited:
        registered = ports.registry.agent(agent.agent_id)
        assert registered is not None, "the runtime was made with it"
        # A model without a key or an SDK is another problem.
        with suppress(windlass.Unavailable):
            try:
                check_priced(ports, registered.package, f"the budget of agent {agent.name} is in money")
            except windlass.Rejected as error:
                yield error.message


@sealed
class Command:
    """The settings and the terminal of one command."""

    settings: CommandSettings
    terminal: Terminal
    key: str | None = field(default=None, repr=False)
    """The API key for the server, if one is named."""
    _loaded: "list[tuple[AnyAgent, ...]]" = field(default_factory=list["tuple[AnyAgent, ...]"], init=False)

    def with_options(self, **options: str | None) -> "Command":
        """Return the command with options that stand behind its name, by setting."""
        return Command(self.settings.with_options(options), self.terminal, self.key)

    @property
    def user(self) -> str:
        """The name under which requests are answered."""
        return self.settings.user or getpass.getuser()

    def agents(self) -> "tuple[AnyAgent, ...]":
        """Return the agents; they are loaded once.

        Raises:
            Rejected: they cannot be loaded.
        """
        if not self._loaded:
            from windlass.loading import load_agents  # noqa: PLC0415 - slow to import

            # The commands of tools run as the same user.
            parts.hide_environment()
            self._loaded.append(load_agents(self.settings.agents, self.settings.folder))
        return self._loaded[0]

    def goals(self, location: str | None = None) -> "tuple[ledger.Goal, ...]":
        """Return the goals at `location`, or at the setting `goals`; none if neither is set.

        Raises:
            Rejected: they cannot be loaded.
        """
        source = location or self.settings.text("goals")
        if not source:
            return ()
        from windlass.loading import load  # noqa: PLC0415 - slow to import

        return load(source, ledger.Goal, folder=self.settings.folder)

    def webhooks(self) -> "tuple[Webhook, ...]":
        """Return the webhooks that the settings declare, in Python or as tables.

        Raises:
            Rejected: they cannot be loaded, or a table cannot be used.
        """
        from windlass.webhooks import Webhook  # noqa: PLC0415 - slow to import

        return self._load_declarations("webhooks", Webhook, Webhook.read)

    def endpoints(self) -> "tuple[Endpoint, ...]":
        """Return the endpoints for notifications that the settings declare, in Python or as tables.

        Raises:
            Rejected: they cannot be loaded, or a table cannot be used.
        """
        from windlass.webhooks import Endpoint  # noqa: PLC0415 - slow to import

        return self._load_declarations("notifications", Endpoint, Endpoint.read)

    def _load_declarations(
        self, key: str, kind: type[T], read: Callable[[str, Mapping[str, object]], T]
    ) -> tuple[T, ...]:
        from windlass.loading import load  # noqa: PLC0415 - slow to import

        source = self.settings.text(key)
        if not source.startswith("{"):
            return load(source, kind, folder=self.settings.folder) if source else ()
        declared: list[T] = []
        for name, item in json.loads(source).items():
            if isinstance(item, str):
                declared += load(item, kind, folder=self.settings.folder)
            else:
                declared.append(read(name, item))
        return tuple(declared)

    def ask(
        self, work: Callable[[Backend], Coroutine[object, object, Exit | None]], *, drives: bool = False
    ) -> NoReturn:
        """Open the backend, do the work of the command, and end it with the exit code of the work."""

        async def whole() -> Exit:
            async with self.backend(drives=drives) as backend:
                return await work(backend) or Exit.DONE

        finish(whole())

    @asynccontextmanager
    async def backend(self, *, drives: bool = False) -> AsyncGenerator[Backend]:
        """Open the server that is named, else the store.

        With `drives`, unfinished runs of the store are driven here. A server always drives its own.

        Raises:
            CommandError: a key is set and only a file names the server.
        """
        if not self.settings.server:
            async with self.driving() if drives else self.reading() as runtime:
                yield LocalStore(runtime, self.agents, user=self.user)
            return
        from windlass.client import Client, Unauthenticated  # noqa: PLC0415 - slow to import
        from windlass_cli.remote import ServerBackend  # noqa: PLC0415 - slow to import

        self._check_key()
        async with Client(self.settings.server, key=self.key) as client:
            try:
                yield ServerBackend(client)
            except Unauthenticated as error:
                what = "is not set" if self.key is None else "is not valid there"
                raise CommandError(
                    f"{self.settings.server} refused the request: {error.message}",
                    f"{KEY} {what}. Set it to your API key; operators make keys: windlass keys add ID USER",
                    code=Exit.FAILED,
                ) from None

    def _check_key(self) -> None:
        """Refuse to send the key to a server that only a file names: the file may come from others."""
        server = self.settings.values["server"]
        if self.key is not None and server.is_from_file:
            raise CommandError(
                f"{KEY} is set and the server is named by {server.source}: "
                "a key is sent only to a server that you name",
                f"Name the server with --server or {server.setting.variable}, or unset {KEY}.",
            )

    def check_store(self) -> None:
        """Refuse a command that needs the store when a server is named.

        Raises:
            CommandError: a server is named.
        """
        if self.settings.server:
            raise CommandError(
                "this command works on a store, and a server is named",
                f"Remove the server: {self.settings.values['server'].source}.",
            )

    def other_stores(self) -> str:
        """Return how to use the stores that a server keeps for its tenants, as the end of a hint."""
        settings = self.settings
        if settings.server or settings.text("store"):
            return ""
        stores = [(name, path) for name, path in tenant_stores(settings) if path != settings.store]
        if not stores:
            return ""
        examples = ", ".join(f"--store {path} ({name})" for name, path in stores[:CANDIDATES_MAX])
        more = f" and {len(stores) - CANDIDATES_MAX} more" if len(stores) > CANDIDATES_MAX else ""
        return f"\nThe server of this folder keeps a store for each tenant: {examples}{more}"

    @asynccontextmanager
    async def driving(self, wakes: str | None = None) -> "AsyncGenerator[AgentRuntime]":
        """Open the store and drive its unfinished runs; a worker gives the setting `wakes`, empty or not.

        A worker is replaced by others while it ends, so its calls get the time of a service to end.
        Telemetry is exported if the environment names an OpenTelemetry collector.
        """
        from windlass import telemetry  # noqa: PLC0415 - slow to import

        self.check_store()
        settings = self.settings
        file = settings.data / LOCAL if settings.address else settings.store
        check_file(file)
        make_data_folder(file.parent)
        options = runtime_options(settings)
        if wakes is not None:
            # The tenant of the sessions that a server keeps in the same store.
            options["tenant"] = OWNER
            options.setdefault("drain_s", SERVICE_DRAIN_S)
        if wakes:
            options["wakes"] = wakes
        runtime = await windlass.AgentRuntime.open(
            settings.address or file, agents=self.agents(), durability=settings.durability, **options
        )
        exported = telemetry.export_from_environment(
            runtime, capture_content=settings.is_on("telemetry.capture_content")
        )
        async with runtime, exported:
            await put_schedules(self, runtime)
            yield runtime

    @asynccontextmanager
    async def reading(self, *, with_agents: bool = False) -> "AsyncGenerator[AgentRuntime]":
        """Open the store to read it and to answer requests; no run is driven.

        With `with_agents` the runtime knows the agents, as replays need.

        Raises:
            CommandError: the store does not exist.
        """
        self.check_store()
        settings = self.settings
        if not settings.address:
            check_file(settings.store)
            if not settings.store.is_file():
                raise CommandError(
                    f"the store {settings.store} does not exist",
                    'Create it with: windlass run "…", or name another file: '
                    f"--store PATH{self.other_stores()}",
                )
        else:
            await _check_tables(settings.address)
        runtime = await windlass.AgentRuntime.open(
            settings.address or settings.store, agents=(), durability=settings.durability
        )
        async with runtime:
            if not with_agents:
                yield runtime
                return
            # A runtime that is opened with agents drives their runs, so the agents come from one that is not.
            registry = windlass.AgentRuntime.in_memory(self.agents()).core.ports.registry
            yield windlass.AgentRuntime(replace(runtime.core.ports, registry=registry))


async def _check_tables(address: str) -> None:
    """Refuse a database or schema without a store: opening it would make one, also for a mistyped name.

    Raises:
        CommandError: it has no store.
        AgentError: it cannot be looked at.
    """
    from windlass.postgres.maintenance import look_at_postgres  # noqa: PLC0415 - slow to import

    name, version, *_ = await look_at_postgres(address)
    if not version:
        raise CommandError(
            f"{name} has no store",
            "Create it with: windlass migrate, or name another database or ?schema=…",
        )


async def put_schedules(command: Command, runtime: "AgentRuntime") -> None:
    """Make the schedules of the project, which belong to the user of this machine.

    Raises:
        CommandError: one of them cannot be used.
    """
    settings = command.settings
    if not settings.schedules:
        return
    names = [agent.name for agent in command.agents()]
    for name, options in settings.schedules.items():
        try:
            arguments = cast("dict[str, str]", options)
            schedule = windlass.Schedule(name, **arguments, owner=OWNER)  # pyright: ignore[reportArgumentType] - `Schedule` checks them
        except (windlass.Rejected, TypeError) as error:
            problem = (
                error.message if isinstance(error, windlass.Rejected) else "agent and message are needed"
            )
            source = settings.values["schedules"].source
            raise CommandError(f"schedules.{name}: {problem}", f"Change it: {source}.") from None
        if schedule.agent not in names:
            # Not refused: another process of the same store may have the agent.
            agents = ", ".join(names)
            command.terminal.say(
                f"Schedule {name} starts no runs here: unknown agent {schedule.agent}; known are {agents}",
                "yellow",
            )
        await runtime.schedules.put(schedule)


def tenant_stores(settings: CommandSettings) -> list[tuple[str, Path]]:
    """Return the tenants of the data folder and their stores; a server writes the name beside each store."""
    stores: list[tuple[str, Path]] = []
    for file in sorted(settings.data.glob("*.tenant")):
        store = file.with_suffix(".db")
        if store.is_file():
            stores.append((file.read_text(encoding="utf-8", errors="replace"), store))
    return stores


def command_of(context: typer.Context) -> Command:
    """Return the command of a typer context."""
    return cast(Command, context.obj)


def finish(work: Coroutine[object, object, Exit]) -> NoReturn:
    """Run the work of a command and exit with its code; Ctrl-C cancels it."""
    try:
        code = asyncio.run(work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = Exit.INTERRUPTED
    raise typer.Exit(code)


def choose_agent(name: str | None, names: list[str]) -> str:
    """Return the agent of a name, or the first one.

    Raises:
        CommandError: the agent is unknown.
    """
    if name is None and names:
        return names[0]
    if name is None or name not in names:
        raise CommandError(f"unknown agent: {name}", f"Known agents: {', '.join(names)}.")
    return name


def check_file(store: Path) -> None:
    """Refuse a folder as a store, and a store in a folder that this process may not enter.

    Raises:
        CommandError: it is a folder.
        Rejected: its folder is closed.
    """
    from windlass.sqlite.schema import check_reachable  # noqa: PLC0415 - slow to import

    check_reachable(store)
    if store.is_dir():
        raise CommandError(f"the store {store} is a folder", f"Name a file in it: --store {store / LOCAL}")


def make_data_folder(folder: Path) -> None:
    """Make the folder of a store.

    Raises:
        CommandError: it cannot be made.
    """
    try:
        make_folder(folder)
    except OSError as error:
        raise CommandError(
            f"cannot create the folder {folder}: {error.strerror}",
            "Name another file with --store PATH, or another data folder with WINDLASS_DATA",
        ) from None


# runs


async def find_run(backend: Backend, prefix: str) -> "RunSnapshot":
    """Return a run by its id, or by a beginning of its id that no other run has.

    Raises:
        CommandError: the run is unknown, or several begin like this.
    """
    try:
        return await backend.run_snapshot(prefix)
    except windlass.Conflict:
        rows = await all_items(lambda after: backend.sessions.runs(after=after, limit=PER_PAGE))
        run_id = complete_id(prefix, [row.run_id for row in rows], what="run")
    return await backend.run_snapshot(run_id)


async def find_session(backend: Backend, prefix: str) -> "SessionRow":
    """Return a session by its id, or by a beginning of its id that no other session has.

    Raises:
        CommandError: the session is unknown, or several begin like this.
    """
    try:
        return await backend.sessions.get(prefix)
    except windlass.Conflict:
        rows = await all_items(
            lambda after: backend.sessions.list(after=after, limit=PER_PAGE, root_only=False)
        )
        session_id = complete_id(prefix, [row.session_id for row in rows], what="session")
    return await backend.sessions.get(session_id)


async def find_request(backend: Backend, prefix: str) -> "RequestRow | SettledRequest":
    """Return a request by its id, or an open one by a beginning of its id that no other has.

    Raises:
        CommandError: the request is unknown, or several begin like this.
    """
    request = await backend.sessions.request(prefix)
    if request is not None:
        return request
    rows = await all_items(lambda after: backend.sessions.requests(after=after, limit=PER_PAGE))
    open_requests = {row.request.request_id: row for row in rows}
    return open_requests[complete_id(prefix, list(open_requests), what="request")]


_LISTS: Final = {
    "run": "windlass runs list",
    "session": "windlass sessions list",
    "request": "windlass approvals list",
    "proposal": "windlass builder proposals list",
    "experiment": "windlass eval list",
}


def complete_id(prefix: str, ids: Sequence[str], *, what: str) -> str:
    """Return the only id that begins as given.

    Raises:
        CommandError: there is none, or there are several.
    """
    matches = [candidate for candidate in ids if prefix and candidate.startswith(prefix)]
    if not matches:
        raise CommandError(f"unknown {what}: {prefix}", f"List them: {_LISTS[what]}")
    if len(matches) > 1:
        more = f" and {len(matches) - CANDIDATES_MAX} more" if len(matches) > CANDIDATES_MAX else ""
        raise CommandError(
            f"{len(matches)} ids begin with {prefix}: {', '.join(matches[:CANDIDATES_MAX])}{more}",
            f"Give more characters of the id of the {what}.",
        )
    return matches[0]


async def all_items(read: "Callable[[str | None], Awaitable[Page[T]]]") -> list[T]:
    """Return the items of all pages of a list, up to a limit."""
    items: list[T] = []
    after: str | None = None
    while len(items) < SEARCHED_MAX:
        page = await read(after)
        items.extend(page.items)
        after = page.next
        if after is None:
            break
    return items


async def session_of_run(backend: Backend, run_id: str) -> str:
    """Return the session of a run."""
    session_id = (await backend.run_snapshot(run_id)).session_id
    assert session_id is not None, "a run that was started has a session"
    return session_id


async def last_seq_of_run(backend: Backend, run_id: str) -> int | None:
    """Return the number of the last record of a run, with the notes of its session; None before its start."""
    last: int | None = None
    async for record in backend.session_records(await session_of_run(backend, run_id)):
        if record.run_id == run_id or (last is not None and record.run_id is None):
            last = record.seq
        elif last is not None:
            break
    return last
