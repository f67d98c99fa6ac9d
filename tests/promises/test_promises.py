"""PROMISES.md and the tests say the same, in both directions."""

from pathlib import PurePosixPath

import pytest

from tools.files import ROOT, repository_files
from tools.promises import Mark, Promise, PromiseError, Status, disagreements, read_marks, read_table

PAGE = """# Promises

| id | promise | status | proof |
|---|---|---|---|
| J1 | A record survives. | proved | `tests/faults/test_kill.py`, `tests/sim` |
| S1 | No secret is shown. | partly | masking only: `tests/harness` |
| T1 | Tenants are apart. | later | — |

More words.
"""
KILL = PurePosixPath("tests/faults/test_kill.py")
SIM = PurePosixPath("tests/sim/test_seeds.py")
HARNESS = PurePosixPath("tests/harness/test_redact.py")
PROMISES = read_table(PAGE)
MARKS = [Mark("J1", KILL, 3), Mark("J1", SIM, 4), Mark("S1", HARNESS, 5)]


def test_every_promise_has_its_tests_and_every_test_its_promise() -> None:
    page = ROOT / "PROMISES.md"
    assert page.exists(), "PROMISES.md is missing"
    sources = [path for path in repository_files() if path.parts[0] == "tests" and path.suffix == ".py"]
    marks = [
        mark
        for path in sources
        for mark in read_marks(PurePosixPath(path), (ROOT / path).read_text(encoding="utf-8"))
    ]
    wrong = disagreements(read_table(page.read_text(encoding="utf-8")), marks)
    assert not wrong, "\n".join(wrong)


def test_the_table_is_read_with_its_status_proofs_and_lines() -> None:
    assert read_table(PAGE) == [
        Promise("J1", Status.PROVED, (KILL, SIM.parent), 5),
        Promise("S1", Status.PARTLY, (HARNESS.parent,), 6),
        Promise("T1", Status.LATER, (), 7),
    ]


def test_a_table_and_tests_that_agree_are_fine() -> None:
    assert disagreements(PROMISES, MARKS) == []


@pytest.mark.parametrize("promise_id", ["J1", "S1"])
def test_a_promise_proved_in_words_only_is_found(promise_id: str) -> None:
    [wrong] = disagreements(PROMISES, [mark for mark in MARKS if mark.promise_id != promise_id])
    assert f": {promise_id} is " in wrong
    assert wrong.endswith("but no test carries its id")


def test_a_marker_without_a_promise_is_found() -> None:
    assert disagreements(PROMISES, [*MARKS, Mark("J9", KILL, 8)]) == [
        f"{KILL}:8: J9 is not a promise of PROMISES.md"
    ]


def test_a_promise_for_later_that_a_test_proves_today_is_found() -> None:
    assert disagreements(PROMISES, [*MARKS, Mark("T1", SIM, 8)]) == [
        f"PROMISES.md:7: T1 is for later but {SIM}:8 proves it"
    ]


def test_a_proof_that_the_table_does_not_name_is_found() -> None:
    assert disagreements(PROMISES, [*MARKS, Mark("S1", SIM, 8)]) == [
        f"PROMISES.md:6: S1 does not name {SIM}, which proves it on line 8"
    ]


def test_a_named_proof_that_proves_nothing_is_found() -> None:
    assert disagreements(PROMISES, [mark for mark in MARKS if mark.path != SIM]) == [
        "PROMISES.md:5: J1 names tests/sim but no test there carries its id"
    ]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("| later |", "| soon |", "PROMISES.md:7: the status is 'soon'"),
        ("| T1 |", "| J1 |", "PROMISES.md:7: J1 is there twice"),
        ("| T1 |", "| tenants |", "PROMISES.md:7: expected an id like J1"),
        ("| later | — |", "| later |", "PROMISES.md:7: found 3 columns, expected 4"),
        ("| later | — |", "| later | `tests/sim` |", "PROMISES.md:7: the proof is '`tests/sim`'"),
        ("| later | — |", "| later | maybe |", "PROMISES.md:7: the proof is 'maybe'"),
        ("| later | — |", "| proved | — |", "PROMISES.md:7: the proof is '—'"),
        ("| id | promise |", "| id | words |", "expected one table"),
        (PAGE, "no table", "expected one table"),
    ],
)
def test_a_table_of_another_form_is_refused(before: str, after: str, complaint: str) -> None:
    with pytest.raises(PromiseError, match=complaint.replace("|", r"\|")):
        read_table(PAGE.replace(before, after))


def test_markers_are_found_on_functions_in_lists_and_on_parameters() -> None:
    source = """
pytestmark = [pytest.mark.promise("J1")]
@pytest.mark.promise("J2")
@pytest.mark.promise("J3")
def test_a(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.promise("J4"))])
class TestB: ...
text = 'pytest.mark.promise("J5")'
"""
    found = {(mark.promise_id, mark.line) for mark in read_marks(KILL, source)}
    assert found == {("J1", 2), ("J2", 3), ("J3", 4), ("J4", 6)}


@pytest.mark.parametrize("arguments", ["", "()", "(x)", "(promise_id='J1')", "('J1', 'J2')"])
def test_a_marker_without_a_literal_id_is_refused(arguments: str) -> None:
    with pytest.raises(PromiseError, match=f"{KILL}:2: write the id"):
        list(read_marks(KILL, f"\n@pytest.mark.promise{arguments}\ndef test_a(): ..."))
