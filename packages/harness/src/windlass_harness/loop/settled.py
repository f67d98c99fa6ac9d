"""Settled steps, folded whole: the usual history of a long run, as a new owner reads it.

`LoopState.apply` defines what a record means. A step is settled once the next step has started: its calls
have their results, and the notes about them are dropped. Most steps of a long run are settled and usual: an
answer with calls, each allowed, started once and answered once. Their records are summed up here and applied
at once. The result equals the fold record by record, which a property test checks; a step with any other
record in it is left to that fold.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from windlass_harness.loop.notes import REFUSALS, RunNotes
from windlass_harness.record import Record
from windlass_harness.views.history import settled_messages
from windlass_harness.views.payloads import (
    is_usual_intent,
    read_reasoning,
    read_requested,
    read_result,
    read_said,
    taken,
    usual_calls,
)
from windlass_protocol import AssistantPart, FinishReason, JsonObject, ModelMessage, TextPart, ToolOutput
from windlass_protocol.limits import INTEGER_MAX

if TYPE_CHECKING:
    from windlass_harness.loop.state import LoopState

STEP_STARTED: Final = "step.started"
KEPT_REASONS: Final = frozenset(FinishReason) - {FinishReason.CONTENT_FILTER, FinishReason.ERROR}
"""Finish reasons that keep the calls of an answer."""


def fold_settled(state: "LoopState", records: Sequence[Record], at: int) -> int:
    """Apply the settled usual steps that begin at an index; return the index of the first record after them.

    That record starts a step and has to be applied next: it sets everything that a step begins with anew.
    The state takes over values of the records.
    """
    session, notes, first = state.session, state.run_notes, records[at]
    if (
        notes.is_retry
        or (state.run is not None and state.run.undo is not None)
        or first.epoch != notes.epoch
        or session.requests
        or not session.is_next(first)
        or not session.history.is_settled
    ):
        return at
    steps = _Sum(notes.refusals, len(session.history.messages))
    while (length := steps.add(records, at)) > 0:
        at += length
    if steps.count:
        session.apply_steps(records[at - 1], steps.messages, counted=steps.counted)
        state.compacting.end_step()
        steps.charge(notes)
    return at


class _Sum:
    """The sum of settled steps: what they add to a session and to the notes of its run."""

    def __init__(self, refusals: int, message_count: int) -> None:
        self.count = 0
        self.messages: list[ModelMessage] = []
        self.counted: tuple[int, int] | None = None
        """The newest token count of the provider, with the number of messages in that prompt."""
        self._message_count = message_count
        """Messages before the first step."""
        self._refusals = refusals
        self._calls = 0
        self._usage: dict[str, int] = {}

    def add(self, records: Sequence[Record], at: int) -> int:
        """Add the step that starts at an index; return its number of records, 0 if it was not added."""
        started = records[at]
        data = started.data
        turn_id, step_index, count = data.get("turnId"), data.get("stepIndex"), data.get("promptMessageCount")
        if type(turn_id) is not str or type(step_index) is not int:
            return 0
        if count is None:
            count = self._message_count + len(self.messages)
        elif type(count) is not int:
            return 0
        session_id, epoch, seq = started.session_id, started.epoch, started.seq - at
        parts: list[AssistantPart] = []
        names: dict[str, str] = {}
        outputs: dict[str, ToolOutput] = {}
        begun: set[str] = set()
        answer: JsonObject | None = None
        refusals = self._refusals
        for index in range(at + 1, len(records)):
            record = records[index]
            if record.seq != seq + index or record.epoch != epoch or record.session_id != session_id:
                return 0
            kind, data = record.type, record.data
            if kind == "action.result":
                call_id, output = read_result(data, taken)
                if call_id not in names or call_id in outputs or "taint" in data:
                    return 0
                outputs[call_id] = output
                error = data.get("error")
                refusals += isinstance(error, dict) and error.get("code") in REFUSALS
            elif kind == "policy.decided":
                decision = data.get("decision")
                if type(decision) is not dict or decision.get("decision") != "allow":
                    return 0
            elif kind == "action.started":
                call_id = str(data.get("callId"))
                if call_id not in names or call_id in begun or call_id in outputs:
                    return 0
                if not is_usual_intent(data):
                    return 0
                begun.add(call_id)
                refusals = 0
            elif kind == STEP_STARTED:
                if answer is None or len(outputs) != len(names):
                    return 0
                if not self._use(answer, prompt_message_count=count):
                    return 0
                self.messages += settled_messages(parts, names, outputs)
                self.count += 1
                self._calls += len(begun)
                self._refusals = refusals
                return index - at
            elif answer is not None or data.get("stepIndex") != step_index or data.get("turnId") != turn_id:
                return 0
            elif kind == "actions.requested":
                calls = usual_calls(data.get("actions"), taken) or read_requested(data)[1]
                for call in calls:
                    if call.tool_call_id in names:
                        return 0
                    names[call.tool_call_id] = call.tool_name
                parts += calls
            elif kind == "step.completed":
                answer = data
            elif kind == "message.completed":
                _, said = read_said(data)
                for part in said:
                    if not isinstance(part, TextPart):
                        return 0
                parts += said
            elif kind == "reasoning.completed":
                parts.append(read_reasoning(data)[1])
            else:
                return 0
        return 0

    def _use(self, answer: JsonObject, *, prompt_message_count: int) -> bool:
        """Add the usage of an answer; False if the answer is unusual."""
        usage = answer.get("usage", _NOTHING)
        if str(answer.get("finishReason")) not in KEPT_REASONS or type(usage) is not dict:
            return False
        counts: dict[str, int] = {}
        for name, value in usage.items():
            # Below zero the order of the sum would matter: it is capped.
            if type(value) is not int or value < 0:
                return False
            counts[name] = value
        sums = self._usage
        for name, value in counts.items():
            sums[name] = sums.get(name, 0) + value
        if "inputTokens" in counts:
            self.counted = counts["inputTokens"], prompt_message_count
        return True

    def charge(self, notes: RunNotes) -> None:
        """Add the steps to the notes of their run."""
        notes.end_call()
        notes.refusals = self._refusals
        sums = self._usage
        for name, value in sums.items():
            notes.usage[name] = min(notes.usage.get(name, 0) + value, INTEGER_MAX)
        tokens = sums.get("inputTokens", 0) + sums.get("outputTokens", 0)
        notes.use(tokens=tokens, steps=self.count, tool_calls=self._calls, cost=sums.get("costMicros", 0))


_NOTHING: Final[dict[str, JsonValue]] = {}
