"""Views: folds of the journal that can be dropped and built again.

Every fold of records has the same signature, `fold_x(records, state=None) -> state`: start with None,
continue with the last result. Any state can be stored with `dump_state` and read back with `load_state`.
`ChatFold` takes live deltas as well, and returns the changes that a chat shows.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass_harness.record import to_event as to_event
    from windlass_harness.views.chat import ChatState as ChatState
    from windlass_harness.views.chat import fold_chat as fold_chat
    from windlass_harness.views.chat import step_message_id as step_message_id
    from windlass_harness.views.decisions import DecisionsState as DecisionsState
    from windlass_harness.views.decisions import fold_decisions as fold_decisions
    from windlass_harness.views.decisions import with_options as with_options
    from windlass_harness.views.events import to_sse as to_sse
    from windlass_harness.views.fold import VIEW_VERSION as VIEW_VERSION
    from windlass_harness.views.fold import Gap as Gap
    from windlass_harness.views.fold import Position as Position
    from windlass_harness.views.fold import dump_state as dump_state
    from windlass_harness.views.fold import load_state as load_state
    from windlass_harness.views.history import Call as Call
    from windlass_harness.views.history import CallStage as CallStage
    from windlass_harness.views.history import History as History
    from windlass_harness.views.history import OpenStep as OpenStep
    from windlass_harness.views.ledger import describe_decision as describe_decision
    from windlass_harness.views.ledger import narrate as narrate
    from windlass_harness.views.ledger import summarize_run as summarize_run
    from windlass_harness.views.runs import RunsState as RunsState
    from windlass_harness.views.runs import RunState as RunState
    from windlass_harness.views.runs import fold_runs as fold_runs
    from windlass_harness.views.session import SessionState as SessionState
    from windlass_harness.views.session import SessionStatus as SessionStatus
    from windlass_harness.views.session import TurnState as TurnState
    from windlass_harness.views.session import TurnStatus as TurnStatus
    from windlass_harness.views.session import Wait as Wait
    from windlass_harness.views.session import fold_session as fold_session
    from windlass_harness.views.stream import ChatFold as ChatFold
    from windlass_harness.views.usage import RunTime as RunTime
    from windlass_harness.views.usage import Tally as Tally
    from windlass_harness.views.usage import UsageState as UsageState
    from windlass_harness.views.usage import add_usage as add_usage
    from windlass_harness.views.usage import fold_usage as fold_usage

_HOMES = {
    "windlass_harness.record": ("to_event",),
    "windlass_harness.views.chat": (
        "ChatState",
        "fold_chat",
        "step_message_id",
    ),
    "windlass_harness.views.decisions": (
        "DecisionsState",
        "fold_decisions",
        "with_options",
    ),
    "windlass_harness.views.events": ("to_sse",),
    "windlass_harness.views.fold": (
        "Gap",
        "Position",
        "VIEW_VERSION",
        "dump_state",
        "load_state",
    ),
    "windlass_harness.views.history": (
        "Call",
        "CallStage",
        "History",
        "OpenStep",
    ),
    "windlass_harness.views.ledger": (
        "describe_decision",
        "narrate",
        "summarize_run",
    ),
    "windlass_harness.views.runs": (
        "RunState",
        "RunsState",
        "fold_runs",
    ),
    "windlass_harness.views.session": (
        "SessionState",
        "SessionStatus",
        "TurnState",
        "TurnStatus",
        "Wait",
        "fold_session",
    ),
    "windlass_harness.views.stream": ("ChatFold",),
    "windlass_harness.views.usage": (
        "RunTime",
        "Tally",
        "UsageState",
        "add_usage",
        "fold_usage",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
