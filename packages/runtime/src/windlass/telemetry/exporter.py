"""The telemetry exporter: follows the journal and sends finished spans.

It reads the journal in pages, and continues only after the collector has accepted the last batch. So nothing
is buffered while the collector is down: the journal is the queue, and no run ever waits for the export. Spans
that the collector refuses for good are dropped and counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.parse import urlsplit

from windlass.adapters.loop_watch import loop_stalls
from windlass.errors import AgentError, Conflict, install_hint
from windlass.ports.catalog import count_by_agent
from windlass.ports.clock import IDLE, Clock
from windlass.ports.documents import Document
from windlass.ports.store import Store
from windlass.refusals import bad_request, check_given, check_id, missing_port
from windlass.runtime.compose import AgentRuntime
from windlass.telemetry.environment import TelemetrySettings, settings
from windlass.telemetry.sink import Attribute, Sent, Span, TelemetrySink
from windlass.telemetry.spans import (
    BATCH_CHARS_MAX,
    BATCH_SPANS_MAX,
    CLOSE_S,
    METRICS_S,
    PAGE_RECORDS,
    PAUSE_S,
    RETRY_FIRST_S,
    RETRY_MAX_S,
)
from windlass.telemetry.watch import Watch
from windlass.tools.calling import in_own_thread
from windlass_harness.record import Record
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter


BOOKMARK: Final = "telemetry-bookmark"
"""The kind of the document of a position."""
FROM_ENVIRONMENT: Final = "telemetry"
"""The bookmark of servers, workers and commands."""
LEASE_MS: Final = 30_000
"""How long the export belongs to one process after its last write."""
_STANDBY: Final = "another process exports"


class Bookmark:
    """The position of the export, in the store; one process at a time moves it on.

    The process that exports has a lease, which is renewed while there is something to send. A lease that has
    ended is taken over by the first process that finds something to send. Without a name the position is in
    memory alone.
    """

    def __init__(self, store: Store, clock: Clock, *, name: str | None, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._holder = holder
        self._held: Document | None = None
        """The document as this process wrote it; None while another process exports."""

    async def claim(self, *, is_wanted: bool) -> int | None:
        """Become the exporting process; return the position, or None if another one exports.

        A lease that has ended without a release is taken over if that `is_wanted`, or if there are records
        after the position.
        """
        last = await self._store.last_position()
        if self._name is None:
            return last
        document = await self._store.document(BOOKMARK, self._name)
        if document is None:
            return await self._write(Document(BOOKMARK, self._name, 0, {"position": last}))
        held_ms, position = cast(int, document.body["heldUntilMs"]), cast(int, document.body["position"])
        if held_ms > self._now_ms() or (held_ms and not is_wanted and position >= last):
            return None
        # The newest records may be missing after a failover: a position past the end is moved back.
        body: JsonObject = {**document.body, "position": min(position, last)}
        return await self._write(replace(document, body=body))

    async def hold(self) -> bool:
        """Renew the lease if it ends soon; return whether this process still exports."""
        if self._held is None:
            return self._name is None
        if cast(int, self._held.body["heldUntilMs"]) - self._now_ms() > LEASE_MS // 2:
            return True
        return await self._write(self._held) is not None

    async def save(self, position: int) -> bool:
        """Store a position, and renew the lease; return whether this process still exports."""
        if self._held is None:
            return self._name is None
        return await self._write(replace(self._held, body={"position": position})) is not None

    async def release(self) -> None:
        """Let another process export."""
        if self._held is not None:
            await self._write(self._held, held_ms=0)
            self._held = None

    async def _write(self, document: Document, *, held_ms: int | None = None) -> int | None:
        until_ms = self._now_ms() + LEASE_MS if held_ms is None else held_ms
        body: JsonObject = {**document.body, "holder": self._holder, "heldUntilMs": until_ms}
        written = replace(document, revision=document.revision + 1, body=body)
        try:
            await self._store.put_document(written)
        except Conflict:
            self._held = None
            return None
        self._held = written
        return cast(int, body["position"])

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1_000)


_LOG: Final = logging.getLogger("windlass.telemetry")


@sealed
class Parts:
    """The dependencies of an exporter."""

    store: Store
    clock: Clock
    watch: Watch
    sink: TelemetrySink
    bookmark: Bookmark
    pause_s: float = PAUSE_S
    metrics_s: float = METRICS_S


class TelemetryExport:
    """A running export; `telemetry.export` creates one. It ends when it is closed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._flush_requests: list[asyncio.Future[bool]] = []
        self._position: int | None = None
        """The position of the last record that was read; None while another process exports."""
        self._saved = -1
        self._gathered: list[Span] = []
        """Finished spans of records up to the position that are in no batch yet."""
        self._batch: deque[Sequence[Span]] = deque()
        self._metrics_at = parts.clock.monotonic()
        self._problem: str | None = None
        self._exported = 0
        self._dropped = 0

    @property
    def exported_spans(self) -> int:
        """Accepted spans; spans of traces that are not sampled count as accepted."""
        return self._exported

    @property
    def dropped_spans(self) -> int:
        """Spans that were refused for good."""
        return self._dropped

    @property
    def is_standby(self) -> bool:
        """Whether another process exports with the same bookmark."""
        return self._position is None

    async def __aenter__(self) -> Self:
        await self._claim(is_wanted=True)
        self._task = asyncio.create_task(self._follow(), name="windlass telemetry")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def flush(self) -> bool:
        """Send all durable spans and the metrics; return whether the collector accepted them.

        Also False if another process exports.
        """
        if self._task is None or self._task.done():
            return False
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flush_requests.append(flushed)
        self._wake.set()
        return await flushed

    async def aclose(self) -> None:
        """Send the remaining spans, if the collector accepts them within five seconds, and stop."""
        task, parts = self._task, self._parts
        if task is None:
            return
        if self._problem is None and not self.is_standby:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self.flush()
        self._task = None
        task.cancel()
        await asyncio.wait([task])
        # Callers of `flush` that wait for another round get an answer too.
        for request in self._flush_requests:
            if not request.done():
                request.set_result(False)
        # A send in progress runs in a thread and gives up by itself.
        parts.sink.stop()
        with suppress(AgentError):  # the lease ends by itself
            await parts.bookmark.release()

    # the rounds

    async def _follow(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            requests, self._flush_requests = self._flush_requests, []
            is_done = False
            try:
                is_done = await self._round(is_asked=bool(requests))
            finally:
                for request in requests:
                    if not request.done():
                        request.set_result(is_done)
            failures = 0 if is_done or self.is_standby else failures + 1
            wait_s = min(RETRY_FIRST_S * 2 ** min(failures - 1, 10), RETRY_MAX_S)
            await self._pause(self._parts.pause_s if not failures else wait_s)

    async def _round(self, *, is_asked: bool) -> bool:
        """Send all available spans; return whether they were accepted."""
        problem: str | None
        try:
            problem = await self._send_all(is_asked=is_asked)
        except Exception as error:  # noqa: BLE001 - the export is retried after any error
            problem = f"{type(error).__name__} while reading the journal or keeping the position"
        if problem != self._problem and not self.is_standby:
            if problem is None:
                _LOG.info("telemetry export resumed")
            elif self._problem is None:
                _LOG.warning("telemetry export failed: %s; it is retried", problem)
            self._problem = problem
        return problem is None

    async def _send_all(self, *, is_asked: bool) -> str | None:
        """Send all available spans; return the problem if there is one."""
        parts = self._parts
        if not await self._claim(is_wanted=is_asked):
            return _STANDBY
        end = await parts.store.last_position()
        while self._batch or self._gathered or self._at < end:
            # Before spans are counted: another process may have taken over while there was nothing to send.
            if not await parts.bookmark.hold():
                return self._stand_by()
            if not self._batch:
                await self._gather(end)
            problem = await self._deliver()
            if problem is not None:
                return problem
            if self._saved != self._at:
                if not await parts.bookmark.save(self._at):
                    return self._stand_by()
                self._saved = self._at
        now_s = parts.clock.monotonic()
        if is_asked or now_s - self._metrics_at >= parts.metrics_s:
            self._metrics_at = now_s
            unfinished = count_by_agent(await parts.store.open_runs())
            await in_own_thread(partial(parts.sink.send_metrics, unfinished, self._dropped, loop_stalls()))
        return None

    @property
    def _at(self) -> int:
        return self._position or 0

    async def _claim(self, *, is_wanted: bool) -> bool:
        """Return whether this process exports; it continues at the stored position."""
        if self._position is None:
            self._position = await self._parts.bookmark.claim(is_wanted=is_wanted)
            self._saved = self._at
        return self._position is not None

    def _stand_by(self) -> str:
        """Stand by: another process took the export over, and sends what this one has not."""
        self._position = None
        self._gathered.clear()
        self._batch.clear()
        self._parts.watch.clear()
        return _STANDBY

    async def _gather(self, end: int) -> None:
        """Read until a batch is full, or the end is reached.

        A failed read loses nothing: the gathered spans and the position are kept.
        """
        chars = sum(_chars(span) for span in self._gathered)
        while self._at < end and len(self._gathered) < BATCH_SPANS_MAX and chars < BATCH_CHARS_MAX:
            page = await self._parts.store.read_all(after=self._at, limit=PAGE_RECORDS)
            if not page:
                # Positions may have gaps.
                self._position = end
                break
            for record in page:
                spans = await self._spans(record)
                self._gathered += spans
                chars += sum(_chars(span) for span in spans)
                self._position = record.position
            # Other tasks of the event loop run between two pages.
            await self._parts.clock.sleep(0)
        batch, self._gathered = self._gathered, []
        if batch:
            self._batch.append(batch)
            self._parts.sink.count(batch)

    async def _spans(self, record: Record) -> list[Span]:
        try:
            return await self._parts.watch.take(record)
        except (KeyError, ValueError, TypeError) as error:
            # A run with an invalid record does not stop the export of the others.
            self._drop(1, f"a record is not valid ({type(error).__name__})")
            self._parts.watch.forget(record.session_id)
            return []

    async def _deliver(self) -> str | None:
        """Send the gathered spans, after a refusal each alone; return the problem if there is one."""
        while self._batch:
            if not await self._parts.bookmark.hold():
                return self._stand_by()
            spans = self._batch[0]
            match await in_own_thread(partial(self._parts.sink.send, spans)):
                case Sent.TAKEN:
                    self._exported += len(spans)
                    self._batch.popleft()
                case Sent.LATER:
                    return "the collector does not accept spans"
                case Sent.REFUSED:
                    self._batch.popleft()
                    middle = len(spans) // 2
                    if middle:
                        self._batch.extendleft((spans[middle:], spans[:middle]))
                    else:
                        self._drop(1, "the collector refused a span")
        return None

    def _drop(self, count: int, why: str) -> None:
        if not self._dropped:
            _LOG.warning("a span was dropped: %s; further ones are only counted", why)
        self._dropped += count

    async def _pause(self, seconds: float) -> None:
        """Return after so many seconds, or on a flush."""
        sleep = asyncio.create_task(self._sleep(seconds), name=IDLE)
        wake = asyncio.create_task(self._wake.wait(), name=IDLE)
        try:
            await asyncio.wait((sleep, wake), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            wake.cancel()

    async def _sleep(self, seconds: float) -> None:
        await self._parts.clock.sleep(seconds)


def _chars(span: Span) -> int:
    return sum(_length(value) for value in span.attributes.values())


def _length(value: Attribute) -> int:
    return len(value) if isinstance(value, str) else 1


_OTLP: Final = "windlass.telemetry.otlp"


def export(
    runtime: AgentRuntime,
    *,
    endpoint: str | None = None,
    bookmark: str | None = None,
    capture_content: bool = False,
    span_exporter: "SpanExporter | None" = None,
    metric_exporter: "MetricExporter | None" = None,
) -> TelemetryExport:
    """Export the runs of a store as OpenTelemetry traces and metrics.

    It runs until it is closed. Enter it inside the runtime: `async with telemetry.export(runtime)`.

    Args:
        runtime: the runtime with the store to export; runs of other processes are included.
        endpoint: the address of an OTLP collector, such as `http://localhost:4318`; default: the variables
            OTEL_EXPORTER_OTLP_….
        bookmark: a name for the export position in the store, so that a restart continues there. Only one
            of the processes with the same name exports. Without it, or at first, only new records are sent.
        capture_content: whether messages, arguments, results and texts of errors are exported.
        span_exporter: an exporter of the OpenTelemetry SDK, instead of OTLP.
        metric_exporter: the same for metrics; with either of them nothing is sent by OTLP.

    Raises:
        Rejected: an argument or a variable is not valid, or `windlass-runtime[otel]` is not installed.
    """
    expectation = "whether content is exported: True or False"
    check_given(capture_content, bool, what="capture_content", words=expectation)
    exporters = {"span_exporter": span_exporter, "metric_exporter": metric_exporter}
    sink = _sink(_check_endpoint(endpoint), settings(needs_endpoint=False), exporters)
    name = None if bookmark is None else check_id(bookmark, "bookmark")
    return _open_export(runtime, sink, bookmark=name, with_content=capture_content)


def export_from_environment(
    runtime: AgentRuntime, *, capture_content: bool = False
) -> AbstractAsyncContextManager[TelemetryExport | None]:
    """Export if the environment names a collector, and do nothing otherwise.

    The position is in the store: of all processes of a store that call this, one exports.

    A collector is named by OTEL_EXPORTER_OTLP_ENDPOINT, or by that of one signal; OTEL_SDK_DISABLED,
    OTEL_TRACES_EXPORTER=none and OTEL_METRICS_EXPORTER=none turn all of it, or one signal, off.

    Raises:
        Rejected: as for `export`.
    """
    telemetry_settings = settings(needs_endpoint=True)
    if not telemetry_settings.is_wanted:
        return nullcontext()
    sink = _sink(None, telemetry_settings, {})
    return _open_export(runtime, sink, bookmark=FROM_ENVIRONMENT, with_content=capture_content)


def check_environment() -> bool:
    """Return whether the environment names a usable collector.

    For servers, which check it before the first store is open.

    Raises:
        Rejected: as for `export_from_environment`.
    """
    is_wanted = settings(needs_endpoint=True).is_wanted
    if is_wanted:
        _import_extra(_OTLP)
    return is_wanted


def trace_metadata() -> JsonObject:
    """Return the current span as metadata for a run in the same trace.

    `await runtime.start_run(agent, message, metadata=telemetry.trace_metadata())`. It is empty outside any
    span. A caller with a `traceparent` from elsewhere, such as a request header, passes that instead.

    Raises:
        Rejected: `windlass-runtime[otel]` is not installed.
    """
    carrier: dict[str, str] = {}
    _import_extra("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator().inject(
        carrier
    )
    return {**carrier}


def _check_endpoint(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    expectation = "the address of a collector, such as http://localhost:4318"
    parts = urlsplit(check_given(endpoint, str, what="endpoint", words=expectation))
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise bad_request(f"endpoint must be {expectation}")
    return endpoint


def _import_extra(name: str) -> ModuleType:
    try:
        # The SDK is an extra, and takes a quarter of a second to import.
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
    raise bad_request(f"telemetry needs an optional dependency ({missing}): {install_hint('otel')}")


def _sink(
    endpoint: str | None, telemetry_settings: TelemetrySettings, exporters: Mapping[str, object]
) -> "_SinkChoice":
    sink: TelemetrySink = _import_extra(_OTLP).OtlpSink(endpoint, telemetry_settings, **exporters)
    return _SinkChoice(sink, telemetry_settings)


def _open_export(
    runtime: AgentRuntime, sink_choice: "_SinkChoice", *, bookmark: str | None, with_content: bool
) -> TelemetryExport:
    ports, intervals = runtime.core.ports, sink_choice.settings
    if ports.store is None:
        raise missing_port("run journal")
    return TelemetryExport(
        Parts(
            ports.store,
            ports.machine.clock,
            Watch(ports.store, ports.scribe.redactor, with_content=with_content),
            sink_choice.sink,
            Bookmark(ports.store, ports.machine.clock, name=bookmark, holder=ports.machine.new_id()),
            pause_s=intervals.pause_s or PAUSE_S,
            metrics_s=intervals.metrics_s or METRICS_S,
        )
    )


@sealed
class _SinkChoice:
    """The sink of the telemetry, and the intervals."""

    sink: TelemetrySink
    settings: TelemetrySettings
