"""Evaluations of a run, recorded beside its session."""

from tests.harness.ledger.samples import answer, decision, run
from tests.harness.views.journal import Facts, Journal

from windlass_harness.ledger.goals import EVALUATED, with_evaluations
from windlass_harness.ledger.names import evaluation_session
from windlass_protocol.limits import ID_CHARS_MAX


def judged(journal: Journal, decision_id: str, run_id: str, *, is_aligned: bool) -> Journal:
    data: Facts = {"decisionId": decision_id, "evaluation": {"goalAligned": is_aligned}}
    return journal.add(EVALUATED, data, runId=run_id)


def test_the_newest_judgement_of_a_decision_counts() -> None:
    before = run(decision("d1"), answer())
    journal = judged(Journal(), "end", before.id, is_aligned=False)
    judged(journal, "end", before.id, is_aligned=True)
    first, last = with_evaluations(before, journal.records).decisions
    assert first.evaluation is None
    assert last.evaluation is not None
    assert last.evaluation.goal_aligned


def test_evaluations_of_other_runs_and_unknown_decisions_are_left_out() -> None:
    before = run(decision("d1"), answer())
    journal = judged(Journal(), "end", "another", is_aligned=False)
    judged(journal, "ghost", before.id, is_aligned=False)
    assert with_evaluations(before, journal.records) is before


def test_every_run_has_a_session_of_judgements_of_its_own_however_long_its_id_is() -> None:
    ids = ["r", "r" * ID_CHARS_MAX, "r" * (ID_CHARS_MAX - 1) + "s"]
    names = {evaluation_session(run_id) for run_id in ids}
    assert len(names) == len(ids)
    assert max(map(len, names)) <= ID_CHARS_MAX
