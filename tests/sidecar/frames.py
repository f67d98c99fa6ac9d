"""Every frame that the sidecar sends is one of the wire."""

from collections.abc import Mapping
from typing import cast

from pydantic import BaseModel
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
from windlass_sidecar.methods import HOST_METHODS, NOTIFICATIONS

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
        request = decode(SidecarRequest, raw, limits=FRAME_LIMITS)
        _check_params(HOST_METHODS, request.method, message["params"])
    else:
        notification = decode(SidecarNotification, raw, limits=FRAME_LIMITS)
        _check_params(NOTIFICATIONS, notification.method, message["params"])


def _check_params(types: Mapping[str, type[BaseModel]], method: str, params: JsonValue) -> None:
    """Parameters fit the type of their method and have no field that it does not name."""
    assert method in types, f"{method} is not in the table of what the sidecar sends"
    kind = types[method]
    found = decode(kind, _bytes(params), limits=FRAME_LIMITS)
    assert not _unnamed(found), f"{method}: {_unnamed(found)} are not in the spec"


def _unnamed(value: object) -> list[str]:
    """The fields of a value, and of those within, that its type does not name."""
    if isinstance(value, tuple):
        return [name for item in cast(tuple[object, ...], value) for name in _unnamed(item)]
    if not isinstance(value, BaseModel):
        return []
    inner = [name for field in type(value).model_fields for name in _unnamed(getattr(value, field))]
    return [*(value.model_extra or ()), *inner]


def _bytes(value: JsonValue) -> bytes:
    return to_json(value)
