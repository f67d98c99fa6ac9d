"""The decision ledger: record decisions, query them, improve agents by them.

    from windlass.ledger import BuilderQuery, Runtime

`Runtime` records the decisions of an agent, one durable record per call; `BuilderQuery` reads them. Names are
imported on first use: a program that only records does not load the modules for reading.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.ledger.builder import Builder as Builder
    from windlass.ledger.goals import Check as Check
    from windlass.ledger.goals import Contains as Contains
    from windlass.ledger.goals import Criterion as Criterion
    from windlass.ledger.goals import Exact as Exact
    from windlass.ledger.goals import FitsSchema as FitsSchema
    from windlass.ledger.goals import Goal as Goal
    from windlass.ledger.goals import Judge as Judge
    from windlass.ledger.goals import Limit as Limit
    from windlass.ledger.kinds import DecisionType as DecisionType
    from windlass.ledger.kinds import RecordingError as RecordingError
    from windlass.ledger.kinds import RunStatus as RunStatus
    from windlass.ledger.model import Decision as Decision
    from windlass.ledger.model import DecisionEvaluation as DecisionEvaluation
    from windlass.ledger.model import Option as Option
    from windlass.ledger.model import Outcome as Outcome
    from windlass.ledger.model import Problem as Problem
    from windlass.ledger.model import Run as Run
    from windlass.ledger.model import RunMetrics as RunMetrics
    from windlass.ledger.model import RunSummary as RunSummary
    from windlass.ledger.query import BuilderQuery as BuilderQuery
    from windlass.ledger.query import FailureAnalysis as FailureAnalysis
    from windlass.ledger.query import PatternAnalysis as PatternAnalysis
    from windlass.ledger.recorder import Runtime as Runtime
    from windlass.ledger.recorder import in_this_context as in_this_context
    from windlass.ledger.replays import CheckReport as CheckReport
    from windlass.ledger.reports import report as report
    from windlass.ledger.reports import report_json as report_json
    from windlass_harness.ledger import Attempt as Attempt
    from windlass_harness.ledger import Failure as Failure
    from windlass_harness.ledger import GoalScore as GoalScore
    from windlass_harness.ledger import ProposalState as ProposalState
    from windlass_harness.ledger import ProposalStatus as ProposalStatus
    from windlass_harness.ledger import classify as classify
    from windlass_harness.ledger import report_text as report_text
    from windlass_protocol import FailureKind as FailureKind
    from windlass_protocol import Proposal as Proposal


_HOMES = {
    "windlass.ledger.builder": ("Builder",),
    "windlass.ledger.goals": (
        "Check",
        "Contains",
        "Criterion",
        "Exact",
        "FitsSchema",
        "Goal",
        "Judge",
        "Limit",
    ),
    "windlass.ledger.kinds": (
        "DecisionType",
        "RecordingError",
        "RunStatus",
    ),
    "windlass.ledger.model": (
        "Decision",
        "DecisionEvaluation",
        "Option",
        "Outcome",
        "Problem",
        "Run",
        "RunMetrics",
        "RunSummary",
    ),
    "windlass.ledger.query": (
        "BuilderQuery",
        "FailureAnalysis",
        "PatternAnalysis",
    ),
    "windlass.ledger.recorder": (
        "Runtime",
        "in_this_context",
    ),
    "windlass.ledger.replays": ("CheckReport",),
    "windlass.ledger.reports": (
        "report",
        "report_json",
    ),
    "windlass_harness.ledger": (
        "Attempt",
        "Failure",
        "GoalScore",
        "ProposalState",
        "ProposalStatus",
        "classify",
        "report_text",
    ),
    "windlass_protocol": (
        "FailureKind",
        "Proposal",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
