"""The built-in policies."""

import itertools

import pytest
from tests.runtime.runtime_rig import package_of, request

from windlass.agent.policy import RulesPolicy, allow_start, strongest
from windlass_harness.policy import CallFacts, PolicySet, Rule, decide
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    DeferDecision,
    DenyDecision,
    InterruptDecision,
    ModifyDecision,
    PolicyDecision,
    ToolMode,
)

MAIL = CallFacts("mail", ToolMode.EXTERNAL)
WIPE = CallFacts("wipe", ToolMode.DESTRUCTIVE)


def test_every_run_may_start_if_that_is_the_policy() -> None:
    decision = allow_start(request(), package_of())
    assert isinstance(decision, AllowDecision)
    assert [ref.id for ref in decision.policy_refs] == ["windlass.allow"]


def test_a_policy_of_rules_decides_before_a_call_and_lets_results_through() -> None:
    policy = RulesPolicy(PolicySet((Rule("no", "deny", tools=("wipe",)),)))
    assert policy.before(MAIL, is_attended=True).decision == "ask"
    assert policy.before(MAIL, is_attended=False).decision == "deny"
    assert policy.before(WIPE, is_attended=True).decision == "deny"
    assert policy.after(MAIL, {"ok": True}).decision == "allow"


def test_the_version_names_the_rules() -> None:
    first = RulesPolicy(PolicySet((Rule("no", "deny", tools=("wipe",)),)))
    same = RulesPolicy(PolicySet((Rule("no", "deny", tools=("wipe",)),)))
    other = RulesPolicy(PolicySet((Rule("no", "deny", tools=("mail",)),)))
    assert first.version == same.version
    assert first.version != other.version
    assert first.version.startswith("sha256:")
    assert first.before(WIPE, is_attended=True).policy_refs[0].version == first.version


def test_a_grant_allows_a_tool_under_the_same_version_without_changing_the_original_policy() -> None:
    policy = RulesPolicy(PolicySet())
    granted = policy.granting(("mail",))
    assert granted.before(MAIL, is_attended=True).decision == "allow"
    assert granted.version == policy.version
    assert policy.before(MAIL, is_attended=True).decision == "ask"
    assert policy.granting(()) is policy


def test_a_grant_is_weaker_than_a_rule_that_denies() -> None:
    policy = RulesPolicy(PolicySet((Rule("no", "deny", tools=("mail",)),)))
    assert policy.granting(("mail",)).before(MAIL, is_attended=True).decision == "deny"


ORDER: list[PolicyDecision] = [
    AllowDecision(code="c", reason="r", policy_refs=()),
    AskDecision(code="c", reason="r", policy_refs=()),
    DenyDecision(code="c", reason="r", policy_refs=()),
]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(range(3), repeat=2)))
def test_of_two_decisions_the_stronger_wins_and_the_first_of_equals(first: int, second: int) -> None:
    found = strongest(ORDER[first], ORDER[second])
    assert found is ORDER[max(first, second)]


def test_every_decision_has_a_strength() -> None:
    others: list[PolicyDecision] = [
        ModifyDecision(code="c", reason="r", policy_refs=(), arguments={}),
        InterruptDecision(code="c", reason="r", policy_refs=()),
        DeferDecision(code="c", reason="r", policy_refs=()),
    ]
    for decision in others:
        assert strongest(ORDER[0], decision) is decision


def test_a_policy_caches_decisions_by_their_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(rules: PolicySet, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        asked.append(call.tool)
        return decide(rules, call, is_attended=is_attended)

    monkeypatch.setattr("windlass.agent.policy.decide", counted)
    monkeypatch.setattr("windlass.agent.policy.DECISIONS_MAX", 2)
    policy = RulesPolicy(PolicySet())
    for tool in ("a", "a", "b", "b", "c", "a"):
        policy.before(CallFacts(tool, ToolMode.READ, arguments={"n": len(asked)}), is_attended=True)
    assert asked == ["a", "b", "c", "a"]
    assert policy.before(CallFacts("a"), is_attended=True).decision == "ask"
    assert policy.before(CallFacts("a"), is_attended=False).decision == "deny"


def test_a_policy_that_changes_arguments_looks_at_them_each_time() -> None:
    rule = Rule("quiet", "modify", tools=("mail",), arguments={"loud": False})
    policy = RulesPolicy(PolicySet((rule,)))
    for to in ("ada", "bob"):
        decision = policy.before(CallFacts("mail", ToolMode.READ, arguments={"to": to}), is_attended=True)
        assert isinstance(decision, ModifyDecision)
        assert decision.arguments == {"to": to, "loud": False}
