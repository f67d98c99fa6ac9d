"""Judgements of decisions that somebody made after the run, beside its session.

The session of a run belongs to whoever drives it, and may be busy with another run. So what is said of a run
from outside is in a session of its own, which is found by the id of the run.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from windlass_harness.ledger.names import EVALUATIONS
from windlass_harness.loop.drafts import ID_CHARS_MAX
from windlass_harness.views.decision_runs import RunDraft
from windlass_harness.views.fold import read
from windlass_harness.views.runs import run_id_of
from windlass_protocol import DecisionEvaluatedData, DecisionRun, Record

EVALUATED: Final = "decision.evaluated"


def evaluation_session(run_id: str) -> str:
    """Return the session of the judgements of a run."""
    named = EVALUATIONS + run_id
    if len(named) <= ID_CHARS_MAX:
        return named
    return f"{EVALUATIONS}sha256:{sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def with_evaluations(run: DecisionRun, records: Iterable[Record]) -> DecisionRun:
    """Return a run with the judgements in the records of its session of judgements.

    The newest judgement of a decision counts; one of a decision that nobody knows is left out.
    """
    draft = RunDraft(run)
    is_judged = False
    for record in records:
        if record.type == EVALUATED and run_id_of(record) == run.id:
            data = read(DecisionEvaluatedData, record.data)
            is_judged = draft.judge(data.decision_id, data.evaluation) or is_judged
    return draft.freeze() if is_judged else run
