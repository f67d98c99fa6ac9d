"""The card of an A2A agent does not decide where the key goes, with real servers on this machine."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from tests.toolbox.rig import play

from windlass import Agent, AgentRuntime
from windlass.client import RemoteAgent, a2a
from windlass.client.a2a import A2AServer, KeyTransport, a2a_probe
from windlass.limits import QUESTION_CHARS_MAX
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import ToolFailed

KEY = "key-of-the-research-agent"
PUBLIC = "93.184.216.34"


@dataclass
class Host:
    """A server that answers with a card or a redirect, and keeps what it was sent."""

    gets: str = "200 OK\r\n"
    """The status and headers of the answer to GET."""
    posts: str = "500 Error\r\n"
    body: bytes = b"{}"
    answer: str = ""
    """The result of each POST, as JSON, if there is one."""
    heard: list[str] = field(default_factory=list[str])
    connections: int = 0
    port: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["Host"]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heard.append(head)
                began = self.gets if head.startswith("GET") else self.posts
                body = self.body
                if not head.startswith("GET") and self.answer:
                    length = next(line for line in head.lower().split("\r\n") if "content-length" in line)
                    request = json.loads(await reader.readexactly(int(length.split(":")[1])))
                    result = f'{{"task": {self.answer}}}' if "Send" in request["method"] else self.answer
                    body = f'{{"jsonrpc": "2.0", "id": "{request["id"]}", "result": {result}}}'.encode()
                    began = "200 OK\r\n"
                size = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
                kind = "Content-Type: application/json\r\n"
                writer.write(f"HTTP/1.1 {began}{kind}{size}\r\n".encode() + body)
                await writer.drain()
            except asyncio.IncompleteReadError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self


def card(url: str) -> bytes:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return json.dumps(
        {
            "name": "research",
            "description": "It researches.",
            "version": "1",
            "supportedInterfaces": [interface],
            "capabilities": {},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
        }
    ).encode()


def task(state: str, part: str) -> str:
    """Return a task whose message has a part, as JSON."""
    message = f'{{"messageId": "m", "role": "ROLE_AGENT", "parts": [{part}]}}'
    return (
        f'{{"id": "t", "contextId": "c", "status": {{"state": "TASK_STATE_{state}", "message": {message}}}}}'
    )


async def ask(host: Host, monkeypatch: pytest.MonkeyPatch, key: str | None = KEY) -> str:
    """Have an agent ask the agent of a host; return what it was told."""
    if key is None:
        monkeypatch.delenv("RESEARCH_KEY", raising=False)
    else:
        monkeypatch.setenv("RESEARCH_KEY", key)
    model = ScriptedModel(by_history([call("research", {"message": "Find it."}), say("Done.")]))
    url = f"a2a://127.0.0.1:{host.port}/research"
    boss = Agent("boss", model=model, subagents=[RemoteAgent("research", url=url, key_env="RESEARCH_KEY")])
    async with AgentRuntime.in_memory([boss]) as runtime:
        await (await runtime.start_run(boss, "Go.")).wait()
    return str(model.requests[-1].messages[-1].content)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:PORT/steal",
        "http://localhost:PORT/steal",
        "https://127.0.0.1:PORT/steal",
        "https://localhost:PORT/steal",
        "https://169.254.169.254/latest",
        "http://research.example.com/",
        "https://[::1]:PORT/",
        "ftp://127.0.0.1:PORT/",
        "http://127.0.0.1:OWN@127.0.0.1:PORT/",
    ],
)
def test_a_card_that_names_another_server_sends_nothing_there(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Host().serving() as other, Host().serving() as host:
            host.body = card(url.replace("PORT", str(other.port)).replace("OWN", str(host.port)))
            told = await ask(host, monkeypatch)
            assert other.connections == 0
            assert [one.split()[0] for one in host.heard] == ["GET"]
            assert "nothing was sent there" in told, told
            assert KEY not in told

    play(story())


def test_a_card_that_names_its_own_server_gets_the_task_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Host().serving() as host:
            host.body = card(f"http://127.0.0.1:{host.port}/work")
            await ask(host, monkeypatch)
            assert [one.split("\r\n")[0] for one in host.heard][1:2] == ["POST /work HTTP/1.1"]
            assert all(
                f"authorization: Bearer {KEY}" in one.lower().replace("bearer", "Bearer")
                for one in host.heard
            )

    play(story())


@pytest.mark.parametrize("key", [None, ""])
def test_nothing_is_sent_while_the_variable_of_the_key_is_not_set(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Host().serving() as host:
            host.body = card(f"http://127.0.0.1:{host.port}/work")
            told = await ask(host, monkeypatch, key)
            assert "the environment variable RESEARCH_KEY is not set" in told, told
            assert host.connections == 0

    play(story())


def test_redirects_of_the_card_and_of_the_task_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Host().serving() as other, Host().serving() as host:
            redirect = f"307 Temporary Redirect\r\nLocation: http://127.0.0.1:{other.port}/steal\r\n"
            host.body = card(f"http://127.0.0.1:{host.port}/work")
            host.posts = redirect
            await ask(host, monkeypatch)
            assert [one.split()[0] for one in host.heard[:2]] == ["GET", "POST"]
            host.gets = redirect
            await ask(host, monkeypatch)
            assert other.connections == 0

    play(story())


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        ({"protocolBinding": "GRPC"}, "no compatible transports"),
        ({"url": "http://[::1"}, "Invalid port"),
        ({"url": "http://127.0.0.1/\r\nx: y"}, "Invalid non-printable"),
        ({"url": "http://0177.0.0.1/"}, "Invalid IPv4"),
    ],
)
def test_a_card_that_cannot_be_used_fails_the_call_and_is_no_outage(
    interface: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Host().serving() as host:
            given = json.loads(card(f"http://127.0.0.1:{host.port}/work"))
            given["supportedInterfaces"][0] |= interface
            host.body = json.dumps(given).encode()
            told = await ask(host, monkeypatch)
            assert "the A2A agent could not be asked: " in told, told
            assert words in told
            server = A2AServer(f"a2a://127.0.0.1:{host.port}/research", key=lambda: KEY, key_env=None)
            assert await a2a_probe(server)() is None

    play(story())


def test_an_answer_is_bounded_and_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Host().serving() as host:
            host.body = card(f"http://127.0.0.1:{host.port}/work")
            monkeypatch.setattr(a2a, "ANSWER_BYTES_MAX", len(host.body))
            assert "500" in await ask(host, monkeypatch), "at the limit"
            monkeypatch.setattr(a2a, "ANSWER_BYTES_MAX", len(host.body) - 1)
            assert "the answer of the A2A agent is too large" in await ask(host, monkeypatch)
            monkeypatch.undo()
            host.body, host.gets = gzip.compress(host.body), "200 OK\r\nContent-Encoding: gzip\r\n"
            assert "compressed answer" in await ask(host, monkeypatch)
            assert all("accept-encoding: identity" in head.lower() for head in host.heard)

    play(story())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("[" * 120 + "]" * 120, "too deep"),
        ('"\\ud800"', "surrogate"),
    ],
)
def test_an_answer_that_the_sdk_cannot_read_fails_the_call_in_our_words(
    data: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Host().serving() as host:
            host.body = card(f"http://127.0.0.1:{host.port}/work")
            host.answer = task("INPUT_REQUIRED", f'{{"data": {data}}}')
            told = await ask(host, monkeypatch)
            assert "the A2A agent could not be asked: " in told, told
            assert words in told

    play(story())


@pytest.mark.parametrize("size", [QUESTION_CHARS_MAX, QUESTION_CHARS_MAX + 1, 1_000_000])
def test_the_words_of_a_task_that_asks_are_cut_to_the_size_of_a_question(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        monkeypatch.setenv("RESEARCH_KEY", KEY)
        async with Host().serving() as host:
            host.body = card(f"http://127.0.0.1:{host.port}/work")
            host.answer = task("INPUT_REQUIRED", json.dumps({"text": "w" * size}))
            model = ScriptedModel(by_history([call("research", {"message": "Find it."}), say("Done.")]))
            url = f"a2a://127.0.0.1:{host.port}/research"
            remote = RemoteAgent("research", url=url, key_env="RESEARCH_KEY")
            boss = Agent("boss", model=model, subagents=[remote])
            async with AgentRuntime.in_memory([boss]) as runtime:
                handle = await runtime.start_run(boss, "Go.")
                prompt = ""
                async for request in handle.requests():
                    prompt = request.prompt or ""
                    break
                assert prompt.startswith("w" * 1_000)
                assert ("[… cut" in prompt) is (size > QUESTION_CHARS_MAX)

    play(story())


class Pieces(httpx.AsyncByteStream):
    """A body that comes in pieces."""

    def __init__(self, body: bytes, size: int) -> None:
        self._pieces = [body[at : at + size] for at in range(0, len(body), size)]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for piece in self._pieces:
            yield piece


async def received(body: bytes, kind: str, size: int) -> bytes:
    """Return what the SDK gets of a body."""

    class Inner(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers={"content-type": kind}, stream=Pieces(body, size))

    url = httpx.URL("http://127.0.0.1:1/")
    response = await KeyTransport(url, None, Inner()).handle_async_request(httpx.Request("GET", url))
    return await response.aread()


JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
VALUES = b"[" + b"1," * (a2a.ANSWER_VALUES_MAX - 2) + b"1]"


@pytest.mark.parametrize("size", [1, 2, 3, 4_096, 10_000_000])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_each_event_of_a_stream_is_bounded_and_not_their_sum(
    size: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a, "ANSWER_BYTES_MAX", 40 if size < 10 else 10_000)
    events = "".join(f"data: {number}{end}" for number in range(200)).encode()
    assert play(received(events, EVENTS, size)) == events
    monkeypatch.setattr(a2a, "ANSWER_BYTES_MAX", 40)
    with pytest.raises(ToolFailed, match="too large: limit 40 bytes"):
        play(received(events + b"data: " + b"x" * 40, EVENTS, size))
    with pytest.raises(ToolFailed, match="too large: limit 40 bytes"):
        play(received(b"x" * 41, JSON, size))
    assert play(received(b"x" * 40, JSON, size)) == b"x" * 40
    monkeypatch.setattr(a2a, "STREAM_BYTES_MAX", len(events) - 1)
    monkeypatch.setattr(a2a, "ANSWER_BYTES_MAX", 10_000)
    with pytest.raises(ToolFailed, match="for all events"):
        play(received(events, EVENTS, size))


@pytest.mark.parametrize(("kind", "end"), [(JSON, b""), (EVENTS, b"\n\n")])
def test_the_values_of_an_answer_are_bounded(kind: str, end: bytes) -> None:
    assert play(received(VALUES + end, kind, 65_536)) == VALUES + end
    with pytest.raises(ToolFailed, match="limit 20,000 values"):
        play(received(b"[" + VALUES + b",1]" + end, kind, 65_536))


def test_the_page_on_security_tells_the_limits_of_an_answer() -> None:
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    [told] = [line for line in page.splitlines() if line.startswith("| the card of an A2A agent |")]
    one, all_events = a2a.ANSWER_BYTES_MAX >> 20, a2a.STREAM_BYTES_MAX >> 20
    assert f"at most {one} MiB and {a2a.ANSWER_VALUES_MAX:,} values" in told
    assert f"all events of a stream have at most {all_events} MiB" in told


def test_a_public_server_that_a_card_names_gets_the_task_without_the_key_at_the_checked_address() -> None:
    sent: list[httpx.Request] = []
    names: list[str] = []

    def keep(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200)

    async def resolver(host: str, port: int) -> list[str]:
        names.append(host)
        return [PUBLIC] if len(names) == 1 else ["10.0.0.1"]

    async def story() -> None:
        transport = KeyTransport(
            httpx.URL("https://a.example/x"), KEY, httpx.MockTransport(keep), resolver=resolver
        )
        for url in ("https://a.example:443/own", "https://b.example/work"):
            headers = {"authorization": "Bearer other"}
            await transport.handle_async_request(httpx.Request("POST", url, headers=headers))
        with pytest.raises(ToolFailed, match="not on the public internet"):
            await transport.handle_async_request(httpx.Request("POST", "https://b.example/work"))

    play(story())
    assert [one.headers.get("authorization") for one in sent] == [f"Bearer {KEY}", None]
    assert (sent[1].url.host, sent[1].headers["host"], sent[1].extensions["sni_hostname"]) == (
        PUBLIC,
        "b.example",
        "b.example",
    )
    assert names == ["b.example", "b.example"]
