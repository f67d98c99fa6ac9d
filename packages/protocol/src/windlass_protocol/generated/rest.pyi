# Generated from spec/rest.schema.json by `make gen`. Do not edit.
"""Bodies of requests and answers of the HTTP server."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from windlass_protocol._wire import (
    Bool,
    Closed,
    ExactlyOne,
    Float,
    JsonObject,
    KeepsNulls,
    Maybe,
    Open,
    Str,
    Whole,
)
from windlass_protocol.generated.chat import AgentSession, ChatMessage
from windlass_protocol.generated.common import (
    CacheLoss,
    ContentRef,
    Count,
    Id,
    Integer,
    PolicyRef,
    Positive,
    Price,
    Sha256,
    SourceRef,
    Timestamp,
    Usage,
)
from windlass_protocol.generated.decisions import (
    PackageDifference,
    Proposal,
    ProposalCheck,
    VersionComparison,
    VersionTally,
)
from windlass_protocol.generated.errors import ErrorCode, ErrorKind, RetryClass
from windlass_protocol.generated.event_data import FinishReason, ProposalAppliedData, ProposalSettledData
from windlass_protocol.generated.input import InputOutcome, InputRequest, InputResponse
from windlass_protocol.generated.policy import BudgetLimits
from windlass_protocol.generated.runs import PlaygroundOrigin, RunResult, RunSnapshot, RunStatus
from windlass_protocol.generated.sessions import ModelMessage, RunMode, ToolCallPart, UserContent, UserPart
from windlass_protocol.generated.tools import ToolCall
from windlass_protocol.generated.traces import HarnessTrace, TraceEvent, TraceSpan

class NewSession(Closed):
    """Body of `POST /sessions`: a session, with its first message or without."""

    message: Maybe[UserContent] = None
    """The first message: text, or parts."""
    agent: Maybe[Id] = None
    """The agent; optional if the server or the session has only one."""
    mode: Maybe[RunMode] = None
    """Whether the run is a conversation or a task."""
    output_schema: Maybe[JsonObject] = None
    """A JSON Schema that the output must fit."""
    context: Maybe[Annotated[tuple[Str, ...], Field(max_length=64)]] = None
    """Texts that the model gets before the message."""
    metadata: Maybe[JsonObject] = None
    """Data of the application, kept in `run.started`."""
    budget: Maybe[BudgetLimits] = None
    """The most that the run may use."""
    batch: Maybe[Literal["within 24h", "off"]] = None
    """Whether model calls of the run are items of batches, at a lower price; as the agent says if absent."""
    goal: Maybe[Id] = None
    """The goal of the run, by which runs are found and judged."""
    chat_id: Maybe[Id] = None
    """The chat of the AgentSession; the session itself if absent."""
    current_stage: Maybe[Id] = None
    """The first stage of the AgentSession; START if absent."""
    scenario: Maybe[Annotated[Str, StringConstraints(max_length=512)]] = None
    """The scenario tag of the AgentSession."""
    stage_data: Maybe[JsonObject] = None
    """Scratch state of the first stage."""
    project_id: Maybe[Annotated[Str, StringConstraints(max_length=512)]] = None
    """The project that owns the AgentSession."""

class NewMessage(ExactlyOne, Closed):
    """Body of `POST /sessions/{id}/messages`: a message, or responses to what the session asks."""

    __exactly_one_of__ = ("message", "responses")

    message: Maybe[UserContent] = None
    """The message: text, or parts."""
    responses: Maybe[Annotated[tuple[InputResponse, ...], Field(min_length=1, max_length=64)]] = None
    """Responses to requests of the session."""
    continuation_token: Maybe[Annotated[Str, StringConstraints(max_length=64)]] = None
    """The token of the last answer; the message is refused if the session has changed since."""
    delivery: Maybe[Literal["queue", "steer"]] = None
    """`queue`, the default, starts a run after the current one; `steer` adds the message to the current run.
    """
    agent: Maybe[Id] = None
    """The agent; optional if the server or the session has only one."""
    mode: Maybe[RunMode] = None
    """Whether the run is a conversation or a task."""
    output_schema: Maybe[JsonObject] = None
    """A JSON Schema that the output must fit."""
    context: Maybe[Annotated[tuple[Str, ...], Field(max_length=64)]] = None
    """Texts that the model gets before the message."""
    metadata: Maybe[JsonObject] = None
    """Data of the application, kept in `run.started`."""
    budget: Maybe[BudgetLimits] = None
    """The most that the run may use."""
    batch: Maybe[Literal["within 24h", "off"]] = None
    """Whether model calls of the run are items of batches, at a lower price; as the agent says if absent."""
    goal: Maybe[Id] = None
    """The goal of the run, by which runs are found and judged."""

class Cancel(Closed):
    """Body of a request to cancel a run."""

    reason: Maybe[Annotated[Str, StringConstraints(max_length=1000)]] = None
    """The reason, for the journal."""

class RetryRun(Closed):
    """Body of a request to continue a failed run."""

    budget: Maybe[BudgetLimits] = None
    """The most that both runs together may use; what the failed run left if absent."""

class Answer(Closed):
    """Body of `POST /approvals/{id}`: an option of the request, a text, or both."""

    option_id: Maybe[Id] = None
    """The option."""
    text: Maybe[Annotated[Str, StringConstraints(max_length=100000)]] = None
    """The text."""
    arguments_hash: Maybe[Sha256] = None
    """Digest of the arguments that were shown; the answer is refused if the call has others."""
    arguments: Maybe[JsonObject] = None
    """With the option approve: the arguments that the call runs with instead of its own."""

class Fork(Closed):
    """Body of `POST /sessions/{id}/fork`."""

    at: Maybe[Positive] = None
    """The last record that is copied; the last of the session when absent."""

class NewFeedback(Closed):
    """Body of `POST /runs/{id}/feedback`."""

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

class NewRunEvent(KeepsNulls, Closed):
    """Body of `POST /runs/{id}/events`."""

    name: Id
    """What the workflow waits for."""
    data: JsonValue = None
    """What comes with it; true when absent."""
    key: Maybe[Id] = None
    """Events with the same key are one event; the Idempotency-Key of the request when absent."""

class NewProposal(Closed):
    """Body of `POST /proposals`: the goal of a change."""

    goal: Id
    """A goal that the server knows."""
    agent: Maybe[Id] = None
    """The agent; that of the newest run for the goal when absent."""

class ProposalTrial(Closed):
    """Body of `POST /proposals/{id}/check`: the runs to repeat."""

    run_ids: Maybe[Annotated[tuple[Id, ...], Field(min_length=1, max_length=100)]] = None
    """The runs; the server chooses when absent."""
    repeats: Maybe[Annotated[int, Whole(1, 20)]] = None
    """Attempts per run; 1 when absent."""

class Verdict(Closed):
    """Body of a decision about a proposal."""

    reason: Maybe[Annotated[Str, StringConstraints(max_length=4000)]] = None
    """The reason."""
    fingerprint: Maybe[Str] = None
    """The version that was read; the verdict is refused if the proposal makes another."""

class NewDataset(Closed):
    """A data set without cases."""

    name: Annotated[Str, StringConstraints(min_length=1, max_length=200)]
    """Its name."""

class NewDatasetCase(KeepsNulls, Closed):
    """A case to add to a data set: from a recorded run, from `inputs`, or from a run with other inputs or
    another expected answer.
    """

    name: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=200)]] = None
    """Its name; that of the run, or one that follows from the inputs, when left out."""
    run_id: Maybe[Id] = None
    """A recorded run: its message and its answer are taken unless they are given here."""
    inputs: JsonValue = None
    """The message, data that is sent as JSON, or an object with `conversation`: several messages."""
    expected: JsonValue = None
    """The expected answer; null means none, also if the run has an answer."""
    tags: Maybe[
        Annotated[
            tuple[Annotated[Str, StringConstraints(min_length=1, max_length=200)], ...], Field(max_length=100)
        ]
    ] = None
    """Its tags."""
    metadata: Maybe[JsonObject] = None
    """Further facts."""

class DatasetCaseChange(KeepsNulls, Closed):
    """What to change of a case; the rest stays as it is."""

    name: Annotated[Str, StringConstraints(min_length=1, max_length=200)]
    """The case."""
    inputs: JsonValue = None
    """Other inputs."""
    expected: JsonValue = None
    """Another expected answer; null means none."""
    tags: Maybe[
        Annotated[
            tuple[Annotated[Str, StringConstraints(min_length=1, max_length=200)], ...], Field(max_length=100)
        ]
    ] = None
    """Its tags."""
    metadata: Maybe[JsonObject] = None
    """Other facts."""

class Accepted(Open):
    """Work that was accepted: it is durable."""

    session_id: Str
    """The session."""
    run_id: Maybe[Str] = None
    """The run that was started, answered or cancelled."""
    message_id: Maybe[Str] = None
    """The message that was added to the current run."""
    continuation_token: Maybe[Str] = None
    """The token to continue from here."""

class AcceptedRun(Open):
    """A run that was accepted: it is durable."""

    session_id: Str
    """The session."""
    run_id: Str
    """The run."""
    continuation_token: Maybe[Str] = None
    """The token to continue from here."""

class SessionStatus(StrEnum):
    """Status of the newest run of a session; `idle` without one."""

    IDLE = "idle"
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"

class SessionInfo(Open):
    """A session as lists show it."""

    session_id: Str
    """The session."""
    title: Str
    """The first message, in one short line."""
    agent_id: Str
    """The agent of the newest run."""
    status: SessionStatus
    """Status of the newest run."""
    created_at: Timestamp
    """Time of the first request."""
    updated_at: Timestamp
    """Time of the last change of what is shown here."""
    run_count: Count
    """Number of runs."""
    request_count: Count
    """Number of open requests to people."""
    usage: Usage
    """Usage of its runs; of an unfinished one up to its last wait."""
    root_session_id: Str
    """The session at the top of the tree of subagents."""
    parent_session_id: Maybe[Str] = None
    """The session that this one works for."""
    predecessor_id: Maybe[Str] = None
    """The session that it was forked from."""
    predecessor_seq: Maybe[Count] = None
    """The last record that the fork copied."""
    output: Maybe[Str] = None
    """The first words of the answer of the newest run."""
    error_message: Maybe[Str] = None
    """The first words of why the newest run ended without an answer."""
    waits_for: Maybe[Str] = None
    """The first words of the question that the newest run waits with, or of why it waits."""
    waits_on: Maybe[Str] = None
    """What the newest run waits for: input, recovery, subagent, provider, batch, timer or budget."""
    error: Maybe[Str] = None
    """The kind of the error that the newest run ended with."""
    crashes: Maybe[Count] = None
    """How often a process took one of its runs over after a crash."""
    continuation_token: Maybe[Str] = None
    """The token to continue from here."""

class SessionPage(Open):
    """A page of sessions."""

    sessions: tuple[SessionInfo, ...]
    """The sessions."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""
    total: Maybe[Count] = None
    """How many fit, if asked for; 10,001 if there are more than 10,000."""

class AgentSessionList(Open):
    """Sessions as AgentSession documents, newest first."""

    sessions: tuple[AgentSession, ...]
    """The sessions."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class HistoryPage(Open):
    """A page of messages of a session, oldest first."""

    messages: tuple[ChatMessage, ...]
    """The messages."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class RunRow(Open):
    """A run as lists show it."""

    run_id: Str
    """The run."""
    session_id: Str
    """Its session."""
    agent_id: Str
    """Its agent."""
    status: RunStatus
    """Its status."""
    usage: Usage
    """Its usage; up to its last wait until it has ended."""
    started_at: Maybe[Timestamp] = None
    """When it started; absent while it is queued."""
    ended_at: Maybe[Timestamp] = None
    """When it ended."""
    at: Maybe[Str] = None
    """When it started, or was asked for."""
    package_fingerprint: Maybe[Str] = None
    """The version of its agent."""
    owner: Maybe[Str] = None
    """The owner of its session."""
    input: Maybe[Str] = None
    """The first words of its message."""
    output: Maybe[Str] = None
    """The first words of its answer."""
    error_message: Maybe[Str] = None
    """The first words of why it ended without an answer."""
    waits_for: Maybe[Str] = None
    """The first words of the question that it waits with, or of why it waits."""
    waits_on: Maybe[Str] = None
    """What it waits for: input, recovery, subagent, provider, batch, timer or budget."""
    error: Maybe[Str] = None
    """The kind of the error that it ended with."""
    crashes: Maybe[Count] = None
    """How often a process took it over after a crash."""
    tags: Maybe[tuple[Str, ...]] = None
    """Its tags."""
    rating: Maybe[Integer] = None
    """The newest thumb of people: 1, -1, or 0 without one."""
    is_playground: Maybe[Bool] = None
    """Whether it is a playground run."""

class RunPage(Open):
    """A page of runs."""

    runs: tuple[RunRow, ...]
    """The runs."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""
    total: Maybe[Count] = None
    """How many fit, if asked for; 10,001 if there are more than 10,000."""

class FeedbackInfo(Open):
    """What a person said of a run, a step or an answer."""

    at: Timestamp
    """When."""
    run_id: Str
    """The run."""
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
    """Who said it."""

class FeedbackList(Open):
    """The feedback of a run, oldest first."""

    feedback: tuple[FeedbackInfo, ...]
    """The feedback."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class RefusedStart(Open):
    """A start of a run that was refused: who asked for what, and the error. It holds no input."""

    at: Timestamp
    """When it was refused."""
    code: ErrorCode
    """The code of the error."""
    kind: ErrorKind
    """Which part refused it."""
    retry: RetryClass
    """Whether trying again can help."""
    message: Str
    """The error, with secrets masked."""
    run_id: Maybe[Str] = None
    """The run that was not started."""
    session_id: Maybe[Str] = None
    """The session that the request named; of a subagent, the calling session."""
    agent_id: Maybe[Str] = None
    """The agent that the request named."""
    owner: Maybe[Str] = None
    """The user who asked."""
    source: Maybe[SourceRef] = None
    """Where the request came from."""
    policy_code: Maybe[Str] = None
    """The code of the decision, if a policy refused it."""
    policy_refs: Maybe[tuple[PolicyRef, ...]] = None
    """The policies that refused it, in order."""

class RefusedStartPage(Open):
    """A page of refused starts, newest first."""

    refused_starts: tuple[RefusedStart, ...]
    """The refused starts."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class MissedTicks(StrEnum):
    """Which ticks that passed while no process was running are made up for: none, the last one, or all."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"

class TickOverlap(StrEnum):
    """What happens at a tick while the run of an earlier one goes on: it is skipped or queued, or the earlier
    run is cancelled.
    """

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"

class LimitPeriod(StrEnum):
    """What a limit is for: each run, or all runs of a day or a month together."""

    RUN = "run"
    DAY = "day"
    MONTH = "month"

class LimitChoice(StrEnum):
    """What happens to a run of which the next answer does not fit a limit: it ends, it asks a person to let
    it spend more, or a cheaper fallback model goes on.
    """

    REFUSE = "refuse"
    ASK = "ask"
    CHEAPER = "cheaper"

class NewLimit(Closed):
    """What runs may spend: each of them, or all together in a day or a month."""

    name: Annotated[Str, StringConstraints(min_length=1, max_length=128, pattern="^[^/]+$")]
    """Its name, without a slash."""
    per: LimitPeriod
    """What it is for."""
    max_cost_micros: Maybe[Positive] = None
    """Millionths of a US dollar; absent does not limit money."""
    max_tokens: Maybe[Positive] = None
    """Tokens of prompts and answers; absent does not limit them."""
    owner: Maybe[Id] = None
    """An owner, or `*` for each owner; absent is for all runs."""
    agent: Maybe[Id] = None
    """The name of an agent, or `*` for each agent; absent is for all."""
    timezone: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=64)]] = None
    """The time zone of days and months; UTC when left out."""
    at_limit: Maybe[LimitChoice] = None
    """What happens when it is reached; `refuse` when left out."""
    responders: Maybe[Annotated[tuple[Id, ...], Field(min_length=1, max_length=64)]] = None
    """Names and roles that may let a run spend more, where it asks; absent is anyone who may answer for the
    run.
    """

class LimitInfo(Open):
    """A limit, and what is left of it for an owner or an agent."""

    name: Str
    """Its name."""
    per: LimitPeriod
    """What it is for."""
    timezone: Str
    """The time zone of days and months."""
    max_cost_micros: Maybe[Count] = None
    """Millionths of a US dollar; absent does not limit money."""
    max_tokens: Maybe[Count] = None
    """Tokens of prompts and answers; absent does not limit them."""
    owner: Maybe[Str] = None
    """An owner, or `*` for each owner; absent is for all runs."""
    agent: Maybe[Str] = None
    """The name of an agent, or `*` for each agent; absent is for all."""
    at_limit: Maybe[LimitChoice] = None
    """What happens when it is reached; absent in answers of earlier releases."""
    responders: Maybe[tuple[Str, ...]] = None
    """Names and roles that may let a run spend more, where it asks."""
    subject: Maybe[Str] = None
    """The owner or the agent that this is left for, if each has the limit."""
    period: Maybe[Str] = None
    """The day or the month; absent for a limit of each run."""
    ends_at: Maybe[Timestamp] = None
    """When the next period begins."""
    cost_micros: Maybe[Count] = None
    """What was spent in this period, in millionths of a US dollar."""
    tokens: Maybe[Count] = None
    """Tokens that were used in this period."""
    held_micros: Maybe[Count] = None
    """What is set aside for calls under way."""
    held_tokens: Maybe[Count] = None
    """Tokens that are set aside for calls under way."""
    cost_micros_left: Maybe[Count] = None
    """What no call has spent or may spend yet; absent without a limit in money."""
    tokens_left: Maybe[Count] = None
    """Tokens that no call has used or may use yet; absent without a limit in tokens."""

class LimitList(Open):
    """Limits by name, each with what is left of it."""

    limits: tuple[LimitInfo, ...]
    """The limits; one for each owner or agent that has spent of it, if each has it."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class NewSchedule(Closed):
    """When an agent is to be run, and with which message. One of `cron`, `everyS` and `at` says when."""

    name: Annotated[Str, StringConstraints(min_length=1, max_length=128)]
    """Its name."""
    agent: Id
    """The agent that is run."""
    message: Annotated[Str, StringConstraints(min_length=1, max_length=100000)]
    """The message of each run."""
    cron: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=256)]] = None
    """A cron expression with five fields, or six with seconds first."""
    every_s: Maybe[Positive] = None
    """Seconds between two ticks, counted from 1970."""
    at: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=64)]] = None
    """One moment; without an offset it is in `timezone`."""
    timezone: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=64)]] = None
    """The time zone of `cron` and `at`; UTC when left out."""
    missed: Maybe[MissedTicks] = None
    """Which ticks are made up for that passed while no process was running; `once` when left out."""
    overlap: Maybe[TickOverlap] = None
    """What happens at a tick while the run of an earlier one goes on; `skip` when left out."""
    jitter_s: Maybe[Count] = None
    """A tick starts up to so many seconds later."""
    session_id: Maybe[Id] = None
    """The session of all runs; when left out, each run has its own."""

class ScheduleInfo(Open):
    """A schedule, and what is known about its ticks."""

    name: Str
    """Its name."""
    agent: Str
    """The agent that is run."""
    message: Str
    """The message of each run."""
    timezone: Str
    """The time zone of `cron` and `at`."""
    missed: MissedTicks
    """Which ticks are made up for that passed while no process was running."""
    overlap: TickOverlap
    """What happens at a tick while the run of an earlier one goes on."""
    jitter_s: Count
    """A tick starts up to so many seconds later."""
    is_paused: Bool
    """Whether it starts no runs."""
    started: Count
    """Ticks that were started."""
    skipped: Count
    """Ticks that were not started: missed, or at the time of another run."""
    queued: Count
    """Ticks that wait for the run of an earlier one."""
    cron: Maybe[Str] = None
    """A cron expression with five fields, or six with seconds first."""
    every_s: Maybe[Positive] = None
    """Seconds between two ticks, counted from 1970."""
    at: Maybe[Str] = None
    """One moment; without an offset it is in `timezone`."""
    session_id: Maybe[Str] = None
    """The session of all runs; when left out, each run has its own."""
    owner: Maybe[Str] = None
    """The owner of the sessions of its runs."""
    next_at: Maybe[Timestamp] = None
    """When it starts a run next; absent if it does not."""
    last_at: Maybe[Timestamp] = None
    """The time of the last tick that was started."""
    last_run_id: Maybe[Str] = None
    """The run of that tick."""
    error: Maybe[Str] = None
    """Why the last start failed, with secrets masked."""

class SchedulePage(Open):
    """A page of schedules, by name."""

    schedules: tuple[ScheduleInfo, ...]
    """The schedules."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class ScheduleTick(Open):
    """A moment at which a schedule was to start a run."""

    at: Timestamp
    """The moment."""
    run_id: Maybe[Id] = None
    """The run; absent if none was started."""
    status: Maybe[RunStatus] = None
    """Where the run is."""

class ScheduleTicks(Open):
    """The ticks of a schedule around now."""

    next: tuple[Timestamp, ...]
    """The next ones, the earliest first; none while it is paused."""
    last: tuple[ScheduleTick, ...]
    """The last ones, the latest first."""

class DeliveryInfo(Open):
    """A notification or a message of a channel that was not taken yet."""

    delivery_id: Str
    """Its id, the same for every attempt."""
    target: Str
    """The endpoint or the channel."""
    session_id: Str
    """The session that it is about."""
    attempts: Count
    """Attempts so far."""
    is_dead: Bool
    """Whether it is tried no more."""
    created_at: Timestamp
    """When it was to be delivered first."""
    run_id: Maybe[Str] = None
    """The run that it is about."""
    event: Maybe[Str] = None
    """The type of the event."""
    owner: Maybe[Str] = None
    """The owner of the session."""
    problem: Maybe[Str] = None
    """Why the last attempt failed."""
    next_at: Maybe[Timestamp] = None
    """When it is tried next; absent if it is not."""

class DeliveryPage(Open):
    """A page of deliveries, by id."""

    deliveries: tuple[DeliveryInfo, ...]
    """The deliveries."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class RunInfo(Open):
    """A run: its state, open requests and result."""

    run: RunSnapshot
    """The state."""
    requests: tuple[InputRequest, ...]
    """Open requests to people."""
    row: Maybe[RunRow] = None
    """The run as lists show it, with its input and when it started."""
    result: Maybe[RunResult] = None
    """The result, once the run has ended."""

class UndoStatus(StrEnum):
    """Whether a call can be reversed: reversible; reversed, if it was; no_undo, if its tool says no way;
    unknown, if it is not known to have taken effect.
    """

    REVERSIBLE = "reversible"
    REVERSED = "reversed"
    NO_UNDO = "no_undo"
    UNKNOWN = "unknown"

class UndoItem(Open):
    """A call of a run that may have changed something."""

    call_id: Id
    """The call."""
    tool_name: Str
    """Its tool."""
    arguments: JsonValue
    """Its arguments, without secrets."""
    status: UndoStatus
    """Whether it can be reversed."""
    undo_name: Maybe[Str] = None
    """The tool that reverses it."""
    child_run_id: Maybe[Id] = None
    """The run of a subagent, if the call started one; it is undone by itself."""

class UndoPlan(Open):
    """The calls of a run that may have changed something, newest first."""

    run_id: Id
    """The run."""
    calls: tuple[UndoItem, ...]
    """The calls."""

class ApprovalInfo(Open):
    """An open request to a person, with its session and run."""

    session_id: Str
    """The session that asks."""
    root_session_id: Str
    """The session at the top of its tree."""
    run_id: Str
    """The run that asks."""
    agent_id: Str
    """The agent that asks."""
    asked_at: Timestamp
    """When it was asked."""
    request: InputRequest
    """The request."""
    owner: Maybe[Str] = None
    """The user that the session belongs to."""

class ApprovalPage(Open):
    """A page of open requests, oldest first."""

    requests: tuple[ApprovalInfo, ...]
    """The requests."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class SettledApproval(Open):
    """A request to a person that is closed: answered, or closed without an answer."""

    request_id: Str
    """The request."""
    session_id: Str
    """The session that asked."""
    run_id: Str
    """The run that asked."""
    outcome: InputOutcome
    """How it was closed."""
    at: Timestamp
    """When it was closed."""
    owner: Maybe[Str] = None
    """The user that the session belongs to."""
    option_id: Maybe[Str] = None
    """The option that was chosen."""
    responder: Maybe[Str] = None
    """The user who answered."""

class ApprovalView(ExactlyOne, Open):
    """A request to a person, open or closed."""

    __exactly_one_of__ = ("open", "settled")

    open: Maybe[ApprovalInfo] = None
    """The request, while it is open."""
    settled: Maybe[SettledApproval] = None
    """How it was closed."""

class TraceInfo(Open):
    """The trace of a run; its first span is the run."""

    trace: HarnessTrace
    """The trace."""
    spans: tuple[TraceSpan, ...]
    """The spans."""
    events: tuple[TraceEvent, ...]
    """Moments within spans."""
    seq: Maybe[Count] = None
    """The last record that it is made of: the value of `after` for what is new since."""

class PromptTool(Open):
    """A tool as the model was offered it."""

    name: Str
    """Its name."""
    description: Str
    """Its description."""
    input_schema: JsonObject
    """The JSON Schema of its arguments."""

class PromptMessage(Open):
    """A message as the model received it."""

    role: Literal["system", "user", "assistant", "tool"]
    """Its role."""
    content: Str
    """Its text."""
    is_error: Bool
    """Of a tool result: whether the call failed or was refused."""
    tool_calls: Maybe[tuple[ToolCall, ...]] = None
    """Calls that the model asked for."""
    tool_call_id: Maybe[Str] = None
    """Of a tool result: the call."""
    name: Maybe[Str] = None
    """Of a tool result: the tool."""
    reasoning: Maybe[Str] = None
    """The reasoning of the model."""
    parts: Maybe[tuple[UserPart, ...]] = None
    """Parts of a message of the user."""

class StepPrompt(Open):
    """The input of one model call, rebuilt from the journal."""

    run_id: Str
    """The run."""
    session_id: Str
    """The session."""
    step_index: Count
    """The step, from 0."""
    seq: Count
    """The record `step.started`."""
    system: Str
    """The instructions."""
    tools: tuple[PromptTool, ...]
    """The tools that were offered."""
    messages: tuple[PromptMessage, ...]
    """The messages."""
    unknown: tuple[Str, ...]
    """What cannot be rebuilt, in words."""
    route_id: Maybe[Str] = None
    """The provider route."""
    model_id: Maybe[Str] = None
    """The model."""
    fingerprint: Maybe[Str] = None
    """The version of the agent."""
    temperature: Maybe[Float] = None
    """The temperature."""
    output_schema: Maybe[JsonObject] = None
    """The JSON Schema of the output."""

class StepAnswer(Open):
    """The answer of one model call."""

    text: Str
    """The text."""
    calls: tuple[ToolCallPart, ...]
    """The calls that it asked for."""
    reasoning: Maybe[Str] = None
    """The reasoning."""
    finish_reason: Maybe[FinishReason] = None
    """Why the model stopped."""
    usage: Maybe[Usage] = None
    """What it used."""
    latency_ms: Maybe[Count] = None
    """How long the model took."""
    error: Maybe[Str] = None
    """Why there is no answer."""

class PlaygroundDraft(Open):
    """The parts of a model call that the playground can change, with the answer that it got."""

    run_id: Str
    """The run."""
    session_id: Str
    """The session."""
    step_index: Count
    """The step, from 0."""
    agent_id: Str
    """The agent."""
    instructions: Str
    """The instructions, without the schema of the output."""
    messages: tuple[ModelMessage, ...]
    """The messages."""
    tools: tuple[PromptTool, ...]
    """The tools that were offered."""
    model: Str
    """The model, as provider/model."""
    models: tuple[Str, ...]
    """The models that can be chosen."""
    unknown: tuple[Str, ...]
    """What cannot be rebuilt, in words."""
    temperature: Maybe[Float] = None
    """The temperature."""
    output_schema: Maybe[JsonObject] = None
    """The JSON Schema of the output."""
    answer: Maybe[StepAnswer] = None
    """The answer; absent until there is one."""
    origin: Maybe[PlaygroundOrigin] = None
    """The step that it runs again, when it is a playground run itself."""

class NewPlaygroundRun(Closed):
    """Changes of a recorded model call that is run again; what is left out is as it was recorded."""

    instructions: Maybe[Str] = None
    """Other instructions."""
    messages: Maybe[Annotated[tuple[ModelMessage, ...], Field(min_length=1)]] = None
    """Other messages; the last one is of the user or of a tool."""
    tools: Maybe[dict[str, Str]] = None
    """The tools that are offered, out of those of the step, with their descriptions."""
    model: Maybe[Annotated[Str, StringConstraints(min_length=1)]] = None
    """Another model of an agent of the server, as provider/model."""
    temperature: Maybe[Annotated[Float, Field(ge=0, le=2)]] = None
    """Another temperature."""
    size: Maybe[Literal["call", "run"]] = None
    """What is run: this model call alone, or all that follows it; run when left out."""
    calls: Maybe[Literal["recorded", "real"]] = None
    """How calls are answered: from the record, or by the tools themselves; recorded when left out."""

class ContentList(Open):
    """Contents of a session that are too large for a record."""

    contents: tuple[ContentRef, ...]
    """The contents."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class SafePoints(Open):
    """Records at which a fork can begin, in order."""

    safe_points: tuple[Positive, ...]
    """Their numbers."""
    next: Maybe[Positive] = None
    """The value of `before` for older ones."""

class Deleted(Open):
    """What was deleted: sessions, a schedule or a data set."""

    deleted: tuple[Str, ...]
    """The ids of the sessions, or the name of the other."""

class ToolInfo(Open):
    """A tool that agents may call."""

    name: Str
    """Its name."""
    description: Str
    """Its description."""
    mode: Str
    """Its mode."""
    effect: Str
    """Its class of effect."""
    agents: tuple[Str, ...]
    """The agents that have it."""
    input_schema: JsonObject
    """The JSON Schema of its arguments."""

class ToolList(Open):
    """All tools of all agents."""

    tools: tuple[ToolInfo, ...]
    """The tools."""

class AgentInfo(Open):
    """An agent that runs can be started with."""

    agent_id: Str
    """Its id."""
    description: Str
    """Its description."""
    model: Str
    """Its model."""
    tools: tuple[Str, ...]
    """The names of its tools."""
    subagents: tuple[Str, ...]
    """The ids of its subagents."""
    version: Maybe[Str] = None
    """Its version, as its author calls it."""
    problem: Maybe[Str] = None
    """Why it cannot run yet, such as a missing key, and what to do; absent if it can."""

class AgentList(Open):
    """All agents of a server."""

    agents: tuple[AgentInfo, ...]
    """The agents."""

class Health(Open):
    """The health of a server."""

    status: Literal["ok", "closing"]
    """`closing` while the server shuts down."""
    version: Str
    """The version of the server."""
    pid: Maybe[Count] = None
    """The id of its process, told by a server that is open to its own machine alone."""
    problem: Maybe[Str] = None
    """Why requests that write are refused now; the server is alive, and ready again without a restart."""

class RunNumbers(Open):
    """Counts, durations and cost of runs."""

    runs: Count
    """Number of runs that started."""
    completed: Count
    """Of those, the ones that completed."""
    failed: Count
    """Of those, the ones that failed or used up their budget."""
    cancelled: Count
    """Of those, the ones that were cancelled."""
    open: Count
    """Of those, the ones that have not ended."""
    input_tokens: Count
    """Input tokens."""
    output_tokens: Count
    """Output tokens."""
    cost_micros: Count
    """Cost in millionths of a dollar."""
    cache_read_tokens: Maybe[Count] = None
    """Input tokens that came from the cache of a provider."""
    p50_ms: Maybe[Count] = None
    """Median duration, waits included."""
    p95_ms: Maybe[Count] = None
    """95th percentile of the duration."""

class StatsBucket(Open):
    """Counts, durations and cost of the runs that started in one interval."""

    at: Timestamp
    """The start of the interval."""
    runs: Count
    """Number of runs that started."""
    completed: Count
    """Of those, the ones that completed."""
    failed: Count
    """Of those, the ones that failed or used up their budget."""
    cancelled: Count
    """Of those, the ones that were cancelled."""
    open: Count
    """Of those, the ones that have not ended."""
    input_tokens: Count
    """Input tokens."""
    output_tokens: Count
    """Output tokens."""
    cost_micros: Count
    """Cost in millionths of a dollar."""
    cache_read_tokens: Maybe[Count] = None
    """Input tokens that came from the cache of a provider."""
    p50_ms: Maybe[Count] = None
    """Median duration, waits included."""
    p95_ms: Maybe[Count] = None
    """95th percentile of the duration."""

class WaitingNumbers(Open):
    """Counts of what waits for people now."""

    runs: Count
    """Runs that wait."""
    requests: Count
    """Open requests."""
    oldest_asked_at: Maybe[Timestamp] = None
    """When the oldest open request was asked."""

class FailingTool(Open):
    """A tool with its calls and failures."""

    tool: Str
    """The tool."""
    calls: Count
    """Number of calls."""
    failed: Count
    """Of those, the ones that failed."""

class ToolBucket(Open):
    """Calls of a tool by runs that started in one interval."""

    at: Timestamp
    """The start of the interval."""
    calls: Count
    """Number of calls."""
    failed: Count
    """Of those, the ones that failed."""
    mean_ms: Maybe[Count] = None
    """Milliseconds that a call took on average; absent without calls that ended."""

class ToolGroup(Open):
    """The calls of one tool over time."""

    tool: Str
    """The tool."""
    calls: Count
    """Number of calls."""
    failed: Count
    """Of those, the ones that failed."""
    buckets: tuple[ToolBucket, ...]
    """Every interval, oldest first."""
    mean_ms: Maybe[Count] = None
    """Milliseconds that a call took on average; absent without calls that ended."""

class StatsGroup(Open):
    """The runs of one agent, model or version over time."""

    name: Str
    """The agent, the model, or the fingerprint of the version."""
    total: RunNumbers
    """The whole time."""
    buckets: tuple[StatsBucket, ...]
    """Every interval, oldest first."""

class Stats(Open):
    """Runs over time; a run counts where it started."""

    since: Timestamp
    """The start of the time."""
    until: Timestamp
    """The end of the time, exclusive."""
    bucket_s: Positive
    """Seconds per interval."""
    total: RunNumbers
    """The whole time."""
    buckets: tuple[StatsBucket, ...]
    """Every interval, oldest first."""
    waiting: WaitingNumbers
    """What waits for people now."""
    failing_tools: tuple[FailingTool, ...]
    """Tools that failed, the highest rate first; those with few calls come last."""
    groups: Maybe[tuple[StatsGroup, ...]] = None
    """The same runs by agent, model or version, most runs first; absent unless asked for."""
    tools: Maybe[tuple[ToolGroup, ...]] = None
    """The calls of the runs by tool, most calls first; absent unless asked for."""

class FailureCause(Open):
    """Failures with the same error text, numbers and ids aside."""

    told: Str
    """The text of the newest one."""
    count: Count
    """Number of runs."""
    run_ids: tuple[Str, ...]
    """The runs, newest first."""

class FailureGroup(Open):
    """Runs that failed for one kind of reason."""

    kind: Str
    """The kind: one of FailureKind; more may come."""
    count: Count
    """Number of runs."""
    causes: tuple[FailureCause, ...]
    """The causes, most frequent first."""

class Failures(Open):
    """Why runs failed, the most frequent reason first."""

    runs: Count
    """Runs that were counted: those that have ended."""
    failed: Count
    """Of those, the ones that failed."""
    is_all: Bool
    """False if there are more runs than were counted."""
    groups: tuple[FailureGroup, ...]
    """The kinds of reasons."""

class AgentVersion(Open):
    """A version of an agent, with the results of its runs."""

    first_at: Timestamp
    """Start of its first run."""
    last_at: Timestamp
    """Start of its last run."""
    tally: VersionTally
    """Results of its runs."""

class AgentVersions(Open):
    """Versions of an agent, newest first."""

    agent_id: Str
    """The agent."""
    versions: tuple[AgentVersion, ...]
    """The versions that have runs."""
    current: Maybe[Str] = None
    """Fingerprint of the version that new runs get."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class AgentComparison(Open):
    """Two versions of an agent side by side."""

    agent_id: Str
    """The agent."""
    comparison: VersionComparison
    """The results of both."""
    changes: Maybe[tuple[Str, ...]] = None
    """The parts that changed, in words; absent if a version is no longer stored."""
    differences: Maybe[tuple[PackageDifference, ...]] = None
    """The values that changed, such as instructions; absent if a version is no longer stored."""

class ProposalWork(Open):
    """Work on a proposal: under way, or failed."""

    proposal_id: Str
    """The proposal."""
    kind: Str
    """The kind of work: propose or check; more may come."""
    status: Str
    """The status of the work: working or failed; more may come."""
    started_at: Timestamp
    """When the work started."""
    problem: Maybe[Str] = None
    """Why it failed."""
    goal_id: Maybe[Str] = None
    """The goal."""
    agent_id: Maybe[Str] = None
    """The agent."""

class ProposalView(Open):
    """A proposal, its check, and the verdict about it."""

    proposal: Proposal
    """The change and its reasons."""
    status: Str
    """The status: open, accepted, refused or applied; more may come."""
    work: tuple[ProposalWork, ...]
    """Work that is under way, or failed."""
    check: Maybe[ProposalCheck] = None
    """Results on recorded runs."""
    settled: Maybe[ProposalSettledData] = None
    """The verdict."""
    settled_at: Maybe[Timestamp] = None
    """When the verdict was given."""
    applied: Maybe[ProposalAppliedData] = None
    """The change that was made."""
    applied_at: Maybe[Timestamp] = None
    """When the change was made."""

class ProposalList(Open):
    """Proposals, newest first."""

    proposals: tuple[ProposalView, ...]
    """The proposals."""
    work: tuple[ProposalWork, ...]
    """Work that is under way, or failed."""
    next: Maybe[Str] = None
    """The value of `after` for the next page; absent on the last page."""

class ProposalAccepted(Open):
    """Work on a proposal that was accepted."""

    proposal_id: Str
    """The proposal."""

class ProblemIssue(Open):
    """A place where a request does not fit its route."""

    path: Str
    """The place."""
    message: Str
    """What was expected."""

class ProblemDetails(Open):
    """An error of the server, as RFC 9457 problem details."""

    type: Str
    """A URN for the kind of problem."""
    title: Str
    """The status in words."""
    status: Annotated[int, Whole(100, 599)]
    """The HTTP status."""
    detail: Str
    """What happened and what to do."""
    code: Str
    """A stable code for programs."""
    ids: dict[str, Str]
    """Ids of what the problem is about."""
    instance: Maybe[Str] = None
    """A URN with the id of the HTTP request, that of the header `x-request-id`."""
    policy_code: Maybe[Str] = None
    """The code of the decision, if a policy refused the start of a run."""
    issues: Maybe[tuple[ProblemIssue, ...]] = None
    """Where the request does not fit the route."""

class StepCost(Open):
    """What a model call cost."""

    step_index: Count
    """The step."""
    model_id: Str
    """The model."""
    usage: Usage
    """What it used."""
    price: Maybe[Price] = None
    """How the cost was found, or why there is none."""
    loss: Maybe[CacheLoss] = None
    """What it paid for again, because it was in the cache no more."""

class UsageShare(Open):
    """What a model or a subagent used."""

    name: Str
    """The model or the subagent."""
    usage: Usage
    """What it used."""

class ToolCost(Open):
    """What the results of a tool cost in later prompts."""

    tool: Str
    """The tool."""
    calls: Count
    """Its results."""
    result_tokens: Count
    """Tokens of its results, as estimated."""
    prompt_tokens: Count
    """The same tokens, counted with each prompt that had them."""
    cost_micros: Count
    """Their part of the cost of these prompts, in millionths of a US dollar."""

class ResultCost(Open):
    """What a result of a tool cost in later prompts."""

    call_id: Id
    """The call."""
    tool: Str
    """The tool."""
    tokens: Count
    """Its tokens, as estimated."""
    prompts: Count
    """The prompts that had it: so often its tokens were paid for."""
    cost_micros: Count
    """Its part of the cost of these prompts, in millionths of a US dollar."""

class RunCosts(Open):
    """Where the money of a run went, as far as it is recorded."""

    steps: tuple[StepCost, ...]
    """Model calls that answered, in their order."""
    models: tuple[UsageShare, ...]
    """What each model used, calls that failed and summaries included."""
    subagents: tuple[UsageShare, ...]
    """What each subagent used."""
    tools: tuple[ToolCost, ...]
    """What the results of each tool cost in later prompts, the most expensive first."""
    results: tuple[ResultCost, ...]
    """The twenty results that cost most in later prompts."""
