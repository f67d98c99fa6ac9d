"""Tenants: each has a store of its own, so nothing can cross from one to another."""

import asyncio
import logging
import re
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Unpack

from windlass import Agent, AgentRuntime, Unavailable, telemetry
from windlass.parts import SqliteStore, Store, SystemClock
from windlass.refusals import missing_provider
from windlass.runtime.compose import Durability, RuntimeOptions
from windlass.runtime.registry import RuntimePorts
from windlass_protocol import ErrorKind, RetryClass, RunStatus
from windlass_server.insight import Insight
from windlass_server.limits import RETRY_MS, TENANTS_OPEN_MAX
from windlass_server.reservations import Reservations
from windlass_server.settings import refused

NAME_SUFFIX: Final = ".tenant"
EMPTY_SUFFIX: Final = ".empty"
_LOG: Final = logging.getLogger("windlass.server")
_MOVING: Final = (RunStatus.RUNNING, RunStatus.CANCELLING)
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

    async def is_parked(self) -> bool:
        """Whether nothing goes on in it, and nothing will before somebody asks for it."""
        if not await self.store.unfinished():
            return True
        if await self.store.next_wake_ms() is not None:
            return False
        runs = self.runtime.sessions.runs
        return not any([(await runs(status=status, limit=1)).items for status in _MOVING])

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
        self._broken: set[str] = set()
        """Tenants of which the log says why they cannot be opened."""

    async def check(self, expected: Iterable[str] = ()) -> None:
        """See before anything is served that it can be.

        `expected` are tenants that will come.

        Raises:
            Rejected: a file of an expected tenant is none, or nobody provides the model of an agent.
        """
        _check_models(AgentRuntime.in_memory(self.agents.values(), **self._options).ports)
        if self._folder.exists() and not self._folder.is_dir():
            raise refused(f"{self._folder} is no folder: the stores of a server are kept in one")
        for name in expected:
            path = self._path(name)
            if path.exists():
                await (await SqliteStore.open(path, durability=self._durability)).aclose()
            empty = path.with_suffix(EMPTY_SUFFIX)
            if empty.exists():
                await _check_empty(empty)

    async def start(self) -> None:
        """Open every tenant that has runs to go on with, also above the limit.

        One that cannot be opened is left out, and the log says why.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.db")):
            name_file = path.with_suffix(NAME_SUFFIX)
            if not name_file.exists():
                continue  # the store of something else
            try:
                if await self._is_due(path):
                    name = name_file.read_text(encoding="utf-8")
                    self._open[name] = await self._make(name)
            except Exception as error:  # noqa: BLE001 - what is wrong with one tenant is not the others' fault
                self._tell(path.stem, error)
        if len(self._open) > self._open_max:
            count, limit = len(self._open), self._open_max
            _LOG.warning("%d tenants have runs to go on with, more than the limit of %d", count, limit)

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
                    tenant = self._open[name] = await self._try_to_make(name)
        self._open.move_to_end(name)
        return tenant

    def _path(self, name: str) -> Path:
        return self._folder / f"{file_name(name)}.db"

    def _tell(self, stem: str, error: Exception) -> None:
        """Log once why a tenant cannot be opened."""
        if stem not in self._broken:
            self._broken.add(stem)
            _LOG.error("the tenant of %s.db cannot be opened: %s", stem, error, exc_info=error)

    async def _is_due(self, path: Path) -> bool:
        """Whether a store that is not open has something to go on with, ever."""
        store = await SqliteStore.open(path, durability=self._durability)
        try:
            if not await store.unfinished():
                return False
            now_ms = int(SystemClock().now().timestamp() * 1000)
            return bool(await store.next_wake_ms() is not None or await store.due(now_ms=now_ms, limit=1))
        finally:
            await store.aclose()

    async def _try_to_make(self, name: str) -> Tenant:
        """Open a tenant.

        Raises:
            Unavailable: it cannot be; what is wrong with its files is nothing for a client.
        """
        path = self._path(name)
        try:
            tenant = await self._make(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the log has it
            self._tell(path.stem, error)
        else:
            self._broken.discard(path.stem)
            return tenant
        raise _unavailable("what the server keeps for you cannot be read now; its log says why")

    async def _make(self, name: str) -> Tenant:
        path = self._path(name)
        await asyncio.to_thread(_keep_name, path.with_suffix(NAME_SUFFIX), name)
        runtime = await AgentRuntime.open(
            path, agents=self.agents.values(), durability=self._durability, **self._options
        )
        async with AsyncExitStack() as failed:
            failed.push_async_callback(runtime.aclose)
            reservations = await Reservations.open(path.with_suffix(EMPTY_SUFFIX))
            failed.push_async_callback(reservations.aclose)
            state = path.with_suffix(telemetry.STATE_SUFFIX)
            exported = await telemetry.export_from_environment(runtime, state_path=state).__aenter__()
            failed.pop_all()
        return Tenant(name, runtime, reservations, Insight(runtime), tuple(self.agents), exported)

    async def _make_room(self) -> None:
        """Close the tenants that were used longest ago, if there are too many.

        Runs in them may wait for people: whoever answers opens the tenant again.
        """
        for name, tenant in tuple(self._open.items()):  # others come and go while we look
            if len(self._open) < self._open_max:
                return
            if not tenant.is_busy and await tenant.is_parked() and not tenant.is_busy:
                await self._park(name)
        if len(self._open) >= self._open_max:
            raise _unavailable(f"{self._open_max:,} tenants are busy, which is the limit")

    async def _park(self, name: str) -> None:
        """Close a tenant; open it again if something went on while we looked."""
        await self._open.pop(name).aclose()
        path = self._path(name)
        try:
            is_due = await self._is_due(path)
        except Exception as error:  # noqa: BLE001 - whatever it is, the log has it
            self._tell(path.stem, error)
            return
        if is_due:
            self._open[name] = await self._try_to_make(name)


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


async def _check_empty(path: Path) -> None:
    """Refuse a file of sessions without a word that is none."""
    try:
        await (await Reservations.open(path)).aclose()
        return
    except sqlite3.Error as error:
        problem = str(error)
    raise refused(f"{path} cannot be used: {problem}; put the right one back, or take it away")


def _unavailable(message: str) -> Unavailable:
    return Unavailable(
        message,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.RETRYABLE,
        retry_after_ms=RETRY_MS,
    )


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
