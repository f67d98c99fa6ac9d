"""Host code that fails in odd ways affects its own run only."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel, JsonValue, field_validator
from tests.faults.scene import Scene, agent_of

from windlass import Agent, AgentRuntime, Budget, LLMUsage, hook, tool
from windlass.engine.driving.driver import Driver
from windlass.engine.driving.drives import BUG_ATTEMPTS_MAX
from windlass.engine.tool_calls.approval import approval_prompt
from windlass.limits import MODEL_IDLE_TIMEOUT_MS, WAIT_MS_MAX
from windlass.ports.machine import Machine
from windlass.ports.model import LLMStreamChunk
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.testing.models import by_history
from windlass.tools import Tool
from windlass_protocol import AllowDecision, AskDecision, PolicyKind, PolicyRef, RunResult

WAIT_S: Final = 5_000.0
ALLOW: Final = AllowDecision(code="ok", reason="Yes.", policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="p"),))


ASK_LONG: Final = AskDecision(code="ask", reason="Why.", policy_refs=ALLOW.policy_refs, expires_in_ms=10**15)


class Rude(BaseException):
    """Not even an Exception."""


def played(agent: Agent, **options: Any) -> tuple[RunResult, list[dict[str, Any]], float]:
    """Return the result of a run, the results of its calls, and its duration."""
    clock = FakeClock()
    budget = options.pop("budget", None)

    async def story() -> tuple[RunResult, list[dict[str, Any]], float]:
        machine = Machine(clock, sequential_ids("id"), seeded_random(1))
        async with AgentRuntime.in_memory([agent], machine=machine, **options) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", budget=budget)
            result = await handle.wait(timeout=WAIT_S)
            took = clock.monotonic()
            found = [event.data async for event in handle.events() if event.type == "action.result"]
            return result, found, took

    return run_in_fake_time(story(), clock=clock)


def calling(made: Tool[..., Any], arguments: Any = None, **parts: Any) -> Agent:
    model = ScriptedModel(by_history([call(made.name, arguments or {}), say("done")]))
    return Agent("shop", model=model, tools=[made], **parts)


# exceptions


class Item(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def known(cls, code: str) -> str:
        raise {"rude": Rude, "exit": SystemExit}.get(code, KeyError)(code)


@pytest.mark.parametrize(("code", "name"), [("x", "KeyError"), ("rude", "Rude"), ("exit", "SystemExit")])
def test_a_check_of_a_tool_that_raises_anything_refuses_the_call(code: str, name: str) -> None:
    @tool(mode="read")
    async def get(item: Item) -> str:
        """Get."""
        return "got"

    result, (found,), _ = played(calling(get, {"item": {"code": code}}))
    assert result.status == "completed"
    assert found["error"]["code"] == "invalid_arguments"
    assert name in found["error"]["message"]


@pytest.mark.parametrize("error", [SystemExit(3), Rude("no"), GeneratorExit()])
@pytest.mark.parametrize("is_async", [True, False])
def test_an_exception_of_a_tool_becomes_a_failed_result(error: BaseException, is_async: bool) -> None:
    if isinstance(error, GeneratorExit):
        error = Rude()

    async def slow() -> str:
        raise error

    def fast() -> str:
        raise error

    made = tool(slow if is_async else fast, name="t", mode="read", description="Fail.")
    result, (found,), _ = played(calling(made))
    assert (result.status, found["status"]) == ("completed", "failed")


@pytest.mark.parametrize("error", [SystemExit(3), Rude("no")])
def test_an_exception_of_a_model_fails_its_run(error: BaseException) -> None:
    class Model:
        route_id = model_id = "m"

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[LLMStreamChunk]:
            raise error
            yield LLMStreamChunk()

    result, _, _ = played(Agent("shop", model=Model()))
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.kind) == ("rejected", "provider_failure")


class Policy:
    version: Any = "1"

    def before(self, call: Any, *, is_attended: bool) -> Any:
        return ALLOW

    def after(self, call: Any, output: Any) -> Any:
        return ALLOW


class AsksLong(Policy):
    def before(self, call: Any, *, is_attended: bool) -> Any:
        return ASK_LONG


class Exits(Policy):
    def before(self, call: Any, *, is_attended: bool) -> Any:
        raise SystemExit(3)


class ExitsAfter(Policy):
    def after(self, call: Any, output: Any) -> Any:
        raise Rude


class Spoils(Policy):
    def before(self, call: Any, *, is_attended: bool) -> Any:
        call.arguments["when"] = object()
        return ALLOW


class NoVersion(Policy):
    """A policy that loses its version after it was registered."""

    is_given = False

    @property
    def version(self) -> Any:
        if self.is_given:
            raise RuntimeError("the config server is away")
        self.is_given = True
        return "1"

    @version.setter
    def version(self, _: Any) -> None: ...


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (Exits(), "policy.failed"),
        (ExitsAfter(), "policy.failed"),
        (Spoils(), "policy.changed_arguments"),
        (NoVersion(), "policy.failed"),
    ],
)
def test_a_failing_policy_denies_the_call(policy: Policy, code: str) -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    result, (found,), _ = played(calling(look), tool_policy=policy)
    assert (result.status, found["error"]["code"]) == ("completed", code)


def test_a_base_exception_of_a_hook_is_a_hook_failure() -> None:
    @hook("run_starting")
    async def rude(_: Any) -> None:
        raise Rude

    result, _, _ = played(Agent("shop", model=ScriptedModel([say("done")]), hooks=[rude]))
    assert result.status == "completed"


def test_arguments_that_grow_when_they_are_masked_are_not_asked_about() -> None:
    shown: list[JsonValue] = ["[redacted]"] * 90_000
    assert approval_prompt("login", {"password": shown}, reason="Why.") is None


def test_a_request_for_consent_expires_within_a_century() -> None:
    @tool(mode="destructive")
    async def wipe() -> str:
        """Wipe."""
        return "gone"

    async def story() -> str:
        async with AgentRuntime.in_memory([calling(wipe)], tool_policy=AsksLong()) as runtime:
            handle = await runtime.start_run("shop", "go")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break
            (request,) = await handle.open_requests()
            return request.expires_at or ""

    now = datetime.now(UTC)
    lasts = datetime.fromisoformat(asyncio.run(story())) - now
    assert abs(lasts - timedelta(milliseconds=WAIT_MS_MAX)) < timedelta(hours=1)


# cost of an answer


@pytest.mark.parametrize(("given", "kept"), [(-1, 0), (1.2, 2), (0.1, 1), (2**70, 10**11), (7, 7)], ids=str)
def test_fractional_usage_of_a_provider_is_rounded(given: Any, kept: int) -> None:
    usage = LLMUsage(input_tokens=given, cost_micros=given)
    result, _, _ = played(Agent("shop", model=ScriptedModel([say("done", usage=usage)])))
    assert result.status == "completed"
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.cost_micros) == (kept, kept)


@pytest.mark.parametrize("given", ["12", True, float("nan"), [1]], ids=str)
def test_a_cost_that_is_not_a_number_is_a_provider_failure_with_the_field_name(given: Any) -> None:
    model = ScriptedModel(lambda _: say("done", usage=LLMUsage(cost_micros=given)))
    result, _, _ = played(Agent("shop", model=model))
    assert (result.status, len(model.requests)) == ("failed", 1)
    assert result.error is not None
    assert result.error.kind == "provider_failure"
    assert "costMicros" in result.error.message


@pytest.mark.promise("L1")
def test_a_cost_budget_counts_fractional_costs() -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    usage: Any = LLMUsage(cost_micros=40.5)  # pyright: ignore[reportArgumentType] providers do
    model = ScriptedModel(lambda _: Answer(calls=call("look").calls, usage=usage))
    agent = Agent("shop", model=model, tools=[look], prices={"*": 0})
    result, _, _ = played(agent, budget=Budget(max_cost_micros=100))
    assert (result.status, len(model.requests)) == ("budget_exhausted", 3)


# bugs


def test_a_run_that_cannot_be_driven_fails_with_a_hint(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(lambda _: say("done"))
    take = Driver._take_events  # pyright: ignore[reportPrivateUsage] broken below

    async def broken(driver: Any, now: Any) -> None:
        if any(type(event).__name__ == "ModelAnswered" for event in driver._events):
            raise KeyError("hunter2hunter2")
        await take(driver, now)

    monkeypatch.setattr(Driver, "_take_events", broken)
    with caplog.at_level(logging.ERROR):
        result, _, _ = played(Agent("shop", model=model), secrets=["hunter2hunter2"])
    assert result.status == "failed"
    assert result.error is not None
    assert "KeyError" in result.error.message
    assert len(model.requests) == BUG_ATTEMPTS_MAX - 1
    assert "in broken" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_chunk_of_the_wrong_type_is_named_in_the_error() -> None:
    class Model:
        route_id = model_id = "m"

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            yield LLMStreamChunk(content_delta="x")
            yield "text"

    result, _, _ = played(Agent("shop", model=Model()))
    assert result.error is not None
    assert "chunk 1 is" in result.error.message
    assert "expected LLMStreamChunk" in result.error.message


def test_the_log_says_where_a_model_or_a_tool_failed_without_its_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        raise ValueError("no way with hunter2hunter2")

    class Model:
        route_id = model_id = "m"

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[LLMStreamChunk]:
            raise TypeError("a bug with hunter2hunter2")
            yield LLMStreamChunk()

    with caplog.at_level(logging.WARNING):
        played(calling(look), secrets=["hunter2hunter2"])
        played(Agent("shop", model=Model()), secrets=["hunter2hunter2"])
    assert "ValueError: no way with" in caplog.text
    assert "in look" in caplog.text
    assert "TypeError: a bug with" in caplog.text
    assert "in stream" in caplog.text
    assert "hunter2" not in caplog.text


# hanging code


async def deaf() -> None:
    """Not even cancelling ends it, for a long time."""
    for _ in range(100):
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            continue


@pytest.mark.promise("L1")
def test_a_tool_that_ignores_its_timeout_is_abandoned() -> None:
    @tool(mode="read", timeout=10)
    async def look() -> str:
        """Look."""
        await deaf()
        return "seen"

    result, (found,), took = played(calling(look))
    assert (result.status, found["error"]["code"]) == ("completed", "timeout")
    assert took <= 11


def test_a_tool_that_returns_during_its_cleanup_time_keeps_its_result() -> None:
    @tool(mode="read", timeout=10)
    async def look() -> str:
        """Look."""
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)
        return "half of it"

    _, (found,), _ = played(calling(look))
    assert found["result"]["output"] == "half of it"


class Deaf:
    """A model that says something, and then does not end."""

    route_id = model_id = "deaf"

    def __init__(self, *, closes: bool) -> None:
        self._closes = closes

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[LLMStreamChunk]:
        try:
            yield LLMStreamChunk(content_delta="x")
            await (asyncio.sleep(1_000) if self._closes else deaf())
        finally:
            await deaf()


@pytest.mark.promise("L1")
@pytest.mark.parametrize("closes", [True, False])
def test_a_model_that_ignores_cancellation_is_abandoned(closes: bool) -> None:
    result, _, took = played(Agent("shop", model=Deaf(closes=closes)), budget=Budget(max_wall_ms=10_000))
    assert result.status in ("failed", "budget_exhausted")
    assert took <= 11
    result, _, took = played(
        Agent("shop", model=Deaf(closes=closes)),
        budget=Budget(max_wall_ms=MODEL_IDLE_TIMEOUT_MS + 1),
    )
    assert took <= MODEL_IDLE_TIMEOUT_MS / 1000 + 2


def test_an_answer_that_is_whole_counts_although_its_stream_does_not_close() -> None:
    class Stream:
        def __init__(self) -> None:
            self.left = [LLMStreamChunk(content_delta="whole", finish_reason="stop")]

        def __aiter__(self) -> "Stream":
            return self

        async def __anext__(self) -> LLMStreamChunk:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

        async def aclose(self) -> None:
            await deaf()

    class Model:
        route_id = model_id = "m"

        def stream(self, *_: Any, **__: Any) -> Stream:
            return Stream()

    result, _, took = played(Agent("shop", model=Model()))
    assert (result.status, result.output) == ("completed", "whole")
    assert took <= 2


def test_a_model_that_yields_without_end_and_never_waits_lets_others_have_a_turn() -> None:
    turns = 0

    class Empty:
        route_id = model_id = "empty"

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[LLMStreamChunk]:
            for _one in range(10_000):
                yield LLMStreamChunk()
            yield LLMStreamChunk(content_delta=str(turns), finish_reason="stop")

    async def story(scene: Scene) -> str:
        nonlocal turns

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        async with scene.runtime([agent_of(Empty())]) as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            output = (await handle.wait(timeout=WAIT_S)).output
        other.cancel()
        await asyncio.wait([other])
        return output

    assert int(Scene().play(story)) >= 30
