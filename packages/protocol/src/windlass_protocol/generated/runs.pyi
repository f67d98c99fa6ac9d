# Generated from spec/runs.schema.json by `make gen`. Do not edit.
"""One turn of a session, from an input to its end."""

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from windlass_protocol._wire import Bool, Closed, JsonObject, KeepsNulls, Maybe, Open, Str
from windlass_protocol.generated.common import Count, Id, SourceRef, Timestamp, Usage
from windlass_protocol.generated.errors import ErrorInfo
from windlass_protocol.generated.output import OutputContract
from windlass_protocol.generated.policy import BudgetLimits
from windlass_protocol.generated.sessions import RunMode, SessionCapabilities, UserContent

class RunStatus(StrEnum):
    """Where a run is; the last four are final."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"

class RunRequest(Closed):
    """Asks for a run."""

    run_id: Id
    """Identifier of the run, chosen by the caller: the same request again is the same run, another one under
    it is refused.
    """
    agent_id: Id
    """Agent that runs."""
    input: UserContent
    """What the user says."""
    session_id: Maybe[Id] = None
    """Session to go on with; a new one when absent."""
    turn_id: Maybe[Id] = None
    """Identifier of the turn."""
    source: Maybe[SourceRef] = None
    """Where the request comes from."""
    owner: Maybe[Id] = None
    """The owner of the session; none when absent. A start that names another owner is refused."""
    package_id: Maybe[Id] = None
    """Package to run under; when absent that of the agent, or the default one."""
    output_contract: Maybe[OutputContract] = None
    """What the run must return."""
    mode: Maybe[RunMode] = None
    """conversation when absent."""
    capabilities: Maybe[SessionCapabilities] = None
    """What the channel of the request can do; everything when absent."""
    budget: Maybe[BudgetLimits] = None
    """Most that the run may use."""
    batch: Maybe[Literal["within 24h", "off"]] = None
    """Whether its model calls are items of batches, whatever its package says; as the package says when
    absent.
    """
    context: Maybe[tuple[Str, ...]] = None
    """Texts added before the input."""
    metadata: Maybe[JsonObject] = None
    """Free JSON of the caller."""
    goal_id: Maybe[Str] = None
    """Goal it pursues, to find the runs of one goal together."""
    goal_description: Maybe[Str] = None
    """The goal, for people; what the user says when absent."""

class RunResult(KeepsNulls, Open):
    """What came of a run. Sealed: it equals what the journal says."""

    run_id: Id
    """The run."""
    status: RunStatus
    """How it ended."""
    output: Str
    """The final text; empty when there is none."""
    session_id: Maybe[Id] = None
    """Its session."""
    structured_output: JsonValue = None
    """The validated output, when the run had a contract."""
    error: Maybe[ErrorInfo] = None
    """Why it failed, or which budget it used up."""
    reason: Maybe[Str] = None
    """Why it was cancelled, as the caller gave it."""
    usage: Maybe[Usage] = None
    """What it used."""

class RunWait(Open):
    """What a run waits for."""

    on: Str
    """What for: input, recovery, subagent, provider, batch, timer or budget."""
    since: Maybe[Timestamp] = None
    """When it began to wait."""
    until: Maybe[Timestamp] = None
    """When it stops waiting."""
    reason: Maybe[Str] = None
    """Why, for people."""

class PlaygroundOrigin(Open):
    """The step of a run that a playground run repeats."""

    run_id: Id
    """The run."""
    session_id: Id
    """Its session."""
    step_index: Count
    """The step, from 0."""
    size: Literal["call", "run"]
    """What is run again: this model call alone, or all that follows it."""
    calls: Literal["recorded", "real"]
    """How calls are answered: from the record, or by the tools themselves."""

class RunSnapshot(Open):
    """Where a run is now."""

    run_id: Id
    """The run."""
    agent_id: Id
    """Its agent."""
    status: RunStatus
    """Where it is."""
    package_id: Id
    """Its package."""
    package_fingerprint: Str
    """Fingerprint it is pinned to."""
    route_id: Id
    """Provider adapter."""
    model_id: Id
    """Model."""
    cancellation_requested: Bool
    """Whether a cancel was requested."""
    session_id: Maybe[Id] = None
    """Its session."""
    turn_id: Maybe[Id] = None
    """Its turn."""
    source: Maybe[SourceRef] = None
    """Where it came from."""
    waiting: Maybe[RunWait] = None
    """What it waits for, while it waits."""
    playground: Maybe[PlaygroundOrigin] = None
    """The step that it runs again, when it is a playground run."""

class WaitCause(StrEnum):
    """What a run waits for, in a filter; `person` is input or recovery."""

    INPUT = "input"
    RECOVERY = "recovery"
    PERSON = "person"
    SUBAGENT = "subagent"
    PROVIDER = "provider"
    BATCH = "batch"
    TIMER = "timer"
    BUDGET = "budget"

class RunSort(StrEnum):
    """What runs are sorted by."""

    STARTED = "started"
    DURATION = "duration"
    COST = "cost"

class SessionSort(StrEnum):
    """What sessions are sorted by."""

    CREATED = "created"
    UPDATED = "updated"
    COST = "cost"
