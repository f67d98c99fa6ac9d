"""R14: journals of older releases fold to the same states."""

import json
from pathlib import Path

import pytest
from tests.golden.journal import FOLDS, HASHES, JOURNALS, digest, dump_as_before, hashes, read
from tests.golden.stories import STORIES, tell

from windlass.testing import always_replay
from windlass_harness.loop.state import LoopState, dump_loop, load_loop

VERSIONS = sorted(folder for folder in JOURNALS.iterdir() if folder.is_dir())
JOURNALS_MIN = 50
BYTES_MAX = 400_000


def test_there_are_enough_journals_and_they_are_small() -> None:
    paths = [path for folder in VERSIONS for path in folder.glob("*.gz")]
    assert len(paths) >= JOURNALS_MIN
    assert sum(path.stat().st_size for folder in VERSIONS for path in folder.iterdir()) <= BYTES_MAX


@pytest.mark.promise("J7")
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_every_journal_of_a_release_makes_the_states_that_it_made_then(folder: Path) -> None:
    known = json.loads((folder / HASHES).read_text(encoding="utf-8"))
    found = {path.name: hashes(read(path)) for path in sorted(folder.glob("*.gz"))}
    wrong = [
        f"{folder.name}/{name}: {view}"
        for name in known
        for view in FOLDS
        if found.get(name, {}).get(view) != known[name][view]
    ]
    assert found.keys() == known.keys()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_every_journal_can_be_folded_in_two_parts(folder: Path) -> None:
    for path in folder.glob("*.gz"):
        records = read(path)
        half = LoopState()
        half.apply_all(records[: len(records) // 2])
        state = load_loop(dump_loop(half))
        assert state is not None
        state.apply_all(records[len(records) // 2 :])
        assert digest(dump_as_before(state)) == hashes(records)["loop"], path.name


@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_the_same_way_for_sessions_that_forget_everything(name: str) -> None:
    usual = tell(name)
    with always_replay():
        assert tell(name) == usual


def test_another_state_has_another_hash_and_an_empty_field_does_not_count() -> None:
    assert digest(b'x\n{"a":1}') != digest(b'x\n{"a":2}')
    assert digest(b'x\n{"a":1}') == digest(b'y\n{"a":1,"b":null,"c":[]}')
