"""What all sessions of a runtime share to perform effects."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from windlass.engine.delegating import Delegator
from windlass.engine.lease import Lease
from windlass.engine.masking import SecretInputs
from windlass.ports.clock import Clock, Random
from windlass.ports.feed import EventBus
from windlass.ports.store import ContentStore
from windlass.tools.router import ToolGates
from windlass_harness.loop.rules import CALLS_PER_STEP_MAX


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sessions of a runtime share to perform effects."""

    content: ContentStore
    bus: EventBus
    clock: Clock
    random: Random
    is_attended: bool
    calls_max: int = CALLS_PER_STEP_MAX
    """Calls of one answer."""
    gates: ToolGates = field(default_factory=ToolGates)
    secret_inputs: SecretInputs = field(default_factory=SecretInputs)
    lease: Lease = field(default_factory=Lease)
    delegator: Delegator | None = None
    after_chunk: Callable[[], Awaitable[None]] | None = None
    """Awaited after each piece of an answer, by a host that shows pieces itself instead of a bus."""
