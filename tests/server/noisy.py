"""A noisy neighbour: one tenant sends large bodies, another one makes small requests meanwhile.

    python -m tests.server.noisy

The server is a process of its own, with its default limits. The figures are the slowest percent of the small
requests without and with the load. An open-loop client sends them: a request is due at its time whether or
not the one before it was answered, so a stall is counted by every request that falls into it.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from tests.server.keyring import Keyring
from tests.server.rig import process, talker

agents: Final = [talker()]
TEXT: Final = "https://ann:hunter22@example.com/a?token=abcdef123&x=1 "
"""URL-like text: every part of it is looked at by the masking of secrets."""
BODIES: Final = 120
BODY_BYTES: Final = 690_000
SAMPLES: Final = 200
CONNECTIONS: Final = 16
"""Bodies that are sent at the same time."""
LOAD_S: Final = 20.0
"""How long refused bodies are sent again, seconds."""
RETRY_S: Final = 2.0
"""The mean time before a refused body is sent again, seconds."""
EVERY_S: Final = 0.05
"""The time between two small requests, seconds."""
REFUSED_S: Final = 60.0
"""What a refused small request counts for, seconds."""
RATIO_MAX: Final = 10
"""How much slower the slowest percent may become under the load."""


async def ask(port: int, head: str, body: bytes = b"") -> int:
    """Send one request on a connection of its own; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        writer.write(head.encode() + body)
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()


def _head(method: str, path: str, key: str, length: int = 0) -> str:
    kind = f"Content-Type: application/json\r\nContent-Length: {length}\r\n" if length else ""
    return f"{method} /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n{kind}\r\n"


async def _timed(port: int, head: str) -> float:
    began = time.perf_counter()
    status = await ask(port, head)
    return time.perf_counter() - began if status == 200 else REFUSED_S


async def _sampled(port: int, head: str, *, until: "asyncio.Task[Any] | None" = None) -> list[float]:
    """Make small requests on schedule: `SAMPLES` of them, or until a task is done."""
    sent: list[asyncio.Task[float]] = []
    while len(sent) < SAMPLES or (until is not None and not until.done()):
        sent.append(asyncio.create_task(_timed(port, head)))
        await asyncio.sleep(EVERY_S)
    return await asyncio.gather(*sent)


def _slowest_percent(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


async def _load(port: int, key: str, *, bodies: int, size: int) -> dict[str, int]:
    """Send the large bodies from another process: the small requests are timed in this one."""
    given = [str(part) for part in (port, key, bodies, size)]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, *given, stdout=asyncio.subprocess.PIPE
    )
    return json.loads((await child.communicate())[0])


async def load(port: int, key: str, bodies: int, size: int) -> dict[int, int]:
    """Send large bodies, and again those that were refused; return the answers by status."""
    text = (TEXT * (size // len(TEXT) + 1))[:size]
    body = json.dumps({"message": text}).encode()
    head = _head("POST", "sessions", key, len(body))
    until = time.monotonic() + LOAD_S
    statuses, chance, turn = list[int](), random.Random(7), asyncio.Semaphore(CONNECTIONS)

    async def send() -> None:
        while time.monotonic() < until:
            async with turn:
                statuses.append(await ask(port, head, body))
            if statuses[-1] != HTTPStatus.TOO_MANY_REQUESTS:
                return
            await asyncio.sleep(RETRY_S * (0.5 + chance.random()))

    await asyncio.gather(*(send() for _ in range(bodies)))
    return {status: statuses.count(status) for status in sorted(set(statuses))}


async def noisy(folder: Path, *, bodies: int = BODIES, size: int = BODY_BYTES) -> dict[str, Any]:
    """Measure; `violations` says if the neighbour became slower than `RATIO_MAX` times."""
    keys = Keyring(folder / "keys.json")
    loud, quiet = keys.add("a", "loud", "ann"), keys.add("b", "quiet", "bob")
    place = ["--keys", str(keys.path), "--agents", f"{__spec__.name}:agents"]
    with process(folder / "data", *place) as (_, port):
        head = _head("GET", "sessions", quiet)
        await ask(port, _head("GET", "sessions", loud))
        await _sampled(port, head)
        idle = _slowest_percent(await _sampled(port, head))
        began = time.perf_counter()
        loading = asyncio.create_task(_load(port, loud, bodies=bodies, size=size))
        held = await _sampled(port, head, until=loading)
        took = time.perf_counter() - began
    slow = _slowest_percent(held)
    words = f"p99 {slow / idle:.1f} times the idle one, limit {RATIO_MAX}"
    return {
        "bodies": bodies,
        "statuses": await loading,
        "idle_p99_ms": round(idle * 1000, 1),
        "loaded_p99_ms": round(slow * 1000, 1),
        "loaded_max_ms": round(max(held) * 1000, 1),
        "load_s": round(took, 1),
        "violations": [words] if slow > RATIO_MAX * idle else [],
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        told = asyncio.run(load(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])))
    else:
        with tempfile.TemporaryDirectory() as place:
            told = asyncio.run(noisy(Path(place)))
    sys.stdout.write(json.dumps(told) + "\n")
