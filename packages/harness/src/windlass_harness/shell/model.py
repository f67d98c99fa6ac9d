"""Verdict, reasons and configuration of the shell grader."""

from dataclasses import dataclass
from typing import Literal

from windlass_protocol import CommandSafetyPattern

Severity = Literal["safe", "caution", "dangerous"]
Platform = Literal["unix", "windows"]


@dataclass(frozen=True, slots=True)
class ShellReason:
    """One finding: what was seen, how bad it is, and the text it was seen in."""

    code: str
    severity: Severity
    message: str
    part: str


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ShellConfig:
    """Extra rules of the host; they can raise a grade and never lower one."""

    patterns: tuple[CommandSafetyPattern, ...] = ()
    platform: Platform = "unix"
