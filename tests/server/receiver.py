"""A real HTTP server that stands for Slack, or for an endpoint that is notified."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.server.rig import Json, eventually


@dataclass(frozen=True, slots=True)
class Got:
    """A request that was received."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)


@dataclass(slots=True)
class Receiver:
    """What was received, and what is answered."""

    answer: Callable[[Got], tuple[int, bytes]] = lambda _: (200, b'{"ok": true}')
    got: list[Got] = field(default_factory=list[Got])
    url: str = ""
    media_type: str = "text/plain"

    async def have(self, count: int) -> list[Got]:
        """Return the requests once there are so many."""
        await eventually(lambda: len(self.got) >= count)
        return self.got

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        lines = [line.partition(":") for line in head[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        got = Got(head[0].split()[1], headers, body)
        self.got.append(got)
        status, content = self.answer(got)
        sent = f"Content-Type: {self.media_type}\r\nContent-Length: {len(content)}"
        writer.write(f"HTTP/1.1 {status} X\r\n{sent}\r\n\r\n".encode() + content)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(answer: Callable[[Got], tuple[int, bytes]] | None = None) -> AsyncGenerator[Receiver]:
    """Receive requests on a loopback port."""
    receiver = Receiver() if answer is None else Receiver(answer)
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()
