"""A fleet with real processes: what is killed is started again, and no session is lost."""

import pytest
from tests.fleet.storm import play

pytestmark = pytest.mark.slow


def test_every_session_ends_when_a_worker_is_killed() -> None:
    told = play(sessions=6, servers=1, workers=2, blows=1, seed=1)
    assert told["violations"] == []
    assert (told["trials"], told["kills"], told["ended"]) == (6, 1, {"completed": 6})
    assert told["effects"] >= 3 * 6
