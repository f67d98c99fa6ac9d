"""`protocol.*`: what this sidecar can do, and what its host can."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, Field, JsonValue

from windlass_protocol import (
    HostInputRequest,
    HostRequestCancelled,
    HostToolCall,
    SidecarReady,
    SidecarShutdown,
    StreamChunk,
    StreamDone,
    StreamError,
)
from windlass_sidecar import PROTOCOL_VERSION, __version__
from windlass_sidecar.app import App
from windlass_sidecar.errors import Code
from windlass_sidecar.host_tools import CALL
from windlass_sidecar.limits import BATCH_ITEMS_MAX, FRAME_BYTES_MAX, FRAME_LEVELS_MAX, STREAMS_MAX
from windlass_sidecar.methods import chat, config, sessions, system, tools, traces
from windlass_sidecar.params import Params
from windlass_sidecar.peers import INPUT
from windlass_sidecar.pump import CHUNK, DONE, ERROR
from windlass_sidecar.rpc import WITHDRAWN, Method, method

READY: Final = "lifecycle.ready"
SHUTDOWN: Final = "lifecycle.shutdown"
FEATURES: Final = ("batches", "durable-streams", "host-input", "host-tools", "tool-loop")
NOTIFICATIONS: Final[Mapping[str, type[BaseModel]]] = {
    READY: SidecarReady,
    SHUTDOWN: SidecarShutdown,
    CHUNK: StreamChunk,
    DONE: StreamDone,
    ERROR: StreamError,
    WITHDRAWN: HostRequestCancelled,
}
"""What the sidecar tells its host by itself, and the type of the parameters."""
HOST_METHODS: Final[Mapping[str, type[BaseModel]]] = {CALL: HostToolCall, INPUT: HostInputRequest}
"""What it asks its host, and the type of the parameters."""
_FEATURES_MAX: Final = 64


class HostFacts(Params):
    """What a host says of itself."""

    features: Annotated[list[str], Field(max_length=_FEATURES_MAX, default_factory=list[str])]


class Describe(Params):
    """What the host can do; nothing new when left out."""

    host: HostFacts | None = None


async def describe(app: App, params: Describe) -> JsonValue:
    """Say what there is, and take note of the requests that the host answers."""
    if params.host is not None:
        app.host.features = frozenset(params.host.features)
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "version": __version__,
        "features": [*FEATURES],
        "methods": [_described(known) for known in CATALOGUE.values()],
        "notifications": [*NOTIFICATIONS],
        "hostMethods": [*HOST_METHODS],
        "errorCodes": {code.name.lower(): int(code) for code in Code},
        "limits": {
            "frameBytesMax": FRAME_BYTES_MAX,
            "frameLevelsMax": FRAME_LEVELS_MAX,
            "batchItemsMax": BATCH_ITEMS_MAX,
            "streamsMax": STREAMS_MAX,
        },
    }


def _described(known: Method[App]) -> JsonValue:
    fields = known.params.model_fields
    names: list[JsonValue] = [field.alias or name for name, field in fields.items()]
    required: list[JsonValue] = [field.alias or name for name, field in fields.items() if field.is_required()]
    return {"name": known.name, "params": names, "required": required}


METHODS: Final[tuple[Method[App], ...]] = (
    method("protocol.describe", Describe, run=describe, is_urgent=True),
)
CATALOGUE: Final[Mapping[str, Method[App]]] = {
    known.name: known
    for part in (
        system.METHODS,
        METHODS,
        sessions.METHODS,
        chat.METHODS,
        tools.METHODS,
        traces.METHODS,
        config.METHODS,
    )
    for known in part
}
"""Every method by its name."""
