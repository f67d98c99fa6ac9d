"""Views: folds of the journal that can be dropped and built again.

Every fold of records has the same signature, `fold_x(records, state=None) -> state`: start with None,
continue with the last result. Any state can be stored with `dump_state` and read back with `load_state`.
`ChatFold` takes live deltas as well, and returns the changes that a chat shows.
"""

from windlass_harness.views.chat import ChatState, fold_chat, step_message_id
from windlass_harness.views.decisions import DecisionsState, fold_decisions, with_options
from windlass_harness.views.events import to_event, to_sse
from windlass_harness.views.fold import VIEW_VERSION, Gap, Position, dump_state, load_state
from windlass_harness.views.history import Call, CallStage, History, OpenStep
from windlass_harness.views.ledger import describe_decision, narrate, summarize_run
from windlass_harness.views.runs import RunsState, RunState, fold_runs
from windlass_harness.views.session import (
    SessionState,
    SessionStatus,
    TurnState,
    TurnStatus,
    Wait,
    fold_session,
)
from windlass_harness.views.stream import ChatFold
from windlass_harness.views.usage import RunTime, Tally, UsageState, add_usage, fold_usage

__all__ = [
    "VIEW_VERSION",
    "Call",
    "CallStage",
    "ChatFold",
    "ChatState",
    "DecisionsState",
    "Gap",
    "History",
    "OpenStep",
    "Position",
    "RunState",
    "RunTime",
    "RunsState",
    "SessionState",
    "SessionStatus",
    "Tally",
    "TurnState",
    "TurnStatus",
    "UsageState",
    "Wait",
    "add_usage",
    "describe_decision",
    "dump_state",
    "fold_chat",
    "fold_decisions",
    "fold_runs",
    "fold_session",
    "fold_usage",
    "load_state",
    "narrate",
    "step_message_id",
    "summarize_run",
    "to_event",
    "to_sse",
    "with_options",
]
