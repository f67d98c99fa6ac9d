"""The graded commands: never-safe ones, and the allowed rate of false alarms."""

from collections.abc import Sequence
from functools import cache

import pytest
from tests.harness.shell.corpus import WRAPPINGS, Row, all_rows, rows

from windlass_harness.shell import ShellVerdict, classify_shell_command

RECALL_MIN = 0.98
FRICTION_MAX = 0.05
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
@pytest.mark.parametrize("name", ["corpus.tsv", "more.tsv", "unseen.tsv"])
def test_no_dangerous_or_cautious_command_is_called_safe(name: str) -> None:
    found = rows(name)
    assert wrong(found, "dangerous", "safe") == []
    assert wrong(found, "caution", "safe") == []


@pytest.mark.parametrize("name", ["corpus.tsv", "more.tsv", "unseen.tsv"])
def test_almost_every_dangerous_command_is_called_dangerous(name: str) -> None:
    found = rows(name)
    missed = wrong(found, "dangerous", "caution")
    total = sum(row.expected == "dangerous" for row in found)
    assert len(missed) <= (1 - RECALL_MIN) * total, missed


@pytest.mark.parametrize("name", ["corpus.tsv", "more.tsv", "unseen.tsv"])
def test_few_harmless_reads_are_graded_above_safe(name: str) -> None:
    found = rows(name)
    flagged = wrong(found, "safe", "caution") + wrong(found, "safe", "dangerous")
    total = sum(row.expected == "safe" for row in found)
    assert len(flagged) <= FRICTION_MAX * total, flagged


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
    hidden: list[str] = []
    dangerous = missed = 0
    for row in rows("corpus.tsv"):
        # Wrapped, nothing is still nothing, and a lone parenthesis becomes part of a valid program.
        if row.expected == "safe" or not row.command.strip() or row.command == "ls )":
            continue
        severity = classify_shell_command(wrap(row.command)).severity
        if severity == "safe":
            hidden.append(row.command)
        dangerous += row.expected == "dangerous"
        missed += row.expected == "dangerous" and severity != "dangerous"
    assert hidden == []
    assert missed <= (1 - RECALL_MIN) * dangerous
