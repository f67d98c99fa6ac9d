# Generated from spec/rest.schema.json by `make gen`. Do not edit.
"""Bodies of requests and answers of the HTTP server.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_NewSession() -> object:
    from typing import Annotated, Literal

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Closed, JsonObject, Maybe, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.policy import BudgetLimits
    from windlass_protocol.generated.sessions import RunMode, UserContent

    class NewSession(Closed):
        """Body of `POST /sessions`: a session, with its first message or without."""

        __qualname__ = "NewSession"

        message: Maybe[UserContent] = None
        agent: Maybe[Id] = None
        mode: Maybe[RunMode] = None
        output_schema: Maybe[JsonObject] = None
        context: Maybe[Annotated[tuple[Str, ...], Field(max_length=64)]] = None
        metadata: Maybe[JsonObject] = None
        budget: Maybe[BudgetLimits] = None
        batch: Maybe[Literal["within 24h", "off"]] = None
        goal: Maybe[Id] = None
        chat_id: Maybe[Id] = None
        current_stage: Maybe[Id] = None
        scenario: Maybe[Annotated[Str, StringConstraints(max_length=512)]] = None
        stage_data: Maybe[JsonObject] = None
        project_id: Maybe[Annotated[Str, StringConstraints(max_length=512)]] = None

    return NewSession


def _make_NewMessage() -> object:
    from typing import Annotated, Literal

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Closed, ExactlyOne, JsonObject, Maybe, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.input import InputResponse
    from windlass_protocol.generated.policy import BudgetLimits
    from windlass_protocol.generated.sessions import RunMode, UserContent

    class NewMessage(ExactlyOne, Closed):
        """Body of `POST /sessions/{id}/messages`: a message, or responses to what the session asks."""

        __qualname__ = "NewMessage"

        __exactly_one_of__ = ("message", "responses")

        message: Maybe[UserContent] = None
        responses: Maybe[Annotated[tuple[InputResponse, ...], Field(min_length=1, max_length=64)]] = None
        continuation_token: Maybe[Annotated[Str, StringConstraints(max_length=64)]] = None
        delivery: Maybe[Literal["queue", "steer"]] = None
        agent: Maybe[Id] = None
        mode: Maybe[RunMode] = None
        output_schema: Maybe[JsonObject] = None
        context: Maybe[Annotated[tuple[Str, ...], Field(max_length=64)]] = None
        metadata: Maybe[JsonObject] = None
        budget: Maybe[BudgetLimits] = None
        batch: Maybe[Literal["within 24h", "off"]] = None
        goal: Maybe[Id] = None

    return NewMessage


def _make_Cancel() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Closed, Maybe, Str

    class Cancel(Closed):
        """Body of a request to cancel a run."""

        __qualname__ = "Cancel"

        reason: Maybe[Annotated[Str, StringConstraints(max_length=1000)]] = None

    return Cancel


def _make_RetryRun() -> object:
    from windlass_protocol._wire import Closed, Maybe
    from windlass_protocol.generated.policy import BudgetLimits

    class RetryRun(Closed):
        """Body of a request to continue a failed run."""

        __qualname__ = "RetryRun"

        budget: Maybe[BudgetLimits] = None

    return RetryRun


def _make_Answer() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Closed, JsonObject, Maybe, Str
    from windlass_protocol.generated.common import Id, Sha256

    class Answer(Closed):
        """Body of `POST /approvals/{id}`: an option of the request, a text, or both."""

        __qualname__ = "Answer"

        option_id: Maybe[Id] = None
        text: Maybe[Annotated[Str, StringConstraints(max_length=100000)]] = None
        arguments_hash: Maybe[Sha256] = None
        arguments: Maybe[JsonObject] = None

    return Answer


def _make_Fork() -> object:
    from windlass_protocol._wire import Closed, Maybe
    from windlass_protocol.generated.common import Positive

    class Fork(Closed):
        """Body of `POST /sessions/{id}/fork`."""

        __qualname__ = "Fork"

        at: Maybe[Positive] = None

    return Fork


def _make_NewFeedback() -> object:
    from typing import Annotated, Literal

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Closed, Float, Maybe, Str
    from windlass_protocol.generated.common import Count, Id

    class NewFeedback(Closed):
        """Body of `POST /runs/{id}/feedback`."""

        __qualname__ = "NewFeedback"

        thumb: Maybe[Literal["up", "down"]] = None
        score: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
        note: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=4000)]] = None
        tags: Maybe[
            Annotated[
                tuple[Annotated[Str, StringConstraints(min_length=1, max_length=64)], ...],
                Field(max_length=16),
            ]
        ] = None
        step_index: Maybe[Count] = None
        message_id: Maybe[Id] = None

    return NewFeedback


def _make_NewRunEvent() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Closed, KeepsNulls, Maybe
    from windlass_protocol.generated.common import Id

    class NewRunEvent(KeepsNulls, Closed):
        """Body of `POST /runs/{id}/events`."""

        __qualname__ = "NewRunEvent"

        name: Id
        data: JsonValue = None
        key: Maybe[Id] = None

    return NewRunEvent


def _make_NewProposal() -> object:
    from windlass_protocol._wire import Closed, Maybe
    from windlass_protocol.generated.common import Id

    class NewProposal(Closed):
        """Body of `POST /proposals`: the goal of a change."""

        __qualname__ = "NewProposal"

        goal: Id
        agent: Maybe[Id] = None

    return NewProposal


def _make_ProposalTrial() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Closed, Maybe, Whole
    from windlass_protocol.generated.common import Id

    class ProposalTrial(Closed):
        """Body of `POST /proposals/{id}/check`: the runs to repeat."""

        __qualname__ = "ProposalTrial"

        run_ids: Maybe[Annotated[tuple[Id, ...], Field(min_length=1, max_length=100)]] = None
        repeats: Maybe[Annotated[int, Whole(1, 20)]] = None

    return ProposalTrial


def _make_Verdict() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Closed, Maybe, Str

    class Verdict(Closed):
        """Body of a decision about a proposal."""

        __qualname__ = "Verdict"

        reason: Maybe[Annotated[Str, StringConstraints(max_length=4000)]] = None
        fingerprint: Maybe[Str] = None

    return Verdict


def _make_NewDataset() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Closed, Str

    class NewDataset(Closed):
        """A data set without cases."""

        __qualname__ = "NewDataset"

        name: Annotated[Str, StringConstraints(min_length=1, max_length=200)]

    return NewDataset


def _make_NewDatasetCase() -> object:
    from typing import Annotated

    from pydantic import Field, JsonValue, StringConstraints

    from windlass_protocol._wire import Closed, JsonObject, KeepsNulls, Maybe, Str
    from windlass_protocol.generated.common import Id

    class NewDatasetCase(KeepsNulls, Closed):
        """A case to add to a data set: from a recorded run, from `inputs`, or from a run with other inputs or
        another expected answer.
        """

        __qualname__ = "NewDatasetCase"

        name: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=200)]] = None
        run_id: Maybe[Id] = None
        inputs: JsonValue = None
        expected: JsonValue = None
        tags: Maybe[
            Annotated[
                tuple[Annotated[Str, StringConstraints(min_length=1, max_length=200)], ...],
                Field(max_length=100),
            ]
        ] = None
        metadata: Maybe[JsonObject] = None

    return NewDatasetCase


def _make_DatasetCaseChange() -> object:
    from typing import Annotated

    from pydantic import Field, JsonValue, StringConstraints

    from windlass_protocol._wire import Closed, JsonObject, KeepsNulls, Maybe, Str

    class DatasetCaseChange(KeepsNulls, Closed):
        """What to change of a case; the rest stays as it is."""

        __qualname__ = "DatasetCaseChange"

        name: Annotated[Str, StringConstraints(min_length=1, max_length=200)]
        inputs: JsonValue = None
        expected: JsonValue = None
        tags: Maybe[
            Annotated[
                tuple[Annotated[Str, StringConstraints(min_length=1, max_length=200)], ...],
                Field(max_length=100),
            ]
        ] = None
        metadata: Maybe[JsonObject] = None

    return DatasetCaseChange


def _make_Accepted() -> object:
    from windlass_protocol._wire import Maybe, Open, Str

    class Accepted(Open):
        """Work that was accepted: it is durable."""

        __qualname__ = "Accepted"

        session_id: Str
        run_id: Maybe[Str] = None
        message_id: Maybe[Str] = None
        continuation_token: Maybe[Str] = None

    return Accepted


def _make_AcceptedRun() -> object:
    from windlass_protocol._wire import Maybe, Open, Str

    class AcceptedRun(Open):
        """A run that was accepted: it is durable."""

        __qualname__ = "AcceptedRun"

        session_id: Str
        run_id: Str
        continuation_token: Maybe[Str] = None

    return AcceptedRun


def _make_SessionStatus() -> object:
    from enum import StrEnum

    class SessionStatus(StrEnum):
        """Status of the newest run of a session; `idle` without one."""

        __qualname__ = "SessionStatus"

        IDLE = "idle"
        PENDING = "pending"
        RUNNING = "running"
        WAITING = "waiting"
        CANCELLING = "cancelling"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        BUDGET_EXHAUSTED = "budget_exhausted"

    return SessionStatus


def _make_SessionInfo() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Timestamp, Usage
    from windlass_protocol.generated.rest import SessionStatus

    class SessionInfo(Open):
        """A session as lists show it."""

        __qualname__ = "SessionInfo"

        session_id: Str
        title: Str
        agent_id: Str
        status: SessionStatus
        created_at: Timestamp
        updated_at: Timestamp
        run_count: Count
        request_count: Count
        usage: Usage
        root_session_id: Str
        parent_session_id: Maybe[Str] = None
        predecessor_id: Maybe[Str] = None
        predecessor_seq: Maybe[Count] = None
        output: Maybe[Str] = None
        error_message: Maybe[Str] = None
        waits_for: Maybe[Str] = None
        waits_on: Maybe[Str] = None
        error: Maybe[Str] = None
        crashes: Maybe[Count] = None
        continuation_token: Maybe[Str] = None

    return SessionInfo


def _make_SessionPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import SessionInfo

    class SessionPage(Open):
        """A page of sessions."""

        __qualname__ = "SessionPage"

        sessions: tuple[SessionInfo, ...]
        next: Maybe[Str] = None
        total: Maybe[Count] = None

    return SessionPage


def _make_AgentSessionList() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.chat import AgentSession

    class AgentSessionList(Open):
        """Sessions as AgentSession documents, newest first."""

        __qualname__ = "AgentSessionList"

        sessions: tuple[AgentSession, ...]
        next: Maybe[Str] = None

    return AgentSessionList


def _make_HistoryPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.chat import ChatMessage

    class HistoryPage(Open):
        """A page of messages of a session, oldest first."""

        __qualname__ = "HistoryPage"

        messages: tuple[ChatMessage, ...]
        next: Maybe[Str] = None

    return HistoryPage


def _make_RunRow() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Integer, Timestamp, Usage
    from windlass_protocol.generated.runs import RunStatus

    class RunRow(Open):
        """A run as lists show it."""

        __qualname__ = "RunRow"

        run_id: Str
        session_id: Str
        agent_id: Str
        status: RunStatus
        usage: Usage
        started_at: Maybe[Timestamp] = None
        ended_at: Maybe[Timestamp] = None
        at: Maybe[Str] = None
        package_fingerprint: Maybe[Str] = None
        owner: Maybe[Str] = None
        input: Maybe[Str] = None
        output: Maybe[Str] = None
        error_message: Maybe[Str] = None
        waits_for: Maybe[Str] = None
        waits_on: Maybe[Str] = None
        error: Maybe[Str] = None
        crashes: Maybe[Count] = None
        tags: Maybe[tuple[Str, ...]] = None
        rating: Maybe[Integer] = None
        is_playground: Maybe[Bool] = None

    return RunRow


def _make_RunPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import RunRow

    class RunPage(Open):
        """A page of runs."""

        __qualname__ = "RunPage"

        runs: tuple[RunRow, ...]
        next: Maybe[Str] = None
        total: Maybe[Count] = None

    return RunPage


def _make_FeedbackInfo() -> object:
    from typing import Annotated, Literal

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Float, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Timestamp

    class FeedbackInfo(Open):
        """What a person said of a run, a step or an answer."""

        __qualname__ = "FeedbackInfo"

        at: Timestamp
        run_id: Str
        thumb: Maybe[Literal["up", "down"]] = None
        score: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
        note: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=4000)]] = None
        tags: Maybe[
            Annotated[
                tuple[Annotated[Str, StringConstraints(min_length=1, max_length=64)], ...],
                Field(max_length=16),
            ]
        ] = None
        step_index: Maybe[Count] = None
        message_id: Maybe[Id] = None
        by: Maybe[Str] = None

    return FeedbackInfo


def _make_FeedbackList() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import FeedbackInfo

    class FeedbackList(Open):
        """The feedback of a run, oldest first."""

        __qualname__ = "FeedbackList"

        feedback: tuple[FeedbackInfo, ...]
        next: Maybe[Str] = None

    return FeedbackList


def _make_RefusedStart() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import PolicyRef, SourceRef, Timestamp
    from windlass_protocol.generated.errors import ErrorCode, ErrorKind, RetryClass

    class RefusedStart(Open):
        """A start of a run that was refused: who asked for what, and the error. It holds no input."""

        __qualname__ = "RefusedStart"

        at: Timestamp
        code: ErrorCode
        kind: ErrorKind
        retry: RetryClass
        message: Str
        run_id: Maybe[Str] = None
        session_id: Maybe[Str] = None
        agent_id: Maybe[Str] = None
        owner: Maybe[Str] = None
        source: Maybe[SourceRef] = None
        policy_code: Maybe[Str] = None
        policy_refs: Maybe[tuple[PolicyRef, ...]] = None

    return RefusedStart


def _make_RefusedStartPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import RefusedStart

    class RefusedStartPage(Open):
        """A page of refused starts, newest first."""

        __qualname__ = "RefusedStartPage"

        refused_starts: tuple[RefusedStart, ...]
        next: Maybe[Str] = None

    return RefusedStartPage


def _make_MissedTicks() -> object:
    from enum import StrEnum

    class MissedTicks(StrEnum):
        """Which ticks that passed while no process was running are made up for: none, the last one, or all."""

        __qualname__ = "MissedTicks"

        SKIP = "skip"
        ONCE = "once"
        ALL = "all"

    return MissedTicks


def _make_TickOverlap() -> object:
    from enum import StrEnum

    class TickOverlap(StrEnum):
        """What happens at a tick while the run of an earlier one goes on: it is skipped or queued, or the earlier
        run is cancelled.
        """

        __qualname__ = "TickOverlap"

        SKIP = "skip"
        QUEUE = "queue"
        CANCEL = "cancel"

    return TickOverlap


def _make_LimitPeriod() -> object:
    from enum import StrEnum

    class LimitPeriod(StrEnum):
        """What a limit is for: each run, or all runs of a day or a month together."""

        __qualname__ = "LimitPeriod"

        RUN = "run"
        DAY = "day"
        MONTH = "month"

    return LimitPeriod


def _make_LimitChoice() -> object:
    from enum import StrEnum

    class LimitChoice(StrEnum):
        """What happens to a run of which the next answer does not fit a limit: it ends, it asks a person to let
        it spend more, or a cheaper fallback model goes on.
        """

        __qualname__ = "LimitChoice"

        REFUSE = "refuse"
        ASK = "ask"
        CHEAPER = "cheaper"

    return LimitChoice


def _make_NewLimit() -> object:
    from typing import Annotated

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Closed, Maybe, Str
    from windlass_protocol.generated.common import Id, Positive
    from windlass_protocol.generated.rest import LimitChoice, LimitPeriod

    class NewLimit(Closed):
        """What runs may spend: each of them, or all together in a day or a month."""

        __qualname__ = "NewLimit"

        name: Annotated[Str, StringConstraints(min_length=1, max_length=128, pattern="^[^/]+$")]
        per: LimitPeriod
        max_cost_micros: Maybe[Positive] = None
        max_tokens: Maybe[Positive] = None
        owner: Maybe[Id] = None
        agent: Maybe[Id] = None
        timezone: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=64)]] = None
        at_limit: Maybe[LimitChoice] = None
        responders: Maybe[Annotated[tuple[Id, ...], Field(min_length=1, max_length=64)]] = None

    return NewLimit


def _make_LimitInfo() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Timestamp
    from windlass_protocol.generated.rest import LimitChoice, LimitPeriod

    class LimitInfo(Open):
        """A limit, and what is left of it for an owner or an agent."""

        __qualname__ = "LimitInfo"

        name: Str
        per: LimitPeriod
        timezone: Str
        max_cost_micros: Maybe[Count] = None
        max_tokens: Maybe[Count] = None
        owner: Maybe[Str] = None
        agent: Maybe[Str] = None
        at_limit: Maybe[LimitChoice] = None
        responders: Maybe[tuple[Str, ...]] = None
        subject: Maybe[Str] = None
        period: Maybe[Str] = None
        ends_at: Maybe[Timestamp] = None
        cost_micros: Maybe[Count] = None
        tokens: Maybe[Count] = None
        held_micros: Maybe[Count] = None
        held_tokens: Maybe[Count] = None
        cost_micros_left: Maybe[Count] = None
        tokens_left: Maybe[Count] = None

    return LimitInfo


def _make_LimitList() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import LimitInfo

    class LimitList(Open):
        """Limits by name, each with what is left of it."""

        __qualname__ = "LimitList"

        limits: tuple[LimitInfo, ...]
        next: Maybe[Str] = None

    return LimitList


def _make_NewSchedule() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Closed, Maybe, Str
    from windlass_protocol.generated.common import Count, Id, Positive
    from windlass_protocol.generated.rest import MissedTicks, TickOverlap

    class NewSchedule(Closed):
        """When an agent is to be run, and with which message. One of `cron`, `everyS` and `at` says when."""

        __qualname__ = "NewSchedule"

        name: Annotated[Str, StringConstraints(min_length=1, max_length=128)]
        agent: Id
        message: Annotated[Str, StringConstraints(min_length=1, max_length=100000)]
        cron: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=256)]] = None
        every_s: Maybe[Positive] = None
        at: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=64)]] = None
        timezone: Maybe[Annotated[Str, StringConstraints(min_length=1, max_length=64)]] = None
        missed: Maybe[MissedTicks] = None
        overlap: Maybe[TickOverlap] = None
        jitter_s: Maybe[Count] = None
        session_id: Maybe[Id] = None

    return NewSchedule


def _make_ScheduleInfo() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Positive, Timestamp
    from windlass_protocol.generated.rest import MissedTicks, TickOverlap

    class ScheduleInfo(Open):
        """A schedule, and what is known about its ticks."""

        __qualname__ = "ScheduleInfo"

        name: Str
        agent: Str
        message: Str
        timezone: Str
        missed: MissedTicks
        overlap: TickOverlap
        jitter_s: Count
        is_paused: Bool
        started: Count
        skipped: Count
        queued: Count
        cron: Maybe[Str] = None
        every_s: Maybe[Positive] = None
        at: Maybe[Str] = None
        session_id: Maybe[Str] = None
        owner: Maybe[Str] = None
        next_at: Maybe[Timestamp] = None
        last_at: Maybe[Timestamp] = None
        last_run_id: Maybe[Str] = None
        error: Maybe[Str] = None

    return ScheduleInfo


def _make_SchedulePage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import ScheduleInfo

    class SchedulePage(Open):
        """A page of schedules, by name."""

        __qualname__ = "SchedulePage"

        schedules: tuple[ScheduleInfo, ...]
        next: Maybe[Str] = None

    return SchedulePage


def _make_ScheduleTick() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id, Timestamp
    from windlass_protocol.generated.runs import RunStatus

    class ScheduleTick(Open):
        """A moment at which a schedule was to start a run."""

        __qualname__ = "ScheduleTick"

        at: Timestamp
        run_id: Maybe[Id] = None
        status: Maybe[RunStatus] = None

    return ScheduleTick


def _make_ScheduleTicks() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.rest import ScheduleTick

    class ScheduleTicks(Open):
        """The ticks of a schedule around now."""

        __qualname__ = "ScheduleTicks"

        next: tuple[Timestamp, ...]
        last: tuple[ScheduleTick, ...]

    return ScheduleTicks


def _make_DeliveryInfo() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Timestamp

    class DeliveryInfo(Open):
        """A notification or a message of a channel that was not taken yet."""

        __qualname__ = "DeliveryInfo"

        delivery_id: Str
        target: Str
        session_id: Str
        attempts: Count
        is_dead: Bool
        created_at: Timestamp
        run_id: Maybe[Str] = None
        event: Maybe[Str] = None
        owner: Maybe[Str] = None
        problem: Maybe[Str] = None
        next_at: Maybe[Timestamp] = None

    return DeliveryInfo


def _make_DeliveryPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import DeliveryInfo

    class DeliveryPage(Open):
        """A page of deliveries, by id."""

        __qualname__ = "DeliveryPage"

        deliveries: tuple[DeliveryInfo, ...]
        next: Maybe[Str] = None

    return DeliveryPage


def _make_RunInfo() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.input import InputRequest
    from windlass_protocol.generated.rest import RunRow
    from windlass_protocol.generated.runs import RunResult, RunSnapshot

    class RunInfo(Open):
        """A run: its state, open requests and result."""

        __qualname__ = "RunInfo"

        run: RunSnapshot
        requests: tuple[InputRequest, ...]
        row: Maybe[RunRow] = None
        result: Maybe[RunResult] = None

    return RunInfo


def _make_UndoStatus() -> object:
    from enum import StrEnum

    class UndoStatus(StrEnum):
        """Whether a call can be reversed: reversible; reversed, if it was; no_undo, if its tool says no way;
        unknown, if it is not known to have taken effect.
        """

        __qualname__ = "UndoStatus"

        REVERSIBLE = "reversible"
        REVERSED = "reversed"
        NO_UNDO = "no_undo"
        UNKNOWN = "unknown"

    return UndoStatus


def _make_UndoItem() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.rest import UndoStatus

    class UndoItem(Open):
        """A call of a run that may have changed something."""

        __qualname__ = "UndoItem"

        call_id: Id
        tool_name: Str
        arguments: JsonValue
        status: UndoStatus
        undo_name: Maybe[Str] = None
        child_run_id: Maybe[Id] = None

    return UndoItem


def _make_UndoPlan() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.rest import UndoItem

    class UndoPlan(Open):
        """The calls of a run that may have changed something, newest first."""

        __qualname__ = "UndoPlan"

        run_id: Id
        calls: tuple[UndoItem, ...]

    return UndoPlan


def _make_ApprovalInfo() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.input import InputRequest

    class ApprovalInfo(Open):
        """An open request to a person, with its session and run."""

        __qualname__ = "ApprovalInfo"

        session_id: Str
        root_session_id: Str
        run_id: Str
        agent_id: Str
        asked_at: Timestamp
        request: InputRequest
        owner: Maybe[Str] = None

    return ApprovalInfo


def _make_ApprovalPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import ApprovalInfo

    class ApprovalPage(Open):
        """A page of open requests, oldest first."""

        __qualname__ = "ApprovalPage"

        requests: tuple[ApprovalInfo, ...]
        next: Maybe[Str] = None

    return ApprovalPage


def _make_SettledApproval() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.input import InputOutcome

    class SettledApproval(Open):
        """A request to a person that is closed: answered, or closed without an answer."""

        __qualname__ = "SettledApproval"

        request_id: Str
        session_id: Str
        run_id: Str
        outcome: InputOutcome
        at: Timestamp
        owner: Maybe[Str] = None
        option_id: Maybe[Str] = None
        responder: Maybe[Str] = None

    return SettledApproval


def _make_ApprovalView() -> object:
    from windlass_protocol._wire import ExactlyOne, Maybe, Open
    from windlass_protocol.generated.rest import ApprovalInfo, SettledApproval

    class ApprovalView(ExactlyOne, Open):
        """A request to a person, open or closed."""

        __qualname__ = "ApprovalView"

        __exactly_one_of__ = ("open", "settled")

        open: Maybe[ApprovalInfo] = None
        settled: Maybe[SettledApproval] = None

    return ApprovalView


def _make_TraceInfo() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.traces import HarnessTrace, TraceEvent, TraceSpan

    class TraceInfo(Open):
        """The trace of a run; its first span is the run."""

        __qualname__ = "TraceInfo"

        trace: HarnessTrace
        spans: tuple[TraceSpan, ...]
        events: tuple[TraceEvent, ...]
        seq: Maybe[Count] = None

    return TraceInfo


def _make_PromptTool() -> object:
    from windlass_protocol._wire import JsonObject, Open, Str

    class PromptTool(Open):
        """A tool as the model was offered it."""

        __qualname__ = "PromptTool"

        name: Str
        description: Str
        input_schema: JsonObject

    return PromptTool


def _make_PromptMessage() -> object:
    from typing import Literal

    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.sessions import UserPart
    from windlass_protocol.generated.tools import ToolCall

    class PromptMessage(Open):
        """A message as the model received it."""

        __qualname__ = "PromptMessage"

        role: Literal["system", "user", "assistant", "tool"]
        content: Str
        is_error: Bool
        tool_calls: Maybe[tuple[ToolCall, ...]] = None
        tool_call_id: Maybe[Str] = None
        name: Maybe[Str] = None
        reasoning: Maybe[Str] = None
        parts: Maybe[tuple[UserPart, ...]] = None

    return PromptMessage


def _make_StepPrompt() -> object:
    from windlass_protocol._wire import Float, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import PromptMessage, PromptTool

    class StepPrompt(Open):
        """The input of one model call, rebuilt from the journal."""

        __qualname__ = "StepPrompt"

        run_id: Str
        session_id: Str
        step_index: Count
        seq: Count
        system: Str
        tools: tuple[PromptTool, ...]
        messages: tuple[PromptMessage, ...]
        unknown: tuple[Str, ...]
        route_id: Maybe[Str] = None
        model_id: Maybe[Str] = None
        fingerprint: Maybe[Str] = None
        temperature: Maybe[Float] = None
        output_schema: Maybe[JsonObject] = None

    return StepPrompt


def _make_StepAnswer() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Usage
    from windlass_protocol.generated.event_data import FinishReason
    from windlass_protocol.generated.sessions import ToolCallPart

    class StepAnswer(Open):
        """The answer of one model call."""

        __qualname__ = "StepAnswer"

        text: Str
        calls: tuple[ToolCallPart, ...]
        reasoning: Maybe[Str] = None
        finish_reason: Maybe[FinishReason] = None
        usage: Maybe[Usage] = None
        latency_ms: Maybe[Count] = None
        error: Maybe[Str] = None

    return StepAnswer


def _make_PlaygroundDraft() -> object:
    from windlass_protocol._wire import Float, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import PromptTool, StepAnswer
    from windlass_protocol.generated.runs import PlaygroundOrigin
    from windlass_protocol.generated.sessions import ModelMessage

    class PlaygroundDraft(Open):
        """The parts of a model call that the playground can change, with the answer that it got."""

        __qualname__ = "PlaygroundDraft"

        run_id: Str
        session_id: Str
        step_index: Count
        agent_id: Str
        instructions: Str
        messages: tuple[ModelMessage, ...]
        tools: tuple[PromptTool, ...]
        model: Str
        models: tuple[Str, ...]
        unknown: tuple[Str, ...]
        temperature: Maybe[Float] = None
        output_schema: Maybe[JsonObject] = None
        answer: Maybe[StepAnswer] = None
        origin: Maybe[PlaygroundOrigin] = None

    return PlaygroundDraft


def _make_NewPlaygroundRun() -> object:
    from typing import Annotated, Literal

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Closed, Float, Maybe, Str
    from windlass_protocol.generated.sessions import ModelMessage

    class NewPlaygroundRun(Closed):
        """Changes of a recorded model call that is run again; what is left out is as it was recorded."""

        __qualname__ = "NewPlaygroundRun"

        instructions: Maybe[Str] = None
        messages: Maybe[Annotated[tuple[ModelMessage, ...], Field(min_length=1)]] = None
        tools: Maybe[dict[str, Str]] = None
        model: Maybe[Annotated[Str, StringConstraints(min_length=1)]] = None
        temperature: Maybe[Annotated[Float, Field(ge=0, le=2)]] = None
        size: Maybe[Literal["call", "run"]] = None
        calls: Maybe[Literal["recorded", "real"]] = None

    return NewPlaygroundRun


def _make_ContentList() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import ContentRef

    class ContentList(Open):
        """Contents of a session that are too large for a record."""

        __qualname__ = "ContentList"

        contents: tuple[ContentRef, ...]
        next: Maybe[Str] = None

    return ContentList


def _make_SafePoints() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Positive

    class SafePoints(Open):
        """Records at which a fork can begin, in order."""

        __qualname__ = "SafePoints"

        safe_points: tuple[Positive, ...]
        next: Maybe[Positive] = None

    return SafePoints


def _make_Deleted() -> object:
    from windlass_protocol._wire import Open, Str

    class Deleted(Open):
        """What was deleted: sessions, a schedule or a data set."""

        __qualname__ = "Deleted"

        deleted: tuple[Str, ...]

    return Deleted


def _make_ToolInfo() -> object:
    from windlass_protocol._wire import JsonObject, Open, Str

    class ToolInfo(Open):
        """A tool that agents may call."""

        __qualname__ = "ToolInfo"

        name: Str
        description: Str
        mode: Str
        effect: Str
        agents: tuple[Str, ...]
        input_schema: JsonObject

    return ToolInfo


def _make_ToolList() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.rest import ToolInfo

    class ToolList(Open):
        """All tools of all agents."""

        __qualname__ = "ToolList"

        tools: tuple[ToolInfo, ...]

    return ToolList


def _make_AgentInfo() -> object:
    from windlass_protocol._wire import Maybe, Open, Str

    class AgentInfo(Open):
        """An agent that runs can be started with."""

        __qualname__ = "AgentInfo"

        agent_id: Str
        description: Str
        model: Str
        tools: tuple[Str, ...]
        subagents: tuple[Str, ...]
        version: Maybe[Str] = None
        problem: Maybe[Str] = None

    return AgentInfo


def _make_AgentList() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.rest import AgentInfo

    class AgentList(Open):
        """All agents of a server."""

        __qualname__ = "AgentList"

        agents: tuple[AgentInfo, ...]

    return AgentList


def _make_Health() -> object:
    from typing import Literal

    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count

    class Health(Open):
        """The health of a server."""

        __qualname__ = "Health"

        status: Literal["ok", "closing"]
        version: Str
        pid: Maybe[Count] = None
        problem: Maybe[Str] = None

    return Health


def _make_RunNumbers() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count

    class RunNumbers(Open):
        """Counts, durations and cost of runs."""

        __qualname__ = "RunNumbers"

        runs: Count
        completed: Count
        failed: Count
        cancelled: Count
        open: Count
        input_tokens: Count
        output_tokens: Count
        cost_micros: Count
        cache_read_tokens: Maybe[Count] = None
        p50_ms: Maybe[Count] = None
        p95_ms: Maybe[Count] = None

    return RunNumbers


def _make_StatsBucket() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Timestamp

    class StatsBucket(Open):
        """Counts, durations and cost of the runs that started in one interval."""

        __qualname__ = "StatsBucket"

        at: Timestamp
        runs: Count
        completed: Count
        failed: Count
        cancelled: Count
        open: Count
        input_tokens: Count
        output_tokens: Count
        cost_micros: Count
        cache_read_tokens: Maybe[Count] = None
        p50_ms: Maybe[Count] = None
        p95_ms: Maybe[Count] = None

    return StatsBucket


def _make_WaitingNumbers() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Timestamp

    class WaitingNumbers(Open):
        """Counts of what waits for people now."""

        __qualname__ = "WaitingNumbers"

        runs: Count
        requests: Count
        oldest_asked_at: Maybe[Timestamp] = None

    return WaitingNumbers


def _make_FailingTool() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count

    class FailingTool(Open):
        """A tool with its calls and failures."""

        __qualname__ = "FailingTool"

        tool: Str
        calls: Count
        failed: Count

    return FailingTool


def _make_ToolBucket() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Timestamp

    class ToolBucket(Open):
        """Calls of a tool by runs that started in one interval."""

        __qualname__ = "ToolBucket"

        at: Timestamp
        calls: Count
        failed: Count
        mean_ms: Maybe[Count] = None

    return ToolBucket


def _make_ToolGroup() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import ToolBucket

    class ToolGroup(Open):
        """The calls of one tool over time."""

        __qualname__ = "ToolGroup"

        tool: Str
        calls: Count
        failed: Count
        buckets: tuple[ToolBucket, ...]
        mean_ms: Maybe[Count] = None

    return ToolGroup


def _make_StatsGroup() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.rest import RunNumbers, StatsBucket

    class StatsGroup(Open):
        """The runs of one agent, model or version over time."""

        __qualname__ = "StatsGroup"

        name: Str
        total: RunNumbers
        buckets: tuple[StatsBucket, ...]

    return StatsGroup


def _make_Stats() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Positive, Timestamp
    from windlass_protocol.generated.rest import (
        FailingTool,
        RunNumbers,
        StatsBucket,
        StatsGroup,
        ToolGroup,
        WaitingNumbers,
    )

    class Stats(Open):
        """Runs over time; a run counts where it started."""

        __qualname__ = "Stats"

        since: Timestamp
        until: Timestamp
        bucket_s: Positive
        total: RunNumbers
        buckets: tuple[StatsBucket, ...]
        waiting: WaitingNumbers
        failing_tools: tuple[FailingTool, ...]
        groups: Maybe[tuple[StatsGroup, ...]] = None
        tools: Maybe[tuple[ToolGroup, ...]] = None

    return Stats


def _make_FailureCause() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count

    class FailureCause(Open):
        """Failures with the same error text, numbers and ids aside."""

        __qualname__ = "FailureCause"

        told: Str
        count: Count
        run_ids: tuple[Str, ...]

    return FailureCause


def _make_FailureGroup() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import FailureCause

    class FailureGroup(Open):
        """Runs that failed for one kind of reason."""

        __qualname__ = "FailureGroup"

        kind: Str
        count: Count
        causes: tuple[FailureCause, ...]

    return FailureGroup


def _make_Failures() -> object:
    from windlass_protocol._wire import Bool, Open
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rest import FailureGroup

    class Failures(Open):
        """Why runs failed, the most frequent reason first."""

        __qualname__ = "Failures"

        runs: Count
        failed: Count
        is_all: Bool
        groups: tuple[FailureGroup, ...]

    return Failures


def _make_AgentVersion() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.decisions import VersionTally

    class AgentVersion(Open):
        """A version of an agent, with the results of its runs."""

        __qualname__ = "AgentVersion"

        first_at: Timestamp
        last_at: Timestamp
        tally: VersionTally

    return AgentVersion


def _make_AgentVersions() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import AgentVersion

    class AgentVersions(Open):
        """Versions of an agent, newest first."""

        __qualname__ = "AgentVersions"

        agent_id: Str
        versions: tuple[AgentVersion, ...]
        current: Maybe[Str] = None
        next: Maybe[Str] = None

    return AgentVersions


def _make_AgentComparison() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.decisions import PackageDifference, VersionComparison

    class AgentComparison(Open):
        """Two versions of an agent side by side."""

        __qualname__ = "AgentComparison"

        agent_id: Str
        comparison: VersionComparison
        changes: Maybe[tuple[Str, ...]] = None
        differences: Maybe[tuple[PackageDifference, ...]] = None

    return AgentComparison


def _make_ProposalWork() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp

    class ProposalWork(Open):
        """Work on a proposal: under way, or failed."""

        __qualname__ = "ProposalWork"

        proposal_id: Str
        kind: Str
        status: Str
        started_at: Timestamp
        problem: Maybe[Str] = None
        goal_id: Maybe[Str] = None
        agent_id: Maybe[Str] = None

    return ProposalWork


def _make_ProposalView() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.decisions import Proposal, ProposalCheck
    from windlass_protocol.generated.event_data import ProposalAppliedData, ProposalSettledData
    from windlass_protocol.generated.rest import ProposalWork

    class ProposalView(Open):
        """A proposal, its check, and the verdict about it."""

        __qualname__ = "ProposalView"

        proposal: Proposal
        status: Str
        work: tuple[ProposalWork, ...]
        check: Maybe[ProposalCheck] = None
        settled: Maybe[ProposalSettledData] = None
        settled_at: Maybe[Timestamp] = None
        applied: Maybe[ProposalAppliedData] = None
        applied_at: Maybe[Timestamp] = None

    return ProposalView


def _make_ProposalList() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.rest import ProposalView, ProposalWork

    class ProposalList(Open):
        """Proposals, newest first."""

        __qualname__ = "ProposalList"

        proposals: tuple[ProposalView, ...]
        work: tuple[ProposalWork, ...]
        next: Maybe[Str] = None

    return ProposalList


def _make_ProposalAccepted() -> object:
    from windlass_protocol._wire import Open, Str

    class ProposalAccepted(Open):
        """Work on a proposal that was accepted."""

        __qualname__ = "ProposalAccepted"

        proposal_id: Str

    return ProposalAccepted


def _make_ProblemIssue() -> object:
    from windlass_protocol._wire import Open, Str

    class ProblemIssue(Open):
        """A place where a request does not fit its route."""

        __qualname__ = "ProblemIssue"

        path: Str
        message: Str

    return ProblemIssue


def _make_ProblemDetails() -> object:
    from typing import Annotated

    from windlass_protocol._wire import Maybe, Open, Str, Whole
    from windlass_protocol.generated.rest import ProblemIssue

    class ProblemDetails(Open):
        """An error of the server, as RFC 9457 problem details."""

        __qualname__ = "ProblemDetails"

        type: Str
        title: Str
        status: Annotated[int, Whole(100, 599)]
        detail: Str
        code: Str
        ids: dict[str, Str]
        instance: Maybe[Str] = None
        policy_code: Maybe[Str] = None
        issues: Maybe[tuple[ProblemIssue, ...]] = None

    return ProblemDetails


def _make_StepCost() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import CacheLoss, Count, Price, Usage

    class StepCost(Open):
        """What a model call cost."""

        __qualname__ = "StepCost"

        step_index: Count
        model_id: Str
        usage: Usage
        price: Maybe[Price] = None
        loss: Maybe[CacheLoss] = None

    return StepCost


def _make_UsageShare() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Usage

    class UsageShare(Open):
        """What a model or a subagent used."""

        __qualname__ = "UsageShare"

        name: Str
        usage: Usage

    return UsageShare


def _make_ToolCost() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count

    class ToolCost(Open):
        """What the results of a tool cost in later prompts."""

        __qualname__ = "ToolCost"

        tool: Str
        calls: Count
        result_tokens: Count
        prompt_tokens: Count
        cost_micros: Count

    return ToolCost


def _make_ResultCost() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count, Id

    class ResultCost(Open):
        """What a result of a tool cost in later prompts."""

        __qualname__ = "ResultCost"

        call_id: Id
        tool: Str
        tokens: Count
        prompts: Count
        cost_micros: Count

    return ResultCost


def _make_RunCosts() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.rest import ResultCost, StepCost, ToolCost, UsageShare

    class RunCosts(Open):
        """Where the money of a run went, as far as it is recorded."""

        __qualname__ = "RunCosts"

        steps: tuple[StepCost, ...]
        models: tuple[UsageShare, ...]
        subagents: tuple[UsageShare, ...]
        tools: tuple[ToolCost, ...]
        results: tuple[ResultCost, ...]

    return RunCosts


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "NewSession": _make_NewSession,
        "NewMessage": _make_NewMessage,
        "Cancel": _make_Cancel,
        "RetryRun": _make_RetryRun,
        "Answer": _make_Answer,
        "Fork": _make_Fork,
        "NewFeedback": _make_NewFeedback,
        "NewRunEvent": _make_NewRunEvent,
        "NewProposal": _make_NewProposal,
        "ProposalTrial": _make_ProposalTrial,
        "Verdict": _make_Verdict,
        "NewDataset": _make_NewDataset,
        "NewDatasetCase": _make_NewDatasetCase,
        "DatasetCaseChange": _make_DatasetCaseChange,
        "Accepted": _make_Accepted,
        "AcceptedRun": _make_AcceptedRun,
        "SessionStatus": _make_SessionStatus,
        "SessionInfo": _make_SessionInfo,
        "SessionPage": _make_SessionPage,
        "AgentSessionList": _make_AgentSessionList,
        "HistoryPage": _make_HistoryPage,
        "RunRow": _make_RunRow,
        "RunPage": _make_RunPage,
        "FeedbackInfo": _make_FeedbackInfo,
        "FeedbackList": _make_FeedbackList,
        "RefusedStart": _make_RefusedStart,
        "RefusedStartPage": _make_RefusedStartPage,
        "MissedTicks": _make_MissedTicks,
        "TickOverlap": _make_TickOverlap,
        "LimitPeriod": _make_LimitPeriod,
        "LimitChoice": _make_LimitChoice,
        "NewLimit": _make_NewLimit,
        "LimitInfo": _make_LimitInfo,
        "LimitList": _make_LimitList,
        "NewSchedule": _make_NewSchedule,
        "ScheduleInfo": _make_ScheduleInfo,
        "SchedulePage": _make_SchedulePage,
        "ScheduleTick": _make_ScheduleTick,
        "ScheduleTicks": _make_ScheduleTicks,
        "DeliveryInfo": _make_DeliveryInfo,
        "DeliveryPage": _make_DeliveryPage,
        "RunInfo": _make_RunInfo,
        "UndoStatus": _make_UndoStatus,
        "UndoItem": _make_UndoItem,
        "UndoPlan": _make_UndoPlan,
        "ApprovalInfo": _make_ApprovalInfo,
        "ApprovalPage": _make_ApprovalPage,
        "SettledApproval": _make_SettledApproval,
        "ApprovalView": _make_ApprovalView,
        "TraceInfo": _make_TraceInfo,
        "PromptTool": _make_PromptTool,
        "PromptMessage": _make_PromptMessage,
        "StepPrompt": _make_StepPrompt,
        "StepAnswer": _make_StepAnswer,
        "PlaygroundDraft": _make_PlaygroundDraft,
        "NewPlaygroundRun": _make_NewPlaygroundRun,
        "ContentList": _make_ContentList,
        "SafePoints": _make_SafePoints,
        "Deleted": _make_Deleted,
        "ToolInfo": _make_ToolInfo,
        "ToolList": _make_ToolList,
        "AgentInfo": _make_AgentInfo,
        "AgentList": _make_AgentList,
        "Health": _make_Health,
        "RunNumbers": _make_RunNumbers,
        "StatsBucket": _make_StatsBucket,
        "WaitingNumbers": _make_WaitingNumbers,
        "FailingTool": _make_FailingTool,
        "ToolBucket": _make_ToolBucket,
        "ToolGroup": _make_ToolGroup,
        "StatsGroup": _make_StatsGroup,
        "Stats": _make_Stats,
        "FailureCause": _make_FailureCause,
        "FailureGroup": _make_FailureGroup,
        "Failures": _make_Failures,
        "AgentVersion": _make_AgentVersion,
        "AgentVersions": _make_AgentVersions,
        "AgentComparison": _make_AgentComparison,
        "ProposalWork": _make_ProposalWork,
        "ProposalView": _make_ProposalView,
        "ProposalList": _make_ProposalList,
        "ProposalAccepted": _make_ProposalAccepted,
        "ProblemIssue": _make_ProblemIssue,
        "ProblemDetails": _make_ProblemDetails,
        "StepCost": _make_StepCost,
        "UsageShare": _make_UsageShare,
        "ToolCost": _make_ToolCost,
        "ResultCost": _make_ResultCost,
        "RunCosts": _make_RunCosts,
    },
)
