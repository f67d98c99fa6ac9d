"""People in several processes who answer one request at the same moment: see `answers.py`."""

from pathlib import Path

import pytest
from tests.depth import some
from tests.faults.answers import KINDS, race_answers

from tools.postgres import Postgres

SEED = 7
RACES = some(6)


@pytest.mark.slow
@pytest.mark.promise("A1")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_of_answers_at_one_moment_one_counts_and_the_others_are_refused_with_it(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = str(tmp_path / "app.db")
    if store == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        address = server.new_database()
    outcome = race_answers(address, tmp_path, kinds=KINDS, races=RACES, seed=SEED)
    assert outcome["violations"] == []
    assert outcome["races"] == RACES * len(KINDS)
