"""Tapes: the input, the call results and the answer of a recorded run.

A tape is sufficient to replay the run. A call is identified by its tool and its arguments in canonical JSON:
as the model wrote them, and also as they were executed if a rule or a hook changed them.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import UNSET
from pydantic import JsonValue

from windlass_harness.record import Record
from windlass_harness.views.fold import Handlers
from windlass_harness.views.payloads import (
    DECISION_NAMES,
    UNSPOKEN,
    action_name,
    as_text,
    question_outcome,
    tool_output,
)
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    InputRequest,
    ToolOutput,
    ToolOutputType,
    UserPart,
    canonical,
)
from windlass_protocol.bodies import or_none
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records


@sealed
class TapedCall:
    """A call and its result."""

    tool: str
    arguments: JsonValue
    output: ToolOutput
    """The result as the model saw it: a result too large for a record was too large for the model."""

    @property
    def key(self) -> str:
        """The key that identifies the call."""
        return call_key(self.tool, self.arguments)


@sealed
class MadeCall:
    """A call that the model asked for, once, and what became of it."""

    tool: str
    arguments: JsonValue
    """The arguments that it ran with, or else those that the model wrote."""
    decision: str | None = None
    """What the policy decided first: allow, modify, ask or deny."""
    result: ToolOutputType | None = None
    """The kind of its result; None if it has none."""


@sealed
class Tape:
    """The parts of a run that a replay needs."""

    run_id: str
    message: str = ""
    parts: tuple[UserPart, ...] = ()
    """The request, if it was more than text."""
    context: tuple[str, ...] = ()
    calls: tuple[TapedCall, ...] = ()
    """In the order of their ends."""
    output: str = ""
    value: JsonValue = None
    """The answer as JSON, if the run had an output contract."""
    later_messages: int = 0
    """Messages that people sent during the run; a replay does not repeat them."""
    made: tuple[MadeCall, ...] = ()
    """The calls in the order in which the model asked for them."""
    steps: int = 0
    """Model calls that were answered."""


def call_key(tool: str, arguments: JsonValue) -> str:
    """Return the key of a call: its tool, and its arguments in canonical JSON."""
    return f"{tool} {canonical(arguments).decode()}"


def read_tape(entries: Iterable[Record], run_id: str) -> Tape:
    """Return the tape of one run from the records of its session."""
    reader, current = _Reader(run_id), None
    for record in entries:
        run_id_in_record = run_id_of(record)
        current = run_id_in_record if record.type == records.RunStarted.TYPE else current
        handle = _ON.by_type.get(record.type)
        if handle is not None and (run_id_in_record or current) == run_id:
            handle(reader, record, record.body)
    return reader.done()


_ON: Final = Handlers["_Reader", Record, [], None]()


class _Reader:
    def __init__(self, run_id: str) -> None:
        self.tape = Tape(run_id)
        self._asked: dict[str, list[tuple[str, JsonValue]]] = {}
        """Calls by id, with all their keys."""
        self._questions: dict[str, InputRequest] = {}
        self._made: dict[str, MadeCall] = {}
        self._decided: set[str] = set()
        self._is_begun = False

    def done(self) -> Tape:
        """Return the tape."""
        return replace(self.tape, made=tuple(self._made.values()))

    @_ON.on(records.MessageReceived)
    def heard(self, record: Record, body: records.MessageReceived) -> None:
        if self._is_begun:
            is_person = body.delivery not in UNSPOKEN
            self.tape = replace(self.tape, later_messages=self.tape.later_messages + is_person)
            return
        self._is_begun = True
        self.tape = replace(
            self.tape, message=body.message, parts=tuple(body.parts or ()), context=tuple(body.context or ())
        )

    @_ON.on(records.ActionsRequested)
    def requested(self, record: Record, body: records.ActionsRequested) -> None:
        for action in body.actions:
            name = action_name(action)
            self._asked.setdefault(action.call_id, []).append((name, action.input))
            self._made[action.call_id] = MadeCall(name, action.input)

    @_ON.on(records.PolicyDecided)
    def decided(self, record: Record, body: records.PolicyDecided) -> None:
        call_id = body.call_id or ""
        # After a person consented, the policy decides again.
        if call_id not in self._decided:
            self._decided.add(call_id)
            self._note(call_id, decision=DECISION_NAMES[type(body.decision)])

    @_ON.on(records.StepCompleted)
    def stepped(self, record: Record, body: records.StepCompleted) -> None:
        self.tape = replace(self.tape, steps=self.tape.steps + 1)

    @_ON.on(records.ActionStarted)
    def started(self, record: Record, body: records.ActionStarted) -> None:
        forms, arguments = self._asked.setdefault(body.call_id, []), or_none(body.arguments)
        if arguments is not None and (body.tool_name, arguments) not in forms:
            forms.append((body.tool_name, arguments))
            self._note(body.call_id, arguments=arguments)

    @_ON.on(records.ActionResult)
    def returned(self, record: Record, body: records.ActionResult) -> None:
        self._settle(body.result.call_id, tool_output(body))

    @_ON.on(records.InputRequested)
    def asked(self, record: Record, body: records.InputRequested) -> None:
        if body.child_session_id is None:
            self._questions |= {request.request_id: request for request in body.requests}

    @_ON.on(records.InputResolved)
    def answered(self, record: Record, body: records.InputResolved) -> None:
        for resolution in body.resolutions:
            request = self._questions.get(resolution.request_id)
            output = None if request is None else question_outcome(request, resolution)
            if request is not None and output is not None:
                self._settle(request.action.call_id, output)

    @_ON.on(records.RunCompleted)
    def completed(self, record: Record, body: records.RunCompleted) -> None:
        value = body.output_data if body.structured_output is UNSET else or_none(body.structured_output)
        text = body.output if body.output is not None else "" if value is None else as_text(value)
        self.tape = replace(self.tape, output=text or body.narrative or "", value=value)

    def _note(self, call_id: str, **facts: object) -> None:
        if call_id in self._made:
            self._made[call_id] = replace(self._made[call_id], **facts)  # pyright: ignore[reportArgumentType] - fields of a call

    def _settle(self, call_id: str, output: ToolOutput) -> None:
        self._note(call_id, result=output.type)
        forms = self._asked.pop(call_id, [])
        calls = tuple(TapedCall(tool, arguments, output) for tool, arguments in forms)
        self.tape = replace(self.tape, calls=(*self.tape.calls, *calls))
