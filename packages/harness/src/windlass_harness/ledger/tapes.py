"""Tapes: the input, the call results and the answer of a recorded run.

A tape is sufficient to replay the run. A call is identified by its tool and its arguments in canonical JSON:
as the model wrote them, and also as they were executed if a rule or a hook changed them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from windlass_harness.record import Record
from windlass_harness.views.fold import read, text_in
from windlass_harness.views.payloads import (
    CORRECTIONS,
    as_text,
    question_outcome,
    read_requested,
    read_started,
    tool_output,
)
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    ActionResultData,
    InputRequest,
    InputRequestedData,
    InputResolvedData,
    MessageReceivedData,
    PolicyDecidedData,
    RunCompletedData,
    ToolOutput,
    ToolOutputType,
    UserPart,
    canonical,
)
from windlass_protocol.frozen import sealed


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


def read_tape(records: Iterable[Record], run_id: str) -> Tape:
    """Return the tape of one run from the records of its session."""
    reader, current = _Reader(run_id), None
    for record in records:
        named = run_id_of(record)
        current = named if record.type == "run.started" else current
        handle = _HANDLERS.get(record.type)
        if handle is not None and (named or current) == run_id:
            handle(reader, record)
    return reader.done()


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

    def heard(self, record: Record) -> None:
        data = read(MessageReceivedData, record.data)
        if self._is_begun:
            is_person = data.delivery not in CORRECTIONS
            self.tape = replace(self.tape, later_messages=self.tape.later_messages + is_person)
            return
        self._is_begun = True
        self.tape = replace(
            self.tape, message=data.message, parts=data.parts or (), context=data.context or ()
        )

    def requested(self, record: Record) -> None:
        for part in read_requested(record.data)[1]:
            self._asked.setdefault(part.tool_call_id, []).append((part.tool_name, part.input))
            self._made[part.tool_call_id] = MadeCall(part.tool_name, part.input)

    def decided(self, record: Record) -> None:
        data = read(PolicyDecidedData, record.data)
        call_id = data.call_id or ""
        # After a person consented, the policy decides again.
        if call_id not in self._decided:
            self._decided.add(call_id)
            self._note(call_id, decision=data.decision.decision)

    def stepped(self, record: Record) -> None:
        self.tape = replace(self.tape, steps=self.tape.steps + 1)

    def started(self, record: Record) -> None:
        started = read_started(record.data)[1]
        forms = self._asked.setdefault(started.call_id, [])
        if started.arguments is not None and (started.tool_name, started.arguments) not in forms:
            forms.append((started.tool_name, started.arguments))
            self._note(started.call_id, arguments=started.arguments)

    def returned(self, record: Record) -> None:
        data = read(ActionResultData, record.data)
        self._settle(data.result.call_id, tool_output(data))

    def asked(self, record: Record) -> None:
        data = read(InputRequestedData, record.data)
        if data.child_session_id is None:
            self._questions |= {one.request_id: one for one in data.requests}

    def answered(self, record: Record) -> None:
        for resolution in read(InputResolvedData, record.data).resolutions:
            request = self._questions.get(resolution.request_id)
            told = None if request is None else question_outcome(request, resolution)
            if request is not None and told is not None:
                self._settle(request.action.call_id, told)

    def completed(self, record: Record) -> None:
        data = read(RunCompletedData, record.data)
        value = record.data.get("structuredOutput", record.data.get("outputData"))
        output = text_in(record.data, "output")
        text = output if output is not None else "" if value is None else as_text(value)
        self.tape = replace(self.tape, output=text or data.narrative or "", value=value)

    def _note(self, call_id: str, **facts: object) -> None:
        if call_id in self._made:
            self._made[call_id] = replace(self._made[call_id], **facts)  # pyright: ignore[reportArgumentType] - fields of a call

    def _settle(self, call_id: str, output: ToolOutput) -> None:
        self._note(call_id, result=output.type)
        forms = self._asked.pop(call_id, [])
        calls = tuple(TapedCall(tool, arguments, output) for tool, arguments in forms)
        self.tape = replace(self.tape, calls=(*self.tape.calls, *calls))


_HANDLERS: Final[dict[str, Callable[[_Reader, Record], None]]] = {
    "message.received": _Reader.heard,
    "actions.requested": _Reader.requested,
    "policy.decided": _Reader.decided,
    "step.completed": _Reader.stepped,
    "action.started": _Reader.started,
    "action.result": _Reader.returned,
    "input.requested": _Reader.asked,
    "input.resolved": _Reader.answered,
    "run.completed": _Reader.completed,
}
