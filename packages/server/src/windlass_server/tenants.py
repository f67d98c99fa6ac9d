"""Tenants: each has a store of its own, so nothing can cross from one to another."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Unpack

from windlass import Agent, AgentRuntime, Unavailable, telemetry
from windlass.compose import Durability
from windlass.options import RuntimeOptions
from windlass.parts import SqliteStore, Store
from windlass.refusals import missing_provider
from windlass.runtime_ports import RuntimePorts
from windlass_protocol import ErrorKind, RetryClass
from windlass_server.insight import Insight
from windlass_server.limits import RETRY_MS, TENANTS_OPEN_MAX
from windlass_server.reservations import Reservations
from windlass_server.settings import refused

NAME_SUFFIX: Final = ".tenant"
_SQLITE: Final = b"SQLite format 3\0"
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(slots=True)
class Tenant:
    """An open store, the runtime over it, and sessions without a first word."""

    name: str
    runtime: AgentRuntime
    reservations: Reservations
    insight: Insight
    agent_ids: tuple[str, ...]
    """The agents that runs can be started with; their subagents are theirs alone."""
    exported: telemetry.TelemetryExport | None = None
    """Who tells a collector what happens; None if the environment names none."""
    users: int = 0
    """Requests that use it now."""

    @property
    def store(self) -> Store:
        """What the runtime keeps everything in."""
        store = self.runtime.ports.store
        assert store is not None, "it was opened on one"
        return store

    @property
    def is_busy(self) -> bool:
        """Whether somebody uses it now."""
        return bool(self.users or self.insight.working)

    def new_id(self) -> str:
        """Return an id that nobody else has."""
        return self.runtime.ports.machine.new_id()

    async def aclose(self) -> None:
        """Let go of it; runs that are not done go on when it is opened again."""
        if self.exported is not None:
            await self.exported.aclose()
        await self.insight.aclose()
        await self.runtime.aclose()
        await self.reservations.aclose()


class Tenants:
    """The tenants of a server, each opened when it is first needed.

    Takes the agents, which all tenants share, and the options of `AgentRuntime.open`.
    """

    def __init__(
        self,
        folder: Path,
        agents: Iterable[Agent],
        *,
        durability: Durability = "power",
        open_max: int = TENANTS_OPEN_MAX,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        self._folder = folder
        self.agents: Mapping[str, Agent] = {agent.agent_id: agent for agent in agents}
        self._durability: Durability = durability
        self._open_max = open_max
        self._options = options
        self._open: OrderedDict[str, Tenant] = OrderedDict()
        self._opening = asyncio.Lock()

    async def check(self, expected: Iterable[str] = ()) -> None:
        """See before anything is served that it can be; `expected` are tenants that will come.

        Raises:
            Rejected: a store is none, or nobody provides the model of an agent.
        """
        _check_models(AgentRuntime.in_memory(self.agents.values(), **self._options).ports)
        await asyncio.to_thread(_check_folder, self._folder)
        for name in expected:
            path = self._folder / f"{file_name(name)}.db"
            if path.exists():
                await (await SqliteStore.open(path, durability=self._durability)).aclose()

    async def start(self) -> None:
        """Open every tenant that has runs which have not ended."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.db")):
            name_file = path.with_suffix(NAME_SUFFIX)
            if not name_file.exists():
                continue  # the store of something else
            store = await SqliteStore.open(path, durability=self._durability)
            try:
                unfinished = await store.unfinished()
            finally:
                await store.aclose()
            if unfinished:
                await self._ensure(name_file.read_text(encoding="utf-8"))

    async def aclose(self) -> None:
        """Let go of all tenants."""
        async with self._opening:
            while self._open:
                _, tenant = self._open.popitem()
                await tenant.aclose()

    @property
    def open_count(self) -> int:
        """How many tenants are open."""
        return len(self._open)

    @asynccontextmanager
    async def use(self, name: str) -> AsyncGenerator[Tenant]:
        """Keep a tenant open for as long as a request lasts.

        Raises:
            Unavailable: too many are open, or its store cannot be opened now.
        """
        tenant = await self._ensure(name)
        tenant.users += 1
        try:
            yield tenant
        finally:
            tenant.users -= 1

    async def _ensure(self, name: str) -> Tenant:
        tenant = self._open.get(name)
        if tenant is None:
            async with self._opening:
                tenant = self._open.get(name)
                if tenant is None:
                    await self._make_room()
                    tenant = self._open[name] = await self._make(name)
        self._open.move_to_end(name)
        return tenant

    async def _make(self, name: str) -> Tenant:
        path = self._folder / f"{file_name(name)}.db"
        await asyncio.to_thread(_keep_name, path.with_suffix(NAME_SUFFIX), name)
        runtime = await AgentRuntime.open(
            path, agents=self.agents.values(), durability=self._durability, **self._options
        )
        async with AsyncExitStack() as failed:
            failed.push_async_callback(runtime.aclose)
            reservations = await Reservations.open(path.with_suffix(".empty"))
            failed.push_async_callback(reservations.aclose)
            state = path.with_suffix(telemetry.STATE_SUFFIX)
            exported = await telemetry.export_from_environment(runtime, state_path=state).__aenter__()
            failed.pop_all()
        return Tenant(name, runtime, reservations, Insight(runtime), tuple(self.agents), exported)

    async def _make_room(self) -> None:
        """Close the tenant that was used longest ago, if there are too many."""
        if len(self._open) < self._open_max:
            return
        for name, tenant in tuple(self._open.items()):  # others come and go while we look
            if not tenant.is_busy and not await tenant.store.unfinished() and not tenant.is_busy:
                del self._open[name]
                await tenant.aclose()
                return
        raise Unavailable(
            f"{self._open_max:,} tenants are busy, which is the limit",
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.RETRYABLE,
            retry_after_ms=RETRY_MS,
        )


def _check_models(ports: RuntimePorts) -> None:
    """Refuse agents whose model nobody provides; a key that is missing may come later."""
    routes: tuple[str, ...] | None = getattr(ports.provider_source, "routes", None)
    known = [*ports.providers, *(routes or ())]
    for agent_id in ports.registry.agent_ids:
        registered = ports.registry.agent(agent_id)
        if routes is None or registered is None or registered.provider is not None:
            continue
        route_id = registered.package.provider_route.route_id
        if route_id not in known:
            raise refused(f"agent {agent_id}: {missing_provider(route_id, known=known).message}")


def _check_folder(folder: Path) -> None:
    """Refuse a folder with stores that are none."""
    if folder.exists() and not folder.is_dir():
        raise refused(f"{folder} is no folder: the stores of a server are kept in one")
    for path in sorted(folder.glob("*.db")):
        with path.open("rb") as file:
            begin = file.read(len(_SQLITE))
        if path.with_suffix(NAME_SUFFIX).exists() and begin not in (b"", _SQLITE):
            raise refused(f"{path} is no database: put the right one back, or take it away")


def _keep_name(path: Path, name: str) -> None:
    """Write down what a tenant is called: the name of its file may be a digest."""
    if not path.exists():
        # All of it or nothing: half a name would be that of another tenant.
        new = path.with_suffix(f"{NAME_SUFFIX}-new")
        new.write_text(name, encoding="utf-8")
        new.replace(path)


def file_name(tenant: str) -> str:
    """Return what the files of a tenant are called: never the same for two."""
    if _PLAIN.fullmatch(tenant):
        return tenant
    return f"~{sha256(tenant.encode()).hexdigest()}"
