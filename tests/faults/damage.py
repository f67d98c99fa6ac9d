"""Damage to the files of a store: logs that are lost, cut or garbled after a kill, and bits that flip.

Every trial is made from a seed. It is wrong if the store shows something else than the truth, and neither the
store nor its audit says so.
"""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch

from tests.contracts.stores import AT, NOW_MS, draft
from tests.faults.disk import put_files
from tests.faults.forks import fork, wait

from windlass import Agent, AgentRuntime, tool
from windlass.errors import AgentError, Corrupt, Rejected
from windlass.ports.journal import Batch, Claim
from windlass.ports.listing import (
    CountFilter,
    OpenRequest,
    RefusedStart,
    RunFilter,
    SessionFilter,
    SessionInfo,
)
from windlass.sqlite import writer as sqlite_writer
from windlass.sqlite.audit import problems_of
from windlass.sqlite.schema import PAGE_BYTES, Durability
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import ContentRef, ErrorCode, ErrorKind, RetryClass

SESSIONS: Final = 3
OPERATIONS: Final = 60
CHECKPOINT_BYTES: Final = 150_000
"""Few, so that some logs have begun anew."""
POINTS_PER_LIFE: Final = 20
HEAD_BYTES: Final = 24
FILES: Final = ("store.db", "store.db-wal", "store.db-mark")


# logs


def lost_logs(place: Path, *, points: int, seed: int) -> dict[str, Any]:
    """Kill processes that write, and damage the logs that they leave at many points."""
    told = {"trials": 0, "kills": 0, "noticed": 0, "harmless": 0}
    violations: list[str] = []
    for life in range(-(-points // POINTS_PER_LIFE)):
        chance = random.Random(f"{seed}.{life}")
        folder = place / f"life-{life}"
        folder.mkdir()
        durability: Durability = "process" if life % 2 else "power"
        pids = [fork(_writer(folder, number, durability, chance.random())) for number in range(1 + life % 2)]
        told["kills"] += sum(wait(pid).is_killed for pid in pids)
        for point in range(POINTS_PER_LIFE):
            luck = chance.random()
            pid = fork(partial(_look_at_damage, folder, point, luck), folder / "told")
            outcome = wait(pid, folder / "told").report or "broke"
            told["trials"] += 1
            if outcome in ("noticed", "harmless"):
                told[outcome] += 1
            else:
                violations.append(f"life {life} of seed {seed}, point {point}: {outcome}")
        shutil.rmtree(folder)
    return {**told, "wrong": len(violations), "violations": violations}


def _writer(folder: Path, number: int, durability: Durability, luck: float) -> Callable[[], object]:
    def work() -> object:
        return asyncio.run(_write(folder, f"p{number}", durability, random.Random(luck)))

    return work


async def _write(folder: Path, name: str, durability: Durability, chance: random.Random) -> None:
    """Write until killed; a line for each acknowledged write goes to a file."""
    acks = os.open(folder / f"acks-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    last = chance.randrange(8, OPERATIONS)
    with patch.object(sqlite_writer, "CHECKPOINT_BYTES", CHECKPOINT_BYTES):
        store = await SqliteStore.open(folder / "store.db", durability=durability)
        await store.enlist(name, now_ms=NOW_MS)
        claims: dict[str, Claim] = {}
        ends: dict[str, int] = {}
        for operation in range(OPERATIONS):
            session_id = f"{name}.{chance.randrange(SESSIONS)}"
            kind = chance.choice(("append", "append", "append", "post", "put", "refuse", "claim"))
            if kind == "append" and session_id in claims:
                count = chance.randint(1, 3)
                drafts = tuple(draft(operation, size=chance.choice((10, 3_000))) for _ in range(count))
                await store.append(Batch(claims[session_id], ends[session_id], drafts))
                ends[session_id] += count
                told = f"append {session_id} {ends[session_id]}"
            elif kind == "post":
                await store.post(session_id, kind="answer", key=f"k{operation}", body={"n": operation})
                told = f"post {session_id} k{operation}"
            elif kind == "put":
                ref = await store.put(f"{name}.{operation}".encode())
                told = f"put {ref.hash} {name}.{operation}"
            elif kind == "refuse":
                await store.record_refusal(_refusal(f"{name}.{operation}"))
                told = f"refuse {name}.{operation} -"
            else:
                claims[session_id] = await store.claim(session_id, name, now_ms=NOW_MS)
                ends.setdefault(session_id, 0)
                told = f"claim {session_id} {claims[session_id].epoch}"
            os.write(acks, f"{told}\n".encode())
            if operation >= last:
                os.kill(os.getpid(), signal.SIGKILL)


def _refusal(run_id: str) -> RefusedStart:
    code, kind, retry = ErrorCode.DENIED, ErrorKind.POLICY_DENIAL, RetryClass.NOT_RETRYABLE
    return RefusedStart(AT, run_id, None, None, None, None, code, kind, retry, "closed")


def _look_at_damage(folder: Path, point: int, luck: float) -> str:
    return asyncio.run(_open_damaged(folder, point, random.Random(luck)))


async def _open_damaged(folder: Path, point: int, chance: random.Random) -> str:
    """Damage a copy of the files, and open it; return `noticed`, `harmless`, or what is wrong."""
    copy = folder / f"point-{point}"
    copy.mkdir()
    for name in FILES:
        if (folder / name).exists():
            shutil.copyfile(folder / name, copy / name)
    log = copy / "store.db-wal"
    whole = log.read_bytes()
    how = "leave" if point == 0 else ("delete", "cut", "garble", "zero")[point % 4]
    damage_log(log, how, chance)
    left = log.read_bytes() if log.exists() else None
    try:
        store = await SqliteStore.open(copy / "store.db", durability="process")
    except Corrupt as error:
        if how == "leave":
            return f"wrongly refused: {error.message}"
        if left is not None and log.read_bytes() != left:
            return "the log was changed by looking at it"
        if point % 2 or "store.db-mark" not in error.message:
            # A log that was cut during a checkpoint leaves a database that SQLite refuses itself.
            # The log is restored.
            log.write_bytes(whole)
            return await _judged(copy, folder, "noticed")
        # The loss is accepted.
        (copy / "store.db-mark").unlink()
        await (await SqliteStore.open(copy / "store.db")).aclose()
        return "noticed"
    await store.aclose()
    return await _judged(copy, folder, "harmless")


def damage_log(log: Path, how: str, chance: random.Random) -> None:
    """Delete, cut, garble or blank a log."""
    whole = bytearray(log.read_bytes())
    at = chance.randrange(len(whole))
    size = chance.choice((1, 16, 4_096))
    match how:
        case "delete":
            log.unlink()
        case "cut":
            log.write_bytes(whole[:at])
        case "garble":
            whole[at] ^= 1 << chance.randrange(8)
            log.write_bytes(whole)
        case "zero":
            whole[at : at + size] = bytes(len(whole[at : at + size]))
            log.write_bytes(whole)
        case _:
            pass


async def _judged(copy: Path, folder: Path, outcome: str) -> str:
    """Return the outcome if everything acknowledged is there."""
    store = await SqliteStore.open(copy / "store.db")
    try:
        refused = {one.run_id for one in await store.list_refusals(limit=1_000)}
        for line in _acks(folder):
            kind, name, value = line.split()
            if not await _is_there(store, kind, name, value, refused):
                return f"silent: {line}"
    finally:
        await store.aclose()
    return outcome


def _acks(folder: Path) -> list[str]:
    return [line for file in folder.glob("acks-*") for line in file.read_text().splitlines()]


async def _is_there(store: SqliteStore, kind: str, name: str, value: str, refused: set[str | None]) -> bool:
    row = await store.session(name)
    match kind:
        case "append":
            return row is not None and len(await store.read(name, limit=10_000)) >= int(value)
        case "claim":
            return row is not None and row.epoch >= int(value)
        case "post":
            return any(item.key == value for item in await store.pending(name, limit=1_000))
        case "put":
            ref = ContentRef(content_id=name, hash=name, size_bytes=len(value), media_type="application/json")
            with suppress(Rejected):
                return await store.get(ref) == value.encode()
            return False
        case _:
            return name in refused


# bits


@dataclass
class Sight:
    """What a store shows, by what was asked; an error is not part of it."""

    shown: dict[str, Any] = field(default_factory=dict[str, Any])

    async def ask(self, name: str, look: Callable[[], Awaitable[Any]]) -> None:
        try:
            self.shown[name] = await look()
        except AgentError:
            # Told.
            return


async def fill(path: Path) -> None:
    """Make a store with something of everything, by a runtime."""

    @tool(effect="once", approval="once")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    asking = by_history([call("pay", {"amount": 7}), say("Paid.")])
    clerk = Agent("clerk", model=ScriptedModel(asking), tools=[pay])
    talker = Agent("talker", model=ScriptedModel(by_history([say("Open until six.")])))
    async with AgentRuntime.open(path, agents=[clerk, talker], is_attended=True) as runtime:
        for number in range(3):
            handle = await runtime.start_run(
                talker, f"When {number}?", run_id=f"t{number}", session_id=f"talk{number}", owner=f"u{number}"
            )
            await handle.wait()
        for number in range(3):
            handle = await runtime.start_run(
                clerk, "Pay.", run_id=f"p{number}", session_id=f"pay{number}", owner="ada"
            )
            async for event in handle.events():
                if event.type == "input.requested":
                    break
        await runtime.handle("p0").cancel()
        await runtime.handle("p0").wait()
        await runtime.sessions.fork("talk1", session_id_new="copy1")
        await runtime.sessions.delete("talk0")
    store = await SqliteStore.open(path)
    await store.record_refusal(_refusal("none"))
    await store.aclose()


async def sight_of(path: Path, request_ids: Sequence[str]) -> Sight:
    """Look at everything that a store shows."""
    sight = Sight()
    try:
        store = await SqliteStore.open(path, durability="process")
    except AgentError:
        return sight
    names = ["talk0", "talk1", "talk2", "pay0", "pay1", "pay2", "copy1"]
    for name in names:
        for what in ("read", "milestones", "pending", "session", "session_info", "is_deleted", "load"):
            await sight.ask(f"{what} {name}", lambda what=what, name=name: getattr(store, what)(name))
        for what in ("read_items", "contents_of", "appends"):
            await sight.ask(f"{what} {name}", lambda what=what, name=name: getattr(store, what)(name))
    for run_id in ("t0", "t1", "t2", "p0", "p1", "p2"):
        await sight.ask(f"run {run_id}", lambda run_id=run_id: store.run(run_id))
    for request_id in request_ids:
        await sight.ask(f"request {request_id}", lambda name=request_id: store.find_request(name))
    looks: dict[str, Callable[[], Awaitable[Any]]] = {
        "all": lambda: store.read_all(limit=10_000),
        "position": store.last_position,
        "listed": lambda: store.list_sessions(SessionFilter(root_only=False)),
        "runs": lambda: store.list_runs(RunFilter()),
        "requests": store.list_requests,
        "refusals": store.list_refusals,
        "due": lambda: store.due(now_ms=NOW_MS),
        "open_runs": store.open_runs,
        "wake": store.next_wake_ms,
        "waiting": store.waiting,
        "counts": lambda: store.run_counts(
            CountFilter("2000-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z", 86_400_000)
        ),
    }
    for name, look in looks.items():
        await sight.ask(name, look)
    await store.aclose()
    return sight


DECIDING: Final = ("run ", "session ", "session_info ", "request ", "read ", "listed", "runs", "requests")
"""Reads whose rows decide something: they show the truth, less of it, or an error."""


def _is_less(shown: Any, true: Any) -> bool:
    """Whether something may be missing, and nothing is different."""
    if shown == true:
        return True
    if isinstance(true, tuple):
        return isinstance(shown, tuple) and all(one in true for one in cast("tuple[object, ...]", shown))
    return shown is None


def _alone(shown: Any) -> Any:
    """Return what decides something: not what sessions tell of their runs, nor the place of a request.

    The place of a request in the list is given by the database when its row is written, so no seal has it.
    """
    if isinstance(shown, tuple):
        return tuple(_alone(one) for one in cast("tuple[object, ...]", shown))
    if isinstance(shown, OpenRequest):
        return replace(shown, number=0)
    if not isinstance(shown, SessionInfo):
        return shown
    return replace(
        shown,
        run_count=0,
        request_count=0,
        output="",
        error_message=None,
        waits_for=None,
        waits_on=None,
        error=None,
        crashes=0,
    )


def wrong_reads(shown: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """Return the reads that decide something and show neither the truth nor less of it."""
    return [
        name
        for name, value in truth.items()
        if name in shown and name.startswith(DECIDING) and not _is_less(_alone(shown[name]), _alone(value))
    ]


async def bit_flips(folder: Path, *, trials: int, seed: int) -> dict[str, Any]:
    """Flip one bit of a database at a time; bytes of free space, all zeros, are left out."""
    path = folder / "store.db"
    await fill(path)
    whole = path.read_bytes()
    opened = await SqliteStore.open(path)
    request_ids = [one.request.request_id for one in await opened.list_requests()]
    await opened.aclose()
    truth = (await sight_of(path, request_ids)).shown
    assert not problems_of(path, is_deep=True), problems_of(path, is_deep=True)
    chance = random.Random(seed)
    used = [at for at, byte in enumerate(whole) if byte or at % PAGE_BYTES < HEAD_BYTES]
    told = {"trials": trials, "told": 0, "audited": 0, "unseen": 0}
    violations: list[str] = []
    for _ in range(trials):
        bit = chance.choice(used) * 8 + chance.randrange(8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        put_files(folder, {path.name: damaged})
        try:
            problems = problems_of(path, is_deep=True)
        except AgentError as error:
            problems = (error.message,)
        shown = (await sight_of(path, request_ids)).shown
        different = [name for name, value in truth.items() if name in shown and shown[name] != value]
        wrong = wrong_reads(shown, truth)
        if wrong or (different and not problems):
            violations.append(f"bit {bit}: {', '.join(wrong or different)}; audit: {problems[:2]}")
        if shown.keys() < truth.keys():
            told["told"] += 1
        elif problems:
            told["audited"] += 1
        else:
            told["unseen"] += 1
    return {**told, "wrong": len(violations), "violations": violations}
