"""The ledger read with a question in mind: why runs fail, and which version is better.

Pure rules over recorded runs: kinds of failures, loops, goals and their criteria, comparisons with confidence
intervals, proposals, and reports. Whoever has the runs brings them.
"""

from windlass_harness.ledger.differences import differences
from windlass_harness.ledger.facts import RunFacts, run_facts
from windlass_harness.ledger.failures import Failure, blamed, classify, kind_of_code
from windlass_harness.ledger.goals import Attempt, GoalScore, Verdict
from windlass_harness.ledger.intervals import mean, mean_difference, rate, rate_difference, t_quantile
from windlass_harness.ledger.loops import Loop, find_loops
from windlass_harness.ledger.proposals import (
    ProposalsState,
    ProposalState,
    ProposalStatus,
    fold_proposals,
)
from windlass_harness.ledger.report_text import report_text
from windlass_harness.ledger.reports import (
    FailuresReport,
    GoalReport,
    ProposalReport,
    Report,
    RunReport,
    VersionsReport,
    failures_report,
    goal_report,
    run_report,
    versions_report,
)
from windlass_harness.ledger.tapes import Tape, TapedCall, call_key, read_tape
from windlass_harness.ledger.versions import Sample, compare_versions, tally

__all__ = [
    "Attempt",
    "Failure",
    "FailuresReport",
    "GoalReport",
    "GoalScore",
    "Loop",
    "ProposalReport",
    "ProposalState",
    "ProposalStatus",
    "ProposalsState",
    "Report",
    "RunFacts",
    "RunReport",
    "Sample",
    "Tape",
    "TapedCall",
    "Verdict",
    "VersionsReport",
    "blamed",
    "call_key",
    "classify",
    "compare_versions",
    "differences",
    "failures_report",
    "find_loops",
    "fold_proposals",
    "goal_report",
    "kind_of_code",
    "mean",
    "mean_difference",
    "rate",
    "rate_difference",
    "read_tape",
    "report_text",
    "run_facts",
    "run_report",
    "t_quantile",
    "tally",
    "versions_report",
]
