"""Open spans of the current runs, folded from records.

For each session with a current run it keeps the fold of the trace without the exported spans. It is a cache:
a session that is missing is read again from the journal. So a restart, or more sessions than the cache holds,
costs time and changes nothing.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, TypeVar

from pydantic import JsonValue

from windlass.ports.store import Store
from windlass.telemetry.sink import Operation, Span, TraceContext
from windlass.telemetry.spans import (
    ANCESTORS_MAX,
    CONTEXTS_KEPT_MAX,
    MOMENTS_PER_SPAN_MAX,
    PAGE_RECORDS,
    SESSIONS_KEPT_MAX,
    RunContent,
    SpanFacts,
    SpanPosition,
    agent_span,
    chat_span,
    child_number,
    context_in,
    operation_of,
    run_key,
    session_context,
    span_number,
    tool_span,
    trace_number,
    wait_span,
)
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.tracing import TraceState, fold_trace
from windlass_harness.views.fold import text_in
from windlass_harness.views.runs import RUN_ENDS, run_id_of
from windlass_protocol import TraceEvent, TraceSpan
from windlass_protocol.frozen import mutable

T = TypeVar("T")

_TELLING: Final = frozenset({"run", "turn", "step", "actions", "action", "input"})
"""Prefixes of types that open or end a span; only for them a run is read again."""


@mutable
class _Watched:
    """The current run of a session."""

    run: SpanFacts
    state: TraceState
    notes: RunContent | None
    children: dict[str, str] = field(default_factory=dict[str, str])
    """Runs of subagents by the calls that started them."""
    moments: dict[str, list[TraceEvent]] = field(default_factory=dict[str, list[TraceEvent]])
    dropped: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def root_id(self) -> int:
        return span_number(self.run.key, self.run.run_id)

    @property
    def has_ended(self) -> bool:
        return self.state.trace is not None and self.state.trace.ended_at is not None


class Watch:
    """Turns the records of a store, in order, into spans."""

    def __init__(self, store: Store, redactor: Redactor, *, with_content: bool = False) -> None:
        self._store = store
        self._redactor = redactor
        self._with_content = with_content
        self._hide = redactor.text if with_content else None
        self._sessions: OrderedDict[str, _Watched] = OrderedDict()
        self._contexts: OrderedDict[str, tuple[TraceContext, str]] = OrderedDict()
        self._begun: OrderedDict[str, TraceContext | None] = OrderedDict()
        """New sessions with the traces that they name."""
        self._forked: OrderedDict[str, int] = OrderedDict()
        """The number of copied records by session; 0 for all but forks."""
        self._copied: OrderedDict[str, str] = OrderedDict()
        """Forks, with the runs in them that belong to the original session."""

    def forget(self, session_id: str) -> None:
        """Drop the cached state of a session."""
        self._sessions.pop(session_id, None)

    def clear(self) -> None:
        """Drop the cached states of all sessions: records were taken elsewhere."""
        self._sessions.clear()

    async def take(self, record: Record) -> list[Span]:
        """Return the spans that a record ends.

        If the store fails, nothing changes: the same record can be passed again.
        """
        if await self._is_copied(record):
            self.forget(record.session_id)
            return []
        unstarted = record.data.get("unstarted") if record.type in RUN_ENDS else None
        # Folding cannot be repeated, so all reads of the store come first.
        unstarted_spans = (
            [await self._unstarted_span(record, unstarted)] if isinstance(unstarted, dict) else []
        )
        return [*await self._take_record(record), *unstarted_spans]

    async def _take_record(self, record: Record) -> list[Span]:
        if record.type == "session.started":
            _put(self._begun, record.session_id, session_context(record))
        if record.type == "run.started":
            watched = self._sessions[record.session_id] = await self._begin(record)
        else:
            session = self._sessions.get(record.session_id)
            if session is None:
                session = await self._read_again(record)
            if session is None:
                return []
            watched = self._sessions[record.session_id] = session
        self._sessions.move_to_end(record.session_id)
        spans = self._fold(watched, record)
        if watched.has_ended:
            del self._sessions[record.session_id]
        while len(self._sessions) > SESSIONS_KEPT_MAX:
            self._sessions.popitem(last=False)
        return spans

    async def _is_copied(self, record: Record) -> bool:
        """Return whether a record belongs to a run that a fork copied."""
        run_id = run_id_of(record)
        is_first = record.type == "run.started" or "unstarted" in record.data
        if is_first and run_id is not None and record.seq <= await self._fork_seq(record.session_id):
            _put(self._copied, record.session_id, run_id)
        return run_id is not None and self._copied.get(record.session_id) == run_id

    async def _fork_seq(self, session_id: str) -> int:
        """Return the last copied record of a session; the original may be deleted."""
        copied_seq = self._forked.get(session_id)
        if copied_seq is None:
            session = await self._store.session_info(session_id)
            copied_seq = 0 if session is None else session.predecessor_seq or 0
            _put(self._forked, session_id, copied_seq)
        return copied_seq

    async def _begin(self, run_start: Record) -> _Watched:
        data = run_start.data
        context, key = await self._context(run_start)
        run = SpanFacts(
            run_id=str(data["runId"]),
            session_id=run_start.session_id,
            agent_id=str(data.get("agentId") or run_start.agent_id or ""),
            provider=text_in(data, "routeId") or "windlass",
            model=text_in(data, "modelId"),
            version=text_in(data, "packageFingerprint"),
            context=context,
            key=key,
        )
        notes = RunContent(self._redactor) if self._with_content else None
        return _Watched(run, TraceState(run_id=run.run_id), notes)

    async def _unstarted_span(self, record: Record, unstarted: Mapping[str, JsonValue]) -> Span:
        """Return the span of a run that ended while it was queued."""
        watched = await self._begin(replace(record, data=unstarted))
        run_id, at = watched.run.run_id, record.at
        span = TraceSpan(span_id=run_id, name="run", start_at=at, end_at=at)
        outcome = record.type.removeprefix("run.")
        position = SpanPosition(watched.root_id, watched.root_id, hide=self._hide)
        return agent_span(watched.run, span, position=position, end=record.data, outcome=outcome)

    async def _read_again(self, record: Record) -> _Watched | None:
        """Return the run of a record as it was before; None without a current run."""
        run_id = run_id_of(record)
        if run_id is None or record.type.partition(".")[0] not in _TELLING:
            return None
        row = await self._store.run(run_id)
        after = 0 if row is None else row.first_seq - 1
        if row is None or after < 0 or row.session_id != record.session_id:
            return None
        watched: _Watched | None = None
        while page := await self._store.read(record.session_id, after=after, limit=PAGE_RECORDS):
            for earlier in page:
                if earlier.seq >= record.seq:
                    return watched
                if earlier.type == "run.started" and earlier.data.get("runId") == run_id:
                    watched = await self._begin(earlier)
                if watched is not None:
                    self._fold(watched, earlier)
                    watched = None if watched.has_ended else watched
            after = page[-1].seq
        return watched

    def _fold(self, watched: _Watched, record: Record) -> list[Span]:
        if watched.notes is not None:
            watched.notes.take(record)
        if record.type == "subagent.called":
            call_id, child = text_in(record.data, "callId"), text_in(record.data, "childRunId")
            if call_id is not None and child is not None:
                watched.children[call_id] = child
        state = fold_trace([record], watched.state)
        for event in state.events:
            _keep(watched, event)
        watched.state, ended_spans = _split_ended_spans(state)
        built = (self._build_span(watched, span, record) for span in ended_spans)
        return [span for span in built if span is not None]

    def _build_span(self, watched: _Watched, span: TraceSpan, record: Record) -> Span | None:
        run, operation = watched.run, operation_of(span)
        call_id = text_in(span.attrs, "callId") or ""
        child = watched.children.pop(call_id, None) if operation is Operation.EXECUTE_TOOL else None
        position = SpanPosition(
            span_number(run.key, span.span_id) if child is None else child_number(run.key, child),
            watched.root_id,
            watched.moments.pop(span.span_id, ()),
            watched.dropped.pop(span.span_id, 0),
            hide=self._hide,
        )
        notes = watched.notes
        match operation:
            case Operation.INVOKE_AGENT:
                outcome = record.type.removeprefix("run.")
                built = agent_span(run, span, position=position, end=record.data, outcome=outcome)
                content = {} if notes is None else notes.agent()
            case Operation.CHAT:
                built = chat_span(run, span, position=position)
                content = {} if notes is None else notes.chat(is_done=record.type == "step.completed")
            case Operation.EXECUTE_TOOL:
                built = tool_span(run, span, position=position)
                content = {} if notes is None else notes.tool(call_id)
            case Operation.WAIT:
                built, content = wait_span(run, span, position=position), {}
            case None:
                return None
        return replace(built, attributes={**built.attributes, **content}) if content else built

    # traces of runs

    async def _context(self, run_start: Record, *, depth: int = 0) -> tuple[TraceContext, str]:
        """Return the trace of a run, and the key of its ids."""
        run_id, key = str(run_start.data["runId"]), run_key(run_start)
        parent_id = text_in(_object(run_start.data.get("parent")), "runId")
        caller = None if parent_id is None else await self._caller(parent_id, depth=depth + 1)
        if caller is not None:
            above, caller_key = caller
            context = replace(above, parent_id=child_number(caller_key, run_id), is_remote=False)
        else:
            context = context_in(_object(run_start.data.get("metadata"))) or await self._of_session(run_start)
        return context or TraceContext(trace_number(key)), key

    async def _of_session(self, run_start: Record) -> TraceContext | None:
        if run_start.session_id in self._begun:
            return self._begun[run_start.session_id]
        first = await self._store.read(run_start.session_id, limit=1)
        return session_context(first[0]) if first else None

    async def _caller(self, run_id: str, *, depth: int) -> tuple[TraceContext, str] | None:
        """Return the trace of the run that called a subagent, and the key of its ids."""
        context = self._contexts.get(run_id)
        if context is None and depth <= ANCESTORS_MAX:
            row = await self._store.run(run_id)
            page = (
                ()
                if row is None or not row.first_seq
                else await self._store.read(row.session_id, after=row.first_seq - 1, limit=PAGE_RECORDS)
            )
            run_starts = (
                record
                for record in page
                if record.type == "run.started" and record.data.get("runId") == run_id
            )
            run_start = next(run_starts, None)
            context = None if run_start is None else await self._context(run_start, depth=depth)
        if context is not None:
            _put(self._contexts, run_id, context)
        return context


def _put(cache: OrderedDict[str, T], name: str, value: T) -> None:
    """Add a value as the newest, and drop the oldest above the limit."""
    cache[name] = value
    cache.move_to_end(name)
    while len(cache) > CONTEXTS_KEPT_MAX:
        cache.popitem(last=False)


def _keep(watched: _Watched, event: TraceEvent) -> None:
    """Keep an event for its span; the turn is the run itself."""
    run_id = watched.run.run_id
    span_id = run_id if event.span_id.startswith(f"{run_id}/turn/") else event.span_id
    moments = watched.moments.setdefault(span_id, [])
    if len(moments) < MOMENTS_PER_SPAN_MAX:
        moments.append(event)
    else:
        watched.dropped[span_id] = watched.dropped.get(span_id, 0) + 1


def _split_ended_spans(state: TraceState) -> tuple[TraceState, list[TraceSpan]]:
    """Return a trace without its finished spans, and those spans."""
    is_over = state.trace is not None and state.trace.ended_at is not None
    still = set(state.open_spans.values())
    ended_spans = [span for at, span in enumerate(state.spans) if at not in still and (at or is_over)]
    # The ids of later spans start with that of the first, so it stays as long as the run is unfinished.
    kept_indexes = [at for at in range(len(state.spans)) if at in still or not at]
    new_indexes = {at: number for number, at in enumerate(kept_indexes)}
    open_state = replace(
        state,
        spans=tuple(state.spans[at] for at in kept_indexes),
        events=(),
        touched=tuple(state.touched[at] for at in kept_indexes),
        open_spans={key: new_indexes[at] for key, at in state.open_spans.items()},
    )
    return open_state, ended_spans


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
