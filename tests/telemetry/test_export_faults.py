"""Stores, exporters and hosts that fail in the middle of an export."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from threading import Event

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
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


class Flaky(InMemorySpanExporter):
    """A third-party exporter that raises while its collector is unreachable."""

    is_away = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.is_away:
            raise ConnectionError("away for a moment")
        return super().export(spans)


class Slow(InMemorySpanExporter):
    """An exporter with a delay that the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.is_called = Event()
        self.goes_on = Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_called.set()
        self.goes_on.wait(300)
        return super().export(spans)


def span_names(seen: InMemorySpanExporter) -> Counter[str]:
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


@pytest.mark.uncounted
@pytest.mark.parametrize("name", ["read_all", "session_info", "run", "read"])
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
                await runtime.start_run("clerk", "go", run_id=f"r{at}", session_id=f"s{at}")
                late = await runtime.start_run("clerk", "go", run_id=f"q{at}", session_id=f"s{at}")
                await late.cancel()
            for at in range(3):
                handle = runtime.handle(f"r{at}")
                async for event in handle.events():
                    if event.type == "run.waiting":
                        break
                [request] = await handle.open_requests()
                await handle.answer(request.request_id, "approve")
                await handle.wait()
                await runtime.handle(f"q{at}").wait()
            store = runtime.core.ports.store
            with monkeypatch.context() as patch:
                patch.setattr(store, name, failing_at(number, getattr(store, name)))
                await exported.flush()
            assert await exported.flush()
            assert exported.dropped_spans == 0

    asyncio.run(story())

    ends = {f"invoke_agent clerk {kind}{at}": 1 for kind in "rq" for at in range(3)}
    inner = {f"{what} r{at}": 1 for what in ("execute_tool mail", "wait approval") for at in range(3)}
    assert span_names(seen) == Counter({**ends, **inner, **{f"chat scripted r{at}": 2 for at in range(3)}})


def test_an_exporter_that_raises_while_its_collector_is_away_gets_everything_later() -> None:
    seen = Flaky()

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, span_exporter=seen) as exported,
        ):
            await (await runtime.start_run("clerk", "go", run_id="r")).wait()
            assert [await exported.flush() for _ in range(3)] == [False] * 3
            seen.is_away = False
            assert await exported.flush()
            assert (exported.exported_spans, exported.dropped_spans) == (2, 0)

    asyncio.run(story())

    assert span_names(seen) == Counter({"chat scripted r": 1, "invoke_agent clerk r": 1})


def test_a_span_that_cannot_be_written_is_dropped_although_writing_it_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*args: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(OTLPSpanExporter, "export", fails)

    async def story() -> int:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint="http://127.0.0.1:1") as exported,
        ):
            await (await runtime.start_run("clerk", "go", run_id="r")).wait()
            assert await exported.flush()
            return exported.dropped_spans

    assert asyncio.run(story()) == 2


def test_a_flush_that_waits_its_turn_ends_when_the_export_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "CLOSE_S", 0.0)
    seen = Slow()

    async def story() -> tuple[bool, bool]:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, span_exporter=seen) as exported,
        ):
            await (await runtime.start_run("clerk", "go", run_id="r")).wait()
            first = asyncio.create_task(exported.flush())
            await asyncio.to_thread(seen.is_called.wait, 300)
            second = asyncio.create_task(exported.flush())
            await asyncio.sleep(0)
            await exported.aclose()
            async with asyncio.timeout(300):
                return await first, await second

    try:
        assert asyncio.run(story()) == (False, False)
    finally:
        seen.goes_on.set()


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("is_read_between", [True, False])
def test_a_fork_of_a_session_that_is_gone_exports_only_its_own_runs(
    where: str, is_read_between: bool, tmp_path: Path
) -> None:
    seen = InMemorySpanExporter()

    def opened() -> AbstractAsyncContextManager[AgentRuntime]:
        if where == "memory":
            return AgentRuntime.in_memory([clerk()])
        return AgentRuntime.open(tmp_path / "app.db", agents=[clerk()])

    async def story() -> None:
        async with opened() as runtime, telemetry.export(runtime, span_exporter=seen) as exported:
            await (await runtime.start_run("clerk", "go", run_id="r", session_id="s")).wait()
            assert await exported.flush()
            await runtime.sessions.fork("s", session_id_new="f")
            if is_read_between:
                assert await exported.flush()
            await runtime.sessions.delete("s")
            await (await runtime.start_run("clerk", "on", run_id="q", session_id="f")).wait()
            await runtime.sessions.fork("f", session_id_new="g")
            if is_read_between:
                assert await exported.flush()
                await runtime.sessions.delete("f")
            await (await runtime.start_run("clerk", "on", run_id="p", session_id="g")).wait()
            assert await exported.flush()

    asyncio.run(story())

    assert span_names(seen) == Counter(
        f"{name} {run}" for name in ("chat scripted", "invoke_agent clerk") for run in "rqp"
    )
