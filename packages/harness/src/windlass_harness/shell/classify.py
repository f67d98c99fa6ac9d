"""`classify`: grades a shell command; every input gets a verdict."""

from contextlib import suppress

from windlass_harness.shell.grade import Finding, Grader, severity_of
from windlass_harness.shell.limits import (
    COMMAND_CHARS_MAX,
    NODES_MAX,
    PARSE_UNITS_MAX,
    PART_CHARS_MAX,
    REASONS_MAX,
    SCAN_UNITS_MAX,
    WORK_UNITS_MAX,
)
from windlass_harness.shell.literal import literal_commands
from windlass_harness.shell.model import Severity, ShellConfig, ShellReason, ShellVerdict
from windlass_harness.shell.parser import parse_program
from windlass_harness.shell.patterns import pattern_reasons
from windlass_harness.shell.referee import agrees
from windlass_harness.shell.scene import Scene
from windlass_harness.shell.tables_code import MESSAGES
from windlass_harness.shell.tree import Budget, ShellSyntaxError, TooMuchWork
from windlass_protocol.lazy import lazy_pattern

Commands = tuple[tuple[str, ...], ...]

_RANK: dict[Severity, int] = {"safe": 0, "caution": 1, "dangerous": 2}
_CONTROL = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_PLAIN_EVERYWHERE = lazy_pattern(r"[A-Za-z0-9_ ./=:-]*")
_UNREADABLE = frozenset({"unknown/parse", "unknown/control", "unknown/size", "unknown/error"})
_DEFAULT = ShellConfig()
_REPLACEMENT = "\ufffc"


def classify_shell_command(command: str, config: ShellConfig = _DEFAULT) -> ShellVerdict:
    """Grade a shell command: safe, caution or dangerous, with reasons, worst first.

    Never raises: what is not understood is caution. The work is bounded by the length of the command and a
    counter, so the same command always costs the same.
    """
    grader = Grader(Budget(WORK_UNITS_MAX))
    extra: list[ShellReason] = []
    commands: Commands = ()
    if type(command) is not str:
        grader.note("unknown/type", type(command).__name__)
        return _verdict(grader.findings, extra, ())
    try:
        commands = _grade(command, config, grader)
        extra = pattern_reasons((command, *grader.simple_commands), config)
    except Exception:  # noqa: BLE001  (a grader that fails must not let the command through)
        grader.note("unknown/error", "")
    return _verdict(grader.findings, extra, commands)


def _grade(command: str, config: ShellConfig, grader: Grader) -> Commands:
    text = command
    if not command.strip():
        grader.note("unknown/empty", command)
        return ()
    if len(command) > COMMAND_CHARS_MAX:
        grader.note("unknown/size", command)
        text = command[:COMMAND_CHARS_MAX]
    if _CONTROL.search(text):
        grader.note("unknown/control", command)
        text = _CONTROL.sub(_REPLACEMENT, text)
    if config.platform == "windows" and not _PLAIN_EVERYWHERE.fullmatch(text):
        # cmd and PowerShell may read as an operator what bash reads as a quoted word.
        grader.note("unknown/parse", command)
    try:
        return _walk(grader, text)
    except TooMuchWork:
        grader.note("unknown/size", command)
        rest = Grader(Budget(SCAN_UNITS_MAX), grader.findings)
        with suppress(TooMuchWork):
            rest.scan(text, Scene())
    return ()


def _walk(grader: Grader, text: str) -> Commands:
    scene = Scene()
    try:
        script = parse_program(text, Budget(PARSE_UNITS_MAX))
    except ShellSyntaxError:
        grader.note("unknown/parse", text)
        grader.scan(text, scene)
        return ()
    if not agrees(text, script, budget=Budget(NODES_MAX)):
        grader.note("unknown/parse", text)
    grader.run_script(script, scene)
    return literal_commands(script)


def _shown(part: str) -> str:
    """Return a part as a person may read it, with an ellipsis for what is hidden."""
    return _CONTROL.sub("…", part)[:PART_CHARS_MAX]


def _verdict(findings: list[Finding], extra: list[ShellReason], commands: Commands) -> ShellVerdict:
    reasons = [
        ShellReason(category, severity_of(category), MESSAGES[category], _shown(part))
        for category, part in findings
    ]
    ordered = sorted([*reasons, *extra], key=lambda reason: -_RANK[reason.severity])
    if not ordered:
        return ShellVerdict("safe", "read", (), commands)
    worst = ordered[0]
    is_read_wrong = any(category in _UNREADABLE for category, _ in findings)
    return ShellVerdict(
        worst.severity, worst.code, tuple(ordered[:REASONS_MAX]), () if is_read_wrong else commands
    )
