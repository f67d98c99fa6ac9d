# Generated from spec/events.schema.json by `make gen`. Do not edit.
"""One fact in the journal, what a subscriber sees of it, and where a subscriber stands.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_EventType() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Str, Says

    EventType = Annotated[
        Annotated[
            Str,
            StringConstraints(
                min_length=3, max_length=128, pattern="^[a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*)+$"
            ),
        ],
        Says("a dotted name; the first word is the family. Unknown ones pass through"),
    ]
    return EventType


def _make_EVENT_DATA() -> object:
    from windlass_protocol._wire import EventModels

    EVENT_DATA = EventModels(
        "windlass_protocol.generated.event_data",
        {
            "session.started": "SessionStartedData",
            "session.waiting": "SessionWaitingData",
            "session.completed": "SessionCompletedData",
            "session.failed": "SessionFailedData",
            "session.state_changed": "SessionStateChangedData",
            "feedback.given": "FeedbackGivenData",
            "run.event_received": "RunEventReceivedData",
            "session.moved": "SessionMovedData",
            "session.forked": "SessionForkedData",
            "context.cleared": "ContextClearedData",
            "run.started": "RunStartedData",
            "run.resumed": "RunResumedData",
            "run.waiting": "RunWaitingData",
            "run.cancel_requested": "RunCancelRequestedData",
            "run.completed": "RunCompletedData",
            "run.failed": "RunFailedData",
            "run.cancelled": "RunCancelledData",
            "run.budget_exhausted": "RunBudgetExhaustedData",
            "turn.started": "TurnStartedData",
            "turn.waiting": "TurnWaitingData",
            "turn.completed": "TurnCompletedData",
            "turn.failed": "TurnFailedData",
            "turn.cancelled": "TurnCancelledData",
            "message.received": "MessageReceivedData",
            "message.appended": "MessageAppendedData",
            "message.completed": "MessageCompletedData",
            "reasoning.appended": "ReasoningAppendedData",
            "reasoning.completed": "ReasoningCompletedData",
            "step.started": "StepStartedData",
            "step.queued": "StepQueuedData",
            "step.retrying": "StepRetryingData",
            "step.completed": "StepCompletedData",
            "step.failed": "StepFailedData",
            "actions.requested": "ActionsRequestedData",
            "action.started": "ActionStartedData",
            "program.paused": "ProgramPausedData",
            "program.ended": "ProgramEndedData",
            "action.input.appended": "ActionInputAppendedData",
            "action.partial": "ActionPartialData",
            "action.result": "ActionResultData",
            "input.requested": "InputRequestedData",
            "input.resolved": "InputResolvedData",
            "approval.candidate": "ApprovalCandidateData",
            "approval.dispatched": "ApprovalDispatchedData",
            "approval.settled": "ApprovalSettledData",
            "authorization.required": "AuthorizationRequiredData",
            "authorization.completed": "AuthorizationCompletedData",
            "result.completed": "ResultCompletedData",
            "output.requested": "OutputRequestedData",
            "output.rejected": "OutputRejectedData",
            "output.validated": "OutputValidatedData",
            "output.failed": "OutputFailedData",
            "compaction.requested": "CompactionRequestedData",
            "compaction.completed": "CompactionCompletedData",
            "compaction.failed": "CompactionFailedData",
            "subagent.called": "SubagentCalledData",
            "subagent.started": "SubagentStartedData",
            "subagent.event": "SubagentEventData",
            "subagent.completed": "SubagentCompletedData",
            "task.started": "TaskStartedData",
            "task.settled": "TaskSettledData",
            "agent.started": "AgentStartedData",
            "agent.resolved": "AgentResolvedData",
            "policy.decided": "PolicyDecidedData",
            "budget.reserved": "BudgetReservedData",
            "budget.updated": "BudgetUpdatedData",
            "budget.warned": "BudgetWarnedData",
            "budget.exhausted": "BudgetExhaustedData",
            "hook.invoked": "HookInvokedData",
            "hook.completed": "HookCompletedData",
            "hook.failed": "HookFailedData",
            "decision.recorded": "DecisionRecordedData",
            "decision.outcome": "DecisionOutcomeData",
            "decision.evaluated": "DecisionEvaluatedData",
            "problem.reported": "ProblemReportedData",
            "proposal.made": "ProposalMadeData",
            "proposal.checked": "ProposalCheckedData",
            "proposal.settled": "ProposalSettledData",
            "proposal.applied": "ProposalAppliedData",
            "delivery.intended": "DeliveryIntendedData",
            "delivery.completed": "DeliveryCompletedData",
            "delivery.failed": "DeliveryFailedData",
            "delivery.deduped": "DeliveryDedupedData",
            "delivery.unknown": "DeliveryUnknownData",
            "recovery.started": "RecoveryStartedData",
            "recovery.effect_found": "RecoveryEffectFoundData",
            "recovery.effect_settled": "RecoveryEffectSettledData",
            "recovery.completed": "RecoveryCompletedData",
        },
    )
    return EVENT_DATA


def _make_EventMeta() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id, Positive, Timestamp

    class EventMeta(Open):
        """Facts about an event."""

        __qualname__ = "EventMeta"

        at: Timestamp
        id: Maybe[Id] = None
        attempt: Maybe[Positive] = None
        delivery_ids: Maybe[tuple[Id, ...]] = None
        position: Maybe[Count] = None

    return EventMeta


def _make_Event() -> object:
    from pydantic import Field, JsonValue, ValidationInfo, field_validator

    from windlass_protocol._wire import JsonObject, Maybe, Open, check_data
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.events import EVENT_DATA, EventMeta, EventType

    class Event(Open):
        """What a subscriber sees: a record, or a live delta that is never stored."""

        __qualname__ = "Event"

        type: EventType
        meta: EventMeta
        data: JsonObject = Field(validate_default=True, default_factory=dict[str, JsonValue])
        session_id: Maybe[Id] = None
        seq: Maybe[Count] = None
        index: Maybe[Count] = None
        run_id: Maybe[Id] = None
        agent_id: Maybe[Id] = None

        @field_validator("data")
        @classmethod
        def _data_fits_its_type(cls, data: JsonObject, info: ValidationInfo) -> JsonObject:
            return check_data(EVENT_DATA, data, info)

    return Event


def _make_Record() -> object:
    from pydantic import Field, JsonValue, ValidationInfo, field_validator

    from windlass_protocol._wire import JsonObject, Maybe, Open, check_data
    from windlass_protocol.generated.common import CausalIds, Count, Id, Positive, Timestamp
    from windlass_protocol.generated.events import EVENT_DATA, EventType

    class Record(Open):
        """One fact in the journal."""

        __qualname__ = "Record"

        session_id: Id
        seq: Positive
        type: EventType
        at: Timestamp
        data: JsonObject = Field(validate_default=True, default_factory=dict[str, JsonValue])
        position: Maybe[Positive] = None
        event_id: Maybe[Id] = None
        run_id: Maybe[Id] = None
        agent_id: Maybe[Id] = None
        turn_id: Maybe[Id] = None
        step_index: Maybe[Count] = None
        attempt: Maybe[Positive] = None
        epoch: Maybe[Count] = None
        causal_ids: Maybe[CausalIds] = None

        @field_validator("data")
        @classmethod
        def _data_fits_its_type(cls, data: JsonObject, info: ValidationInfo) -> JsonObject:
            return check_data(EVENT_DATA, data, info)

    return Record


def _make_AllCursor() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, Tagged
    from windlass_protocol.generated.common import Count

    class AllCursor(Tagged, Closed):
        """A place in everything."""

        __qualname__ = "AllCursor"

        __constants__ = ("scope",)

        position: Count
        scope: Literal["all"] = "all"

    return AllCursor


def _make_SessionCursor() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, Maybe, Tagged
    from windlass_protocol.generated.common import Count, Id

    class SessionCursor(Tagged, Closed):
        """A place in a session."""

        __qualname__ = "SessionCursor"

        __constants__ = ("scope",)

        session_id: Id
        seq: Count
        scope: Literal["session"] = "session"
        index: Maybe[Count] = None

    return SessionCursor


def _make_RunCursor() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, Maybe, Tagged
    from windlass_protocol.generated.common import Count, Id

    class RunCursor(Tagged, Closed):
        """A place in a run."""

        __qualname__ = "RunCursor"

        __constants__ = ("scope",)

        run_id: Id
        seq: Count
        scope: Literal["run"] = "run"
        index: Maybe[Count] = None

    return RunCursor


def _make_AgentCursor() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, Tagged
    from windlass_protocol.generated.common import Count, Id

    class AgentCursor(Tagged, Closed):
        """A place in the runs of an agent."""

        __qualname__ = "AgentCursor"

        __constants__ = ("scope",)

        agent_id: Id
        position: Count
        scope: Literal["agent"] = "agent"

    return AgentCursor


def _make_FilterCursor() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, Tagged
    from windlass_protocol.generated.common import Count, Sha256

    class FilterCursor(Tagged, Closed):
        """A place in what a filter lets through."""

        __qualname__ = "FilterCursor"

        __constants__ = ("scope",)

        fingerprint: Sha256
        position: Count
        scope: Literal["filter"] = "filter"

    return FilterCursor


def _make_Cursor() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.events import (
        AgentCursor,
        AllCursor,
        FilterCursor,
        RunCursor,
        SessionCursor,
    )

    Cursor = Annotated[
        AllCursor | SessionCursor | RunCursor | AgentCursor | FilterCursor,
        Field(discriminator="scope"),
    ]
    return Cursor


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "EventType": _make_EventType,
        "EVENT_DATA": _make_EVENT_DATA,
        "EventMeta": _make_EventMeta,
        "Event": _make_Event,
        "Record": _make_Record,
        "AllCursor": _make_AllCursor,
        "SessionCursor": _make_SessionCursor,
        "RunCursor": _make_RunCursor,
        "AgentCursor": _make_AgentCursor,
        "FilterCursor": _make_FilterCursor,
        "Cursor": _make_Cursor,
    },
)
