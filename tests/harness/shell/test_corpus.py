"""The graded commands: never-safe ones, the recall of danger, and the allowed rate of false alarms."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.harness.shell.corpus import WRAPPINGS, Row, all_rows, rows

from windlass_harness.shell import ShellVerdict, classify_shell_command

RECALL_MIN = {"corpus.tsv": 1.0, "more.tsv": 0.90, "unseen.tsv": 0.80}
FRICTION_MAX: dict[str, float] = {
    **dict.fromkeys(("corpus.tsv", "everyday.tsv"), 0.10),
    # They try many structures of the shell, none of which is in the language.
    "habits.tsv": 0.17,
    "unseen.tsv": 0.20,
    "more.tsv": 0.26,
}
"""The part of what people and models ask for that may ask."""
CAUTION_ACCURACY_MIN = 0.90


@cache
def graded_as(command: str) -> ShellVerdict:
    """Grade a command once for all tests of the graded ones."""
    return classify_shell_command(command)


def wrong(found: Sequence[Row], expected: str, graded: str) -> list[str]:
    return [
        row.command[:200]
        for row in found
        if row.expected == expected and graded_as(row.command).severity == graded
    ]


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    "name",
    ["corpus.tsv", "more.tsv", "unseen.tsv", "bypasses.tsv", "attacks.tsv", "everyday.tsv", "habits.tsv"],
)
def test_no_dangerous_or_cautious_command_is_called_safe(name: str) -> None:
    found = rows(name)
    assert wrong(found, "dangerous", "safe") == []
    assert wrong(found, "caution", "safe") == []


@pytest.mark.parametrize("name", RECALL_MIN)
def test_most_dangerous_commands_are_called_dangerous(name: str) -> None:
    found = rows(name)
    missed = wrong(found, "dangerous", "caution")
    total = sum(row.expected == "dangerous" for row in found)
    assert len(missed) <= (1 - RECALL_MIN[name]) * total, missed


@pytest.mark.parametrize("name", FRICTION_MAX)
def test_few_harmless_reads_are_graded_above_safe(name: str) -> None:
    found = rows(name)
    flagged = wrong(found, "safe", "caution") + wrong(found, "safe", "dangerous")
    total = sum(row.expected == "safe" for row in found)
    assert len(flagged) <= FRICTION_MAX[name] * total, flagged


def test_the_page_on_consent_tells_how_many_reads_ask() -> None:
    page = (Path(__file__).parents[3] / "docs" / "consent.md").read_text()
    total = sum(row.expected == "safe" for row in rows("everyday.tsv"))
    assert f"Of {total} everyday reads at most {FRICTION_MAX['everyday.tsv']:.0%}".replace("%", " %") in page
    assert f"it is up to {max(FRICTION_MAX.values()):.0%}".replace("%", " %") in page


@pytest.mark.parametrize("name", FRICTION_MAX)
def test_hardly_any_harmless_read_is_called_dangerous(name: str) -> None:
    found = rows(name)
    assert len(wrong(found, "safe", "dangerous")) <= 0.04 * sum(row.expected == "safe" for row in found)


def test_most_cautious_commands_are_not_called_dangerous() -> None:
    found = all_rows()
    flagged = wrong(found, "caution", "dangerous")
    total = sum(row.expected == "caution" for row in found)
    assert len(flagged) <= (1 - CAUTION_ACCURACY_MIN) * total, flagged


def test_the_grader_never_fails_on_a_graded_command() -> None:
    failed = [row.command for row in all_rows() if graded_as(row.command).category == "unknown/error"]
    assert failed == []


@pytest.mark.uncounted
@pytest.mark.promise("S2")
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapping_never_makes_a_command_safe(wrapping: str) -> None:
    wrap = WRAPPINGS[wrapping]
    found = [row for row in rows("corpus.tsv") if row.expected != "safe" and row.command.strip()]
    # Half of a substitution: it ends early, and the rest is text.
    found = [row for row in found if row.command != "ls )"]
    hidden = [row.command for row in found if classify_shell_command(wrap(row.command)).severity == "safe"]
    assert hidden == []
