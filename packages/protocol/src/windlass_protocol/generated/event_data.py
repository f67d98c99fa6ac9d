# Generated from spec/event-data.schema.json by `make gen`. Do not edit.
"""What each event type carries in `data`. All of it is open: unknown fields pass through.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_FinishReason() -> object:
    from enum import StrEnum

    class FinishReason(StrEnum):
        """Why the model stopped."""

        __qualname__ = "FinishReason"

        STOP = "stop"
        LENGTH = "length"
        CONTENT_FILTER = "content-filter"
        TOOL_CALLS = "tool-calls"
        ERROR = "error"
        OTHER = "other"

    return FinishReason


def _make_ActionStatus() -> object:
    from enum import StrEnum

    class ActionStatus(StrEnum):
        """What came of an action."""

        __qualname__ = "ActionStatus"

        COMPLETED = "completed"
        FAILED = "failed"
        REJECTED = "rejected"

    return ActionStatus


def _make_ActionError() -> object:
    from windlass_protocol._wire import Maybe, Open, Str

    class ActionError(Open):
        """Why an action failed."""

        __qualname__ = "ActionError"

        code: Str
        message: Str
        name: Maybe[Str] = None

    return ActionError


def _make_Invocation() -> object:
    from typing import Literal

    from windlass_protocol._wire import Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class Invocation(Tagged, Open):
        """Who started a delegated session."""

        __qualname__ = "Invocation"

        __constants__ = ("kind",)

        parent_call_id: Id
        parent_session_id: Id
        parent_turn_id: Id
        name: Str
        kind: Literal["subagent"] = "subagent"

    return Invocation


def _make_SandboxOwner() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id

    class SandboxOwner(Open):
        """The session and the agent whose sandbox a run shares."""

        __qualname__ = "SandboxOwner"

        session_id: Id
        agent_id: Id

    return SandboxOwner


def _make_ParentRun() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.event_data import SandboxOwner

    class ParentRun(Open):
        """The call that a delegated run works for."""

        __qualname__ = "ParentRun"

        session_id: Id
        run_id: Id
        call_id: Id
        root_session_id: Id
        depth: Count
        agents: Maybe[tuple[Id, ...]] = None
        sandbox: Maybe[SandboxOwner] = None

    return ParentRun


def _make_RuntimeIdentity() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class RuntimeIdentity(Open):
        """Which agent and build serve the session."""

        __qualname__ = "RuntimeIdentity"

        agent_id: Id
        agent_name: Maybe[Str] = None
        model_id: Maybe[Str] = None
        version: Maybe[Str] = None
        build: Maybe[Str] = None
        package_fingerprint: Maybe[Str] = None

    return RuntimeIdentity


def _make_AuthorizationChallenge() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp

    class AuthorizationChallenge(Open):
        """How a person can authorise."""

        __qualname__ = "AuthorizationChallenge"

        url: Maybe[Str] = None
        user_code: Maybe[Str] = None
        expires_at: Maybe[Timestamp] = None
        instructions: Maybe[Str] = None
        display_name: Maybe[Str] = None

    return AuthorizationChallenge


def _make_HookStatus() -> object:
    from enum import StrEnum

    class HookStatus(StrEnum):
        """How a hook ended."""

        __qualname__ = "HookStatus"

        COMPLETED = "completed"
        FAILED = "failed"
        TIMED_OUT = "timed_out"
        REJECTED = "rejected"

    return HookStatus


def _make_RecoveryChoice() -> object:
    from enum import StrEnum

    class RecoveryChoice(StrEnum):
        """What to do with an interrupted effect."""

        __qualname__ = "RecoveryChoice"

        RETRY = "retry"
        SKIP = "skip"
        SUPPLY = "supply"
        UNDO = "undo"

    return RecoveryChoice


def _make_SessionStartedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open
    from windlass_protocol.generated.common import Id, TraceContext
    from windlass_protocol.generated.event_data import Invocation, RuntimeIdentity
    from windlass_protocol.generated.sessions import CompactionConfig, SessionAgent
    from windlass_protocol.generated.tools import Taint

    class SessionStartedData(Open):
        """The session began."""

        __qualname__ = "SessionStartedData"

        invocation: Maybe[Invocation] = None
        runtime: Maybe[RuntimeIdentity] = None
        predecessor: Maybe[Id] = None
        trace: Maybe[TraceContext] = None
        root_session_id: Maybe[Id] = None
        taint: Maybe[tuple[Taint, ...]] = None
        agent: Maybe[SessionAgent] = None
        compaction: Maybe[CompactionConfig] = None
        output_schema: Maybe[JsonObject] = None

    return SessionStartedData


def _make_SessionWaitingData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp, Usage

    class SessionWaitingData(Open):
        """The session waits for a person or a subagent."""

        __qualname__ = "SessionWaitingData"

        wait: Str
        continuation_token: Maybe[Str] = None
        until: Maybe[Timestamp] = None
        usage: Maybe[Usage] = None

    return SessionWaitingData


def _make_SessionCompletedData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open
    from windlass_protocol.generated.common import Usage

    class SessionCompletedData(KeepsNulls, Open):
        """The task of the session is done; a new message starts another run."""

        __qualname__ = "SessionCompletedData"

        output: JsonValue = None
        usage: Maybe[Usage] = None

    return SessionCompletedData


def _make_SessionFailedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Usage

    class SessionFailedData(Open):
        """The task of the session failed, was cancelled or exhausted its budget; a new message starts another
        run.
        """

        __qualname__ = "SessionFailedData"

        code: Str
        message: Str
        details: Maybe[JsonObject] = None
        session_id: Maybe[Id] = None
        usage: Maybe[Usage] = None

    return SessionFailedData


def _make_SessionStateChangedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str

    class SessionStateChangedData(Open):
        """Authored durable state changed."""

        __qualname__ = "SessionStateChangedData"

        set: Maybe[JsonObject] = None
        removed: Maybe[tuple[Str, ...]] = None

    return SessionStateChangedData


def _make_FeedbackGivenData() -> object:
    from typing import Annotated, Literal

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Float, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class FeedbackGivenData(Open):
        """A person judged a run, one of its steps or an answer."""

        __qualname__ = "FeedbackGivenData"

        run_id: Id
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

    return FeedbackGivenData


def _make_RunEventReceivedData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class RunEventReceivedData(KeepsNulls, Open):
        """An event was sent to a run, which keeps it until its workflow waits for it."""

        __qualname__ = "RunEventReceivedData"

        run_id: Id
        name: Id
        data: JsonValue = None
        key: Maybe[Id] = None
        by: Maybe[Str] = None

    return RunEventReceivedData


def _make_SessionMovedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.sessions import SessionAgent

    class SessionMovedData(Open):
        """The session moved to another package."""

        __qualname__ = "SessionMovedData"

        from_fingerprint: Str
        to_fingerprint: Str
        reason: Maybe[Str] = None
        agent: Maybe[SessionAgent] = None

    return SessionMovedData


def _make_SessionForkedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.sessions import ModelMessage

    class SessionForkedData(Open):
        """The session goes on from here by itself; all before is copied from another one."""

        __qualname__ = "SessionForkedData"

        predecessor: Id
        predecessor_seq: Count
        messages: Maybe[tuple[ModelMessage, ...]] = None

    return SessionForkedData


def _make_ContextClearedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id

    class ContextClearedData(Open):
        """The history the model sees was emptied; the journal keeps it."""

        __qualname__ = "ContextClearedData"

        sequence: Maybe[Count] = None
        turn_id: Maybe[Id] = None

    return ContextClearedData


def _make_RunStartedData() -> object:
    from typing import Literal

    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, SourceRef
    from windlass_protocol.generated.event_data import ParentRun
    from windlass_protocol.generated.policy import BudgetLimits
    from windlass_protocol.generated.runs import PlaygroundOrigin
    from windlass_protocol.generated.sessions import RunMode, SessionCapabilities

    class RunStartedData(Open):
        """A run began."""

        __qualname__ = "RunStartedData"

        run_id: Id
        agent_id: Id
        package_fingerprint: Maybe[Str] = None
        package_id: Maybe[Id] = None
        route_id: Maybe[Id] = None
        model_id: Maybe[Id] = None
        source: Maybe[SourceRef] = None
        owner: Maybe[Id] = None
        mode: Maybe[RunMode] = None
        capabilities: Maybe[SessionCapabilities] = None
        budget: Maybe[BudgetLimits] = None
        batch: Maybe[Literal["within 24h", "off"]] = None
        has_own_output: Maybe[Bool] = None
        goal_id: Maybe[Str] = None
        goal_description: Maybe[Str] = None
        input_data: Maybe[JsonObject] = None
        metadata: Maybe[JsonObject] = None
        retry_of: Maybe[Id] = None
        undo: Maybe[JsonObject] = None
        job: Maybe[JsonObject] = None
        playground: Maybe[PlaygroundOrigin] = None
        parent: Maybe[ParentRun] = None

    return RunStartedData


def _make_RunResumedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class RunResumedData(Open):
        """A run goes on after a wait or a crash."""

        __qualname__ = "RunResumedData"

        run_id: Id
        reason: Str
        epoch: Maybe[Count] = None

    return RunResumedData


def _make_RunWaitingData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Timestamp, Usage

    class RunWaitingData(Open):
        """A run waits; it costs a row and nothing else."""

        __qualname__ = "RunWaitingData"

        run_id: Id
        on: Str
        request_ids: Maybe[tuple[Id, ...]] = None
        until: Maybe[Timestamp] = None
        usage: Maybe[Usage] = None
        reason: Maybe[Str] = None

    return RunWaitingData


def _make_RunCancelRequestedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class RunCancelRequestedData(Open):
        """A cancel of the run was requested."""

        __qualname__ = "RunCancelRequestedData"

        run_id: Id
        by: Maybe[Str] = None
        reason: Maybe[Str] = None

    return RunCancelRequestedData


def _make_RunCompletedData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import JsonObject, KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Usage

    class RunCompletedData(KeepsNulls, Open):
        """The run reached its end."""

        __qualname__ = "RunCompletedData"

        run_id: Id
        output: Maybe[Str] = None
        structured_output: JsonValue = None
        narrative: Maybe[Str] = None
        output_data: Maybe[JsonObject] = None
        usage: Maybe[Usage] = None

    return RunCompletedData


def _make_RunFailedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Usage
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.event_data import RunStartedData

    class RunFailedData(Open):
        """The run failed."""

        __qualname__ = "RunFailedData"

        run_id: Id
        error: ErrorInfo
        narrative: Maybe[Str] = None
        output_data: Maybe[JsonObject] = None
        unstarted: Maybe[RunStartedData] = None
        usage: Maybe[Usage] = None

    return RunFailedData


def _make_RunCancelledData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Usage
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.event_data import RunStartedData

    class RunCancelledData(Open):
        """The run was cancelled."""

        __qualname__ = "RunCancelledData"

        run_id: Id
        reason: Maybe[Str] = None
        unstarted: Maybe[RunStartedData] = None
        error: Maybe[ErrorInfo] = None
        usage: Maybe[Usage] = None

    return RunCancelledData


def _make_RunBudgetExhaustedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id, Usage
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.policy import BudgetLimits, BudgetName, BudgetUsage

    class RunBudgetExhaustedData(Open):
        """The run used up its budget."""

        __qualname__ = "RunBudgetExhaustedData"

        run_id: Id
        exceeded: tuple[BudgetName, ...]
        used: BudgetUsage
        limits: BudgetLimits
        error: Maybe[ErrorInfo] = None
        usage: Maybe[Usage] = None

    return RunBudgetExhaustedData


def _make_TurnStartedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id, TraceContext

    class TurnStartedData(Open):
        """A turn began."""

        __qualname__ = "TurnStartedData"

        sequence: Count
        turn_id: Id
        trace: Maybe[TraceContext] = None

    return TurnStartedData


def _make_TurnWaitingData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Usage

    class TurnWaitingData(Open):
        """The turn waits and stays the same turn."""

        __qualname__ = "TurnWaitingData"

        sequence: Count
        turn_id: Id
        on: Str
        usage: Maybe[Usage] = None

    return TurnWaitingData


def _make_TurnCompletedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id, Usage

    class TurnCompletedData(Open):
        """The turn is finished."""

        __qualname__ = "TurnCompletedData"

        sequence: Count
        turn_id: Id
        usage: Maybe[Usage] = None

    return TurnCompletedData


def _make_TurnFailedData() -> object:
    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Usage

    class TurnFailedData(Open):
        """The turn failed."""

        __qualname__ = "TurnFailedData"

        code: Str
        message: Str
        sequence: Count
        turn_id: Id
        details: Maybe[JsonObject] = None
        terminal: Maybe[Bool] = None
        usage: Maybe[Usage] = None

    return TurnFailedData


def _make_TurnCancelledData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Usage

    class TurnCancelledData(Open):
        """The turn was cancelled."""

        __qualname__ = "TurnCancelledData"

        sequence: Count
        turn_id: Id
        reason: Maybe[Str] = None
        usage: Maybe[Usage] = None

    return TurnCancelledData


def _make_MessageReceivedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.sessions import UserPart

    class MessageReceivedData(Open):
        """A message to the session was received."""

        __qualname__ = "MessageReceivedData"

        message: Str
        sequence: Count
        turn_id: Id
        parts: Maybe[tuple[UserPart, ...]] = None
        context: Maybe[tuple[Str, ...]] = None
        message_id: Maybe[Id] = None
        delivery: Maybe[Str] = None
        job: Maybe[Id] = None
        sender: Maybe[Str] = None

    return MessageReceivedData


def _make_MessageAppendedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class MessageAppendedData(Open):
        """A piece of the answer; live only, never stored."""

        __qualname__ = "MessageAppendedData"

        message_delta: Str
        sequence: Count
        step_index: Count
        turn_id: Id
        message_so_far: Maybe[Str] = None

    return MessageAppendedData


def _make_MessageCompletedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.event_data import FinishReason
    from windlass_protocol.generated.sessions import AssistantPart

    class MessageCompletedData(Open):
        """The model's words of a step."""

        __qualname__ = "MessageCompletedData"

        message: Str | None
        finish_reason: FinishReason
        sequence: Count
        step_index: Count
        turn_id: Id
        message_id: Maybe[Id] = None
        parts: Maybe[tuple[AssistantPart, ...]] = None

    return MessageCompletedData


def _make_ReasoningAppendedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class ReasoningAppendedData(Open):
        """A piece of the model's reasoning; live only, never stored."""

        __qualname__ = "ReasoningAppendedData"

        reasoning_delta: Str
        sequence: Count
        step_index: Count
        turn_id: Id
        reasoning_so_far: Maybe[Str] = None

    return ReasoningAppendedData


def _make_ReasoningCompletedData() -> object:
    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class ReasoningCompletedData(Open):
        """The model's reasoning of a step."""

        __qualname__ = "ReasoningCompletedData"

        reasoning: Str
        sequence: Count
        step_index: Count
        turn_id: Id
        is_late: Maybe[Bool] = None
        provider_metadata: Maybe[JsonObject] = None

    return ReasoningCompletedData


def _make_StepStartedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Reservation

    class StepStartedData(Open):
        """A step began: one model call and its tool calls."""

        __qualname__ = "StepStartedData"

        sequence: Count
        step_index: Count
        turn_id: Id
        model_id: Maybe[Str] = None
        prompt_message_count: Maybe[Count] = None
        reserved: Maybe[Reservation] = None

    return StepStartedData


def _make_StepQueuedData() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count, Id

    class StepQueuedData(Open):
        """A model call waits for the limit of its provider; live only, never stored."""

        __qualname__ = "StepQueuedData"

        sequence: Count
        step_index: Count
        turn_id: Id
        provider: Str
        reason: Str

    return StepQueuedData


def _make_StepRetryingData() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Price, Usage

    class StepRetryingData(Open):
        """A model call failed and will be tried again."""

        __qualname__ = "StepRetryingData"

        sequence: Count
        step_index: Count
        turn_id: Id
        code: Str
        attempt: Count
        delay_ms: Count
        shared: Maybe[Bool] = None
        next_model_id: Maybe[Str] = None
        message: Maybe[Str] = None
        usage: Maybe[Usage] = None
        price: Maybe[Price] = None

    return StepRetryingData


def _make_StepCompletedData() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Float, JsonObject, Maybe, Open
    from windlass_protocol.generated.common import Count, Id, Price, PromptCache, Usage
    from windlass_protocol.generated.event_data import FinishReason

    class StepCompletedData(Open):
        """A step is finished."""

        __qualname__ = "StepCompletedData"

        finish_reason: FinishReason
        sequence: Count
        step_index: Count
        turn_id: Id
        usage: Maybe[Usage] = None
        price: Maybe[Price] = None
        cost_usd: Maybe[Annotated[Float, Field(ge=0)]] = None
        provider_metadata: Maybe[JsonObject] = None
        latency_ms: Maybe[Count] = None
        queued_ms: Maybe[Count] = None
        cache: Maybe[PromptCache] = None

    return StepCompletedData


def _make_StepFailedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Price, Usage

    class StepFailedData(Open):
        """A step failed."""

        __qualname__ = "StepFailedData"

        code: Str
        message: Str
        sequence: Count
        step_index: Count
        turn_id: Id
        details: Maybe[JsonObject] = None
        usage: Maybe[Usage] = None
        price: Maybe[Price] = None

    return StepFailedData


def _make_ActionsRequestedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.input import RuntimeActionRequest

    class ActionsRequestedData(Open):
        """The model asked for actions, or a program did."""

        __qualname__ = "ActionsRequestedData"

        actions: tuple[RuntimeActionRequest, ...]
        sequence: Count
        step_index: Count
        turn_id: Id
        parent_call_id: Maybe[Id] = None
        presentation: Maybe[JsonObject] = None

    return ActionsRequestedData


def _make_ActionStartedData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Sha256
    from windlass_protocol.generated.tools import EffectClass, ToolMode

    class ActionStartedData(KeepsNulls, Open):
        """An action is about to happen. Written before it does."""

        __qualname__ = "ActionStartedData"

        call_id: Id
        tool_name: Str
        effect: EffectClass
        idempotency_key: Id
        sequence: Count
        step_index: Count
        turn_id: Id
        arguments_hash: Maybe[Sha256] = None
        mode: Maybe[ToolMode] = None
        arguments: JsonValue = None
        undo: Maybe[Str] = None
        interpreter: Maybe[Str] = None
        parent_call_id: Maybe[Id] = None

    return ActionStartedData


def _make_ProgramPausedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import ContentRef, Count, Id

    class ProgramPausedData(Open):
        """A program waits for its calls, or a tool for the answers to its questions."""

        __qualname__ = "ProgramPausedData"

        call_id: Id
        taken: Count
        sequence: Count
        step_index: Count
        turn_id: Id
        interpreter: Maybe[Str] = None
        snapshot: Maybe[ContentRef] = None
        printed: Maybe[Str] = None
        parent_call_id: Maybe[Id] = None

    return ProgramPausedData


def _make_ProgramEndedData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import ContentRef, Count, Id
    from windlass_protocol.generated.event_data import ActionError, ActionStatus

    class ProgramEndedData(Open):
        """A program ended while calls of it are open, or with variables that are kept; its result follows."""

        __qualname__ = "ProgramEndedData"

        call_id: Id
        taken: Count
        status: ActionStatus
        output: JsonValue
        sequence: Count
        step_index: Count
        turn_id: Id
        error: Maybe[ActionError] = None
        content_ref: Maybe[ContentRef] = None
        interpreter: Maybe[Str] = None
        variables: Maybe[ContentRef] = None
        names: Maybe[tuple[Str, ...]] = None
        parent_call_id: Maybe[Id] = None

    return ProgramEndedData


def _make_ActionInputAppendedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class ActionInputAppendedData(Open):
        """A piece of a call's arguments; live only, never stored."""

        __qualname__ = "ActionInputAppendedData"

        call_id: Id
        input_delta: Str
        sequence: Count
        step_index: Count
        turn_id: Id
        input_so_far: Maybe[Str] = None
        tool_name: Maybe[Str] = None

    return ActionInputAppendedData


def _make_ActionPartialData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class ActionPartialData(Open):
        """Progress of a running action; live only, never stored."""

        __qualname__ = "ActionPartialData"

        call_id: Id
        output: JsonValue
        sequence: Count
        step_index: Count
        turn_id: Id
        tool_name: Maybe[Str] = None

    return ActionPartialData


def _make_ActionResultData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import ContentRef, Count, Id
    from windlass_protocol.generated.event_data import ActionError, ActionStatus
    from windlass_protocol.generated.input import RuntimeActionResult
    from windlass_protocol.generated.tools import Taint

    class ActionResultData(Open):
        """What came of an action."""

        __qualname__ = "ActionResultData"

        result: RuntimeActionResult
        status: ActionStatus
        sequence: Count
        step_index: Count
        turn_id: Id
        error: Maybe[ActionError] = None
        presentation: Maybe[JsonObject] = None
        content_ref: Maybe[ContentRef] = None
        taint: Maybe[tuple[Taint, ...]] = None
        duration_ms: Maybe[Count] = None
        log: Maybe[tuple[Str, ...]] = None
        parent_call_id: Maybe[Id] = None

    return ActionResultData


def _make_InputRequestedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.input import InputRequest

    class InputRequestedData(Open):
        """People are asked."""

        __qualname__ = "InputRequestedData"

        requests: tuple[InputRequest, ...]
        sequence: Count
        step_index: Count
        turn_id: Id
        call_id: Maybe[Id] = None
        task_id: Maybe[Id] = None
        child_session_id: Maybe[Id] = None

    return InputRequestedData


def _make_InputResolvedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.input import InputResolution

    class InputResolvedData(Open):
        """Requests to people were settled."""

        __qualname__ = "InputResolvedData"

        resolutions: tuple[InputResolution, ...]
        sequence: Count
        step_index: Count
        turn_id: Id
        call_id: Maybe[Id] = None
        child_session_id: Maybe[Id] = None

    return InputResolvedData


def _make_ApprovalCandidateData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class ApprovalCandidateData(Open):
        """A request was answered, but the answer does not count: another was first, or it was refused."""

        __qualname__ = "ApprovalCandidateData"

        request_id: Id
        responder: Maybe[Str] = None
        option_id: Maybe[Id] = None
        text: Maybe[Str] = None
        arguments: Maybe[JsonObject] = None
        answer_id: Maybe[Id] = None
        sequence: Maybe[Count] = None
        step_index: Maybe[Count] = None
        turn_id: Maybe[Id] = None

    return ApprovalCandidateData


def _make_ApprovalDispatchedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id

    class ApprovalDispatchedData(Open):
        """A request was dispatched to people, and is not dispatched again."""

        __qualname__ = "ApprovalDispatchedData"

        request_id: Id
        sequence: Maybe[Count] = None
        step_index: Maybe[Count] = None
        turn_id: Maybe[Id] = None

    return ApprovalDispatchedData


def _make_ApprovalSettledData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.input import InputOutcome

    class ApprovalSettledData(Open):
        """An approval is decided."""

        __qualname__ = "ApprovalSettledData"

        request_id: Id
        outcome: InputOutcome
        responder: Maybe[Str] = None
        reason: Maybe[Str] = None
        grant: Maybe[Str] = None
        arguments: Maybe[JsonObject] = None
        sequence: Maybe[Count] = None
        step_index: Maybe[Count] = None
        turn_id: Maybe[Id] = None

    return ApprovalSettledData


def _make_AuthorizationRequiredData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.event_data import AuthorizationChallenge

    class AuthorizationRequiredData(Open):
        """A connection needs the authorisation of a person."""

        __qualname__ = "AuthorizationRequiredData"

        name: Str
        description: Str
        sequence: Count
        step_index: Count
        turn_id: Id
        authorization: Maybe[AuthorizationChallenge] = None
        webhook_url: Maybe[Str] = None
        attempt_id: Maybe[Id] = None
        principal_id: Maybe[Str] = None
        task_id: Maybe[Id] = None

    return AuthorizationRequiredData


def _make_AuthorizationCompletedData() -> object:
    from typing import Literal

    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.event_data import AuthorizationChallenge

    class AuthorizationCompletedData(Open):
        """An authorisation was settled."""

        __qualname__ = "AuthorizationCompletedData"

        name: Str
        outcome: Literal["authorized", "declined", "failed", "timed-out"]
        sequence: Count
        step_index: Count
        turn_id: Id
        reason: Maybe[Str] = None
        authorization: Maybe[AuthorizationChallenge] = None
        attempt_id: Maybe[Id] = None
        principal_id: Maybe[Str] = None
        task_id: Maybe[Id] = None

    return AuthorizationCompletedData


def _make_ResultCompletedData() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Count, Id

    class ResultCompletedData(Open):
        """The structured result of the turn."""

        __qualname__ = "ResultCompletedData"

        result: JsonValue
        sequence: Count
        step_index: Count
        turn_id: Id

    return ResultCompletedData


def _make_OutputRequestedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.output import OutputContract

    class OutputRequestedData(Open):
        """The run must return a typed output."""

        __qualname__ = "OutputRequestedData"

        contract: OutputContract
        run_id: Maybe[Id] = None

    return OutputRequestedData


def _make_OutputRejectedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.output import OutputError

    class OutputRejectedData(Open):
        """An answer does not meet its contract; the model may correct it."""

        __qualname__ = "OutputRejectedData"

        schema_id: Id
        attempt: Count
        errors: tuple[OutputError, ...]
        run_id: Maybe[Id] = None

    return OutputRejectedData


def _make_OutputValidatedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id, Sha256

    class OutputValidatedData(Open):
        """An answer meets its contract."""

        __qualname__ = "OutputValidatedData"

        schema_id: Id
        attempt: Count
        hash: Maybe[Sha256] = None
        run_id: Maybe[Id] = None

    return OutputValidatedData


def _make_OutputFailedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.output import OutputError

    class OutputFailedData(Open):
        """No answer met the contract."""

        __qualname__ = "OutputFailedData"

        schema_id: Id
        attempts: Count
        errors: tuple[OutputError, ...]
        run_id: Maybe[Id] = None

    return OutputFailedData


def _make_CompactionRequestedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class CompactionRequestedData(Open):
        """The history is about to be compacted."""

        __qualname__ = "CompactionRequestedData"

        model_id: Str
        usage_input_tokens: Count | None
        sequence: Count
        turn_id: Id
        reason: Maybe[Str] = None
        session_id: Maybe[Id] = None
        step_index: Maybe[Count] = None

    return CompactionRequestedData


def _make_CompactionCompletedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Price, Usage
    from windlass_protocol.generated.sessions import ModelMessage

    class CompactionCompletedData(Open):
        """The history was compacted; the journal keeps it whole."""

        __qualname__ = "CompactionCompletedData"

        model_id: Str
        sequence: Count
        turn_id: Id
        session_id: Maybe[Id] = None
        summary: Maybe[Str] = None
        kept_from: Maybe[Count] = None
        trimmed_call_ids: Maybe[tuple[Id, ...]] = None
        result_chars_max: Maybe[Count] = None
        pinned: Maybe[tuple[ModelMessage, ...]] = None
        input_tokens_before: Maybe[Count] = None
        input_tokens_after: Maybe[Count] = None
        usage: Maybe[Usage] = None
        price: Maybe[Price] = None
        step_index: Maybe[Count] = None

    return CompactionCompletedData


def _make_CompactionFailedData() -> object:
    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Price, Usage

    class CompactionFailedData(Open):
        """The history could not be compacted."""

        __qualname__ = "CompactionFailedData"

        code: Str
        message: Str
        details: Maybe[JsonObject] = None
        shared: Maybe[Bool] = None
        delay_ms: Maybe[Count] = None
        model_id: Maybe[Str] = None
        usage: Maybe[Usage] = None
        price: Maybe[Price] = None
        sequence: Maybe[Count] = None
        turn_id: Maybe[Id] = None
        step_index: Maybe[Count] = None

    return CompactionFailedData


def _make_SubagentCalledData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.policy import BudgetLimits

    class SubagentCalledData(Open):
        """A subagent was given work."""

        __qualname__ = "SubagentCalledData"

        call_id: Id
        child_session_id: Id
        session_id: Id
        name: Str
        tool_name: Str
        sequence: Count
        turn_id: Id
        remote: Maybe[JsonObject] = None
        workflow_id: Maybe[Str] = None
        child_run_id: Maybe[Id] = None
        depth: Maybe[Count] = None
        lent: Maybe[BudgetLimits] = None
        job: Maybe[Id] = None

    return SubagentCalledData


def _make_SubagentStartedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class SubagentStartedData(Open):
        """A subagent began."""

        __qualname__ = "SubagentStartedData"

        call_id: Id
        subagent_name: Str
        child_session_id: Maybe[Id] = None

    return SubagentStartedData


def _make_SubagentEventData() -> object:
    from windlass_protocol._wire import JsonObject, Open, Str
    from windlass_protocol.generated.common import Id

    class SubagentEventData(Open):
        """An event of a subagent, shown in its parent."""

        __qualname__ = "SubagentEventData"

        call_id: Id
        subagent_name: Str
        event: JsonObject

    return SubagentEventData


def _make_SubagentCompletedData() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Usage
    from windlass_protocol.generated.event_data import ActionError
    from windlass_protocol.generated.runs import RunStatus
    from windlass_protocol.generated.tools import Taint

    class SubagentCompletedData(Open):
        """A subagent is finished."""

        __qualname__ = "SubagentCompletedData"

        call_id: Id
        subagent_name: Str
        output: Str
        is_error: Maybe[Bool] = None
        usage: Maybe[Usage] = None
        child_session_id: Maybe[Id] = None
        child_run_id: Maybe[Id] = None
        status: Maybe[RunStatus] = None
        is_structured: Maybe[Bool] = None
        error: Maybe[ActionError] = None
        taint: Maybe[tuple[Taint, ...]] = None
        steps: Maybe[Count] = None
        tool_calls: Maybe[Count] = None
        settled_micros: Maybe[Count] = None

    return SubagentCompletedData


def _make_TaskStartedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class TaskStartedData(Open):
        """A delegated task began."""

        __qualname__ = "TaskStartedData"

        task_id: Id
        call_id: Maybe[Id] = None
        child_session_id: Maybe[Id] = None
        name: Maybe[Str] = None

    return TaskStartedData


def _make_TaskSettledData() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.event_data import ActionError

    class TaskSettledData(KeepsNulls, Open):
        """A delegated task is finished."""

        __qualname__ = "TaskSettledData"

        task_id: Id
        status: Literal["completed", "failed", "cancelled"]
        call_id: Maybe[Id] = None
        output: JsonValue = None
        error: Maybe[ActionError] = None

    return TaskSettledData


def _make_AgentStartedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class AgentStartedData(Open):
        """A subagent's session was opened."""

        __qualname__ = "AgentStartedData"

        child_session_id: Id
        name: Str
        call_id: Maybe[Id] = None
        task_id: Maybe[Id] = None

    return AgentStartedData


def _make_AgentResolvedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import ContentRef, Id
    from windlass_protocol.generated.packages import ResolverPart, ResolverScope

    class AgentResolvedData(Open):
        """A resolver of the agent gave what is used from now on."""

        __qualname__ = "AgentResolvedData"

        resolver: Id
        part: ResolverPart
        scope: ResolverScope
        content_ref: ContentRef
        names: Maybe[tuple[Str, ...]] = None
        failure: Maybe[Str] = None

    return AgentResolvedData


def _make_PolicyDecidedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.policy import PolicyDecision, PolicyStage

    class PolicyDecidedData(Open):
        """A policy decided."""

        __qualname__ = "PolicyDecidedData"

        stage: PolicyStage
        decision: PolicyDecision
        run_id: Maybe[Id] = None
        call_id: Maybe[Id] = None
        tool_name: Maybe[Str] = None
        sequence: Maybe[Count] = None
        step_index: Maybe[Count] = None
        turn_id: Maybe[Id] = None
        parent_call_id: Maybe[Id] = None

    return PolicyDecidedData


def _make_BudgetReservedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.policy import BudgetLimits, BudgetUsage

    class BudgetReservedData(Open):
        """A spend was checked before it happens."""

        __qualname__ = "BudgetReservedData"

        used: BudgetUsage
        limits: BudgetLimits
        run_id: Maybe[Id] = None

    return BudgetReservedData


def _make_BudgetUpdatedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.policy import BudgetUsage

    class BudgetUpdatedData(Open):
        """Something was spent."""

        __qualname__ = "BudgetUpdatedData"

        used: BudgetUsage
        run_id: Maybe[Id] = None

    return BudgetUpdatedData


def _make_BudgetWarnedData() -> object:
    from windlass_protocol._wire import Float, Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.policy import BudgetName

    class BudgetWarnedData(Open):
        """A limit is near."""

        __qualname__ = "BudgetWarnedData"

        name: BudgetName
        used: Float
        limit: Float
        run_id: Maybe[Id] = None

    return BudgetWarnedData


def _make_BudgetExhaustedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.policy import BudgetLimits, BudgetName, BudgetUsage

    class BudgetExhaustedData(Open):
        """A limit is reached; the next spend would exceed it."""

        __qualname__ = "BudgetExhaustedData"

        exceeded: tuple[BudgetName, ...]
        used: BudgetUsage
        limits: BudgetLimits
        run_id: Maybe[Id] = None

    return BudgetExhaustedData


def _make_HookInvokedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id

    class HookInvokedData(Open):
        """A hook was called."""

        __qualname__ = "HookInvokedData"

        hook_id: Id
        point: Id
        run_id: Maybe[Id] = None
        call_id: Maybe[Id] = None

    return HookInvokedData


def _make_HookCompletedData() -> object:
    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.event_data import HookStatus

    class HookCompletedData(Open):
        """A hook answered."""

        __qualname__ = "HookCompletedData"

        hook_id: Id
        point: Id
        status: HookStatus
        changed: Maybe[Bool] = None
        vetoed: Maybe[Bool] = None
        reason: Maybe[Str] = None
        duration_ms: Maybe[Count] = None
        call_id: Maybe[Id] = None
        stop: Maybe[ErrorInfo] = None
        change: Maybe[JsonObject] = None

    return HookCompletedData


def _make_HookFailedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.event_data import ActionError, HookStatus

    class HookFailedData(Open):
        """A hook failed."""

        __qualname__ = "HookFailedData"

        hook_id: Id
        point: Id
        status: HookStatus
        error: ActionError
        failure: Maybe[Str] = None
        duration_ms: Maybe[Count] = None
        call_id: Maybe[Id] = None
        stop: Maybe[ErrorInfo] = None

    return HookFailedData


def _make_DecisionRecordedData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.decisions import Decision

    class DecisionRecordedData(Open):
        """The agent made a choice."""

        __qualname__ = "DecisionRecordedData"

        decision: Decision

    return DecisionRecordedData


def _make_DecisionOutcomeData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.decisions import Outcome

    class DecisionOutcomeData(Open):
        """What came of a choice."""

        __qualname__ = "DecisionOutcomeData"

        decision_id: Id
        outcome: Outcome

    return DecisionOutcomeData


def _make_DecisionEvaluatedData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.decisions import DecisionEvaluation

    class DecisionEvaluatedData(Open):
        """A choice was judged."""

        __qualname__ = "DecisionEvaluatedData"

        decision_id: Id
        evaluation: DecisionEvaluation

    return DecisionEvaluatedData


def _make_ProblemReportedData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.decisions import Problem

    class ProblemReportedData(Open):
        """Something went wrong."""

        __qualname__ = "ProblemReportedData"

        problem: Problem

    return ProblemReportedData


def _make_ProposalMadeData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.decisions import Proposal

    class ProposalMadeData(Open):
        """A change to an agent was proposed."""

        __qualname__ = "ProposalMadeData"

        proposal: Proposal

    return ProposalMadeData


def _make_ProposalCheckedData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.decisions import ProposalCheck

    class ProposalCheckedData(Open):
        """A proposal was tried on recorded runs."""

        __qualname__ = "ProposalCheckedData"

        proposal_id: Id
        check: ProposalCheck

    return ProposalCheckedData


def _make_ProposalSettledData() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class ProposalSettledData(Open):
        """A person said yes or no to a proposal."""

        __qualname__ = "ProposalSettledData"

        proposal_id: Id
        is_accepted: Bool
        by: Str
        reason: Maybe[Str] = None

    return ProposalSettledData


def _make_ProposalAppliedData() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Id

    class ProposalAppliedData(Open):
        """A proposal became an agent."""

        __qualname__ = "ProposalAppliedData"

        proposal_id: Id
        by: Str
        fingerprint: Str

    return ProposalAppliedData


def _make_DeliveryIntendedData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class DeliveryIntendedData(Open):
        """Output is about to be delivered. Written before it is."""

        __qualname__ = "DeliveryIntendedData"

        delivery_id: Id
        sink_id: Id
        dedupe_key: Id
        kind: Str
        run_id: Maybe[Id] = None

    return DeliveryIntendedData


def _make_DeliveryCompletedData() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open
    from windlass_protocol.generated.common import Id

    class DeliveryCompletedData(Open):
        """Output was delivered."""

        __qualname__ = "DeliveryCompletedData"

        delivery_id: Id
        sink_id: Id
        receipt: Maybe[JsonObject] = None

    return DeliveryCompletedData


def _make_DeliveryFailedData() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.errors import ErrorInfo

    class DeliveryFailedData(Open):
        """Output was not delivered."""

        __qualname__ = "DeliveryFailedData"

        delivery_id: Id
        sink_id: Id
        error: ErrorInfo

    return DeliveryFailedData


def _make_DeliveryDedupedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id

    class DeliveryDedupedData(Open):
        """Output had been delivered before."""

        __qualname__ = "DeliveryDedupedData"

        delivery_id: Id
        sink_id: Id
        dedupe_key: Id
        run_id: Maybe[Id] = None

    return DeliveryDedupedData


def _make_DeliveryUnknownData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class DeliveryUnknownData(Open):
        """It is unknown whether output was delivered; it is not sent again automatically."""

        __qualname__ = "DeliveryUnknownData"

        delivery_id: Id
        sink_id: Id
        reason: Maybe[Str] = None

    return DeliveryUnknownData


def _make_RecoveryStartedData() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id

    class RecoveryStartedData(Open):
        """The session is picked up after a crash."""

        __qualname__ = "RecoveryStartedData"

        epoch: Count
        reason: Maybe[Str] = None
        shared: Maybe[Bool] = None
        isolated: Maybe[Bool] = None
        survived: Maybe[tuple[Count, ...]] = None
        run_id: Maybe[Id] = None

    return RecoveryStartedData


def _make_RecoveryEffectFoundData() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.tools import EffectClass

    class RecoveryEffectFoundData(Open):
        """An effect was started and has no result."""

        __qualname__ = "RecoveryEffectFoundData"

        call_id: Id
        effect: EffectClass
        tool_name: Str
        shared: Maybe[Bool] = None
        delay_ms: Maybe[Count] = None
        idempotency_key: Maybe[Id] = None
        request_id: Maybe[Id] = None
        begun: Maybe[Bool] = None

    return RecoveryEffectFoundData


def _make_RecoveryEffectSettledData() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.event_data import RecoveryChoice

    class RecoveryEffectSettledData(Open):
        """An interrupted effect was decided."""

        __qualname__ = "RecoveryEffectSettledData"

        call_id: Id
        choice: RecoveryChoice
        by: Maybe[Str] = None

    return RecoveryEffectSettledData


def _make_RecoveryCompletedData() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id

    class RecoveryCompletedData(Open):
        """The session goes on."""

        __qualname__ = "RecoveryCompletedData"

        epoch: Count
        repeated: Maybe[tuple[Id, ...]] = None
        parked: Maybe[tuple[Id, ...]] = None

    return RecoveryCompletedData


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "FinishReason": _make_FinishReason,
        "ActionStatus": _make_ActionStatus,
        "ActionError": _make_ActionError,
        "Invocation": _make_Invocation,
        "SandboxOwner": _make_SandboxOwner,
        "ParentRun": _make_ParentRun,
        "RuntimeIdentity": _make_RuntimeIdentity,
        "AuthorizationChallenge": _make_AuthorizationChallenge,
        "HookStatus": _make_HookStatus,
        "RecoveryChoice": _make_RecoveryChoice,
        "SessionStartedData": _make_SessionStartedData,
        "SessionWaitingData": _make_SessionWaitingData,
        "SessionCompletedData": _make_SessionCompletedData,
        "SessionFailedData": _make_SessionFailedData,
        "SessionStateChangedData": _make_SessionStateChangedData,
        "FeedbackGivenData": _make_FeedbackGivenData,
        "RunEventReceivedData": _make_RunEventReceivedData,
        "SessionMovedData": _make_SessionMovedData,
        "SessionForkedData": _make_SessionForkedData,
        "ContextClearedData": _make_ContextClearedData,
        "RunStartedData": _make_RunStartedData,
        "RunResumedData": _make_RunResumedData,
        "RunWaitingData": _make_RunWaitingData,
        "RunCancelRequestedData": _make_RunCancelRequestedData,
        "RunCompletedData": _make_RunCompletedData,
        "RunFailedData": _make_RunFailedData,
        "RunCancelledData": _make_RunCancelledData,
        "RunBudgetExhaustedData": _make_RunBudgetExhaustedData,
        "TurnStartedData": _make_TurnStartedData,
        "TurnWaitingData": _make_TurnWaitingData,
        "TurnCompletedData": _make_TurnCompletedData,
        "TurnFailedData": _make_TurnFailedData,
        "TurnCancelledData": _make_TurnCancelledData,
        "MessageReceivedData": _make_MessageReceivedData,
        "MessageAppendedData": _make_MessageAppendedData,
        "MessageCompletedData": _make_MessageCompletedData,
        "ReasoningAppendedData": _make_ReasoningAppendedData,
        "ReasoningCompletedData": _make_ReasoningCompletedData,
        "StepStartedData": _make_StepStartedData,
        "StepQueuedData": _make_StepQueuedData,
        "StepRetryingData": _make_StepRetryingData,
        "StepCompletedData": _make_StepCompletedData,
        "StepFailedData": _make_StepFailedData,
        "ActionsRequestedData": _make_ActionsRequestedData,
        "ActionStartedData": _make_ActionStartedData,
        "ProgramPausedData": _make_ProgramPausedData,
        "ProgramEndedData": _make_ProgramEndedData,
        "ActionInputAppendedData": _make_ActionInputAppendedData,
        "ActionPartialData": _make_ActionPartialData,
        "ActionResultData": _make_ActionResultData,
        "InputRequestedData": _make_InputRequestedData,
        "InputResolvedData": _make_InputResolvedData,
        "ApprovalCandidateData": _make_ApprovalCandidateData,
        "ApprovalDispatchedData": _make_ApprovalDispatchedData,
        "ApprovalSettledData": _make_ApprovalSettledData,
        "AuthorizationRequiredData": _make_AuthorizationRequiredData,
        "AuthorizationCompletedData": _make_AuthorizationCompletedData,
        "ResultCompletedData": _make_ResultCompletedData,
        "OutputRequestedData": _make_OutputRequestedData,
        "OutputRejectedData": _make_OutputRejectedData,
        "OutputValidatedData": _make_OutputValidatedData,
        "OutputFailedData": _make_OutputFailedData,
        "CompactionRequestedData": _make_CompactionRequestedData,
        "CompactionCompletedData": _make_CompactionCompletedData,
        "CompactionFailedData": _make_CompactionFailedData,
        "SubagentCalledData": _make_SubagentCalledData,
        "SubagentStartedData": _make_SubagentStartedData,
        "SubagentEventData": _make_SubagentEventData,
        "SubagentCompletedData": _make_SubagentCompletedData,
        "TaskStartedData": _make_TaskStartedData,
        "TaskSettledData": _make_TaskSettledData,
        "AgentStartedData": _make_AgentStartedData,
        "AgentResolvedData": _make_AgentResolvedData,
        "PolicyDecidedData": _make_PolicyDecidedData,
        "BudgetReservedData": _make_BudgetReservedData,
        "BudgetUpdatedData": _make_BudgetUpdatedData,
        "BudgetWarnedData": _make_BudgetWarnedData,
        "BudgetExhaustedData": _make_BudgetExhaustedData,
        "HookInvokedData": _make_HookInvokedData,
        "HookCompletedData": _make_HookCompletedData,
        "HookFailedData": _make_HookFailedData,
        "DecisionRecordedData": _make_DecisionRecordedData,
        "DecisionOutcomeData": _make_DecisionOutcomeData,
        "DecisionEvaluatedData": _make_DecisionEvaluatedData,
        "ProblemReportedData": _make_ProblemReportedData,
        "ProposalMadeData": _make_ProposalMadeData,
        "ProposalCheckedData": _make_ProposalCheckedData,
        "ProposalSettledData": _make_ProposalSettledData,
        "ProposalAppliedData": _make_ProposalAppliedData,
        "DeliveryIntendedData": _make_DeliveryIntendedData,
        "DeliveryCompletedData": _make_DeliveryCompletedData,
        "DeliveryFailedData": _make_DeliveryFailedData,
        "DeliveryDedupedData": _make_DeliveryDedupedData,
        "DeliveryUnknownData": _make_DeliveryUnknownData,
        "RecoveryStartedData": _make_RecoveryStartedData,
        "RecoveryEffectFoundData": _make_RecoveryEffectFoundData,
        "RecoveryEffectSettledData": _make_RecoveryEffectSettledData,
        "RecoveryCompletedData": _make_RecoveryCompletedData,
    },
)
