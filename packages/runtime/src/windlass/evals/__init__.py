"""Evaluations: data sets, scorers, experiments and their results.

    from windlass.evals import Case, Dataset, Exact, Experiment

An experiment runs an agent on the cases of a data set. It is made of runs, so it continues after a crash and
pays for nothing twice.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.evals.dataset import Case as Case
    from windlass.evals.dataset import Conversation as Conversation
    from windlass.evals.dataset import Dataset as Dataset
    from windlass.evals.datasets import Datasets as Datasets
    from windlass.evals.experiment import Experiment as Experiment
    from windlass.evals.experiment import check_proposal as check_proposal
    from windlass.evals.results import Agreement as Agreement
    from windlass.evals.results import ExperimentResult as ExperimentResult
    from windlass.evals.results import Gate as Gate
    from windlass.evals.results import GateResult as GateResult
    from windlass.evals.results import Results as Results
    from windlass.evals.scorers import Scorer as Scorer
    from windlass.ledger.goals import EXPECTED as EXPECTED
    from windlass.ledger.goals import Calls as Calls
    from windlass.ledger.goals import Check as Check
    from windlass.ledger.goals import Contains as Contains
    from windlass.ledger.goals import Exact as Exact
    from windlass.ledger.goals import FitsSchema as FitsSchema
    from windlass.ledger.goals import Judge as Judge
    from windlass.ledger.goals import Limit as Limit
    from windlass.ledger.goals import Matches as Matches
    from windlass.ledger.goals import Near as Near
    from windlass.ledger.goals import PolicyOutcome as PolicyOutcome
    from windlass_harness.ledger import Attempt as Attempt

_HOMES = {
    "windlass.evals.dataset": ("Case", "Conversation", "Dataset"),
    "windlass.evals.datasets": ("Datasets",),
    "windlass.evals.experiment": ("Experiment", "check_proposal"),
    "windlass.evals.results": ("Agreement", "ExperimentResult", "Gate", "GateResult", "Results"),
    "windlass.evals.scorers": ("Scorer",),
    "windlass.ledger.goals": (
        "EXPECTED",
        "Calls",
        "Check",
        "Contains",
        "Exact",
        "FitsSchema",
        "Judge",
        "Limit",
        "Matches",
        "Near",
        "PolicyOutcome",
    ),
    "windlass_harness.ledger": ("Attempt",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
