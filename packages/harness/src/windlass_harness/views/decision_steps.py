"""The steps of the tool loop as decisions, outcomes and problems."""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from windlass_harness.views import choices
from windlass_harness.views.choices import Pending, Words
from windlass_harness.views.content import SKIPPED, question_outcome
from windlass_harness.views.decision_runs import RunDraft
from windlass_harness.views.fold import read
from windlass_harness.views.reading import read_reasoning, read_requested, read_said
from windlass_protocol import (
    ActionResultData,
    CompactionCompletedData,
    CompactionFailedData,
    HookFailedData,
    InputKind,
    InputOutcome,
    InputRequest,
    InputRequestedData,
    InputResolvedData,
    InterruptDecision,
    MessageReceivedData,
    OutputFailedData,
    OutputRejectedData,
    PolicyDecidedData,
    ProblemSeverity,
    Record,
    RecoveryChoice,
    RecoveryEffectFoundData,
    RecoveryEffectSettledData,
    RunBudgetExhaustedData,
    RunFailedData,
    SessionMovedData,
    StepCompletedData,
    StepFailedData,
    StepRetryingData,
    StepStartedData,
    SubagentCalledData,
    SubagentCompletedData,
    TextPart,
)

OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""Code of a result that says that nobody knows it: such a choice stays pending."""
_HANDED_OVER: Final = "handed_over"
"""Code of a model call that was broken off in good order; nothing went wrong."""
_BUDGET: Final = "budget_exhausted"
_SENT_BACK: Final = "sent_back"
_GIVEN_UP: Final = "An answer was sent back: "
_ANSWERED_BY_PEOPLE: Final = (InputKind.QUESTION, None)


class StepsDraft:
    """The steps under way while records are applied."""

    def __init__(
        self,
        words: Words | None,
        calls: Mapping[str, Pending],
        *,
        answer: Pending | None,
        questions: Mapping[str, InputRequest],
    ) -> None:
        self.words = words
        self.calls = dict(calls)
        self.answer = answer
        self.questions = dict(questions)

    def apply(self, record: Record, run: RunDraft) -> None:
        """Take the next record of a run; one that has ended stays as it is."""
        if run.is_open:
            _HANDLERS[record.type](self, record, run)

    def end(self, record: Record, run: RunDraft) -> None:
        """Take the end of a run, before the run does."""
        if record.type == "run.completed":
            self._settle_answer(record, run)
        elif record.type == "run.failed":
            self._failed(record, run)
        elif record.type == "run.budget_exhausted":
            self._exhausted(record, run)
        run_id = run.run.id
        self.words = None if self.words is None or self.words.run_id == run_id else self.words
        self.answer = None if self.answer is None or self.answer.run_id == run_id else self.answer
        self.calls = {one: call for one, call in self.calls.items() if call.run_id != run_id}
        self.questions = {
            one: asked for one, asked in self.questions.items() if asked.action.call_id in self.calls
        }

    def _failed(self, record: Record, run: RunDraft) -> None:
        error = read(RunFailedData, record.data).error
        self._settle_answer(record, run, error=error.message)
        # Only what a package runs has steps that say why; a run that somebody recorded has its own problems.
        if run.run.package_fingerprint is not None and not run.has_critical_problem:
            self._report(record, run, told=error.message, cause=error.kind.value, severity=_CRITICAL)

    def _exhausted(self, record: Record, run: RunDraft) -> None:
        data = read(RunBudgetExhaustedData, record.data)
        named = ", ".join(name.value for name in data.exceeded)
        told = f"The budget is used up: {named}." if data.error is None else data.error.message
        self._report(record, run, told=told, cause=_BUDGET, severity=_CRITICAL)

    # the run

    def moved(self, record: Record, run: RunDraft) -> None:
        run.move(read(SessionMovedData, record.data).to_fingerprint)

    def heard(self, record: Record, run: RunDraft) -> None:
        data = read(MessageReceivedData, record.data)
        if data.delivery == "repair":
            self._send_back(record, run, why=" ".join(data.context or ()))
        elif data.delivery in (None, "turn"):
            parts = [part.text for part in data.parts or () if isinstance(part, TextPart)]
            words = data.message or "\n".join(parts)
            if words:
                run.pursue(choices.cut(words))

    def _send_back(self, record: Record, run: RunDraft, *, why: str) -> None:
        """An answer that was rejected for its form has its outcome by now."""
        answer = self.answer
        if self._settle_answer(record, run, error=why) and answer is not None:
            self._report(record, run, told=_GIVEN_UP + why, cause=_SENT_BACK, decision_id=answer.decision_id)

    def summarised(self, record: Record, run: RunDraft) -> None:
        run.charge(read(CompactionCompletedData, record.data).usage)

    def not_summarised(self, record: Record, run: RunDraft) -> None:
        data = read(CompactionFailedData, record.data)
        run.charge(data.usage)
        self._report(record, run, told=f"compaction: {data.message}", cause=data.code, severity=_MINOR)

    # the model

    def step_started(self, record: Record, run: RunDraft) -> None:
        data = read(StepStartedData, record.data)
        self._settle_answer(record, run)  # somebody spoke after it, which takes nothing from it
        self.words = Words(run.run.id, data.model_id)

    def reasoned(self, record: Record, run: RunDraft) -> None:
        _, part = read_reasoning(record.data)
        self.words = self._words(run).with_parts((part,))

    def said(self, record: Record, run: RunDraft) -> None:
        _, parts = read_said(record.data)
        self.words = self._words(run).with_parts(parts)

    def requested(self, record: Record, run: RunDraft) -> None:
        _, parts = read_requested(record.data)
        self.words = self._words(run).with_parts(parts)

    def _words(self, run: RunDraft) -> Words:
        words = self.words
        return words if words is not None and words.run_id == run.run.id else Words(run.run.id)

    def step_completed(self, record: Record, run: RunDraft) -> None:
        data, words = read(StepCompletedData, record.data), self._words(run)
        self.words = None
        run.charge(data.usage)
        for call_id, decision, pending in choices.choices(words, data, run=run.run, at=record.at):
            run.decide(decision)
            if call_id is None:
                self.answer = pending
            else:
                self.calls[call_id] = pending

    def step_retrying(self, record: Record, run: RunDraft) -> None:
        data = read(StepRetryingData, record.data)
        self.words = None
        run.charge(data.usage)
        if data.code != _HANDED_OVER:
            told = f"model call {data.step_index}, attempt {data.attempt}: {data.message or data.code}"
            self._report(record, run, told=told, cause=data.code, severity=_MINOR)

    def step_failed(self, record: Record, run: RunDraft) -> None:
        data = read(StepFailedData, record.data)
        self.words = None
        run.charge(data.usage)
        told = f"model call {data.step_index}: {data.message}"
        self._report(record, run, told=told, cause=data.code, severity=_CRITICAL)

    # what came of it

    def policy_decided(self, record: Record, run: RunDraft) -> None:
        data = read(PolicyDecidedData, record.data)
        if isinstance(data.decision, InterruptDecision):
            pending = self._pending(data.call_id, run)
            decision_id = None if pending is None else pending.decision_id
            told, cause = data.decision.reason, data.decision.code
            self._report(record, run, told=told, cause=cause, severity=_CRITICAL, decision_id=decision_id)

    def hook_failed(self, record: Record, run: RunDraft) -> None:
        data = read(HookFailedData, record.data)
        pending = self._pending(data.call_id, run)
        decision_id = None if pending is None else pending.decision_id
        told = f"hook {data.hook_id} at {data.point}: {data.error.message}"
        self._report(record, run, told=told, cause=f"hook_{data.error.code}", decision_id=decision_id)

    def subagent_called(self, record: Record, run: RunDraft) -> None:
        data = read(SubagentCalledData, record.data)
        pending = self._pending(data.call_id, run)
        if pending is not None:
            run.delegate(pending.decision_id, {"childSessionId": data.child_session_id})

    def subagent_completed(self, record: Record, run: RunDraft) -> None:
        run.charge(read(SubagentCompletedData, record.data).usage)

    def action_result(self, record: Record, run: RunDraft) -> None:
        data = read(ActionResultData, record.data)
        failure = choices.result_error(data)
        pending = self._settle_call(
            record,
            run,
            call_id=data.result.call_id,
            result=data.result.output,
            failure=failure,
            took_ms=data.duration_ms or 0,
        )
        if pending is not None and failure is not None:
            told = f"{pending.what}: {failure[1]}"
            self._report(record, run, told=told, cause=failure[0], decision_id=pending.decision_id)

    def effect_found(self, record: Record, run: RunDraft) -> None:
        data = read(RecoveryEffectFoundData, record.data)
        pending = self._pending(data.call_id, run)
        if pending is not None and data.begun is not False:
            told = f"{data.tool_name}: the call was interrupted before its result was known"
            self._report(record, run, told=told, cause="interrupted", decision_id=pending.decision_id)

    def effect_settled(self, record: Record, run: RunDraft) -> None:
        data = read(RecoveryEffectSettledData, record.data)
        if data.choice is RecoveryChoice.SKIP:
            self._settle_call(record, run, call_id=data.call_id, failure=("skipped", SKIPPED.reason or ""))

    def asked(self, record: Record, run: RunDraft) -> None:
        data = read(InputRequestedData, record.data)
        # What a subagent asks is about calls of its own, whatever they are called.
        for request in data.requests if data.child_session_id is None else ():
            if request.kind in _ANSWERED_BY_PEOPLE and self._pending(request.action.call_id, run) is not None:
                self.questions[request.request_id] = request

    def answered(self, record: Record, run: RunDraft) -> None:
        for resolution in read(InputResolvedData, record.data).resolutions:
            request = self.questions.pop(resolution.request_id, None)
            told = None if request is None else question_outcome(request, resolution)
            if request is None or told is None:
                continue
            is_answered = resolution.outcome is InputOutcome.ANSWERED
            failure = None if is_answered else (resolution.outcome.value, "Nobody answered the question.")
            pending = self._settle_call(
                record, run, call_id=request.action.call_id, result=told.value, failure=failure
            )
            if pending is not None and failure is not None:
                decision_id = pending.decision_id
                self._report(
                    record, run, told=failure[1], cause=failure[0], severity=_MINOR, decision_id=decision_id
                )

    def output_rejected(self, record: Record, run: RunDraft) -> None:
        errors = read(OutputRejectedData, record.data).errors
        told = "; ".join(f"{error.path or '/'}: {error.message}" for error in errors)
        self._reject(record, run, told=f"The answer did not fit its contract: {told}", severity=_WARNING)

    def output_failed(self, record: Record, run: RunDraft) -> None:
        attempts = read(OutputFailedData, record.data).attempts
        self._reject(
            record, run, told=f"No answer fitted its contract in {attempts} attempts", severity=_CRITICAL
        )

    def _reject(self, record: Record, run: RunDraft, *, told: str, severity: ProblemSeverity) -> None:
        answer = self.answer
        decision_id = None if answer is None or answer.run_id != run.run.id else answer.decision_id
        self._settle_answer(record, run, error=told)
        self._report(
            record, run, told=told, cause="output_contract", severity=severity, decision_id=decision_id
        )

    # small parts

    def _pending(self, call_id: str | None, run: RunDraft) -> Pending | None:
        pending = None if call_id is None else self.calls.get(call_id)
        return None if pending is None or pending.run_id != run.run.id else pending

    def _settle_call(
        self,
        record: Record,
        run: RunDraft,
        *,
        call_id: str,
        result: JsonValue = None,
        failure: tuple[str, str] | None = None,
        took_ms: int = 0,
    ) -> Pending | None:
        """Give a choice its outcome, unless nobody knows it; return what was pending."""
        pending = self._pending(call_id, run)
        if pending is None:
            return None
        del self.calls[call_id]
        if failure is None or failure[0] != OUTCOME_UNKNOWN:
            error = None if failure is None else failure[1]
            used = choices.with_time(pending, took_ms)
            run.settle(pending.decision_id, choices.outcome(used, at=record.at, result=result, error=error))
        return pending

    def _settle_answer(self, record: Record, run: RunDraft, *, error: str | None = None) -> bool:
        answer = self.answer
        if answer is None or answer.run_id != run.run.id:
            return False
        self.answer = None
        result = choices.outcome(answer, at=record.at, result=answer.text, error=error)
        return run.settle(answer.decision_id, result)

    def _report(
        self,
        record: Record,
        run: RunDraft,
        *,
        told: str,
        cause: str,
        severity: ProblemSeverity = ProblemSeverity.WARNING,
        decision_id: str | None = None,
    ) -> None:
        run.report(choices.problem(record, severity, told=told, cause=cause, decision_id=decision_id))


_CRITICAL: Final = ProblemSeverity.CRITICAL
_WARNING: Final = ProblemSeverity.WARNING
_MINOR: Final = ProblemSeverity.MINOR
_HANDLERS: Final[dict[str, Callable[[StepsDraft, Record, RunDraft], None]]] = {
    "session.moved": StepsDraft.moved,
    "message.received": StepsDraft.heard,
    "compaction.completed": StepsDraft.summarised,
    "compaction.failed": StepsDraft.not_summarised,
    "step.started": StepsDraft.step_started,
    "reasoning.completed": StepsDraft.reasoned,
    "message.completed": StepsDraft.said,
    "actions.requested": StepsDraft.requested,
    "step.completed": StepsDraft.step_completed,
    "step.retrying": StepsDraft.step_retrying,
    "step.failed": StepsDraft.step_failed,
    "policy.decided": StepsDraft.policy_decided,
    "hook.failed": StepsDraft.hook_failed,
    "subagent.called": StepsDraft.subagent_called,
    "subagent.completed": StepsDraft.subagent_completed,
    "action.result": StepsDraft.action_result,
    "recovery.effect_found": StepsDraft.effect_found,
    "recovery.effect_settled": StepsDraft.effect_settled,
    "input.requested": StepsDraft.asked,
    "input.resolved": StepsDraft.answered,
    "output.rejected": StepsDraft.output_rejected,
    "output.failed": StepsDraft.output_failed,
}
STEP_RECORDS: Final = frozenset(_HANDLERS)
"""The records of the loop that the ledger reads."""
