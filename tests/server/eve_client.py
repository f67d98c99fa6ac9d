"""A client of eve 0.13.8: it sends turns, reads each to its boundary, and resumes a cut stream by number."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2
from tests.server.rig import Json, Wire, http_client

ROOT = "/eve/v1"
BOUNDARIES = {"session.waiting": "waiting", "session.completed": "completed", "session.failed": "failed"}


@dataclass(frozen=True, slots=True)
class Turn:
    """The events of one turn, up to its boundary."""

    events: list[Json]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events if event["type"] != "message.appended"]

    @property
    def status(self) -> str:
        return BOUNDARIES[self.events[-1]["type"]]

    @property
    def message(self) -> str | None:
        """The last message that is not followed by calls."""
        done = [event["data"] for event in self.events if event["type"] == "message.completed"]
        return next((one["message"] for one in reversed(done) if one["finishReason"] != "tool-calls"), None)

    @property
    def data(self) -> object:
        """The output for the schema."""
        found = [event["data"]["result"] for event in self.events if event["type"] == "result.completed"]
        return found[-1] if found else None

    @property
    def requests(self) -> list[Json]:
        asked = [event["data"]["requests"] for event in self.events if event["type"] == "input.requested"]
        return [request for requests in asked for request in requests]


class Refused(Exception):
    """The server refused a request; the text is the `error` of its body."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.json()["error"])
        self.status = response.status_code
        self.body: Json = response.json()


@dataclass(slots=True)
class EveClient:
    """One session of eve: its id, its token, and the number of events that were read."""

    port: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    session_id: str | None = None
    token: str | None = None
    index: int = 0
    cut_after: int | None = None
    """Cut the connection after every so many events, and resume."""
    connections: int = 0

    async def send(self, message: object = None, **body: Any) -> Turn:
        """Post a turn and read it to its boundary."""
        await self.post(message, **body)
        turn = Turn([event async for event in self.events()])
        if turn.status != "waiting":
            self.session_id = self.token = None
            self.index = 0
        return turn

    async def post(self, message: object = None, **body: Any) -> Json:
        """Post a turn: to the session, or to begin one."""
        known: Json = {} if self.token is None else {"continuationToken": self.token}
        said: Json = {} if message is None else {"message": message}
        path = "/session" if self.session_id is None else f"/session/{quote(self.session_id, safe='')}"
        answer = await self._post(path, {**known, **said, **body})
        found: Json = answer.json()
        assert found["ok"] is True
        assert answer.headers["x-eve-session-id"] == found["sessionId"]
        if self.session_id is None:
            assert answer.status_code == 202
            self.token = found["continuationToken"]
        else:
            assert answer.status_code == 200
            assert found["sessionId"] == self.session_id
        self.session_id = found["sessionId"]
        return found

    async def answer(self, turn: Turn, option: str, **body: Any) -> Turn:
        """Answer every request of a turn with an option."""
        return await self.send(inputResponses=responses(turn, option), **body)

    async def events(self, *, child: str | None = None) -> AsyncIterator[Json]:
        """Yield events up to a boundary, over as many connections as it takes."""
        while True:
            async for event in self._connection(child or self.session_id or ""):
                yield event
                if event["type"] in BOUNDARIES:
                    return

    async def _connection(self, session_id: str) -> AsyncIterator[Json]:
        query = f"?startIndex={self.index}" if self.index else ""
        path = f"/session/{quote(session_id, safe='')}/stream{query}"
        wire = await Wire.get(self.port, path, root=ROOT, **self.headers)
        assert wire.status == 200, wire.status
        assert wire.headers["content-type"] == "application/x-ndjson"
        assert wire.headers["x-eve-stream-format"] == "ndjson"
        assert wire.headers["x-eve-stream-version"] == "16"
        assert wire.headers["x-eve-session-id"] == session_id
        assert wire.headers["cache-control"] == "no-store"
        self.connections += 1
        read = 0
        try:
            async for event in wire.lines():
                assert event.keys() == {"type", "data", "meta"}
                self.index += 1
                read += 1
                yield event
                if read == self.cut_after:
                    return
        finally:
            wire.cut()

    async def _post(self, path: str, body: Json) -> httpx2.Response:
        address = f"http://127.0.0.1:{self.port}{ROOT}"
        async with http_client() as client:
            answer = await client.post(f"{address}{path}", json=body, headers=self.headers)
        if not answer.is_success:
            raise Refused(answer)
        return answer


def responses(turn: Turn, option: str) -> Sequence[Json]:
    return [{"requestId": request["requestId"], "optionId": option} for request in turn.requests]
