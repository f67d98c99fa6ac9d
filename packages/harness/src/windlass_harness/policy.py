"""May this tool be called? Rules, mode, grade and taint in, one decision out.

Effects in order of strength: deny, interrupt, defer, ask, modify, allow. The strongest that applies
decides, so a deny cannot be undone by any other rule, and the order of rules means nothing. What applies:

- every rule that matches;
- without a matching allow or modify rule, the default: declared reads and safe writes are allowed;
  destructive, local and external tools, and all whose mode is only guessed from their name, ask;
- floors that no ordinary grant lowers: a dangerous shell command asks, a cautious one asks unless a rule
  grants it, and once a session has read untrusted content and private data, every way out asks.

Nobody there to ask means no: an unattended ask is a deny.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pydantic import JsonValue

from windlass_harness.policy_checks import as_mode
from windlass_harness.policy_rules import (
    GRANTS,
    STRENGTH,
    CallFacts,
    Effect,
    PolicySet,
    Rule,
    is_tainted,
)
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    DeferDecision,
    DenyDecision,
    InterruptDecision,
    ModifyDecision,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    ToolMode,
)

_PREFIXES: Final[dict[ToolMode, tuple[str, ...]]] = {
    ToolMode.READ: ("get_", "list_", "read_", "search_"),
    ToolMode.SAFE_WRITE: ("create_", "update_", "set_", "write_", "apply_", "add_"),
    ToolMode.DESTRUCTIVE: ("delete_", "drop_", "remove_", "destroy_", "archive_", "purge_"),
    ToolMode.LOCAL: ("local_", "shell_", "exec_"),
}


def decide_tool_mode(name: str, declared: ToolMode | None = None) -> ToolMode:
    """Return the declared mode, or guess one from the start of the name.

    The name is only a guess: `get_and_delete_all` is taken for a read. `decide` therefore lets a guess
    raise a decision and never lower it, unless the policy trusts names.

    Raises:
        ValueError: the declared mode is not known.
    """
    if declared is not None:
        return as_mode(declared)
    lowered = name.lower()
    return next((mode for mode, starts in _PREFIXES.items() if lowered.startswith(starts)), ToolMode.EXTERNAL)


@dataclass(frozen=True, slots=True)
class _Vote:
    """One thing that applies to a call."""

    effect: Effect
    code: str
    reason: str
    ref: str


def decide(policy: PolicySet, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
    """Decide about one call; the decision names what made it.

    The arguments that modify rules give are in a modify decision, and also in an ask decision when both
    apply: ask about these, and run these.
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
        PolicyRef(kind=PolicyKind.PERMISSION, id=vote.ref, version=policy.version) for vote in winners
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
    # A read may fetch an address, and a write may be public: only what is known to stay here stays here.
    return not (is_sure and mode == ToolMode.LOCAL and call.shell == "safe")


def _modified(matching: Sequence[Rule], call: CallFacts) -> dict[str, JsonValue]:
    arguments = dict(call.arguments)
    for rule in matching:
        arguments.update(rule.arguments or {})
    return arguments


@dataclass(frozen=True, slots=True)
class _Answer:
    """What all six decisions have in common."""

    code: str
    reason: str
    policy_refs: tuple[PolicyRef, ...]


def _build(effect: Effect, answer: _Answer, matching: Sequence[Rule], call: CallFacts) -> PolicyDecision:
    code, reason, refs = answer.code, answer.reason, answer.policy_refs
    match effect:
        case "allow":
            return AllowDecision(code=code, reason=reason, policy_refs=refs)
        case "modify":
            return ModifyDecision(
                code=code, reason=reason, policy_refs=refs, arguments=_modified(matching, call)
            )
        case "ask":
            is_modified = any(rule.effect == "modify" for rule in matching)
            arguments = _modified(matching, call) if is_modified else None
            return AskDecision(code=code, reason=reason, policy_refs=refs, arguments=arguments)
        case "defer":
            waits = [rule.resume_after_ms for rule in matching if rule.resume_after_ms is not None]
            return DeferDecision(
                code=code, reason=reason, policy_refs=refs, resume_after_ms=max(waits, default=None)
            )
        case "interrupt":
            return InterruptDecision(code=code, reason=reason, policy_refs=refs)
        case "deny":
            return DenyDecision(code=code, reason=reason, policy_refs=refs)
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
    "ask": "A rule wants a person's consent.",
    "defer": "A rule puts it off.",
    "interrupt": "A rule stops the run here.",
    "deny": "A rule forbids it.",
}
_BLIND: Final = (
    "The rule is about certain commands, and those of this call cannot be told from its text; "
    "write it as plain commands."
)
_UNATTENDED: Final = _Vote(
    "deny",
    "policy.unattended",
    "It needs a person's consent, and nobody is there to ask.",
    "floor.unattended",
)
