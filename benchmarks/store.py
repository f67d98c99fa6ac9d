"""What the SQLite store adds to a step: `python -m benchmarks.store`.

A step has two appends: the answer of the model with the intent of its call, and the result with the beginning
of the next step. They are made without an engine, by one session and by many at once, in turns with a raw
floor: the same contents in plain sqlite3. The table has CPU of the process
with all its threads and bytes passed to write(); below it are the pages that an append writes to the log.

`--place /dev/shm` takes the disk out: syncs cost nothing there, and threads and loop remain.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from struct import unpack
from time import process_time
from typing import Final, cast
from unittest.mock import patch

import apsw

from benchmarks.peers.task import page_text
from windlass.ports.journal import Batch
from windlass.sql.statements import SqlConnection
from windlass.sqlite import writer as sqlite_writer
from windlass.sqlite.schema import PAGE_BYTES, Durability
from windlass.sqlite.store import SqliteStore
from windlass_harness.loop.events import Draft
from windlass_protocol import JsonObject

APPENDS: Final = 800
SESSIONS: Final = 200
SESSION_APPENDS: Final = 20
WARM_UP_APPENDS: Final = 20
NOW_MS: Final = 1_000_000
AT: Final = "2026-01-31T09:30:00.250Z"
LOG_HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24


def step(index: int) -> tuple[tuple[Draft, ...], tuple[Draft, ...]]:
    """Return the records of the two appends of a step."""
    call_id, hashed = f"call.s0.{index}", f"sha256:{index:064x}"
    place: JsonObject = {"sequence": 0, "turnId": "turn_0", "stepIndex": index}
    asked: JsonObject = {"query": f"s0/{index}: open invoices of the northern region, newest first"}
    action: JsonObject = {"kind": "tool-call", "callId": call_id, "toolName": "lookup", "input": asked}
    usage: JsonObject = {"inputTokens": 900, "outputTokens": 40}
    policy: JsonObject = {"kind": "permission", "id": "default.safe_write", "version": f"sha256:{0:064x}"}
    allowed: JsonObject = {
        "code": "policy.default",
        "reason": "Reads and safe writes need no consent.",
        "policyRefs": [policy],
        "decision": "allow",
    }
    output: JsonObject = {"kind": "tool-result", "callId": call_id, "toolName": "lookup"}
    named: JsonObject = {"callId": call_id, "toolName": "lookup"}
    begun: JsonObject = {"effect": "once", "idempotencyKey": hashed, "argumentsHash": hashed}
    told: JsonObject = {"finishReason": "tool-calls", "usage": usage, "latencyMs": 0}
    answer: list[tuple[str, JsonObject]] = [
        ("actions.requested", {"actions": [action], **place}),
        ("step.completed", {**told, **place}),
        ("policy.decided", {"stage": "pre_tool", "decision": allowed, **named, **place}),
        ("action.started", {**named, **begun, "mode": "safe_write", **place}),
    ]
    result: list[tuple[str, JsonObject]] = [
        ("action.result", {"result": {**output, "output": page_text(index)}, "status": "completed", **place}),
        ("step.started", {**place, "stepIndex": index + 1, "promptMessageCount": 2 * index, "modelId": "m1"}),
    ]
    return _drafts(answer, index), _drafts(result, index)


def _messages(index: int) -> tuple[JsonObject, JsonObject]:
    """Return the two messages of a step as the raw floor keeps them."""
    call_id = f"call.s0.{index}"
    asked: JsonObject = {"query": f"s0/{index}: open invoices of the northern region, newest first"}
    return (
        {"role": "assistant", "id": call_id, "name": "lookup", "arguments": asked},
        {"role": "tool", "id": call_id, "content": page_text(index)},
    )


def _drafts(facts: Sequence[tuple[str, JsonObject]], index: int) -> tuple[Draft, ...]:
    return tuple(Draft(type_, AT, data, "run.s0", "bench", "turn_0", index) for type_, data in facts)


STEPS: Final = [append for index in range(APPENDS // 2) for append in step(index)]
RAW: Final = [json.dumps(message).encode() for index in range(APPENDS // 2) for message in _messages(index)]


def written_bytes() -> int:
    """Return the bytes that this process has written so far."""
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


Cost = tuple[float, float]
"""CPU of an append in µs, and KB written by a step."""


def _since(cpu_s: float, written: int, appends: int) -> Cost:
    return (process_time() - cpu_s) / appends * 1e6, (written_bytes() - written) / appends * 2 / 1_000


def raw(folder: Path, synchronous: str) -> Cost:
    """Insert the contents, a commit each."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE log (key INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    cpu_s, written = process_time(), written_bytes()
    for key, body in enumerate(RAW):
        connection.execute("INSERT INTO log VALUES (?, ?)", (key, body))
    cost = _since(cpu_s, written, len(RAW))
    connection.close()
    return cost


async def append(store: SqliteStore, session_id: str, *, count: int) -> None:
    """Make appends of steps in a session."""
    claim = await store.claim(session_id, "o1", now_ms=NOW_MS)
    seq = 0
    for drafts in islice(cycle(STEPS), count):
        await store.append(Batch(claim, seq, drafts))
        seq += len(drafts)
        # The model and the tool give way to other tasks.
        await asyncio.sleep(0)


async def ours(folder: Path, durability: Durability, sessions: int) -> Cost:
    """Make the appends in a store."""
    store = await SqliteStore.open(folder / "store.db", durability=durability)
    await store.enlist("o1", now_ms=NOW_MS)
    await append(store, "warm", count=WARM_UP_APPENDS)
    count = APPENDS if sessions == 1 else SESSION_APPENDS
    cpu_s, written = process_time(), written_bytes()
    await asyncio.gather(*(append(store, f"s{index}", count=count) for index in range(sessions)))
    cost = _since(cpu_s, written, sessions * count)
    await store.aclose()
    return cost


def _ours(durability: Durability, sessions: int) -> Callable[[Path], Cost]:
    return lambda folder: asyncio.run(ours(folder, durability, sessions))


WORK: Final[dict[str, Callable[[Path], Cost]]] = {
    "raw NORMAL": lambda folder: raw(folder, "NORMAL"),
    "raw FULL": lambda folder: raw(folder, "FULL"),
    "process": _ours("process", 1),
    "power": _ours("power", 1),
    f"process, {SESSIONS} sessions": _ours("process", SESSIONS),
    f"power, {SESSIONS} sessions": _ours("power", SESSIONS),
}


async def logged_pages(folder: Path) -> Iterator[tuple[str, float]]:
    """Return the pages that an append writes to the log, by table."""
    path = folder / "store.db"
    log = path.with_name("store.db-wal")
    with patch.object(sqlite_writer, "CHECKPOINT_BYTES", 1 << 30):
        store = await SqliteStore.open(path, durability="process")
        await store.enlist("o1", now_ms=NOW_MS)
        await append(store, "warm", count=WARM_UP_APPENDS)
        first = log.stat().st_size
        await append(store, "s1", count=APPENDS)
        content = log.read_bytes()
        await store.aclose()
    # The SQLite of the standard library may lack this table.
    reading = cast("SqlConnection", apsw.Connection(str(path)))
    rows = cast(
        "Iterator[tuple[int, str, str]]", reading.execute("SELECT pageno, name, pagetype FROM dbstat")
    )
    names = {page: f"{name}, {kind}" for page, name, kind in rows}
    frames = range(max(first, LOG_HEADER_BYTES), len(content), FRAME_HEADER_BYTES + PAGE_BYTES)
    pages = Counter(names[unpack(">I", content[at : at + 4])[0]] for at in frames)
    return ((name, count / APPENDS) for name, count in pages.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--place", help="the folder in which files are made; a temporary one when left out")
    args = parser.parse_args()
    best: dict[str, Cost] = {}
    for _ in range(args.rounds):
        for what, work in WORK.items():
            with tempfile.TemporaryDirectory(dir=args.place) as folder:
                (cpu, size), found = best.get(what, (float("inf"),) * 2), work(Path(folder))
                best[what] = min(cpu, found[0]), min(size, found[1])
    for what, (cpu, size) in best.items():
        floor = best["raw FULL" if "power" in what or "FULL" in what else "raw NORMAL"]
        print(f"{what:24}{cpu:8.1f} µs an append{cpu / floor[0]:7.2f} x raw{size:8.2f} KB a step", end="")
        print(f"{size / floor[1]:7.2f} x raw")
    with tempfile.TemporaryDirectory(dir=args.place) as folder:
        for name, pages in asyncio.run(logged_pages(Path(folder))):
            if pages >= 0.01:
                print(f"{pages:6.2f} pages an append: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
