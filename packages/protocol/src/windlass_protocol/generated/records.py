# Generated from spec/ by `make gen`. Do not edit.
"""The data of each type of record as a class; see `windlass_protocol.bodies`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from windlass_protocol.bodies import Body, Part, model
from windlass_protocol.generated.common import PolicyKind, PriceGap, PriceSource, PromptPart, RetentionClass
from windlass_protocol.generated.event_data import ActionStatus, FinishReason, HookStatus, RecoveryChoice
from windlass_protocol.generated.input import InputOutcome
from windlass_protocol.generated.packages import ResolverPart, ResolverScope
from windlass_protocol.generated.policy import BudgetName, PolicyStage
from windlass_protocol.generated.runs import RunStatus
from windlass_protocol.generated.sessions import RunMode
from windlass_protocol.generated.tools import EffectClass, Taint, ToolMode

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass_protocol._wire import JsonObject
    from windlass_protocol.generated.common import SourceRef, TraceContext
    from windlass_protocol.generated.decisions import (
        Decision,
        DecisionEvaluation,
        Outcome,
        Problem,
        Proposal,
        ProposalCheck,
    )
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.event_data import (
        AuthorizationChallenge,
        Invocation,
        ParentRun,
        RuntimeIdentity,
    )
    from windlass_protocol.generated.input import InputRequest, InputResolution
    from windlass_protocol.generated.output import OutputContract, OutputError
    from windlass_protocol.generated.policy import BudgetLimits
    from windlass_protocol.generated.runs import PlaygroundOrigin
    from windlass_protocol.generated.sessions import (
        AssistantPart,
        CompactionConfig,
        ModelMessage,
        SessionAgent,
        SessionCapabilities,
        UserPart,
    )
else:
    JsonValue = Any
    JsonObject = dict[str, Any]
    AssistantPart = model("sessions", "AssistantPart")
    AuthorizationChallenge = model("event_data", "AuthorizationChallenge")
    BudgetLimits = model("policy", "BudgetLimits")
    CompactionConfig = model("sessions", "CompactionConfig")
    Decision = model("decisions", "Decision")
    DecisionEvaluation = model("decisions", "DecisionEvaluation")
    ErrorInfo = model("errors", "ErrorInfo")
    InputRequest = model("input", "InputRequest")
    InputResolution = model("input", "InputResolution")
    Invocation = model("event_data", "Invocation")
    ModelMessage = model("sessions", "ModelMessage")
    Outcome = model("decisions", "Outcome")
    OutputContract = model("output", "OutputContract")
    OutputError = model("output", "OutputError")
    ParentRun = model("event_data", "ParentRun")
    PlaygroundOrigin = model("runs", "PlaygroundOrigin")
    Problem = model("decisions", "Problem")
    Proposal = model("decisions", "Proposal")
    ProposalCheck = model("decisions", "ProposalCheck")
    RuntimeIdentity = model("event_data", "RuntimeIdentity")
    SessionAgent = model("sessions", "SessionAgent")
    SessionCapabilities = model("sessions", "SessionCapabilities")
    SourceRef = model("common", "SourceRef")
    TraceContext = model("common", "TraceContext")
    UserPart = model("sessions", "UserPart")

Id = Annotated[str, Meta(min_length=1, max_length=512)]


class PolicyRef(Part, frozen=True, kw_only=True):
    """Names the policy or rule that made a decision."""

    kind: PolicyKind
    """What the policy is about."""
    id: Id
    """Identifier of the policy or rule."""
    version: str | None = None
    """Version of the policy, when it has one."""


class Usage(Part, frozen=True, kw_only=True):
    """Tokens and money that model calls used."""

    input_tokens: int | None = None
    """Tokens sent to the model."""
    output_tokens: int | None = None
    """Tokens the model produced."""
    cache_read_tokens: int | None = None
    """Input tokens that came from the provider's cache."""
    cache_write_tokens: int | None = None
    """Input tokens written to the provider's cache."""
    reasoning_tokens: int | None = None
    """Output tokens spent on reasoning."""
    cost_micros: int | None = None
    """Cost in millionths of a US dollar, when known."""


class PricePart(Part, frozen=True, kw_only=True):
    """A part of the price of a model call."""

    unit: str
    """What is counted, such as input_tokens or cache_write_1h_tokens."""
    count: int
    """How many, without those that another part counts."""
    micros: int
    """Millionths of a US dollar; the parts add up to the amount by the prices."""


class Price(Part, frozen=True, kw_only=True):
    """How the cost of a model call was found, or why it has none; the cost itself is in the usage."""

    source: PriceSource
    """The figure that is the cost."""
    list_micros: int | None = None
    """Amount by the prices of the agent or of the table."""
    reported_micros: int | None = None
    """Amount that the provider reported."""
    parts: Sequence[PricePart] | None = None
    """Parts of the amount by the prices."""
    table: str | None = None
    """Name and version of the price table."""
    entry: str | None = None
    """Provider and model in the price table, or the pattern among the application's own prices."""
    gap: PriceGap | None = None
    """Why there is no amount by prices."""


class Reservation(Part, frozen=True, kw_only=True):
    """What a model call may cost at most, set aside before it is made."""

    cost_micros: int
    """Millionths of a US dollar."""
    answer_tokens: int
    """Tokens of the longest answer that this pays for."""
    shared_call: str | None = None
    """What the call is known by where limits of people and teams are kept; absent if it counts for none."""


class CacheLoss(Part, frozen=True, kw_only=True):
    """Tokens of a prompt that the provider had in its cache and read anew."""

    tokens: int
    """Tokens that the call before had in the cache, and this one did not find there."""
    part: PromptPart | None = None
    """Kind of the first part of the prompt that changed; absent if none did."""
    index: int | None = None
    """Its number among the parts of its kind, from 0; messages are counted together."""
    name: str | None = None
    """The tool, or the role of the message."""


class PromptCache(Part, frozen=True, kw_only=True):
    """The parts of a prompt that a provider may cache, as far as they changed."""

    kept: int
    """Parts at the start that are those of the call before."""
    added: Sequence[str]
    """A digest of each part after them: its kind, a colon, and twelve digits."""
    loss: CacheLoss | None = None
    """What was paid again, if it was."""


class ContentRef(Part, frozen=True, kw_only=True):
    """Points at content that is stored once and referred to by its hash."""

    content_id: Id
    """Identifier of the stored content."""
    hash: str
    """Digest of the stored bytes."""
    size_bytes: int
    """Length of the stored bytes."""
    media_type: str | None = None
    """Media type, such as text/plain."""
    retention: RetentionClass | None = None
    """How long the content may be kept."""
    summary: str | None = None
    """A short text that may be shown instead of the content."""


class ActionError(Part, frozen=True, kw_only=True):
    """Why an action failed."""

    code: str
    """Stable code."""
    message: str
    """What went wrong."""
    name: str | None = None
    """Class of the error."""


class SessionStarted(Body, frozen=True, kw_only=True):
    """The session began."""

    TYPE: ClassVar[str] = "session.started"
    invocation: Invocation | None = None
    """Who started it, when it was delegated."""
    runtime: RuntimeIdentity | None = None
    """Which agent and build serve it."""
    predecessor: Id | None = None
    """Session it goes on from, when it was forked or moved."""
    trace: TraceContext | None = None
    """Trace it belongs to."""
    root_session_id: Id | None = None
    """Top session of the dispatch chain."""
    taint: Sequence[Taint] | None = None
    """What the session that delegated it had read."""
    agent: SessionAgent | None = None
    """The agent as plain data."""
    compaction: CompactionConfig | None = None
    """When to compact."""
    output_schema: JsonObject | None = None
    """JSON Schema that the final output must meet."""


class SessionWaiting(Body, frozen=True, kw_only=True):
    """The session waits for a person or a subagent."""

    TYPE: ClassVar[str] = "session.waiting"
    wait: str
    """What for: next-user-message, input, recovery, subagent or timer."""
    continuation_token: str | None = None
    """Capability to continue; only for the owner."""
    until: str | None = None
    """When it stops waiting."""
    usage: Usage | None = None
    """What it used."""


class SessionCompleted(Body, frozen=True, kw_only=True):
    """The task of the session is done; a new message starts another run."""

    TYPE: ClassVar[str] = "session.completed"
    output: JsonValue | UnsetType = UNSET
    """The final output."""
    usage: Usage | None = None
    """What it used."""


class SessionFailed(Body, frozen=True, kw_only=True):
    """The task of the session failed, was cancelled or exhausted its budget; a new message starts another
    run.
    """

    TYPE: ClassVar[str] = "session.failed"
    code: str
    """Stable code of the failure."""
    message: str
    """What went wrong and what to do next."""
    details: JsonObject | None = None
    """Further facts, already redacted."""
    session_id: Id | None = None
    """The session."""
    usage: Usage | None = None
    """What it used."""


class SessionStateChanged(Body, frozen=True, kw_only=True):
    """Authored durable state changed."""

    TYPE: ClassVar[str] = "session.state_changed"
    set: JsonObject | None = None
    """Keys with their new values."""
    removed: Sequence[str] | None = None
    """Keys that are gone."""


class FeedbackGiven(Body, frozen=True, kw_only=True):
    """A person judged a run, one of its steps or an answer."""

    TYPE: ClassVar[str] = "feedback.given"
    run_id: Id
    """The run that is judged."""
    thumb: Literal["up", "down"] | None = None
    """Good or bad."""
    score: float | None = None
    """From 0, the worst, to 1, the best."""
    note: str | None = None
    """Why, in words."""
    tags: Sequence[str] | None = None
    """Short words to find the run by."""
    step_index: int | None = None
    """The step that is meant, from 0; the whole run when absent."""
    message_id: Id | None = None
    """The answer that is meant."""
    by: str | None = None
    """Who judged."""


class RunEventReceived(Body, frozen=True, kw_only=True):
    """An event was sent to a run, which keeps it until its workflow waits for it."""

    TYPE: ClassVar[str] = "run.event_received"
    run_id: Id
    """The run that it was sent to."""
    name: Id
    """What the workflow waits for."""
    data: JsonValue | UnsetType = UNSET
    """What came with it."""
    key: Id | None = None
    """Events with the same key are one event."""
    by: str | None = None
    """Who sent it."""


class SessionMoved(Body, frozen=True, kw_only=True):
    """The session moved to another package."""

    TYPE: ClassVar[str] = "session.moved"
    from_fingerprint: str
    """Package it left."""
    to_fingerprint: str
    """Package it runs under now."""
    reason: str | None = None
    """Why."""
    agent: SessionAgent | None = None
    """The agent from now on, as plain data."""


class SessionForked(Body, frozen=True, kw_only=True):
    """The session goes on from here by itself; all before is copied from another one."""

    TYPE: ClassVar[str] = "session.forked"
    predecessor: Id
    """Session it was copied from."""
    predecessor_seq: int
    """Number of the last record that was copied."""
    messages: Sequence[ModelMessage] | None = None
    """The history it goes on with, when a playground changed it; without it, that of the copied records."""


class ContextCleared(Body, frozen=True, kw_only=True):
    """The history the model sees was emptied; the journal keeps it."""

    TYPE: ClassVar[str] = "context.cleared"
    sequence: int | None = None
    """Number of the turn in its session, from 0."""
    turn_id: Id | None = None
    """The turn."""


class RunStarted(Body, frozen=True, kw_only=True):
    """A run began."""

    TYPE: ClassVar[str] = "run.started"
    run_id: Id
    """The run."""
    agent_id: Id
    """Its agent."""
    package_fingerprint: str | None = None
    """Package it is pinned to."""
    package_id: Id | None = None
    """Its package."""
    route_id: Id | None = None
    """Provider adapter."""
    model_id: Id | None = None
    """Model it starts with."""
    source: SourceRef | None = None
    """Where the request came from."""
    owner: Id | None = None
    """Whom its session belongs to."""
    mode: RunMode | None = None
    """How it ends."""
    capabilities: SessionCapabilities | None = None
    """What the channel of the request can do."""
    budget: BudgetLimits | None = None
    """Most that it may use."""
    batch: Literal["within 24h", "off"] | None = None
    """Whether its model calls are items of batches, if its start said so."""
    has_own_output: bool | None = None
    """Whether its start said what it must return, whatever its agent says."""
    goal_id: str | None = None
    """Goal it pursues."""
    goal_description: str | None = None
    """The goal, for people."""
    input_data: JsonObject | None = None
    """What it was given."""
    metadata: JsonObject | None = None
    """Free JSON of the caller."""
    retry_of: Id | None = None
    """Failed run of the session that it continues, without a message."""
    undo: JsonObject | None = None
    """The calls that the run reverses, newest first, and the run that made them."""
    job: JsonObject | None = None
    """The one call that the run makes, without a model: its tool and its input."""
    playground: PlaygroundOrigin | None = None
    """The step that it runs again, when it is a playground run."""
    parent: ParentRun | None = None
    """Call that it works for, when it is a subagent's."""


class RunResumed(Body, frozen=True, kw_only=True):
    """A run goes on after a wait or a crash."""

    TYPE: ClassVar[str] = "run.resumed"
    run_id: Id
    """The run."""
    reason: str
    """Why: input, recovery, timer, subagent, batch or takeover."""
    epoch: int | None = None
    """Ownership number of the session."""


class RunWaiting(Body, frozen=True, kw_only=True):
    """A run waits; it costs a row and nothing else."""

    TYPE: ClassVar[str] = "run.waiting"
    run_id: Id
    """The run."""
    on: str
    """What for: input, recovery, subagent, provider, batch, timer or budget."""
    request_ids: Sequence[Id] | None = None
    """Requests it waits for."""
    until: str | None = None
    """When it stops waiting."""
    usage: Usage | None = None
    """Usage of the run so far, with that of its subagents that have ended."""
    reason: str | None = None
    """Why, for people."""


class RunCancelRequested(Body, frozen=True, kw_only=True):
    """A cancel of the run was requested."""

    TYPE: ClassVar[str] = "run.cancel_requested"
    run_id: Id
    """The run."""
    by: str | None = None
    """Who asked."""
    reason: str | None = None
    """Why."""


class RunCompleted(Body, frozen=True, kw_only=True):
    """The run reached its end."""

    TYPE: ClassVar[str] = "run.completed"
    run_id: Id
    """The run."""
    output: str | None = None
    """The final text."""
    structured_output: JsonValue | UnsetType = UNSET
    """The validated output."""
    narrative: str | None = None
    """What happened, for people."""
    output_data: JsonObject | None = None
    """What it returned."""
    usage: Usage | None = None
    """What it used."""


class RunFailed(Body, frozen=True, kw_only=True):
    """The run failed."""

    TYPE: ClassVar[str] = "run.failed"
    run_id: Id
    """The run."""
    error: ErrorInfo
    """Why."""
    narrative: str | None = None
    """What happened, for people."""
    output_data: JsonObject | None = None
    """What it returned."""
    unstarted: RunStarted | None = None
    """What it would have begun with, when it could not begin."""
    usage: Usage | None = None
    """What it used."""


class RunCancelled(Body, frozen=True, kw_only=True):
    """The run was cancelled."""

    TYPE: ClassVar[str] = "run.cancelled"
    run_id: Id
    """The run."""
    reason: str | None = None
    """Why."""
    unstarted: RunStarted | None = None
    """What it would have begun with, when it was cancelled before its turn came."""
    error: ErrorInfo | None = None
    """What is not known, when calls were under way."""
    usage: Usage | None = None
    """What it used."""


class BudgetUsage(Part, frozen=True, kw_only=True):
    """What a run has used so far."""

    tokens_used: int
    """Tokens, input and output together."""
    steps_used: int
    """Model calls."""
    tool_calls_used: int
    """Tool calls."""
    cost_micros_used: int
    """Money, in millionths of a US dollar."""
    wall_ms_used: int
    """Time, in milliseconds."""


class RunBudgetExhausted(Body, frozen=True, kw_only=True):
    """The run used up its budget."""

    TYPE: ClassVar[str] = "run.budget_exhausted"
    run_id: Id
    """The run."""
    exceeded: Sequence[BudgetName]
    """Which limits."""
    used: BudgetUsage
    """What was used."""
    limits: BudgetLimits
    """What was allowed."""
    error: ErrorInfo | None = None
    """Which budgets, how much was allowed and how much was used, as an error."""
    usage: Usage | None = None
    """What it used."""


class TurnStarted(Body, frozen=True, kw_only=True):
    """A turn began."""

    TYPE: ClassVar[str] = "turn.started"
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    trace: TraceContext | None = None
    """Trace it belongs to."""


class TurnWaiting(Body, frozen=True, kw_only=True):
    """The turn waits and stays the same turn."""

    TYPE: ClassVar[str] = "turn.waiting"
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    on: str
    """What for: input, tasks, recovery, provider or timer."""
    usage: Usage | None = None
    """What it used."""


class TurnCompleted(Body, frozen=True, kw_only=True):
    """The turn is finished."""

    TYPE: ClassVar[str] = "turn.completed"
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    usage: Usage | None = None
    """What it used."""


class TurnFailed(Body, frozen=True, kw_only=True):
    """The turn failed."""

    TYPE: ClassVar[str] = "turn.failed"
    code: str
    """Stable code of the failure."""
    message: str
    """What went wrong and what to do next."""
    details: JsonObject | None = None
    """Further facts, already redacted."""
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    terminal: bool | None = None
    """Whether the session cannot go on."""
    usage: Usage | None = None
    """What it used."""


class TurnCancelled(Body, frozen=True, kw_only=True):
    """The turn was cancelled."""

    TYPE: ClassVar[str] = "turn.cancelled"
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    reason: str | None = None
    """Why."""
    usage: Usage | None = None
    """What it used."""


class MessageReceived(Body, frozen=True, kw_only=True):
    """A message to the session was received."""

    TYPE: ClassVar[str] = "message.received"
    message: str
    """The text."""
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    parts: Sequence[UserPart] | None = None
    """The parts, when there is more than text."""
    context: Sequence[str] | None = None
    """Texts added before it."""
    message_id: Id | None = None
    """Identifier of the message."""
    delivery: str | None = None
    """How it arrived: turn, steer or queue; correction if no person said it and an answer goes back to the
    model; job if it is about a job that has ended.
    """
    job: Id | None = None
    """The job that it brings the result of."""
    sender: str | None = None
    """Who said it."""


class MessageAppended(Body, frozen=True, kw_only=True):
    """A piece of the answer; live only, never stored."""

    TYPE: ClassVar[str] = "message.appended"
    message_delta: str
    """The piece."""
    message_so_far: str | None = None
    """The text so far, for a reader that joins late."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class MessageCompleted(Body, frozen=True, kw_only=True):
    """The model's words of a step."""

    TYPE: ClassVar[str] = "message.completed"
    message: str | None
    """The text; null when there is none to show."""
    finish_reason: FinishReason
    """Why the model stopped."""
    message_id: Id | None = None
    """Identifier of the message."""
    parts: Sequence[AssistantPart] | None = None
    """The parts, when there is more than text."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ReasoningAppended(Body, frozen=True, kw_only=True):
    """A piece of the model's reasoning; live only, never stored."""

    TYPE: ClassVar[str] = "reasoning.appended"
    reasoning_delta: str
    """The piece."""
    reasoning_so_far: str | None = None
    """The text so far, for a reader that joins late."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ReasoningCompleted(Body, frozen=True, kw_only=True):
    """The model's reasoning of a step."""

    TYPE: ClassVar[str] = "reasoning.completed"
    reasoning: str
    """The text."""
    is_late: bool | None = None
    """Whether it began after text of the message had been shown; left out if not."""
    provider_metadata: JsonObject | None = None
    """What the provider wants back, such as a signature."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class StepStarted(Body, frozen=True, kw_only=True):
    """A step began: one model call and its tool calls."""

    TYPE: ClassVar[str] = "step.started"
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    model_id: str | None = None
    """Model that is called."""
    prompt_message_count: int | None = None
    """Messages of the history in the prompt; instructions apart."""
    reserved: Reservation | None = None
    """What is set aside for the call in a run with a limit in money."""


class StepQueued(Body, frozen=True, kw_only=True):
    """A model call waits for the limit of its provider; live only, never stored."""

    TYPE: ClassVar[str] = "step.queued"
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    provider: str
    """Route of the provider, such as openai."""
    reason: str
    """Limit that the call waits for."""


class StepRetrying(Body, frozen=True, kw_only=True):
    """A model call failed and will be tried again."""

    TYPE: ClassVar[str] = "step.retrying"
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    code: str
    """Stable code of the failure."""
    attempt: int
    """Attempt that failed, from 1."""
    delay_ms: int
    """Wait before the next one."""
    shared: bool | None = None
    """Whether other runs were at work when the process ended; absent means no."""
    next_model_id: str | None = None
    """Model that is called next, if it is another one."""
    message: str | None = None
    """What went wrong."""
    usage: Usage | None = None
    """What it used, when known."""
    price: Price | None = None
    """How the cost was found, or why there is none."""


class StepCompleted(Body, frozen=True, kw_only=True):
    """A step is finished."""

    TYPE: ClassVar[str] = "step.completed"
    finish_reason: FinishReason
    """Why the model stopped."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    usage: Usage | None = None
    """What it used."""
    price: Price | None = None
    """How the cost was found, or why there is none."""
    cost_usd: float | None = None
    """Cost in US dollars, when known."""
    provider_metadata: JsonObject | None = None
    """What the provider added."""
    latency_ms: int | None = None
    """How long the model took."""
    queued_ms: int | None = None
    """How long the call waited for the limit of its provider, if it did."""
    cache: PromptCache | None = None
    """The prompt as the provider may cache it, if it reports a cache."""


class StepFailed(Body, frozen=True, kw_only=True):
    """A step failed."""

    TYPE: ClassVar[str] = "step.failed"
    code: str
    """Stable code of the failure."""
    message: str
    """What went wrong and what to do next."""
    details: JsonObject | None = None
    """Further facts, already redacted."""
    usage: Usage | None = None
    """What it used, when known."""
    price: Price | None = None
    """How the cost was found, or why there is none."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ToolCallAction(Part, frozen=True, kw_only=True, tag_field="kind", tag="tool-call"):
    """A tool call that the model asked for."""

    call_id: Id
    """Identifier of the call."""
    tool_name: str
    """Name of the tool."""
    input: JsonValue
    """Arguments."""


class SubagentCallAction(Part, frozen=True, kw_only=True, tag_field="kind", tag="subagent-call"):
    """A call of a subagent."""

    call_id: Id
    """Identifier of the call."""
    name: str
    """Name the model used."""
    subagent_name: str
    """Name of the subagent."""
    input: JsonValue
    """What the subagent is asked."""
    description: str | None = None
    """What the subagent is for."""
    node_id: str | None = None
    """Place of the subagent in its package."""


class RemoteAgentCallAction(Part, frozen=True, kw_only=True, tag_field="kind", tag="remote-agent-call"):
    """A call of an agent elsewhere."""

    call_id: Id
    """Identifier of the call."""
    name: str
    """Name the model used."""
    remote_agent_name: str
    """Name of the remote agent."""
    input: JsonValue
    """What the agent is asked."""
    description: str | None = None
    """What the agent is for."""
    node_id: str | None = None
    """Place of the agent in its package."""


class LoadSkillAction(Part, frozen=True, kw_only=True, tag_field="kind", tag="load-skill"):
    """A skill to load."""

    call_id: Id
    """Identifier of the call."""
    input: JsonValue
    """Which skill."""


RuntimeActionRequest = ToolCallAction | SubagentCallAction | RemoteAgentCallAction | LoadSkillAction
"""Something the model asked the runtime to do."""


class ActionsRequested(Body, frozen=True, kw_only=True):
    """The model asked for actions, or a program did."""

    TYPE: ClassVar[str] = "actions.requested"
    actions: Sequence[RuntimeActionRequest]
    """The actions, in the order in which they were asked for."""
    parent_call_id: Id | None = None
    """Call of the program that asked for them; left out if the model did."""
    presentation: JsonObject | None = None
    """How to show them."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ActionStarted(Body, frozen=True, kw_only=True):
    """An action is about to happen. Written before it does."""

    TYPE: ClassVar[str] = "action.started"
    call_id: Id
    """The call."""
    tool_name: str
    """Name of the tool."""
    effect: EffectClass
    """What happens to it after a crash."""
    idempotency_key: Id
    """Key the tool is given."""
    arguments_hash: str | None = None
    """Digest of the exact arguments."""
    mode: ToolMode | None = None
    """What the tool may do."""
    arguments: JsonValue | UnsetType = UNSET
    """The arguments, when a policy or hook changed them."""
    undo: str | None = None
    """The tool that can reverse the call."""
    interpreter: str | None = None
    """Name and version of the interpreter, when the action is a program."""
    parent_call_id: Id | None = None
    """Call of the program that asked for it; left out if the model did."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ProgramPaused(Body, frozen=True, kw_only=True):
    """A program waits for its calls, or a tool for the answers to its questions."""

    TYPE: ClassVar[str] = "program.paused"
    call_id: Id
    """The call of the program."""
    taken: int
    """Number of results that the program has taken, in the order of their records."""
    interpreter: str | None = None
    """Name and version of the interpreter."""
    snapshot: ContentRef | None = None
    """State of the program. Without it the program is run again from its source."""
    printed: str | None = None
    """Text that the program has printed since the last pause."""
    parent_call_id: Id | None = None
    """Call of the program that made the call; absent if the model made it."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ProgramEnded(Body, frozen=True, kw_only=True):
    """A program ended while calls of it are open, or with variables that are kept; its result follows."""

    TYPE: ClassVar[str] = "program.ended"
    call_id: Id
    """The call of the program."""
    taken: int
    """Number of results that the program has taken, in the order of their records."""
    status: ActionStatus
    """How it ended."""
    output: JsonValue
    """The result of the call of the program."""
    error: ActionError | None = None
    """Why it failed."""
    content_ref: ContentRef | None = None
    """The whole output, if `output` is a part of it."""
    interpreter: str | None = None
    """Name and version of the interpreter that wrote the variables."""
    variables: ContentRef | None = None
    """The variables that the next programs of the session begin with."""
    names: Sequence[str] | None = None
    """The names of these variables."""
    parent_call_id: Id | None = None
    """Call of the program that made the call; absent if the model made it."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ActionInputAppended(Body, frozen=True, kw_only=True):
    """A piece of a call's arguments; live only, never stored."""

    TYPE: ClassVar[str] = "action.input.appended"
    call_id: Id
    """The call."""
    input_delta: str
    """The piece of JSON text."""
    input_so_far: str | None = None
    """The input so far, for a reader that joins late."""
    tool_name: str | None = None
    """Name of the tool."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ActionPartial(Body, frozen=True, kw_only=True):
    """Progress of a running action; live only, never stored."""

    TYPE: ClassVar[str] = "action.partial"
    call_id: Id
    """The call."""
    output: JsonValue
    """What there is so far."""
    tool_name: str | None = None
    """Name of the tool."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ToolActionResult(Part, frozen=True, kw_only=True, tag_field="kind", tag="tool-result"):
    """What came of an action."""

    call_id: Id
    """The action it answers."""
    output: JsonValue
    """The result."""
    is_error: bool | None = None
    """Whether it failed."""
    tool_name: str
    """Name of the tool."""


class SubagentActionResult(Part, frozen=True, kw_only=True, tag_field="kind", tag="subagent-result"):
    """What came of an action."""

    call_id: Id
    """The action it answers."""
    output: JsonValue
    """The result."""
    is_error: bool | None = None
    """Whether it failed."""
    subagent_name: str
    """Name of the subagent."""


class LoadSkillActionResult(Part, frozen=True, kw_only=True, tag_field="kind", tag="load-skill-result"):
    """What came of an action."""

    call_id: Id
    """The action it answers."""
    output: JsonValue
    """The result."""
    is_error: bool | None = None
    """Whether it failed."""
    name: str | None = None
    """Name of the skill."""


RuntimeActionResult = ToolActionResult | SubagentActionResult | LoadSkillActionResult
"""What came of an action the runtime did."""


class ActionResult(Body, frozen=True, kw_only=True):
    """What came of an action."""

    TYPE: ClassVar[str] = "action.result"
    result: RuntimeActionResult
    """The result."""
    status: ActionStatus
    """What came of it."""
    error: ActionError | None = None
    """Why it failed."""
    presentation: JsonObject | None = None
    """How to show it."""
    content_ref: ContentRef | None = None
    """The whole output, when it was cut."""
    taint: Sequence[Taint] | None = None
    """What the result brings into the session."""
    duration_ms: int | None = None
    """How long it took."""
    log: Sequence[str] | None = None
    """Lines that the tool logged."""
    parent_call_id: Id | None = None
    """Call of the program that asked for it; left out if the model did."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class InputRequested(Body, frozen=True, kw_only=True):
    """People are asked."""

    TYPE: ClassVar[str] = "input.requested"
    requests: Sequence[InputRequest]
    """The requests."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    call_id: Id | None = None
    """Call of the subagent that asks."""
    task_id: Id | None = None
    """Task that asks."""
    child_session_id: Id | None = None
    """Session that asks, when it is a subagent's."""


class InputResolved(Body, frozen=True, kw_only=True):
    """Requests to people were settled."""

    TYPE: ClassVar[str] = "input.resolved"
    resolutions: Sequence[InputResolution]
    """What came of each."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    call_id: Id | None = None
    """Call of the subagent that asked."""
    child_session_id: Id | None = None
    """Session that asked, when it is a subagent's."""


class ApprovalCandidate(Body, frozen=True, kw_only=True):
    """A request was answered, but the answer does not count: another was first, or it was refused."""

    TYPE: ClassVar[str] = "approval.candidate"
    request_id: Id
    """The request."""
    responder: str | None = None
    """Who answered."""
    option_id: Id | None = None
    """The option picked."""
    text: str | None = None
    """The text given."""
    arguments: JsonObject | None = None
    """Arguments that the person approved instead of those of the request."""
    answer_id: Id | None = None
    """The answer; it differs from the answer that settled the request."""
    sequence: int | None = None
    """Number of the turn in its session, from 0."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""
    turn_id: Id | None = None
    """The turn."""


class ApprovalDispatched(Body, frozen=True, kw_only=True):
    """A request was dispatched to people, and is not dispatched again."""

    TYPE: ClassVar[str] = "approval.dispatched"
    request_id: Id
    """The request."""
    sequence: int | None = None
    """Number of the turn in its session, from 0."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""
    turn_id: Id | None = None
    """The turn."""


class ApprovalSettled(Body, frozen=True, kw_only=True):
    """An approval is decided."""

    TYPE: ClassVar[str] = "approval.settled"
    request_id: Id
    """The request."""
    outcome: InputOutcome
    """What came of it."""
    responder: str | None = None
    """Who answered."""
    reason: str | None = None
    """Why."""
    grant: str | None = None
    """How far it reaches: once, session or rule."""
    arguments: JsonObject | None = None
    """Arguments that the person approved instead of those that were asked for."""
    sequence: int | None = None
    """Number of the turn in its session, from 0."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""
    turn_id: Id | None = None
    """The turn."""


class AuthorizationRequired(Body, frozen=True, kw_only=True):
    """A connection needs the authorisation of a person."""

    TYPE: ClassVar[str] = "authorization.required"
    name: str
    """The connection."""
    description: str
    """What it is for."""
    authorization: AuthorizationChallenge | None = None
    """How to authorise."""
    webhook_url: str | None = None
    """Where the answer arrives."""
    attempt_id: Id | None = None
    """The attempt."""
    principal_id: str | None = None
    """Who must authorise."""
    task_id: Id | None = None
    """Task that waits."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class AuthorizationCompleted(Body, frozen=True, kw_only=True):
    """An authorisation was settled."""

    TYPE: ClassVar[str] = "authorization.completed"
    name: str
    """The connection."""
    outcome: Literal["authorized", "declined", "failed", "timed-out"]
    """What came of it."""
    reason: str | None = None
    """Why."""
    authorization: AuthorizationChallenge | None = None
    """How it was authorised."""
    attempt_id: Id | None = None
    """The attempt."""
    principal_id: str | None = None
    """Who authorised."""
    task_id: Id | None = None
    """Task that waited."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class ResultCompleted(Body, frozen=True, kw_only=True):
    """The structured result of the turn."""

    TYPE: ClassVar[str] = "result.completed"
    result: JsonValue
    """The result."""
    sequence: int
    """Number of the turn in its session, from 0."""
    step_index: int
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""


class OutputRequested(Body, frozen=True, kw_only=True):
    """The run must return a typed output."""

    TYPE: ClassVar[str] = "output.requested"
    contract: OutputContract
    """What it must meet."""
    run_id: Id | None = None
    """The run."""


class OutputRejected(Body, frozen=True, kw_only=True):
    """An answer does not meet its contract; the model may correct it."""

    TYPE: ClassVar[str] = "output.rejected"
    schema_id: Id
    """The schema."""
    attempt: int
    """Attempt, from 1."""
    errors: Sequence[OutputError]
    """Where it misses."""
    run_id: Id | None = None
    """The run."""


class OutputValidated(Body, frozen=True, kw_only=True):
    """An answer meets its contract."""

    TYPE: ClassVar[str] = "output.validated"
    schema_id: Id
    """The schema."""
    attempt: int
    """Attempt, from 1."""
    hash: str | None = None
    """Digest of the canonical value."""
    run_id: Id | None = None
    """The run."""


class OutputFailed(Body, frozen=True, kw_only=True):
    """No answer met the contract."""

    TYPE: ClassVar[str] = "output.failed"
    schema_id: Id
    """The schema."""
    attempts: int
    """Attempts made."""
    errors: Sequence[OutputError]
    """Where the last one misses."""
    run_id: Id | None = None
    """The run."""


class CompactionRequested(Body, frozen=True, kw_only=True):
    """The history is about to be compacted."""

    TYPE: ClassVar[str] = "compaction.requested"
    model_id: str
    """Model that will summarise."""
    usage_input_tokens: int | None
    """Input tokens that made it necessary."""
    reason: str | None = None
    """Why: threshold, overflow (the model refused the length) or asked."""
    session_id: Id | None = None
    """The session."""
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""


class CompactionCompleted(Body, frozen=True, kw_only=True):
    """The history was compacted; the journal keeps it whole."""

    TYPE: ClassVar[str] = "compaction.completed"
    model_id: str
    """Model that summarised."""
    session_id: Id | None = None
    """The session."""
    summary: str | None = None
    """The one summary of everything before."""
    kept_from: int | None = None
    """Index in the history of the first message kept as it is."""
    trimmed_call_ids: Sequence[Id] | None = None
    """Calls with shortened results."""
    result_chars_max: int | None = None
    """Most characters that a shortened result keeps."""
    pinned: Sequence[ModelMessage] | None = None
    """Messages put after the summary, such as the last real user message or a todo list."""
    input_tokens_before: int | None = None
    """Estimated input before."""
    input_tokens_after: int | None = None
    """Estimated input after."""
    usage: Usage | None = None
    """What the summary used."""
    price: Price | None = None
    """How the cost was found, or why there is none."""
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""


class CompactionFailed(Body, frozen=True, kw_only=True):
    """The history could not be compacted."""

    TYPE: ClassVar[str] = "compaction.failed"
    code: str
    """Stable code of the failure."""
    message: str
    """What went wrong and what to do next."""
    details: JsonObject | None = None
    """Further facts, already redacted."""
    shared: bool | None = None
    """Whether other runs were at work when the process ended; absent means no."""
    delay_ms: int | None = None
    """Wait before the next attempt; absent if there is none."""
    model_id: str | None = None
    """Model that was asked for a summary."""
    usage: Usage | None = None
    """What the attempt used."""
    price: Price | None = None
    """How the cost was found, or why there is none."""
    sequence: int | None = None
    """Number of the turn in its session, from 0."""
    turn_id: Id | None = None
    """The turn."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""


class SubagentCalled(Body, frozen=True, kw_only=True):
    """A subagent was given work."""

    TYPE: ClassVar[str] = "subagent.called"
    call_id: Id
    """The call."""
    child_session_id: Id
    """Session of the subagent."""
    session_id: Id
    """Session that called."""
    name: str
    """Name of the subagent."""
    tool_name: str
    """Tool that stands for it."""
    remote: JsonObject | None = None
    """Where it runs, when elsewhere."""
    workflow_id: str | None = None
    """Workflow that drives it."""
    sequence: int
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    child_run_id: Id | None = None
    """Run of the subagent."""
    depth: int | None = None
    """Levels below the root, from 1."""
    lent: BudgetLimits | None = None
    """Limits of the subagent, as its share of those of the run."""
    job: Id | None = None
    """Name of the job, when the call does not wait for it."""


class SubagentStarted(Body, frozen=True, kw_only=True):
    """A subagent began."""

    TYPE: ClassVar[str] = "subagent.started"
    call_id: Id
    """The call."""
    subagent_name: str
    """Name of the subagent."""
    child_session_id: Id | None = None
    """Session of the subagent."""


class SubagentEvent(Body, frozen=True, kw_only=True):
    """An event of a subagent, shown in its parent."""

    TYPE: ClassVar[str] = "subagent.event"
    call_id: Id
    """The call."""
    subagent_name: str
    """Name of the subagent."""
    event: JsonObject
    """The event."""


class SubagentCompleted(Body, frozen=True, kw_only=True):
    """A subagent is finished."""

    TYPE: ClassVar[str] = "subagent.completed"
    call_id: Id
    """The call."""
    subagent_name: str
    """Name of the subagent."""
    output: str
    """What it returned."""
    is_error: bool | None = None
    """Whether it failed."""
    usage: Usage | None = None
    """What it used."""
    child_session_id: Id | None = None
    """Session of the subagent."""
    child_run_id: Id | None = None
    """Run of the subagent."""
    status: RunStatus | None = None
    """How its run ended."""
    is_structured: bool | None = None
    """Whether the output is JSON."""
    error: ActionError | None = None
    """Why it failed."""
    taint: Sequence[Taint] | None = None
    """What it has read, and what it was given."""
    steps: int | None = None
    """Model calls it made, those of its own subagents included."""
    tool_calls: int | None = None
    """Tool calls it made, those of its own subagents included."""
    settled_micros: int | None = None
    """Reservations of its calls that count because their cost is not known."""


class TaskStarted(Body, frozen=True, kw_only=True):
    """A delegated task began."""

    TYPE: ClassVar[str] = "task.started"
    task_id: Id
    """The task."""
    call_id: Id | None = None
    """The call."""
    child_session_id: Id | None = None
    """Session of the task."""
    name: str | None = None
    """Name of the subagent."""


class TaskSettled(Body, frozen=True, kw_only=True):
    """A delegated task is finished."""

    TYPE: ClassVar[str] = "task.settled"
    task_id: Id
    """The task."""
    status: Literal["completed", "failed", "cancelled"]
    """How it ended."""
    call_id: Id | None = None
    """The call."""
    output: JsonValue | UnsetType = UNSET
    """What it returned."""
    error: ActionError | None = None
    """Why it failed."""


class AgentStarted(Body, frozen=True, kw_only=True):
    """A subagent's session was opened."""

    TYPE: ClassVar[str] = "agent.started"
    child_session_id: Id
    """Session of the subagent."""
    name: str
    """Name of the subagent."""
    call_id: Id | None = None
    """The call."""
    task_id: Id | None = None
    """The task."""


class AgentResolved(Body, frozen=True, kw_only=True):
    """A resolver of the agent gave what is used from now on."""

    TYPE: ClassVar[str] = "agent.resolved"
    resolver: Id
    """Name of the resolver."""
    part: ResolverPart
    """What it gave."""
    scope: ResolverScope
    """How long that holds."""
    content_ref: ContentRef
    """All of it, as JSON."""
    names: Sequence[str] | None = None
    """Tools or skills that it gave."""
    failure: str | None = None
    """Why it gave nothing, when the agent goes on without."""


class AllowDecision(Part, frozen=True, kw_only=True, tag_field="decision", tag="allow"):
    """Go ahead."""

    code: str
    """Stable dotted code of the reason."""
    reason: str
    """Why, in a sentence for people."""
    policy_refs: Sequence[PolicyRef]
    """The rules that decided, strongest first."""


class DenyDecision(Part, frozen=True, kw_only=True, tag_field="decision", tag="deny"):
    """Do not do it."""

    code: str
    """Stable dotted code of the reason."""
    reason: str
    """Why, in a sentence for people."""
    policy_refs: Sequence[PolicyRef]
    """The rules that decided, strongest first."""


class AskDecision(Part, frozen=True, kw_only=True, tag_field="decision", tag="ask"):
    """A person must consent first."""

    code: str
    """Stable dotted code of the reason."""
    reason: str
    """Why, in a sentence for people."""
    policy_refs: Sequence[PolicyRef]
    """The rules that decided, strongest first."""
    prompt: str | None = None
    """What to ask."""
    expires_in_ms: int | None = None
    """How long the question stays open."""
    arguments: JsonObject | None = None
    """The arguments to ask about and to use instead, when a rule changed them too."""


class ModifyDecision(Part, frozen=True, kw_only=True, tag_field="decision", tag="modify"):
    """Go ahead with other arguments."""

    code: str
    """Stable dotted code of the reason."""
    reason: str
    """Why, in a sentence for people."""
    policy_refs: Sequence[PolicyRef]
    """The rules that decided, strongest first."""
    arguments: JsonObject
    """The arguments to use instead."""


class InterruptDecision(Part, frozen=True, kw_only=True, tag_field="decision", tag="interrupt"):
    """Stop the run here."""

    code: str
    """Stable dotted code of the reason."""
    reason: str
    """Why, in a sentence for people."""
    policy_refs: Sequence[PolicyRef]
    """The rules that decided, strongest first."""


class DeferDecision(Part, frozen=True, kw_only=True, tag_field="decision", tag="defer"):
    """Try again later."""

    code: str
    """Stable dotted code of the reason."""
    reason: str
    """Why, in a sentence for people."""
    policy_refs: Sequence[PolicyRef]
    """The rules that decided, strongest first."""
    resume_after_ms: int | None = None
    """Earliest time to try again."""


PolicyDecision = (
    AllowDecision | DenyDecision | AskDecision | ModifyDecision | InterruptDecision | DeferDecision
)
"""What a policy says of a run start or a tool call."""


class PolicyDecided(Body, frozen=True, kw_only=True):
    """A policy decided."""

    TYPE: ClassVar[str] = "policy.decided"
    stage: PolicyStage
    """When it was asked."""
    decision: PolicyDecision
    """What it said."""
    run_id: Id | None = None
    """The run."""
    call_id: Id | None = None
    """The call."""
    tool_name: str | None = None
    """Name of the tool."""
    sequence: int | None = None
    """Number of the turn in its session, from 0."""
    step_index: int | None = None
    """Number of the step in its turn, from 0."""
    turn_id: Id | None = None
    """The turn."""
    parent_call_id: Id | None = None
    """Call of the program that asked for it; left out if the model did."""


class BudgetReserved(Body, frozen=True, kw_only=True):
    """A spend was checked before it happens."""

    TYPE: ClassVar[str] = "budget.reserved"
    used: BudgetUsage
    """What was used so far."""
    limits: BudgetLimits
    """What is allowed."""
    run_id: Id | None = None
    """The run."""


class BudgetUpdated(Body, frozen=True, kw_only=True):
    """Something was spent."""

    TYPE: ClassVar[str] = "budget.updated"
    used: BudgetUsage
    """What was used so far."""
    run_id: Id | None = None
    """The run."""


class BudgetWarned(Body, frozen=True, kw_only=True):
    """A limit is near."""

    TYPE: ClassVar[str] = "budget.warned"
    name: BudgetName
    """Which limit."""
    used: float
    """What was used."""
    limit: float
    """What is allowed."""
    run_id: Id | None = None
    """The run."""


class BudgetExhausted(Body, frozen=True, kw_only=True):
    """A limit is reached; the next spend would exceed it."""

    TYPE: ClassVar[str] = "budget.exhausted"
    exceeded: Sequence[BudgetName]
    """Which limits."""
    used: BudgetUsage
    """What was used."""
    limits: BudgetLimits
    """What was allowed."""
    run_id: Id | None = None
    """The run."""


class HookInvoked(Body, frozen=True, kw_only=True):
    """A hook was called."""

    TYPE: ClassVar[str] = "hook.invoked"
    hook_id: Id
    """The hook."""
    point: Id
    """Where it runs."""
    run_id: Id | None = None
    """The run."""
    call_id: Id | None = None
    """The call."""


class HookCompleted(Body, frozen=True, kw_only=True):
    """A hook answered."""

    TYPE: ClassVar[str] = "hook.completed"
    hook_id: Id
    """The hook."""
    point: Id
    """Where it runs."""
    status: HookStatus
    """How it ended."""
    changed: bool | None = None
    """Whether it changed something."""
    vetoed: bool | None = None
    """Whether it vetoed."""
    reason: str | None = None
    """Why it vetoed."""
    duration_ms: int | None = None
    """How long it took."""
    call_id: Id | None = None
    """The call."""
    stop: ErrorInfo | None = None
    """Why the hook ends the run."""
    change: JsonObject | None = None
    """What it changed: arguments, prompt or context."""


class HookFailed(Body, frozen=True, kw_only=True):
    """A hook failed."""

    TYPE: ClassVar[str] = "hook.failed"
    hook_id: Id
    """The hook."""
    point: Id
    """Where it runs."""
    status: HookStatus
    """How it ended."""
    error: ActionError
    """Why."""
    failure: str | None = None
    """What the failure means for the run, as the hook declares it."""
    duration_ms: int | None = None
    """How long it took."""
    call_id: Id | None = None
    """The call."""
    stop: ErrorInfo | None = None
    """Why the hook ends the run."""


class DecisionRecorded(Body, frozen=True, kw_only=True):
    """The agent made a choice."""

    TYPE: ClassVar[str] = "decision.recorded"
    decision: Decision
    """The choice."""


class DecisionOutcome(Body, frozen=True, kw_only=True):
    """What came of a choice."""

    TYPE: ClassVar[str] = "decision.outcome"
    decision_id: Id
    """The choice."""
    outcome: Outcome
    """What came of it."""


class DecisionEvaluated(Body, frozen=True, kw_only=True):
    """A choice was judged."""

    TYPE: ClassVar[str] = "decision.evaluated"
    decision_id: Id
    """The choice."""
    evaluation: DecisionEvaluation
    """The judgement."""


class ProblemReported(Body, frozen=True, kw_only=True):
    """Something went wrong."""

    TYPE: ClassVar[str] = "problem.reported"
    problem: Problem
    """The problem."""


class ProposalMade(Body, frozen=True, kw_only=True):
    """A change to an agent was proposed."""

    TYPE: ClassVar[str] = "proposal.made"
    proposal: Proposal
    """The change."""


class ProposalChecked(Body, frozen=True, kw_only=True):
    """A proposal was tried on recorded runs."""

    TYPE: ClassVar[str] = "proposal.checked"
    proposal_id: Id
    """The proposal."""
    check: ProposalCheck
    """How it did."""


class ProposalSettled(Body, frozen=True, kw_only=True):
    """A person said yes or no to a proposal."""

    TYPE: ClassVar[str] = "proposal.settled"
    proposal_id: Id
    """The proposal."""
    is_accepted: bool
    """Whether it was a yes."""
    by: str
    """Who said it."""
    reason: str | None = None
    """Why."""


class ProposalApplied(Body, frozen=True, kw_only=True):
    """A proposal became an agent."""

    TYPE: ClassVar[str] = "proposal.applied"
    proposal_id: Id
    """The proposal."""
    by: str
    """Who did it."""
    fingerprint: str
    """The version that was made."""


class DeliveryIntended(Body, frozen=True, kw_only=True):
    """Output is about to be delivered. Written before it is."""

    TYPE: ClassVar[str] = "delivery.intended"
    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    dedupe_key: Id
    """At most one delivery per key."""
    kind: str
    """What is delivered."""
    run_id: Id | None = None
    """The run."""


class DeliveryCompleted(Body, frozen=True, kw_only=True):
    """Output was delivered."""

    TYPE: ClassVar[str] = "delivery.completed"
    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    receipt: JsonObject | None = None
    """What the sink said."""


class DeliveryFailed(Body, frozen=True, kw_only=True):
    """Output was not delivered."""

    TYPE: ClassVar[str] = "delivery.failed"
    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    error: ErrorInfo
    """Why."""


class DeliveryDeduped(Body, frozen=True, kw_only=True):
    """Output had been delivered before."""

    TYPE: ClassVar[str] = "delivery.deduped"
    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    dedupe_key: Id
    """Key of the earlier delivery."""
    run_id: Id | None = None
    """The run."""


class DeliveryUnknown(Body, frozen=True, kw_only=True):
    """It is unknown whether output was delivered; it is not sent again automatically."""

    TYPE: ClassVar[str] = "delivery.unknown"
    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    reason: str | None = None
    """Why it is unknown."""


class RecoveryStarted(Body, frozen=True, kw_only=True):
    """The session is picked up after a crash."""

    TYPE: ClassVar[str] = "recovery.started"
    epoch: int
    """Ownership number of the session."""
    reason: str | None = None
    """Why."""
    shared: bool | None = None
    """Whether other runs were at work when the process ended; absent means no."""
    isolated: bool | None = None
    """Whether no other run of which processes ended repeatedly is driven beside it; absent means no."""
    survived: Sequence[int] | None = None
    """Ownership numbers of earlier owners that lost the session and went on: their processes did not end."""
    run_id: Id | None = None
    """The run."""


class RecoveryEffectFound(Body, frozen=True, kw_only=True):
    """An effect was started and has no result."""

    TYPE: ClassVar[str] = "recovery.effect_found"
    call_id: Id
    """The call."""
    effect: EffectClass
    """What happens to it."""
    shared: bool | None = None
    """Whether other runs were at work when the process ended; absent means no."""
    delay_ms: int | None = None
    """Wait before it is run again; absent if there is none."""
    tool_name: str
    """Name of the tool."""
    idempotency_key: Id | None = None
    """Key it was given."""
    request_id: Id | None = None
    """Request to a person, when one is needed."""
    begun: bool | None = None
    """False if its owner released it before it started; the next owner runs it."""


class RecoveryEffectSettled(Body, frozen=True, kw_only=True):
    """An interrupted effect was decided."""

    TYPE: ClassVar[str] = "recovery.effect_settled"
    call_id: Id
    """The call."""
    choice: RecoveryChoice
    """What to do with it."""
    by: str | None = None
    """Who decided: a person or a policy."""


class RecoveryCompleted(Body, frozen=True, kw_only=True):
    """The session goes on."""

    TYPE: ClassVar[str] = "recovery.completed"
    epoch: int
    """Ownership number of the session."""
    repeated: Sequence[Id] | None = None
    """Calls that run again."""
    parked: Sequence[Id] | None = None
    """Calls that wait for a person."""


BODIES: dict[str, type[Body]] = {
    "session.started": SessionStarted,
    "session.waiting": SessionWaiting,
    "session.completed": SessionCompleted,
    "session.failed": SessionFailed,
    "session.state_changed": SessionStateChanged,
    "feedback.given": FeedbackGiven,
    "run.event_received": RunEventReceived,
    "session.moved": SessionMoved,
    "session.forked": SessionForked,
    "context.cleared": ContextCleared,
    "run.started": RunStarted,
    "run.resumed": RunResumed,
    "run.waiting": RunWaiting,
    "run.cancel_requested": RunCancelRequested,
    "run.completed": RunCompleted,
    "run.failed": RunFailed,
    "run.cancelled": RunCancelled,
    "run.budget_exhausted": RunBudgetExhausted,
    "turn.started": TurnStarted,
    "turn.waiting": TurnWaiting,
    "turn.completed": TurnCompleted,
    "turn.failed": TurnFailed,
    "turn.cancelled": TurnCancelled,
    "message.received": MessageReceived,
    "message.appended": MessageAppended,
    "message.completed": MessageCompleted,
    "reasoning.appended": ReasoningAppended,
    "reasoning.completed": ReasoningCompleted,
    "step.started": StepStarted,
    "step.queued": StepQueued,
    "step.retrying": StepRetrying,
    "step.completed": StepCompleted,
    "step.failed": StepFailed,
    "actions.requested": ActionsRequested,
    "action.started": ActionStarted,
    "program.paused": ProgramPaused,
    "program.ended": ProgramEnded,
    "action.input.appended": ActionInputAppended,
    "action.partial": ActionPartial,
    "action.result": ActionResult,
    "input.requested": InputRequested,
    "input.resolved": InputResolved,
    "approval.candidate": ApprovalCandidate,
    "approval.dispatched": ApprovalDispatched,
    "approval.settled": ApprovalSettled,
    "authorization.required": AuthorizationRequired,
    "authorization.completed": AuthorizationCompleted,
    "result.completed": ResultCompleted,
    "output.requested": OutputRequested,
    "output.rejected": OutputRejected,
    "output.validated": OutputValidated,
    "output.failed": OutputFailed,
    "compaction.requested": CompactionRequested,
    "compaction.completed": CompactionCompleted,
    "compaction.failed": CompactionFailed,
    "subagent.called": SubagentCalled,
    "subagent.started": SubagentStarted,
    "subagent.event": SubagentEvent,
    "subagent.completed": SubagentCompleted,
    "task.started": TaskStarted,
    "task.settled": TaskSettled,
    "agent.started": AgentStarted,
    "agent.resolved": AgentResolved,
    "policy.decided": PolicyDecided,
    "budget.reserved": BudgetReserved,
    "budget.updated": BudgetUpdated,
    "budget.warned": BudgetWarned,
    "budget.exhausted": BudgetExhausted,
    "hook.invoked": HookInvoked,
    "hook.completed": HookCompleted,
    "hook.failed": HookFailed,
    "decision.recorded": DecisionRecorded,
    "decision.outcome": DecisionOutcome,
    "decision.evaluated": DecisionEvaluated,
    "problem.reported": ProblemReported,
    "proposal.made": ProposalMade,
    "proposal.checked": ProposalChecked,
    "proposal.settled": ProposalSettled,
    "proposal.applied": ProposalApplied,
    "delivery.intended": DeliveryIntended,
    "delivery.completed": DeliveryCompleted,
    "delivery.failed": DeliveryFailed,
    "delivery.deduped": DeliveryDeduped,
    "delivery.unknown": DeliveryUnknown,
    "recovery.started": RecoveryStarted,
    "recovery.effect_found": RecoveryEffectFound,
    "recovery.effect_settled": RecoveryEffectSettled,
    "recovery.completed": RecoveryCompleted,
}
"""The class of the data of each known type."""
