"""Session ids of notes have a reserved prefix."""

import pytest

from windlass_harness.ledger.names import PROPOSALS, evaluation_session, is_notes


@pytest.mark.parametrize("name", [PROPOSALS, evaluation_session("r1"), evaluation_session("r" * 512)])
def test_a_session_with_notes_is_known_by_its_name(name: str) -> None:
    assert is_notes(name)


@pytest.mark.parametrize("name", ["notes", "session:notes:x", "proposals", "evaluation/r1", "Notes:x"])
def test_other_names_are_free(name: str) -> None:
    assert not is_notes(name)
