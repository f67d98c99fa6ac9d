"""Ids of traces and spans: the same wherever and whenever they are made.

A run that was started inside a trace belongs to that trace, and a subagent to the trace of its caller. Any
other run begins a trace of its own, named by a digest of the run. Ids of spans are digests too, so whoever
exports a run a second time exports the same spans.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from windlass.ports.telemetry import TraceContext
from windlass_protocol import Record

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACESTATE_CHARS_MAX: Final = 512

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")
_STATE: Final = re.compile(r"[\x20-\x7e]*")
_SAMPLED: Final = 1


def run_key(started: Record) -> str:
    """Return what the ids of a run are made of; its namesake elsewhere has another."""
    return "\n".join((started.session_id, str(started.data["runId"]), started.at))


def trace_number(key: str) -> int:
    """Return a trace id."""
    return int.from_bytes(sha256(f"trace\n{key}".encode(errors="replace")).digest()[:16]) or 1


def span_number(key: str, name: str) -> int:
    """Return the id of a span of the run with that key."""
    return int.from_bytes(sha256(f"span\n{key}\n{name}".encode(errors="replace")).digest()[:8]) or 1


def child_number(key: str, child_run_id: str) -> int:
    """Return the id of the call that started a subagent; both sides can make it."""
    return span_number(key, f"subagent\n{child_run_id}")


def context_in(carrier: Mapping[str, JsonValue]) -> TraceContext | None:
    """Return the context that a `traceparent` carries; None without a valid one."""
    text = carrier.get(TRACEPARENT)
    found = _PARENT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    version, trace_hex, span_hex, flags, more = found.groups()
    trace_id, span_id = int(trace_hex, 16), int(span_hex, 16)
    if version == "ff" or (version == "00" and more) or not trace_id or not span_id:
        return None
    state = carrier.get(TRACESTATE)
    is_state = isinstance(state, str) and len(state) <= TRACESTATE_CHARS_MAX and _STATE.fullmatch(state)
    return TraceContext(
        trace_id,
        span_id,
        is_remote=True,
        is_sampled=bool(int(flags, 16) & _SAMPLED),
        trace_state=str(state) if is_state else "",
    )


def session_context(first: Record) -> TraceContext | None:
    """Return the trace that a session was begun in, as its first record tells."""
    given = first.data.get("trace") if first.type == "session.started" else None
    if not isinstance(given, dict):
        return None
    trace_hex, span_hex = given.get("traceId"), given.get("spanId")
    if not isinstance(trace_hex, str) or not _TRACE_ID.fullmatch(trace_hex) or not int(trace_hex, 16):
        return None
    is_span = isinstance(span_hex, str) and _SPAN_ID.fullmatch(span_hex)
    parent_id = int(str(span_hex), 16) or None if is_span else None
    return TraceContext(int(trace_hex, 16), parent_id, is_remote=parent_id is not None)
