"""The parts that `AgentRuntime.builder()` takes, and that tests use.

Names are imported on first use.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.adapters.journals.memory import MemoryStore as MemoryStore
    from windlass.adapters.loop_watch import loop_stalls as loop_stalls
    from windlass.adapters.loop_watch import shorten_stalls as shorten_stalls
    from windlass.adapters.system import SystemClock as SystemClock
    from windlass.adapters.system import chance as chance
    from windlass.adapters.system import clock_of as clock_of
    from windlass.adapters.system import hide_environment as hide_environment
    from windlass.adapters.system import new_id as new_id
    from windlass.adapters.system import variable as variable
    from windlass.agent.policy import RulesPolicy as RulesPolicy
    from windlass.agent.policy import allow_start as allow_start
    from windlass.engine.driving.slots import SessionSlots as SessionSlots
    from windlass.engine.spending.provider_limits import ProviderLimit as ProviderLimit
    from windlass.engine.spending.provider_limits import ProviderLimits as ProviderLimits
    from windlass.engine.spending.spend_limits import SpendLimit as SpendLimit
    from windlass.feed import Feed as Feed
    from windlass.ports.clock import Clock as Clock
    from windlass.ports.feed import EventBus as EventBus
    from windlass.ports.feed import EventFilter as EventFilter
    from windlass.ports.feed import Overflow as Overflow
    from windlass.ports.feed import QueueOptions as QueueOptions
    from windlass.ports.feed import StreamOptions as StreamOptions
    from windlass.ports.host import ApprovalDispatcher as ApprovalDispatcher
    from windlass.ports.host import Delivery as Delivery
    from windlass.ports.host import OutputSink as OutputSink
    from windlass.ports.host import StartPolicy as StartPolicy
    from windlass.ports.host import ToolPolicy as ToolPolicy
    from windlass.ports.machine import Machine as Machine
    from windlass.ports.model import ModelPrice as ModelPrice
    from windlass.ports.store import ContentStore as ContentStore
    from windlass.ports.store import Store as Store
    from windlass.runtime.opening import open_store as open_store
    from windlass.runtime.registry import PackageChange as PackageChange
    from windlass.runtime.registry import ToolRoute as ToolRoute
    from windlass.sqlite.store import SqliteStore as SqliteStore
    from windlass_harness.loop.rules import Rules as Rules
    from windlass_harness.policy import CallFacts as CallFacts
    from windlass_protocol import OutputSinkSpec as OutputSinkSpec

_HOMES = {
    "windlass.adapters.journals.memory": ("MemoryStore",),
    "windlass.sqlite.store": ("SqliteStore",),
    "windlass.adapters.loop_watch": (
        "loop_stalls",
        "shorten_stalls",
    ),
    "windlass.adapters.system": (
        "SystemClock",
        "chance",
        "clock_of",
        "hide_environment",
        "new_id",
        "variable",
    ),
    "windlass.agent.policy": (
        "RulesPolicy",
        "allow_start",
    ),
    "windlass.engine.driving.slots": ("SessionSlots",),
    "windlass.engine.spending.provider_limits": (
        "ProviderLimit",
        "ProviderLimits",
    ),
    "windlass.engine.spending.spend_limits": ("SpendLimit",),
    "windlass.feed": ("Feed",),
    "windlass.ports.clock": ("Clock",),
    "windlass.ports.feed": (
        "EventBus",
        "EventFilter",
        "Overflow",
        "QueueOptions",
        "StreamOptions",
    ),
    "windlass.ports.host": (
        "ApprovalDispatcher",
        "Delivery",
        "OutputSink",
        "StartPolicy",
        "ToolPolicy",
    ),
    "windlass.ports.machine": ("Machine",),
    "windlass.ports.model": ("ModelPrice",),
    "windlass.ports.store": (
        "ContentStore",
        "Store",
    ),
    "windlass.runtime.opening": ("open_store",),
    "windlass.runtime.registry": (
        "PackageChange",
        "ToolRoute",
    ),
    "windlass_harness.loop.rules": ("Rules",),
    "windlass_harness.policy": ("CallFacts",),
    "windlass_protocol": ("OutputSinkSpec",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
