"""Undo of a run: which of its calls can be reversed, and the request of the run that reverses them."""

from dataclasses import field
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.engine.writer import retry_store_call
from windlass.limits import UNDO_BYTES_MAX
from windlass.ports.clock import Clock
from windlass.ports.store import ContentStore, RunRow, Store
from windlass.refusals import not_undoable
from windlass_harness.loop.undo import UNDONE, key_of
from windlass_harness.record import Record
from windlass_protocol import ContentRef, EffectClass, JsonObject, UndoItem, UndoPlan, UndoStatus
from windlass_protocol.frozen import mutable

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
    content: JsonObject | None = None
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
        data = record.data
        match record.type:
            case "actions.requested" if record.run_id == self.run_id:
                for action in cast(list[JsonObject], data["actions"]):
                    self._inputs[str(action["callId"])] = action.get("input")
            case "action.started" if record.run_id == self.run_id:
                self._begin(data)
            case "subagent.called" if record.run_id == self.run_id:
                call = self.made.get(self._open.get(str(data["callId"]), ""))
                if call is not None:
                    call.child_run_id = str(data.get("childRunId"))
            case "action.result":
                self._end(record)
            case _:
                pass

    def _begin(self, data: JsonObject) -> None:
        call_id, key, undo = str(data["callId"]), str(data["idempotencyKey"]), data.get("undo")
        if data.get("effect") == EffectClass.READ or key in self.made or key in self._reversed:
            # A call that reverses an interrupted one is none that is reversed itself.
            return
        arguments = data.get("arguments", self._inputs.get(call_id))
        undo_name = undo if isinstance(undo, str) else None
        self.made[key] = _Made(call_id, str(data["toolName"]), arguments, undo_name)
        self._open[call_id] = key
        self._reversed[key_of(key)] = key

    def _end(self, record: Record) -> None:
        data, result = record.data, cast(JsonObject, record.data["result"])
        call_id, is_done = str(result["callId"]), data.get("status") == "completed"
        if call_id in self._reversed and is_done:
            self.made[self._reversed[call_id]].status = UndoStatus.REVERSED
        call = self.made.get(self._open.get(call_id, "")) if record.run_id == self.run_id else None
        if call is None or call.status is UndoStatus.REVERSED:
            return
        error, content = data.get("error"), data.get("contentRef")
        if isinstance(error, dict) and error.get("code") == UNDONE:
            call.status = UndoStatus.REVERSED
        elif is_done:
            call.status = UndoStatus.NO_UNDO if call.undo_name is None else UndoStatus.REVERSIBLE
            call.result, call.content = result.get("output"), content if isinstance(content, dict) else None


async def calls_of(store: Store, row: RunRow) -> list[tuple[str, _Made]]:
    """Return the calls of a run that may have changed something, newest first, by idempotency key."""
    calls, after = _Calls(row.run_id), max(row.first_seq - 1, 0)
    while records := await store.read(row.session_id, after=after, limit=_PAGE):
        for record in records:
            calls.apply(record)
        after = records[-1].seq
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
    items: list[JsonValue] = []
    for key, call in calls:
        if call.status is not UndoStatus.REVERSIBLE:
            continue
        result = call.result
        if call.content is not None:
            ref = ContentRef.model_validate(call.content)
            result = from_json(await retry_store_call(lambda ref=ref: content.get(ref), clock))
        items.append(
            {
                "callId": call.call_id,
                "toolName": call.tool_name,
                "undoName": call.undo_name,
                "arguments": call.arguments,
                "result": result,
                "idempotencyKey": key,
            }
        )
    if not items:
        raise not_undoable(run_id, "it has no call that can be reversed")
    size = len(to_json(items))
    if size > UNDO_BYTES_MAX:
        raise not_undoable(run_id, f"its calls have {size:,} bytes, limit {UNDO_BYTES_MAX:,}")
    return {"runId": run_id, "calls": items}
