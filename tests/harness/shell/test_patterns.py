"""Custom patterns: they really apply, and they only ever raise a grade."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.shell.corpus import all_rows

from windlass_harness.shell import ShellConfig, classify_shell_command
from windlass_harness.shell.model import PATTERN_CHARS_MAX, Platform
from windlass_protocol import CommandSafetyPattern

RANK = {"safe": 0, "caution": 1, "dangerous": 2}


def rule(
    pattern: str,
    severity: str = "critical",
    platform: str = "all",
) -> CommandSafetyPattern:
    return CommandSafetyPattern.model_validate(
        {
            "id": "no-deploys",
            "label": "No deploys",
            "description": "Deploys are made by people.",
            "pattern": pattern,
            "category": "house/deploy",
            "severity": severity,
            "platform": platform,
        }
    )


def grade(command: str, *rules: CommandSafetyPattern, platform: Platform = "unix") -> tuple[str, str]:
    verdict = classify_shell_command(command, ShellConfig(patterns=rules, platform=platform))
    return verdict.severity, verdict.category


def test_a_critical_pattern_makes_a_match_dangerous() -> None:
    assert grade("cat deploy.md", rule("deploy")) == ("dangerous", "house/deploy")


def test_a_warning_pattern_makes_a_match_ask_for_caution() -> None:
    assert grade("cat deploy.md", rule("deploy", "warning")) == ("caution", "house/deploy")


def test_a_pattern_that_does_not_match_changes_nothing() -> None:
    assert grade("cat a.md", rule("deploy")) == ("safe", "read")


@pytest.mark.parametrize(
    "command",
    [
        "cat  'dep'loy.md",
        "ls; cat dep\\loy.md",
        'echo $(cat "deploy".md)',
        "x=deploy.md; cat $x",
        "f() { cat dep''loy.md; }",
    ],
)
def test_a_pattern_is_matched_against_each_command_without_its_quotes(command: str) -> None:
    assert grade(command, rule(r"^cat deploy\.md$"))[0] == "dangerous"


def test_a_pattern_is_matched_against_the_command_as_it_was_written() -> None:
    assert grade("cat   a.md", rule("cat   a"))[0] == "dangerous"


@pytest.mark.parametrize(
    ("platform", "expected"), [("all", "dangerous"), ("unix", "dangerous"), ("windows", "safe")]
)
def test_a_pattern_of_another_platform_does_not_apply(platform: str, expected: str) -> None:
    assert grade("cat deploy.md", rule("deploy", platform=platform))[0] == expected


def test_a_windows_pattern_applies_on_windows() -> None:
    assert grade("cat deploy.md", rule("deploy", platform="windows"), platform="windows")[0] == "dangerous"


def test_on_windows_nothing_is_safe() -> None:
    assert grade("cat a.md", platform="windows") == ("caution", "unknown/program")
    assert grade("cat 'a.md'", platform="windows") == ("caution", "unknown/parse")
    assert grade("del 'a.md'", platform="windows")[0] == "dangerous"


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*a",
        "a)+",
        "(a+)+b",
        "(a*)*",
        "(?:a|a)+b",
        "(a?)+b",
        "(.*)*x",
        "(a{1,9})+x",
        ".*.*x",
        "a*b*c*d*e",
        "(?P<x>a)",
        "(?i)a",
        "(a)\\1",
        "a*+b",
        "\\Aa",
        "\\p{L}",
        "x" * (PATTERN_CHARS_MAX + 1),
    ],
)
def test_an_unusable_pattern_is_reported_and_nothing_is_safe(pattern: str) -> None:
    verdict = classify_shell_command("ls", ShellConfig(patterns=(rule(pattern),)))
    assert (verdict.severity, verdict.category) == ("caution", "unknown/pattern")
    assert "no-deploys" in verdict.reasons[0].message


@pytest.mark.parametrize(
    "pattern",
    [
        "deploy",
        "^kubectl\\s+apply\\b",
        "a|b",
        "(?:x|y)z",
        "[a-z]+\\.sh$",
        "(ab)+c",
        "((a)b)+c",
        "a{2,3}",
        "(?<!x)y",
        "[)(]+",
    ],
)
def test_an_ordinary_pattern_is_usable(pattern: str) -> None:
    assert grade("ls --color=auto qq", rule(pattern))[1] != "unknown/pattern"


@given(
    st.sampled_from(all_rows()),
    st.text("ab.*+?|()[]{}\\^$ -", max_size=12),
    st.sampled_from(["critical", "warning"]),
)
def test_a_pattern_never_lowers_a_grade(row: object, pattern: str, severity: str) -> None:
    command = str(getattr(row, "command", ""))
    before = classify_shell_command(command).severity
    assert RANK[grade(command, rule(pattern, severity))[0]] >= RANK[before]


@pytest.mark.parametrize("pattern", ["[[:alpha:]]", "[^[:space:]]x", "[a--b]", "[a&&b]", "[a||b]", "[a~~b]"])
def test_a_nested_character_set_is_unusable_and_raises_no_warning(
    pattern: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert grade("cat a.md", rule(pattern)) == ("caution", "unknown/pattern")
    assert not recwarn.list
