"""Tenants: each has its own store, runtime, ledger and reservations, so tenants share no data."""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeVar, Unpack

from windlass import AgentError, AgentRuntime, Conflict, Unavailable, telemetry
from windlass.agent.agent import AnyAgent
from windlass.ledger import Builder, BuilderQuery
from windlass.parts import Store, SystemClock, clock_of, open_store
from windlass.ports.documents import SCHEDULE, Document
from windlass.ports.store import WatchedStore
from windlass.postgres import postgres_schemas, with_schema
from windlass.private_files import make_folder, may_make_files, write_private
from windlass.refusals import check_items, missing_provider
from windlass.runtime.options import RuntimeOptions
from windlass.runtime.registry import RuntimePorts
from windlass.runtime.rooms import Durability
from windlass.runtime.starts.executors import provider_of
from windlass.temporal import wakes_at
from windlass.webhooks import Deliveries, Endpoint, Outbox, Webhook, Webhooks, targets_of
from windlass.webhooks.outbox import DeliveryTarget
from windlass_protocol import ErrorKind, RetryClass, RunStatus
from windlass_protocol.frozen import mutable, sealed
from windlass_server.problems import Problem
from windlass_server.push import Push, PushRules, is_owing
from windlass_server.reservations import Reservations
from windlass_server.settings import (
    RETRY_MS,
    TENANTS_OPEN_MAX,
    WORKS_KEPT_MAX,
    WORKS_MAX,
    ImproveSettings,
    settings_error,
)
from windlass_server.work import Backlog

_LOG: Final = logging.getLogger("windlass.server")
T = TypeVar("T")


@sealed
class Work:
    """Work on a proposal: under way, or failed."""

    proposal_id: str
    kind: Literal["propose", "check"]
    started_at: str
    goal_id: str | None = None
    agent_id: str | None = None
    status: Literal["working", "failed"] = "working"
    problem: str | None = None
    """Why it failed."""


class Improving:
    """The Builder of a tenant, and its background work."""

    def __init__(self, runtime: AgentRuntime, settings: ImproveSettings) -> None:
        self.builder: Final = Builder(settings.model, runtime=runtime, goals=settings.goals)
        self._works: OrderedDict[tuple[str, str], Work] = OrderedDict()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    @property
    def working(self) -> int:
        """The number of tasks under way."""
        return len(self._tasks)

    @property
    def works(self) -> tuple[Work, ...]:
        """Work under way or failed, newest first."""
        return tuple(reversed(self._works.values()))

    def begin(self, work: Work, job: Callable[[], Coroutine[object, object, object]]) -> None:
        """Start work in the background, unless it is under way.

        Raises:
            Problem: too much work is under way.
        """
        key = (work.proposal_id, work.kind)
        if key in self._tasks:
            return
        if len(self._tasks) >= WORKS_MAX:
            problem = f"{WORKS_MAX} proposals are being made or checked, the limit: retry later"
            raise Problem(503, problem, retry_s=RETRY_MS // 1000)
        self._works.pop(key, None)
        self._works[key] = work
        while len(self._works) > WORKS_KEPT_MAX:
            self._works.popitem(last=False)
        self._tasks[key] = asyncio.create_task(self._do(key, job))

    async def _do(self, key: tuple[str, str], job: Callable[[], Coroutine[object, object, object]]) -> None:
        problem = None
        try:
            await job()
        except AgentError as error:
            problem = error.info().message
        except Exception:  # noqa: BLE001 - the server boundary: no caller waits for this task
            _LOG.exception("work on a proposal failed")
            problem = "internal error; see the log of the server"
        finally:
            del self._tasks[key]
            work = self._works.pop(key, None)
        if problem is not None and work is not None:
            self._works[key] = replace(work, status="failed", problem=problem)

    async def aclose(self) -> None:
        """Cancel all work; the same request starts it again."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.builder.aclose()


class Insight:
    """The ledger of a tenant and its Builder, opened at the first use."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._query: BuilderQuery | None = None
        self._improving: Improving | None = None

    @property
    def working(self) -> int:
        """The number of proposals that are being made or checked."""
        return 0 if self._improving is None else self._improving.working

    async def ask(self, question: Callable[[BuilderQuery], T]) -> T:
        """Query the ledger in a thread; it catches up with the journal first."""
        if self._query is None:
            self._query = BuilderQuery(runtime=self._runtime)
        return await asyncio.to_thread(question, self._query)

    def improving(self, settings: ImproveSettings) -> Improving:
        """Return the Builder and its work."""
        if self._improving is None:
            self._improving = Improving(self._runtime, settings)
        return self._improving

    async def aclose(self) -> None:
        """Let go of the files."""
        if self._improving is not None:
            await self._improving.aclose()
        if self._query is not None:
            await asyncio.to_thread(self._query.close)


NAME_SUFFIX: Final = ".tenant"
_MOVING: Final = (RunStatus.RUNNING, RunStatus.CANCELLING)
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLAIN_SCHEMA: Final = re.compile(r"[a-z0-9_]{1,48}")
LOCAL: Final = "local"
"""The tenant of a server without keys; its schema is that of the command."""
TENANT: Final = "tenant"
"""The kind and the name of the document with the name of a tenant."""


@mutable
class Tenant:
    """An open tenant."""

    name: str
    runtime: AgentRuntime
    reservations: Reservations
    backlog: Backlog
    insight: Insight
    agent_ids: tuple[str, ...]
    """The agents that runs can be started with; subagents are not among them."""
    exported: telemetry.TelemetryExport | None = None
    """The OpenTelemetry export; None if the environment configures none."""
    outbox: Outbox | None = None
    """Brings notifications to endpoints and channels; None if the tenant has none."""
    push: Push | None = None
    """Brings changes of runs to addresses of clients; None if the server does not offer it."""
    users: int = 0
    """Number of requests that use it."""
    blank: Path | None = None
    """The store that a tenant without files would have; None if it has files.

    Such a tenant is in memory and empty: only requests that may not create files get it.
    """

    @property
    def is_outdated(self) -> bool:
        """Whether the tenant was without files and has some now."""
        return self.blank is not None and self.blank.exists()

    @property
    def store(self) -> Store:
        """The store of the runtime."""
        store = self.runtime.core.ports.store
        assert store is not None, "it was opened on one"
        return store

    @property
    def deliveries(self) -> Deliveries:
        """Pending deliveries to endpoints and channels."""
        return Deliveries(self.store, self.runtime.core.ports.machine.clock)

    @property
    def is_busy(self) -> bool:
        """Whether requests or background work use it."""
        return bool(self.users or self.insight.working)

    def release(self) -> None:
        """End one use of it; see `Tenants.take`."""
        self.users -= 1

    def new_id(self) -> str:
        """Return a new unique id."""
        return self.runtime.core.ports.machine.new_id()

    async def is_parked(self) -> bool:
        """Whether no run is active and none will start or wake up by itself."""
        if await self.store.next_document_ms(SCHEDULE) is not None:
            return False
        if self.outbox is not None and not await self.outbox.is_idle():
            return False
        if self.push is not None and not await self.push.is_idle():
            return False
        if not await self.store.open_runs():
            return True
        if await self.store.next_wake_ms() is not None:
            return False
        runs = self.runtime.sessions.runs
        return not any([(await runs(status=status, limit=1)).items for status in _MOVING])

    async def aclose(self) -> None:
        """Close it; open runs continue when it is opened again."""
        if self.blank is not None:
            # Its streams end, and their clients reconnect. The runtime has no engine, and shares its ports.
            bus = self.runtime.core.ports.bus
            assert bus is not None, "it was made with one"
            bus.end(_unavailable("the tenant was opened: reconnect"))
            return
        await self.runtime.drain()
        if self.outbox is not None:
            await self.outbox.aclose()
        if self.push is not None:
            await self.push.aclose()
        if self.exported is not None:
            await self.exported.aclose()
        await self.insight.aclose()
        await self.runtime.aclose()


class Tenants:
    """The tenants of a server, each opened at its first request.

    All tenants share the agents and the options of `AgentRuntime.open`.
    """

    def __init__(
        self,
        folder: Path,
        agents: Iterable[AnyAgent],
        *,
        durability: Durability = "power",
        open_max: int = TENANTS_OPEN_MAX,
        capture_content: bool = False,
        address: str = "",
        webhooks: Iterable[Webhook] = (),
        endpoints: Iterable[Endpoint] = (),
        **options: Unpack[RuntimeOptions],
    ) -> None:
        self.folder = folder
        self.address = address
        """The PostgreSQL database with a schema for each tenant; empty if each has a file in the folder."""
        self.webhooks = Webhooks(webhooks)
        """The entry points for signed requests, of all tenants."""
        self._endpoints = check_items(endpoints, Endpoint, what="endpoints", words="Endpoints")
        targets = targets_of(self._endpoints, tuple(self.webhooks))
        self.agents: Mapping[str, AnyAgent] = {agent.agent_id: agent for agent in agents}
        self.durability: Durability = durability
        self._open_max = open_max
        self._capture_content = capture_content
        """Whether the OpenTelemetry export has messages, arguments and results."""
        # No record may hold what signs a request, even if a message quotes it.
        self._options: RuntimeOptions = {
            **options,
            "secrets": (
                *options.get("secrets", ()),
                *self.webhooks.secrets,
                *(secret for target in targets for secret in getattr(target, "secrets", ())),
            ),
        }
        self._open: OrderedDict[str, Tenant] = OrderedDict()
        self._opening = asyncio.Lock()
        self.is_draining = False
        """Whether no run is driven any more."""
        self._broken: set[str] = set()
        """Tenants that cannot be opened and are in the log."""
        self.push_rules: PushRules | None = None
        """How push notifications are sent; None if the server does not offer them."""
        self.unready: Mapping[str, str] = {}
        """Why agents cannot run yet, by agent: keys, SDKs or addresses of providers that are missing."""

    async def check(self, expected: Iterable[str] = ()) -> None:
        """Check agents and stores before the server starts.

        `expected` are tenants that are known to be used.

        Raises:
            Rejected: a file of an expected tenant cannot be opened, or an agent has an unknown provider.
        """
        ports = self._in_memory().core.ports
        self.unready = _check_models(ports)
        _check_deps(ports, self.agents.values())
        for webhook in self.webhooks:
            if webhook.agent not in self.agents:
                names = ", ".join(self.agents)
                raise settings_error(
                    f"webhook {webhook.name}: unknown agent {webhook.agent}; known are {names}"
                )
        if self.folder.exists() and not self.folder.is_dir():
            raise settings_error(f"{self.folder} is no folder: a server needs a folder for its stores")
        if self.folder.is_dir() and not may_make_files(self.folder):
            raise settings_error(
                f"the folder {self.folder} may not be written to by this process, and the stores are in it: "
                "change the permissions of the folder, or choose another"
            )
        if self.address:
            await postgres_schemas(self.address)
            wakes = self._options.get("wakes")
            if isinstance(wakes, str):
                # Only the address is checked: without Temporal a server still takes messages.
                wakes_at(wakes, "")
        for name in expected:
            path = self._path(name)
            if path.exists():
                await (await open_store(path, durability=self.durability)).aclose()

    async def start(self) -> None:
        """Open every tenant with open runs, even above the limit.

        A tenant that cannot be opened is skipped and logged.
        """
        make_folder(self.folder, parents=True)
        for location in await self._locations():
            try:
                name = await self._name_if_due(location, is_start=True)
                if name is not None:
                    self._open[name] = await self._make(name)
            except Exception as error:  # noqa: BLE001 - one broken tenant must not stop the others
                self._log_failure(location, error)
        if len(self._open) > self._open_max:
            count, limit = len(self._open), self._open_max
            _LOG.warning("%d tenants have open runs, more than the limit of %d", count, limit)

    async def _locations(self) -> list[str | Path]:
        """Return the stores of all tenants."""
        if self.address:
            return [with_schema(self.address, schema) for schema in await postgres_schemas(self.address)]
        # Other files are not stores of a server.
        return [path for path in sorted(self.folder.glob("*.db")) if path.with_suffix(NAME_SUFFIX).exists()]

    async def drain(self) -> None:
        """Drive no more runs; tool calls under way may end, see `AgentRuntime.drain`."""
        self.is_draining = True
        # A tenant that is being opened now may drive.
        async with self._opening:
            runtimes = [tenant.runtime for tenant in self._open.values()]
        await asyncio.gather(*(runtime.drain() for runtime in runtimes))

    def end_drain(self) -> None:
        """Let the drain wait no longer."""
        for tenant in self._open.values():
            tenant.runtime.core.end_drain()

    async def aclose(self) -> None:
        """Close all tenants."""
        async with self._opening:
            tenants = tuple(self._open.values())
            self._open.clear()
            # Side by side: each gives its tools seconds to end.
            await asyncio.gather(*(tenant.aclose() for tenant in tenants))

    @property
    def write_problem(self) -> str | None:
        """Why a store cannot write now; None if all that are open can."""
        for tenant in self._open.values():
            store = tenant.store
            if isinstance(store, WatchedStore) and store.write_problem is not None:
                return store.write_problem
        return None

    @property
    def runtimes(self) -> tuple[AgentRuntime, ...]:
        """The runtimes of the open tenants."""
        return tuple(tenant.runtime for tenant in self._open.values() if tenant.blank is None)

    @property
    def open_count(self) -> int:
        """The number of open tenants."""
        return len(self._open)

    async def take(self, name: str, *, may_create: bool = True) -> Tenant:
        """Hold a tenant open until its `release`.

        Without `may_create`, a tenant that has no files is empty, in memory, and stays without files.

        Raises:
            Unavailable: too many tenants are busy, or the store cannot be opened.
        """
        tenant = await self._ensure(name, may_create=may_create)
        tenant.users += 1
        return tenant

    @asynccontextmanager
    async def use(self, name: str) -> AsyncGenerator[Tenant]:
        """Hold a tenant open; see `take`."""
        tenant = await self.take(name)
        try:
            yield tenant
        finally:
            tenant.release()

    async def _ensure(self, name: str, *, may_create: bool) -> Tenant:
        tenant = self._open.get(name)
        if tenant is None or not _serves(tenant, may_create=may_create):
            async with self._opening:
                tenant = self._open.get(name)
                if tenant is None or not _serves(tenant, may_create=may_create):
                    tenant = await self._open_tenant(name, before=tenant, may_create=may_create)
        self._open.move_to_end(name)
        return tenant

    async def _open_tenant(self, name: str, *, before: Tenant | None, may_create: bool) -> Tenant:
        """Open a tenant; `before` is the empty one that it replaces."""
        if before is None:
            await self._make_room()
        if not may_create and not self.address and not self._path(name).exists():
            tenant = self._blank(name)
        else:
            tenant = await self._try_to_make(name)
        self._open[name] = tenant
        if before is not None:
            await before.aclose()
        return tenant

    def _blank(self, name: str) -> Tenant:
        return self._tenant(name, self._in_memory(), blank=self._path(name))

    def _tenant(
        self,
        name: str,
        runtime: AgentRuntime,
        *,
        exported: telemetry.TelemetryExport | None = None,
        outbox: Outbox | None = None,
        push: Push | None = None,
        blank: Path | None = None,
    ) -> Tenant:
        store = runtime.core.ports.store
        assert store is not None, "it was opened on one"
        reservations = Reservations(store, runtime.core.ports.machine.clock)
        insight, agent_ids = Insight(runtime), tuple(self.agents)
        backlog = Backlog(store, runtime.core.ports.machine.clock)
        return Tenant(
            name, runtime, reservations, backlog, insight, agent_ids, exported, outbox, push, blank=blank
        )

    def _in_memory(self) -> AgentRuntime:
        """Return a runtime with the agents and options, on a store that no other process can drive."""
        options = self._options.copy()
        options.pop("wakes", None)
        return AgentRuntime.in_memory(self.agents.values(), **options)

    def _path(self, name: str) -> Path:
        return self.folder / f"{file_name(name)}.db"

    def _location(self, name: str) -> str | Path:
        """Return the store of a tenant."""
        return with_schema(self.address, schema_name(name)) if self.address else self._path(name)

    def _log_failure(self, location: str | Path, error: Exception) -> None:
        """Log once why a tenant cannot be opened."""
        store = _log_name(location)
        if store not in self._broken:
            self._broken.add(store)
            _LOG.error("tenant store %s cannot be opened: %s", store, error, exc_info=error)

    async def _name_if_due(self, location: str | Path, *, is_start: bool = False) -> str | None:
        """Return the tenant of a closed store with schedules, or runs that can continue without a request.

        At the start of the process also one with endpoints or channels, or with push notifications that were
        not delivered: records may be there to be delivered.
        """
        store = await open_store(location, durability=self.durability)
        try:
            if isinstance(location, Path):
                name = await asyncio.to_thread(location.with_suffix(NAME_SUFFIX).read_text, encoding="utf-8")
            else:
                name = await _name_in(store)
            if is_start and name is not None and self._targets(name):
                return name
            if is_start and self.push_rules is not None and await is_owing(store):
                return name
            if not self._options.get("is_driving", True):
                return None
            if await store.next_document_ms(SCHEDULE) is not None:
                return name
            if not await store.open_runs():
                return None
            now_ms = int(clock_of(store, SystemClock()).now().timestamp() * 1000)
            is_due = await store.next_wake_ms() is not None or await store.due(now_ms=now_ms, limit=1)
            return name if is_due else None
        finally:
            await store.aclose()

    async def _try_to_make(self, name: str) -> Tenant:
        """Open a tenant.

        Raises:
            Unavailable: it cannot be opened; the reason is in the log only.
        """
        try:
            tenant = await self._make(name)
        except Exception as error:  # noqa: BLE001 - the server boundary: logged
            self._log_failure(self._location(name), error)
        else:
            self._broken.discard(_log_name(self._location(name)))
            return tenant
        raise _unavailable("the store of your tenant cannot be opened; see the log of the server")

    async def _make(self, name: str) -> Tenant:
        path = self._path(name)
        if not self.address:
            await asyncio.to_thread(_keep_name, path.with_suffix(NAME_SUFFIX), name)
        options: RuntimeOptions = {**self._options, "tenant": name}
        if self.is_draining:
            options["is_driving"] = False
        runtime = await AgentRuntime.open(
            self._location(name), agents=self.agents.values(), durability=self.durability, **options
        )
        async with AsyncExitStack() as failed:
            failed.push_async_callback(runtime.aclose)
            if self.address:
                await _keep_name_in(runtime, name)
            exported = await telemetry.export_from_environment(
                runtime, capture_content=self._capture_content
            ).__aenter__()
            if exported is not None:
                failed.push_async_callback(exported.aclose)
            targets = self._targets(name)
            outbox = await Outbox(runtime, targets).__aenter__() if targets else None
            if outbox is not None:
                failed.push_async_callback(outbox.aclose)
            store, rules = runtime.core.ports.store, self.push_rules
            push = (
                await Push(runtime, store, rules).open() if store is not None and rules is not None else None
            )
            failed.pop_all()
        return self._tenant(name, runtime, exported=exported, outbox=outbox, push=push)

    def _targets(self, tenant: str) -> tuple[DeliveryTarget, ...]:
        """Return the endpoints and channels of a tenant."""
        return targets_of(
            tuple(endpoint for endpoint in self._endpoints if endpoint.tenant == tenant),
            tuple(webhook for webhook in self.webhooks if webhook.tenant == tenant),
        )

    async def _make_room(self) -> None:
        """Close the least recently used tenants above the limit.

        Runs in them may wait for people: an answer opens the tenant again.
        """
        for name, tenant in tuple(self._open.items()):  # the dictionary changes during the awaits
            if len(self._open) < self._open_max:
                return
            if not tenant.is_busy and await tenant.is_parked() and not tenant.is_busy:
                await self._park(name)
        if len(self._open) >= self._open_max:
            raise _unavailable(f"too many busy tenants, limit {self._open_max:,}: retry later")

    async def _park(self, name: str) -> None:
        """Close a tenant; open it again if a run became active meanwhile."""
        tenant = self._open.pop(name)
        await tenant.aclose()
        if tenant.blank is not None:
            return
        location = self._location(name)
        try:
            due = await self._name_if_due(location)
        except Exception as error:  # noqa: BLE001 - the server boundary: logged
            self._log_failure(location, error)
            return
        if due is not None:
            self._open[name] = await self._try_to_make(name)


def _serves(tenant: Tenant, *, may_create: bool) -> bool:
    """Whether an open tenant can serve a request: one without files serves those that may create none."""
    return tenant.blank is None or not (may_create or tenant.is_outdated)


def _check_models(ports: RuntimePorts) -> dict[str, str]:
    """Refuse agents with an unknown model provider; log and return those with one that cannot be used."""
    unready: dict[str, str] = {}
    routes: tuple[str, ...] | None = getattr(ports.provider_source, "routes", None)
    known_routes = [*ports.providers, *(routes or ())]
    for agent_id in ports.registry.agent_ids:
        registered = ports.registry.agent(agent_id)
        if routes is None or registered is None or registered.provider is not None:
            continue
        route_id = registered.package.provider_route.route_id
        if route_id not in known_routes:
            raise settings_error(
                f"agent {agent_id}: {missing_provider(route_id, known=known_routes).message}"
            )
        try:
            provider_of(ports, registered.package)
        except Unavailable as error:
            _LOG.warning("agent %s cannot run yet: %s", agent_id, error.message)
            unready[agent_id] = error.message
    return unready


def _check_deps(ports: RuntimePorts, agents: Iterable[AnyAgent]) -> None:
    """Refuse agents without a factory for the dependencies that they or their subagents need."""
    for agent in agents:
        missing = ports.deps.missing(agent, is_given=False)
        if missing is not None:
            raise settings_error(
                f"agent {missing} needs dependencies; give it a factory: Agent(…, deps=factory)"
            )


def _unavailable(message: str) -> Unavailable:
    return Unavailable(
        message,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.RETRYABLE,
        retry_after_ms=RETRY_MS,
    )


def _keep_name(path: Path, name: str) -> None:
    """Store the name of a tenant: its file name may be a digest."""
    if not path.exists():
        # Atomically: half a name could be that of another tenant.
        new = path.with_suffix(f"{NAME_SUFFIX}-new")
        write_private(new, name.encode())
        new.replace(path)


def _log_name(location: str | Path) -> str:
    """Return the name of a store for the log: an address may have a password in it."""
    return location.name if isinstance(location, Path) else location.rpartition("schema=")[2]


async def _name_in(store: Store) -> str | None:
    """Return the tenant of a schema; None if no server made it."""
    document = await store.document(TENANT, TENANT)
    return None if document is None else str(document.body.get("name"))


async def tenant_at(address: str) -> str | None:
    """Return the tenant of a store in PostgreSQL; None if no server made it.

    Raises:
        Rejected: the store is of another release, or a copy that has not ended.
        Corrupt: the store is damaged.
        Unavailable: the database cannot be reached.
    """
    store = await open_store(address)
    try:
        return await _name_in(store)
    finally:
        await store.aclose()


async def _keep_name_in(runtime: AgentRuntime, name: str) -> None:
    """Store the name of a tenant in its schema: the name of the schema may be a digest."""
    store = runtime.core.ports.store
    assert store is not None, "it was opened on one"
    if await store.document(TENANT, TENANT) is None:
        # Another process that opens the tenant for the first time may be quicker.
        with suppress(Conflict):
            await store.put_document(Document(TENANT, TENANT, revision=1, body={"name": name}))


def schema_name(tenant: str) -> str:
    """Return the schema of a tenant in PostgreSQL; it is unique."""
    if tenant == LOCAL:
        return "windlass"
    if _PLAIN_SCHEMA.fullmatch(tenant):
        return f"windlass_t_{tenant}"
    return f"windlass_d_{sha256(tenant.encode()).hexdigest()[:48]}"


def file_name(tenant: str) -> str:
    """Return the file name of a tenant; it is unique."""
    if _PLAIN.fullmatch(tenant):
        return tenant
    return f"~{sha256(tenant.encode()).hexdigest()}"
