"""Rules over the ledger: why runs fail, and which version is better.

Pure rules over recorded runs: kinds of failures, loops, goals and their criteria, comparisons with confidence
intervals, proposals, and reports. The caller passes the runs; nothing is read here.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass_harness.ledger.failures import Failure as Failure
    from windlass_harness.ledger.failures import Loop as Loop
    from windlass_harness.ledger.failures import classify as classify
    from windlass_harness.ledger.failures import find_culprit as find_culprit
    from windlass_harness.ledger.failures import find_loops as find_loops
    from windlass_harness.ledger.failures import kind_of_code as kind_of_code
    from windlass_harness.ledger.goals import Attempt as Attempt
    from windlass_harness.ledger.goals import CriterionVerdict as CriterionVerdict
    from windlass_harness.ledger.goals import GoalScore as GoalScore
    from windlass_harness.ledger.goals import RunFacts as RunFacts
    from windlass_harness.ledger.goals import run_facts as run_facts
    from windlass_harness.ledger.proposals import ProposalsState as ProposalsState
    from windlass_harness.ledger.proposals import ProposalState as ProposalState
    from windlass_harness.ledger.proposals import ProposalStatus as ProposalStatus
    from windlass_harness.ledger.proposals import differences as differences
    from windlass_harness.ledger.proposals import fold_proposals as fold_proposals
    from windlass_harness.ledger.reports import FailuresReport as FailuresReport
    from windlass_harness.ledger.reports import GoalReport as GoalReport
    from windlass_harness.ledger.reports import ProposalReport as ProposalReport
    from windlass_harness.ledger.reports import Report as Report
    from windlass_harness.ledger.reports import RunReport as RunReport
    from windlass_harness.ledger.reports import VersionsReport as VersionsReport
    from windlass_harness.ledger.reports import failures_report as failures_report
    from windlass_harness.ledger.reports import goal_report as goal_report
    from windlass_harness.ledger.reports import report_text as report_text
    from windlass_harness.ledger.reports import run_report as run_report
    from windlass_harness.ledger.reports import versions_report as versions_report
    from windlass_harness.ledger.tapes import Tape as Tape
    from windlass_harness.ledger.tapes import TapedCall as TapedCall
    from windlass_harness.ledger.tapes import call_key as call_key
    from windlass_harness.ledger.tapes import read_tape as read_tape
    from windlass_harness.ledger.versions import Sample as Sample
    from windlass_harness.ledger.versions import compare_attempts as compare_attempts
    from windlass_harness.ledger.versions import compare_versions as compare_versions
    from windlass_harness.ledger.versions import mean as mean
    from windlass_harness.ledger.versions import mean_difference as mean_difference
    from windlass_harness.ledger.versions import paired_difference as paired_difference
    from windlass_harness.ledger.versions import rate as rate
    from windlass_harness.ledger.versions import rate_difference as rate_difference
    from windlass_harness.ledger.versions import tally as tally

_HOMES = {
    "windlass_harness.ledger.failures": (
        "Failure",
        "Loop",
        "find_culprit",
        "classify",
        "find_loops",
        "kind_of_code",
    ),
    "windlass_harness.ledger.goals": (
        "Attempt",
        "GoalScore",
        "RunFacts",
        "CriterionVerdict",
        "run_facts",
    ),
    "windlass_harness.ledger.proposals": (
        "ProposalState",
        "ProposalStatus",
        "ProposalsState",
        "differences",
        "fold_proposals",
    ),
    "windlass_harness.ledger.reports": (
        "FailuresReport",
        "GoalReport",
        "ProposalReport",
        "Report",
        "RunReport",
        "VersionsReport",
        "failures_report",
        "goal_report",
        "report_text",
        "run_report",
        "versions_report",
    ),
    "windlass_harness.ledger.tapes": (
        "Tape",
        "TapedCall",
        "call_key",
        "read_tape",
    ),
    "windlass_harness.ledger.versions": (
        "Sample",
        "compare_attempts",
        "compare_versions",
        "mean",
        "mean_difference",
        "paired_difference",
        "rate",
        "rate_difference",
        "tally",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
