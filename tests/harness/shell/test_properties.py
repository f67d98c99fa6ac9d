"""Every text gets a verdict, and adding text never lowers a grade."""

from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.harness.shell.corpus import all_rows, rows

from windlass_harness.shell import ShellVerdict, classify_shell_command
from windlass_harness.shell.model import PART_CHARS_MAX, REASONS_MAX

SHELL_BITS = st.sampled_from(
    [
        *"'\"\\`$(){}[]<>|&;!#*?~=\n\t ",
        *("$(", "${", "$((", "))", "<<E\n", "\nE\n", "<<<", "<(", "[[ ", " ]]", "((", "$'"),
        *"if then fi for in do done case esac while function coproc time rm ls echo eval x a=1".split(),
    ]
)
PROGRAM_LIKE = st.lists(SHELL_BITS | st.text(max_size=4), max_size=40).map("".join)
DANGEROUS = st.sampled_from([row.command for row in rows("corpus.tsv") if row.expected == "dangerous"])
HARMLESS = st.sampled_from(
    [row.command for row in all_rows() if row.expected == "safe" and "#" not in row.command]
)
JOINERS = st.sampled_from(["; ", "\n", " && ", " || ", " | ", " & "])


def check_shape(verdict: ShellVerdict) -> None:
    ranks = {"safe": 0, "caution": 1, "dangerous": 2}
    found = [ranks[reason.severity] for reason in verdict.reasons]
    assert found == sorted(found, reverse=True)
    assert verdict.severity == (verdict.reasons[0].severity if verdict.reasons else "safe")
    assert verdict.category == (verdict.reasons[0].code if verdict.reasons else "read")
    assert len(verdict.reasons) <= REASONS_MAX
    assert all(len(reason.part) <= PART_CHARS_MAX and reason.message for reason in verdict.reasons)
    assert verdict.category != "unknown/error"


@given(st.text(max_size=300))
def test_any_text_gets_a_verdict(text: str) -> None:
    check_shape(classify_shell_command(text))


@settings(max_examples=some(400))
@given(PROGRAM_LIKE)
def test_any_shell_like_text_gets_a_verdict(text: str) -> None:
    check_shape(classify_shell_command(text))


@given(DANGEROUS, HARMLESS, HARMLESS, JOINERS, JOINERS)
def test_a_dangerous_part_is_never_hidden_by_its_neighbours(
    dangerous: str, before: str, after: str, first: str, second: str
) -> None:
    assert classify_shell_command(f"{before}{first}{dangerous}").severity != "safe"
    assert classify_shell_command(f"{before}\n{dangerous}\n{after}").severity != "safe"
    assert classify_shell_command(f"{dangerous}\n{after}{second}{before}").severity != "safe"


@given(st.lists(DANGEROUS | HARMLESS, min_size=2, max_size=5), st.data())
def test_a_splice_of_commands_with_a_dangerous_one_is_not_safe(parts: list[str], data: st.DataObject) -> None:
    joined = parts[0]
    for part in parts[1:]:
        joined += data.draw(JOINERS) + part
    verdict = classify_shell_command(joined)
    check_shape(verdict)
    if any(classify_shell_command(part).severity == "dangerous" for part in parts[:1]):
        assert verdict.severity != "safe"


@given(PROGRAM_LIKE)
def test_the_same_text_always_gets_the_same_verdict(text: str) -> None:
    assert classify_shell_command(text) == classify_shell_command(text)


def test_a_command_that_is_not_text_is_never_safe() -> None:
    for value in (None, 5, b"ls", ["ls"], object()):
        verdict = classify_shell_command(cast(str, value))
        assert (verdict.severity, verdict.category) == ("caution", "unknown/type")
        assert verdict.reasons[0].message == "the command is not text"
        assert verdict.reasons[0].part == type(value).__name__
