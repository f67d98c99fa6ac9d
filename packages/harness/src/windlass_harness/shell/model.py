"""Verdict, reasons and configuration of the shell grader."""

from typing import Literal

from windlass_protocol import CommandSafetyPattern
from windlass_protocol.frozen import sealed

Severity = Literal["safe", "caution", "dangerous"]
Platform = Literal["unix", "windows"]


@sealed
class ShellReason:
    """One finding: what was seen, how bad it is, and the text it was seen in."""

    code: str
    severity: Severity
    message: str
    part: str


@sealed
class ShellVerdict:
    """The grade of a command; `reasons` holds the worst findings first.

    `commands` holds the words of every simple command, for rules that go by the first words. It is empty
    unless the whole command is literal: no variable, substitution or pattern, no assignment, no compound
    command, no background job, and no redirection but to `/dev/null` or another descriptor.
    """

    severity: Severity
    category: str
    reasons: tuple[ShellReason, ...]
    commands: tuple[tuple[str, ...], ...] = ()


@sealed
class ShellConfig:
    """Extra rules of the host; they can raise a grade and never lower one."""

    patterns: tuple[CommandSafetyPattern, ...] = ()
    platform: Platform = "unix"
