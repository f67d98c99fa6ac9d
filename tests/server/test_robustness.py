"""Slow, hostile and disconnected clients do not affect others."""

import asyncio
import hmac
import json
import logging
import re
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.keyring import Keyring
from tests.server.rig import FAST, TICK_S, Server, Wire, ended, eventually, http_client, run, serving

from windlass import Event
from windlass.webhooks import Webhook
from windlass_protocol import EventMeta, JsonObject, JsonValue
from windlass_protocol.codec import decode
from windlass_server import Settings, app
from windlass_server.app import HttpConnection
from windlass_server.guard import Metrics, parse_body, read_body
from windlass_server.problems import Problem
from windlass_server.settings import (
    BATCH_BYTES,
    BODY_VALUES_MAX,
    FILES_MAX,
    FILES_PER_CONNECTION,
    FRAMES_BYTES_MAX,
    HEADER_BYTES_MAX,
    Limits,
)
from windlass_server.streams import Streams

pytestmark = pytest.mark.promise("L1")
AT = "2026-01-01T00:00:00.000Z"


def half_sent(key: str, path: str = "/v1/sessions") -> bytes:
    """A request without its announced body."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 100\r\n"
    )
    return f"{head}Content-Type: application/json\r\n\r\n{{".encode()


class Lost(HttpConnection):
    """A connection that soon takes a client for gone, and says so."""

    head_s_max = 0.5
    send_s_max = 0.5
    count = 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        Lost.count += 1


@asynccontextmanager
async def unread_export(
    folder: Path, limits: Limits, connection: type[HttpConnection]
) -> AsyncGenerator[Server]:
    """A server with a client that requests a large export and does not read it."""
    serve = serving(folder, settings=Settings(limits=limits), connection=connection)
    async with serve as server, server.client() as client:
        begun = (await client.post("/sessions", json={"message": "x" * 900_000})).json()
        address = f"/sessions/{begun['sessionId']}/messages"
        for _ in range(8):
            said = await client.post(address, json={"message": "x" * 900_000})
            await ended(client, said.json()["runId"])
        await eventually(lambda: server.streams_open == 0)
        with closing(socket.socket()) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", server.port))
            path = f"/v1/sessions/{begun['sessionId']}/export"
            await loop.sock_sendall(deaf, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await eventually(lambda: server.streams_open == 1)
            yield server


@pytest.mark.uncounted
def test_an_unread_export_blocks_no_other_request_and_is_disconnected(tmp_path: Path) -> None:
    async def main() -> None:
        limits = replace(FAST, requests_max=1, wait_s_max=0.05, send_s_max=1)
        async with unread_export(tmp_path, limits, HttpConnection) as server, server.client() as client:
            assert (await client.get("/agents")).status_code == 200
            await eventually(lambda: server.streams_open == 0)

    run(main())


@pytest.mark.uncounted
def test_nothing_is_kept_for_a_client_that_does_not_take_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with unread_export(tmp_path, FAST, Lost):
            before = Lost.count
            await eventually(lambda: Lost.count > before)

    run(main())


def test_an_export_has_all_lines_and_a_place_among_the_streams(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, streams_max=1))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "x" * 200_000})).json()
            await ended(client, begun["runId"])
            await eventually(lambda: server.streams_open == 0)
            path = f"/sessions/{begun['sessionId']}"
            lines = (await client.get(f"{path}/export")).text.splitlines()
            assert json.loads(lines[-1])["lines"] == len(lines) - 1
            await eventually(lambda: server.streams_open == 0)
            wire = await Wire.get(server.port, f"{path}/events")
            assert wire.status == 200
            assert (await client.get(f"{path}/export")).status_code == 503

    run(main())


def test_bodies_that_do_not_come_take_the_places_of_their_sender_alone(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, eve = keys.add("a", "acme", "ann"), keys.add("e", "other", "eve")
        limits = replace(FAST, requests_max=3, requests_per_principal_max=2, wait_s_max=0.05)
        settings = Settings(keys=keys.path, limits=limits)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            server.client(eve) as bad,
            server.client(ann) as good,
        ):
            wires = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
            for _, writer in wires:
                writer.write(half_sent(eve))
            while (busy := await bad.get("/agents")).status_code == 200:
                pass
            assert (busy.status_code, busy.json()["code"]) == (503, "unavailable")
            for _ in range(3):
                assert (await good.get("/agents")).status_code == 200
            for _, writer in wires:
                writer.transport.abort()
            while (await bad.get("/agents")).status_code != 200:
                pass

    run(main())


def test_unsigned_bodies_that_do_not_come_take_no_places_of_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a-secret-of-the-hub"
    monkeypatch.setenv("HUB", secret)
    hook = Webhook("issues", agent="talker", scheme="github", secrets=("HUB",), message="x")
    body = b"{}"
    signed = {
        "x-hub-signature-256": f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}",
        "x-github-delivery": "1",
    }

    async def main() -> None:
        limits = replace(FAST, requests_max=3, requests_per_principal_max=2, wait_s_max=0.05)
        async with (
            serving(tmp_path, settings=Settings(limits=limits), webhooks=[hook]) as server,
            http_client(f"http://127.0.0.1:{server.port}") as client,
        ):
            wires = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
            for number, (_, writer) in enumerate(wires):
                # Two of one address, and one of another, behind a proxy on this machine.
                head = f"Host: localhost\r\nX-Forwarded-For: 203.0.113.{number // 2}\r\n".encode()
                writer.write(half_sent("none", "/webhooks/issues").replace(b"Host: localhost\r\n", head))
            while (await client.get("/webhooks/issues")).status_code != 503:
                pass
            for _ in range(3):
                assert (await client.get("/v1/agents")).status_code == 200
            for _, writer in wires:
                writer.transport.abort()
            while (await client.post("/webhooks/issues", content=body, headers=signed)).status_code != 202:
                pass

    run(main())


class Patient(HttpConnection):
    """A connection that waits for ever for the head of a request."""

    head_s_max = 1e6


def test_a_new_connection_takes_the_place_of_the_one_that_waits_longest_for_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "connections_max", lambda: 4)

    async def main() -> None:
        async with serving(tmp_path, connection=Patient) as server:
            # In the middle of a request: it keeps its place.
            busy = await Wire.get(server.port, "/events")
            assert busy.status == 200
            idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(9)]
            for reader, writer in idle[:6]:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.transport.abort()
            for reader, writer in idle[6:]:
                writer.write(LAST)
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.transport.abort()
            assert server.streams_open == 1
            busy.cut()

    run(main())


def test_a_server_opens_as_many_files_as_its_system_allows(tmp_path: Path) -> None:
    few = 256
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = (
        "import resource\n"
        "from windlass_server import app\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({few}, {hard}))\n"
        "app.allow_files()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], app.connections_max())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    files, connections = map(int, done.stdout.split())
    assert files == (FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard))
    assert connections == files // FILES_PER_CONNECTION


def test_a_slow_body_after_its_answer_is_disconnected(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, connection=Lost) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = "POST /v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
            writer.write(head.encode())
            assert b"405" in await reader.readline()
            await reader.readuntil(b"\r\n\r\n")
            with suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"x")
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(65_536), TICK_S)
            writer.transport.abort()

    run(main())


GET = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/health HTTP/1.1\r\nHost: localhost\r\n"
LAST = GET + b"Connection: close\r\n\r\n"
NO_BODY = b"\r\n0\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
REFUSED = {
    "length and coding": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" + NO_BODY,
    "coding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n" + NO_BODY,
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "signed length": POST + b"Content-Length: +2\r\n\r\n{}",
    "length in parts": POST + b"Content-Length: 1 0\r\n\r\n{}",
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n" + NO_BODY,
    "coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + NO_BODY,
    "unknown coding": POST + b"Transfer-Encoding: xchunked\r\n" + NO_BODY,
    "no coding": POST + b"Transfer-Encoding: identity\r\n" + NO_BODY,
    "hidden coding": POST + b"Transfer-Encoding: \x0bchunked\r\n" + NO_BODY,
    "coding with a space": POST + b"Transfer-Encoding : chunked\r\n" + NO_BODY,
    "no host": b"GET /v1/health HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: other\r\n\r\n",
    "line without an end": GET + b"X: a\rb\r\n\r\n",
    "zero in a header": GET + b"X: a\0b\r\n\r\n",
    "folded header": b"GET /v1/health HTTP/1.1\r\n Host: x\r\nHost: localhost\r\n\r\n",
    "header without a colon": GET + b"Xyz\r\n\r\n",
    "no version": b"GET /v1/health\r\n\r\n",
    "control character in the target": b"GET /v1/\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "chunk without an end": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}x0\r\n\r\n",
    "head without an end": GET + b"X: " + b"a" * (4 * HEADER_BYTES_MAX),
    "target without an end": b"GET /" + b"a" * (4 * HEADER_BYTES_MAX),
}
ANSWERED = {
    "pipelined": (GET + b"\r\n" + GET + b"\r\n", ["200", "200"]),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\n\r\n", ["405"]),
    "upgrade": (GET + UPGRADE + b"\r\n", ["200"]),
    "upgrade with a length": (
        POST + UPGRADE + b"Content-Length: %d\r\n\r\n%b" % (len(GET), GET),
        ["405"],
    ),
    "upgrade with chunks": (
        POST + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(GET), GET),
        ["405"],
    ),
}


async def statuses(port: int, sent: bytes) -> list[str]:
    """Send bytes; return the statuses of all responses up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = b""
    with suppress(ConnectionError):
        while more := await reader.read(65_536):
            answer += more
    writer.transport.abort()
    return [status.decode() for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)]


def test_a_request_that_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            for name, sent in REFUSED.items():
                assert (name, await statuses(server.port, sent + LAST)) == (name, ["400"])

    run(main())


def test_requests_end_where_they_say_and_an_upgrade_that_is_not_offered_changes_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            for name, (sent, expected) in ANSWERED.items():
                assert (name, await statuses(server.port, sent + LAST)) == (name, [*expected, "200"])

    run(main())


def test_bytes_that_are_no_request_do_not_harm_the_response_before_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            assert await statuses(server.port, GET + b"\r\n\0\r\n\r\n" + LAST) == ["200", "400"]

    run(main())


def test_a_body_arrives_whole_although_its_request_asks_for_an_upgrade(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            head = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            body = json.dumps({"message": "Hello."}).encode()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
            await writer.drain()
            writer.write(body[5:])
            assert b" 202 " in await reader.readline()
            writer.transport.abort()

    run(main())


def test_a_header_behind_a_body_is_no_header_of_the_request(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("a", "acme", "ann")
        settings = Settings(keys=keys.path, limits=FAST)
        async with serving(tmp_path / "data", settings=settings) as server:
            head = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            behind = b"\r\n0\r\nAuthorization: Bearer %b\r\n\r\n" % ann.encode()
            assert await statuses(server.port, head + behind + LAST) == ["401", "200"]

    run(main())


def test_a_stream_does_not_outlive_its_key(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, other = keys.add("a", "acme", "ann"), keys.add("b", "acme", "ann")
        settings = Settings(keys=keys.path, limits=replace(FAST, heartbeat_s=0.05))
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            server.client(other) as client,
        ):
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            path = f"/sessions/{session_id}/events"
            gone = await Wire.get(server.port, path, authorization=f"Bearer {ann}")
            stays = await Wire.get(server.port, path, authorization=f"Bearer {other}")
            keys.change("a", revoked=True)
            told = [frame async for frame in gone.frames()]
            assert told[-1].event == "reconnect"
            said = await client.post(f"/sessions/{session_id}/messages", json={"message": "A secret."})
            assert said.status_code == 202
            async for frame in stays.frames():
                assert frame.event != "reconnect"
                if frame.type == "run.completed":
                    break

    run(main())


def test_a_busy_stream_does_not_outlive_its_key_either(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, other = keys.add("a", "acme", "ann"), keys.add("b", "acme", "ann")
        # So often that every event finds that it is time to look.
        settings = Settings(keys=keys.path, limits=replace(FAST, heartbeat_s=0.0001))
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            server.client(other) as client,
        ):
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            wire = await Wire.get(
                server.port, f"/sessions/{session_id}/events", authorization=f"Bearer {ann}"
            )
            keys.change("a", revoked=True)
            await client.post(f"/sessions/{session_id}/messages", json={"message": "A secret."})
            assert not any("A secret." in frame.data for frame in [one async for one in wire.frames()])

    run(main())


def test_an_unreadable_key_file_keeps_the_old_keys_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("a", "acme", "ann")
        good = keys.path.read_text()
        async with (
            serving(tmp_path / "data", settings=Settings(keys=keys.path, limits=FAST)) as server,
            server.client(ann) as client,
            server.client("wrong") as stranger,
        ):
            for broken in (good[:40], "", json.dumps({"keys": [{"id": "x", "sha256": "hunter2"}]})):
                caplog.clear()
                keys.path.write_text(broken)
                for _ in range(3):
                    assert (await client.get("/agents")).status_code == 200
                    refused = await stranger.get("/agents")
                    assert refused.status_code == 401
                    assert "keys.json" not in refused.text
                server_log = [one for one in caplog.records if one.name == "windlass.server"]
                [told] = [one for one in server_log if one.levelno > logging.WARNING]
                assert told.levelno == logging.ERROR
                assert "hunter2" not in told.getMessage()
            keys.path.unlink()
            keys.path.mkdir()
            assert (await client.get("/agents")).status_code == 200
            keys.path.rmdir()
            keys.change("a", revoked=True)
            assert (await client.get("/agents")).status_code == 401

    run(main())


CROSS = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}


@pytest.mark.promise("T1")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 202),
        ({"origin": "http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}, 202),
        ({"origin": "https://app.example.com", "sec-fetch-site": "cross-site"}, 202),
        ({"sec-fetch-site": "none"}, 202),
        (CROSS, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:{port}", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_without_keys_a_page_of_another_site_changes_nothing(
    tmp_path: Path, headers: dict[str, str], expected: int
) -> None:
    async def main() -> None:
        settings = Settings(limits=FAST, cors_origins=("https://app.example.com",))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            path, given = (
                f"/sessions/{begun['sessionId']}",
                {name: value.replace("{port}", str(server.port)) for name, value in headers.items()},
            )
            answers = [
                await client.post(f"{path}/cancel", headers=given),
                await client.post(f"{path}/compact", headers=given),
            ]
            assert [one.status_code for one in answers] == [expected] * 2
            removed = await client.delete(path, headers=given)
            assert removed.status_code == (403 if expected == 403 else 200)

    run(main())


def test_answers_to_other_origins_have_no_cors_header(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=FAST, cors_origins=("https://app.example.com",))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={"message": "Hello."})).json()["sessionId"]
            for path in ("/sessions", f"/sessions/{session_id}/events?follow=false"):
                found = await client.get(path, headers=CROSS)
                assert found.status_code == 403
                assert "access-control-allow-origin" not in found.headers

    run(main())


@pytest.mark.promise("T1")
def test_requests_of_other_pages_do_not_use_up_the_rate_limit_of_the_user(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, requests_per_s=0.01, requests_burst=2))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            for headers in (CROSS, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
                answers = [await client.get("/sessions", headers=headers) for _ in range(5)]
                assert {one.status_code for one in answers} == {403}
            begun = await client.post("/sessions", json={"message": "Hello."})
            assert begun.status_code == 202
            assert (await client.post(f"/runs/{begun.json()['runId']}/cancel")).status_code == 202
            assert (await client.get("/sessions")).status_code == 429

    run(main())


@pytest.mark.promise("T1")
def test_answers_are_not_stored_sniffed_or_embedded_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={"message": "Hello."})).json()["sessionId"]
            paths = (
                "/sessions",
                "/agents",
                "/runs/none",
                "/health",
                f"/sessions/{session_id}/events?follow=false",
            )
            for path in paths:
                headers = (await client.get(path)).headers
                assert headers["cache-control"] == "no-store", path
                assert headers["x-content-type-options"] == "nosniff", path
                assert headers["cross-origin-resource-policy"] == "same-origin", path

    run(main())


def event_of(size: int) -> Event:
    return Event(type="custom.said", meta=EventMeta(at=AT), data={"message": "x" * size})


def test_an_event_that_is_too_deep_to_be_sent_does_not_end_the_feed() -> None:
    data: JsonObject = {}
    for _ in range(80):
        data = {"a": data}
    event = Event(
        type="note.made", data=data, meta=EventMeta(at="2026-01-31T09:00:00Z"), session_id="s1", seq=7
    )
    sent = json.loads(Streams(Limits(), Metrics()).raw(event))
    assert (sent["type"], sent["seq"], sent["sessionId"]) == ("event.unsent", 7, "s1")
    assert sent["data"]["type"] == "note.made"
    decode(Event, json.dumps(sent))


def test_the_cache_of_encoded_events_is_limited_in_bytes() -> None:
    streams = Streams(Limits(), Metrics())

    def kept(size: int, count: int) -> int:
        events = [event_of(size) for _ in range(count)]
        assert all(streams.raw(one) == streams.raw(one) for one in events)
        refs = [ref(one) for one in events]
        events.clear()
        return sum(one() is not None for one in refs)

    assert kept(BATCH_BYTES, 10) == 0
    size = BATCH_BYTES // 2
    assert 0 < kept(size, 1_000) <= FRAMES_BYTES_MAX // size
    assert kept(10, 10) == 10


def test_the_number_of_values_of_a_body_is_limited_and_commas_in_strings_do_not_count(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            headers = {"content-type": "application/json"}
            members = ",".join(f'"k{at}":0' for at in range(95_000))
            for body in ("{" + members + "}", '{"message":[' + '{"type":"x"},' * 80_000 + "0]}"):
                answer = await client.post("/sessions", content=body, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
                assert f"{BODY_VALUES_MAX:,}" in answer.json()["detail"]
            wordy = await client.post("/sessions", json={"message": ',[{\\"' * 100_000})
            assert wordy.status_code == 202

    run(main())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a,[{"\\', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('a,{"\\', max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def values_in(value: Any) -> int:
    """Commas and opening brackets that are needed to write a value."""
    if not isinstance(value, dict | list):
        return 0
    given = cast(dict[str, object] | list[object], value)
    items = list(given.values()) if isinstance(given, dict) else given
    return max(len(items), 1) + sum(map(values_in, items))


@given(JSON)
def test_the_values_of_a_body_are_counted_outside_of_strings(value: object) -> None:
    filled = [value, [0] * (BODY_VALUES_MAX - 2 - values_in(value))]
    for more, is_taken in ((0, True), (1, False)):
        raw = json.dumps([*filled, *[0] * more]).encode()

        async def receive(raw: bytes = raw) -> dict[str, object]:
            return {"type": "http.request", "body": raw}

        async def read() -> JsonValue:
            read = await read_body(receive, Limits(), declared=None)
            return parse_body(read, Limits(), kind="application/json")

        if is_taken:
            assert asyncio.run(read()) == json.loads(raw)
        else:
            with pytest.raises(Problem, match="too many values"):
                asyncio.run(read())


def test_a_name_that_no_file_can_have_is_not_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            found = await client.get(f"http://127.0.0.1:{server.port}/{'a' * 5_000}")
            assert found.status_code == 404

    run(main())
