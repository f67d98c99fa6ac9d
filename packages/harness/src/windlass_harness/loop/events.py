"""Events and effects of the loop: what happened, and what to perform."""

from collections.abc import Sequence
from hashlib import sha256
from typing import ClassVar

from msgspec import Struct
from pydantic import JsonValue

from windlass_harness.loop.notes import Pause, ProgramResult, ProgramVariables
from windlass_harness.loop.rules import CallBounds, RequestedCall
from windlass_harness.record import Record
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    ActionStatus,
    BudgetName,
    CompactionConfig,
    EffectClass,
    ErrorInfo,
    FinishReason,
    InputResponse,
    JsonObject,
    OutputError,
    PolicyDecision,
    ToolMode,
)
from windlass_protocol.bodies import Body, Part
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records
from windlass_protocol.limits import ID_CHARS_MAX


class Moment(Struct, frozen=True):
    """A point in time: as a wire timestamp, and in milliseconds since 1970."""

    at: str
    ms: int
    held: frozenset[Pause] | None = None
    """Pauses that have not ended, by the monotonic clock; None means: use the wall clock."""
    active_ms: int | None = None
    """Active time of the run since `active_since`, by the monotonic clock; None means: use the wall clock."""

    def is_in(self, pause: Pause) -> bool:
        """Whether a pause has not ended."""
        return pause.has(self.ms) if self.held is None else pause in self.held


class StartItem(Part, frozen=True, kw_only=True):
    """What the loop reads of a start body, besides the facts of the run."""

    run_id: str
    agent_id: str
    turn_id: str | None = None
    retry_of: str | None = None
    undo: records.JsonObject | None = None
    playground: records.JsonObject | None = None
    parent: records.JsonObject | None = None
    session: records.JsonObject | None = None
    contract: records.JsonObject | None = None


class MessageItem(Part, frozen=True, kw_only=True):
    """The message in the body of a start, or of a message to a run."""

    message: str | None = None
    parts: Sequence[records.UserPart] | None = None
    context: Sequence[str] | None = None
    message_id: records.Id | None = None
    sender: str | None = None
    source: records.SourceRef | None = None
    delivery: str | None = None

    def to_body(self, *, sequence: int, turn_id: str, delivery: str | None = None) -> records.MessageReceived:
        """Return the record of the message."""
        return records.MessageReceived(
            message=self.message or "",
            sequence=sequence,
            turn_id=turn_id,
            parts=self.parts,
            context=self.context,
            message_id=self.message_id,
            delivery=delivery or self.delivery,
            sender=self.sender,
        )


@frozen
class RunRequested:
    """A run was requested. `body` is its `run.started` data and its input:
    `message`, `parts`, `context`, `contract`, `session`."""

    body: JsonObject


@frozen
class MessageSent:
    """A message was sent to the current run.

    `body` has `message` and `messageId`, and optionally `parts`, `context`, `source`, `sender`.
    """

    body: JsonObject


@frozen
class AnswersGiven:
    """Requests were answered."""

    responses: tuple[InputResponse, ...]
    given_ms: int | None = None
    """Time of the answers in milliseconds since 1970; None means now."""
    answer_id: str | None = None
    """Id of these answers; a settled request names the answer that settled it."""


@frozen
class RequestDispatched:
    """A request was dispatched to its responders and need not be dispatched again."""

    request_id: str


@frozen
class CancelRequested:
    """Cancellation of a run was requested."""

    run_id: str
    by: str | None = None
    reason: str | None = None


@frozen
class RunWithdrawn:
    """A queued run was cancelled before it started.

    `body` is that of its `RunAsked`.
    """

    body: JsonObject
    by: str | None = None
    reason: str | None = None


@frozen
class RunRefused:
    """A run cannot start: the journal refused its input.

    `body` is the part that the journal accepts.
    """

    body: JsonObject
    error: ErrorInfo


@frozen
class ModelAnswered:
    """The model returned a complete answer."""

    text: str
    finish_reason: FinishReason
    calls: tuple[RequestedCall, ...] = ()
    reasoning: str = ""
    is_reasoning_late: bool = False
    """Whether the reasoning began after text had been shown: readers that count events need the order."""
    usage: records.Usage | None = None
    price: records.Price | None = None
    latency_ms: int | None = None
    queued_ms: int | None = None
    """How long the call waited for the limit of its provider; None if it did not."""
    cache: records.PromptCache | None = None
    """The prompt as its provider may cache it; None if the provider reports no cache."""
    provider_data: JsonObject | None = None
    """Provider data that must be sent back with this answer."""
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class ModelFailed:
    """A model call failed.

    `chance`, from 0 up to 1, spreads the retry delays.
    """

    error: ErrorInfo
    chance: float = 0.5
    usage: records.Usage | None = None
    price: records.Price | None = None
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class ModelBatched:
    """The model call is an item of a batch, and is made again when its answer is there."""

    reason: str
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class BatchAnswered:
    """The answer to an item of a batch is there, or the item has to be asked for again."""

    run_id: str


@frozen
class CompactionRequested:
    """A compaction was requested."""


@frozen
class HistoryCompacted:
    """The history was compacted."""

    body: records.CompactionCompleted
    usage: records.Usage | None = None
    price: records.Price | None = None


@frozen
class CompactionBroken:
    """A compaction failed.

    `chance` is as in `ModelFailed`.
    """

    error: ErrorInfo
    code: str | None = None
    """Error code, if the kind of error does not determine it."""
    model_id: str | None = None
    chance: float = 0.5
    usage: records.Usage | None = None
    price: records.Price | None = None
    fallback: records.CompactionCompleted | None = None
    """Result without a summary; applied after the last attempt."""
    exceeded: BudgetName | None = None
    """Which budget the summary does not fit, so that the run ends; None if it failed otherwise."""


@frozen
class ApprovalRequest:
    """The content of an approval request: its prompt, expiry and responders."""

    prompt: str
    expires_at: str | None = None
    responders: tuple[str, ...] | None = None
    can_grant_session: bool = True
    is_keyed: bool = False
    """Whether an approval for the session covers the calls with the same key, not all calls of the tool."""
    is_exact: bool = False
    """Whether an approval for the session covers the same shell command alone."""


@frozen
class Delegation:
    """The subagent of a call, and its input."""

    name: str
    body: JsonObject
    """Start body of its run: as in `RunAsked`, without ids, lineage and the limits of the caller."""
    parts: int = 1
    """Open subagent calls of the step; they share the remaining budget."""
    is_background: bool = False
    """Whether the call is answered with a job, and does not wait for the subagent."""
    is_tool: bool = False
    """Whether the subagent is the same agent, which makes one call of a tool."""


@frozen
class CallJudged:
    """A policy decided about a call.

    `arguments_hash` binds the decision to the arguments.
    """

    call_id: str
    decision: PolicyDecision
    effect: EffectClass
    mode: ToolMode
    arguments: JsonObject
    arguments_hash: str
    approval_request: ApprovalRequest | None = None
    """The approval request; set if the decision is ask."""
    delegation: Delegation | None = None
    """Set if the call is allowed and is for a subagent."""
    interpreter: str | None = None
    """Set if the call is a program: name and version of its interpreter."""
    undo: str | None = None
    """The tool that can reverse the call."""
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class CallRefused:
    """A call was refused: unknown tool, or invalid arguments."""

    call_id: str
    code: str
    message: str
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class CallAsks:
    """A call asks a person a question; the answer is its result."""

    call_id: str
    arguments: JsonObject
    prompt: str
    options: tuple[JsonObject, ...] = ()
    allow_freeform: bool = True
    expires_at: str | None = None
    responders: tuple[str, ...] | None = None
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class ToolWaits:
    """A tool waits and ended; it is run again with what came."""

    call_id: str
    waits: tuple[CallAsks | RequestedCall, ...]
    """What it waits for now: questions, with its own `call_id`; times and events, as calls without an id."""


@frozen
class StateChange:
    """A change of the session state: removed keys, then set values."""

    values: JsonObject
    removed: tuple[str, ...] = ()

    @property
    def body(self) -> records.SessionStateChanged:
        """The change as a record."""
        return records.SessionStateChanged(set=self.values or None, removed=[*self.removed] or None)


@frozen
class StateGiven:
    """The application changed the session state."""

    change: StateChange


@frozen
class FeedbackGiven:
    """A person judged a run."""

    body: records.FeedbackGiven


@frozen
class EventSent:
    """An event was sent to a run."""

    body: records.RunEventReceived


@frozen
class CallReturned:
    """A tool call ended."""

    call_id: str
    status: ActionStatus
    output: JsonValue
    code: str = ""
    message: str = ""
    """Message of the error, if the call failed."""
    content: records.ContentRef | None = None
    """Reference to the complete output, if `output` is a part of it."""
    duration_ms: int | None = None
    taint: tuple[str, ...] = ()
    """Taint of the result: untrusted content, private data."""
    state: StateChange | None = None
    """Changes of the session state by the call."""
    log: tuple[str, ...] = ()
    """Lines that the tool logged."""
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""
    masked: JsonValue = None
    """An output in which secrets were masked: while it is `output`, it is not searched for them again."""


@frozen
class ProgramPaused:
    """A program has taken results and waits for the results of its other calls."""

    call_id: str
    taken: int
    """Number of results that it has taken, of those in `RunProgram.results`."""
    calls: tuple[RequestedCall, ...] = ()
    """Calls that it made since its last pause; their ids are set when they are recorded."""
    interpreter: str = ""
    snapshot: records.ContentRef | None = None
    printed: str = ""
    """All text that it has printed since it began."""
    cancelled: tuple[int, ...] = ()
    """Numbers of its timers that it does not wait for any more."""


@frozen
class ProgramEnded:
    """A program ended. Calls of it may be open."""

    returned: "CallReturned"
    taken: int
    calls: tuple[RequestedCall, ...] = ()
    """Calls that it made since its last pause and did not await."""
    variables: ProgramVariables | None = None
    """What the next programs of the session begin with; None to leave that as it is."""
    cancelled: tuple[int, ...] = ()
    """See `ProgramPaused.cancelled`."""


@frozen
class ProgramDiverged:
    """A function of the application went another way than its records."""

    call_id: str
    taken: int
    message: str
    """The first call that differs: what was recorded, what came, and the line."""


@frozen
class CallUnbegun:
    """This owner wrote the intent of a call and did not begin the call."""

    call_id: str
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class ChildSaid:
    """A subagent requested input, had a request settled, or ended; see `kind`."""

    kind: str
    body: JsonObject


@frozen
class OutputChecked:
    """The last answer was validated against the output contract."""

    value: JsonValue
    errors: tuple[OutputError, ...] = ()
    hash: str | None = None
    """Hash of the canonical value, if there are no errors."""
    veto: str | None = None
    """Reason of a hook that vetoed completion."""
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class SessionClaimed:
    """A new owner claimed the session and continues it."""

    epoch: int
    reason: str
    is_alone: bool = True
    """Whether no other session was at work when the previous owner ended."""
    is_isolated: bool = False
    """Whether the new owner drives no other session of which processes ended repeatedly."""
    survived: tuple[int, ...] = ()
    """Epochs of earlier owners that lost the session and went on: their processes did not end."""


@frozen
class IsolationEnded:
    """The owner drives other suspects from now on: the process has not ended for a while."""


@frozen
class SessionReleased:
    """The owner releases the session in order; the next owner continues it."""


@frozen
class Stopped:
    """The run cannot continue, for a reason outside of the model and the tools."""

    error: ErrorInfo
    notes: tuple[Body, ...] = ()
    """Records that accompany the event, such as a hook that ran."""


@frozen
class LimitAsk:
    """What a person is asked when a run has reached a limit."""

    limit: str
    """Its name."""
    budget: BudgetName
    """Whether it limits money or tokens."""
    used: int
    most: int
    amount: int
    """How much more the next answer of the run may need."""
    subject: str = ""
    """The owner or the agent that it is for; empty if it is for all."""
    period: str = ""
    """The day or the month; empty for a limit of each run."""
    responders: tuple[str, ...] | None = None
    """Who may answer; None for anyone."""


@frozen
class CallReserved:
    """The store answered a `ReserveCall`."""

    call: str
    reserved: records.Reservation | None = None
    """What is set aside; None if it does not fit."""
    error: ErrorInfo | None = None
    """Which limit it does not fit."""
    exceeded: tuple[BudgetName, ...] = ()
    """Whether that limits money or tokens."""
    model_id: str | None = None
    """The cheaper model that fits; None is the model of the run."""
    ask: LimitAsk | None = None
    """What a person is asked, if the limit says so."""


@frozen
class HooksRan:
    """The hooks of a point have run."""

    point: str
    run_id: str
    notes: tuple[Body, ...]
    agent_id: str | None = None
    context: tuple[str, ...] = ()
    """Context that the hooks add to the prompt."""
    veto: str | None = None
    """Reason of a hook that vetoed completion."""


@frozen
class DeliverySettled:
    """The outcome of a delivery.

    With `error` it did not happen, with `reason` its outcome is unknown, with neither it succeeded.
    """

    delivery_id: str
    receipt: JsonObject | None = None
    error: ErrorInfo | None = None
    reason: str | None = None


LoopEvent = (
    RunRequested
    | MessageSent
    | AnswersGiven
    | RequestDispatched
    | CancelRequested
    | RunWithdrawn
    | RunRefused
    | ModelAnswered
    | ModelFailed
    | ModelBatched
    | BatchAnswered
    | CompactionRequested
    | HistoryCompacted
    | CompactionBroken
    | CallJudged
    | CallRefused
    | CallAsks
    | ToolWaits
    | CallReturned
    | ProgramPaused
    | ProgramEnded
    | ProgramDiverged
    | CallUnbegun
    | ChildSaid
    | OutputChecked
    | SessionClaimed
    | SessionReleased
    | IsolationEnded
    | Stopped
    | HooksRan
    | DeliverySettled
    | StateGiven
    | FeedbackGiven
    | EventSent
    | CallReserved
)

Draft = Record
"""A record that the loop drafted and no writer has numbered."""


def within_limit(text: str, *, most: int = ID_CHARS_MAX) -> str:
    """Return an id; its digest if it exceeds the length limit."""
    if len(text) <= most:
        return text
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def join_ids(*parts: str) -> str:
    """Return one id for several; different parts give different ids."""
    return within_limit("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


@frozen
class CallModel:
    """Call the model; `step.started` is the intent."""

    step_index: int
    attempt: int
    key: ClassVar[str] = "model"
    """Key of the effect in progress."""


@frozen
class Compact:
    """Compact the history; `compaction.requested` is the intent."""

    config: CompactionConfig
    overhead_tokens: int
    key: ClassVar[str] = "compact"
    """Key of the effect in progress."""


def judge_key(call_id: str) -> str:
    """Return the effect key of judging a call."""
    return f"judge:{call_id}"


def run_key(call_id: str) -> str:
    """Return the effect key of running a call."""
    return f"call:{call_id}"


@frozen
class JudgeCall:
    """Validate the arguments of a call and ask the policy. Has no side effects."""

    call_id: str
    tool_name: str
    input: JsonValue
    approved_hash: str | None = None
    """Hash of the arguments that a person approved."""
    approved_policy: str | None = None
    """Policy version of that approval."""
    is_inner: bool = False
    """Whether a program made the call."""
    is_changed: bool = False
    """Whether the person who approved the call changed its arguments to `input`."""

    @property
    def key(self) -> str:
        """Key of the effect in progress."""
        return judge_key(self.call_id)


@frozen
class WaitResult:
    """What a tool waited for in an earlier attempt, and what came."""

    name: str
    arguments: JsonValue
    output: JsonValue


@frozen
class RunTool:
    """Run a tool; `action.started` is the intent."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    idempotency_key: str
    step_index: int
    attempt: int
    is_inner: bool = False
    """Whether a program made the call."""
    waited: tuple[WaitResult, ...] = ()
    """What the tool waited for before, in the order in which it began to."""

    @property
    def key(self) -> str:
        """Key of the effect in progress."""
        return run_key(self.call_id)


@frozen
class RunProgram:
    """Run a program until it waits for calls or ends. Has no side effects: it may be repeated."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    idempotency_key: str
    step_index: int
    started_at: str
    calls: tuple[tuple[str, str, JsonValue], ...] = ()
    """The id, the tool and the arguments of each call that it made."""
    results: tuple[ProgramResult, ...] = ()
    """Results of these calls, in the order in which it takes them."""
    taken: int = 0
    """Number of results that it had taken at the snapshot."""
    interpreter: str = ""
    snapshot: records.ContentRef | None = None
    printed: str = ""
    variables: ProgramVariables | None = None
    """What it began with."""

    @property
    def key(self) -> str:
        """Key of the effect in progress."""
        return run_key(self.call_id)


@frozen
class ReviewReport:
    """Review a subagent's report before the model sees it. Has no side effects."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    report: records.SubagentCompleted
    step_index: int

    @property
    def key(self) -> str:
        """Key of the effect in progress."""
        return f"report:{self.call_id}"


@frozen
class CheaperCall:
    """The next model call, made by a cheaper model."""

    model_id: str
    bounds: CallBounds


@frozen
class ReserveCall:
    """Set aside what the next model call may cost, in all limits that the run shares with others."""

    call: str
    bounds: CallBounds
    model_id: str | None = None
    """The cheaper model that makes it; None is the model of the run."""
    cheaper: tuple[CheaperCall, ...] = ()
    """The same call by cheaper fallback models, in their order, for limits that switch to one."""
    key: ClassVar[str] = "reserve"
    """Key of the effect in progress."""


@frozen
class CheckOutput:
    """Validate the last answer against the output contract. Has no side effects."""

    text: str
    key: ClassVar[str] = "output"
    """Key of the effect in progress."""


@frozen
class CallHooks:
    """Call the hooks of a point of the run, or of one of its calls."""

    point: str
    run: RunState
    call_id: str | None = None

    @property
    def key(self) -> str:
        """Key of the effect in progress."""
        return f"hooks:{self.point}:{self.run.run_id}:{self.call_id or ''}"


@frozen
class Deliver:
    """Deliver the output of a run to a sink; `delivery.intended` is the intent."""

    delivery_id: str
    sink_id: str
    dedupe_key: str
    kind: str
    run: RunState

    @property
    def key(self) -> str:
        """Key of the effect in progress."""
        return f"deliver:{self.delivery_id}"


Effect = (
    CallModel
    | Compact
    | JudgeCall
    | RunTool
    | RunProgram
    | ReviewReport
    | ReserveCall
    | CheckOutput
    | CallHooks
    | Deliver
)


def is_errand(effect: Effect) -> bool:
    """Whether an effect is for an ended run, not for the current one."""
    return isinstance(effect, CallHooks | Deliver) and effect.run.result is not None


@frozen
class CallSettlement:
    """What becomes of a call that the loop settles itself: its next records, or for what it waits."""

    drafts: Sequence[Draft] = ()
    wake_at_ms: int | None = None
    is_busy: bool = False
    """Whether it waits for a subagent."""


class Plan(Struct, frozen=True):
    """Records to write, then effects to perform.

    An empty plan means: wait, until `wake_at_ms` at the latest.
    """

    drafts: tuple[Draft, ...] = ()
    effects: tuple[Effect, ...] = ()
    wake_at_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no records and no effects."""
        return not self.drafts and not self.effects


NOTHING = Plan()
