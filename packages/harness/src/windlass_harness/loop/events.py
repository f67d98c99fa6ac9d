"""What can happen to a session: the inputs of the loop."""

from hashlib import sha256
from typing import ClassVar, Final

from pydantic import JsonValue

from windlass_harness.loop.notes import Pause
from windlass_harness.record import Record
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    ActionStatus,
    CompactionConfig,
    ErrorInfo,
    FinishReason,
    InputResponse,
    JsonObject,
    OutputError,
    PolicyDecision,
)
from windlass_protocol.frozen import frozen


@frozen
class Moment:
    """When something happens: as the wire writes it, and in milliseconds since 1970."""

    at: str
    ms: int
    held: frozenset[Pause] | None = None
    """The pauses that go on, by whoever knows better than the wall clock; None if nobody does."""
    active_ms: int | None = None
    """How long the run has gone on since its `active_since`, by whoever knows better; None if nobody does."""

    def is_in(self, pause: Pause) -> bool:
        """Whether a pause goes on."""
        return pause.has(self.ms) if self.held is None else pause in self.held


@frozen
class Note:
    """Something that happened on the way to an event, such as a hook that ran.

    A record of its own.
    """

    type: str
    data: JsonObject


@frozen
class RunAsked:
    """Somebody wants a run. `body` is its `run.started` data and what it begins with:
    `message`, `parts`, `context`, `contract`, `session`."""

    body: JsonObject


@frozen
class Steered:
    """Somebody says something to the run under way.

    `body` has `message`, `messageId`, and what may come with it: `parts`, `context`, `source`, `sender`.
    """

    body: JsonObject


@frozen
class AnswersGiven:
    """Somebody answers requests."""

    responses: tuple[InputResponse, ...]
    given_ms: int | None = None
    """When, in milliseconds since 1970; None means now."""


@frozen
class RequestDispatched:
    """A request was taken to whoever answers; nobody has to take it there again."""

    request_id: str


@frozen
class CancelAsked:
    """Somebody wants a run to end."""

    run_id: str
    by: str | None = None
    reason: str | None = None


@frozen
class RunWithdrawn:
    """Somebody wants a run to end whose turn has not come.

    `body` is that of its `RunAsked`.
    """

    body: JsonObject
    by: str | None = None
    reason: str | None = None


@frozen
class RunRefused:
    """A run cannot begin: the journal does not take what it would begin with.

    `body` is what it takes of it.
    """

    body: JsonObject
    error: ErrorInfo


@frozen
class AskedCall:
    """A call that the model asks for. `input` is text if it was no JSON."""

    call_id: str
    tool_name: str
    input: JsonValue
    subagent: str | None = None
    """Whom it gives work to, if it does."""


@frozen
class ModelAnswered:
    """The model has said all it had to say."""

    text: str
    finish_reason: FinishReason
    calls: tuple[AskedCall, ...] = ()
    reasoning: str = ""
    usage: JsonObject | None = None
    latency_ms: int | None = None
    provider_data: JsonObject | None = None
    """What the provider wants back with this answer."""
    notes: tuple[Note, ...] = ()


@frozen
class ModelFailed:
    """The model gave no answer.

    `chance`, from 0 up to 1, spreads the waits before another attempt.
    """

    error: ErrorInfo
    chance: float = 0.5
    usage: JsonObject | None = None
    notes: tuple[Note, ...] = ()


@frozen
class CompactionAsked:
    """Somebody wants the history of the session to be shorter."""


@frozen
class HistoryCompacted:
    """The history is shorter. `data` is what `compaction.completed` says of it."""

    data: JsonObject
    usage: JsonObject | None = None


@frozen
class CompactionBroken:
    """The history could not be made shorter, or not as planned.

    `chance` is that of `ModelFailed`.
    """

    error: ErrorInfo
    code: str | None = None
    """Of the failure, if its kind does not say it."""
    model_id: str | None = None
    chance: float = 0.5
    usage: JsonObject | None = None
    fallback: JsonObject | None = None
    """What can be done without a model, as `compaction.completed` says it."""


@frozen
class Plea:
    """What a person is shown and asked for when a policy wants consent."""

    prompt: str
    expires_at: str | None = None
    responders: tuple[str, ...] | None = None
    can_grant_session: bool = True


@frozen
class Delegation:
    """Whom a call gives work to."""

    name: str
    body: JsonObject
    """What its run begins with: that of `RunAsked`, without ids, lineage, and the limits of the caller."""
    parts: int = 1
    """Calls of the step that give work to somebody and have no result: they share what is left."""


@frozen
class CallJudged:
    """A policy has decided about a call.

    What it may run with is bound by `arguments_hash`.
    """

    call_id: str
    decision: PolicyDecision
    effect: str
    mode: str
    arguments: JsonObject
    arguments_hash: str
    plea: Plea | None = None
    """How to ask; there for an ask decision."""
    delegation: Delegation | None = None
    """There if the call may be made and is for a subagent."""
    notes: tuple[Note, ...] = ()


@frozen
class CallRefused:
    """A call cannot be made: no such tool, or arguments that do not fit."""

    call_id: str
    code: str
    message: str
    notes: tuple[Note, ...] = ()


@frozen
class CallAsks:
    """A call is a question to a person; its answer is the result."""

    call_id: str
    arguments: JsonObject
    prompt: str
    options: tuple[JsonObject, ...] = ()
    allow_freeform: bool = True
    expires_at: str | None = None
    notes: tuple[Note, ...] = ()


@frozen
class StateChange:
    """What changes in the authored state: first keys go, then values come."""

    values: JsonObject
    removed: tuple[str, ...] = ()

    @property
    def data(self) -> JsonObject:
        """The change as `session.state_changed` says it."""
        data: JsonObject = {}
        if self.removed:
            data["removed"] = list(self.removed)
        if self.values:
            data["set"] = self.values
        return data


@frozen
class StateGiven:
    """Somebody outside changes the authored state of the session."""

    change: StateChange


@frozen
class CallReturned:
    """A tool is done."""

    call_id: str
    status: ActionStatus
    output: JsonValue
    code: str = ""
    message: str = ""
    """Of the error, when there is one."""
    content: JsonObject | None = None
    """Where all of the output is, when only a part of it is here."""
    duration_ms: int | None = None
    taint: tuple[str, ...] = ()
    """What the result brings into the session: untrusted content, private data."""
    state: StateChange | None = None
    """What the call changed in the state of the session."""
    notes: tuple[Note, ...] = ()


@frozen
class CallUnbegun:
    """A tool whose intent was written is not run by this owner, and has not begun."""

    call_id: str
    notes: tuple[Note, ...] = ()


@frozen
class ChildSaid:
    """A subagent asks people, has their answer, or has ended: as `kind` says."""

    kind: str
    body: JsonObject


@frozen
class OutputChecked:
    """The last answer was held against the output contract."""

    value: JsonValue
    errors: tuple[OutputError, ...] = ()
    hash: str | None = None
    """Of the canonical value, when there are no errors."""
    veto: str | None = None
    """Why a hook does not let the run complete with it."""
    notes: tuple[Note, ...] = ()


@frozen
class Taken:
    """A new owner has the session and goes on with it."""

    epoch: int
    reason: str


@frozen
class HandedOver:
    """The owner lets go of the session in order; whoever comes next goes on with it."""


@frozen
class Stopped:
    """The run cannot go on, for a reason that lies outside of the model and the tools."""

    error: ErrorInfo
    notes: tuple[Note, ...] = ()


@frozen
class HooksRan:
    """The hooks of a point of a run have run."""

    point: str
    run_id: str
    notes: tuple[Note, ...]
    agent_id: str | None = None
    context: tuple[str, ...] = ()
    """What they add to what the model is told."""
    veto: str | None = None
    """Why one does not let the run complete."""


@frozen
class DeliverySettled:
    """What came of a delivery.

    It did not happen if there is an error, nobody knows if there is a reason, and it did if there is neither.
    """

    delivery_id: str
    receipt: JsonObject | None = None
    error: ErrorInfo | None = None
    reason: str | None = None


LoopEvent = (
    RunAsked
    | Steered
    | AnswersGiven
    | RequestDispatched
    | CancelAsked
    | RunWithdrawn
    | RunRefused
    | ModelAnswered
    | ModelFailed
    | CompactionAsked
    | HistoryCompacted
    | CompactionBroken
    | CallJudged
    | CallRefused
    | CallAsks
    | CallReturned
    | CallUnbegun
    | ChildSaid
    | OutputChecked
    | Taken
    | HandedOver
    | Stopped
    | HooksRan
    | DeliverySettled
    | StateGiven
)

ID_CHARS_MAX: Final = 512


Draft = Record
"""A record that the loop has made and no writer has numbered."""


def within_limit(text: str, *, most: int = ID_CHARS_MAX) -> str:
    """Return an identifier made of others; its digest if it is longer than one may be."""
    if len(text) <= most:
        return text
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def joined(*parts: str) -> str:
    """Return one identifier for several: no two lists of parts have the same."""
    return within_limit("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


@frozen
class CallModel:
    """Ask the model for the next answer; its `step.started` is the intent."""

    step_index: int
    attempt: int
    key: ClassVar[str] = "model"
    """What the effect is called while it is under way."""


@frozen
class Compact:
    """Make the history shorter; its `compaction.requested` is the intent."""

    config: CompactionConfig
    overhead_tokens: int
    key: ClassVar[str] = "compact"
    """What the effect is called while it is under way."""


def judge_key(call_id: str) -> str:
    """Return what the judging of a call is called while it is under way."""
    return f"judge:{call_id}"


def run_key(call_id: str) -> str:
    """Return what a call is called while it runs."""
    return f"call:{call_id}"


@frozen
class JudgeCall:
    """Check the arguments of a call and ask the policy about it. Touches nothing."""

    call_id: str
    tool_name: str
    input: JsonValue
    approved_hash: str | None = None
    """A person approved the call with these arguments."""
    approved_policy: str | None = None
    """Under this version of the policy."""

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return judge_key(self.call_id)


@frozen
class RunTool:
    """Run a tool; its `action.started` is the intent."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    idempotency_key: str
    step_index: int
    attempt: int

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return run_key(self.call_id)


@frozen
class ReviewReport:
    """See what a subagent returned before the model does. Touches nothing."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    report: JsonObject
    """What its `subagent.completed` says."""
    step_index: int

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return f"report:{self.call_id}"


@frozen
class CheckOutput:
    """Hold the last answer against the output contract. Touches nothing."""

    text: str
    key: ClassVar[str] = "output"
    """What the effect is called while it is under way."""


@frozen
class CallHooks:
    """Run the hooks of a point: of the run, or of one of its calls."""

    point: str
    run: RunState
    call_id: str | None = None

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return f"hooks:{self.point}:{self.run.run_id}:{self.call_id or ''}"


@frozen
class Deliver:
    """Give the output of a run to a sink; its `delivery.intended` is the intent."""

    delivery_id: str
    sink_id: str
    dedupe_key: str
    kind: str
    run: RunState

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return f"deliver:{self.delivery_id}"


Effect = CallModel | Compact | JudgeCall | RunTool | ReviewReport | CheckOutput | CallHooks | Deliver


def is_errand(effect: Effect) -> bool:
    """Whether an effect is for a run that has ended, not for the one under way."""
    return isinstance(effect, CallHooks | Deliver) and effect.run.result is not None


@frozen
class Plan:
    """What to write, then what to do.

    Nothing of either means: wait, until `wake_at_ms` at the latest.
    """

    drafts: tuple[Draft, ...] = ()
    effects: tuple[Effect, ...] = ()
    wake_at_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to do."""
        return not self.drafts and not self.effects


NOTHING = Plan()
