"""Reading one session: chat, history, prompts, traces, pages."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar, cast

from pydantic_core import from_json

from windlass.agent.agent import subagent_tool
from windlass.agent.dynamic import join_instructions
from windlass.agent.hooks import BEFORE_MODEL_CALL
from windlass.agent.package import package_of
from windlass.engine.model_calls.model_call import system_words, to_llm
from windlass.errors import Rejected, kind_of
from windlass.ports.catalog import RunRow
from windlass.ports.documents import Document, Documents
from windlass.ports.journal import Journal
from windlass.ports.model import LLMMessage
from windlass.ports.store import ContentStore, Store
from windlass.refusals import bad_request, not_begun
from windlass.tools import definition_of
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record
from windlass_harness.tracing import TraceState, fold_trace
from windlass_harness.views import (
    ChatState,
    RunsState,
    SessionState,
    UsageState,
    fold_chat,
    fold_runs,
    fold_session,
    fold_usage,
)
from windlass_harness.views.costs import RunCosts, fold_session_costs
from windlass_harness.views.runs import RUN_ENDS, RunState
from windlass_harness.views.session import Resolved, resolution_key, resolution_of
from windlass_protocol import (
    ChatMessage,
    HarnessTrace,
    JsonObject,
    ResolverScope,
    ResolverSpec,
    RuntimePackage,
    ToolSpec,
    TraceEvent,
    TraceSpan,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records
from windlass_protocol.limits import INTEGER_MAX

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PAGE_ITEMS_MAX: Final = 200
"""Sessions, runs, requests or messages of one page."""
PAGE_RECORDS_MAX: Final = 1_000
TRACES_KEPT_MAX: Final = 8
"""Unfinished runs with traces that are kept for the next read."""
_DOCUMENTS_PER_READ: Final = 200
_MILESTONES_PER_READ: Final = 512
_CURSOR: Final = re.compile(r"([a-z]+)\.([1-9][0-9]{0,15})")


@sealed
class Page(Generic[T_co]):
    """One page of a list, with the cursor of the next page."""

    items: tuple[T_co, ...]
    next: str | None
    """The argument `after` for the next page; None if this is the last one."""
    total: int | None = None
    """The number of all items, if it was asked for."""


def page_of(rows: Sequence[T], limit: int, *, kind: str, place: Callable[[T], int]) -> Page[T]:
    """Return a page of items that were queried with a limit of one more than the page has."""
    items = tuple(rows[:limit])
    return Page(items, f"{kind}.{place(items[-1])}" if len(rows) > limit else None)


def place_of(after: object, kind: str) -> int | None:
    """Return the place that a cursor names; None without a cursor.

    Raises:
        Rejected: it is not a cursor of this kind of page.
    """
    if after is None:
        return None
    cursor = _CURSOR.fullmatch(after) if isinstance(after, str) else None
    if cursor is None or cursor[1] != kind or int(cursor[2]) > INTEGER_MAX:
        raise bad_request("after must be the `next` of a page of the same kind")
    return int(cursor[2])


def check_limit(limit: object, most: int = PAGE_ITEMS_MAX) -> int:
    """Return the number of items of a page."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise bad_request(f"limit must be a whole number, found {kind_of(limit)}")
    if not 1 <= limit <= most:
        raise bad_request(f"limit must be 1 to {most:,}, found {limit:,}")
    return limit


async def documents_page(
    store: Documents, kind: str, made: Callable[[Document], T | None], *, after: str | None, limit: int
) -> Page[T]:
    """Return a page of the documents of a kind, by name: those of which `made` returns something."""
    check_limit(limit)
    named_items: list[tuple[str, T]] = []
    while len(named_items) <= limit:
        read = await store.documents(kind, after=after, limit=_DOCUMENTS_PER_READ)
        named_items += [(document.name, item) for document in read if (item := made(document)) is not None]
        if len(read) < _DOCUMENTS_PER_READ:
            break
        after = read[-1].name
    page = named_items[:limit]
    return Page(tuple(item for _, item in page), page[-1][0] if len(named_items) > limit else None)


__MILESTONES_PER_READ: Final = 512
BATCH_BYTES_MAX: Final = 524_288
"""Bytes of the data of records that are folded at once."""
MESSAGES: Final = "messages"
"""The kind of the cursors of a chat history."""


@sealed
class SessionAt:
    """A session as it was after one of its records."""

    seq: int
    session: SessionState
    messages: tuple[ChatMessage, ...]
    runs: RunsState
    usage: UsageState


@sealed
class RunTrace:
    """The trace of a run; the first span is the run itself."""

    trace: HarnessTrace
    spans: tuple[TraceSpan, ...]
    events: tuple[TraceEvent, ...]
    seq: int = 0
    """The last record that it is made of."""


async def pages_of(
    journal: Journal, session_id: str, *, after: int = 0, last: int | None = None
) -> AsyncIterator[tuple[Record, ...]]:
    """Yield the records of a session in batches, up to a record or to the end.

    A batch is small enough to be folded on the event loop, where others have their turn after each.
    """
    while last is None or after < last:
        records = await journal.read(session_id, after=after, limit=__MILESTONES_PER_READ)
        if last is not None:
            records = tuple(record for record in records if record.seq <= last)
        if not records:
            return
        for batch in _light_batches(records):
            yield batch
            await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
        after = records[-1].seq


def _light_batches(records: Sequence[Record]) -> Iterator[tuple[Record, ...]]:
    """Yield records in batches of few bytes; a large record is a batch of its own."""
    batch: list[Record] = []
    size = 0
    for record in records:
        added = 0 if record.stored is None else len(record.stored)
        if batch and size + added > BATCH_BYTES_MAX:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(record)
        size += added
    yield tuple(batch)


async def chat_page(journal: Journal, session_id: str, *, after: int, limit: int) -> Page[ChatMessage]:
    """Return messages of the chat of a session, skipping the first `after`.

    The records are read from the first, and no further than the page needs.
    """
    chat, end = ChatState(), after + limit
    async for page in pages_of(journal, session_id):
        chat = fold_chat(page, chat)
        if len(chat.messages) > end and _is_settled(chat, end):
            break
    messages = [*enumerate(chat.messages[after : end + 1], after + 1)]
    page = page_of(messages, limit, kind=MESSAGES, place=lambda numbered: numbered[0])
    return Page(tuple(message for _, message in page.items), page.next)


def _is_settled(chat: ChatState, end: int) -> bool:
    """Whether the messages before one are final: only the newest step can change."""
    return chat.step is None or chat.step.at is None or chat.step.at >= end


async def session_at(journal: Journal, session_id: str, *, seq: int, last_seq: int) -> SessionAt:
    """Return a session as it was after a record.

    Raises:
        Rejected: the session has no such record.
    """
    if not 0 <= seq <= last_seq:
        raise bad_request(f"the session has records 1 to {last_seq:,}, found {seq:,}")
    session, chat, runs, usage = SessionState(), ChatState(), RunsState(), UsageState()
    async for page in pages_of(journal, session_id, last=seq):
        session, chat = fold_session(page, session), fold_chat(page, chat)
        runs, usage = fold_runs(page, runs), fold_usage(page, usage)
    return SessionAt(seq, session, chat.messages, runs, usage)


class Traces:
    """Traces of runs; those of unfinished runs are kept: a reader that follows one folds only new records."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, TraceState] = OrderedDict()

    async def read(self, row: RunRow, journal: Journal, *, owner: str | None, after: int) -> RunTrace:
        """Return the trace of a run, finished or not; with `after`, what changed since that record.

        Raises:
            Conflict: the run has not started.
        """
        # Not taken out: a reader that comes meanwhile begins there too, and so does one after a failed read.
        state = self._kept.get(row.run_id, TraceState())
        last_seq = state.position.seq or row.first_seq - 1
        if row.first_seq:
            async for page in pages_of(journal, row.session_id, after=last_seq):
                state = fold_trace(page, state, run_id=row.run_id, user_id=owner)
                if state.trace is not None and state.trace.ended_at is not None:
                    break
        if state.trace is None:
            raise not_begun(row.run_id)
        if state.trace.ended_at is not None:
            self._kept.pop(row.run_id, None)
        else:
            self._kept[row.run_id] = state
            self._kept.move_to_end(row.run_id)
            if len(self._kept) > TRACES_KEPT_MAX:
                self._kept.popitem(last=False)
        spans, events = state.since(after)
        return RunTrace(state.trace, spans, events, state.position.seq or 0)


NOT_KEPT: Final = "The version of the agent is not stored any more: its instructions and tools are unknown."
SECRETS: Final = "Secrets were masked before anything was written: the model may have seen what is not here."
QUESTIONS: Final = (
    "The records do not say whether people could be asked: tools that ask people may be missing."
)


@sealed
class StepPrompt:
    """The prompt of a step; of several attempts the last one."""

    run_id: str
    session_id: str
    step_index: int
    seq: int
    """The record that started the step."""
    route_id: str | None
    model_id: str | None
    fingerprint: str | None
    """The version of the agent."""
    temperature: float | None
    system: str
    """The instructions; they are not among the messages."""
    output_schema: JsonObject | None
    """The schema of the answer; the instructions contain it as well."""
    tools: tuple[JsonObject, ...]
    messages: tuple[LLMMessage, ...]
    unknown: tuple[str, ...]
    """Facts that are unknown, as text."""


@sealed
class ReadStep:
    """A step of a run: the session when it began, and what it recorded."""

    state: LoopState
    package: RuntimePackage | None
    """The package with the results of its resolvers; None if it is not stored any more."""
    before: Sequence[Record]
    """The records of the session up to its start."""
    after: Sequence[Record]
    """The records from its start to the next step."""

    @property
    def run(self) -> RunState:
        """The run of the step."""
        assert self.state.run is not None, "a step belongs to a run"
        return self.state.run

    @property
    def added(self) -> list[str]:
        """The texts that hooks added after the messages."""
        return _hook_texts(self.after)


async def costs_of(row: RunRow, journal: Journal) -> RunCosts:
    """Return where the money of a run went, as far as it is recorded."""
    entries = await _records(row, journal)
    # Like the fold of a step, it is slow for a long session.
    return await asyncio.to_thread(_fold_costs, entries, row.run_id)


def _fold_costs(entries: Sequence[Record], run_id: str) -> RunCosts:
    costs_by_run = fold_session_costs((record.run_id, record.type, record.data) for record in entries)
    return costs_by_run.get(run_id) or RunCosts()


async def prompt_of(
    row: RunRow, journal: Journal, *, content: ContentStore, step_index: int
) -> StepPrompt | None:
    """Return the prompt of a step; None if the run has no such step.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    step = await step_of(row, journal, content=content, step_index=step_index)
    return None if step is None else _prompt(step, step_index)


async def step_of(
    row: RunRow, journal: Journal, *, content: ContentStore, step_index: int
) -> ReadStep | None:
    """Return a step of a run, of several attempts the last one; None if the run has no such step.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    records = await _records(row, journal)
    starts = [at for at, record in enumerate(records) if _begins(record, row.run_id)]
    begun = [at for at in starts if records[at].data.get("stepIndex") == step_index]
    if not begun:
        return None
    at = begun[-1]
    end = next((start for start in starts if start > at), len(records))
    # Folding a long session is slow, so it runs in a thread.
    state = await asyncio.to_thread(_fold, records[: at + 1])
    after = records[at + 1 : end]
    package, run = None, state.run
    if run is not None and run.package_fingerprint is not None:
        try:
            package = await package_of(content, run.package_fingerprint)
            package = await _apply_resolvers(package, _resolver_results(state, after), content=content)
        except Rejected:
            package = None
    return ReadStep(state, package, records[: at + 1], after)


async def _records(row: RunRow, journal: Journal, *, after: int = 0) -> list[Record]:
    """Return the records of a session up to the end of a run."""
    session_records: list[Record] = []
    async for page in pages_of(journal, row.session_id, after=after):
        for record in page:
            session_records.append(record)
            if record.type in RUN_ENDS and record.run_id == row.run_id:
                return session_records
    return session_records


def _begins(record: Record, run_id: str) -> bool:
    return record.type == records.StepStarted.TYPE and record.run_id == run_id


def _fold(records: Sequence[Record]) -> LoopState:
    state = LoopState()
    state.apply_all(records)
    return state


def _prompt(step: ReadStep, step_index: int) -> StepPrompt:
    state, run, package, contract = step.state, step.run, step.package, step.state.run_notes.contract
    unknown = [SECRETS]
    if package is None:
        unknown.append(NOT_KEPT)
    tools, has_questions = tools_in(package, can_ask=run.can_ask)
    if has_questions:
        unknown.append(QUESTIONS)
    instructions = "" if package is None else package.agent.instructions or ""
    settings = {} if package is None else package.provider_route.settings or {}
    temperature = settings.get("temperature")
    messages = [part for message in state.session.history.messages for part in to_llm(message)]
    messages += [LLMMessage("user", text) for text in step.added]
    return StepPrompt(
        run_id=run.run_id,
        session_id=run.session_id,
        step_index=step_index,
        seq=state.seq,
        route_id=None if package is None else package.provider_route.route_id,
        model_id=run.model_id,
        fingerprint=run.package_fingerprint,
        temperature=temperature if isinstance(temperature, int | float) else None,
        system=system_words(instructions, contract),
        output_schema=None if contract is None else contract.json_schema,
        tools=tools,
        messages=tuple(messages),
        unknown=tuple(unknown),
    )


def _resolver_results(state: LoopState, after: Sequence[Record]) -> dict[str, Resolved]:
    """Return the results of resolvers by name; those with scope step come last."""
    run = state.run
    assert run is not None, "a step belongs to a run"
    resolved = dict(state.session.resolved)
    for record in after:
        body = record.body
        if isinstance(body, records.AgentResolved) and body.scope is ResolverScope.STEP:
            resolved |= resolution_of(body, agent_id=run.agent_id, run_id=record.run_id)
    prefix = resolution_key(run.agent_id, "")
    return {key.removeprefix(prefix): value for key, value in resolved.items() if key.startswith(prefix)}


async def _apply_resolvers(
    package: RuntimePackage, results: dict[str, Resolved], *, content: ContentStore
) -> RuntimePackage:
    """Return a package with the results of its resolvers; those with scope step come last."""
    specs = package.resolvers or ()
    for spec in sorted(specs, key=lambda resolver: resolver.scope is ResolverScope.STEP):
        result = results.get(spec.name)
        if result is not None:
            package = _with(package, spec, cast(JsonObject, from_json(await content.get(result.content))))
    return package


def _with(package: RuntimePackage, spec: ResolverSpec, part: JsonObject) -> RuntimePackage:
    instructions = join_instructions(package.agent.instructions, str(part.get("words") or ""), spec.part)
    agent = package.agent.model_copy(update={"instructions": instructions})
    tools = [ToolSpec.model_validate(item) for item in cast(list[object], part.get("tools") or [])]
    return package.model_copy(update={"agent": agent, "tools": (*(package.tools or ()), *tools) or None})


def tools_in(package: RuntimePackage | None, *, can_ask: bool) -> tuple[tuple[JsonObject, ...], bool]:
    """Return the tools of the prompt, and whether some of them ask people."""
    if package is None:
        return (), False
    questions = {part.name for part in package.tools or () if (part.metadata or {}).get("isQuestion")}
    tools: list[JsonObject] = [
        definition_of(part) for part in package.tools or () if can_ask or part.name not in questions
    ]
    below = (
        subagent_tool(part.name, part.description or "", package_id=part.package_id)
        for part in package.subagents or ()
    )
    return (*tools, *(part.definition for part in below)), bool(questions) and can_ask


def _hook_texts(after: Iterable[Record]) -> list[str]:
    """Return the texts that hooks added after the messages."""
    texts: list[str] = []
    for record in after:
        body = record.body
        if isinstance(body, records.HookCompleted) and body.point == BEFORE_MODEL_CALL:
            context = (body.change or {}).get("context")
            texts += [str(text) for text in context] if isinstance(context, list) else ()
    return texts


@sealed
class Feedback:
    """What a person said of a run, of one of its steps, or of an answer."""

    at: str
    run_id: str
    thumb: str | None = None
    """up or down."""
    score: float | None = None
    """From 0, the worst, to 1, the best."""
    note: str | None = None
    tags: tuple[str, ...] = ()
    step_index: int | None = None
    """The step that is meant, from 0; None for the whole run."""
    message_id: str | None = None
    """The answer that is meant."""
    by: str | None = None


async def feedback_of(store: Store, row: RunRow) -> tuple[Feedback, ...]:
    """Return the feedback of a run, oldest first."""
    items: list[Feedback] = []
    after = 0
    while page := await store.milestones(row.session_id, after=after, limit=_MILESTONES_PER_READ):
        after = page[-1].seq
        for record in page:
            data = record.body
            if isinstance(data, records.FeedbackGiven) and data.run_id == row.run_id:
                items.append(
                    Feedback(
                        record.at,
                        row.run_id,
                        data.thumb,
                        data.score,
                        data.note,
                        tuple(data.tags or ()),
                        data.step_index,
                        data.message_id,
                        data.by,
                    )
                )
    return tuple(items)
