"""Output sinks: where the output of a run is delivered when the run has completed."""

from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from windlass_protocol import JsonObject


@dataclass(frozen=True, slots=True)
class Delivery:
    """The output of a run, on its way to one sink."""

    delivery_id: str
    dedupe_key: str
    """For a sink that can tell repeated deliveries apart by itself."""
    sink_id: str
    session_id: str
    run_id: str
    agent_id: str
    kind: str
    """final_message, or final_validated_output if there was an output contract."""
    output: str
    structured_output: JsonValue = None


class OutputSink(Protocol):
    """Takes output, at most once for each dedupe key.

    It is called again only if it says that nothing happened.
    """

    @property
    def sink_id(self) -> str:
        """What agents call it."""
        ...

    async def deliver(self, output: Delivery) -> JsonObject | None:
        """Take an output; return a receipt, or nothing.

        Raises:
            Unavailable: nothing happened; it is tried again a few times.
            Rejected: nothing happened, and trying again does not help. So do Denied and Conflict.
            Ambiguous: it may have happened. So may it with any other error, and when the time is over: the
                outcome is recorded as unknown, and nothing is sent again.
        """
        ...
