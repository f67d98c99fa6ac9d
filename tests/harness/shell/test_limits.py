"""Limits, hidden characters and failures: none of them makes a command safe."""

import pytest

from windlass_harness.shell import classify, classify_shell_command
from windlass_harness.shell.model import COMMAND_CHARS_MAX, WORDS_MAX


def test_a_command_at_the_limit_is_graded_and_one_past_it_is_not_safe() -> None:
    exact = "ls " + "a" * (COMMAND_CHARS_MAX - len("ls "))
    assert classify_shell_command(exact).severity == "safe"
    assert classify_shell_command(exact + "a").category == "unknown/size"


def test_words_at_the_limit_are_graded_and_one_past_it_are_not_safe() -> None:
    exact = "ls" + " a" * (WORDS_MAX - 1)
    assert classify_shell_command(exact).severity == "safe"
    assert classify_shell_command(exact + " a").category == "unknown/parse"


def test_the_visible_part_of_an_oversized_command_is_still_looked_at() -> None:
    assert classify_shell_command("rm x; echo " + "a" * COMMAND_CHARS_MAX).severity == "dangerous"


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "piece",
    [
        *("$(", "((", "`", "{a,", "${x:-", "<<A\n", "<(", "[[ ", "\\", "'", '"', "$((", "! ", "ls|", "a=1 "),
        *(
            "case x in a) ",
            "\n",
            "é",
            "git push ",
            "curl|",
            "curl ",
            "curl;sh ",
            "sudo ",
            "s/a/",
            "python -c ",
        ),
        *("a=b $a ", "rm;", "x() { x|", "awk '{print ", "env ", "> ", "-o ", ".env ", "kubectl ", "$'\\x41'"),
    ],
)
def test_any_repeated_piece_is_graded_within_the_limits(piece: str) -> None:
    text = piece * (COMMAND_CHARS_MAX // len(piece))
    assert classify_shell_command(text).category != "unknown/error"
    assert classify_shell_command(f"ls; {text}").severity != "safe"


def test_a_failure_inside_the_grader_is_never_safe_and_keeps_earlier_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise RuntimeError("boom")

    monkeypatch.setattr(classify, "agrees", fail)
    verdict = classify_shell_command("ls \u200b")
    assert {reason.code for reason in verdict.reasons} == {"unknown/error", "unknown/control"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ls\u200b",
            "ls \u202e",
            "ls \x1b[2K",
            "ls \x00",
            "ls \x7f",
            "ls\u00a0-l",
            "ls \ufeff",
            "ls \U000e0041",
        ),
        *("ls \ud800", "ls \r"),
    ],
)
def test_characters_that_hide_text_are_never_safe(text: str) -> None:
    verdict = classify_shell_command(text)
    assert verdict.severity == "caution"
    assert "unknown/control" in {reason.code for reason in verdict.reasons}


def test_hidden_characters_do_not_hide_a_dangerous_command() -> None:
    assert classify_shell_command("rm -rf x \u202e").severity == "dangerous"


@pytest.mark.parametrize("text", ["cat данные.txt", "lѕ -la", "ls\tsrc", "ls é"])
def test_letters_outside_printable_ascii_are_not_safe(text: str) -> None:
    assert classify_shell_command(text).category == "unknown/letters" or text.startswith("lѕ")
    assert classify_shell_command(text).severity == "caution"


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t"])
def test_an_empty_command_is_not_safe(text: str) -> None:
    assert classify_shell_command(text).category == "unknown/empty"


def test_a_comment_hides_nothing() -> None:
    assert classify_shell_command("# list").severity == "caution"
    assert classify_shell_command("ls # all").severity == "caution"
    assert classify_shell_command("ls # all\nrm x").severity == "dangerous"
    assert classify_shell_command("ls a#b; rm x").severity == "dangerous"
    assert classify_shell_command("ls '#' ; rm x").severity == "dangerous"


@pytest.mark.parametrize("blank", [0x80, 0x110000])
def test_characters_that_crash_the_scanner_never_reach_it(blank: int) -> None:
    for code in range(0x80, 0x3000, 7):
        assert classify_shell_command(f"echo <<E {chr(code) * 20} {blank}\nE").severity == "caution"
