"""Improving agents by what their recorded runs show.

    from windlass.improve import Builder, Contains, Goal

A `Goal` says what runs are for and how one knows that they got there. A `Builder` judges runs, proposes a
change to their agent, tries it on recorded runs without touching the world, and makes it when a person has
said yes. `report` tells what was found.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.improve.builder import Builder as Builder
    from windlass.improve.checking import CheckReport as CheckReport
    from windlass.improve.criteria import Check as Check
    from windlass.improve.criteria import Contains as Contains
    from windlass.improve.criteria import Criterion as Criterion
    from windlass.improve.criteria import Exact as Exact
    from windlass.improve.criteria import FitsSchema as FitsSchema
    from windlass.improve.criteria import Goal as Goal
    from windlass.improve.criteria import Judge as Judge
    from windlass.improve.criteria import Limit as Limit
    from windlass.improve.reports import report as report
    from windlass.improve.reports import report_json as report_json
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
    "builder": ("Builder",),
    "checking": ("CheckReport",),
    "criteria": ("Check", "Contains", "Criterion", "Exact", "FitsSchema", "Goal", "Judge", "Limit"),
    "reports": ("report", "report_json"),
}
_GUESTS = {
    "windlass_harness.ledger": (
        "Attempt",
        "Failure",
        "GoalScore",
        "ProposalState",
        "ProposalStatus",
        "classify",
        "report_text",
    ),
    "windlass_protocol": ("FailureKind", "Proposal"),
}

__getattr__, __dir__ = _lazy_names(
    __name__,
    {name: home for home, names in _HOMES.items() for name in names},
    guests={name: home for home, names in _GUESTS.items() for name in names},
)
