"""Stores, exporters and hosts that fail in the middle of an export."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from windlass import Agent, AgentRuntime, Unavailable, telemetry, tool
from windlass.telemetry import exporter, watch
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import ErrorKind, RetryClass


@tool(mode="external")
async def mail(to: str) -> str:
    return f"sent to {to}"


def clerk() -> Agent:
    """An agent that answers at once."""
    return Agent("clerk", model=ScriptedModel(by_history([say("done")])))


def asker() -> Agent:
    """An agent that waits for a person."""
    return Agent(
        "clerk", model=ScriptedModel(by_history([call("mail", {"to": "a"}), say("done")])), tools=[mail]
    )


def told(seen: InMemorySpanExporter) -> Counter[str]:
    """The names of spans, with the ids of their runs."""
    spans = seen.get_finished_spans()
    return Counter(f"{span.name} {(span.attributes or {})['windlass.run.id']}" for span in spans)


def failing_at(number: int, original: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """A call of a store that fails once."""
    calls = 0

    async def ask(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            raise Unavailable("busy", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
        return await original(*args, **options)

    return ask


@pytest.mark.parametrize("name", ["read_all", "run", "read"])
@pytest.mark.parametrize("number", range(1, 12))
def test_one_read_that_fails_costs_no_span_and_repeats_none(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "PAGE_RECORDS", 8)
    monkeypatch.setattr(watch, "SESSIONS_KEPT_MAX", 1)
    seen = InMemorySpanExporter()

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([asker()]) as runtime,
            telemetry.export(runtime, span_exporter=seen) as exported,
        ):
            for at in range(3):
                await runtime.start("clerk", "go", run_id=f"r{at}", session_id=f"s{at}")
                late = await runtime.start("clerk", "go", run_id=f"q{at}", session_id=f"s{at}")
                await late.cancel()
            for at in range(3):
                handle = runtime.handle(f"r{at}")
                async for event in handle.events():
                    if event.type == "run.waiting":
                        break
                [request] = await handle.requests()
                await handle.answer(request.request_id, "approve")
                await handle.wait()
                await runtime.handle(f"q{at}").wait()
            store = runtime.ports.store
            with monkeypatch.context() as patch:
                patch.setattr(store, name, failing_at(number, getattr(store, name)))
                await exported.flush()
            assert await exported.flush()
            assert exported.dropped_spans == 0

    asyncio.run(story())

    ends = {f"invoke_agent clerk {kind}{at}": 1 for kind in "rq" for at in range(3)}
    inner = {f"{what} r{at}": 1 for what in ("execute_tool mail", "wait approval") for at in range(3)}
    assert told(seen) == Counter({**ends, **inner, **{f"chat scripted r{at}": 2 for at in range(3)}})
