# Generated from spec/event-data.schema.json by `make gen`. Do not edit.
"""What each event type carries in `data`. All of it is open: unknown fields pass through."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from windlass_protocol._wire import Bool, Float, JsonObject, KeepsNulls, Maybe, Open, Str, Tagged
from windlass_protocol.generated.common import (
    ContentRef,
    Count,
    Id,
    Price,
    PromptCache,
    Reservation,
    Sha256,
    SourceRef,
    Timestamp,
    TraceContext,
    Usage,
)
from windlass_protocol.generated.decisions import (
    Decision,
    DecisionEvaluation,
    Outcome,
    Problem,
    Proposal,
    ProposalCheck,
)
from windlass_protocol.generated.errors import ErrorInfo
from windlass_protocol.generated.input import (
    InputOutcome,
    InputRequest,
    InputResolution,
    RuntimeActionRequest,
    RuntimeActionResult,
)
from windlass_protocol.generated.output import OutputContract, OutputError
from windlass_protocol.generated.packages import ResolverPart, ResolverScope
from windlass_protocol.generated.policy import (
    BudgetLimits,
    BudgetName,
    BudgetUsage,
    PolicyDecision,
    PolicyStage,
)
from windlass_protocol.generated.runs import PlaygroundOrigin, RunStatus
from windlass_protocol.generated.sessions import (
    AssistantPart,
    CompactionConfig,
    ModelMessage,
    RunMode,
    SessionAgent,
    SessionCapabilities,
    UserPart,
)
from windlass_protocol.generated.tools import EffectClass, Taint, ToolMode

class FinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content-filter"
    TOOL_CALLS = "tool-calls"
    ERROR = "error"
    OTHER = "other"

class ActionStatus(StrEnum):
    """What came of an action."""

    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"

class ActionError(Open):
    """Why an action failed."""

    code: Str
    """Stable code."""
    message: Str
    """What went wrong."""
    name: Maybe[Str] = None
    """Class of the error."""

class Invocation(Tagged, Open):
    """Who started a delegated session."""

    __constants__ = ("kind",)

    parent_call_id: Id
    """Call in the parent."""
    parent_session_id: Id
    """Parent session."""
    parent_turn_id: Id
    """Parent turn."""
    name: Str
    """Name of the subagent."""
    kind: Literal["subagent"] = "subagent"
    """How it was started."""

class SandboxOwner(Open):
    """The session and the agent whose sandbox a run shares."""

    session_id: Id
    """The session."""
    agent_id: Id
    """The agent that declares the sandbox."""

class ParentRun(Open):
    """The call that a delegated run works for."""

    session_id: Id
    """Session of the run that called."""
    run_id: Id
    """Run that called."""
    call_id: Id
    """Its call."""
    root_session_id: Id
    """Session at the top of the tree."""
    depth: Count
    """Levels below the root, from 1."""
    agents: Maybe[tuple[Id, ...]] = None
    """Agents above, the root's first."""
    sandbox: Maybe[SandboxOwner] = None
    """Sandbox of a caller that the run shares; it has its own, or none, when left out."""

class RuntimeIdentity(Open):
    """Which agent and build serve the session."""

    agent_id: Id
    """The agent."""
    agent_name: Maybe[Str] = None
    """Its name."""
    model_id: Maybe[Str] = None
    """Its model."""
    version: Maybe[Str] = None
    """Version of the runtime."""
    build: Maybe[Str] = None
    """Build of the product."""
    package_fingerprint: Maybe[Str] = None
    """Fingerprint of the package."""

class AuthorizationChallenge(Open):
    """How a person can authorise."""

    url: Maybe[Str] = None
    """Address to open."""
    user_code: Maybe[Str] = None
    """Code to type."""
    expires_at: Maybe[Timestamp] = None
    """When it lapses."""
    instructions: Maybe[Str] = None
    """What to do."""
    display_name: Maybe[Str] = None
    """Name to show."""

class HookStatus(StrEnum):
    """How a hook ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"

class RecoveryChoice(StrEnum):
    """What to do with an interrupted effect."""

    RETRY = "retry"
    SKIP = "skip"
    SUPPLY = "supply"
    UNDO = "undo"

class SessionStartedData(Open):
    """The session began."""

    invocation: Maybe[Invocation] = None
    """Who started it, when it was delegated."""
    runtime: Maybe[RuntimeIdentity] = None
    """Which agent and build serve it."""
    predecessor: Maybe[Id] = None
    """Session it goes on from, when it was forked or moved."""
    trace: Maybe[TraceContext] = None
    """Trace it belongs to."""
    root_session_id: Maybe[Id] = None
    """Top session of the dispatch chain."""
    taint: Maybe[tuple[Taint, ...]] = None
    """What the session that delegated it had read."""
    agent: Maybe[SessionAgent] = None
    """The agent as plain data."""
    compaction: Maybe[CompactionConfig] = None
    """When to compact."""
    output_schema: Maybe[JsonObject] = None
    """JSON Schema that the final output must meet."""

class SessionWaitingData(Open):
    """The session waits for a person or a subagent."""

    wait: Str
    """What for: next-user-message, input, recovery, subagent or timer."""
    continuation_token: Maybe[Str] = None
    """Capability to continue; only for the owner."""
    until: Maybe[Timestamp] = None
    """When it stops waiting."""
    usage: Maybe[Usage] = None
    """What it used."""

class SessionCompletedData(KeepsNulls, Open):
    """The task of the session is done; a new message starts another run."""

    output: JsonValue = None
    """The final output."""
    usage: Maybe[Usage] = None
    """What it used."""

class SessionFailedData(Open):
    """The task of the session failed, was cancelled or exhausted its budget; a new message starts another
    run.
    """

    code: Str
    """Stable code of the failure."""
    message: Str
    """What went wrong and what to do next."""
    details: Maybe[JsonObject] = None
    """Further facts, already redacted."""
    session_id: Maybe[Id] = None
    """The session."""
    usage: Maybe[Usage] = None
    """What it used."""

class SessionStateChangedData(Open):
    """Authored durable state changed."""

    set: Maybe[JsonObject] = None
    """Keys with their new values."""
    removed: Maybe[tuple[Str, ...]] = None
    """Keys that are gone."""

class FeedbackGivenData(Open):
    """A person judged a run, one of its steps or an answer."""

    run_id: Id
    """The run that is judged."""
    thumb: Maybe[Literal["up", "down"]] = None
    """Good or bad."""
    score: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
    """From 0, the worst, to 1, the best."""
    note: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=4000)]] = None
    """Why, in words."""
    tags: Maybe[
        Annotated[
            tuple[Annotated[Str, StringConstraints(min_length=1, max_length=64)], ...], Field(max_length=16)
        ]
    ] = None
    """Short words to find the run by."""
    step_index: Maybe[Count] = None
    """The step that is meant, from 0; the whole run when absent."""
    message_id: Maybe[Id] = None
    """The answer that is meant."""
    by: Maybe[Str] = None
    """Who judged."""

class RunEventReceivedData(KeepsNulls, Open):
    """An event was sent to a run, which keeps it until its workflow waits for it."""

    run_id: Id
    """The run that it was sent to."""
    name: Id
    """What the workflow waits for."""
    data: JsonValue = None
    """What came with it."""
    key: Maybe[Id] = None
    """Events with the same key are one event."""
    by: Maybe[Str] = None
    """Who sent it."""

class SessionMovedData(Open):
    """The session moved to another package."""

    from_fingerprint: Str
    """Package it left."""
    to_fingerprint: Str
    """Package it runs under now."""
    reason: Maybe[Str] = None
    """Why."""
    agent: Maybe[SessionAgent] = None
    """The agent from now on, as plain data."""

class SessionForkedData(Open):
    """The session goes on from here by itself; all before is copied from another one."""

    predecessor: Id
    """Session it was copied from."""
    predecessor_seq: Count
    """Number of the last record that was copied."""
    messages: Maybe[tuple[ModelMessage, ...]] = None
    """The history it goes on with, when a playground changed it; without it, that of the copied records."""

class ContextClearedData(Open):
    """The history the model sees was emptied; the journal keeps it."""

    sequence: Maybe[Count] = None
    """Number of the turn in its session, from 0."""
    turn_id: Maybe[Id] = None
    """The turn."""

class RunStartedData(Open):
    """A run began."""

    run_id: Id
    """The run."""
    agent_id: Id
    """Its agent."""
    package_fingerprint: Maybe[Str] = None
    """Package it is pinned to."""
    package_id: Maybe[Id] = None
    """Its package."""
    route_id: Maybe[Id] = None
    """Provider adapter."""
    model_id: Maybe[Id] = None
    """Model it starts with."""
    source: Maybe[SourceRef] = None
    """Where the request came from."""
    owner: Maybe[Id] = None
    """Whom its session belongs to."""
    mode: Maybe[RunMode] = None
    """How it ends."""
    capabilities: Maybe[SessionCapabilities] = None
    """What the channel of the request can do."""
    budget: Maybe[BudgetLimits] = None
    """Most that it may use."""
    batch: Maybe[Literal["within 24h", "off"]] = None
    """Whether its model calls are items of batches, if its start said so."""
    has_own_output: Maybe[Bool] = None
    """Whether its start said what it must return, whatever its agent says."""
    goal_id: Maybe[Str] = None
    """Goal it pursues."""
    goal_description: Maybe[Str] = None
    """The goal, for people."""
    input_data: Maybe[JsonObject] = None
    """What it was given."""
    metadata: Maybe[JsonObject] = None
    """Free JSON of the caller."""
    retry_of: Maybe[Id] = None
    """Failed run of the session that it continues, without a message."""
    undo: Maybe[JsonObject] = None
    """The calls that the run reverses, newest first, and the run that made them."""
    job: Maybe[JsonObject] = None
    """The one call that the run makes, without a model: its tool and its input."""
    playground: Maybe[PlaygroundOrigin] = None
    """The step that it runs again, when it is a playground run."""
    parent: Maybe[ParentRun] = None
    """Call that it works for, when it is a subagent's."""

class RunResumedData(Open):
    """A run goes on after a wait or a crash."""

    run_id: Id
    """The run."""
    reason: Str
    """Why: input, recovery, timer, subagent, batch or takeover."""
    epoch: Maybe[Count] = None
    """Ownership number of the session."""

class RunWaitingData(Open):
    """A run waits; it costs a row and nothing else."""

    run_id: Id
    """The run."""
    on: Str
    """What for: input, recovery, subagent, provider, batch, timer or budget."""
    request_ids: Maybe[tuple[Id, ...]] = None
    """Requests it waits for."""
    until: Maybe[Timestamp] = None
    """When it stops waiting."""
    usage: Maybe[Usage] = None
    """Usage of the run so far, with that of its subagents that have ended."""
    reason: Maybe[Str] = None
    """Why, for people."""

class RunCancelRequestedData(Open):
    """A cancel of the run was requested."""

    run_id: Id
    """The run."""
    by: Maybe[Str] = None
    """Who asked."""
    reason: Maybe[Str] = None
    """Why."""

class RunCompletedData(KeepsNulls, Open):
    """The run reached its end."""

    run_id: Id
    """The run."""
    output: Maybe[Str] = None
    """The final text."""
    structured_output: JsonValue = None
    """The validated output."""
    narrative: Maybe[Str] = None
    """What happened, for people."""
    output_data: Maybe[JsonObject] = None
    """What it returned."""
    usage: Maybe[Usage] = None
    """What it used."""

class RunFailedData(Open):
    """The run failed."""

    run_id: Id
    """The run."""
    error: ErrorInfo
    """Why."""
    narrative: Maybe[Str] = None
    """What happened, for people."""
    output_data: Maybe[JsonObject] = None
    """What it returned."""
    unstarted: Maybe[RunStartedData] = None
    """What it would have begun with, when it could not begin."""
    usage: Maybe[Usage] = None
    """What it used."""

class RunCancelledData(Open):
    """The run was cancelled."""

    run_id: Id
    """The run."""
    reason: Maybe[Str] = None
    """Why."""
    unstarted: Maybe[RunStartedData] = None
    """What it would have begun with, when it was cancelled before its turn came."""
    error: Maybe[ErrorInfo] = None
    """What is not known, when calls were under way."""
    usage: Maybe[Usage] = None
    """What it used."""

class RunBudgetExhaustedData(Open):
    """The run used up its budget."""

    run_id: Id
    """The run."""
    exceeded: tuple[BudgetName, ...]
    """Which limits."""
    used: BudgetUsage
    """What was used."""
    limits: BudgetLimits
    """What was allowed."""
    error: Maybe[ErrorInfo] = None
    """Which budgets, how much was allowed and how much was used, as an error."""
    usage: Maybe[Usage] = None
    """What it used."""

class TurnStartedData(Open):
    """A turn began."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    trace: Maybe[TraceContext] = None
    """Trace it belongs to."""

class TurnWaitingData(Open):
    """The turn waits and stays the same turn."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    on: Str
    """What for: input, tasks, recovery, provider or timer."""
    usage: Maybe[Usage] = None
    """What it used."""

class TurnCompletedData(Open):
    """The turn is finished."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    usage: Maybe[Usage] = None
    """What it used."""

class TurnFailedData(Open):
    """The turn failed."""

    code: Str
    """Stable code of the failure."""
    message: Str
    """What went wrong and what to do next."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    details: Maybe[JsonObject] = None
    """Further facts, already redacted."""
    terminal: Maybe[Bool] = None
    """Whether the session cannot go on."""
    usage: Maybe[Usage] = None
    """What it used."""

class TurnCancelledData(Open):
    """The turn was cancelled."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    reason: Maybe[Str] = None
    """Why."""
    usage: Maybe[Usage] = None
    """What it used."""

class MessageReceivedData(Open):
    """A message to the session was received."""

    message: Str
    """The text."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    parts: Maybe[tuple[UserPart, ...]] = None
    """The parts, when there is more than text."""
    context: Maybe[tuple[Str, ...]] = None
    """Texts added before it."""
    message_id: Maybe[Id] = None
    """Identifier of the message."""
    delivery: Maybe[Str] = None
    """How it arrived: turn, steer or queue; correction if no person said it and an answer goes back to the
    model; job if it is about a job that has ended.
    """
    job: Maybe[Id] = None
    """The job that it brings the result of."""
    sender: Maybe[Str] = None
    """Who said it."""

class MessageAppendedData(Open):
    """A piece of the answer; live only, never stored."""

    message_delta: Str
    """The piece."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    message_so_far: Maybe[Str] = None
    """The text so far, for a reader that joins late."""

class MessageCompletedData(Open):
    """The model's words of a step."""

    message: Str | None
    """The text; null when there is none to show."""
    finish_reason: FinishReason
    """Why the model stopped."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    message_id: Maybe[Id] = None
    """Identifier of the message."""
    parts: Maybe[tuple[AssistantPart, ...]] = None
    """The parts, when there is more than text."""

class ReasoningAppendedData(Open):
    """A piece of the model's reasoning; live only, never stored."""

    reasoning_delta: Str
    """The piece."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    reasoning_so_far: Maybe[Str] = None
    """The text so far, for a reader that joins late."""

class ReasoningCompletedData(Open):
    """The model's reasoning of a step."""

    reasoning: Str
    """The text."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    is_late: Maybe[Bool] = None
    """Whether it began after text of the message had been shown; left out if not."""
    provider_metadata: Maybe[JsonObject] = None
    """What the provider wants back, such as a signature."""

class StepStartedData(Open):
    """A step began: one model call and its tool calls."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    model_id: Maybe[Str] = None
    """Model that is called."""
    prompt_message_count: Maybe[Count] = None
    """Messages of the history in the prompt; instructions apart."""
    reserved: Maybe[Reservation] = None
    """What is set aside for the call in a run with a limit in money."""

class StepQueuedData(Open):
    """A model call waits for the limit of its provider; live only, never stored."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    provider: Str
    """Route of the provider, such as openai."""
    reason: Str
    """Limit that the call waits for."""

class StepRetryingData(Open):
    """A model call failed and will be tried again."""

    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    code: Str
    """Stable code of the failure."""
    attempt: Count
    """Attempt that failed, from 1."""
    delay_ms: Count
    """Wait before the next one."""
    shared: Maybe[Bool] = None
    """Whether other runs were at work when the process ended; absent means no."""
    next_model_id: Maybe[Str] = None
    """Model that is called next, if it is another one."""
    message: Maybe[Str] = None
    """What went wrong."""
    usage: Maybe[Usage] = None
    """What it used, when known."""
    price: Maybe[Price] = None
    """How the cost was found, or why there is none."""

class StepCompletedData(Open):
    """A step is finished."""

    finish_reason: FinishReason
    """Why the model stopped."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    usage: Maybe[Usage] = None
    """What it used."""
    price: Maybe[Price] = None
    """How the cost was found, or why there is none."""
    cost_usd: Maybe[Annotated[Float, Field(ge=0)]] = None
    """Cost in US dollars, when known."""
    provider_metadata: Maybe[JsonObject] = None
    """What the provider added."""
    latency_ms: Maybe[Count] = None
    """How long the model took."""
    queued_ms: Maybe[Count] = None
    """How long the call waited for the limit of its provider, if it did."""
    cache: Maybe[PromptCache] = None
    """The prompt as the provider may cache it, if it reports a cache."""

class StepFailedData(Open):
    """A step failed."""

    code: Str
    """Stable code of the failure."""
    message: Str
    """What went wrong and what to do next."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    details: Maybe[JsonObject] = None
    """Further facts, already redacted."""
    usage: Maybe[Usage] = None
    """What it used, when known."""
    price: Maybe[Price] = None
    """How the cost was found, or why there is none."""

class ActionsRequestedData(Open):
    """The model asked for actions, or a program did."""

    actions: tuple[RuntimeActionRequest, ...]
    """The actions, in the order in which they were asked for."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    parent_call_id: Maybe[Id] = None
    """Call of the program that asked for them; left out if the model did."""
    presentation: Maybe[JsonObject] = None
    """How to show them."""

class ActionStartedData(KeepsNulls, Open):
    """An action is about to happen. Written before it does."""

    call_id: Id
    """The call."""
    tool_name: Str
    """Name of the tool."""
    effect: EffectClass
    """What happens to it after a crash."""
    idempotency_key: Id
    """Key the tool is given."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    arguments_hash: Maybe[Sha256] = None
    """Digest of the exact arguments."""
    mode: Maybe[ToolMode] = None
    """What the tool may do."""
    arguments: JsonValue = None
    """The arguments, when a policy or hook changed them."""
    undo: Maybe[Str] = None
    """The tool that can reverse the call."""
    interpreter: Maybe[Str] = None
    """Name and version of the interpreter, when the action is a program."""
    parent_call_id: Maybe[Id] = None
    """Call of the program that asked for it; left out if the model did."""

class ProgramPausedData(Open):
    """A program waits for its calls, or a tool for the answers to its questions."""

    call_id: Id
    """The call of the program."""
    taken: Count
    """Number of results that the program has taken, in the order of their records."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    interpreter: Maybe[Str] = None
    """Name and version of the interpreter."""
    snapshot: Maybe[ContentRef] = None
    """State of the program. Without it the program is run again from its source."""
    printed: Maybe[Str] = None
    """Text that the program has printed since the last pause."""
    parent_call_id: Maybe[Id] = None
    """Call of the program that made the call; absent if the model made it."""

class ProgramEndedData(Open):
    """A program ended while calls of it are open, or with variables that are kept; its result follows."""

    call_id: Id
    """The call of the program."""
    taken: Count
    """Number of results that the program has taken, in the order of their records."""
    status: ActionStatus
    """How it ended."""
    output: JsonValue
    """The result of the call of the program."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    error: Maybe[ActionError] = None
    """Why it failed."""
    content_ref: Maybe[ContentRef] = None
    """The whole output, if `output` is a part of it."""
    interpreter: Maybe[Str] = None
    """Name and version of the interpreter that wrote the variables."""
    variables: Maybe[ContentRef] = None
    """The variables that the next programs of the session begin with."""
    names: Maybe[tuple[Str, ...]] = None
    """The names of these variables."""
    parent_call_id: Maybe[Id] = None
    """Call of the program that made the call; absent if the model made it."""

class ActionInputAppendedData(Open):
    """A piece of a call's arguments; live only, never stored."""

    call_id: Id
    """The call."""
    input_delta: Str
    """The piece of JSON text."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    input_so_far: Maybe[Str] = None
    """The input so far, for a reader that joins late."""
    tool_name: Maybe[Str] = None
    """Name of the tool."""

class ActionPartialData(Open):
    """Progress of a running action; live only, never stored."""

    call_id: Id
    """The call."""
    output: JsonValue
    """What there is so far."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    tool_name: Maybe[Str] = None
    """Name of the tool."""

class ActionResultData(Open):
    """What came of an action."""

    result: RuntimeActionResult
    """The result."""
    status: ActionStatus
    """What came of it."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    error: Maybe[ActionError] = None
    """Why it failed."""
    presentation: Maybe[JsonObject] = None
    """How to show it."""
    content_ref: Maybe[ContentRef] = None
    """The whole output, when it was cut."""
    taint: Maybe[tuple[Taint, ...]] = None
    """What the result brings into the session."""
    duration_ms: Maybe[Count] = None
    """How long it took."""
    log: Maybe[tuple[Str, ...]] = None
    """Lines that the tool logged."""
    parent_call_id: Maybe[Id] = None
    """Call of the program that asked for it; left out if the model did."""

class InputRequestedData(Open):
    """People are asked."""

    requests: tuple[InputRequest, ...]
    """The requests."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    call_id: Maybe[Id] = None
    """Call of the subagent that asks."""
    task_id: Maybe[Id] = None
    """Task that asks."""
    child_session_id: Maybe[Id] = None
    """Session that asks, when it is a subagent's."""

class InputResolvedData(Open):
    """Requests to people were settled."""

    resolutions: tuple[InputResolution, ...]
    """What came of each."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    call_id: Maybe[Id] = None
    """Call of the subagent that asked."""
    child_session_id: Maybe[Id] = None
    """Session that asked, when it is a subagent's."""

class ApprovalCandidateData(Open):
    """A request was answered, but the answer does not count: another was first, or it was refused."""

    request_id: Id
    """The request."""
    responder: Maybe[Str] = None
    """Who answered."""
    option_id: Maybe[Id] = None
    """The option picked."""
    text: Maybe[Str] = None
    """The text given."""
    arguments: Maybe[JsonObject] = None
    """Arguments that the person approved instead of those of the request."""
    answer_id: Maybe[Id] = None
    """The answer; it differs from the answer that settled the request."""
    sequence: Maybe[Count] = None
    """Number of the turn in its session, from 0."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""
    turn_id: Maybe[Id] = None
    """The turn."""

class ApprovalDispatchedData(Open):
    """A request was dispatched to people, and is not dispatched again."""

    request_id: Id
    """The request."""
    sequence: Maybe[Count] = None
    """Number of the turn in its session, from 0."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""
    turn_id: Maybe[Id] = None
    """The turn."""

class ApprovalSettledData(Open):
    """An approval is decided."""

    request_id: Id
    """The request."""
    outcome: InputOutcome
    """What came of it."""
    responder: Maybe[Str] = None
    """Who answered."""
    reason: Maybe[Str] = None
    """Why."""
    grant: Maybe[Str] = None
    """How far it reaches: once, session or rule."""
    arguments: Maybe[JsonObject] = None
    """Arguments that the person approved instead of those that were asked for."""
    sequence: Maybe[Count] = None
    """Number of the turn in its session, from 0."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""
    turn_id: Maybe[Id] = None
    """The turn."""

class AuthorizationRequiredData(Open):
    """A connection needs the authorisation of a person."""

    name: Str
    """The connection."""
    description: Str
    """What it is for."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    authorization: Maybe[AuthorizationChallenge] = None
    """How to authorise."""
    webhook_url: Maybe[Str] = None
    """Where the answer arrives."""
    attempt_id: Maybe[Id] = None
    """The attempt."""
    principal_id: Maybe[Str] = None
    """Who must authorise."""
    task_id: Maybe[Id] = None
    """Task that waits."""

class AuthorizationCompletedData(Open):
    """An authorisation was settled."""

    name: Str
    """The connection."""
    outcome: Literal["authorized", "declined", "failed", "timed-out"]
    """What came of it."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""
    reason: Maybe[Str] = None
    """Why."""
    authorization: Maybe[AuthorizationChallenge] = None
    """How it was authorised."""
    attempt_id: Maybe[Id] = None
    """The attempt."""
    principal_id: Maybe[Str] = None
    """Who authorised."""
    task_id: Maybe[Id] = None
    """Task that waited."""

class ResultCompletedData(Open):
    """The structured result of the turn."""

    result: JsonValue
    """The result."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    step_index: Count
    """Number of the step in its turn, from 0."""
    turn_id: Id
    """The turn."""

class OutputRequestedData(Open):
    """The run must return a typed output."""

    contract: OutputContract
    """What it must meet."""
    run_id: Maybe[Id] = None
    """The run."""

class OutputRejectedData(Open):
    """An answer does not meet its contract; the model may correct it."""

    schema_id: Id
    """The schema."""
    attempt: Count
    """Attempt, from 1."""
    errors: tuple[OutputError, ...]
    """Where it misses."""
    run_id: Maybe[Id] = None
    """The run."""

class OutputValidatedData(Open):
    """An answer meets its contract."""

    schema_id: Id
    """The schema."""
    attempt: Count
    """Attempt, from 1."""
    hash: Maybe[Sha256] = None
    """Digest of the canonical value."""
    run_id: Maybe[Id] = None
    """The run."""

class OutputFailedData(Open):
    """No answer met the contract."""

    schema_id: Id
    """The schema."""
    attempts: Count
    """Attempts made."""
    errors: tuple[OutputError, ...]
    """Where the last one misses."""
    run_id: Maybe[Id] = None
    """The run."""

class CompactionRequestedData(Open):
    """The history is about to be compacted."""

    model_id: Str
    """Model that will summarise."""
    usage_input_tokens: Count | None
    """Input tokens that made it necessary."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    reason: Maybe[Str] = None
    """Why: threshold, overflow (the model refused the length) or asked."""
    session_id: Maybe[Id] = None
    """The session."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""

class CompactionCompletedData(Open):
    """The history was compacted; the journal keeps it whole."""

    model_id: Str
    """Model that summarised."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    session_id: Maybe[Id] = None
    """The session."""
    summary: Maybe[Str] = None
    """The one summary of everything before."""
    kept_from: Maybe[Count] = None
    """Index in the history of the first message kept as it is."""
    trimmed_call_ids: Maybe[tuple[Id, ...]] = None
    """Calls with shortened results."""
    result_chars_max: Maybe[Count] = None
    """Most characters that a shortened result keeps."""
    pinned: Maybe[tuple[ModelMessage, ...]] = None
    """Messages put after the summary, such as the last real user message or a todo list."""
    input_tokens_before: Maybe[Count] = None
    """Estimated input before."""
    input_tokens_after: Maybe[Count] = None
    """Estimated input after."""
    usage: Maybe[Usage] = None
    """What the summary used."""
    price: Maybe[Price] = None
    """How the cost was found, or why there is none."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""

class CompactionFailedData(Open):
    """The history could not be compacted."""

    code: Str
    """Stable code of the failure."""
    message: Str
    """What went wrong and what to do next."""
    details: Maybe[JsonObject] = None
    """Further facts, already redacted."""
    shared: Maybe[Bool] = None
    """Whether other runs were at work when the process ended; absent means no."""
    delay_ms: Maybe[Count] = None
    """Wait before the next attempt; absent if there is none."""
    model_id: Maybe[Str] = None
    """Model that was asked for a summary."""
    usage: Maybe[Usage] = None
    """What the attempt used."""
    price: Maybe[Price] = None
    """How the cost was found, or why there is none."""
    sequence: Maybe[Count] = None
    """Number of the turn in its session, from 0."""
    turn_id: Maybe[Id] = None
    """The turn."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""

class SubagentCalledData(Open):
    """A subagent was given work."""

    call_id: Id
    """The call."""
    child_session_id: Id
    """Session of the subagent."""
    session_id: Id
    """Session that called."""
    name: Str
    """Name of the subagent."""
    tool_name: Str
    """Tool that stands for it."""
    sequence: Count
    """Number of the turn in its session, from 0."""
    turn_id: Id
    """The turn."""
    remote: Maybe[JsonObject] = None
    """Where it runs, when elsewhere."""
    workflow_id: Maybe[Str] = None
    """Workflow that drives it."""
    child_run_id: Maybe[Id] = None
    """Run of the subagent."""
    depth: Maybe[Count] = None
    """Levels below the root, from 1."""
    lent: Maybe[BudgetLimits] = None
    """Limits of the subagent, as its share of those of the run."""
    job: Maybe[Id] = None
    """Name of the job, when the call does not wait for it."""

class SubagentStartedData(Open):
    """A subagent began."""

    call_id: Id
    """The call."""
    subagent_name: Str
    """Name of the subagent."""
    child_session_id: Maybe[Id] = None
    """Session of the subagent."""

class SubagentEventData(Open):
    """An event of a subagent, shown in its parent."""

    call_id: Id
    """The call."""
    subagent_name: Str
    """Name of the subagent."""
    event: JsonObject
    """The event."""

class SubagentCompletedData(Open):
    """A subagent is finished."""

    call_id: Id
    """The call."""
    subagent_name: Str
    """Name of the subagent."""
    output: Str
    """What it returned."""
    is_error: Maybe[Bool] = None
    """Whether it failed."""
    usage: Maybe[Usage] = None
    """What it used."""
    child_session_id: Maybe[Id] = None
    """Session of the subagent."""
    child_run_id: Maybe[Id] = None
    """Run of the subagent."""
    status: Maybe[RunStatus] = None
    """How its run ended."""
    is_structured: Maybe[Bool] = None
    """Whether the output is JSON."""
    error: Maybe[ActionError] = None
    """Why it failed."""
    taint: Maybe[tuple[Taint, ...]] = None
    """What it has read, and what it was given."""
    steps: Maybe[Count] = None
    """Model calls it made, those of its own subagents included."""
    tool_calls: Maybe[Count] = None
    """Tool calls it made, those of its own subagents included."""
    settled_micros: Maybe[Count] = None
    """Reservations of its calls that count because their cost is not known."""

class TaskStartedData(Open):
    """A delegated task began."""

    task_id: Id
    """The task."""
    call_id: Maybe[Id] = None
    """The call."""
    child_session_id: Maybe[Id] = None
    """Session of the task."""
    name: Maybe[Str] = None
    """Name of the subagent."""

class TaskSettledData(KeepsNulls, Open):
    """A delegated task is finished."""

    task_id: Id
    """The task."""
    status: Literal["completed", "failed", "cancelled"]
    """How it ended."""
    call_id: Maybe[Id] = None
    """The call."""
    output: JsonValue = None
    """What it returned."""
    error: Maybe[ActionError] = None
    """Why it failed."""

class AgentStartedData(Open):
    """A subagent's session was opened."""

    child_session_id: Id
    """Session of the subagent."""
    name: Str
    """Name of the subagent."""
    call_id: Maybe[Id] = None
    """The call."""
    task_id: Maybe[Id] = None
    """The task."""

class AgentResolvedData(Open):
    """A resolver of the agent gave what is used from now on."""

    resolver: Id
    """Name of the resolver."""
    part: ResolverPart
    """What it gave."""
    scope: ResolverScope
    """How long that holds."""
    content_ref: ContentRef
    """All of it, as JSON."""
    names: Maybe[tuple[Str, ...]] = None
    """Tools or skills that it gave."""
    failure: Maybe[Str] = None
    """Why it gave nothing, when the agent goes on without."""

class PolicyDecidedData(Open):
    """A policy decided."""

    stage: PolicyStage
    """When it was asked."""
    decision: PolicyDecision
    """What it said."""
    run_id: Maybe[Id] = None
    """The run."""
    call_id: Maybe[Id] = None
    """The call."""
    tool_name: Maybe[Str] = None
    """Name of the tool."""
    sequence: Maybe[Count] = None
    """Number of the turn in its session, from 0."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""
    turn_id: Maybe[Id] = None
    """The turn."""
    parent_call_id: Maybe[Id] = None
    """Call of the program that asked for it; left out if the model did."""

class BudgetReservedData(Open):
    """A spend was checked before it happens."""

    used: BudgetUsage
    """What was used so far."""
    limits: BudgetLimits
    """What is allowed."""
    run_id: Maybe[Id] = None
    """The run."""

class BudgetUpdatedData(Open):
    """Something was spent."""

    used: BudgetUsage
    """What was used so far."""
    run_id: Maybe[Id] = None
    """The run."""

class BudgetWarnedData(Open):
    """A limit is near."""

    name: BudgetName
    """Which limit."""
    used: Float
    """What was used."""
    limit: Float
    """What is allowed."""
    run_id: Maybe[Id] = None
    """The run."""

class BudgetExhaustedData(Open):
    """A limit is reached; the next spend would exceed it."""

    exceeded: tuple[BudgetName, ...]
    """Which limits."""
    used: BudgetUsage
    """What was used."""
    limits: BudgetLimits
    """What was allowed."""
    run_id: Maybe[Id] = None
    """The run."""

class HookInvokedData(Open):
    """A hook was called."""

    hook_id: Id
    """The hook."""
    point: Id
    """Where it runs."""
    run_id: Maybe[Id] = None
    """The run."""
    call_id: Maybe[Id] = None
    """The call."""

class HookCompletedData(Open):
    """A hook answered."""

    hook_id: Id
    """The hook."""
    point: Id
    """Where it runs."""
    status: HookStatus
    """How it ended."""
    changed: Maybe[Bool] = None
    """Whether it changed something."""
    vetoed: Maybe[Bool] = None
    """Whether it vetoed."""
    reason: Maybe[Str] = None
    """Why it vetoed."""
    duration_ms: Maybe[Count] = None
    """How long it took."""
    call_id: Maybe[Id] = None
    """The call."""
    stop: Maybe[ErrorInfo] = None
    """Why the hook ends the run."""
    change: Maybe[JsonObject] = None
    """What it changed: arguments, prompt or context."""

class HookFailedData(Open):
    """A hook failed."""

    hook_id: Id
    """The hook."""
    point: Id
    """Where it runs."""
    status: HookStatus
    """How it ended."""
    error: ActionError
    """Why."""
    failure: Maybe[Str] = None
    """What the failure means for the run, as the hook declares it."""
    duration_ms: Maybe[Count] = None
    """How long it took."""
    call_id: Maybe[Id] = None
    """The call."""
    stop: Maybe[ErrorInfo] = None
    """Why the hook ends the run."""

class DecisionRecordedData(Open):
    """The agent made a choice."""

    decision: Decision
    """The choice."""

class DecisionOutcomeData(Open):
    """What came of a choice."""

    decision_id: Id
    """The choice."""
    outcome: Outcome
    """What came of it."""

class DecisionEvaluatedData(Open):
    """A choice was judged."""

    decision_id: Id
    """The choice."""
    evaluation: DecisionEvaluation
    """The judgement."""

class ProblemReportedData(Open):
    """Something went wrong."""

    problem: Problem
    """The problem."""

class ProposalMadeData(Open):
    """A change to an agent was proposed."""

    proposal: Proposal
    """The change."""

class ProposalCheckedData(Open):
    """A proposal was tried on recorded runs."""

    proposal_id: Id
    """The proposal."""
    check: ProposalCheck
    """How it did."""

class ProposalSettledData(Open):
    """A person said yes or no to a proposal."""

    proposal_id: Id
    """The proposal."""
    is_accepted: Bool
    """Whether it was a yes."""
    by: Str
    """Who said it."""
    reason: Maybe[Str] = None
    """Why."""

class ProposalAppliedData(Open):
    """A proposal became an agent."""

    proposal_id: Id
    """The proposal."""
    by: Str
    """Who did it."""
    fingerprint: Str
    """The version that was made."""

class DeliveryIntendedData(Open):
    """Output is about to be delivered. Written before it is."""

    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    dedupe_key: Id
    """At most one delivery per key."""
    kind: Str
    """What is delivered."""
    run_id: Maybe[Id] = None
    """The run."""

class DeliveryCompletedData(Open):
    """Output was delivered."""

    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    receipt: Maybe[JsonObject] = None
    """What the sink said."""

class DeliveryFailedData(Open):
    """Output was not delivered."""

    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    error: ErrorInfo
    """Why."""

class DeliveryDedupedData(Open):
    """Output had been delivered before."""

    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    dedupe_key: Id
    """Key of the earlier delivery."""
    run_id: Maybe[Id] = None
    """The run."""

class DeliveryUnknownData(Open):
    """It is unknown whether output was delivered; it is not sent again automatically."""

    delivery_id: Id
    """The delivery."""
    sink_id: Id
    """Where it goes."""
    reason: Maybe[Str] = None
    """Why it is unknown."""

class RecoveryStartedData(Open):
    """The session is picked up after a crash."""

    epoch: Count
    """Ownership number of the session."""
    reason: Maybe[Str] = None
    """Why."""
    shared: Maybe[Bool] = None
    """Whether other runs were at work when the process ended; absent means no."""
    isolated: Maybe[Bool] = None
    """Whether no other run of which processes ended repeatedly is driven beside it; absent means no."""
    survived: Maybe[tuple[Count, ...]] = None
    """Ownership numbers of earlier owners that lost the session and went on: their processes did not end."""
    run_id: Maybe[Id] = None
    """The run."""

class RecoveryEffectFoundData(Open):
    """An effect was started and has no result."""

    call_id: Id
    """The call."""
    effect: EffectClass
    """What happens to it."""
    tool_name: Str
    """Name of the tool."""
    shared: Maybe[Bool] = None
    """Whether other runs were at work when the process ended; absent means no."""
    delay_ms: Maybe[Count] = None
    """Wait before it is run again; absent if there is none."""
    idempotency_key: Maybe[Id] = None
    """Key it was given."""
    request_id: Maybe[Id] = None
    """Request to a person, when one is needed."""
    begun: Maybe[Bool] = None
    """False if its owner released it before it started; the next owner runs it."""

class RecoveryEffectSettledData(Open):
    """An interrupted effect was decided."""

    call_id: Id
    """The call."""
    choice: RecoveryChoice
    """What to do with it."""
    by: Maybe[Str] = None
    """Who decided: a person or a policy."""

class RecoveryCompletedData(Open):
    """The session goes on."""

    epoch: Count
    """Ownership number of the session."""
    repeated: Maybe[tuple[Id, ...]] = None
    """Calls that run again."""
    parked: Maybe[tuple[Id, ...]] = None
    """Calls that wait for a person."""
