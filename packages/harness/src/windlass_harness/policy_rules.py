"""What a policy is made of: rules, the set of them, and the facts of a call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from pydantic import JsonValue

from windlass_harness.policy_programs import runs_anything
from windlass_protocol import PolicyKind, PolicyRef, ToolMode

if TYPE_CHECKING:
    # The name of a type is not worth loading the whole shell grader.
    from windlass_harness.shell.model import Severity

Effect = Literal["allow", "modify", "ask", "defer", "interrupt", "deny"]
"""What a rule says of a call, weakest first: of two that match, the later one wins."""

Taint = Literal["untrusted", "private"]
"""What a session has read: content that anybody may have written, and data that must not get out."""

RULES_MAX: Final = 1_000
RESERVED_PREFIXES: Final = ("default.", "floor.")
GRANTS: Final[frozenset[Effect]] = frozenset({"allow", "modify"})
STRENGTH: Final[dict[Effect, int]] = {effect: rank for rank, effect in enumerate(get_args(Effect))}
GRADE: Final[dict[Severity, int]] = {"safe": 0, "caution": 1, "dangerous": 2}


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of a tool call before it is made.

    `commands` holds the words of every simple command of a shell call, as written. Leave it empty unless
    the call is nothing but such commands joined by `;`, `&&`, `||` and `|`: with a redirection or a
    substitution the words are not the whole story. `is_outbound` says whether the call can carry data out;
    None takes external tools, local ones that are not graded safe, and undeclared ones to do so.
    """

    tool: str
    declared: ToolMode | None = None
    _: KW_ONLY
    shell: Severity | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    taint: frozenset[Taint] = frozenset()
    is_outbound: bool | None = None
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy: what it says, and of which calls.

    A rule matches a call if all that it names fits; what it leaves out fits everything. `tools` are exact
    names in which `*` stands for any characters. `commands` are the first words of shell commands: a grant
    needs every command of the call to start so, any other rule needs one. `tainted` is about sessions that
    have read both untrusted content and private data.

    An allow or modify rule is a grant. It covers a dangerous shell command only with
    `max_shell="dangerous"`, a tainted session's way out only with `tainted=True`, and never a mode that
    was guessed from a name.

    Raises:
        ValueError: parts of the rule do not go together, or it would always allow a program that runs
            whatever it is given.
    """

    id: str
    effect: Effect
    _: KW_ONLY
    reason: str = ""
    tools: tuple[str, ...] = ("*",)
    modes: frozenset[ToolMode] | None = None
    min_shell: Severity | None = None
    max_shell: Severity | None = None
    commands: tuple[str, ...] = ()
    tainted: bool | None = None
    arguments: Mapping[str, JsonValue] | None = None
    resume_after_ms: int | None = None

    def __post_init__(self) -> None:
        PolicyRef(kind=PolicyKind.PERMISSION, id=self.id)
        if self.id.startswith(RESERVED_PREFIXES):
            raise ValueError(
                f"rule {self.id}: ids that start with {' or '.join(RESERVED_PREFIXES)} are taken"
            )
        if self.effect not in STRENGTH:
            raise ValueError(f"rule {self.id}: the effect must be one of {', '.join(STRENGTH)}")
        if (self.arguments is not None) != (self.effect == "modify"):
            raise ValueError(f"rule {self.id}: arguments belong to modify rules, and to all of them")
        if self.resume_after_ms is not None and (self.effect != "defer" or self.resume_after_ms < 0):
            raise ValueError(f"rule {self.id}: resume_after_ms belongs to defer rules and is 0 or more")
        if self.min_shell and self.max_shell and GRADE[self.min_shell] > GRADE[self.max_shell]:
            raise ValueError(f"rule {self.id}: min_shell is above max_shell, so it matches nothing")
        for command in self.commands:
            _check_command(self, command)

    def matches(self, call: CallFacts, *, mode: ToolMode, is_mode_sure: bool) -> bool:
        """Say whether the rule is about this call, whose mode may be a guess."""
        return (
            any(matches_name(pattern, call.tool) for pattern in self.tools)
            and self._fits_mode(mode, is_mode_sure=is_mode_sure)
            and self._fits_shell(call)
            and self.tainted in {None, is_tainted(call)}
        )

    def _fits_mode(self, mode: ToolMode, *, is_mode_sure: bool) -> bool:
        if self.modes is None:
            return True
        return mode in self.modes and (is_mode_sure or self.effect not in GRANTS)

    def _fits_shell(self, call: CallFacts) -> bool:
        if call.shell is None:
            return self.min_shell is None and self.max_shell is None and not self.commands
        grade = GRADE[call.shell]
        return (
            grade >= GRADE[self.min_shell or "safe"]
            and grade <= GRADE[self.max_shell or "dangerous"]
            and self._fits_commands(call.commands)
        )

    def _fits_commands(self, commands: tuple[tuple[str, ...], ...]) -> bool:
        if not self.commands:
            return True
        starts = [tuple(command.split(" ")) for command in self.commands]
        fits = [any(words[: len(start)] == start for start in starts) for words in commands]
        return bool(fits) and all(fits) if self.effect in GRANTS else any(fits)


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The rules that hold together; their order means nothing.

    `version` is named in every decision. `trusts_names` takes a mode guessed from a tool's name for a
    declared one; leave it off unless you know every tool.

    Raises:
        ValueError: two rules have one id, or there are too many of them.
    """

    rules: tuple[Rule, ...] = ()
    _: KW_ONLY
    version: str | None = None
    trusts_names: bool = False

    def __post_init__(self) -> None:
        if len(self.rules) > RULES_MAX:
            raise ValueError(f"too many rules: {len(self.rules)}, limit {RULES_MAX}")
        seen: set[str] = set()
        for rule in self.rules:
            if rule.id in seen:
                raise ValueError(f"two rules have the id {rule.id}; give each its own")
            seen.add(rule.id)


def is_tainted(call: CallFacts) -> bool:
    """Say whether the session could be made to carry private data out."""
    return call.taint >= {"untrusted", "private"}


def matches_name(pattern: str, name: str) -> bool:
    """Compare a name with a pattern: exact, but `*` stands for any characters."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _check_command(rule: Rule, command: str) -> None:
    if not _COMMAND.fullmatch(command):
        raise ValueError(f"rule {rule.id}: a command is plain words with one space between them: {command!r}")
    if rule.effect in GRANTS and runs_anything(tuple(command.split(" "))):
        raise ValueError(
            f"rule {rule.id}: {command!r} can run any program, so it cannot always be allowed; "
            "name the program that it should run, or ask each time"
        )


_COMMAND: Final = re.compile(r"[A-Za-z0-9_./:@+,=-]+(?: [A-Za-z0-9_./:@+,=-]+)*")
