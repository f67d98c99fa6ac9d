"""Records in the sequence of eve 0.13.8, a tool loop with the contract of `windlass.steps`.

There, a wait for people ends the turn and the answers begin another. Calls that people are asked about are
only in `input.requested`, and `step.completed` comes after the results of its calls.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from windlass_harness.views.payloads import DENIED, UNSPOKEN
from windlass_protocol import (
    ErrorKind,
    InputKind,
    InputOutcome,
    InputRequest,
    JsonObject,
    JsonValue,
    RunMode,
    StepPlace,
)
from windlass_protocol.bodies import Part, read_body

EVE_TYPES: Final = frozenset(
    {"session.started", "session.waiting", "session.completed", "session.failed"}
    | {"turn.started", "turn.waiting", "turn.completed", "turn.failed", "message.received"}
    | {"step.started", "step.retrying", "step.completed", "step.failed", "result.completed"}
    | {"reasoning.appended", "reasoning.completed", "message.appended", "message.completed"}
    | {"actions.requested", "action.result", "input.requested", "subagent.called", "subagent.completed"}
    | {"compaction.requested", "compaction.completed", "compaction.failed"}
)
"""The types of events that readers of eve know."""
EVE_VERSION: Final = "0.13.8"
"""The release of eve that has these events: `eveVersion` of its `session.started`."""
OUTPUT_NOT_FULFILLED: Final = "OUTPUT_SCHEMA_NOT_FULFILLED"
"""The error code of an output that does not fit its schema."""
_FAILURES: Final = frozenset({"step.failed", "turn.failed", "session.failed"})
EXECUTION_DENIED: Final = "TOOL_EXECUTION_DENIED"
"""The error code of a call that a person denied or passed over."""
_OF_CALLS: Final = frozenset({"step.completed", "action.result", "input.requested"})
_OF_STARTED: Final = ("runtime", "invocation")
"""The fields of `session.started` that readers of eve know."""
_FIRST: Final = StepPlace.model_construct(sequence=0, step_index=0, turn_id="turn_0")
Shown = tuple[str, JsonObject]
"""The type and the data of an event."""


class _Call(Part, frozen=True, kw_only=True):
    """An action, or the result of one."""

    call_id: str


class _Request(Part, frozen=True, kw_only=True):
    """A request to people."""

    request_id: str
    action: _Call
    kind: str | None = None


class _Resolution(Part, frozen=True, kw_only=True):
    """The end of a request."""

    request_id: str
    outcome: str
    kind: str | None = None


class EveGrammar:
    """Makes the events of eve from the records of a session, one after the other.

    The same records always make the same events, so a reader can resume by their number.
    """

    def __init__(
        self,
        place: StepPlace | None = None,
        *,
        is_turn_open: bool = False,
        keeps_index: bool = False,
        mode: RunMode = RunMode.CONVERSATION,
        actions: Mapping[str, JsonObject] | None = None,
        requests: Iterable[InputRequest] = (),
    ) -> None:
        """Begin at the first record, or between two steps.

        `actions` has extra fields of the actions of agents by the name of the tool, and `requests` are open.
        """
        self.place = place
        """The place of the last shown step; None before the first turn."""
        self.is_turn_open = is_turn_open
        self._keeps_index = keeps_index
        """The next step keeps the index: it is the first of its turn, or follows calls of agents."""
        self._mode = mode
        self._actions = actions or {}
        self._calls_by_request: dict[str, str] = {}
        self._questions: set[str] = set()
        """Calls that are questions: their results are not shown."""
        self._denied: set[str] = set()
        """Calls without the consent of a person, until their results are shown."""
        self._is_answered = False
        """Whether a request was resolved since the last wait for people was shown."""
        self._held: list[Shown] = []
        self._late: list[Shown] = []
        """Results of approved calls: they belong to the turn that the answers start."""
        self._message: JsonObject | None = None
        """A message that passed requests over: it is shown after the results of their calls."""
        for request in requests:
            self._note_request(request.request_id, request.action.call_id, request.kind)

    def with_position(self, data: JsonObject) -> JsonObject:
        """Return data with the turn and step of this grammar."""
        if self.place is None or "turnId" not in data:
            return data
        step: JsonObject = {"stepIndex": self.place.step_index} if "stepIndex" in data else {}
        return {**data, "sequence": self.place.sequence, "turnId": self.place.turn_id, **step}

    def take(self, kind: str, data: JsonObject, *, attempt: int | None = None) -> Iterator[Shown]:
        """Return the events of a record: none if it is held back, or also those of earlier records."""
        match kind:
            case "run.started":
                self._mode = RunMode.TASK if data.get("mode") == RunMode.TASK else RunMode.CONVERSATION
            case "input.resolved":
                yield from self._resolve(data)
            case "turn.cancelled":
                error: JsonObject = {"code": "cancelled", "message": "The run was cancelled."}
                yield from self._within_turn("turn.failed", {**data, **error})
            case "session.started":
                yield kind, _session_data(data)
            case "turn.waiting":
                yield from self.flush()
                if data["on"] == "input" and (self.is_turn_open or self._is_answered):
                    yield from self._end_for_people()
            case _ if kind in EVE_TYPES and data.get("delivery") not in UNSPOKEN:
                if kind != "step.started" or (attempt or 1) == 1:
                    yield from self._take(kind, data)
            case _:
                pass

    def flush(self) -> Iterator[Shown]:
        """Return the events that were held back."""
        held, self._held = self._held, []
        if held:
            yield from self._calls(held[0][1], held[1:])
        late, self._late = self._late, []
        for kind, data in late:
            yield kind, self.with_position(data)

    def _take(self, kind: str, data: JsonObject) -> Iterator[Shown]:
        if "parentCallId" in data:
            # Calls of programs; older readers know the program alone.
            return
        if kind == "actions.requested":
            # A later step may have calls with the same ids.
            self._questions.difference_update(_call_ids(data))
        if kind == "input.requested" and _is_own(data):
            for request in _read_requests(data):
                self._note_request(request.request_id, request.action.call_id, request.kind)
        if kind == "action.result":
            call_id = _call_of(data)
            if call_id in self._questions:
                return
            data = _refusal_of(data)
        if kind in _FAILURES and data.get("code") == ErrorKind.STRUCTURED_OUTPUT_FAILURE:
            data = {**data, "code": OUTPUT_NOT_FULFILLED}
        if kind == "actions.requested" or (self._held and kind in _OF_CALLS):
            self._held.append((kind, data))
        elif kind == "action.result" and not self.is_turn_open and data["status"] != "rejected":
            self._late.append((kind, data))
        elif kind == "action.result":
            yield kind, self.with_position(data)
            self._denied.discard(_call_of(data))
            if not self._denied:
                yield from self._release()
        elif kind == "message.received" and self._denied:
            self._message = data
        else:
            yield from self._within_turn(kind, data)

    def _note_request(self, request_id: str, call_id: str, kind: JsonValue) -> None:
        self._calls_by_request[request_id] = call_id
        if kind == InputKind.QUESTION:
            self._questions.add(call_id)

    def _resolve(self, data: JsonObject) -> Iterator[Shown]:
        for resolution_data in cast(list[JsonObject], data["resolutions"]):
            resolution = read_body(_Resolution, resolution_data)
            request_id = resolution.request_id
            call_id = self._calls_by_request.pop(request_id, None)
            if any(request_id in _ids(held) for held in self._held):
                # The answer came while other calls of the step were running: the turn ends here all the same.
                yield from self.flush()
                yield from self._end_for_people()
            else:
                self._is_answered = True
            is_consent = resolution.kind == InputKind.APPROVAL
            if call_id is not None and is_consent and resolution.outcome != InputOutcome.APPROVED:
                self._denied.add(call_id)

    def _release(self) -> Iterator[Shown]:
        """Show the message that passed requests over."""
        message, self._message = self._message, None
        self._denied.clear()
        if message is not None:
            yield from self._within_turn("message.received", message)

    def _within_turn(self, kind: str, data: JsonObject) -> Iterator[Shown]:
        yield from self._release()
        late, self._late = self._late, []
        yield from self.flush()
        if not self.is_turn_open and not kind.startswith("session."):
            yield "turn.started", self._open_turn()
        if kind == "step.started" and self.place is not None:
            index = self.place.step_index + (not self._keeps_index)
            self.place, self._keeps_index = self.place.model_copy(update={"step_index": index}), False
        if kind == "subagent.called":
            self._keeps_index = True
        if kind != "turn.started":
            yield kind, self.with_position(data)
        for late_kind, late_data in late:
            yield late_kind, self.with_position(late_data)
        if kind in ("turn.completed", "turn.failed"):
            self.is_turn_open = False

    def _open_turn(self) -> JsonObject:
        if self.place is not None:
            sequence = self.place.sequence + 1
            self.place = StepPlace(sequence=sequence, step_index=0, turn_id=f"turn_{sequence}")
        self.place = self.place or _FIRST
        self.is_turn_open = self._keeps_index = True
        return {"sequence": self.place.sequence, "turnId": self.place.turn_id}

    def _end_for_people(self) -> Iterator[Shown]:
        """End the turn. After answers to some requests no turn is open, and the session waits again."""
        was_open = self.is_turn_open
        self.is_turn_open = self._is_answered = False
        if self._mode is RunMode.TASK:
            return
        if was_open:
            yield "turn.completed", self.with_position({"sequence": 0, "turnId": ""})
        yield "session.waiting", {"wait": "next-user-message"}

    def _calls(self, requested: JsonObject, held: Sequence[Shown]) -> Iterator[Shown]:
        """Return the calls of a step, their results in the order of the calls, and the requests to people."""
        actions = _actions(requested)
        requests = [data for kind, data in held if kind == "input.requested"]
        asks = [request for data in requests for request in _requests(data)]
        own = [request for data in requests if _is_own(data) for request in _read_requests(data)]
        asked_call_ids = [request.action.call_id for request in own]
        order = _call_ids(requested)
        shown: list[JsonValue] = [
            self._action(action)
            for call_id, action in zip(order, actions, strict=True)
            if call_id not in asked_call_ids
        ]
        if shown:
            yield "actions.requested", self.with_position({**requested, "actions": shown})
        results = [data for kind, data in held if kind == "action.result"]
        for data in sorted(results, key=lambda data: order.index(_call_of(data))):
            yield "action.result", self.with_position(data)
        for kind, data in held:
            if kind == "step.completed":
                yield kind, self.with_position(data)
        if asks:
            yield "input.requested", self.with_position({**requests[0], "requests": [*asks]})

    def _action(self, action: JsonObject) -> JsonObject:
        return {**action, **self._actions.get(str(action.get("name")), {})}


def _session_data(data: JsonObject) -> JsonObject:
    """Return the fields of `session.started` that readers of eve know."""
    fields = {name: data[name] for name in _OF_STARTED if name in data}
    runtime = fields.get("runtime")
    if isinstance(runtime, dict):
        fields["runtime"] = {**runtime, "eveVersion": EVE_VERSION}
    return fields


def _actions(data: JsonObject) -> list[JsonObject]:
    return cast(list[JsonObject], data["actions"])


def _is_own(data: JsonObject) -> bool:
    """Return whether requests are about calls of this session; a subagent has call ids of its own."""
    return data.get("childSessionId") is None


def _requests(data: JsonObject) -> list[JsonObject]:
    return cast(list[JsonObject], data["requests"])


def _read_requests(data: JsonObject) -> list[_Request]:
    return [read_body(_Request, request) for request in _requests(data)]


def _ids(held: Shown) -> list[str]:
    kind, data = held
    return [request.request_id for request in _read_requests(data)] if kind == "input.requested" else []


def _call_ids(data: JsonObject) -> list[str]:
    return [read_body(_Call, action).call_id for action in _actions(data)]


def _call_of(data: JsonObject) -> str:
    return read_body(_Call, cast(JsonObject, data["result"])).call_id


def _refusal_of(data: JsonObject) -> JsonObject:
    """Return the result of a call with the code of eve if a person refused it."""
    error = data.get("error")
    if data["status"] != "rejected" or not isinstance(error, dict) or error.get("code") != "denied":
        return data
    denial: JsonObject = {"code": EXECUTION_DENIED, "message": error.get("message") or DENIED}
    return {**data, "error": denial, "result": {**cast(JsonObject, data["result"]), "output": denial}}
