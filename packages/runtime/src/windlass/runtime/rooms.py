"""The seam between core and rooms: what the runtime takes from a room, by name.

Core imports no room. A room is imported here when a program first needs it; an installation without it, or
without the extra that it needs, gets an error that says what to install.
"""

from collections.abc import Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from windlass.engine.binding import Binding
from windlass.engine.effect_context import MakePrograms
from windlass.errors import install_hint
from windlass.ports.catalog import RunRow
from windlass.ports.clock import Clock
from windlass.ports.interpreter import Interpreter
from windlass.ports.model import LLMProvider, ProviderSource
from windlass.ports.sandbox import MakeSessionSandbox, SandboxAdapter
from windlass.ports.store import ContentStore, Store
from windlass.ports.wakes import Wakes
from windlass.refusals import bad_setup
from windlass.runtime.registry import RuntimePorts
from windlass_harness.views.runs import RunState
from windlass_protocol import DecisionRun

if TYPE_CHECKING:
    from windlass.catalog.runtime_sessions import RuntimeSessions
    from windlass.runtime.core import Core
    from windlass.schedules import Schedules

ROOMS: Final = {
    "catalog": "windlass.catalog.runtime_sessions:RuntimeSessions",
    "decisions": "windlass.ledger.decisions:Decisions",
    "interpreter": "windlass.code_mode.monty:MontyInterpreter",
    "models": "windlass.models.routes:providers_from_environment",
    "playground": "windlass.playground:rehearse",
    "postgres": "windlass.postgres.maintenance:open_postgres",
    "programs": "windlass.code_mode.programs:Programs",
    "retention": "windlass.catalog.sessions:retain",
    "sandboxes": "windlass.sandboxes.choice:default_sandboxes",
    "schedules": "windlass.schedules:schedules_of",
    "session_sandboxes": "windlass.sandboxes.session:SessionFolder",
    "sqlite": "windlass.sqlite.store:open_sqlite",
    "temporal": "windlass.temporal:wakes_at",
}
"""What core takes from rooms, by name: `module:name`."""
EXTRAS: Final = {"interpreter": "code", "models": "openai", "postgres": "postgres", "temporal": "temporal"}
"""The extras that some of it needs."""
Durability = Literal["power", "process"]


class WholeStore(Store, ContentStore, Protocol):
    """A store with its content."""


class OpenedStore(WholeStore, Protocol):
    """A store that was opened by its address."""

    @property
    def name(self) -> str:
        """Its address without a password, for messages."""
        ...


class _Interpreters(Protocol):
    def __call__(self) -> Interpreter: ...


class _Providers(Protocol):
    def __call__(self) -> ProviderSource: ...


class _Rehearse(Protocol):
    async def __call__(self, binding: Binding, run: RunState, ports: RuntimePorts) -> Binding: ...


class _OpenPostgres(Protocol):
    async def __call__(self, address: str) -> OpenedStore: ...


class _OpenSqlite(Protocol):
    async def __call__(self, path: str | Path, *, durability: Durability) -> OpenedStore: ...


class _Retain(Protocol):
    def __call__(
        self, sessions: "RuntimeSessions", store: Store, clock: Clock, *, days: int
    ) -> Coroutine[object, object, None]: ...


class RunDecisions(Protocol):
    """Reads the decisions of runs."""

    async def of_run(self, row: RunRow, *, after: int, limit: int | None) -> DecisionRun:
        """Return the decisions of a run; see `RunHandle.decisions`."""
        ...


class _OfCore(Protocol):
    def __call__(self, core: "Core") -> object: ...


class _Sandboxes(Protocol):
    def __call__(self, root: Path | None) -> Mapping[str, SandboxAdapter]: ...


class _WakesAt(Protocol):
    def __call__(self, address: str, store_id: str | None, *, tenant: str | None) -> Wakes: ...


def enter(name: str) -> object:
    """Import a room and return what core takes from it by this name.

    Raises:
        Rejected: the room is not part of this installation, or its extra is not installed.
    """
    module, _, attribute = ROOMS[name].partition(":")
    try:
        return cast(object, getattr(import_module(module), attribute))
    except ModuleNotFoundError as error:
        missing = error.name
    room = ".".join(module.split(".")[:2])
    hint = f": {install_hint(EXTRAS[name])}" if name in EXTRAS else "; this installation is not whole"
    raise bad_setup(f"{room} cannot be used here, because {missing} is not installed{hint}")


def interpreter() -> Interpreter:
    """Return the default interpreter of programs."""
    return cast(_Interpreters, enter("interpreter"))()


def programs() -> MakePrograms:
    """Return what makes the runner of programs."""
    return cast(MakePrograms, enter("programs"))


def sandboxes(root: Path | None) -> Mapping[str, SandboxAdapter]:
    """Return the default adapters of sandboxes by name; `root` is the folder of their files."""
    return cast(_Sandboxes, enter("sandboxes"))(root)


def session_sandboxes() -> MakeSessionSandbox:
    """Return what makes the sandboxes of sessions."""
    return cast(MakeSessionSandbox, enter("session_sandboxes"))


def wakes(address: str, store_id: str | None, *, tenant: str | None) -> Wakes:
    """Return the wakes of an engine at an address."""
    return cast(_WakesAt, enter("temporal"))(address, store_id, tenant=tenant)


async def open_postgres(address: str) -> OpenedStore:
    """Open a store in PostgreSQL."""
    return await cast(_OpenPostgres, enter("postgres"))(address)


async def open_sqlite(path: str | Path, *, durability: Durability) -> OpenedStore:
    """Open a store in a file."""
    return await cast(_OpenSqlite, enter("sqlite"))(path, durability=durability)


def sessions(core: "Core") -> "RuntimeSessions":
    """Return the sessions of a runtime."""
    return cast("RuntimeSessions", cast(_OfCore, enter("catalog"))(core))


def decisions(core: "Core") -> RunDecisions:
    """Return what reads the decisions of runs."""
    return cast(RunDecisions, cast(_OfCore, enter("decisions"))(core))


def retain(core: "Core", *, days: int) -> Coroutine[object, object, None]:
    """Delete sessions of a runtime that ended more than some days ago, for ever."""
    return cast(_Retain, enter("retention"))(sessions(core), core.store, core.ports.machine.clock, days=days)


def schedules(core: "Core") -> "Schedules":
    """Return the schedules of a runtime."""
    return cast("Schedules", cast(_OfCore, enter("schedules"))(core))


async def rehearse(binding: Binding, run: RunState, ports: RuntimePorts) -> Binding:
    """Return the binding of a playground run: it answers calls from the record."""
    return await cast(_Rehearse, enter("playground"))(binding, run, ports)


class RoomProviders:
    """Providers of models that agents name by a string, from environment variables.

    The room is entered by the first such agent: a runtime whose agents have models of their own needs none.
    """

    def __init__(self) -> None:
        self._source: ProviderSource | None = None

    @property
    def routes(self) -> tuple[str, ...]:
        """The known routes."""
        return tuple(cast("tuple[str, ...]", getattr(self._enter(), "routes", ())))

    def provider(self, route_id: str, model_id: str) -> LLMProvider | None:
        """Return the provider of a route; see `ProviderSource`."""
        return self._enter().provider(route_id, model_id)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._source is not None:
            await self._source.aclose()

    def _enter(self) -> ProviderSource:
        if self._source is None:
            self._source = cast(_Providers, enter("models"))()
        return self._source
