"""The seam between core and rooms: what the runtime takes from a room, by name.

Core imports no room. A room is imported here when a program first needs it; an installation without it, or
without the extra that it needs, gets an error that says what to install.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from windlass.engine.binding import Binding
from windlass.errors import install_hint
from windlass.ports.interpreter import Interpreter
from windlass.ports.model import LLMProvider, ProviderSource
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore, Store
from windlass.ports.wakes import Wakes
from windlass.refusals import bad_setup
from windlass.runtime.registry import RuntimePorts
from windlass_harness.views.runs import RunState

ROOMS: Final = {
    "code_mode": "windlass.code_mode.monty:MontyInterpreter",
    "models": "windlass.models.routes:providers_from_environment",
    "playground": "windlass.playground:rehearse",
    "postgres": "windlass.postgres.maintenance:open_postgres",
    "sandboxes": "windlass.sandboxes.choice:default_sandboxes",
    "temporal": "windlass.temporal:wakes_at",
}
"""What core takes from each room: `module:name`."""
EXTRAS: Final = {"code_mode": "code", "models": "openai", "postgres": "postgres", "temporal": "temporal"}
"""The extra of a room that needs one."""


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


class _OpenStore(Protocol):
    async def __call__(self, address: str) -> OpenedStore: ...


class _Sandboxes(Protocol):
    def __call__(self, root: Path | None) -> Mapping[str, SandboxAdapter]: ...


class _WakesAt(Protocol):
    def __call__(self, address: str, store_id: str | None, *, tenant: str | None) -> Wakes: ...


def enter(room: str) -> object:
    """Import a room and return what core takes from it.

    Raises:
        Rejected: the room is not part of this installation, or its extra is not installed.
    """
    module, _, name = ROOMS[room].partition(":")
    try:
        return cast(object, getattr(import_module(module), name))
    except ModuleNotFoundError as error:
        missing = error.name
    hint = f": {install_hint(EXTRAS[room])}" if room in EXTRAS else "; this installation is not whole"
    raise bad_setup(f"windlass.{room} cannot be used here, because {missing} is not installed{hint}")


def interpreter() -> Interpreter:
    """Return the default interpreter of programs."""
    return cast(_Interpreters, enter("code_mode"))()


def sandboxes(root: Path | None) -> Mapping[str, SandboxAdapter]:
    """Return the default adapters of sandboxes by name; `root` is the folder of their files."""
    return cast(_Sandboxes, enter("sandboxes"))(root)


def wakes(address: str, store_id: str | None, *, tenant: str | None) -> Wakes:
    """Return the wakes of an engine at an address."""
    return cast(_WakesAt, enter("temporal"))(address, store_id, tenant=tenant)


async def open_postgres(address: str) -> OpenedStore:
    """Open a store in PostgreSQL."""
    return await cast(_OpenStore, enter("postgres"))(address)


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
