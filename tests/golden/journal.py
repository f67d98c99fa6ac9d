"""Golden journals: how they are kept, and the hashes of the states they make."""

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.loop.state import LoopState, dump_loop
from windlass_harness.record import Record, from_wire, to_wire
from windlass_harness.tracing import fold_trace
from windlass_harness.views import (
    dump_state,
    fold_chat,
    fold_decisions,
    fold_runs,
    fold_session,
    fold_usage,
)
from windlass_protocol import Record as WireRecord
from windlass_protocol import canonical

JOURNALS: Final = Path(__file__).parent / "journals"
HASHES: Final = "hashes.json"


def write(folder: Path, name: str, records: Iterable[Record]) -> None:
    """Keep a journal: one record a line, the same bytes whenever it is written."""
    lines = b"".join(to_json(to_wire(record)) + b"\n" for record in records)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))


def read(path: Path) -> tuple[Record, ...]:
    """Read a journal, as strictly as the wire is read."""
    lines = gzip.decompress(path.read_bytes()).splitlines()
    return tuple(from_wire(WireRecord.model_validate_json(line, strict=True)) for line in lines)


def hashes(records: Sequence[Record]) -> dict[str, str]:
    """Return a hash of every state that is folded from records."""
    return {name: digest(fold(records)) for name, fold in FOLDS.items()}


RENAMED: Final = {
    "approval_outcome": "outcome",
    "consent_expires_ms": "until_ms",
    "denial_reason": "reason",
    "last_request_id": "asked_as",
    "open_request_id": "request_id",
    "policy_version": "policy",
    "recovery_choice": "choice",
    "unbegun_handovers": "passed_on",
}
"""Fields of the notes of calls, and their names in 0.1. Such a change needs another `VIEW_VERSION`."""


def dump_as_before(state: LoopState) -> bytes:
    """Return the snapshot of a state with the names that its fields had when the hashes were written."""
    head, _, body = dump_loop(state).partition(b"\n")
    value = json.loads(body)
    for call_id, note in value["notes"].items():
        value["notes"][call_id] = {RENAMED.get(name, name): field for name, field in note.items()}
    for notes in (*value["notes"].values(), value["run_notes"], value["compacting"]):
        _count_interruptions(notes)
    value["run_notes"].pop("previous_epoch", None)
    return head + b"\n" + to_json(value)


def _count_interruptions(notes: dict[str, JsonValue]) -> None:
    """Give notes the two numbers that they had when the hashes were written."""
    interruptions = notes.pop("interruptions", None)
    if isinstance(interruptions, list):
        shared = sum(isinstance(past, dict) and past.get("is_shared") is True for past in interruptions)
        notes["interruptions"], notes["shared_interruptions"] = len(interruptions) - shared, shared


def _loop(records: Sequence[Record]) -> bytes:
    state = LoopState()
    state.apply_all(records)
    return dump_as_before(state)


FOLDS: Final[dict[str, Callable[[Sequence[Record]], bytes]]] = {
    "session": lambda records: dump_state(fold_session(records)),
    "chat": lambda records: dump_state(fold_chat(records)),
    "usage": lambda records: dump_state(fold_usage(records)),
    "runs": lambda records: dump_state(fold_runs(records)),
    "decisions": lambda records: dump_state(fold_decisions(records)),
    "trace": lambda records: dump_state(fold_trace(records)),
    "loop": _loop,
}


def digest(state: bytes) -> str:
    """Return the hash of a state.

    Its version and empty fields are left out, so that a later release may add a field that these
    journals do not fill.
    """
    value: JsonValue = json.loads(state.partition(b"\n")[2])
    return sha256(canonical(_filled(value))).hexdigest()[:32]


def _filled(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        found = {name: _filled(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one not in (None, False, 0, "", [], {})}
    if isinstance(value, list):
        return [_filled(one) for one in value]
    return value
