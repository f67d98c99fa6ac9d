"""Server failures: only calls to the failed server are affected."""

import asyncio
import gzip
import json
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import streamable_http
from mcp_types import CallToolResult, TextContent, jsonrpc_message_adapter
from pydantic import JsonValue
from tests.mcp.rig import TOKEN, failure_of, friendly, http_server, opened, raw, use

from windlass import Unavailable
from windlass.mcp import McpServer, McpServers, connection, transports
from windlass.mcp.server import (
    MESSAGE_BYTES_MAX,
    MESSAGE_VALUES_MAX,
    RESULT_LEVELS_MAX,
    RESULT_PARTS_MAX,
)
from windlass.mcp.tools import Definition
from windlass.mcp.transports import STDERR_BYTES_MAX, BoundedTransport
from windlass_harness.redact import Redactor

START_MS = 1
"""For servers that never answer, however long one waits."""


def test_lines_that_are_no_messages_are_passed_over() -> None:
    async def story() -> None:
        async with opened(raw("garbage")) as servers:
            assert (await use(servers, "r__act")).data == "done"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("manner", "problem"),
    [
        ("only-garbage", "it ended, or closed the connection"),
        ("exits", "it ended, or closed the connection"),
        ("mute", "did not answer within 1 ms"),
        ("endless-list", "its list has no end"),
        ("two-of-one-name", "two tools with the same name"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_with_the_reason(manner: str, problem: str) -> None:
    async def story() -> None:
        with pytest.raises(Unavailable, match="the MCP server r cannot be used") as caught:
            async with opened(raw(manner, start_timeout_ms=START_MS if manner == "mute" else 60_000)):
                pass
        assert problem in caught.value.message

    asyncio.run(story())


def unusable(*code: str) -> str:
    """The error of a server process that runs this code."""

    async def story() -> str:
        server = McpServer.stdio(
            "broken",
            sys.executable,
            args=["-S", "-c", "\n".join(code)],
            env={"SECRET": TOKEN},
            start_timeout_ms=60_000,
        )
        with pytest.raises(Unavailable) as caught:
            async with opened(server):
                pass
        return caught.value.message

    return asyncio.run(story())


def test_a_server_that_fails_at_its_start_is_shown_with_the_end_of_its_stderr() -> None:
    told = unusable("import sys, os", "print('key', os.environ['SECRET'], file=sys.stderr)", "import nothing")
    assert "it ended, or closed the connection; the end of its stderr:\n" in told
    assert "ModuleNotFoundError: No module named 'nothing'" in told
    assert TOKEN not in told


@pytest.mark.parametrize("argument", [TOKEN, f"--db={TOKEN}"])
def test_an_argument_of_a_server_that_it_writes_to_its_stderr_is_masked(argument: str) -> None:
    async def story() -> str:
        code = "import sys; sys.exit(f'unrecognized arguments: {sys.argv[1:]}')"
        args = ["-S", "-c", code, argument]
        server = McpServer.stdio("broken", sys.executable, args=args, start_timeout_ms=60_000)
        with pytest.raises(Unavailable) as caught:
            async with opened(server):
                pass
        return caught.value.message

    told = asyncio.run(story())
    assert "unrecognized arguments" in told
    assert TOKEN not in told


def test_only_the_last_lines_of_a_long_stderr_are_shown() -> None:
    told = unusable(
        "import sys", "[print('line', n, file=sys.stderr) for n in range(100_000)]", "sys.exit(3)"
    )
    lines = told.partition("stderr:\n")[2].splitlines()
    assert lines[-1] == "line 99999"
    assert all(line.startswith("line ") for line in lines)
    assert len("\n".join(lines)) <= STDERR_BYTES_MAX


def test_a_program_that_is_not_there_is_named_with_the_reason_and_no_secret() -> None:
    async def story() -> None:
        server = McpServer.stdio("gone", f"/no/such/{TOKEN}; rm -rf /", args=[TOKEN])
        with pytest.raises(Unavailable, match="the program or folder does not exist") as caught:
            async with opened(server):
                pass
        assert TOKEN not in caught.value.message

    asyncio.run(story())


def test_one_server_that_fails_closes_the_others() -> None:
    async def story() -> None:
        with pytest.raises(Unavailable, match="the MCP server r "):
            async with McpServers([friendly(), raw("exits")]):
                pass
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("windlass-mcp")] == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("manner", "problem"),
    [
        ("huge", "was lost during the call"),
        ("floods", "was lost during the call"),
        ("deep", "was lost during the call"),
        ("dies", "was lost during the call"),
        ("nonsense", "its answer is not valid MCP"),
    ],
)
def test_a_call_without_an_answer_is_reported_as_possibly_done(manner: str, problem: str) -> None:
    async def story() -> None:
        async with opened(raw(manner)) as servers:
            said = await failure_of(servers, "r__act")
            assert problem in said
            assert "whether r__act had an effect is unknown" in said

    asyncio.run(story())


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("manner", "most", "problem"),
    [
        ("parts", RESULT_PARTS_MAX, "the result has too many parts: 1,001, limit 1,000"),
        # The result itself is a level, and so are its two fields.
        ("levels", RESULT_LEVELS_MAX - 1, "the result has too many levels: limit 160"),
    ],
)
def test_a_result_may_have_as_many_parts_and_levels_as_the_limits(
    manner: str, most: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[int]()
    before = connection.value_of

    def value_of(definition: Definition, result: CallToolResult) -> JsonValue:
        read.append(len(result.content))
        return before(definition, result)

    monkeypatch.setattr(connection, "value_of", value_of)

    async def story() -> None:
        async with opened(raw(manner)) as servers:
            assert (await use(servers, "r__act", count=most)).success
            assert problem in await failure_of(servers, "r__act", count=most + 1)
            # The server is still connected, and the large result was not read.
            assert (await use(servers, "r__act", count=1)).success
        assert len(read) == 2

    asyncio.run(story())


@pytest.mark.promise("L1")
def test_a_message_of_too_many_values_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = list[int]()
    adapter = transports.jsonrpc_message_adapter

    class Counting:
        def validate_json(self, line: bytes, *, by_name: bool) -> object:
            parsed.append(len(line))
            return adapter.validate_json(line, by_name=by_name)

    monkeypatch.setattr(transports, "jsonrpc_message_adapter", Counting())

    async def story() -> None:
        async with opened(raw("parts")) as servers:
            assert "was lost during the call" in await failure_of(servers, "r__act", count=200_000)
        assert max(parsed) < 100_000

    asyncio.run(story())


@pytest.mark.promise("L1")
def test_the_values_of_a_result_are_counted_in_a_bounded_walk() -> None:
    assert transports.result_problem([{"a": [1, 2]}]) is None
    assert transports.result_problem("text") is None
    assert "too many values" in (transports.result_problem({"a": [0] * MESSAGE_VALUES_MAX}) or "")


def test_an_answer_that_comes_twice_counts_once() -> None:
    async def story() -> None:
        async with opened(raw("twice")) as servers:
            results = [await use(servers, "r__act") for _ in range(3)]
            assert [result.data for result in results] == ["done"] * 3

    asyncio.run(story())


def test_definitions_that_are_dangerous_or_too_large_are_left_out_and_named() -> None:
    async def story() -> None:
        async with opened(raw("odd-tools")) as servers:
            assert [tool.name for tool in servers.tools] == ["r__act", "r__old"]
            reasons = {change.name: change.reason for change in servers.changes}
            assert {change.kind for change in servers.changes} == {"unusable"}
            assert "must stay inside the schema" in reasons["r__fetches"]
            assert "input schema is not valid" in reasons["r__looks"]
            assert "too large, or not valid JSON" in reasons["r__deep"]
            assert "too large, or not valid JSON" in reasons["r__large"]
            assert "its description is too long" in reasons["r__wordy"]
            assert "output schema is not valid" in reasons["r__promises"]

    asyncio.run(story())


def test_a_server_that_died_is_started_again_by_the_next_call(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(raw("dies-once", tmp_path / "died")) as servers:
            assert "is unknown" in await failure_of(servers, "r__act")
            assert (await use(servers, "r__act")).data == "done"

    asyncio.run(story())


def test_a_server_that_keeps_dying_is_started_less_and_less_often() -> None:
    now = 100.0

    async def story() -> None:
        nonlocal now
        async with McpServers([raw("dies")], clock=lambda: now) as servers:
            for _ in range(2):
                assert "is unknown" in await failure_of(servers, "r__act")
            said = await failure_of(servers, "r__act")
            assert "the next attempt is in 1 s; nothing was done" in said
            now += 1
            assert "is unknown" in await failure_of(servers, "r__act")
            assert "the next attempt is in 2 s" in await failure_of(servers, "r__act")

    asyncio.run(story())


def test_a_server_that_does_not_exit_is_killed() -> None:
    async def story() -> None:
        async with opened(raw("stubborn")) as servers:
            assert (await use(servers, "r__act")).success

    asyncio.run(asyncio.wait_for(story(), 300))


def test_cancelling_while_a_server_starts_leaves_no_task(tmp_path: Path) -> None:
    async def story() -> None:
        begun = tmp_path / "begun"
        opening = asyncio.create_task(McpServers([raw("mute", begun)]).__aenter__())
        while not begun.exists():
            await asyncio.to_thread(begun.exists)
        opening.cancel()
        await asyncio.wait((opening,))
        assert opening.cancelled()
        assert not any(task.get_name() == "windlass-mcp-r" for task in asyncio.all_tasks())

    asyncio.run(story())


# behind an address


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes]) -> AsyncGenerator[str]:
    """A server that answers every request with these bytes; its address is yielded."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line
        )
        writer.write(answer(await reader.readexactly(length)))
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"


def reply(body: bytes, status: str = "200 OK", headers: str = "content-type: application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def large(request: bytes) -> bytes:
    answer = {"jsonrpc": "2.0", "id": json.loads(request).get("id"), "result": {"x": "x" * 100 * 1024 * 1024}}
    return reply(json.dumps(answer).encode())


def packed(request: bytes) -> bytes:
    body = gzip.compress(b" " * 100 * 1024 * 1024)
    return reply(body, headers="content-type: application/json\r\ncontent-encoding: gzip")


REPLIES = {
    "unauthorized": reply(b"", status="401 Unauthorized"),
    "redirect": reply(b"", status="307 Temporary Redirect", headers="location: http://127.0.0.2:9/steal"),
    "not json": reply(b"not json"),
    "no event": reply(b"data: x\n\n" * 3, headers="content-type: text/event-stream"),
    "no http": b"nonsense\r\n\r\n",
    "nothing": b"",
}


def fixed(name: str) -> Callable[[bytes], bytes]:
    def answer(request: bytes) -> bytes:
        return REPLIES[name]

    return answer


@pytest.mark.parametrize(
    "answer", [large, packed, *(fixed(name) for name in REPLIES)], ids=["large", "packed", *REPLIES]
)
def test_a_bad_answer_of_an_http_server_raises_unavailable_without_the_token(
    answer: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with answering(answer) as url:
            server = McpServer.http("h", url, headers={"X-Key": TOKEN}, start_timeout_ms=30_000)
            with pytest.raises(Unavailable, match="the MCP server h cannot be used") as caught:
                async with opened(server):
                    pass
            assert TOKEN not in caught.value.message

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("headers", "size", "is_fine"),
    [
        ({"content-type": "application/json"}, MESSAGE_BYTES_MAX, True),
        ({"content-type": "application/json"}, MESSAGE_BYTES_MAX + 1, False),
        ({"content-type": "text/event-stream"}, MESSAGE_BYTES_MAX, True),
        ({"content-type": "text/event-stream"}, MESSAGE_BYTES_MAX + 1, False),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 1, False),
    ],
)
def test_an_answer_may_have_the_size_of_a_message_and_must_not_be_packed(
    headers: dict[str, str], size: int, is_fine: bool
) -> None:
    async def body() -> AsyncGenerator[bytes]:
        yield b"x" * size

    async def story() -> int:
        inner = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body()))
        async with httpx2.AsyncClient(transport=BoundedTransport(inner)) as client:
            return len((await client.get("http://example.com")).content)

    if is_fine:
        assert asyncio.run(story()) == size
    else:
        with pytest.raises((httpx2.StreamError, httpx2.SSEError, httpx2.ReadError)):
            asyncio.run(story())


@pytest.mark.parametrize("values", [MESSAGE_VALUES_MAX, MESSAGE_VALUES_MAX + 1])
@pytest.mark.parametrize("chunk_bytes", [1_000, 10_000_000])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_the_values_of_an_answer_are_counted_before_it_is_read(
    kind: str, chunk_bytes: int, values: int
) -> None:
    array = b"[" + b"1," * (values - 1) + b"1]"
    event = b"event: message\r\ndata: " + array + b"\r\n\r\n"
    sent = array if kind == "application/json" else event * 3

    async def body() -> AsyncGenerator[bytes]:
        for at in range(0, len(sent), chunk_bytes):
            yield sent[at : at + chunk_bytes]

    async def story() -> bytes:
        headers = {"content-type": kind}
        inner = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body()))
        async with httpx2.AsyncClient(transport=BoundedTransport(inner)) as client:
            return (await client.get("http://example.com")).content

    if values <= MESSAGE_VALUES_MAX:
        assert asyncio.run(story()) == sent
    else:
        with pytest.raises((httpx2.StreamError, httpx2.SSEError), match="more than 100,000 values"):
            asyncio.run(story())


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_with_millions_of_values_fails_its_call_and_is_not_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    adapter = jsonrpc_message_adapter

    class Counting:
        """Counts the bytes that the SDK reads."""

        def validate_json(self, raw: bytes | str, **options: Any) -> object:
            read.append(len(raw))
            return adapter.validate_json(raw, **options)

    monkeypatch.setattr(streamable_http, "jsonrpc_message_adapter", Counting())
    bomb = b"[" + b"[]," * 2_000_000 + b"1]"

    def answer(request: bytes) -> bytes:
        asked = json.loads(request)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "h", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
        }
        if "id" not in asked:
            return reply(b"", status="202 Accepted")
        head = b'{"jsonrpc":"2.0","id":' + json.dumps(asked["id"]).encode()
        if asked["method"] == "tools/call":
            body = head + b',"result":{"content":[],"structuredContent":{"a":' + bomb + b"}}}"
            body = body if kind == "application/json" else b"data: " + body + b"\n\n"
            return reply(body, headers=f"content-type: {kind}")
        if asked["method"] not in results:
            return reply(head + b',"error":{"code":-32601,"message":"unknown"}}')
        return reply(head + b',"result":' + json.dumps(results[asked["method"]]).encode() + b"}")

    async def story() -> str:
        async with answering(answer) as url, opened(McpServer.http("h", url)) as servers:
            return await failure_of(servers, "h__act")

    assert asyncio.run(asyncio.wait_for(story(), 300))
    assert read
    assert max(read) < 10_000


@pytest.mark.parametrize(("values", "is_on_loop"), [(10, True), (20_000, False)])
def test_a_large_result_is_checked_in_a_thread(
    values: int, is_on_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    value_of = connection.value_of

    def traced(definition: Definition, result: CallToolResult) -> JsonValue:
        threads.append(threading.get_ident())
        return value_of(definition, result)

    async def called(*_: object) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": [1] * values})

    monkeypatch.setattr(connection, "value_of", traced)
    monkeypatch.setattr(connection.McpConnection, "_call", called)

    async def story() -> None:
        async with opened(raw("fine")) as servers:
            assert (await use(servers, "r__act")).data == {"a": [1] * values}

    asyncio.run(story())
    assert (threads == [threading.get_ident()]) is is_on_loop


@pytest.mark.parametrize(("size", "is_on_loop"), [(10, True), (200_000, False)])
def test_a_large_result_is_masked_in_a_thread(
    size: int, is_on_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    mask = Redactor.value

    def traced(redactor: Redactor, value: object) -> object:
        if value == "ab " * size:
            threads.append(threading.get_ident())
        return mask(redactor, value)

    async def called(*_: object) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="ab " * size)])

    monkeypatch.setattr(Redactor, "value", traced)
    monkeypatch.setattr(connection.McpConnection, "_call", called)

    async def story() -> None:
        async with opened(raw("fine")) as servers:
            assert (await use(servers, "r__act")).data == "ab " * size

    asyncio.run(story())
    assert threads
    assert {thread == threading.get_ident() for thread in threads} == {is_on_loop}


def test_an_address_that_never_answers_is_given_up() -> None:
    async def story() -> None:
        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
            with pytest.raises(Unavailable, match="did not answer within 1 ms"):
                async with opened(McpServer.http("h", url, start_timeout_ms=START_MS)):
                    pass

    asyncio.run(story())


def test_an_address_that_goes_away_in_the_middle_is_lost(tmp_path: Path) -> None:
    async def story() -> None:
        with http_server(tmp_path) as url:
            server = McpServer.http("f", url, headers={"Authorization": f"Bearer {TOKEN}"})
            async with opened(server) as servers:
                said = await failure_of(servers, "f__die")
                assert "whether f__die had an effect is unknown" in said
                assert "nothing was done" in await failure_of(servers, "f__greet", name="Ada")

    asyncio.run(story())
