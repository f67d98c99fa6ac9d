"""Limits: at the limit, one past it, and the error."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Wire, eventually, run, serving, talker

from windlass import Agent, Rejected, Unavailable
from windlass.parts import MemoryStore
from windlass.testing import Answer, FakeClock, ScriptedModel
from windlass_server import Settings, Tenants
from windlass_server.app import HttpConnection
from windlass_server.guard import Meter, Metered
from windlass_server.reservations import Reservations, ReservedSession
from windlass_server.settings import HEADER_BYTES_MAX, TARGET_BYTES_MAX
from windlass_server.tenants import file_name

pytestmark = pytest.mark.promise("L1")


def test_a_body_may_be_as_large_as_the_limit_and_not_one_byte_larger(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, body_bytes_max=1_000))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            frame = len(json.dumps({"message": ""}))
            for extra, expected in ((0, 202), (1, 413), (1_000_000, 413), (5_000_000, 413)):
                body = json.dumps({"message": "x" * (1_000 - frame + extra)})
                headers = {"content-type": "application/json"}
                answer = await client.post("/sessions", content=body, headers=headers)
                assert answer.status_code == expected, extra
                assert expected == 202 or answer.json()["code"] == "too_large"

            async def chunks() -> AsyncIterator[bytes]:
                for _ in range(20):
                    yield b" " * 100

            answer = await client.post(
                "/sessions", content=chunks(), headers={"content-type": "application/json"}
            )
            assert answer.status_code == 413

    run(main())


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, body_s_max=0.05))
        async with serving(tmp_path, settings=settings) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            writer.write(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
            assert b"408" in await reader.readline()
            writer.transport.abort()

    run(main())


class Hasty(HttpConnection):
    """A connection that waits only a moment."""

    head_s_max = 0.5


@pytest.mark.parametrize(
    "sent", [b"", b"GET /v1/hea", b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "]
)
def test_a_connection_without_a_complete_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    async def main() -> None:
        async with serving(tmp_path, connection=Hasty) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            stream = await Wire.get(server.port, f"/sessions/{session_id}/events")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            assert await reader.read() == b""
            writer.transport.abort()
            # One that has said it may take its time.
            assert (await client.post(f"/sessions/{session_id}/messages", json={"message": "Hi."})).is_success
            async for frame in stream.frames():
                if frame.type == "run.completed":
                    break

    run(main())


def test_addresses_and_headers_have_limits(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            room = TARGET_BYTES_MAX - len("/v1/healthq=")
            assert (await client.get(f"/health?q={'x' * room}")).status_code == 200
            long = await client.get(f"/health?q={'x' * (room + 1)}")
            assert (long.status_code, long.json()["code"]) == (414, "too_large")
            headers = {"x-more": "x" * HEADER_BYTES_MAX}
            wide = await client.get("/health", headers=headers)
            assert (wide.status_code, wide.json()["code"]) == (431, "too_large")

    run(main())


def test_a_tenant_over_its_bytes_gets_429_before_it_sends_the_body(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob, eve = (
            keys.add("a", "acme", "ann"),
            keys.add("b", "acme", "bob"),
            keys.add("c", "evil", "eve"),
        )
        limits = replace(FAST, body_bytes_max=1_000, bytes_per_s=0.5, bytes_burst=1_500)
        async with serving(tmp_path / "data", settings=Settings(keys=keys.path, limits=limits)) as server:

            async def answer_to(key: str, length: int, body: bytes = b"") -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                head = f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
                head += f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
                writer.write(head.encode() + body)
                told = await reader.readuntil(b"\r\n\r\n")
                writer.transport.abort()
                return told

            body = json.dumps({"message": "x" * 900}).encode()
            assert b" 202 " in await answer_to(ann, len(body), body)
            # No byte of the body is sent. Another user of the tenant shares its limit.
            told = await answer_to(bob, len(body))
            assert b" 429 " in told
            assert b"retry-after:" in told.lower()
            # A false length costs no more than the largest body; other tenants have limits of their own.
            assert b" 413 " in await answer_to(eve, 10**15)
            assert b" 429 " in await answer_to(eve, 10**15)
            assert b" 202 " in await answer_to(eve, 2, b"{}")

            async def chunks() -> AsyncIterator[bytes]:
                yield body

            headers = {"content-type": "application/json"}
            async with server.client(bob) as client:
                chunked = await client.post("/sessions", content=chunks(), headers=headers)
                assert (chunked.status_code, chunked.json()["code"]) == (429, "rate_limited")
                assert (await client.get("/sessions")).status_code == 200

    run(main())


def test_a_tenant_over_its_cpu_time_gets_429_and_others_do_not(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob, eve = (
            keys.add("a", "acme", "ann"),
            keys.add("b", "acme", "bob"),
            keys.add("c", "evil", "eve"),
        )
        # Any request costs more than the burst.
        limits = replace(FAST, cpu_per_s=1e-12, cpu_burst_s=1e-9)
        async with serving(tmp_path / "data", settings=Settings(keys=keys.path, limits=limits)) as server:
            for key, expected in ((ann, 200), (ann, 429), (bob, 429), (eve, 200)):
                async with server.client(key) as client:
                    assert (await client.get("/agents")).status_code == expected

    run(main())


def test_the_cpu_time_of_a_request_is_that_of_its_steps() -> None:
    async def main() -> None:
        now, told = 0.0, list[float]()

        async def work() -> None:
            nonlocal now
            now += 1
            await asyncio.sleep(0)
            now += 2
            with pytest.raises(ValueError, match="no"):
                await asyncio.wait_for(refused(), None)
            now += 4
            raise LookupError

        async def refused() -> None:
            raise ValueError("no")

        with pytest.raises(LookupError):
            await Metered(work(), told=told.append, cpu_s=lambda: now)
        assert sum(told) == 7

        never = asyncio.Event()
        ends = list[str]()

        async def waiting() -> None:
            try:
                await never.wait()
            finally:
                ends.append("ended")

        async def metered() -> None:
            await Metered(waiting(), told=told.append)

        task = asyncio.create_task(metered())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        steps = Metered(waiting(), told=told.append).__await__()
        next(steps)
        steps.close()
        assert ends == ["ended", "ended"]

    run(main())


def test_a_debt_of_cost_is_at_most_one_burst() -> None:
    clock = FakeClock()
    meter = Meter(clock, per_s=1, burst=10)
    meter.charge("a", 1_000)
    assert meter.take("a", 0) == 10
    assert meter.take("b", 25) == 0
    assert meter.take("b", 25) == 25


def test_a_principal_over_its_rate_limit_gets_429_with_retry_after(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("a", "acme", "ann"), keys.add("b", "acme", "bob")
        limits = replace(FAST, requests_per_s=0.01, requests_burst=3)
        settings = Settings(keys=keys.path, limits=limits)
        async with serving(tmp_path / "data", settings=settings) as server:
            async with server.client(ann) as client:
                answers = [await client.get("/agents") for _ in range(4)]
                assert [one.status_code for one in answers] == [200, 200, 200, 429]
                assert answers[3].json()["code"] == "rate_limited"
                assert 90 <= int(answers[3].headers["retry-after"]) <= 100
            async with server.client(bob) as client:
                assert (await client.get("/agents")).status_code == 200

    run(main())


def test_an_address_that_guesses_keys_is_slowed_down_and_right_keys_from_there_are_not(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        right = keys.add("a", "acme", "ann")
        limits = replace(FAST, failures_per_s=0.01, failures_burst=3)
        settings = Settings(keys=keys.path, limits=limits)
        async with serving(tmp_path / "data", settings=settings) as server:
            async with server.client("wrong") as client:
                answers = [await client.get("/agents") for _ in range(4)]
                assert [one.status_code for one in answers] == [401, 401, 401, 429]
            async with server.client(right) as client:
                assert (await client.get("/agents")).status_code == 200

    run(main())


def test_a_busy_server_says_so_and_streams_do_not_make_it_busy(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, requests_max=1, wait_s_max=0.05))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            wires = [await Wire.get(server.port, f"/sessions/{session_id}/events") for _ in range(3)]
            assert [wire.status for wire in wires] == [200, 200, 200]
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
            writer.write(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
            while (busy := await client.get("/agents")).status_code == 200:
                pass
            assert (busy.status_code, busy.json()["code"]) == (503, "unavailable")
            assert busy.headers["retry-after"] == "1"
            writer.write(b"}")
            assert b"202" in await reader.readline()
            assert (await client.get("/agents")).status_code == 200
            writer.transport.abort()

    run(main())


def test_the_number_of_streams_is_limited(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, streams_max=2))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            path = f"/sessions/{session_id}/events"
            wires = [await Wire.get(server.port, path) for _ in range(2)]
            third = await client.get(path)
            assert (third.status_code, third.headers["retry-after"]) == (503, "1")
            wires[0].cut()
            await eventually(lambda: server.streams_open == 1)
            assert (await Wire.get(server.port, path)).status == 200

    run(main())


def test_tenants_are_closed_when_there_are_too_many_and_none_that_is_needed(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        agent = Agent("slow", model=ScriptedModel([Answer("Done.", gate=gate)]))
        tenants = Tenants(tmp_path, [agent, talker()], durability="process", open_max=2)
        await tenants.start()
        async with tenants.use("a") as tenant:
            handle = await tenant.runtime.start("slow", "Hello.", run_id="r1")
        async with tenants.use("b"):
            pass
        async with tenants.use("c"):  # takes the place of b, for a has a run
            assert tenants.open_count == 2
            with pytest.raises(Unavailable) as refused:
                async with tenants.use("b"):
                    pass
            assert refused.value.retry_after_ms is not None
        gate.set()
        assert (await handle.wait()).status == "completed"
        async with tenants.use("b"):
            assert tenants.open_count == 2
        await tenants.aclose()

    run(main())


def test_only_tenants_with_runs_that_have_not_ended_are_opened_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        slow = Agent("slow", model=ScriptedModel(lambda _: Answer("Done.", gate=gate)))
        first = Tenants(tmp_path, [slow, talker()], durability="process")
        await first.start()
        name = "An Odd Name/../with: everything"
        async with first.use(name) as tenant:
            await tenant.runtime.start("slow", "Hello.", run_id="r1")
        async with first.use("quiet") as tenant:
            await (await tenant.runtime.start("talker", "Hello.", run_id="r1")).wait()
        await first.aclose()
        gate.set()
        again = Tenants(tmp_path, [slow, talker()], durability="process")
        await again.start()
        assert again.open_count == 1
        async with again.use(name) as tenant:
            assert (await tenant.runtime.handle("r1").wait()).output == "Done."
            assert again.open_count == 1
        await again.aclose()

    run(main())
    assert all(path.parent == tmp_path for path in tmp_path.rglob("*.db"))


@pytest.mark.parametrize(
    "names",
    [
        ["acme", "Acme", "ACME", "acme ", " acme", "acme.", "acme/", "~acme", "ácme", "a" * 64, "a" * 65],
        ["..", ".", "/", "a/b", "a\\b", "con", "-", "_"],
    ],
)
def test_no_two_tenants_share_a_file_name(names: Sequence[str]) -> None:
    files = [file_name(name) for name in names]
    assert len({one.lower() for one in files}) == len(names)
    assert all("/" not in one and "\\" not in one and not one.startswith(".") for one in files)


def test_the_number_of_empty_sessions_of_a_user_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 20
    monkeypatch.setattr("windlass_server.reservations.SESSIONS_EMPTY_MAX", limit)

    async def main() -> None:
        table = Reservations(MemoryStore(), FakeClock())

        async def reserve(user: str, at: int) -> None:
            await table.reserve(ReservedSession(f"{user}-{at}", user, "agent", "now", "digest"))

        for at in range(limit):
            await reserve("ann", at)
        with pytest.raises(Unavailable):
            await reserve("ann", limit)
        await reserve("ann", 0)
        await reserve("bob", 0)
        await table.release("ann-0", "ann")
        await reserve("ann", limit)

    run(main())


def test_a_meter_fills_up_with_time_and_forgets_the_quietest() -> None:
    clock = FakeClock()
    meter = Meter(clock, per_s=2, burst=2, keys_max=2)
    assert [meter.take("a") for _ in range(3)] == [0, 0, 1]
    clock.advance(0.5)
    assert [meter.take("a"), meter.take("a")] == [0, 1]
    clock.advance(1_000)
    assert [meter.take("a") for _ in range(3)] == [0, 0, 1]
    meter.take("b")
    meter.take("c")
    assert meter.take("a") == 0


@pytest.mark.parametrize(
    ("host", "is_fine"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.7", False),
        ("example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_without_keys_a_server_listens_to_its_own_machine_alone(
    host: str, is_fine: bool, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"keys": []}', encoding="utf-8")
    with nullcontext() if is_fine else pytest.raises(Rejected, match="neither keys nor tokens"):
        Settings(host=host)
    Settings(host=host, keys=keys)


def test_pages_that_may_call_are_named() -> None:
    with pytest.raises(Rejected, match="cors_origins lists origins"):
        Settings(cors_origins=("*",))
