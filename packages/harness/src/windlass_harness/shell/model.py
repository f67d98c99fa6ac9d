"""Verdict, reasons, configuration and limits of the shell grader."""

from typing import Final, Literal

from windlass_protocol import CommandSafetyPattern
from windlass_protocol.frozen import sealed

Severity = Literal["safe", "caution", "dangerous"]
Platform = Literal["unix", "windows"]

COMMAND_CHARS_MAX: Final = 10_000
"""Longer commands are not parsed: a person could not review them."""

WORDS_MAX: Final = 500
"""Words of one command line that are parsed."""

REASONS_MAX: Final = 20
"""Reasons in one verdict; the worst come first."""

PART_CHARS_MAX: Final = 200
"""Characters of the offending text in one reason."""

PATTERN_CHARS_MAX: Final = 500
"""Characters of one custom pattern."""

PATTERN_INPUT_CHARS_MAX: Final = 4_000
"""Characters of the text that a custom pattern is matched against."""


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
