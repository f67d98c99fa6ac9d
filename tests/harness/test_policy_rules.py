"""Rules: how names match, what rules are refused, and how many fit into a policy."""

import json
import re
from fnmatch import translate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.policy_rules import RULES_MAX, PolicySet, Rule, matches_name

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


def test_a_policy_holds_so_many_rules_and_not_one_more() -> None:
    rules = tuple(Rule(f"r{number}", "deny") for number in range(RULES_MAX + 1))
    assert len(PolicySet(rules[:-1]).rules) == RULES_MAX
    with pytest.raises(ValueError, match="too many rules: 1001, limit 1000"):
        PolicySet(rules)


def test_two_rules_of_one_id_are_named() -> None:
    with pytest.raises(ValueError, match="two rules have the id a; give each its own"):
        PolicySet((Rule("a", "deny"), Rule("a", "allow")))
