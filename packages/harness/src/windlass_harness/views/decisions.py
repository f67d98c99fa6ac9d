"""The decision ledger: decisions, outcomes and problems, folded from records.

It holds two kinds of decisions: those that a program recorded, and those of the tool loop, which follow from
its steps. A second outcome replaces the first. A decision without an outcome is pending: neither success nor
failure. Outcomes and judgements of unknown decisions, and entries that were recorded for no run, count as
orphans. The narrative is written when the run ends and does not change after that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from msgspec import structs
from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.record import Record
from windlass_harness.times import elapsed_ms
from windlass_harness.views.fold import START, Handlers, Position, fold
from windlass_harness.views.ledger import narrate
from windlass_harness.views.payloads import (
    CORRECTIONS,
    SKIPPED,
    SKIPPED_CODE,
    answer_parts,
    part_of,
    question_outcome,
    thought_part,
    token_count,
    usage_model,
)
from windlass_harness.views.runs import RUN_END_BODIES, RunEnd, run_id_of
from windlass_harness.views.usage import NO_USAGE, add_usage
from windlass_protocol import (
    ActionStatus,
    AssistantPart,
    Decision,
    DecisionEvaluation,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    ErrorKind,
    InputKind,
    InputOutcome,
    InputRequest,
    JsonObject,
    Option,
    Outcome,
    Problem,
    ProblemSeverity,
    ReasoningPart,
    RecoveryChoice,
    RunMetrics,
    TextPart,
    ToolCallPart,
    ToolSpec,
)
from windlass_protocol.bodies import Part, data_of
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records
from windlass_protocol.limits import INTEGER_MAX
from windlass_protocol.unchecked import changed

ENDS: Final = {
    records.RunCompleted.TYPE: DecisionRunStatus.COMPLETED,
    records.RunFailed.TYPE: DecisionRunStatus.FAILED,
    records.RunCancelled.TYPE: DecisionRunStatus.CANCELLED,
    records.RunBudgetExhausted.TYPE: DecisionRunStatus.FAILED,
}
"""The records that end a run, with the final status."""


def begin_run(data: records.RunStarted, at: str) -> DecisionRun:
    """Return a run that has just started."""
    return DecisionRun(
        id=data.run_id,
        goal_id=data.goal_id or "",
        goal_description=data.goal_description,
        started_at=at,
        status=DecisionRunStatus.RUNNING,
        decisions=(),
        problems=(),
        metrics=_NO_METRICS,
        input_data=data.input_data,
        agent_id=data.agent_id,
        package_id=data.package_id,
        package_fingerprint=data.package_fingerprint,
    )


class RunDraft:
    """A mutable recorded run; decisions are found by their ids."""

    def __init__(self, run: DecisionRun) -> None:
        self.run = run
        """The run without its decisions and problems, which `freeze` adds."""
        self._decisions = {decision.id: decision for decision in run.decisions}
        self._problems: list[Problem] = list(run.problems)
        self._nodes = dict.fromkeys(run.metrics.nodes_executed)

    def freeze(self) -> DecisionRun:
        """Return the immutable run."""
        outcomes = [decision.outcome for decision in self._decisions.values() if decision.outcome is not None]
        succeeded = sum(outcome.success for outcome in outcomes)
        metrics = RunMetrics(
            total_decisions=len(self._decisions),
            successful_decisions=succeeded,
            failed_decisions=len(outcomes) - succeeded,
            total_tokens=_total(outcome.tokens_used for outcome in outcomes),
            total_latency_ms=_total(outcome.latency_ms for outcome in outcomes),
            nodes_executed=tuple(self._nodes),
        )
        return self.run.model_copy(
            update={
                "decisions": tuple(self._decisions.values()),
                "problems": tuple(self._problems),
                "metrics": metrics,
            }
        )

    @property
    def is_open(self) -> bool:
        return self.run.status is DecisionRunStatus.RUNNING

    @property
    def has_critical_problem(self) -> bool:
        """Whether a critical problem is known."""
        return any(problem.severity is ProblemSeverity.CRITICAL for problem in self._problems)

    def decide(self, decision: Decision) -> None:
        """Add a decision; it replaces one with the same id."""
        self._decisions[decision.id] = decision
        self._nodes.setdefault(decision.node_id)

    def settle(self, decision_id: str, outcome: Outcome) -> bool:
        """Set the outcome of a decision; False if the decision is unknown."""
        return self._change(decision_id, {"outcome": outcome})

    def judge(self, decision_id: str, evaluation: DecisionEvaluation) -> bool:
        """Set the judgement of a decision; False if the decision is unknown."""
        return self._change(decision_id, {"evaluation": evaluation})

    def delegate(self, decision_id: str, child: JsonObject) -> None:
        """Note that a decision delegated work to another session."""
        decision = self._decisions[decision_id]
        context = {**(decision.input_context or {}), **child}
        self._change(decision_id, {"decision_type": DecisionType.DELEGATION, "input_context": context})

    def _change(self, decision_id: str, update: dict[str, object]) -> bool:
        decision = self._decisions.get(decision_id)
        if decision is None:
            return False
        self._decisions[decision_id] = changed(decision, update)
        return True

    def report(self, problem: Problem) -> None:
        """Add a problem."""
        self._problems.append(problem)

    def charge(self, usage: records.Usage | None) -> None:
        """Add the usage of a model call."""
        used = usage_model(usage)
        if used is not None:
            total = add_usage(self.run.usage or NO_USAGE, used)
            self.run = changed(self.run, {"usage": total})

    def pursue(self, goal: str) -> None:
        """Set the goal from a message, if no goal was given."""
        if self.run.goal_description is None:
            self.run = changed(self.run, {"goal_description": goal})

    def move(self, fingerprint: str) -> None:
        """Note that the run continues under another version of its agent."""
        self.run = changed(self.run, {"package_fingerprint": fingerprint})

    def end(self, record: Record) -> None:
        """Set the end of the run; only the first end counts."""
        body = record.body
        ending = body if isinstance(body, records.RunCompleted | records.RunFailed) else None
        self.run = self.run.model_copy(
            update={
                "status": ENDS[record.type],
                "completed_at": record.at,
                "duration_ms": elapsed_ms(self.run.started_at, record.at),
                "output_data": None if ending is None else ending.output_data,
            }
        )
        told_narrative = None if ending is None else ending.narrative
        narrative = narrate(self.freeze()) if told_narrative is None else told_narrative
        self.run = self.run.model_copy(update={"narrative": narrative})


def _total(amounts: Iterable[int | None]) -> int:
    """Cap a sum at the largest number that a record can hold."""
    return min(sum(amount or 0 for amount in amounts), INTEGER_MAX)


_NO_METRICS: Final = RunMetrics.model_construct(
    total_decisions=0,
    successful_decisions=0,
    failed_decisions=0,
    total_tokens=0,
    total_latency_ms=0,
    nodes_executed=(),
)

TEXT_CHARS_MAX: Final = 2_000
"""The stored length of a text, of arguments and of a result."""
LINE_CHARS_MAX: Final = 160
"""The length of the same in one line."""
ANSWER: Final = "final answer"
"""The option to answer without a call; no tool can have this name."""
_STEP: Final = "step_"
_TOOL_CALL: Final = "tool_call"


@sealed
class Asked:
    """A call that the model requested."""

    call_id: str
    tool_name: str
    input: JsonValue


@sealed
class Words:
    """An answer of the model while its records arrive."""

    run_id: str
    model_id: str | None = None
    reasoning: str = ""
    text: str = ""
    calls: tuple[Asked, ...] = ()

    def with_parts(self, parts: Iterable[AssistantPart]) -> "Words":
        """Return the answer with further parts; a call that it has already is not added."""
        updated = self
        for part in parts:
            match part:
                case TextPart():
                    updated = replace(updated, text=cut(updated.text + part.text))
                case ReasoningPart():
                    updated = replace(updated, reasoning=cut(updated.reasoning + part.text))
                case ToolCallPart() if not part.provider_executed:
                    updated = updated.with_call(part)
                case _:
                    pass
        return updated

    def with_call(self, part: ToolCallPart) -> "Words":
        """Return the answer with another call."""
        if any(call.call_id == part.tool_call_id for call in self.calls):
            return self
        call = Asked(part.tool_call_id, part.tool_name, short(part.input))
        return replace(self, calls=(*self.calls, call))


@sealed
class Pending:
    """A decision of the loop without an outcome, with the usage of its model call."""

    run_id: str
    decision_id: str
    what: str
    """The tool, or `ANSWER`."""
    tokens: int = 0
    latency_ms: int = 0
    text: str = ""
    """The text of an answer."""


class DecisionContext(Part, frozen=True, kw_only=True):
    """Where a decision was made: its `inputContext`."""

    turn_id: str
    step_index: int
    model_id: str | None = None
    package_fingerprint: str | None = None
    call_id: str | None = None


def choices(
    answer_words: Words, data: records.StepCompleted, *, run: DecisionRun, at: str
) -> list[tuple[str | None, Decision, Pending]]:
    """Return the decisions of a step with the ids of their calls; an answer without calls has no id."""
    spent = token_count(data.usage), data.latency_ms or 0
    context = DecisionContext(
        turn_id=data.turn_id,
        step_index=data.step_index,
        model_id=answer_words.model_id,
        package_fingerprint=run.package_fingerprint,
    )
    step, node = f"{_STEP}{data.step_index}", run.agent_id or "unknown"
    if not answer_words.calls:
        decision = Decision(
            id=step,
            timestamp=at,
            node_id=node,
            intent="answer",
            decision_type=DecisionType.TERMINATION,
            options=(Option(id=ANSWER, description=line(answer_words.text), action_type="generate"),),
            chosen_option_id=ANSWER,
            reasoning=answer_words.reasoning or answer_words.text,
            input_context=data_of(context),
        )
        return [(None, decision, Pending(answer_words.run_id, step, ANSWER, *spent, text=answer_words.text))]
    made: list[tuple[str | None, Decision, Pending]] = []
    for number, call in enumerate(answer_words.calls):
        decision_id = f"{step}.{number}"
        decision = _call_decision(answer_words, call, decision_id=decision_id, node=node, at=at)
        decision = changed(
            decision, {"input_context": data_of(structs.replace(context, call_id=call.call_id))}
        )
        used = spent if number == 0 else (0, 0)
        made.append(
            (call.call_id, decision, Pending(answer_words.run_id, decision_id, call.tool_name, *used))
        )
    return made


def _call_decision(words: Words, call: Asked, *, decision_id: str, node: str, at: str) -> Decision:
    params: JsonObject = call.input if isinstance(call.input, dict) else {"input": call.input}
    arguments = line(to_json(call.input).decode())
    return Decision(
        id=decision_id,
        timestamp=at,
        node_id=node,
        intent=f"call {call.tool_name}",
        decision_type=DecisionType.TOOL_SELECTION,
        options=(
            Option(id=call.tool_name, description=arguments, action_type=_TOOL_CALL, action_params=params),
        ),
        chosen_option_id=call.tool_name,
        reasoning="\n\n".join(part for part in (words.reasoning, words.text) if part),
    )


def with_options(
    run: DecisionRun,
    offered: Mapping[str, Iterable[ToolSpec]],
    dynamic: Callable[[int], Sequence[ToolSpec]] = lambda _: (),
) -> DecisionRun:
    """Return a run with the options of the loop's decisions filled in.

    `offered` has the tools of each version of the agent, by fingerprint; `dynamic` returns those that
    resolvers added at a step. A decision under another version keeps its chosen option alone.
    """
    menus = {fingerprint: tuple(_option(tool) for tool in tools) for fingerprint, tools in offered.items()}
    answer = Option(id=ANSWER, description="Answer without a call.", action_type="generate")
    others: dict[tuple[str, str, tuple[str, ...]], tuple[Option, ...]] = {}
    """The options besides the chosen one, by fingerprint, chosen option and dynamic tools."""
    decisions: list[Decision] = []
    for decision in run.decisions:
        context = decision.input_context or {}
        fingerprint, index = str(context.get("packageFingerprint")), context.get("stepIndex")
        menu = menus.get(fingerprint)
        if menu is not None and decision.id.startswith(_STEP):
            taken, added = decision.options[0], dynamic(index if isinstance(index, int) else 0)
            key = fingerprint, taken.id, tuple(tool.name for tool in added)
            rest = others.get(key)
            if rest is None:
                whole = (*menu, *(_option(tool) for tool in added), answer)
                rest = others[key] = tuple(option for option in whole if option.id != taken.id)
            decision = changed(decision, {"options": (taken, *rest)})
        decisions.append(decision)
    return changed(run, {"decisions": tuple(decisions)})


def _option(tool: ToolSpec) -> Option:
    return Option(id=tool.name, description=line(tool.description or ""), action_type=_TOOL_CALL)


def outcome(pending: Pending, *, at: str, result: JsonValue = None, error: str | None = None) -> Outcome:
    """Return the outcome of a decision: a failure if there is an error."""
    facts: dict[str, object] = {"success": error is None, "timestamp": at}
    if error is None:
        text = result if isinstance(result, str) else to_json(result).decode()
        facts |= {"result": short(result), "summary": line(f"{pending.what}: {text}")}
    else:
        facts |= {"error": cut(error), "summary": line(f"{pending.what}: {error}")}
    return Outcome.model_validate(
        {**facts, "tokens_used": pending.tokens, "latency_ms": pending.latency_ms}, by_name=True
    )


def with_time(pending: Pending, took_ms: int) -> Pending:
    """Return a decision with the duration of its action, besides its model call."""
    return replace(pending, latency_ms=pending.latency_ms + took_ms)


def result_error(data: records.ActionResult) -> tuple[str, str] | None:
    """Return the code and the message of a failed or refused result."""
    if data.status is ActionStatus.COMPLETED and not data.result.is_error:
        return None
    if data.error is not None:
        return data.error.code, data.error.message
    output = data.result.output
    return data.status.value, output if isinstance(output, str) else to_json(output).decode()


def problem(
    record: Record,
    severity: ProblemSeverity,
    *,
    message: str,
    cause: str,
    decision_id: str | None = None,
) -> Problem:
    """Return a problem from a record; its cause is a stable code."""
    described = Problem(
        id=f"problem_{record.seq}",
        severity=severity,
        description=cut(message),
        timestamp=record.at,
        root_cause=cause,
    )
    return described if decision_id is None else described.model_copy(update={"decision_id": decision_id})


def cut(text: str, limit: int = TEXT_CHARS_MAX) -> str:
    """Return a text, cut at the limit with a mark."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def line(text: str) -> str:
    """Return the beginning of a text as one line."""
    return cut(" ".join(text[: 4 * LINE_CHARS_MAX].split()), LINE_CHARS_MAX)


def short(value: JsonValue) -> JsonValue:
    """Return a value, or the beginning of its JSON if that is above the limit."""
    text = value if isinstance(value, str) else to_json(value).decode()
    return value if len(text) <= TEXT_CHARS_MAX else cut(text)


OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""Code of an unknown result: its decision stays pending."""
_HANDED_OVER: Final = "handed_over"
"""Code of a model call that was interrupted on purpose; it is not a problem."""
_BUDGET: Final = "budget_exhausted"
_SENT_BACK: Final = "sent_back"
_GIVEN_UP: Final = "An answer was sent back: "
_ANSWERED_BY_PEOPLE: Final = (InputKind.QUESTION, None)


_STEPS: Final = Handlers["StepsDraft", Record, [RunDraft], None]()


class StepsDraft:
    """The current steps while records are applied."""

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
        """Apply the next record of a run; a finished run does not change."""
        if run.is_open:
            _STEPS.by_type[record.type](self, record, record.body, run)

    def end(self, record: Record, run: RunDraft) -> None:
        """Apply the end of a run, before `RunDraft.end`."""
        match record.body:
            case records.RunCompleted():
                self._settle_answer(record, run)
            case records.RunFailed() as body:
                self._apply_failure(record, body, run)
            case records.RunBudgetExhausted() as body:
                self._apply_exhaustion(record, body, run)
            case _:
                pass
        run_id = run.run.id
        self.words = None if self.words is None or self.words.run_id == run_id else self.words
        self.answer = None if self.answer is None or self.answer.run_id == run_id else self.answer
        self.calls = {call_id: call for call_id, call in self.calls.items() if call.run_id != run_id}
        self.questions = {
            call_id: question
            for call_id, question in self.questions.items()
            if question.action.call_id in self.calls
        }

    def _apply_failure(self, record: Record, body: records.RunFailed, run: RunDraft) -> None:
        error = body.error
        self._settle_answer(record, run, error=error.message)
        # Only a run of a package has steps that give the reason; a run recorded by a program has its own
        # problems.
        if run.run.package_fingerprint is not None and not run.has_critical_problem:
            self._report(record, run, message=error.message, cause=error.kind.value, severity=_CRITICAL)

    def _apply_exhaustion(self, record: Record, body: records.RunBudgetExhausted, run: RunDraft) -> None:
        budgets = ", ".join(name.value for name in body.exceeded)
        message = f"The budget is used up: {budgets}." if body.error is None else body.error.message
        self._report(record, run, message=message, cause=_BUDGET, severity=_CRITICAL)

    # the run

    @_STEPS.on(records.SessionMoved)
    def moved(self, record: Record, body: records.SessionMoved, run: RunDraft) -> None:
        run.move(body.to_fingerprint)

    @_STEPS.on(records.MessageReceived)
    def heard(self, record: Record, body: records.MessageReceived, run: RunDraft) -> None:
        if body.delivery in CORRECTIONS:
            self._send_back(record, run, why=" ".join(body.context or ()))
        elif body.delivery in (None, "turn"):
            parts = [part.text for part in body.parts or () if isinstance(part, TextPart)]
            text = body.message or "\n".join(parts)
            if text:
                run.pursue(cut(text))

    def _send_back(self, record: Record, run: RunDraft, *, why: str) -> None:
        """An answer that was rejected for its form has its outcome already."""
        answer = self.answer
        if self._settle_answer(record, run, error=why) and answer is not None:
            self._report(
                record, run, message=_GIVEN_UP + why, cause=_SENT_BACK, decision_id=answer.decision_id
            )

    @_STEPS.on(records.CompactionCompleted)
    def summarised(self, record: Record, body: records.CompactionCompleted, run: RunDraft) -> None:
        run.charge(body.usage)

    @_STEPS.on(records.CompactionFailed)
    def not_summarised(self, record: Record, body: records.CompactionFailed, run: RunDraft) -> None:
        run.charge(body.usage)
        self._report(record, run, message=f"compaction: {body.message}", cause=body.code, severity=_MINOR)

    # the model

    @_STEPS.on(records.StepStarted)
    def step_started(self, record: Record, body: records.StepStarted, run: RunDraft) -> None:
        self._settle_answer(record, run)  # a message after the answer does not change its outcome
        self.words = Words(run.run.id, body.model_id)

    @_STEPS.on(records.ReasoningCompleted)
    def reasoned(self, record: Record, body: records.ReasoningCompleted, run: RunDraft) -> None:
        self.words = self._words(run).with_parts((thought_part(body),))

    @_STEPS.on(records.MessageCompleted)
    def said(self, record: Record, body: records.MessageCompleted, run: RunDraft) -> None:
        self.words = self._words(run).with_parts(answer_parts(body))

    @_STEPS.on(records.ActionsRequested)
    def requested(self, record: Record, body: records.ActionsRequested, run: RunDraft) -> None:
        if body.parent_call_id is not None:
            return  # a program made the calls: they follow from the decision to run it
        self.words = self._words(run).with_parts(part_of(action) for action in body.actions)

    def _words(self, run: RunDraft) -> Words:
        words = self.words
        return words if words is not None and words.run_id == run.run.id else Words(run.run.id)

    @_STEPS.on(records.StepCompleted)
    def step_completed(self, record: Record, body: records.StepCompleted, run: RunDraft) -> None:
        words = self._words(run)
        self.words = None
        run.charge(body.usage)
        for call_id, decision, pending in choices(words, body, run=run.run, at=record.at):
            run.decide(decision)
            if call_id is None:
                self.answer = pending
            else:
                self.calls[call_id] = pending

    @_STEPS.on(records.StepRetrying)
    def step_retrying(self, record: Record, body: records.StepRetrying, run: RunDraft) -> None:
        self.words = None
        run.charge(body.usage)
        if body.code != _HANDED_OVER:
            message = f"model call {body.step_index + 1}, attempt {body.attempt}: {body.message or body.code}"
            self._report(record, run, message=message, cause=body.code, severity=_MINOR)

    @_STEPS.on(records.StepFailed)
    def step_failed(self, record: Record, body: records.StepFailed, run: RunDraft) -> None:
        self.words = None
        run.charge(body.usage)
        if body.code == ErrorKind.STRUCTURED_OUTPUT_FAILURE:
            return  # `output.failed` has told it
        # Without the number of the step: runs that fail for the same reason have one cause.
        self._report(record, run, message=body.message, cause=body.code, severity=_CRITICAL)

    # outcomes

    @_STEPS.on(records.PolicyDecided)
    def policy_decided(self, record: Record, body: records.PolicyDecided, run: RunDraft) -> None:
        if not isinstance(body.decision, records.InterruptDecision):
            return  # every call has one, and no other is a problem
        pending = self._pending(body.call_id, run)
        decision_id = None if pending is None else pending.decision_id
        reason, cause = body.decision.reason, body.decision.code
        self._report(record, run, message=reason, cause=cause, severity=_CRITICAL, decision_id=decision_id)

    @_STEPS.on(records.HookFailed)
    def hook_failed(self, record: Record, body: records.HookFailed, run: RunDraft) -> None:
        pending = self._pending(body.call_id, run)
        decision_id = None if pending is None else pending.decision_id
        message = f"hook {body.hook_id} at {body.point}: {body.error.message}"
        self._report(record, run, message=message, cause=f"hook_{body.error.code}", decision_id=decision_id)

    @_STEPS.on(records.SubagentCalled)
    def subagent_called(self, record: Record, body: records.SubagentCalled, run: RunDraft) -> None:
        pending = self._pending(body.call_id, run)
        if pending is not None:
            run.delegate(pending.decision_id, {"childSessionId": body.child_session_id})

    @_STEPS.on(records.SubagentCompleted)
    def subagent_completed(self, record: Record, body: records.SubagentCompleted, run: RunDraft) -> None:
        run.charge(body.usage)

    @_STEPS.on(records.ActionResult)
    def action_result(self, record: Record, body: records.ActionResult, run: RunDraft) -> None:
        failure = result_error(body)
        pending = self._settle_call(
            record,
            run,
            call_id=body.result.call_id,
            result=body.result.output,
            failure=failure,
            took_ms=body.duration_ms or 0,
        )
        if failure is not None and failure[0] == SKIPPED_CODE:
            # The interruption was reported.
            return
        if pending is not None and failure is not None:
            message = f"{pending.what}: {failure[1]}"
            self._report(record, run, message=message, cause=failure[0], decision_id=pending.decision_id)
        program = self._pending(body.parent_call_id, run)
        if program is not None and failure is not None:
            message = f"a call in {program.what}: {failure[1]}"
            self._report(record, run, message=message, cause=failure[0], decision_id=program.decision_id)

    @_STEPS.on(records.RecoveryEffectFound)
    def effect_found(self, record: Record, body: records.RecoveryEffectFound, run: RunDraft) -> None:
        pending = self._pending(body.call_id, run)
        if pending is not None and body.begun is not False:
            message = f"{body.tool_name}: the call was interrupted before its result was known"
            self._report(record, run, message=message, cause="interrupted", decision_id=pending.decision_id)

    @_STEPS.on(records.RecoveryEffectSettled)
    def effect_settled(self, record: Record, body: records.RecoveryEffectSettled, run: RunDraft) -> None:
        if body.choice is RecoveryChoice.SKIP:
            self._settle_call(record, run, call_id=body.call_id, failure=(SKIPPED_CODE, SKIPPED.reason or ""))

    @_STEPS.on(records.InputRequested)
    def asked(self, record: Record, body: records.InputRequested, run: RunDraft) -> None:
        # A request of a subagent is about its own calls, even if their ids are equal.
        for request in body.requests if body.child_session_id is None else ():
            if request.kind in _ANSWERED_BY_PEOPLE and self._pending(request.action.call_id, run) is not None:
                self.questions[request.request_id] = request

    @_STEPS.on(records.InputResolved)
    def answered(self, record: Record, body: records.InputResolved, run: RunDraft) -> None:
        for resolution in body.resolutions:
            request = self.questions.pop(resolution.request_id, None)
            output = None if request is None else question_outcome(request, resolution)
            if request is None or output is None:
                continue
            is_answered = resolution.outcome is InputOutcome.ANSWERED
            failure = None if is_answered else (resolution.outcome.value, "No person answered the question.")
            pending = self._settle_call(
                record, run, call_id=request.action.call_id, result=output.value, failure=failure
            )
            if pending is not None and failure is not None:
                decision_id = pending.decision_id
                self._report(
                    record,
                    run,
                    message=failure[1],
                    cause=failure[0],
                    severity=_MINOR,
                    decision_id=decision_id,
                )

    @_STEPS.on(records.OutputRejected)
    def output_rejected(self, record: Record, body: records.OutputRejected, run: RunDraft) -> None:
        errors = body.errors
        misses = "; ".join(f"{error.path or '/'}: {error.message}" for error in errors)
        self._reject(record, run, message=f"The answer did not fit its contract: {misses}", severity=_WARNING)

    @_STEPS.on(records.OutputFailed)
    def output_failed(self, record: Record, body: records.OutputFailed, run: RunDraft) -> None:
        attempts = body.attempts
        message = f"No answer fitted its contract in {attempts} attempts"
        if attempts == 1:
            message = "The answer did not fit its contract, and no repair was allowed"
        self._reject(record, run, message=message, severity=_CRITICAL)

    def _reject(self, record: Record, run: RunDraft, *, message: str, severity: ProblemSeverity) -> None:
        answer = self.answer
        decision_id = None if answer is None or answer.run_id != run.run.id else answer.decision_id
        self._settle_answer(record, run, error=message)
        self._report(
            record, run, message=message, cause="output_contract", severity=severity, decision_id=decision_id
        )

    # helpers

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
        """Set the outcome of a decision unless it is unknown; return the pending decision."""
        pending = self._pending(call_id, run)
        if pending is None:
            return None
        del self.calls[call_id]
        if failure is None or failure[0] != OUTCOME_UNKNOWN:
            error = None if failure is None else failure[1]
            used = with_time(pending, took_ms)
            run.settle(pending.decision_id, outcome(used, at=record.at, result=result, error=error))
        return pending

    def _settle_answer(self, record: Record, run: RunDraft, *, error: str | None = None) -> bool:
        answer = self.answer
        if answer is None or answer.run_id != run.run.id:
            return False
        self.answer = None
        result = outcome(answer, at=record.at, result=answer.text, error=error)
        return run.settle(answer.decision_id, result)

    def _report(
        self,
        record: Record,
        run: RunDraft,
        *,
        message: str,
        cause: str,
        severity: ProblemSeverity = ProblemSeverity.WARNING,
        decision_id: str | None = None,
    ) -> None:
        run.report(problem(record, severity, message=message, cause=cause, decision_id=decision_id))


_CRITICAL: Final = ProblemSeverity.CRITICAL
_WARNING: Final = ProblemSeverity.WARNING
_MINOR: Final = ProblemSeverity.MINOR
STEP_RECORDS: Final = frozenset(_STEPS.by_type)
"""The records of the loop that the ledger reads."""


@sealed
class DecisionsState:
    """The recorded runs of a session by id, in the order of their start."""

    position: Position = START
    runs: Mapping[str, DecisionRun] = field(default_factory=dict[str, DecisionRun])
    run_id: str | None = None
    orphans: int = 0
    words: Words | None = None
    """The unfinished answer of the model."""
    calls: Mapping[str, Pending] = field(default_factory=dict[str, Pending])
    """Decisions of the loop without a result, by the ids of their calls."""
    answer: Pending | None = None
    """The newest answer without calls, until it is known whether it was final."""
    questions: Mapping[str, InputRequest] = field(default_factory=dict[str, InputRequest])
    """Open questions of the model to people, by request id."""


def fold_decisions(entries: Iterable[Record], state: DecisionsState | None = None) -> DecisionsState:
    """Fold records of a session into its recorded runs.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or DecisionsState()), entries)


_ON: Final = Handlers["_Draft", Record, [], None]()


class _Draft:
    def __init__(self, state: DecisionsState) -> None:
        self.position = state.position
        self._runs = dict(state.runs)
        self._run_id = state.run_id
        self._orphans = state.orphans
        self._thawed: dict[str, RunDraft] = {}
        self._steps = StepsDraft(state.words, state.calls, answer=state.answer, questions=state.questions)

    def freeze(self) -> DecisionsState:
        thawed = {run_id: run.freeze() for run_id, run in self._thawed.items()}
        return DecisionsState(
            self.position,
            {**self._runs, **thawed},
            self._run_id,
            self._orphans,
            words=self._steps.words,
            calls=dict(self._steps.calls),
            answer=self._steps.answer,
            questions=dict(self._steps.questions),
        )

    def apply(self, record: Record) -> None:
        handle = _ON.by_type.get(record.type)
        if handle is not None:
            handle(self, record, record.body)
        elif record.type in STEP_RECORDS:
            run = self._run_of(record)
            if run is not None:
                self._steps.apply(record, run)

    @_ON.on(records.RunStarted)
    def run_started(self, record: Record, body: records.RunStarted) -> None:
        if body.run_id not in self._runs:
            self._run_id = body.run_id
            self._runs[body.run_id] = begin_run(body, record.at)

    @_ON.on(records.SessionForked)
    def forked(self, record: Record, body: records.SessionForked) -> None:
        """Drop the runs so far: they belong to the session that this one was copied from."""
        self.__init__(DecisionsState(self.position))

    @_ON.on(*RUN_END_BODIES)
    def run_ended(self, record: Record, body: RunEnd) -> None:
        is_early = isinstance(body, records.RunFailed | records.RunCancelled)
        unstarted = body.unstarted if is_early else None
        if unstarted is not None and run_id_of(record) not in self._runs:
            self._runs[unstarted.run_id] = begin_run(unstarted, record.at)
        run = self._run_of(record)
        if run is not None and run.is_open:
            self._steps.end(record, run)
            run.end(record)

    @_ON.on(records.DecisionRecorded)
    def decided(self, record: Record, body: records.DecisionRecorded) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.decide(body.decision)

    @_ON.on(records.DecisionOutcome)
    def settled(self, record: Record, body: records.DecisionOutcome) -> None:
        run = self._run_of(record)
        if run is None or not run.settle(body.decision_id, body.outcome):
            self._orphans += 1

    @_ON.on(records.DecisionEvaluated)
    def judged(self, record: Record, body: records.DecisionEvaluated) -> None:
        run = self._run_of(record)
        if run is None or not run.judge(body.decision_id, body.evaluation):
            self._orphans += 1

    @_ON.on(records.ProblemReported)
    def reported(self, record: Record, body: records.ProblemReported) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.report(body.problem)

    def _run_of(self, record: Record) -> RunDraft | None:
        """Return the run that a record names, or else the newest one."""
        run_id = run_id_of(record) or self._run_id
        if run_id is None or run_id not in self._runs:
            return None
        if run_id not in self._thawed:
            self._thawed[run_id] = RunDraft(self._runs[run_id])
        return self._thawed[run_id]
