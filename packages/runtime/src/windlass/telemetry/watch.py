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
    Notes,
    Place,
    RunFacts,
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

    run: RunFacts
    state: TraceState
    notes: Notes | None
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
        late = [await self._never_begun(record, unstarted)] if isinstance(unstarted, dict) else []
        return [*await self._taken(record), *late]

    async def _taken(self, record: Record) -> list[Span]:
        if record.type == "session.started":
            _put(self._begun, record.session_id, session_context(record))
        if record.type == "run.started":
            watched = self._sessions[record.session_id] = await self._begin(record)
        else:
            found = self._sessions.get(record.session_id)
            if found is None:
                found = await self._read_again(record)
            if found is None:
                return []
            watched = self._sessions[record.session_id] = found
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
        if is_first and run_id is not None and record.seq <= await self._forked_at(record.session_id):
            _put(self._copied, record.session_id, run_id)
        return run_id is not None and self._copied.get(record.session_id) == run_id

    async def _forked_at(self, session_id: str) -> int:
        """Return the last copied record of a session; the original may be deleted."""
        known = self._forked.get(session_id)
        if known is None:
            session = await self._store.listed_session(session_id)
            known = 0 if session is None else session.predecessor_seq or 0
            _put(self._forked, session_id, known)
        return known

    async def _begin(self, started: Record) -> _Watched:
        data = started.data
        context, key = await self._context(started)
        run = RunFacts(
            run_id=str(data["runId"]),
            session_id=started.session_id,
            agent_id=str(data.get("agentId") or started.agent_id or ""),
            provider=text_in(data, "routeId") or "windlass",
            model=text_in(data, "modelId"),
            version=text_in(data, "packageFingerprint"),
            context=context,
            key=key,
        )
        notes = Notes(self._redactor) if self._with_content else None
        return _Watched(run, TraceState(run_id=run.run_id), notes)

    async def _never_begun(self, record: Record, unstarted: Mapping[str, JsonValue]) -> Span:
        """Return the span of a run that ended while it was queued."""
        watched = await self._begin(replace(record, data=unstarted))
        run_id, at = watched.run.run_id, record.at
        span = TraceSpan(span_id=run_id, name="run", start_at=at, end_at=at)
        outcome = record.type.removeprefix("run.")
        place = Place(watched.root_id, watched.root_id, hide=self._hide)
        return agent_span(watched.run, span, place=place, end=record.data, outcome=outcome)

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
            for one in page:
                if one.seq >= record.seq:
                    return watched
                if one.type == "run.started" and one.data.get("runId") == run_id:
                    watched = await self._begin(one)
                if watched is not None:
                    self._fold(watched, one)
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
        watched.state, ended = _settled(state)
        made = (self._made(watched, span, record) for span in ended)
        return [span for span in made if span is not None]

    def _made(self, watched: _Watched, span: TraceSpan, record: Record) -> Span | None:
        run, operation = watched.run, operation_of(span)
        call_id = text_in(span.attrs, "callId") or ""
        child = watched.children.pop(call_id, None) if operation is Operation.EXECUTE_TOOL else None
        place = Place(
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
                made = agent_span(run, span, place=place, end=record.data, outcome=outcome)
                said = {} if notes is None else notes.agent()
            case Operation.CHAT:
                made = chat_span(run, span, place=place)
                said = {} if notes is None else notes.chat(is_done=record.type == "step.completed")
            case Operation.EXECUTE_TOOL:
                made = tool_span(run, span, place=place)
                said = {} if notes is None else notes.tool(call_id)
            case Operation.WAIT:
                made, said = wait_span(run, span, place=place), {}
            case None:
                return None
        return replace(made, attributes={**made.attributes, **said}) if said else made

    # traces of runs

    async def _context(self, started: Record, *, depth: int = 0) -> tuple[TraceContext, str]:
        """Return the trace of a run, and the key of its ids."""
        run_id, key = str(started.data["runId"]), run_key(started)
        parent_id = text_in(_object(started.data.get("parent")), "runId")
        caller = None if parent_id is None else await self._caller(parent_id, depth=depth + 1)
        if caller is not None:
            above, caller_key = caller
            made = replace(above, parent_id=child_number(caller_key, run_id), is_remote=False)
        else:
            made = context_in(_object(started.data.get("metadata"))) or await self._of_session(started)
        return made or TraceContext(trace_number(key)), key

    async def _of_session(self, started: Record) -> TraceContext | None:
        if started.session_id in self._begun:
            return self._begun[started.session_id]
        first = await self._store.read(started.session_id, limit=1)
        return session_context(first[0]) if first else None

    async def _caller(self, run_id: str, *, depth: int) -> tuple[TraceContext, str] | None:
        """Return the trace of the run that called a subagent, and the key of its ids."""
        known = self._contexts.get(run_id)
        if known is None and depth <= ANCESTORS_MAX:
            row = await self._store.run(run_id)
            page = (
                ()
                if row is None or not row.first_seq
                else await self._store.read(row.session_id, after=row.first_seq - 1, limit=PAGE_RECORDS)
            )
            started = (one for one in page if one.type == "run.started" and one.data.get("runId") == run_id)
            found = next(started, None)
            known = None if found is None else await self._context(found, depth=depth)
        if known is not None:
            _put(self._contexts, run_id, known)
        return known


def _put(kept: OrderedDict[str, T], name: str, value: T) -> None:
    """Add a value as the newest, and drop the oldest above the limit."""
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > CONTEXTS_KEPT_MAX:
        kept.popitem(last=False)


def _keep(watched: _Watched, event: TraceEvent) -> None:
    """Keep an event for its span; the turn is the run itself."""
    run_id = watched.run.run_id
    span_id = run_id if event.span_id.startswith(f"{run_id}/turn/") else event.span_id
    kept = watched.moments.setdefault(span_id, [])
    if len(kept) < MOMENTS_PER_SPAN_MAX:
        kept.append(event)
    else:
        watched.dropped[span_id] = watched.dropped.get(span_id, 0) + 1


def _settled(state: TraceState) -> tuple[TraceState, list[TraceSpan]]:
    """Return a trace without its finished spans, and those spans."""
    is_over = state.trace is not None and state.trace.ended_at is not None
    still = set(state.open_spans.values())
    ended = [span for at, span in enumerate(state.spans) if at not in still and (at or is_over)]
    # The ids of later spans start with that of the first, so it stays as long as the run is unfinished.
    kept = [at for at in range(len(state.spans)) if at in still or not at]
    places = {at: number for number, at in enumerate(kept)}
    rest = replace(
        state,
        spans=tuple(state.spans[at] for at in kept),
        events=(),
        touched=tuple(state.touched[at] for at in kept),
        open_spans={key: places[at] for key, at in state.open_spans.items()},
    )
    return rest, ended


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
