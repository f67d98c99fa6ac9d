"""Bodies of requests: how much of them is taken, and that they are strict JSON."""

import asyncio
import re
from typing import Final

from starlette.types import Receive

from windlass_protocol import CodecError, CodecLimits, parse
from windlass_server.limits import BODY_DISCARD_BYTES_MAX, BODY_VALUES_MAX
from windlass_server.problems import Problem, of_codec_error
from windlass_server.settings import Limits

_JSON: Final = "application/json"
_DIGITS_MAX: Final = 20
"""Of a length: one with more is too large, and not worth being read as a number."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A text of JSON; one without an end goes to the end, so that nothing is looked at twice."""


async def read_body(receive: Receive, limits: Limits, *, length: str, kind: str) -> bytes:
    """Return a whole body, so that nothing behind this has to wait for a client.

    Raises:
        Problem: it is too large, does not come in time, or is no JSON.
    """
    try:
        async with asyncio.timeout(limits.body_s_max):
            raw = await _read(receive, limits.body_bytes_max, length=length)
    except TimeoutError:
        raise Problem(408, "the body did not come in time") from None
    if raw:
        _check(raw, limits, kind=kind)
    return raw


async def _read(receive: Receive, limit: int, *, length: str) -> bytes:
    if length.isdigit() and (len(length) > _DIGITS_MAX or int(length) > limit + BODY_DISCARD_BYTES_MAX):
        raise _too_large(limit)
    chunks: list[bytes] = []
    size, has_more = 0, True
    while has_more and size <= limit + BODY_DISCARD_BYTES_MAX:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the client has gone")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            # Read on without keeping it: a client that is still sending would not see the answer.
            chunks.clear()
        else:
            chunks.append(chunk)
        has_more = message.get("more_body", False)
    if size > limit:
        raise _too_large(limit)
    return b"".join(chunks)


def _too_large(limit: int) -> Problem:
    return Problem(
        413, f"the body is too large: the limit is {limit:,} bytes", headers={"connection": "close"}
    )


def _check(raw: bytes, limits: Limits, *, kind: str) -> None:
    if kind.partition(";")[0].strip().lower() != _JSON:
        raise Problem(415, f"a body is {_JSON}")
    # What is in texts counts only if it matters: most bodies are a long text, and that takes a while.
    if _marks(raw) > BODY_VALUES_MAX:
        count = _marks(_STRING.sub(b"", raw))
        if count > BODY_VALUES_MAX:
            raise Problem(413, f"the body has too many values: {count:,}, limit {BODY_VALUES_MAX:,}")
    try:
        parse(raw, CodecLimits(message_bytes_max=limits.body_bytes_max))
    except CodecError as error:
        raise of_codec_error(error) from None


def _marks(raw: bytes) -> int:
    """Return how many values there are at most: each begins behind one of these."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")
