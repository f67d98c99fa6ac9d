"""What a policy is made of: rules, the set of them, and the facts of a call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from pydantic import JsonValue

from windlass_harness.policy_checks import (
    as_commands,
    as_labels,
    as_mode,
    as_texts,
    as_tuple,
    check_choice,
    check_flag,
    check_id,
    check_json,
    check_mapping,
    check_text,
    kind_of,
)
from windlass_harness.policy_programs import runs_anything
from windlass_protocol import ToolMode

if TYPE_CHECKING:
    # The name of a type is not worth loading the whole shell grader.
    from windlass_harness.shell.model import Severity

Effect = Literal["allow", "modify", "ask", "defer", "interrupt", "deny"]
"""What a rule says of a call, weakest first: of two that match, the later one wins."""

Taint = Literal["untrusted", "private"]
"""What a session has read: content that anybody may have written, and data that must not get out."""

_TAINTS: Final = get_args(Taint)
RULES_MAX: Final = 1_000
RESERVED_PREFIXES: Final = ("default.", "floor.")
GRANTS: Final[frozenset[Effect]] = frozenset({"allow", "modify"})
STRENGTH: Final[dict[Effect, int]] = {effect: rank for rank, effect in enumerate(get_args(Effect))}
GRADE: Final[dict[Severity, int]] = {"safe": 0, "caution": 1, "dangerous": 2}
WAIT_MS_MAX: Final = 2**53 - 1  # the largest whole number that every language can hold


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of a tool call before it is made.

    `commands` holds the words of every simple command of a shell call, as written. Leave it empty unless
    the call is nothing but such commands joined by `;`, `&&`, `||` and `|`: with a redirection or a
    substitution the words are not the whole story. `is_outbound` says whether the call can carry data out;
    None takes every call to do so but a declared local one that is graded safe.

    Lists are taken for tuples and sets, and the name of a mode for the mode.

    Raises:
        ValueError: a field is of the wrong type, or a mode, grade or taint is not known.
    """

    tool: str
    declared: ToolMode | None = None
    _: KW_ONLY
    shell: Severity | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    taint: frozenset[Taint] = frozenset()
    is_outbound: bool | None = None
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def __post_init__(self) -> None:
        check_text(self.tool, "tool")
        if self.declared is not None:
            object.__setattr__(self, "declared", as_mode(self.declared))
        if self.shell is not None:
            check_choice(self.shell, "shell", known=tuple(GRADE))
        object.__setattr__(self, "commands", as_commands(self.commands))
        object.__setattr__(self, "taint", as_labels(self.taint, "taint", known=_TAINTS))
        if self.is_outbound is not None:
            check_flag(self.is_outbound, "is_outbound")
        check_mapping(self.arguments, "arguments")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy: what it says, and of which calls.

    A rule matches a call if all that it names fits; what it leaves out fits everything. `tools` are exact
    names in which `*` stands for any characters. `commands` are the first words of shell commands: a grant
    needs every command of the call to start so, any other rule needs one. A shell call whose commands are not
    known may run any of them: no grant by commands covers it, and every other rule about commands does.
    `tainted` is about sessions that have read both untrusted content and private data.

    An allow or modify rule is a grant. It covers a dangerous shell command only with
    `max_shell="dangerous"`, and a tainted session's way out only with `tainted=True`. A grant with `modes`
    never covers a tool that declares no mode, because its mode is only guessed from its name (unless the
    policy trusts names); a grant without `modes` covers declared and undeclared tools alike.

    Lists are taken for tuples and sets, and the names of modes for the modes.

    Raises:
        ValueError: a field is of the wrong type or holds what is not known, parts of the rule do not go
            together or match nothing, or it would always allow a program that runs whatever it is given.
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
        check_id(self.id)
        where = f"rule {self.id}"
        if self.id.startswith(RESERVED_PREFIXES):
            raise ValueError(f"{where}: ids that start with {' or '.join(RESERVED_PREFIXES)} are taken")
        check_choice(self.effect, f"{where}: effect", known=tuple(STRENGTH))
        check_text(self.reason, f"{where}: reason")
        self._check_answer(where)
        self._check_scope(where)
        self._check_shell(where)

    def _check_answer(self, where: str) -> None:
        if (self.arguments is not None) != (self.effect == "modify"):
            raise ValueError(f"{where}: arguments belong to modify rules, and to all of them")
        if self.arguments is not None:
            check_mapping(self.arguments, f"{where}: arguments")
            check_json(self.arguments, f"{where}: arguments")
        if self.resume_after_ms is not None and (
            self.effect != "defer" or not _is_wait(self.resume_after_ms)
        ):
            raise ValueError(
                f"{where}: resume_after_ms belongs to defer rules and is a whole number of 0 or more"
            )

    def _check_scope(self, where: str) -> None:
        tools = as_texts(self.tools, f"{where}: tools", of="names")
        if not tools:
            raise ValueError(
                f"{where}: tools is empty, so it matches nothing; leave it out to match every tool"
            )
        object.__setattr__(self, "tools", tools)
        if self.modes is not None:
            names = as_labels(self.modes, f"{where}: modes", known=tuple(ToolMode))
            if not names:
                raise ValueError(
                    f"{where}: modes is empty, so it matches nothing; leave it out to match every mode"
                )
            object.__setattr__(self, "modes", frozenset(map(ToolMode, names)))
        if self.tainted is not None:
            check_flag(self.tainted, f"{where}: tainted")

    def _check_shell(self, where: str) -> None:
        for name, grade in (("min_shell", self.min_shell), ("max_shell", self.max_shell)):
            if grade is not None:
                check_choice(grade, f"{where}: {name}", known=tuple(GRADE))
        if self.min_shell and self.max_shell and GRADE[self.min_shell] > GRADE[self.max_shell]:
            raise ValueError(f"{where}: min_shell is above max_shell, so it matches nothing")
        object.__setattr__(self, "commands", as_texts(self.commands, f"{where}: commands", of="commands"))
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
            and self._fits_commands(call)
        )

    def _fits_commands(self, call: CallFacts) -> bool:
        if not self.commands or self.is_blind(call):
            return True
        starts = [tuple(command.split(" ")) for command in self.commands]
        fits = [any(words[: len(start)] == start for start in starts) for words in call.commands]
        return bool(fits) and all(fits) if self.effect in GRANTS else any(fits)

    def is_blind(self, call: CallFacts) -> bool:
        """Say whether the rule holds because nobody knows what a shell call runs."""
        is_unknown = call.shell is not None and not call.commands
        return is_unknown and bool(self.commands) and self.effect not in GRANTS


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The rules that hold together; their order means nothing.

    `version` is named in every decision. `trusts_names` takes a mode guessed from a tool's name for a
    declared one; leave it off unless you know every tool.

    Raises:
        ValueError: two rules have one id, there are too many of them, or a field is of the wrong type. A
            list of rules is taken for a tuple.
    """

    rules: tuple[Rule, ...] = ()
    _: KW_ONLY
    version: str | None = None
    trusts_names: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", _as_rules(self.rules))
        if self.version is not None:
            check_text(self.version, "version")
        check_flag(self.trusts_names, "trusts_names")
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


def _as_rules(value: object) -> tuple[Rule, ...]:
    if isinstance(value, Rule):
        raise ValueError("rules takes a tuple of rules, found one rule: write PolicySet((rule,))")
    return tuple(_as_rule(rule) for rule in as_tuple(value, "rules", of="rules"))


def _as_rule(value: object) -> Rule:
    if not isinstance(value, Rule):
        raise ValueError(f"each of rules must be a Rule, found {kind_of(value)}")
    return value


def _is_wait(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= WAIT_MS_MAX


def _check_command(rule: Rule, command: str) -> None:
    if not _COMMAND.fullmatch(command):
        raise ValueError(f"rule {rule.id}: a command is plain words with one space between them: {command!r}")
    if rule.effect in GRANTS and runs_anything(tuple(command.split(" "))):
        raise ValueError(
            f"rule {rule.id}: {command!r} can run any program, so it cannot always be allowed; "
            "name the program that it should run, or ask each time"
        )


_COMMAND: Final = re.compile(r"[A-Za-z0-9_./:@+,=-]+(?: [A-Za-z0-9_./:@+,=-]+)*")
