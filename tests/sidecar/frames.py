"""Every frame that the sidecar sends is one of the wire."""

from typing import cast

from pydantic_core import to_json

from windlass_protocol import (
    JsonObject,
    JsonValue,
    SidecarNotification,
    SidecarRequest,
    SidecarResponse,
    decode,
    parse,
)
from windlass_sidecar.limits import FRAME_LIMITS

MESSAGE_CHARS_MAX = 1_024


def read(body: bytes) -> list[JsonObject]:
    """The messages of a frame, each checked against the schema by the strict codec."""
    assert b"\n" not in body, "a frame is one line"
    value = parse(body, FRAME_LIMITS)
    messages = value if isinstance(value, list) else [value]
    assert messages, "an empty batch is never sent"
    for message in messages:
        check(message)
    return cast(list[JsonObject], messages)


def check(message: JsonValue) -> None:
    assert isinstance(message, dict), message
    raw = _bytes(message)
    if "method" not in message:
        found = decode(SidecarResponse, raw, limits=FRAME_LIMITS)
        assert ("result" in message) != ("error" in message)
        assert found.error is None or found.error.kind is not None
    elif "id" in message:
        decode(SidecarRequest, raw, limits=FRAME_LIMITS)
    else:
        decode(SidecarNotification, raw, limits=FRAME_LIMITS)


def _bytes(message: JsonObject) -> bytes:

    return to_json(message)
