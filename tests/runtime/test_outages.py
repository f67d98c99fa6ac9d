"""Provider outages: runs wait for them, across restarts and kills, and say so."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.models.wire import OPENAI, Reply, refusal, serving
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Budget, Rejected, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.package import compile_package
from windlass.agent.policy import allow_start
from windlass.engine.driving.engine import SWEEP_S
from windlass.feed import Feed
from windlass.models import ModelSettings
from windlass.ports.journal import Standing
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.testing import FakeClock, ScriptedModel, run_in_fake_time, say
from windlass_harness.loop.rules import RETRY_FOR_MS
from windlass_protocol import Event, JsonObject, RunStatus

MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0


class KeptStore(MemoryStore):
    """A store that outlives its runtimes."""

    async def aclose(self) -> None:
        pass


class AwayModel(ScriptedModel):
    """A model that cannot be reached until a moment of the clock."""

    def __init__(self, clock: FakeClock, until_s: float) -> None:
        super().__init__(lambda _: say("done"))
        self._clock, self._until_s = clock, until_s
        self.asked_s: list[float] = []

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.asked_s.append(self._clock.monotonic())
        if self._clock.monotonic() < self._until_s:
            raise ConnectionError("away")
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk


class Scene:
    """A store and a clock, and runtimes on them."""

    def __init__(self, away_s: float, **agent: int | Budget) -> None:
        self.clock, self.store = FakeClock(), KeptStore()
        self.model = AwayModel(self.clock, away_s)
        self.agent = Agent("shop", model=self.model, **agent)  # pyright: ignore[reportArgumentType]

    def runtime(self, **options: int) -> AgentRuntime:
        builder = AgentRuntime.builder().options(clock=self.clock).journal(self.store).content(self.store)
        builder.event_bus(Feed(self.store, self.clock)).policy(allow_start).options(is_attended=True).agent(
            self.agent
        )
        if "retry_for_ms" in options:
            builder.options(retry_for_ms=options["retry_for_ms"])
        return builder.build()

    async def parked(self, runtime: AgentRuntime) -> None:
        """Return once the run waits for its provider."""
        async for event in runtime.handle("r1").events():
            if event.type == "run.waiting":
                break
        while (row := await self.store.session("s1")) is None or row.owner_id is not None:
            await self.clock.sleep(0.1)
        assert row.standing is Standing.WAITING
        assert row.wake_at_ms is not None


def test_a_run_survives_an_outage_of_ten_minutes_and_a_restart_in_the_middle() -> None:
    scene = Scene(away_s=10 * MINUTE_S)

    async def story() -> list[Event]:
        async with scene.runtime() as runtime:
            await runtime.start_run(scene.agent, "go", session_id="s1", run_id="r1")
            await scene.parked(runtime)
            snapshot = await runtime.run_snapshot("r1")
            assert snapshot.status is RunStatus.WAITING
            assert snapshot.waiting is not None
            assert (snapshot.waiting.on, snapshot.waiting.reason) == (
                "provider",
                "the model failed with ConnectionError",
            )
            assert snapshot.waiting.until is not None
        async with scene.runtime() as runtime:
            await runtime.core.resume()
            result = await runtime.handle("r1").wait(timeout=HOUR_S)
            assert (result.status, result.output) == (RunStatus.COMPLETED, "done")
            assert (await runtime.run_snapshot("r1")).waiting is None
            return [event async for event in runtime.handle("r1").events()]

    events = run_in_fake_time(story(), clock=scene.clock)
    waits = [event for event in events if event.type == "run.waiting"]
    assert len(waits) == len([event for event in events if event.type == "run.resumed"])
    assert all((event.data or {})["on"] == "provider" for event in waits)
    last_s = scene.model.asked_s[-1]
    assert 10 * MINUTE_S <= last_s <= 11 * MINUTE_S + 2 * SWEEP_S
    assert len(scene.model.asked_s) < 30


def test_an_outage_beyond_the_time_fails_the_run_with_its_reason() -> None:
    scene = Scene(away_s=24 * HOUR_S)

    async def story() -> None:
        async with scene.runtime() as runtime:
            handle = await runtime.start_run(scene.agent, "go", session_id="s1", run_id="r1")
            result = await handle.wait(timeout=2 * HOUR_S)
            assert result.status is RunStatus.FAILED
            assert result.error is not None
            assert result.error.message == "the model failed with ConnectionError"

    run_in_fake_time(story(), clock=scene.clock)
    tried_s = scene.model.asked_s[-1] - scene.model.asked_s[0]
    assert RETRY_FOR_MS / 1_000 <= tried_s <= RETRY_FOR_MS / 1_000 + 70 * SWEEP_S


@pytest.mark.parametrize(
    ("of_runtime", "of_agent", "tried_s"),
    [(0, None, 1.0), (60_000, None, 60.0), (0, 60_000, 60.0), (60_000, 0, 1.0)],
)
def test_the_time_is_set_for_a_runtime_or_for_an_agent(
    of_runtime: int, of_agent: int | None, tried_s: float
) -> None:
    scene = Scene(24 * HOUR_S) if of_agent is None else Scene(24 * HOUR_S, retry_for_ms=of_agent)

    async def story() -> None:
        async with scene.runtime(retry_for_ms=of_runtime) as runtime:
            handle = await runtime.start_run(scene.agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=HOUR_S)).status is RunStatus.FAILED

    run_in_fake_time(story(), clock=scene.clock)
    assert scene.model.asked_s[-1] == pytest.approx(tried_s, rel=0.1, abs=1.5)  # pyright: ignore[reportUnknownMemberType]


def test_the_time_of_an_agent_is_part_of_its_package() -> None:
    one, other = (Agent("shop", model="openai/x", retry_for_ms=ms) for ms in (None, 5_000))
    assert compile_package(one).provider_route.settings is None
    assert compile_package(other).provider_route.settings == {"retryForMs": 5_000}
    for wrong in (-1, 1.5, "1h"):
        with pytest.raises(Rejected, match="retry_for_ms"):
            Agent("shop", model="openai/x", retry_for_ms=wrong)  # pyright: ignore[reportArgumentType]
        with pytest.raises(Rejected, match="retry_for_ms"):
            AgentRuntime.in_memory([one], retry_for_ms=wrong)  # pyright: ignore[reportArgumentType]


def test_a_message_wakes_a_run_that_waits_for_its_provider() -> None:
    scene = Scene(away_s=65.0)

    async def story() -> None:
        async with scene.runtime() as runtime:
            handle = await runtime.start_run(scene.agent, "go", session_id="s1", run_id="r1")
            await scene.parked(runtime)
            await scene.clock.sleep(max(0.0, 70.0 - scene.clock.monotonic()))
            await runtime.steer(scene.agent, "now?", session_id="s1")
            asked_s = scene.clock.monotonic()
            assert (await handle.wait(timeout=HOUR_S)).status is RunStatus.COMPLETED
            assert scene.model.asked_s[-1] - asked_s < 1.0

    run_in_fake_time(story(), clock=scene.clock)


def test_a_cancel_ends_a_run_that_waits_for_its_provider() -> None:
    scene = Scene(away_s=24 * HOUR_S)

    async def story() -> None:
        async with scene.runtime() as runtime:
            handle = await runtime.start_run(scene.agent, "go", session_id="s1", run_id="r1")
            await scene.parked(runtime)
            since_s = scene.clock.monotonic()
            await handle.cancel()
            assert (await handle.wait(timeout=HOUR_S)).status is RunStatus.CANCELLED
            assert scene.clock.monotonic() - since_s < 5.0

    run_in_fake_time(story(), clock=scene.clock)


def test_the_time_budget_of_a_run_ends_its_wait() -> None:
    scene = Scene(away_s=24 * HOUR_S, budget=Budget(max_wall_ms=300_000))

    async def story() -> None:
        async with scene.runtime() as runtime:
            handle = await runtime.start_run(scene.agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=HOUR_S)).status is RunStatus.BUDGET_EXHAUSTED

    run_in_fake_time(story(), clock=scene.clock)
    assert 300.0 <= scene.clock.monotonic() <= 300.0 + 3 * SWEEP_S


CHILD: Final = """
import asyncio, os, sys
from windlass import Agent, AgentRuntime, tool
from windlass.parts import Rules
from windlass_harness.retry import RetryPolicy

@tool(mode="safe_write", effect="idempotent")
async def refund(order: str) -> str:
    "Refund an order."
    with open(sys.argv[2], "a") as file:
        file.write(order + "\\n")
    return "refunded"

async def main():
    agent = Agent("desk", model="openai/some", tools=[refund])
    rules = Rules(retry=RetryPolicy(base_delay_ms=20, max_delay_ms=200))
    async with AgentRuntime.open(sys.argv[1], agents=[agent], rules=rules) as runtime:
        handle = await runtime.start_run("desk", "Refund order 7.", session_id="s1", run_id="r1")
        async for event in handle.events():
            print(event.type, (event.data or {}).get("message", ""), flush=True)
        print((await handle.wait()).status.value, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_its_provider_is_away_loses_nothing(tmp_path: Path) -> None:
    """The provider answers one call, is away and then busy; the process is killed twice meanwhile."""
    store, ledger = tmp_path / "desk.db", tmp_path / "ledger"

    def begin(port: int) -> subprocess.Popen[str]:
        environment = {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "OPENAI_API_KEY": "sk-test",
            "PATH": "",
        }
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, str(store), str(ledger)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    async def until(process: subprocess.Popen[str], *wanted: str) -> list[str]:
        """Read the events of a process until one of these types comes, `wanted` times in a row."""
        seen: list[str] = []
        for one in wanted:
            while not seen or not seen[-1].startswith(one):
                line = await asyncio.to_thread(process.stdout.readline) if process.stdout else ""
                assert line, f"the process ended after {seen}"
                seen.append(line.strip())
            seen.append("")
        return seen

    async def story() -> None:
        asks = OPENAI.calls([("c1", "refund", ['{"order": "7"}'])])
        async with serving(Reply(asks), Reply(end="cut")) as server:
            port = server.port
            with begin(port) as first:
                await until(first, "action.result", "step.retrying")
                first.send_signal(signal.SIGKILL)
        with begin(port) as second:
            seen = await until(second, "step.retrying", "step.retrying", "step.retrying")
            second.send_signal(signal.SIGKILL)
        assert any(f"127.0.0.1:{port} (from OPENAI_BASE_URL) could not be reached" in one for one in seen)
        busy = refusal(429, {"error": {"code": "rate_limit_exceeded"}}, retry_after="0.01")
        async with serving(busy, busy, busy, busy, Reply(OPENAI.text(["done"])), port=port):
            with begin(port) as third:
                await until(third, "run.completed", "completed")
                assert await asyncio.to_thread(third.wait) == 0

    play(story())
    assert ledger.read_text() == "7\n", "one refund"


@tool(mode="read")
async def look() -> str:
    """Look."""
    return "nothing"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_a_request_that_the_provider_refuses_fails_at_once(status: int) -> None:
    async def story() -> None:
        async with serving(refusal(status, {"error": {"message": "no"}})) as server:
            model = OPENAI.make(server.url, ModelSettings())
            agent = Agent("desk", model=model, tools=[look])
            async with AgentRuntime.in_memory([agent]) as runtime:
                result = await (await runtime.start_run(agent, "go")).wait()
            await model.aclose()
            assert result.status is RunStatus.FAILED
            assert len(server.asked) == 1

    play(story())
