"""A remote agent whose server is away: the run waits and says why, and the model gets an error in the end."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.server.rig import FAST, Server, payer, run, serving

from windlass import Agent, AgentRuntime
from windlass.client import RemoteAgent
from windlass.client.remote import AWAY_MS
from windlass.ports.machine import Machine
from windlass.testing import (
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass_protocol import RunStatus
from windlass_server import Settings

KINDS = ["http", "a2a"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def boss_of(kind: str, port: int) -> Agent:
    path = "/v1/a2a/payer" if kind == "a2a" else ""
    helper = RemoteAgent("helper", url=f"{kind}://127.0.0.1:{port}{path}")
    model = ScriptedModel(by_history([call("helper", {"message": "Pay."}), say("Over.")]))
    return Agent("boss", model=model, subagents=[helper])


@asynccontextmanager
async def served(folder: Path, port: int) -> AsyncGenerator[Server]:
    async with serving(folder, [payer()], settings=Settings(limits=FAST), port=port) as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_stays_away_is_waited_for_and_then_an_error_that_the_model_sees(kind: str) -> None:
    clock, port = FakeClock(), free_port()

    async def main() -> None:
        boss = boss_of(kind, port)
        machine = Machine(clock, sequential_ids("id"), seeded_random(1))
        async with AgentRuntime.in_memory([boss], machine=machine) as runtime:
            began = clock.monotonic()
            handle = await runtime.start_run(boss, "Begin.", session_id="s", run_id="r")
            waits: list[str] = []
            async for event in runtime.subscribe_all():
                if event.run_id != "r" and event.type == "run.waiting":
                    waiting = (await runtime.run_snapshot(str(event.run_id))).waiting
                    assert waiting is not None
                    assert (waiting.on, waiting.until is not None) == ("provider", True)
                    assert waiting.reason is not None
                    waits.append(waiting.reason)
                if event.type == "run.completed":
                    break
            waited_ms = (clock.monotonic() - began) * 1_000
            assert AWAY_MS <= waited_ms <= 2 * AWAY_MS
            assert waits
            assert all("cannot be reached" in reason and str(port) in reason for reason in waits)
            assert (await handle.wait()).output == "Over."
            results = [event.data async for event in handle.events() if event.type == "action.result"]
            assert [data["status"] for data in results] == ["failed"]
            assert "cannot be reached" in str(results[0]["error"])

    run_in_fake_time(main(), clock=clock)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_comes_back_gets_the_work_once(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        port = free_port()
        boss = boss_of(kind, port)
        async with AgentRuntime.in_memory([boss]) as runtime:
            handle = await runtime.start_run(boss, "Begin.", session_id="s", run_id="r")
            async for event in runtime.subscribe_all():
                if event.type == "step.retrying":
                    assert "cannot be reached" in str(event.data["message"])
                    break
            async with served(tmp_path, port) as server:
                async for request in handle.requests():
                    await handle.answer(request.request_id, "approve")
                assert (await handle.wait()).output == "Over."
                async with server.client() as client:
                    [there] = (await client.get("/runs")).json()["runs"]
                    assert there["status"] == "completed"

    run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_away_while_it_works_goes_on_with_the_same_run(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        port = free_port()
        boss = boss_of(kind, port)
        async with AgentRuntime.in_memory([boss]) as runtime:
            async with served(tmp_path, port):
                handle = await runtime.start_run(boss, "Begin.", session_id="s", run_id="r")
                requests = handle.requests()
                request = await anext(requests)
            # The answer finds the server away.
            await handle.answer(request.request_id, "approve")
            async for event in runtime.subscribe_all():
                if event.type == "step.retrying":
                    break
            async with served(tmp_path, port) as server:
                result = await handle.wait()
                assert (result.status, result.output) == (RunStatus.COMPLETED, "Over.")
                async with server.client() as client:
                    [there] = (await client.get("/runs")).json()["runs"]
                    assert there["status"] == "completed"
            await requests.aclose()

    run(main())
