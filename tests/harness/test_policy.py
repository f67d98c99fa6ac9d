"""Policy decisions: the shared cases, and properties of every set of rules."""

import json
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from windlass_harness.policy import STRENGTH, CallFacts, Effect, PolicySet, Rule, decide, decide_tool_mode
from windlass_harness.shell import classify_shell_command
from windlass_harness.shell.model import Severity
from windlass_protocol import PolicyDecision, ToolMode

Case = dict[str, Any]
CASES: list[Case] = json.loads(
    (Path(__file__).parents[2] / "conformance/cases/policy.json").read_text("utf-8")
)["cases"]

GRADES = st.sampled_from(("safe", "caution", "dangerous"))
MODES = st.sampled_from(ToolMode)
TOOLS = st.sampled_from(("get_x", "delete_x", "shell_x", "send", "x"))
COMMANDS = st.sampled_from(("git status", "ls", "make build"))


@st.composite
def rules(draw: st.DrawFn, effect: Effect | None = None) -> Rule:
    chosen: Effect = effect or draw(st.sampled_from(tuple(STRENGTH)))
    low: Severity | None = draw(st.sampled_from((None, None, "caution")))
    high: Severity | None = draw(st.sampled_from((None, None, "dangerous", "caution")))
    return Rule(
        draw(st.text("abcé😀", min_size=1, max_size=8)),
        chosen,
        tools=draw(st.sampled_from([("*",), ("get_*",), ("x", "send"), ("*_x",)])),
        modes=draw(st.none() | st.frozensets(MODES, min_size=1)),
        min_shell=low,
        max_shell=high,
        commands=tuple(draw(st.lists(COMMANDS, max_size=2))),
        tainted=draw(st.none() | st.booleans()),
        arguments=draw(st.dictionaries(st.text("ab"), st.integers())) if chosen == "modify" else None,
        resume_after_ms=draw(st.none() | st.integers(0, 9)) if chosen == "defer" else None,
    )


calls = st.builds(
    CallFacts,
    TOOLS,
    st.none() | MODES,
    shell=st.none() | GRADES,
    commands=st.lists(COMMANDS.map(lambda text: tuple(text.split())), max_size=2).map(tuple),
    taint=st.frozensets(st.sampled_from(("untrusted", "private"))),
    is_outbound=st.none() | st.booleans(),
    arguments=st.dictionaries(st.text("ab"), st.integers(), max_size=2),
)
rule_lists = st.lists(rules(), max_size=5, unique_by=lambda rule: rule.id)


@st.composite
def policies(draw: st.DrawFn) -> PolicySet:
    return PolicySet(tuple(draw(rule_lists)), trusts_names=draw(st.booleans()))


def rule_of(fields: Case) -> Rule:
    names = {"minShell": "min_shell", "maxShell": "max_shell", "resumeAfterMs": "resume_after_ms"}
    values = {names.get(name, name): value for name, value in fields.items()}
    return Rule(**values)


def call_of(fields: Case) -> CallFacts:
    names = {"isOutbound": "is_outbound"}
    return CallFacts(**{names.get(name, name): value for name, value in fields.items()})


def policy_of(case: Case) -> PolicySet:
    rules: Any = case["rules"]
    if isinstance(rules, list):
        given_rules = cast(list[object], rules)
        rules = [rule_of(cast(Case, rule)) if isinstance(rule, dict) else rule for rule in given_rules]
    elif isinstance(rules, dict):
        rules = rule_of(cast(Case, rules))
    return PolicySet(rules, version=case.get("version"), trusts_names=case.get("trustsNames", False))


def strength(decision: PolicyDecision) -> int:
    return STRENGTH[decision.decision]


@pytest.mark.parametrize("case", [case for case in CASES if "mode" in case], ids=lambda case: case["name"])
def test_shared_names_have_the_mode_of_every_language(case: Case) -> None:
    declared = ToolMode(case["declared"]) if "declared" in case else None
    assert {decide_tool_mode(name, declared) for name in case["names"]} == {case["mode"]}


def test_a_declared_mode_that_is_not_known_is_refused() -> None:
    mode: Any = "reads"
    with pytest.raises(ValueError, match=r"declared must be one of read, .*, found 'reads'"):
        decide_tool_mode("get_x", mode)


@pytest.mark.parametrize("declared", [None, ToolMode.READ])
def test_a_name_that_is_no_string_is_refused_also_beside_a_declared_mode(declared: ToolMode | None) -> None:
    name: Any = None
    with pytest.raises(ValueError, match="name must be a string, found None"):
        decide_tool_mode(name, declared)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "decision" in case], ids=lambda case: case["name"]
)
def test_a_shared_call_has_the_decision_of_every_language(case: Case) -> None:
    decision = decide(policy_of(case), call_of(case["call"]), is_attended=case.get("attended", True))
    wire = decision.model_dump(mode="json", by_alias=True)
    found = (wire["decision"], wire["code"], [ref["id"] for ref in wire["policyRefs"]])
    assert found == (case["decision"], case["code"], case["refs"])
    assert {name: wire.get(name) for name in case.get("also", {})} == case.get("also", {})
    assert wire["reason"].endswith(".")


@pytest.mark.parametrize(
    "case", [case for case in CASES if "rules" in case and "refused" in case], ids=lambda case: case["name"]
)
def test_a_shared_policy_is_refused_in_every_language(case: Case) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        decide(policy_of(case), call_of(case.get("call", {"tool": "x"})), is_attended=True)
    assert type(raised.value) is ValueError, "the sentence is ours, not that of a library"


@pytest.mark.promise("S2")
@given(policies(), calls, st.booleans(), rules("deny"))
def test_adding_a_deny_rule_never_weakens_a_decision(
    policy: PolicySet, call: CallFacts, is_attended: bool, extra: Rule
) -> None:
    assume(extra.id not in {rule.id for rule in policy.rules})
    more = PolicySet((*policy.rules, extra), trusts_names=policy.trusts_names)
    before = decide(policy, call, is_attended=is_attended)
    after = decide(more, call, is_attended=is_attended)
    assert strength(after) >= strength(before)
    if before.decision == "deny":
        assert after.decision == "deny"


@given(policies(), calls, st.booleans(), st.randoms())
def test_the_order_of_rules_does_not_matter(
    policy: PolicySet, call: CallFacts, is_attended: bool, random: Any
) -> None:
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    other = PolicySet(tuple(shuffled), trusts_names=policy.trusts_names)
    assert decide(policy, call, is_attended=is_attended) == decide(other, call, is_attended=is_attended)


@pytest.mark.promise("S2")
@given(policies(), calls)
def test_an_unattended_policy_denies_instead_of_asking(policy: PolicySet, call: CallFacts) -> None:
    attended = decide(policy, call, is_attended=True)
    unattended = decide(policy, call, is_attended=False)
    assert unattended.decision != "ask"
    if attended.decision == "ask":
        assert (unattended.decision, unattended.code) == ("deny", "policy.unattended")
    else:
        assert unattended == attended


@given(policies(), calls, st.booleans())
def test_every_decision_names_its_rules(policy: PolicySet, call: CallFacts, is_attended: bool) -> None:
    decision = decide(policy, call, is_attended=is_attended)
    known = {rule.id for rule in policy.rules}
    assert decision.policy_refs
    assert all(ref.id in known or ref.id.startswith(("default.", "floor.")) for ref in decision.policy_refs)


@pytest.mark.promise("S2")
@given(policies(), calls, st.booleans())
def test_danger_passes_only_by_a_rule_that_names_it(
    policy: PolicySet, call: CallFacts, is_attended: bool
) -> None:
    decision = decide(policy, call, is_attended=is_attended)
    if call.shell == "dangerous" and decision.decision in {"allow", "modify"}:
        assert any(rule.max_shell == "dangerous" for rule in policy.rules)


@given(policies(), calls)
def test_a_name_alone_lets_nothing_through(policy: PolicySet, call: CallFacts) -> None:
    decision = decide(PolicySet(policy.rules), call, is_attended=True)
    if call.declared is None and decision.decision in {"allow", "modify"}:
        named = {ref.id for ref in decision.policy_refs}
        assert any(rule.id in named and rule.modes is None for rule in policy.rules)


WAYS_OUT = [
    (mode, shell, is_outbound)
    for mode, shell, is_outbound in product((None, *ToolMode), (None, "safe", "caution"), (None, True))
    if is_outbound or not (mode is ToolMode.LOCAL and shell == "safe")
]


@pytest.mark.promise("S2")
@pytest.mark.parametrize(("mode", "shell", "is_outbound"), WAYS_OUT)
@pytest.mark.parametrize("taint", [(), ("untrusted",), ("private",), ("untrusted", "private")])
def test_every_way_out_asks_once_a_session_is_tainted(
    mode: Any, shell: Any, is_outbound: Any, taint: Any
) -> None:
    allow_all = PolicySet((Rule("all", "allow", max_shell="dangerous" if shell else None),))
    call = CallFacts("get_x", mode, shell=shell, is_outbound=is_outbound, taint=frozenset(taint))
    decision = decide(allow_all, call, is_attended=True)
    if len(taint) == 2:
        assert (decision.decision, decision.code) == ("ask", "policy.tainted")
    else:
        assert decision.decision == "allow"


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "ls; git push",
        "git push > log",
        "x=push; git $x",
        "echo $(git push)",
        "git push '",
        "if true; then git push; fi",
        "((",
        "",
    ],
)
def test_a_forbidden_shell_command_is_forbidden_however_it_is_written(command: str) -> None:
    policy = PolicySet(
        (
            Rule("no-push", "deny", commands=("git push",)),
            Rule("rest", "allow", max_shell="dangerous"),
        )
    )
    verdict = classify_shell_command(command)
    call = CallFacts("sh", ToolMode.LOCAL, shell=verdict.severity, commands=verdict.commands)
    assert decide(policy, call, is_attended=True).decision == "deny"
