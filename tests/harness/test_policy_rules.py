"""Policy rules: name matching, refused rules, and the limit of their number."""

import json
import re
from fnmatch import translate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.policy import RULES_MAX, CallFacts, PolicySet, Rule, matches_name
from windlass_protocol import ToolMode

Case = dict[str, Any]
CASES: list[Case] = json.loads(
    (Path(__file__).parents[2] / "conformance/cases/policy.json").read_text("utf-8")
)["cases"]
PATTERNS = [(case["matches"], *pair) for case in CASES for pair in case.get("patterns", ())]
COMMANDS = [("refused" in case, command) for case in CASES for command in case.get("commands", ())]


@pytest.mark.parametrize(("does_match", "pattern", "name"), PATTERNS)
def test_a_shared_name_matches_as_in_every_language(does_match: bool, pattern: str, name: str) -> None:
    assert matches_name(pattern, name) is does_match


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_names_match_as_file_names_do(pattern: str, name: str) -> None:
    assert matches_name(pattern, name) == (re.match(translate(pattern), name) is not None)


@pytest.mark.parametrize(("is_refused", "command"), COMMANDS)
def test_a_shared_command_can_be_granted_as_in_every_language(is_refused: bool, command: str) -> None:
    if is_refused:
        with pytest.raises(ValueError, match=r"^rule always: .*(can run any program|plain words)"):
            Rule("always", "allow", commands=(command,))
    else:
        assert Rule("always", "allow", commands=(command,)).commands == (command,)


@pytest.mark.parametrize("effect", ["ask", "defer", "interrupt", "deny"])
def test_an_interpreter_may_be_named_by_rules_that_grant_nothing(effect: Any) -> None:
    assert Rule("never", effect, commands=("python",)).commands == ("python",)


def test_the_number_of_rules_of_a_policy_is_limited() -> None:
    rules = tuple(Rule(f"r{number}", "deny") for number in range(RULES_MAX + 1))
    assert len(PolicySet(rules[:-1]).rules) == RULES_MAX
    with pytest.raises(ValueError, match="too many rules: 1001, limit 1000"):
        PolicySet(rules)


def test_two_rules_of_one_id_are_named() -> None:
    with pytest.raises(ValueError, match="duplicate rule id a: give each rule its own id"):
        PolicySet((Rule("a", "deny"), Rule("a", "allow")))


REFUSED_RULES: list[tuple[Case, str]] = [
    (
        {"tools": "deploy_prod"},
        r"^rule a: tools must be a tuple of names, found a string: write \('deploy_prod',\)$",
    ),
    ({"tools": ()}, "^rule a: tools is empty, so it matches nothing; leave it out to match every tool$"),
    ({"tools": {"x"}}, "^rule a: tools must be a tuple of names, found a value of type set$"),
    ({"tools": None}, "^rule a: tools must be a tuple of names, found None$"),
    ({"tools": (1,)}, "^rule a: tools must be names as strings, found a value of type int$"),
    ({"modes": "read"}, r"^rule a: modes must be a set, found a string: write \{'read'\}$"),
    ({"modes": {"reads"}}, "^rule a: modes must be one of read, safe_write, .*, found 'reads'$"),
    ({"modes": 5}, "^rule a: modes must be a set, found a value of type int$"),
    ({"modes": frozenset()}, "^rule a: modes is empty, so it matches nothing; leave it out"),
    ({"min_shell": "mild"}, "^rule a: min_shell must be one of safe, caution, dangerous, found 'mild'$"),
    (
        {"max_shell": ["safe"]},
        r"^rule a: max_shell must be one of safe, caution, dangerous, found \['safe'\]$",
    ),
    ({"commands": "ls"}, r"^rule a: commands must be a tuple of commands, found a string: write \('ls',\)$"),
    ({"tainted": "yes"}, "^rule a: tainted must be True or False, found 'yes'$"),
    ({"effect": "permit"}, "^rule a: effect must be one of allow, .*, deny, found 'permit'$"),
    ({"reason": None}, "^rule a: reason must be a string, found None$"),
    ({"id": ""}, "^the id of a rule must have 1 to 512 characters without control characters, found ''$"),
    ({"id": None}, "^the id of a rule must be a string, found None$"),
    (
        {"effect": "modify", "arguments": [1]},
        "^rule a: arguments must be a mapping, found a value of type list",
    ),
    (
        {"effect": "modify", "arguments": {"x": object()}},
        "^rule a: arguments must be a JSON object: string keys and JSON values$",
    ),
    (
        {"effect": "defer", "resume_after_ms": 2**53},
        "^rule a: resume_after_ms is only for defer rules and must be a whole",
    ),
]
RULE: Case = {"id": "a", "effect": "deny"}
CALL: Case = {"tool": "x"}
ONE_RULE: Any = Rule("a", "deny")
REFUSED_POLICIES: list[tuple[Case, str]] = [
    ({"rules": ONE_RULE}, r"^rules must be a tuple of rules, found one rule: write PolicySet\(\(rule,\)\)$"),
    ({"rules": "deny"}, "^rules must be a tuple of rules, found a string"),
    ({"rules": {"a": ONE_RULE}}, "^rules must be a tuple of rules, found a value of type dict$"),
    ({"rules": (ONE_RULE, "deny")}, "^each of rules must be a Rule, found a value of type str$"),
    ({"trusts_names": "no"}, "^trusts_names must be True or False, found 'no'$"),
    ({"version": 1}, "^version must be a string, found a value of type int$"),
]
REFUSED_CALLS: list[tuple[Case, str]] = [
    ({"tool": 5}, "^tool must be a string, found a value of type int$"),
    ({"declared": "reads"}, "^declared must be one of read, safe_write, .*, found 'reads'$"),
    ({"shell": "mild"}, "^shell must be one of safe, caution, dangerous, found 'mild'$"),
    ({"taint": {"secret"}}, "^taint must be one of untrusted, private, found 'secret'$"),
    ({"taint": "private"}, r"^taint must be a set, found a string: write \{'private'\}$"),
    (
        {"commands": ("git", "push")},
        r"^a command must be a tuple of words, found a string: write \('git',\)$",
    ),
    ({"is_outbound": "no"}, "^is_outbound must be True or False, found 'no'$"),
    ({"arguments": None}, "^arguments must be a mapping, found None$"),
]


@pytest.mark.promise("S2")
@pytest.mark.parametrize(("fields", "message"), REFUSED_RULES)
def test_an_invalid_rule_is_refused_with_advice(fields: Case, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        Rule(**{**RULE, **fields})
    assert type(raised.value) is ValueError


@pytest.mark.promise("S2")
@pytest.mark.parametrize(("fields", "message"), REFUSED_POLICIES)
def test_an_invalid_policy_is_refused_with_advice(fields: Case, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicySet(**fields)


@pytest.mark.promise("S2")
@pytest.mark.parametrize(("fields", "message"), REFUSED_CALLS)
def test_invalid_facts_of_a_call_are_refused_with_advice(fields: Case, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CallFacts(**{**CALL, **fields})


def test_lists_are_taken_for_tuples_and_sets_and_names_for_modes() -> None:
    fields: Case = {"tools": ["x"], "modes": ["read"], "commands": ["ls -l"]}
    rule = Rule("a", "deny", **fields)
    assert rule == Rule("a", "deny", tools=("x",), modes=frozenset({ToolMode.READ}), commands=("ls -l",))
    assert hash(rule) == hash(rule)
    rules: Any = [rule]
    assert PolicySet(rules) == PolicySet((rule,))
    facts: Case = {"declared": "read", "commands": [["ls", "-l"]], "taint": ["private"]}
    call = CallFacts("x", **facts)
    assert call == CallFacts("x", ToolMode.READ, commands=(("ls", "-l"),), taint=frozenset({"private"}))
    assert isinstance(call.declared, ToolMode)
