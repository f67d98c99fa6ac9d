"""What a runtime has by default: the clock of the machine, the engine, a store, and rooms that agents need.

All of it is imported when a runtime is made, and not by a program that declares agents.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.loop_watch import RuntimeWatch
from windlass.adapters.system import SystemClock, chance, clock_of, new_id
from windlass.agent.agent import Agent, AnyAgent
from windlass.agent.policy import allow_start
from windlass.feed import Feed
from windlass.ports.machine import Machine
from windlass.refusals import check_items, check_options
from windlass.runtime import rooms
from windlass.runtime.core import Core
from windlass.runtime.generated.builder import AgentRuntimeBuilder
from windlass.runtime.opening import open_store
from windlass.runtime.options import PartOptions, RuntimeOptions
from windlass.runtime.registry import RuntimePorts
from windlass.runtime.rooms import Durability

R = TypeVar("R")


def new_builder(make: Callable[[RuntimePorts], R]) -> AgentRuntimeBuilder[R]:
    """Return a builder with the clock, ids and random numbers of the machine."""
    return AgentRuntimeBuilder(make, Machine(SystemClock(), new_id, chance, RuntimeWatch))


def make_core(ports: RuntimePorts | None) -> Core:
    """Return the inside of a runtime; without ports it refuses everything."""

    def same(ports: RuntimePorts) -> RuntimePorts:
        return ports

    return Core(new_builder(same).build() if ports is None else ports)


def memory_options(agents: Iterable[AnyAgent], options: RuntimeOptions) -> PartOptions:
    """Return the parts of a runtime in memory.

    Raises:
        Rejected: an agent or an option cannot be used.
    """
    check_options(options, RuntimeOptions, what="in_memory")
    return part_options(MemoryStore(), agents, options)


async def open_stored(
    path: str | Path, *, durability: Durability, options: RuntimeOptions
) -> rooms.OpenedStore:
    """Open the store of a runtime with these options.

    Raises:
        Rejected: the address or an option cannot be used.
        Corrupt: the store is damaged.
        Unavailable: it cannot be reached now.
    """
    check_options(options, RuntimeOptions, what="open", beside=("agents", "durability"))
    return await open_store(path, durability=durability)


def part_options(store: rooms.WholeStore, agents: Iterable[AnyAgent], options: RuntimeOptions) -> PartOptions:
    """Return the parts of a runtime on a store: those of its options, and defaults for the others.

    Raises:
        Rejected: an agent cannot be used.
    """
    machine = options.get("machine")
    clock = clock_of(store, machine.clock if isinstance(machine, Machine) else SystemClock())
    agent_list = check_items(agents, Agent, what="agents", words="agents")
    settings: PartOptions = {
        "start_policy": allow_start,
        "is_attended": True,
        **options,
        "clock": clock,
        "journal": store,
        "content": store,
        "event_bus": Feed(store, clock),
        "agents": agent_list,
    }
    if settings.get("provider_source") is None:
        settings["provider_source"] = rooms.RoomProviders()
    wakes = settings.get("wakes")
    if isinstance(wakes, str):
        settings["wakes"] = rooms.wakes(
            wakes, getattr(store, "public_id", None), tenant=settings.get("tenant")
        )
    if settings.get("interpreter") is None and any(agent.writes_programs for agent in agent_list):
        settings["interpreter"] = rooms.interpreter()
    path = getattr(store, "path", None)
    root = None if path is None else path.with_name(f"{path.name}.sandboxes")
    # Without such an agent, sessions that have folders can be deleted.
    has_sandboxes = any(agent.has_sandbox for agent in agent_list) or (root is not None and root.is_dir())
    if settings.get("sandboxes") is None and has_sandboxes:
        settings["sandboxes"] = rooms.sandboxes(root)
    return settings
