"""Limits: past each one the grade is caution, or worse if danger is in sight."""

import shlex

import pytest

from windlass_harness.shell import classify, classify_shell_command
from windlass_harness.shell.limits import COMMAND_CHARS_MAX, FAMILY_WORDS_MAX, NESTING_MAX


def nested(command: str, levels: int) -> str:
    for _ in range(levels):
        command = f"echo $({command})"
    return command


def quoted(command: str, levels: int) -> str:
    for _ in range(levels):
        command = f"eval {shlex.quote(command)}"
    return command


def test_a_command_at_the_limit_is_graded_and_one_past_it_is_not_safe() -> None:
    exact = "ls " + "a" * (COMMAND_CHARS_MAX - len("ls "))
    assert classify_shell_command(exact).severity == "safe"
    assert classify_shell_command(exact + "a").category == "unknown/size"


def test_the_visible_part_of_an_oversized_command_is_still_looked_at() -> None:
    assert classify_shell_command("rm x; echo " + "a" * COMMAND_CHARS_MAX).severity == "dangerous"


def test_nesting_past_the_limit_asks_for_caution() -> None:
    assert classify_shell_command(nested("date", 5)).severity == "safe"
    assert classify_shell_command(nested("date", NESTING_MAX)).category == "unknown/size"
    assert classify_shell_command(nested("rm x", NESTING_MAX)).severity == "dangerous"


def test_code_in_code_past_the_limit_asks_for_caution() -> None:
    deep = "date"
    for _ in range(NESTING_MAX + 2):
        deep = f'x={shlex.quote(deep)}; eval "$x"' if len(deep) < 200 else f"eval eval {deep}"
    assert classify_shell_command(deep).severity != "safe"


@pytest.mark.parametrize("wrapper", ["env", "nice", "nohup", "eval", "command"])
def test_a_long_chain_of_wrappers_asks_for_caution(wrapper: str) -> None:
    assert classify_shell_command(f"{wrapper} " * 60 + "ls").severity == "caution"
    assert classify_shell_command(f"{wrapper} " * 3 + "rm x").severity == "dangerous"


def test_a_program_that_loops_over_loops_is_cut() -> None:
    loops = "for i in 1 2 3 4 5 6 7 8; do " * 10 + "ls" + "; done" * 10
    assert classify_shell_command(loops).category == "unknown/size"


def test_a_function_that_doubles_its_calls_is_cut() -> None:
    doubling = "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; f{n + 1}; }}; " for n in range(20)) + "f0"
    assert classify_shell_command(doubling).severity == "caution"


def test_more_words_than_a_family_compares_are_not_safe() -> None:
    assert classify_shell_command("git log " + "a " * (FAMILY_WORDS_MAX - 1)).severity == "safe"
    assert classify_shell_command("git log " + "a " * FAMILY_WORDS_MAX).severity == "caution"
    codes = {reason.code for reason in classify_shell_command("git add " + "a " * FAMILY_WORDS_MAX).reasons}
    assert "unknown/size" in codes


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "piece",
    [
        "$(",
        "((",
        "`",
        "{a,",
        "${x:-",
        "<<A\n",
        "<(",
        "[[ ",
        "\\",
        "'",
        '"',
        "$((",
        "! ",
        "ls|",
        "a=1 ",
        "case x in a) ",
        "\n",
        "é",
    ],
)
def test_any_repeated_piece_is_graded_within_the_limits(piece: str) -> None:
    text = piece * (COMMAND_CHARS_MAX // len(piece))
    assert classify_shell_command(text).category != "unknown/error"


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
        "ls\u200b",
        "ls \u202e",
        "ls \x1b[2K",
        "ls \x00",
        "ls \x7f",
        "ls\u00a0-l",
        "ls \ufeff",
        "ls \U000e0041",
        "ls \ud800",
        "ls \r",
    ],
)
def test_characters_that_hide_text_are_never_safe(text: str) -> None:
    verdict = classify_shell_command(text)
    assert verdict.severity == "caution"
    assert "unknown/control" in {reason.code for reason in verdict.reasons}


def test_hidden_characters_do_not_hide_a_dangerous_command() -> None:
    assert classify_shell_command("rm -rf x \u202e").severity == "dangerous"


def test_letters_of_other_scripts_are_safe_in_arguments_and_not_in_commands() -> None:
    assert classify_shell_command("cat данные.txt 数据").severity == "safe"
    assert classify_shell_command("lѕ -la").severity == "caution"


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t"])
def test_an_empty_command_is_not_safe(text: str) -> None:
    assert classify_shell_command(text).category == "unknown/empty"


def test_a_comment_alone_is_safe() -> None:
    assert classify_shell_command("# rm -rf /\n  # more").severity == "safe"
