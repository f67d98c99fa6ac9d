"""Tool policy: rules, call facts and the decision allow, deny or ask."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Final, Literal, assert_never, cast, get_args

from pydantic import JsonValue, ValidationError

from windlass_protocol import PolicyKind, ToolMode
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import common
from windlass_protocol.generated import policy as decisions
from windlass_protocol.limits import ID_CHARS_MAX

if TYPE_CHECKING:
    from windlass_harness.shell.model import Severity
    from windlass_protocol import PolicyDecision, PolicyRef


def as_tuple(value: object, what: str, *, of: str) -> tuple[object, ...]:
    """Return a tuple; a list is converted, a single string or any other type is refused."""
    if isinstance(value, str):
        raise ValueError(f"{what} must be a tuple of {of}, found a string: write ({value!r},)")
    if not isinstance(value, (tuple, list)):
        raise ValueError(f"{what} must be a tuple of {of}, found {kind_of(value)}")
    return tuple(cast(Iterable[object], value))


def as_texts(value: object, what: str, *, of: str) -> tuple[str, ...]:
    """Return a tuple of strings; see `as_tuple`."""
    items = as_tuple(value, what, of=of)
    for item in items:
        if not isinstance(item, str):
            raise ValueError(f"{what} must be {of} as strings, found {kind_of(item)}")
    return cast(tuple[str, ...], items)


def as_commands(value: object) -> tuple[tuple[str, ...], ...]:
    """Return each command as a tuple of words."""
    commands = as_tuple(value, "commands", of="commands")
    return tuple(as_texts(command, "a command", of="words") for command in commands)


def as_labels(value: object, what: str, *, allowed: Sequence[str]) -> frozenset[str]:
    """Return a set of known labels; a list or tuple is converted, a string is refused."""
    if isinstance(value, str):
        raise ValueError(f"{what} must be a set, found a string: write {{{value!r}}}")
    if not isinstance(value, (frozenset, set, tuple, list)):
        raise ValueError(f"{what} must be a set, found {kind_of(value)}")
    labels = tuple(cast(Iterable[object], value))
    for label in labels:
        check_choice(label, what, allowed=allowed)
    return frozenset(cast(tuple[str, ...], labels))


def as_mode(value: object) -> ToolMode:
    if isinstance(value, ToolMode):
        return value
    check_choice(value, "declared", allowed=tuple(ToolMode))
    return ToolMode(value)


def check_choice(value: object, what: str, *, allowed: Sequence[str]) -> None:
    """Refuse an unknown value."""
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}, found {value!r}")


def check_flag(value: object, what: str) -> None:
    """Refuse a value that is not a bool: the string "no" would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} must be True or False, found {value!r}")


def check_id(value: object) -> None:
    """Refuse an id that the wire cannot hold."""
    if not isinstance(value, str):
        raise ValueError(f"the id of a rule must be a string, found {kind_of(value)}")
    try:
        common.PolicyRef(kind=PolicyKind.PERMISSION, id=value)
    except ValidationError:
        raise ValueError(
            f"the id of a rule must have 1 to {ID_CHARS_MAX} characters without control characters, "
            f"found {value!r}"
        ) from None


def check_mapping(value: object, what: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a mapping, found {kind_of(value)}")


def check_json(value: Mapping[str, object], what: str) -> None:
    """Refuse arguments that are not JSON."""
    try:
        decisions.AskDecision.model_validate(
            {"code": "x", "reason": "x", "policyRefs": (), "arguments": dict(value)}
        )
    except ValidationError:
        raise ValueError(f"{what} must be a JSON object: string keys and JSON values") from None


def check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string, found {kind_of(value)}")


def kind_of(value: object) -> str:
    """Return the type of a value for an error message."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


RUNNERS: Final = frozenset(
    """
    . aa-exec ansible ansible-playbook ash at awk bash batch bb bc bpython builtin bun bunx busybox
    bwrap caffeinate catchsegv cgexec choom chroot chrt clickhouse clickhouse-client clisp clojure cmd
    command cpulimit cqlsh crontab cscript csh csi daemonize dash dbus-run-session dc deno direnv doas
    dotnet-script duckdb dzdo ed elixir elvish emacs emacsclient entr env erl es eval ex exec expect
    fakeroot faketime find firejail fish flatpak-spawn flock forfiles gawk gdb ghc ghci gnuplot gosu
    groovy gsudo gtime guile heaptrack hyperfine iex ionice ipython irb java jjs jrunscript jshell julia
    kotlin ksh latex ld.so linux32 linux64 lldb loksh ltrace lua luajit lualatex luatex m4 mariadb mawk
    maxima mksh mongo mongosh mosh mysql nano nawk nc ncat nice nix-shell node nodejs nohup npx nsenter
    nu numactl nvim ocaml octave oksh osascript parallel pdflatex pdftex pdksh perl pexec php pipx
    perf pkexec pnpx posh powershell prlimit proot psql pwsh py pypy python R racket rbash rc
    red retry rlwrap
    Rscript rsync ruby run0 runas rundll runghc runuser rvim rzsh sash sbcl scala scp screen
    script sed sem setarch
    setpriv setsid sftp sg sh socat source sqlcmd sqlite sqlite3 ssh sshpass stdbuf strace su su-exec
    sudo sudoedit swift systemd-cat systemd-inhibit systemd-run taskset tclsh tcsh telnet tex texlua
    time timeout tmux torsocks toybox trap ts-node tsx unbuffer unshare uvx valgrind vi view
    vim vimdiff watch
    wine wish wscript wsl xargs xelatex xonsh xvfb-run yash zsh
    """.split()
)

FAMILIES: Final = {
    "asdf": "exec",
    "bazel": "run",
    "bundle": "exec",
    "cargo": "run",
    "conda": "run",
    "ctr": "run",
    "docker": "exec run",
    "dotnet": "exec run",
    "flatpak": "run",
    "git": "bisect config submodule",
    "go": "generate run tool",
    "gradle": "",
    "hatch": "run",
    "ip": "netns",
    "just": "",
    "kubectl": "debug exec run",
    "make": "",
    "mamba": "run",
    "mise": "exec run x",
    "mvn": "",
    "nix": "develop run shell",
    "npm": "exec run run-script start test x",
    "pdm": "run",
    "pipenv": "run",
    "pnpm": "dlx exec run start test",
    "podman": "exec run",
    "poetry": "run",
    "pyenv": "exec",
    "rails": "console runner",
    "rake": "",
    "rbenv": "exec",
    "rye": "run",
    "snap": "run",
    "tar": "",
    "uv": "run tool",
    "vagrant": "ssh",
    "yarn": "dlx exec node run start test",
}
"""Programs with subcommands, and the subcommands that run arbitrary programs."""

_SUFFIX: Final = re.compile(r"(?:[-.]?[0-9][0-9.]*)?(?:-dbg)?(?:\.(?:exe|cmd|bat|com))?$")


def runs_anything(argv: tuple[str, ...]) -> bool:
    """Return whether commands that start with these words can run any program.

    The first word is compared without its folder, version and case: /usr/bin/Python3.11 is python. A variable
    assignment before the program can change the program that runs.
    """
    if "=" in argv[0]:
        return True
    base = argv[0].replace("\\", "/").rpartition("/")[2]
    names = {base, base.lower(), _SUFFIX.sub("", base.lower())}
    if not names.isdisjoint(RUNNERS):
        return True
    # A program with subcommands needs a named and harmless one; an option could stand for any subcommand.
    return any(
        len(argv) == 1
        or argv[1].startswith(("-", "+"))
        or not set(argv[1:]).isdisjoint(FAMILIES[name].split())
        for name in names & FAMILIES.keys()
    )


Effect = Literal["allow", "modify", "ask", "defer", "interrupt", "deny"]
"""Effects of rules, weakest first: of two matching rules, the stronger one wins."""

Taint = Literal["untrusted", "private"]
"""Labels of content that a session has read: untrusted content, and private data."""

_TAINTS: Final = get_args(Taint)
RULES_MAX: Final = 1_000
RESERVED_PREFIXES: Final = ("default.", "floor.")
GRANTS: Final[frozenset[Effect]] = frozenset({"allow", "modify"})
STRENGTH: Final[dict[Effect, int]] = {effect: rank for rank, effect in enumerate(get_args(Effect))}
GRADE: Final[dict[Severity, int]] = {"safe": 0, "caution": 1, "dangerous": 2}
WAIT_MS_MAX: Final = 2**53 - 1  # the largest whole number that every language can hold


@sealed
class CallFacts:
    """The facts about a tool call that a policy decides on.

    `commands` holds the words of every simple command of a shell call, as written. Leave it empty unless
    the call consists only of such commands joined by `;`, `&&`, `||` and `|`: with a redirection or a
    substitution the words do not describe the whole call. `is_outbound` says whether the call can send data
    out; None assumes so for every call but a declared local one that is graded safe.

    Lists are converted to tuples and sets, and names of modes to modes.

    Raises:
        ValueError: a field has the wrong type, or a mode, grade or taint is unknown.
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
            check_choice(self.shell, "shell", allowed=tuple(GRADE))
        object.__setattr__(self, "commands", as_commands(self.commands))
        object.__setattr__(self, "taint", as_labels(self.taint, "taint", allowed=_TAINTS))
        if self.is_outbound is not None:
            check_flag(self.is_outbound, "is_outbound")
        check_mapping(self.arguments, "arguments")


@sealed
class Rule:
    """One rule of a policy: its effect and the calls that it matches.

    A rule matches a call if all its criteria match; a criterion that is left out matches everything. `tools`
    are exact names in which `*` stands for any characters. `commands` are the first words of shell commands:
    a grant needs every command of the call to start with them, any other rule needs one. A shell call with
    unknown commands may run any of them: no grant by commands covers it, and every other rule about commands
    does. `tainted` matches sessions that have read both untrusted content and private data.

    An allow or modify rule is a grant. It covers a dangerous shell command only with
    `max_shell="dangerous"`, and an outbound call of a tainted session only with `tainted=True`. A grant with
    `modes` never covers a tool that declares no mode, because its mode is only guessed from its name (unless
    the policy trusts names); a grant without `modes` covers declared and undeclared tools alike.

    Lists are converted to tuples and sets, and names of modes to modes.

    Raises:
        ValueError: a field has the wrong type or an unknown value, criteria contradict each other or match
            nothing, or the rule would always allow a program that can run any program.
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
            raise ValueError(f"{where}: ids that start with {' or '.join(RESERVED_PREFIXES)} are reserved")
        check_choice(self.effect, f"{where}: effect", allowed=tuple(STRENGTH))
        check_text(self.reason, f"{where}: reason")
        self._check_answer(where)
        self._check_scope(where)
        self._check_shell(where)

    def _check_answer(self, where: str) -> None:
        if (self.arguments is not None) != (self.effect == "modify"):
            raise ValueError(f"{where}: arguments are required for modify rules and allowed only there")
        if self.arguments is not None:
            check_mapping(self.arguments, f"{where}: arguments")
            check_json(self.arguments, f"{where}: arguments")
        if self.resume_after_ms is not None and (
            self.effect != "defer" or not _is_wait(self.resume_after_ms)
        ):
            raise ValueError(
                f"{where}: resume_after_ms is only for defer rules and must be a whole number, 0 or more"
            )

    def _check_scope(self, where: str) -> None:
        tools = as_texts(self.tools, f"{where}: tools", of="names")
        if not tools:
            raise ValueError(
                f"{where}: tools is empty, so it matches nothing; leave it out to match every tool"
            )
        object.__setattr__(self, "tools", tools)
        if self.modes is not None:
            names = as_labels(self.modes, f"{where}: modes", allowed=tuple(ToolMode))
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
                check_choice(grade, f"{where}: {name}", allowed=tuple(GRADE))
        if self.min_shell and self.max_shell and GRADE[self.min_shell] > GRADE[self.max_shell]:
            raise ValueError(f"{where}: min_shell is above max_shell, so it matches nothing")
        object.__setattr__(self, "commands", as_texts(self.commands, f"{where}: commands", of="commands"))
        for command in self.commands:
            _check_command(self, command)

    def matches(self, call: CallFacts, *, mode: ToolMode, is_mode_sure: bool) -> bool:
        """Return whether the rule matches this call; `is_mode_sure` is false for a guessed mode."""
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
        fits = [any(argv[: len(start)] == start for start in starts) for argv in call.commands]
        return bool(fits) and all(fits) if self.effect in GRANTS else any(fits)

    def is_blind(self, call: CallFacts) -> bool:
        """Return whether the rule matches only because the commands of a shell call are unknown."""
        is_unknown = call.shell is not None and not call.commands
        return is_unknown and bool(self.commands) and self.effect not in GRANTS


@sealed
class PolicySet:
    """A set of rules; their order has no meaning.

    `version` is part of every decision. `trusts_names` treats a mode guessed from a tool's name as declared;
    leave it off unless you know every tool.

    Raises:
        ValueError: two rules have the same id, there are too many rules, or a field has the wrong type. A
            list of rules is converted to a tuple.
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
                raise ValueError(f"duplicate rule id {rule.id}: give each rule its own id")
            seen.add(rule.id)


def is_tainted(call: CallFacts) -> bool:
    """Return whether the session has read both untrusted content and private data."""
    return call.taint >= {"untrusted", "private"}


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name equals a pattern, in which `*` stands for any characters."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        start = name.find(part, at, end)
        if start < 0:
            return False
        at = start + len(part)
    return True


def _as_rules(value: object) -> tuple[Rule, ...]:
    if isinstance(value, Rule):
        raise ValueError("rules must be a tuple of rules, found one rule: write PolicySet((rule,))")
    return tuple(_as_rule(rule) for rule in as_tuple(value, "rules", of="rules"))


def _as_rule(value: object) -> Rule:
    if not isinstance(value, Rule):
        raise ValueError(f"each of rules must be a Rule, found {kind_of(value)}")
    return value


def _is_wait(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= WAIT_MS_MAX


def _check_command(rule: Rule, command: str) -> None:
    if not _COMMAND.fullmatch(command):
        raise ValueError(f"rule {rule.id}: a command must be plain words separated by one space: {command!r}")
    if rule.effect in GRANTS and runs_anything(tuple(command.split(" "))):
        raise ValueError(
            f"rule {rule.id}: {command!r} can run any program, so an allow rule must not cover it; "
            "name the program that it runs, or use an ask rule"
        )


_COMMAND: Final = re.compile(r"[A-Za-z0-9_./:@+,=-]+(?: [A-Za-z0-9_./:@+,=-]+)*")

_PREFIXES: Final[dict[ToolMode, tuple[str, ...]]] = {
    ToolMode.READ: ("get_", "list_", "read_", "search_"),
    ToolMode.SAFE_WRITE: ("create_", "update_", "set_", "write_", "apply_", "add_"),
    ToolMode.DESTRUCTIVE: ("delete_", "drop_", "remove_", "destroy_", "archive_", "purge_"),
    ToolMode.LOCAL: ("local_", "shell_", "exec_"),
}


def decide_tool_mode(name: str, declared: ToolMode | None = None) -> ToolMode:
    """Return the declared mode, or guess one from the start of the name.

    The name is only a guess: `get_and_delete_all` is graded as a read. `decide` therefore lets a guess make a
    decision stricter and never weaker, unless the policy trusts names.

    Raises:
        ValueError: the name is not a string, or the declared mode is unknown.
    """
    check_text(name, "name")
    if declared is not None:
        return as_mode(declared)
    lowered = name.lower()
    return next((mode for mode, starts in _PREFIXES.items() if lowered.startswith(starts)), ToolMode.EXTERNAL)


@sealed
class _Vote:
    """One rule, default or floor that applies to a call."""

    effect: Effect
    code: str
    reason: str
    ref: str


def decide(policy: PolicySet, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
    """Decide about one call; the decision names the rules behind it.

    The arguments of modify rules are in a modify decision, and also in an ask decision when both apply: show
    these arguments to the person, and run the call with them.
    """
    mode = decide_tool_mode(call.tool, call.declared)
    is_sure = call.declared is not None or policy.trusts_names
    matching = sorted(
        (rule for rule in policy.rules if rule.matches(call, mode=mode, is_mode_sure=is_sure)),
        key=lambda rule: rule.id,
    )
    grants = [rule for rule in matching if rule.effect in GRANTS]
    votes = [_vote(rule, call) for rule in matching]
    votes += _floors(call, grants, is_outbound=_is_outbound(call, mode, is_sure=is_sure))
    if not grants:
        votes.append(_default(mode, is_sure=is_sure))
    effect = max(votes, key=lambda vote: STRENGTH[vote.effect]).effect
    winners = [vote for vote in votes if vote.effect == effect]
    if effect == "ask" and is_attended:
        winners += [vote for vote in votes if vote.effect == "modify"]
    elif effect == "ask":
        effect, winners = "deny", [_UNATTENDED, *winners]
    refs = tuple(
        common.PolicyRef(kind=PolicyKind.PERMISSION, id=vote.ref, version=policy.version) for vote in winners
    )
    return _build(effect, _Answer(winners[0].code, winners[0].reason, refs), matching, call)


def _vote(rule: Rule, call: CallFacts) -> _Vote:
    reason = rule.reason or _REASONS[rule.effect]
    if rule.is_blind(call):
        reason = f"{reason} {_BLIND}"
    return _Vote(rule.effect, _CODES[rule.effect], reason, rule.id)


def _default(mode: ToolMode, *, is_sure: bool) -> _Vote:
    ref = f"default.{mode}"
    match mode:
        case ToolMode.READ | ToolMode.SAFE_WRITE:
            if is_sure:
                return _Vote("allow", "policy.default", "Reads and safe writes need no consent.", ref)
            return _Vote(
                "ask", "policy.undeclared_mode", "The tool declares no mode, and a name is only a guess.", ref
            )
        case ToolMode.DESTRUCTIVE | ToolMode.LOCAL | ToolMode.EXTERNAL:
            return _Vote(
                "ask", "policy.consent_needed", f"A tool of mode {mode} needs a person's consent.", ref
            )
        case _:
            assert_never(mode)


def _floors(call: CallFacts, grants: Sequence[Rule], *, is_outbound: bool) -> list[_Vote]:
    floors: list[_Vote] = []
    if call.shell == "dangerous" and all(rule.max_shell != "dangerous" for rule in grants):
        floors.append(
            _Vote("ask", "policy.shell_dangerous", "The shell command is dangerous.", "floor.shell")
        )
    if call.shell == "caution" and not grants:
        floors.append(
            _Vote("ask", "policy.shell_caution", "The shell command is more than a read.", "floor.shell")
        )
    if is_outbound and is_tainted(call) and all(rule.tainted is not True for rule in grants):
        reason = "The session has read untrusted content and private data, and this is a way out."
        floors.append(_Vote("ask", "policy.tainted", reason, "floor.taint"))
    return floors


def _is_outbound(call: CallFacts, mode: ToolMode, *, is_sure: bool) -> bool:
    if call.is_outbound is not None:
        return call.is_outbound
    # A read may fetch an address, and a write may be public: only a call known to be local is not outbound.
    return not (is_sure and mode == ToolMode.LOCAL and call.shell == "safe")


def _modify_fields(matching: Sequence[Rule], call: CallFacts) -> dict[str, JsonValue]:
    arguments = dict(call.arguments)
    for rule in matching:
        arguments.update(rule.arguments or {})
    return arguments


@sealed
class _Answer:
    """The fields that all six decisions share."""

    code: str
    reason: str
    policy_refs: tuple[PolicyRef, ...]


def _build(effect: Effect, answer: _Answer, matching: Sequence[Rule], call: CallFacts) -> PolicyDecision:
    code, reason, refs = answer.code, answer.reason, answer.policy_refs
    match effect:
        case "allow":
            return decisions.AllowDecision(code=code, reason=reason, policy_refs=refs)
        case "modify":
            return decisions.ModifyDecision(
                code=code, reason=reason, policy_refs=refs, arguments=_modify_fields(matching, call)
            )
        case "ask":
            is_modified = any(rule.effect == "modify" for rule in matching)
            arguments = _modify_fields(matching, call) if is_modified else None
            return decisions.AskDecision(code=code, reason=reason, policy_refs=refs, arguments=arguments)
        case "defer":
            waits = [rule.resume_after_ms for rule in matching if rule.resume_after_ms is not None]
            return decisions.DeferDecision(
                code=code, reason=reason, policy_refs=refs, resume_after_ms=max(waits, default=None)
            )
        case "interrupt":
            return decisions.InterruptDecision(code=code, reason=reason, policy_refs=refs)
        case "deny":
            return decisions.DenyDecision(code=code, reason=reason, policy_refs=refs)
        case _:
            assert_never(effect)


_CODES: Final[dict[Effect, str]] = {
    "allow": "policy.allowed",
    "modify": "policy.modified",
    "ask": "policy.asked",
    "defer": "policy.deferred",
    "interrupt": "policy.interrupted",
    "deny": "policy.denied",
}
_REASONS: Final[dict[Effect, str]] = {
    "allow": "A rule allows it.",
    "modify": "A rule allows it with other arguments.",
    "ask": "A rule requires the approval of a person.",
    "defer": "A rule defers it.",
    "interrupt": "A rule stops the run here.",
    "deny": "A rule forbids it.",
}
_BLIND: Final = (
    "The rule is about certain commands, and the commands of this call cannot be determined from its text; "
    "write it as plain commands."
)
_UNATTENDED: Final = _Vote(
    "deny",
    "policy.unattended",
    "The call needs approval, and no person can be asked in this run.",
    "floor.unattended",
)
