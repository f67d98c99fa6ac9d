"""`classify_shell_command`: grades a shell command; every input gets a verdict."""

import re
from typing import Final

from windlass_harness.shell.dangerous import dangers, rough_commands
from windlass_harness.shell.language import Finding, folders_after, problem_of
from windlass_harness.shell.model import (
    COMMAND_CHARS_MAX,
    PART_CHARS_MAX,
    REASONS_MAX,
    Severity,
    ShellConfig,
    ShellReason,
    ShellVerdict,
)
from windlass_harness.shell.parser import NotLiteral, Simple, literal_commands, parse_literal
from windlass_harness.shell.patterns import pattern_reasons
from windlass_harness.shell.referee import agrees

Commands = tuple[tuple[str, ...], ...]

MESSAGES: Final = {
    "read": "only reads inside the workspace",
    "safe_write": "creates or edits files",
    "unknown/parse": "is not made of plain commands: variables, substitutions, groups, control flow,"
    " comments and the like",
    "unknown/type": "the command is not text",
    "unknown/empty": "nothing to run; reject rather than approve",
    "unknown/control": "control characters, bidi marks or look-alikes: what is seen is not what runs",
    "unknown/letters": "a tab or a letter outside ASCII",
    "unknown/size": "too long to be reviewed",
    "unknown/outside": "reads outside the workspace",
    "unknown/option": "an option or operand that is not listed as a read",
    "unknown/redirect": "a redirection other than 2>&1, to /dev/null, or from a file",
    "unknown/exec": "runs code: as safe as that code",
    "unknown/git": "a subcommand of git that is not listed as a read",
    "unknown/install": "fetches and may run third-party build code",
    "unknown/network": "outbound request; the egress policy decides",
    "unknown/pager": "opens a pager, which can run a shell",
    "unknown/editor": "opens an editor, which can write and run",
    "unknown/program": "a program that is not listed as a read",
    "unknown/pattern": "file names that may be an option (write ./*) or credentials, or an unusable pattern"
    " of the host",
    "unknown/error": "the grader failed on this command; treat it as unknown",
    "read/secret": "reads credentials",
    "read/ssrf": "metadata, local control sockets or private addresses",
    "destructive": "deletes, truncates or overwrites",
    "destructive/data": "databases, cloud, cluster",
    "destructive/device": "raw device or filesystem",
    "destructive/env-exec": "an environment variable changes what the program runs",
    "destructive/eval": "text becomes code",
    "destructive/exfil": "sends data out",
    "destructive/git": "discards work or rewrites shared history",
    "destructive/git-exec": "git runs a configured program",
    "destructive/outside": "writes outside the workspace",
    "destructive/perm": "ownership, permissions, accounts, network or system settings",
    "destructive/persist": "runs later, outside this session",
    "destructive/policy": "tampers with this runtime's policy, journal or approvals",
    "destructive/priv": "privilege change",
    "destructive/process": "stops processes or the machine",
    "destructive/publish": "visible to other people and hard to take back",
    "destructive/remote-code": "downloaded text is executed",
    "destructive/shell": "opens a shell for another machine or user",
    "destructive/tool-exec": "an option or script of a tool executes a program",
    "destructive/windows": "cmd and PowerShell",
}
"""Meaning of each category, as shown to a person."""

_RANK: dict[Severity, int] = {"safe": 0, "caution": 1, "dangerous": 2}
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_PLAIN_EVERYWHERE = re.compile(r"[A-Za-z0-9_ ./=:-]*")
_LETTERS = re.compile(r"[^\n -~]")
_UNREADABLE = frozenset({"unknown/parse", "unknown/control", "unknown/size", "unknown/error"})
_DEFAULT = ShellConfig()
_MOVES_MAX = 4
_REPLACEMENT = "\ufffc"


def severity_of(category: str) -> Severity:
    """Return how bad a category is."""
    return "dangerous" if category.startswith(("destructive", "read/")) else "caution"


def classify_shell_command(command: str, config: ShellConfig = _DEFAULT) -> ShellVerdict:
    """Grade a shell command: safe, caution or dangerous, with reasons, worst first.

    Safe is a small exact language of local reads (see `language`); everything else is caution, or dangerous
    if it has a destructive pattern (see `dangerous`). Never raises. Its length bounds the work.
    """
    findings: list[Finding] = []
    extra: list[ShellReason] = []
    commands: Commands = ()
    if type(command) is not str:
        return _verdict([("unknown/type", type(command).__name__)], extra, ())
    try:
        commands = _grade(command, config, findings)
        if config.patterns:
            extra = pattern_reasons((command, *map(" ".join, rough_commands(command))), config)
    except Exception:  # noqa: BLE001  (a grader that fails must not let the command through)
        findings.append(("unknown/error", ""))
    return _verdict(findings, extra, commands)


def _grade(command: str, config: ShellConfig, findings: list[Finding]) -> Commands:
    text = command
    if not command.strip():
        findings.append(("unknown/empty", command))
        return ()
    if len(command) > COMMAND_CHARS_MAX:
        findings.append(("unknown/size", command))
        text = command[:COMMAND_CHARS_MAX]
    if _CONTROL.search(text):
        findings.append(("unknown/control", command))
        text = _CONTROL.sub(_REPLACEMENT, text)
    elif letter := _LETTERS.search(text):
        findings.append(("unknown/letters", letter.group()))
    if config.platform == "windows":
        # cmd and PowerShell have other programs, and read other text as an operator.
        is_plain = _PLAIN_EVERYWHERE.fullmatch(text) is not None
        findings.append(("unknown/program" if is_plain else "unknown/parse", text))
    parsed: tuple[Simple, ...] = ()
    try:
        parsed = parse_literal(text)
        if not agrees(text, parsed):
            raise NotLiteral(text)
    except NotLiteral as refused:
        findings.append(("unknown/parse", refused.part))
        parsed = ()
    folders: tuple[str, ...] = ("",)
    moves = sum(simple.words[0].text == "cd" for simple in parsed)
    if moves > _MOVES_MAX:
        # The folders double with each.
        findings.append(("unknown/outside", "cd"))
    for simple in parsed:
        problem = problem_of(simple, folders)
        findings += [problem] if problem is not None else []
        folders = folders_after(simple, folders) if moves <= _MOVES_MAX else folders
    if findings:
        findings += dangers(text, parsed)
    return literal_commands(parsed)


def _visible_text(part: str) -> str:
    """Return a part as a person may read it, with an ellipsis for what is hidden."""
    return _CONTROL.sub("…", part)[:PART_CHARS_MAX]


def _verdict(findings: list[Finding], extra: list[ShellReason], commands: Commands) -> ShellVerdict:
    reasons = [
        ShellReason(category, severity_of(category), MESSAGES[category], _visible_text(part))
        for category, part in dict.fromkeys(findings)
    ]
    ordered = sorted([*reasons, *extra], key=lambda reason: -_RANK[reason.severity])
    if not ordered:
        return ShellVerdict("safe", "read", (), commands)
    worst = ordered[0]
    is_read_wrong = any(category in _UNREADABLE for category, _ in findings)
    return ShellVerdict(
        worst.severity, worst.code, tuple(ordered[:REASONS_MAX]), () if is_read_wrong else commands
    )
