"""Snapshots: states as bytes, used only if they match."""

from tests.harness.views.journal import Journal

from windlass_harness.views import SessionState, UsageState, dump_state, fold_session, load_state
from windlass_harness.views.fold import VIEW_VERSION

STATE = fold_session(Journal().begin().answer("a", "b").run("a").result("b").records)
STORED = dump_state(STATE)


def test_a_snapshot_of_another_version_is_folded_anew() -> None:
    older = STORED.replace(b"windlass-view %d" % VIEW_VERSION, b"windlass-view %d" % (VIEW_VERSION - 1), 1)
    assert older != STORED
    assert load_state(SessionState, older) is None


def test_a_snapshot_that_is_torn_or_of_another_view_is_folded_anew() -> None:
    assert load_state(SessionState, b"") is None
    assert load_state(SessionState, STORED[:-1]) is None
    assert load_state(UsageState, STORED) is None
