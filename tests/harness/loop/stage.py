"""A test bed for the loop: a session that checks its records, and a simulated outside world."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.compaction import completion_data, plan, plan_eviction
from windlass_harness.loop.advance import advance
from windlass_harness.loop.events import (
    AnswersGiven,
    ApprovalRequest,
    CallJudged,
    CallModel,
    CallRefused,
    CallReturned,
    CheckOutput,
    ChildSaid,
    Compact,
    CompactionBroken,
    Delegation,
    Draft,
    Effect,
    HistoryCompacted,
    JudgeCall,
    LoopEvent,
    ModelAnswered,
    ModelFailed,
    Moment,
    OutputChecked,
    Plan,
    ReviewReport,
    RunRequested,
    RunTool,
    SessionClaimed,
    StateChange,
)
from windlass_harness.loop.notes import CONSENTED
from windlass_harness.loop.rules import CallPrice, ModelTerms, RequestedCall, Rules
from windlass_harness.loop.state import LoopState, dump_loop
from windlass_harness.loop.subagents import REPORT
from windlass_harness.loop.take import take
from windlass_harness.record import Record, from_wire, number, to_wire
from windlass_harness.views.runs import AFTER_END
from windlass_protocol import (
    EVENT_DATA,
    ActionStatus,
    AllowDecision,
    AskDecision,
    DeferDecision,
    DenyDecision,
    EffectClass,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    FinishReason,
    InputResponse,
    InterruptDecision,
    JsonObject,
    ModifyDecision,
    OutputError,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    RetryClass,
    ToolMode,
    UserMessage,
)
from windlass_protocol import Record as WireRecord
from windlass_protocol.generated import records

START: Final = datetime(2026, 1, 31, 9, tzinfo=UTC)
ENDS: Final = ("run.completed", "run.failed", "run.cancelled", "run.budget_exhausted")
VERSION: Final = "v1"
STEPS_OF_A_TEST_MAX: Final = 500
FREE: Final = Rules(terms={None: ModelTerms((CallPrice(0, 0),), 1_000)})
"""The rules of most tests: nothing is set aside for their models, so a cost is what they report."""


def moment(ms: int) -> Moment:
    """The moment that many milliseconds after the beginning of the test."""
    at = START + timedelta(milliseconds=ms)
    return Moment(at.isoformat(timespec="milliseconds")[:23] + "Z", int(at.timestamp() * 1000))


def run_asked(run_id: str = "r1", /, **more: JsonValue) -> RunRequested:
    return RunRequested({"runId": run_id, "agentId": "helper", "message": "do it", **more})


class Session:
    """A session in memory that proves every record valid and every plan pure."""

    def __init__(
        self, records: Iterable[Record] = (), *, epoch: int = 1, rules: Rules = FREE, ms: int = 0
    ) -> None:
        self.state = LoopState()
        self.records: list[Record] = []
        self.under_way: dict[str, Effect] = {}
        self.rules = rules
        self.ms = ms
        for record in records:
            self.state.apply(record)
            self.records.append(record)
        self.epoch = self.state.epoch = epoch

    @property
    def now(self) -> Moment:
        return moment(self.ms)

    def pass_ms(self, ms: int) -> None:
        self.ms += ms

    def tell(self, event: LoopEvent) -> list[str]:
        """Let something happen; return the types of the records it caused."""
        return self._write(take(self.state, event, now=self.now, rules=self.rules))

    def plan(self) -> Plan:
        """Plan the next records twice: planning must change nothing."""
        before, under_way = dump_loop(self.state), frozenset(self.under_way)
        plan = advance(self.state, under_way, now=self.now, rules=self.rules)
        assert advance(self.state, under_way, now=self.now, rules=self.rules) == plan
        assert dump_loop(self.state) == before, "advance changed the state"
        return plan

    def turn(self) -> list[Effect]:
        """Write planned records until none is left; return the requested effects."""
        effects: list[Effect] = []
        for _ in range(STEPS_OF_A_TEST_MAX):
            plan = self.plan()
            self._write(plan.drafts)
            for effect in plan.effects:
                assert effect.key not in self.under_way, "wanted twice"
                self._check_intent(effect)
                self.under_way[effect.key] = effect
                effects.append(effect)
            if plan.is_empty:
                return effects
        raise AssertionError("the loop turns for ever")

    def done(self, effect: Effect, event: LoopEvent) -> list[str]:
        """An effect is done, with this outcome."""
        del self.under_way[effect.key]
        return self.tell(event)

    def write(self, kind: str, data: JsonObject) -> None:
        """Append a record of another writer."""
        self._write([Draft(kind, self.now.at, data)])

    def _check_intent(self, effect: Effect) -> None:
        """Nothing touches the world before the record of its intent, by this owner."""
        if isinstance(effect, CallModel):
            step = self.state.session.history.unanswered
            assert step is not None
            assert step.step_index == effect.step_index
            # An item of a batch is asked for by its id, so that asking again has no effect.
            assert step.epoch == self.epoch or self.state.run_notes.is_batched
        elif isinstance(effect, RunTool):
            found = [one for one in self.records if one.type == "action.started"]
            mine = [one for one in found if one.data["callId"] == effect.call_id]
            assert mine, "no intent"
            assert (mine[-1].data["idempotencyKey"], mine[-1].epoch) == (effect.idempotency_key, self.epoch)

        elif isinstance(effect, Compact):
            intents = [one for one in self.records if one.type == "compaction.requested"]
            assert intents[-1].epoch == self.epoch

    def _write(self, drafts: Sequence[Draft]) -> list[str]:
        for draft in drafts:
            record = number(draft, "s1", seq=len(self.records) + 1, epoch=self.epoch)
            assert valid(record) == replace(record, posts=())
            self.state.apply(record)
            self.records.append(record)
        assert_run_ends_once(self.records)
        return [draft.type for draft in drafts]

    @property
    def types(self) -> list[str]:
        return [record.type for record in self.records]

    def data(self, kind: str) -> JsonObject:
        """The data of the newest record of a type."""
        return next(record.data for record in reversed(self.records) if record.type == kind)

    def all(self, kind: str) -> list[JsonObject]:
        return [record.data for record in self.records if record.type == kind]

    @property
    def end(self) -> str | None:
        """The end of the newest run."""
        run = self.state.session.run
        return None if run is None or run.result is None else run.status.value


def valid(record: Record) -> Record:
    """Read a record back by the strict rules of the wire.

    The rules check its type and its data.
    """
    assert record.type in EVENT_DATA, f"{record.type} is no event type"
    return from_wire(WireRecord.model_validate_json(to_json(to_wire(record)), strict=True))


def assert_run_ends_once(records: Sequence[Record]) -> None:
    ended = [str(record.data["runId"]) for record in records if record.type in ENDS]
    assert len(ended) == len(set(ended)), "a run ended twice"
    over: set[str | None] = set()
    for record in records:
        assert record.run_id not in over or record.type in AFTER_END, f"{record.type} after the end"
        if record.type in ENDS:
            over.add(record.run_id)


# events


def error(
    retry: RetryClass = RetryClass.RETRYABLE, *, kind: ErrorKind = ErrorKind.TIMEOUT, after: int | None = None
) -> ErrorInfo:
    return ErrorInfo(
        code=ErrorCode.UNAVAILABLE, kind=kind, retry=retry, message="it broke", retry_after_ms=after
    )


def failure(retry: RetryClass = RetryClass.RETRYABLE, **more: int) -> ModelFailed:
    return ModelFailed(
        error(retry, after=more.get("after")), usage=records.Usage(input_tokens=1, output_tokens=0)
    )


def overflow() -> ModelFailed:
    """The model refuses a prompt that is too long."""
    told = error(RetryClass.REPAIR_NEEDED, kind=ErrorKind.PROVIDER_FAILURE)
    return ModelFailed(told.model_copy(update={"details": {"fault": "context_overflow"}}))


def long_call(number: int, chars: int = 800) -> ModelAnswered:
    """A call with a long result and without a token count."""
    return ModelAnswered(
        "", FinishReason.TOOL_CALLS, (call("look", f"c-{number}", text="x" * chars),), usage=None
    )


def call(tool: str, call_id: str | None = None, **arguments: JsonValue) -> RequestedCall:
    return RequestedCall(call_id or f"c-{tool}", tool, arguments)


USED: Final[JsonObject] = {"inputTokens": 9, "outputTokens": 1, "costMicros": 10}
"""The usage of one answer."""


def calls(*asked: RequestedCall, text: str = "I look.", tokens: int = 10) -> ModelAnswered:
    usage = records.Usage(input_tokens=tokens - 1, output_tokens=1, cost_micros=tokens)
    return ModelAnswered(text, FinishReason.TOOL_CALLS, asked, reasoning="hm", usage=usage, latency_ms=5)


def says(text: str = "done", reason: FinishReason = FinishReason.STOP, tokens: int = 10) -> ModelAnswered:
    usage = records.Usage(input_tokens=tokens - 1, output_tokens=1, cost_micros=tokens)
    return ModelAnswered(text, reason, usage=usage)


def hash_of(arguments: JsonValue) -> str:
    return f"sha256:{sha256(to_json(arguments)).hexdigest()}"


REFS: Final = (
    PolicyRef(kind=PolicyKind.HOST, id="rules"),
    PolicyRef(kind=PolicyKind.HOST, id="rules", version=VERSION),
)
ALLOW: Final = AllowDecision(code="ok", reason="fine", policy_refs=REFS)
CONSENT: Final = AllowDecision(code=CONSENTED, reason="a person said so", policy_refs=REFS)
ASK: Final = AskDecision(code="ask", reason="who knows", policy_refs=REFS)
DENY: Final = DenyDecision(code="no", reason="not allowed", policy_refs=REFS)
STOP: Final = InterruptDecision(code="stop", reason="enough", policy_refs=REFS)
DEFER: Final = DeferDecision(code="later", reason="busy", policy_refs=REFS, resume_after_ms=60_000)
MODIFY: Final = ModifyDecision(code="safer", reason="safer", policy_refs=REFS, arguments={"safe": True})


def judged(
    effect: JudgeCall,
    decision: PolicyDecision = ALLOW,
    *,
    kind: EffectClass = EffectClass.READ,
    approval_request: ApprovalRequest | None = None,
) -> CallJudged:
    arguments = effect.input if isinstance(effect.input, dict) else {}
    if isinstance(decision, ModifyDecision):
        arguments = decision.arguments
    return CallJudged(
        effect.call_id,
        decision,
        effect=kind,
        mode=ToolMode.READ,
        arguments=arguments,
        arguments_hash=hash_of(arguments),
        approval_request=approval_request
        or (ApprovalRequest("May I?") if isinstance(decision, AskDecision) else None),
    )


def returned(call_id: str, output: JsonValue = "found") -> CallReturned:
    return CallReturned(call_id, ActionStatus.COMPLETED, output, duration_ms=3)


def kept(effect: RunTool, values: JsonObject) -> CallReturned:
    """A call that counts in the state of the session, and notes itself there."""
    count = values.get("count", 0)
    assert isinstance(count, int)
    change = StateChange({"count": count + 1, effect.call_id: effect.arguments}, ("gone",))
    return replace(returned(effect.call_id), state=change)


@dataclass(frozen=True)
class Tool:
    effect: EffectClass = EffectClass.READ
    decision: PolicyDecision = ALLOW
    approval_request: ApprovalRequest | None = None
    delegation: Delegation | None = None


TOOLS: Final = {
    "look": Tool(),
    "put": Tool(EffectClass.IDEMPOTENT),
    "send": Tool(EffectClass.ONCE),
    "pay": Tool(EffectClass.ONCE, ASK),
    "safer": Tool(EffectClass.ONCE, MODIFY),
    "banned": Tool(decision=DENY),
    "stop": Tool(decision=STOP),
    "later": Tool(decision=DEFER),
    "keep": Tool(EffectClass.IDEMPOTENT),
    "child": Tool(
        EffectClass.IDEMPOTENT,
        delegation=Delegation("child", {"agentId": "child", "message": "help", "mode": "task"}),
    ),
}

Person = Callable[["World", str], InputResponse | None]


def approves(_: "World", request_id: str) -> InputResponse:
    """Approves every request, and retries interrupted calls."""
    is_recovery = request_id.startswith("recovery")
    return InputResponse(
        request_id=request_id, option_id="retry" if is_recovery else "approve", responder="ann"
    )


@dataclass
class World:
    """The outside world: it survives every crash, and records the real effects."""

    script: Sequence[Sequence[ModelAnswered | ModelFailed]]
    """For each step of the run: failures, each given once, then the answer, given as often as asked."""
    outputs: list[OutputChecked] = field(default_factory=list[OutputChecked])
    person: Person = approves
    is_last_first: bool = False
    """Of effects under way, the one begun last is done first."""
    ledger: list[str] = field(default_factory=list[str])
    """Keys of the calls that were run to their end."""
    asked: list[str] = field(default_factory=list[str])
    _failed: dict[int, int] = field(default_factory=dict[int, int])
    summary: str = "What happened so far."
    compactions: list[ErrorInfo] = field(default_factory=list[ErrorInfo])
    """Errors of the compactions to come, each given once; then they succeed."""
    pinned: Sequence[str] = ()
    """Pinned messages of tools for after a compaction."""

    def model(self, step_index: int) -> ModelAnswered | ModelFailed:
        outcomes = self.script[step_index]
        at = self._failed.get(step_index, 0)
        if isinstance(outcomes[at], ModelFailed):
            self._failed[step_index] = at + 1
        return outcomes[at]

    def judge(self, effect: JudgeCall, now: Moment) -> LoopEvent:
        tool = TOOLS.get(effect.tool_name)
        if tool is None:
            return CallRefused(effect.call_id, "unknown_tool", "there is no such tool")
        if not isinstance(effect.input, dict):
            return CallRefused(effect.call_id, "invalid_arguments", "no object")
        decision = tool.decision
        if effect.approved_hash == hash_of(effect.input) and effect.approved_policy == VERSION:
            decision = CONSENT
        if isinstance(decision, DeferDecision) and now.ms >= moment(60_000).ms:
            decision = ALLOW
        return replace(
            judged(effect, decision, kind=tool.effect, approval_request=tool.approval_request),
            delegation=tool.delegation,
        )

    def check(self, effect: CheckOutput, rejections: int) -> OutputChecked:
        return self.outputs[rejections]

    def compact(self, state: LoopState, effect: Compact) -> LoopEvent:
        """Compact as the engine does, with a model that always writes the same."""
        messages, turn = tuple(state.session.history.messages), state.session.turn
        assert turn is not None
        pinned = [UserMessage(content=text) for text in self.pinned]
        made = plan(messages, effect.config, overhead_tokens=effect.overhead_tokens, on_compaction=pinned)
        if made.is_empty:
            return CompactionBroken(error(RetryClass.NOT_RETRYABLE), "nothing_to_compact")
        fails = bool(self.compactions) and made.needs_summary
        if fails:
            made = plan_eviction(messages, effect.config, overhead_tokens=effect.overhead_tokens)
        summary = self.summary if made.needs_summary else None
        data = completion_data(made, summary, model_id="m", sequence=turn.sequence, turn_id=turn.turn_id)
        usage = records.Usage(input_tokens=4, output_tokens=1)
        if fails:
            fallback = None if made.is_empty else data
            return CompactionBroken(self.compactions.pop(0), model_id="m", usage=usage, fallback=fallback)
        return HistoryCompacted(data, usage=usage if summary else None)

    def perform(self, session: Session, effect: Effect) -> LoopEvent:
        match effect:
            case Compact():
                return self.compact(session.state, effect)
            case CallModel():
                return self.model(effect.step_index)
            case JudgeCall():
                return self.judge(effect, session.now)
            case RunTool():
                self.ledger.append(effect.idempotency_key)
                if effect.tool_name == "keep":
                    return kept(effect, session.state.session.authored)
                return returned(effect.call_id, {"by": effect.tool_name, "with": effect.arguments})
            case ReviewReport():
                self.ledger.append(f"r1/{effect.step_index}/{effect.call_id}")
                return returned(effect.call_id, effect.report.output)
            case CheckOutput():
                return self.check(effect, session.state.run_notes.rejections)
            case _:
                raise AssertionError(f"not requested: {effect.key}")

    def drive(self, session: Session, *events: LoopEvent) -> Session:
        """Drive a session until no effect and no input is left."""
        for event in events:
            session.tell(event)
        for _ in range(STEPS_OF_A_TEST_MAX):
            session.turn()
            session.pass_ms(10)
            if session.under_way:
                keys = [*session.under_way]
                effect = session.under_way[keys[-1] if self.is_last_first else keys[0]]
                session.done(effect, self.perform(session, effect))
            elif not self._wake(session):
                return session
        raise AssertionError("the session is driven for ever")

    def _wake(self, session: Session) -> bool:
        requests = session.state.session.requests.values()
        for request in [one for one in requests if one.request_id not in self.asked]:
            self.asked.append(request.request_id)
            response = self.person(self, request.request_id)
            if response is not None:
                session.tell(AnswersGiven((response,)))
                return True
        for call_id, note in session.state.notes.items():
            if note.child is not None and note.report is None and session.state.run is not None:
                session.tell(ChildSaid(REPORT, report(call_id, note.child.run_id)))
                return True
        wake = session.plan().wake_at_ms
        if wake is None:
            return False
        assert wake > session.now.ms
        session.pass_ms(wake - session.now.ms)
        return True


def report(call_id: str, child_run_id: str, **more: JsonValue) -> JsonObject:
    """The report of a finished subagent to its caller."""
    told: JsonObject = {"runId": "r1", "callId": call_id, "childRunId": child_run_id, "status": "completed"}
    used: JsonObject = {"inputTokens": 5, "outputTokens": 1, "costMicros": 2}
    return {**told, "output": "helped", "steps": 2, "toolCalls": 1, "usage": used, **more}


def asked(*answers: ModelAnswered, rules: Rules = FREE, **body: JsonValue) -> Session:
    """A session with a run in which the model gave these answers in order."""
    session = Session(rules=rules)
    session.tell(run_asked(**body))
    for answer in answers:
        (effect,) = session.turn()
        session.pass_ms(10)
        session.done(effect, answer)
    return session


def judge_all(session: Session, decision: PolicyDecision = ALLOW, **more: ApprovalRequest) -> list[JudgeCall]:
    """Let a policy say the same of every call that is to be judged."""
    effects = [effect for effect in session.turn() if isinstance(effect, JudgeCall)]
    for effect in effects:
        kind = TOOLS.get(effect.tool_name, Tool()).effect
        session.done(
            effect, judged(effect, decision, kind=kind, approval_request=more.get("approval_request"))
        )
    return effects


def begin_all(session: Session) -> list[RunTool]:
    """Let every call that is to be judged begin."""
    judge_all(session)
    return [effect for effect in session.turn() if isinstance(effect, RunTool)]


def bad(*messages: str) -> OutputChecked:
    return OutputChecked(
        None, tuple(OutputError(path="/a", code="type", message=one) for one in messages or ("not a number",))
    )


CONTRACT: Final[JsonObject] = {
    "schemaId": "answer",
    "schemaVersion": {"major": 1, "minor": 0, "patch": 0},
    "schema": {"type": "object"},
}


def interrupt(session: Session, cut: int, *, epoch: int = 2) -> Session:
    """A new owner finds the first records of a session, and nothing else."""
    after = Session(session.records[:cut], epoch=epoch, rules=session.rules, ms=session.ms)
    after.tell(SessionClaimed(epoch, "recovery"))
    return after
