"""What all sessions of a runtime share to perform effects."""

import asyncio
from dataclasses import dataclass, field

from windlass.engine.delegating import Delegator
from windlass.engine.lease import Lease
from windlass.engine.masking import SecretInputs
from windlass.ports.clock import Clock, Random
from windlass.ports.content import ContentStore
from windlass.ports.feed import EventBus


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sessions of a runtime share to perform effects."""

    content: ContentStore
    bus: EventBus
    clock: Clock
    random: Random
    is_attended: bool
    gates: dict[str, asyncio.Semaphore]
    secret_inputs: SecretInputs = field(default_factory=SecretInputs)
    lease: Lease = field(default_factory=Lease)
    delegator: Delegator | None = None
