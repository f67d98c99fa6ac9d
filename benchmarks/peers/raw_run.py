"""The floor: the same commits with the same bytes, plain sqlite3, nothing else.

Two commits a step, as a durable step has: the answer of the model, and the result of the tool. The bodies
are encoded before the clock starts, a commit is one autocommitted INSERT, and the key of a row is (session,
number) packed into the rowid, so that there is one b-tree and no index.
Variants: `normal` (synchronous = NORMAL) and `full`, both with WAL; `decoded` differs from `full` in resume
alone: it also decodes the JSON of the rows that it reads.
"""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.task import FINAL, TOOL, Runner, Script, arguments, main

ROWS_PER_SESSION = 1 << 20


class Raw(Runner):
    def __init__(self, variant: str) -> None:
        self.name = f"raw-{variant}"
        self._synchronous = "NORMAL" if variant == "normal" else "FULL"
        self._decodes = variant == "decoded"
        self._bodies: dict[str, list[bytes]] = {}

    async def open(self, folder: Path, script: Script) -> None:
        self._script = script
        self._database = sqlite3.connect(folder / "bench.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(f"PRAGMA synchronous = {self._synchronous}")
        self._database.execute("CREATE TABLE IF NOT EXISTS log (key INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    async def prepare(self, sessions: Sequence[str]) -> None:
        self._bodies = {session: self._encode(session) for session in sessions}

    async def run(self, session: str) -> str:
        first = _first_key(session)
        step = self._script.crash_at
        bodies = self._bodies.get(session) or self._encode(session)
        for offset, body in enumerate(bodies if step is None else bodies[: 1 + 2 * step]):
            self._database.execute("INSERT INTO log VALUES (?, ?)", (first + offset, body))
        if step is not None:
            await self._script.answer(self._script.call(session, step - 1).id, 0)
        return FINAL

    async def resume(self, session: str) -> None:
        first = _first_key(session)
        span = (first, first + ROWS_PER_SESSION)
        query = "SELECT body FROM log WHERE key >= ? AND key < ? ORDER BY key"
        messages = [body for (body,) in self._database.execute(query, span)]
        if self._decodes:
            messages = [json.loads(body) for body in messages]
        await self._script.answer("s0:", len(messages))

    async def close(self) -> None:
        self._database.close()

    def _encode(self, session: str) -> list[bytes]:
        script = self._script
        bodies = [_body(role="user", content=script.prompt(session))]
        for step in range(script.steps):
            call = script.call(session, step)
            script.content_bytes += len(call.arguments_json)
            bodies.append(_body(role="assistant", id=call.id, name=TOOL, arguments=call.arguments))
            bodies.append(_body(role="tool", id=call.id, content=script.lookup(call.query, call.page)))
        script.model_calls += script.steps + 1
        script.content_bytes += len(FINAL) + len(script.prompt(session))
        return [*bodies, _body(role="assistant", content=FINAL)]


def _first_key(session: str) -> int:
    number = int(session[1:]) + 1 if session[1:].isdigit() else 0
    return number * ROWS_PER_SESSION


def _body(**message: object) -> bytes:
    return json.dumps(message).encode()


if __name__ == "__main__":
    options = arguments()
    main(Raw(options.variant or "full"), options)
