"""Policies that ship with the runtime."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from windlass.agent.package import policy_ref
from windlass_harness.policy import STRENGTH, CallFacts, PolicySet, Rule, decide
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    ModifyDecision,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    RunRequest,
    RuntimePackage,
)

DECISIONS_MAX: Final = 1_024
"""Decisions that a policy caches."""

_HOST: Final = PolicyRef.model_construct(kind=PolicyKind.HOST, id="windlass.allow")
_ALLOWED: Final = AllowDecision.model_construct(
    code="policy.allowed", reason="Every run may start.", policy_refs=(_HOST,)
)


def allow_start(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
    """Allow every run to start."""
    return _ALLOWED


class RulesPolicy:
    """A tool policy made of rules."""

    def __init__(self, rules: PolicySet) -> None:
        self._version = policy_ref(rules).version or ""
        self._use(replace(rules, version=self._version))

    def _use(self, rules: PolicySet) -> None:
        self._rules = rules
        self.reads_arguments = any(rule.effect == "modify" for rule in rules.rules)
        """Whether decisions depend on the arguments of a call, or hold them."""
        self._decided: dict[tuple[object, ...], PolicyDecision] = {}

    @property
    def version(self) -> str:
        """A hash of the rules."""
        return self._version

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        """Decide by the rules; decisions are cached unless a rule reads arguments."""
        if self.reads_arguments:
            return decide(self._rules, call, is_attended=is_attended)
        facts = (
            call.tool,
            call.declared,
            call.shell,
            call.commands,
            call.taint,
            call.is_outbound,
            is_attended,
        )
        decision = self._decided.get(facts)
        if decision is None:
            decision = decide(self._rules, call, is_attended=is_attended)
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            self._decided[facts] = decision
        return decision

    def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        """Allow every result."""
        return AllowDecision(code="policy.allowed", reason="Results are not reviewed.", policy_refs=(_HOST,))

    def granting(self, tools: tuple[str, ...]) -> "RulesPolicy":
        """Return the policy of a session in which people granted some tools.

        A grant is an ordinary rule. It lowers no floor: a dangerous command still asks. The version stays
        that of the rules: the rules that people consented to have not changed.
        """
        if not tools:
            return self
        grant = Rule("session.grant", "allow", reason="A person granted it for this session.", tools=tools)
        policy = copy(self)
        policy._use(replace(self._rules, rules=(*self._rules.rules, grant)))
        return policy


class InheritedPolicy(RulesPolicy):
    """The policy of a subagent: its own and those of the calling agents.

    The strictest decides about a call.
    """

    def __init__(self, own: RulesPolicy, above: Sequence[RulesPolicy]) -> None:
        self.all = (own, *above)
        names = "\n".join(policy.version for policy in self.all)
        self._version = f"sha256:{sha256(names.encode()).hexdigest()}"
        self.reads_arguments = any(policy.reads_arguments for policy in self.all)

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        """Return the strictest decision. Arguments that one policy modifies are passed to the next one."""
        decision = self.all[0].before(call, is_attended=is_attended)
        for policy in self.all[1:]:
            changed = _new_arguments(decision)
            if changed is not None:
                call = replace(call, arguments=changed)
            next_decision = policy.before(call, is_attended=is_attended)
            decision = strongest(decision, next_decision)
            changed = _new_arguments(next_decision) or changed
            if changed is not None and isinstance(decision, ModifyDecision | AskDecision):
                decision = decision.model_copy(update={"arguments": changed})
        return decision

    def granting(self, tools: tuple[str, ...]) -> "RulesPolicy":
        """Return the policy of a session in which people granted some tools."""
        policy = copy(self)
        policy.all = tuple(rules.granting(tools) for rules in self.all)
        return policy


def decides_by_rules(policy: object) -> bool:
    """Return whether rules alone decide: a subclass of the application may look at more."""
    if type(policy) is InheritedPolicy:
        return all(decides_by_rules(part) for part in policy.all)
    return type(policy) is RulesPolicy


def _new_arguments(decision: PolicyDecision) -> dict[str, JsonValue] | None:
    return decision.arguments if isinstance(decision, ModifyDecision | AskDecision) else None


def strongest(first: PolicyDecision, second: PolicyDecision) -> PolicyDecision:
    """Return the stricter of two decisions: deny over ask over allow."""
    return second if STRENGTH[second.decision] > STRENGTH[first.decision] else first
