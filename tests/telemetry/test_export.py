"""The export resumes at its position after failures of collector and process."""

import asyncio
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.telemetry.collector import Collector, running_collector

from windlass import Agent, AgentRuntime, Rejected, ToolFailed, Unavailable, telemetry, tool
from windlass.adapters.loop_watch import COUNTS
from windlass.ledger import Runtime as Recorder
from windlass.parts import loop_stalls
from windlass.ports.documents import Document
from windlass.ports.machine import Stall
from windlass.telemetry import exporter, watch
from windlass.telemetry import spans as limits
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_harness.record import Record
from windlass_harness.tracing import TraceState, fold_trace
from windlass_protocol import ErrorKind, JsonObject, RetryClass


@tool(mode="external")
async def mail(to: str) -> str:
    return f"sent to {to}"


@tool(mode="read")
async def look(at: str) -> str:
    return at


@tool(mode="read")
async def cry(word: str) -> str:
    raise ToolFailed(f"no {word}")


def clerk() -> Agent:
    """An agent that looks, asks a person, and answers."""
    script = [call("look", {"at": "x"}), call("mail", {"to": "ada"}), say("done")]
    return Agent("clerk", model=ScriptedModel(by_history(script)), tools=[mail, look])


async def until_asked(runtime: AgentRuntime, run_id: str) -> None:
    async for event in runtime.handle(run_id).events():
        if event.type == "run.waiting":
            return


async def approve(runtime: AgentRuntime, run_id: str) -> None:
    handle = runtime.handle(run_id)
    for request in await handle.open_requests():
        await handle.answer(request.request_id, "approve")
    await handle.wait()


NAMES = {
    "invoke_agent clerk": 1,
    "chat scripted": 3,
    "execute_tool look": 1,
    "execute_tool mail": 1,
    "wait approval": 1,
}


def counted(collector: Collector) -> dict[str, int]:
    return {name: len(collector.named(name)) for name in {span.name for span in collector.spans}}


async def rewind(runtime: AgentRuntime, position: int) -> None:
    """Move the bookmark of an export that has ended."""
    store = runtime.core.ports.store
    assert store is not None
    found = await store.document("telemetry-bookmark", "otel")
    revision = 0 if found is None else found.revision
    body: JsonObject = {"position": position, "holder": "", "heldUntilMs": 0}
    await store.put_document(Document("telemetry-bookmark", "otel", revision + 1, body))


async def expire(runtime: AgentRuntime) -> None:
    """Let the lease of an export end now."""
    store = runtime.core.ports.store
    assert store is not None
    found = await store.document("telemetry-bookmark", "otel")
    assert found is not None
    body: JsonObject = {**found.body, "heldUntilMs": 1}
    await store.put_document(replace(found, revision=found.revision + 1, body=body))


def test_a_restart_in_the_middle_of_a_run_repeats_and_misses_nothing(
    collector: Collector, tmp_path: Path
) -> None:
    async def first() -> None:
        async with (
            AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel") as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            assert await exported.flush()

    async def second() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            # Records written while no exporter runs are exported later.
            await approve(runtime, "r")
            async with telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel") as exported:
                assert await exported.flush()

    asyncio.run(first())
    assert counted(collector) == {"chat scripted": 2, "execute_tool look": 1}
    asyncio.run(second())

    assert counted(collector) == NAMES
    root = collector.one("invoke_agent clerk")
    assert {span.parent_id for span in collector.spans} - {""} == {root.span_id}
    assert len({span.span_id for span in collector.spans}) == len(collector.spans)


def test_exporting_again_sends_the_same_spans_with_the_same_ids(collector: Collector, tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            await approve(runtime, "r")
            for _ in range(2):
                await rewind(runtime, 0)
                async with telemetry.export(
                    runtime, endpoint=collector.endpoint, bookmark="otel"
                ) as exported:
                    assert await exported.flush()

    asyncio.run(story())

    half = len(collector.spans) // 2
    assert collector.spans[:half] == collector.spans[half:]
    assert len(collector.spans) == 2 * sum(NAMES.values())


def test_without_a_bookmark_only_later_records_are_exported(collector: Collector) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            async with telemetry.export(runtime, endpoint=collector.endpoint) as exported:
                await approve(runtime, "r")
                assert await exported.flush()

    asyncio.run(story())

    late = {name: 1 for name in NAMES if name != "execute_tool look"}
    assert counted(collector) == late
    assert collector.one("invoke_agent clerk").events, "a run that had begun before is whole"


def test_an_unreachable_collector_does_not_slow_runs_and_gets_every_span_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector()
    with running_collector(collector):
        port = int(collector.endpoint.rpartition(":")[2])

    async def story() -> None:
        async with (
            AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel") as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            assert not await exported.flush()
            await approve(runtime, "r")
            assert not await exported.flush()
            assert (exported.exported_spans, exported.dropped_spans) == (0, 0)
            with running_collector(collector, port):
                assert await exported.flush()
            assert exported.exported_spans == sum(NAMES.values())

    with caplog.at_level(logging.INFO, logger="windlass.telemetry"):
        asyncio.run(story())

    assert counted(collector) == NAMES
    told = [record.levelname for record in caplog.records if record.name == "windlass.telemetry"]
    assert told == ["WARNING", "INFO"], "an outage is logged once, and its end"


@pytest.mark.usefixtures("impatient")
def test_a_collector_that_does_not_answer_holds_up_neither_a_run_nor_the_end(collector: Collector) -> None:
    collector.hold = Event()

    async def story() -> str:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            async with telemetry.export(runtime, endpoint=collector.endpoint) as exported:
                flushed = asyncio.create_task(exported.flush())
                await runtime.start_run("clerk", "go", run_id="r")
                await until_asked(runtime, "r")
                await approve(runtime, "r")
                output = (await runtime.handle("r").wait()).output
                await flushed
            assert await exported.flush() is False, "it is closed"
            return output

    try:
        assert asyncio.run(story()) == "done"
    finally:
        collector.hold.set()


def test_a_span_that_is_refused_is_dropped_alone_counted_and_logged_once(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.refuses = b"execute_tool"

    COUNTS.add(Stall(1_250, None, "", ""))

    async def story() -> int:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            await approve(runtime, "r")
            assert await exported.flush()
            return exported.dropped_spans

    with caplog.at_level(logging.WARNING, logger="windlass.telemetry"):
        assert asyncio.run(story()) == 2

    assert len(collector.spans) == sum(NAMES.values()) - 2
    assert [name for name in (record.name for record in caplog.records) if name == "windlass.telemetry"] == [
        "windlass.telemetry"
    ]
    assert collector.metrics["windlass.telemetry.dropped_spans"] == [({}, 2.0)]
    stalls = loop_stalls()
    assert collector.metrics["windlass.runtime.loop.stalls"] == [({}, float(stalls.count))]
    assert collector.metrics["windlass.runtime.loop.stall_time"] == [({}, stalls.total_ms / 1_000)]


@pytest.mark.parametrize("status", [401, 404, 429, 503])
def test_a_collector_that_is_set_up_wrongly_loses_nothing(collector: Collector, status: int) -> None:
    collector.status = status

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            assert not await exported.flush()
            collector.status = 200
            assert await exported.flush()
            assert exported.dropped_spans == 0

    asyncio.run(story())

    assert counted(collector) == {"chat scripted": 2, "execute_tool look": 1}


HOSTILE = "\x00\x1b[31m\u202e\U0001f642" + "x" * 5_000


def test_hostile_names_and_values_arrive_cut_and_whole(collector: Collector) -> None:
    script = [call(HOSTILE, {"at": HOSTILE}), call("look", {"at": HOSTILE}, call_id="c" * 400), say(HOSTILE)]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[look])
    metadata: JsonObject = {"traceparent": 7, "tracestate": ["x"], "chatId": HOSTILE}

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([agent]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint, capture_content=True) as exported,
        ):
            await (await runtime.start_run(agent, HOSTILE, metadata=metadata)).wait()
            assert await exported.flush()
            assert exported.dropped_spans == 0

    asyncio.run(story())

    longest = max(len(str(value)) for span in collector.spans for value in span.attributes.values())
    assert longest <= limits.CONTENT_CHARS_MAX
    assert max(len(span.name) for span in collector.spans) <= limits.ATTRIBUTE_CHARS_MAX
    assert collector.one("invoke_agent clerk").trace_id != "0" * 32


def test_names_that_a_model_makes_up_do_not_fill_the_metrics(collector: Collector) -> None:
    script = [*(call(f"made_up_{number}", {}) for number in range(12)), say("done")]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[look])

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([agent]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint, capture_content=True) as exported,
        ):
            await (await runtime.start_run(agent, "go")).wait()
            assert await exported.flush()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("windlass.telemetry.otlp.LABEL_VALUES_MAX", 5)
        asyncio.run(story())

    labels = {point["gen_ai.tool.name"] for point, _ in collector.metrics["windlass.tool.errors"]}
    assert len(labels) == 6
    assert "_OTHER" in labels


@pytest.mark.parametrize("kept", [limits.SESSIONS_KEPT_MAX, 3])
def test_many_concurrent_runs_have_traces_of_their_own(collector: Collector, kept: int) -> None:
    count = 40

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            for number in range(count):
                await runtime.start_run("clerk", "go", run_id=f"r{number}", session_id=f"s{number}")
            for number in range(count):
                await until_asked(runtime, f"r{number}")
            assert await exported.flush()
            await asyncio.gather(*(approve(runtime, f"r{number}") for number in range(count)))
            assert await exported.flush()
            assert exported.dropped_spans == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "SESSIONS_KEPT_MAX", kept)
        patch.setattr("windlass.telemetry.exporter.BATCH_SPANS_MAX", 16)
        asyncio.run(story())

    assert counted(collector) == {name: times * count for name, times in NAMES.items()}
    assert len({span.span_id for span in collector.spans}) == len(collector.spans)
    roots = {span.span_id: span for span in collector.named("invoke_agent clerk")}
    assert len({span.trace_id for span in roots.values()}) == count
    for span in collector.spans:
        root = roots[span.parent_id or span.span_id]
        assert span.trace_id == root.trace_id
        assert span.attributes["windlass.run.id"] == root.attributes["windlass.run.id"]
    runs = collector.metrics["windlass.runtime.runs"]
    assert runs == [({"gen_ai.agent.name": "clerk", "windlass.run.outcome": "completed"}, float(count))]


def test_a_second_export_with_the_same_bookmark_is_on_standby_until_the_first_ends(
    collector: Collector, tmp_path: Path
) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[clerk()]) as runtime:
            first = telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel")
            second = telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel")
            async with first, second:
                assert (first.is_standby, second.is_standby) == (False, True)
                await runtime.start_run("clerk", "go", run_id="r")
                await until_asked(runtime, "r")
                assert not await second.flush()
                await first.aclose()
                await approve(runtime, "r")
                assert await second.flush()
                assert not second.is_standby

    asyncio.run(story())

    assert counted(collector) == NAMES


def test_a_position_past_the_end_is_moved_to_the_end(collector: Collector) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            await rewind(runtime, 99_999_999)
            async with telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel") as exported:
                await runtime.start_run("clerk", "go", run_id="r")
                await until_asked(runtime, "r")
                assert await exported.flush()

    asyncio.run(story())

    assert counted(collector) == {"chat scripted": 2, "execute_tool look": 1}


def test_a_lease_that_has_ended_is_taken_over_where_it_was_and_its_holder_stands_by(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill, and as if the killed process had only been stopped and came back."""
    for name in ("RETRY_FIRST_S", "RETRY_MAX_S"):
        # The first one does not try again by itself.
        monkeypatch.setattr(exporter, name, 3_600)

    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            first = telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel")
            second = telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel")
            async with first, second:
                await runtime.start_run("clerk", "go", run_id="r")
                await until_asked(runtime, "r")
                assert await first.flush()
                assert not await second.flush()
                # The first one has read on, and was stopped before it sent what it has.
                collector.status = 503
                await approve(runtime, "r")
                assert not await first.flush()
                # Its lease is over by its own clock too: it looks before it sends.
                monkeypatch.setattr(exporter, "LEASE_MS", 10**12)
                await expire(runtime)
                collector.status = 200
                assert await second.flush()
                assert counted(collector) == NAMES
                assert not await first.flush()
                assert (first.is_standby, second.is_standby) == (True, False)

    asyncio.run(story())

    assert counted(collector) == NAMES


@pytest.mark.parametrize("name", ["", "a\nb", 7])
def test_a_bookmark_has_a_name_like_an_id(name: Any) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            with pytest.raises(Rejected, match="bookmark"):
                telemetry.export(runtime, bookmark=name)

    asyncio.run(story())


def test_exporters_of_the_sdk_can_be_given() -> None:
    spans = InMemorySpanExporter()

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, span_exporter=spans) as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            assert await exported.flush()

    asyncio.run(story())

    assert [span.name for span in spans.get_finished_spans()] == [
        "chat scripted",
        "execute_tool look",
        "chat scripted",
    ]


def test_a_newly_registered_secret_is_masked_in_older_records(collector: Collector, tmp_path: Path) -> None:
    secret = "opal-harbour-seven"
    script = [call("look", {"at": secret}), call("cry", {"word": secret}), say(secret)]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[look, cry])

    async def before() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            await rewind(runtime, 0)
            await (await runtime.start_run(agent, f"It is {secret}.")).wait()

    async def after() -> None:
        async with (
            AgentRuntime.open(tmp_path / "app.db", agents=[agent], secrets=[secret]) as runtime,
            telemetry.export(
                runtime, endpoint=collector.endpoint, bookmark="otel", capture_content=True
            ) as exported,
        ):
            assert await exported.flush()

    asyncio.run(before())
    asyncio.run(after())

    sent = b"".join(collector.bodies)
    assert b"gen_ai.tool.call.arguments" in sent
    assert collector.one("execute_tool cry").status_text.startswith("no ")
    assert secret.encode() not in sent


def test_a_recorded_run_is_exported_in_the_trace_that_its_recorder_named(
    collector: Collector, tmp_path: Path
) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.start_run("goal", "a goal")
        trace_id = recorder.execution_id
        recorder.end_run(success=True)

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "recorder.db", agents=[clerk()]) as runtime:
            await rewind(runtime, 0)
            async with telemetry.export(runtime, endpoint=collector.endpoint, bookmark="otel") as exported:
                assert await exported.flush()

    asyncio.run(story())

    (span,) = collector.spans
    assert span.trace_id == trace_id


def test_a_run_that_ends_before_its_turn_is_counted(collector: Collector) -> None:
    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r", session_id="s")
            await until_asked(runtime, "r")
            queued = await runtime.start_run("clerk", "go", run_id="q", session_id="s")
            await queued.cancel()
            await queued.wait()
            await approve(runtime, "r")
            assert await exported.flush()

    asyncio.run(story())

    outcomes = {
        span.attributes["windlass.run.id"]: span.attributes["windlass.run.outcome"]
        for span in collector.named("invoke_agent clerk")
    }
    assert outcomes == {"r": "completed", "q": "cancelled"}
    assert counted(collector) == {**NAMES, "invoke_agent clerk": 2}


def test_a_fork_does_not_export_records_of_its_origin_again(collector: Collector) -> None:
    agent = Agent(
        "clerk", model=ScriptedModel([call("look", {"at": "x"}), say("one"), say("two")]), tools=[look]
    )

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([agent]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            await (await runtime.start_run(agent, "go", run_id="r", session_id="s")).wait()
            fork = await runtime.sessions.fork("s")
            await (await runtime.start_run(agent, "on", run_id="q", session_id=fork.session_id)).wait()
            assert await exported.flush()

    asyncio.run(story())

    ended = [span.attributes["windlass.run.id"] for span in collector.named("invoke_agent clerk")]
    assert ended == ["r", "q"]
    assert counted(collector) == {"invoke_agent clerk": 2, "chat scripted": 3, "execute_tool look": 1}
    assert collector.metrics["windlass.runtime.runs"][0][1] == 2


def test_a_run_that_cannot_be_understood_does_not_hide_the_others(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fold(records: list[Record], state: TraceState) -> TraceState:
        if records[0].session_id == "bad":
            raise ValueError("no")
        return fold_trace(records, state)

    monkeypatch.setattr(watch, "fold_trace", fold)

    async def story() -> int:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            for name in ("bad", "good"):
                await runtime.start_run("clerk", "go", run_id=name, session_id=name)
                await until_asked(runtime, name)
                await approve(runtime, name)
            assert await exported.flush()
            return exported.dropped_spans

    assert asyncio.run(story()) > 0
    assert counted(collector) == NAMES


def test_a_store_that_fails_is_asked_again(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(**_: int) -> tuple[Record, ...]:
        raise Unavailable("no", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            with monkeypatch.context() as patch:
                patch.setattr(runtime.core.ports.store, "read_all", fails)
                assert not await exported.flush()
            assert await exported.flush()

    asyncio.run(story())

    assert counted(collector) == {"chat scripted": 2, "execute_tool look": 1}


# the environment


def test_the_environment_says_where_the_collector_is(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.endpoint}/v1/traces")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export_from_environment(runtime) as exported,
        ):
            assert exported is not None
            await runtime.start_run("clerk", "go", run_id="r")
            await until_asked(runtime, "r")
            assert await exported.flush()

    asyncio.run(story())

    assert collector.resource["service.name"] == "shop"
    assert counted(collector) == {"chat scripted": 2, "execute_tool look": 1}
    assert collector.metrics == {}, "no collector for metrics is configured"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
        },
    ],
)
def test_nothing_is_exported_that_the_environment_does_not_ask_for(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    async def story() -> None:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export_from_environment(runtime) as exported,
        ):
            assert exported is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
    ],
)
def test_an_unsupported_environment_variable_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            with pytest.raises(Rejected, match=name):
                telemetry.export(runtime)

    asyncio.run(story())


@pytest.mark.parametrize("endpoint", ["", "localhost:4318", "ftp://x", "http://", "http://x/?a=1", 7])
def test_an_endpoint_is_an_address_of_http(endpoint: str) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            with pytest.raises(Rejected, match="collector"):
                telemetry.export(runtime, endpoint=endpoint)

    asyncio.run(story())


def test_the_current_span_becomes_the_parent_of_a_run(collector: Collector) -> None:
    tracer = TracerProvider().get_tracer("test")
    assert telemetry.trace_metadata() == {}

    async def story() -> tuple[int, int]:
        async with (
            AgentRuntime.in_memory([clerk()]) as runtime,
            telemetry.export(runtime, endpoint=collector.endpoint) as exported,
        ):
            with tracer.start_as_current_span("request") as span:
                await runtime.start_run("clerk", "go", run_id="r", metadata=telemetry.trace_metadata())
            await until_asked(runtime, "r")
            await approve(runtime, "r")
            assert await exported.flush()
            context = span.get_span_context()
            return context.trace_id, context.span_id

    trace_id, span_id = asyncio.run(story())

    root = collector.one("invoke_agent clerk")
    assert (int(root.trace_id, 16), int(root.parent_id, 16)) == (trace_id, span_id)


# the extra

CHECK = """
import sys
import windlass, windlass.telemetry
assert not [name for name in sys.modules if name.startswith("opentelemetry")], "imported too early"
sys.modules["opentelemetry.sdk"] = None
from windlass import Agent, AgentRuntime, Rejected
from windlass.testing import ScriptedModel
async def main():
    async with AgentRuntime.in_memory([Agent("a", model=ScriptedModel([]))]) as runtime:
        try:
            windlass.telemetry.export(runtime)
        except Rejected as error:
            print(error.message)
import asyncio
asyncio.run(main())
"""


def test_nothing_of_opentelemetry_is_imported_before_it_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK], capture_output=True, text=True, timeout=300, check=False
    )
    assert "pip install 'windlass-runtime[otel]'" in done.stdout, done.stderr
