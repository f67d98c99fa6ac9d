"""Undo of a run: which of its calls can be reversed, and the request of the run that reverses them."""

from dataclasses import field
from typing import Final

from msgspec import UnsetType
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.engine.writing.writer import retry_store_call
from windlass.limits import UNDO_BYTES_MAX
from windlass.ports.catalog import RunRow
from windlass.ports.clock import Clock
from windlass.ports.store import ContentStore, Store
from windlass.refusals import not_undoable
from windlass_harness.loop.undo import UNDONE, Undo, UndoneCall, key_of
from windlass_harness.record import Record
from windlass_protocol import (
    ActionStatus,
    ContentRef,
    EffectClass,
    JsonObject,
    UndoItem,
    UndoPlan,
    UndoStatus,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.frozen import mutable
from windlass_protocol.generated import records

_PAGE: Final = 500


@mutable
class _Made:
    """A call of the run that has begun."""

    call_id: str
    tool_name: str
    arguments: JsonValue
    undo_name: str | None
    status: UndoStatus = UndoStatus.UNKNOWN
    result: JsonValue = None
    content: records.ContentRef | None = None
    """Reference to the complete result, if `result` is a part of it."""
    child_run_id: str | None = None


@mutable
class _Calls:
    """The calls of a run, folded from the records of its session."""

    run_id: str
    made: dict[str, _Made] = field(default_factory=dict[str, _Made])
    """Calls by their idempotency keys, in the order in which they began."""
    _inputs: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    _open: dict[str, str] = field(default_factory=dict[str, str])
    """Keys by call id: a model may use an id again in a later step."""
    _reversed: dict[str, str] = field(default_factory=dict[str, str])
    """Keys by the ids of the calls that reverse them."""

    def apply(self, record: Record) -> None:
        is_own = record.run_id == self.run_id
        match record.body:
            case records.ActionsRequested(actions=actions) if is_own:
                for action in actions:
                    self._inputs[action.call_id] = action.input
            case records.ActionStarted() as started if is_own:
                self._begin(started)
            case records.SubagentCalled(call_id=call_id, child_run_id=child_run_id) if is_own:
                call = self.made.get(self._open.get(call_id, ""))
                if call is not None:
                    call.child_run_id = child_run_id
            case records.ActionResult() as ended:
                self._end(ended, is_own=is_own)
            case _:
                pass

    def _begin(self, started: records.ActionStarted) -> None:
        call_id, key = started.call_id, started.idempotency_key
        if started.effect is EffectClass.READ or key in self.made or key in self._reversed:
            # A call that reverses an interrupted one is none that is reversed itself.
            return
        arguments = started.arguments
        if isinstance(arguments, UnsetType):
            arguments = self._inputs.get(call_id)
        self.made[key] = _Made(call_id, started.tool_name, arguments, started.undo)
        self._open[call_id] = key
        self._reversed[key_of(key)] = key

    def _end(self, ended: records.ActionResult, *, is_own: bool) -> None:
        call_id, is_done = ended.result.call_id, ended.status is ActionStatus.COMPLETED
        if call_id in self._reversed and is_done:
            self.made[self._reversed[call_id]].status = UndoStatus.REVERSED
        call = self.made.get(self._open.get(call_id, "")) if is_own else None
        if call is None or call.status is UndoStatus.REVERSED:
            return
        if ended.error is not None and ended.error.code == UNDONE:
            call.status = UndoStatus.REVERSED
        elif is_done:
            call.status = UndoStatus.NO_UNDO if call.undo_name is None else UndoStatus.REVERSIBLE
            call.result, call.content = ended.result.output, ended.content_ref


async def calls_of(store: Store, row: RunRow) -> list[tuple[str, _Made]]:
    """Return the calls of a run that may have changed something, newest first, by idempotency key."""
    calls, after = _Calls(row.run_id), max(row.first_seq - 1, 0)
    while page := await store.read(row.session_id, after=after, limit=_PAGE):
        for record in page:
            calls.apply(record)
        after = page[-1].seq
    return [*reversed(calls.made.items())]


def plan_of(run_id: str, calls: list[tuple[str, _Made]]) -> UndoPlan:
    """Return the calls of a run as a person sees them before they are reversed."""
    items = [
        UndoItem(
            call_id=call.call_id,
            tool_name=call.tool_name,
            arguments=call.arguments,
            status=call.status,
            undo_name=call.undo_name,
            child_run_id=call.child_run_id,
        )
        for _, call in calls
    ]
    return UndoPlan(run_id=run_id, calls=tuple(items))


async def undo_facts(
    run_id: str, calls: list[tuple[str, _Made]], *, content: ContentStore, clock: Clock
) -> JsonObject:
    """Return the list of calls that a run reverses, for its start.

    Raises:
        Conflict: there is none, or they are too large.
    """
    undone: list[UndoneCall] = []
    for key, call in calls:
        if call.status is not UndoStatus.REVERSIBLE:
            continue
        result = call.result
        if call.content is not None:
            ref = ContentRef.model_validate(data_of(call.content))
            result = from_json(await retry_store_call(lambda ref=ref: content.get(ref), clock))
        undone.append(
            UndoneCall(
                call_id=call.call_id,
                tool_name=call.tool_name,
                undo_name=call.undo_name or "",
                arguments=call.arguments,
                result=result,
                idempotency_key=key,
            )
        )
    if not undone:
        raise not_undoable(run_id, "it has no call that can be reversed")
    facts = data_of(Undo(run_id=run_id, calls=undone))
    size = len(to_json(facts["calls"]))
    if size > UNDO_BYTES_MAX:
        raise not_undoable(run_id, f"its calls have {size:,} bytes, limit {UNDO_BYTES_MAX:,}")
    return facts
