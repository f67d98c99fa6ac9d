"""The lines of an editor: what is no message is answered, and ends nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

import acp
from pydantic import JsonValue

from windlass_protocol import CodecError, CodecLimits, JsonObject, parse
from windlass_sidecar.stdio import Frame, LineReader, Refused

LINE_BYTES_MAX: Final = 16 * 1_048_576
_LIMITS: Final = CodecLimits(message_bytes_max=LINE_BYTES_MAX)
_READ_BYTES: Final = 65_536
Id = str | int | None


class Lines:
    """Messages of JSON-RPC, one on each line, in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = self._read()

    async def send(self, message: JsonObject) -> None:
        """Send a message, after those before it."""
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> JsonObject | None:
        """Return the next message; None when the editor has closed its end."""
        return await anext(self._messages, None)

    async def close(self) -> None:
        """Leave both ends to the process."""

    async def _read(self) -> AsyncIterator[JsonObject]:
        lines = LineReader(LINE_BYTES_MAX)
        while data := await self._reader.read(_READ_BYTES):
            for frame in lines.feed(data):
                message, request_id = _message(frame)
                if isinstance(message, acp.RequestError):
                    await self.send({"jsonrpc": "2.0", "id": request_id, "error": message.to_error_obj()})
                else:
                    yield message


def _message(frame: Frame) -> tuple[JsonObject | acp.RequestError, Id]:
    """Return what a line says and whom its answer is for, or why it cannot be read."""
    if isinstance(frame, Refused):
        return acp.RequestError.parse_error({"details": frame.reason}), None
    try:
        found = parse(frame, _LIMITS)
    except CodecError as error:
        return acp.RequestError.parse_error({"details": error.message}), None
    if not isinstance(found, dict):
        return acp.RequestError.invalid_request({"details": "a message is an object"}), None
    request_id = found.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        return acp.RequestError.invalid_request({"details": "an id is a text or a whole number"}), None
    if problem := _problem(found):
        return acp.RequestError.invalid_request({"details": problem}), request_id
    return found, request_id


def _problem(message: JsonObject) -> str:
    """Return what the library could not bear; empty if there is nothing."""
    method: JsonValue = message.get("method")
    if method is not None:
        return "" if isinstance(method, str) else "a method is a text"
    if message.get("error") is not None and not isinstance(message["error"], dict):
        return "an error is an object"
    return "" if message.keys() & {"result", "error"} else "a message has a method, a result or an error"
