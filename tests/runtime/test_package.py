from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import pytest

from windlass.agent import Agent
from windlass.agent.package import compile_package, fingerprint, package_difference, package_json, policy_ref
from windlass.testing import ScriptedModel
from windlass.tools import KitOptions, Tool, tool
from windlass_harness.budget import Budget
from windlass_harness.policy import PolicySet, Rule
from windlass_protocol import (
    CompactionConfig,
    HookFailure,
    HookSpec,
    JsonObject,
    OutputSinkSpec,
    PackageVolatile,
    RuntimePackage,
    ToolMode,
    decode,
    encode,
)


def look(item: str, count: int = 1) -> str:
    """Look for a thing.

    Args:
        item: What to look for.
    """
    return item * count


def look_wider(item: str, count: int = 2) -> str:
    """Look for a thing.

    Args:
        item: What to look for.
    """
    return item * count


def pay(cents: int) -> None: ...


def large(arguments: JsonObject) -> bool:
    return True


RULES = (
    Rule("b", "deny", tools=("drop_*", "purge_*")),
    Rule("a", "allow", modes=frozenset({ToolMode.READ, ToolMode.LOCAL}), reason="reads"),
)
WATCH = HookSpec(hook_id="watch", point="before_tool_call", failure=HookFailure.DENY)
AUDIT = HookSpec(hook_id="audit", point="after_tool_call")


@dataclass(frozen=True)
class Parts:
    """The parts of the agent below, for tests that change one of them."""

    @staticmethod
    def all() -> dict[str, object]:
        return {
            "model": "openai/gpt-5",
            "instructions": "Sell.",
            "description": "Sells.",
            "version": "1",
            "tools": [tool(look, mode="read"), tool(pay, mode="external", approval="always")],
            "subagents": [Agent("helper", model="a/b", instructions="Help."), Agent("clerk", model="a/b")],
            "policy": PolicySet(RULES, version="3"),
            "budget": Budget(max_steps=5, max_tokens=1_000),
            "output": {"title": "Out", "type": "object"},
            "hooks": [WATCH, AUDIT],
            "output_sinks": [OutputSinkSpec(sink_id="mail"), OutputSinkSpec(sink_id="file")],
            "skills": ["sums", "maps"],
            "compaction": CompactionConfig(recent_window_size=2, threshold=100),
            "temperature": 0.5,
        }


def shop(**changes: object) -> Agent:
    return LOOSE_AGENT("shop", **{**Parts.all(), **changes})


def print_of(**changes: object) -> str:
    return fingerprint(compile_package(shop(**changes)))


LOOSE_AGENT: Any = Agent
LOOSE_TOOL: Any = tool
LOOSE_RULE: Any = Rule
"""For parts that are put together."""
GOLDEN = "sha256:422f684307e5df40c45a46d8a1529e6be21381328ea509c369909425250e9335"


def test_the_fingerprint_of_a_fixed_agent_is_fixed():
    """If this fails, runs under way will be taken for those of another agent."""
    assert print_of() == GOLDEN


def test_the_package_is_valid_on_the_wire_and_says_everything():
    package = compile_package(shop())
    assert decode(RuntimePackage, encode(package)) == package
    assert fingerprint(decode(RuntimePackage, encode(package))) == fingerprint(package)
    assert fingerprint(package) == "sha256:" + sha256(package_json(package)).hexdigest()
    assert package.package_id == "shop@1"
    assert package.agent.instructions == "Sell."
    assert package.provider_route.settings == {
        "temperature": 0.5,
        "compaction": {"recentWindowSize": 2, "threshold": 100},
    }
    assert [spec.name for spec in package.tools or ()] == ["look", "pay"]
    assert [spec.name for spec in package.subagents or ()] == ["clerk", "helper"]
    assert package.budget is not None
    assert package.budget.max_steps == 5


def test_a_small_agent_has_a_small_package():
    package = compile_package(Agent("shop", model="a/b"))
    assert encode(package).startswith(
        b'{"packageId":"shop","agent":{"agentId":"shop","name":"shop"},'
        b'"providerRoute":{"routeId":"a","modelId":"b"},"schemaVersion":1,"policies":[{"kind":"permission"'
    )


def changed(**options: object) -> list[Tool[..., object]]:
    kit = {name: options.pop(name) for name in KitOptions.__annotations__ if name in options}
    made = LOOSE_TOOL(look, **{"mode": "read", **options}).with_options(**kit)
    return [made, tool(pay, mode="external", approval="always")]


CHANGES: list[tuple[dict[str, object], str]] = [
    ({"model": "openai/gpt-6"}, "providerRoute.modelId changed"),
    ({"model": "azure/gpt-5"}, "providerRoute.routeId changed"),
    ({"model": ScriptedModel([], route_id="openai", model_id="x")}, "providerRoute.modelId changed"),
    ({"instructions": "Sell!"}, "agent.instructions changed"),
    ({"description": "Sells!"}, "agent.description changed"),
    ({"version": "2"}, "packageId changed"),
    ({"temperature": 0.6}, "providerRoute.settings changed"),
    ({"compaction": None}, "providerRoute.settings changed"),
    ({"tools": changed(name="look2")}, "tool look removed"),
    ({"tools": changed(description="Look!")}, "tool look changed: description"),
    ({"tools": changed(mode="safe_write")}, "tool look changed: effect, mode"),
    ({"tools": changed(effect="idempotent")}, "tool look changed: effect"),
    ({"tools": changed(approval="always")}, "tool look changed: approval"),
    ({"tools": changed(approval=large)}, "tool look changed: approval, metadata"),
    ({"tools": changed(timeout=0.005)}, "tool look changed: timeoutMs"),
    ({"tools": changed(concurrency=5)}, "tool look changed: concurrency"),
    ({"tools": changed(is_outbound=False)}, "tool look changed: isOutbound"),
    ({"tools": changed(metadata={"x": 1})}, "tool look changed: metadata"),
    (
        {"tools": [tool(look_wider, name="look", mode="read"), *changed()[1:]]},
        "tool look changed: inputSchema",
    ),
    ({"tools": changed()[:1]}, "tool pay removed"),
    (
        {"subagents": [Agent("helper", model="a/b"), Agent("clerk", model="a/b")]},
        "subagent helper changed: fingerprint",
    ),
    ({"subagents": ()}, "subagent clerk removed"),
    ({"policy": PolicySet(RULES, version="4")}, "policy agent-policy changed: version"),
    ({"policy": PolicySet(RULES[:1], version="3")}, "policy agent-policy changed: version"),
    ({"policy": PolicySet(RULES, version="3", trusts_names=True)}, "policy agent-policy changed: version"),
    ({"budget": Budget(max_steps=6, max_tokens=1_000)}, "budget.maxSteps changed"),
    ({"budget": None}, "budget removed"),
    ({"output": {"title": "Out", "type": "array"}}, "output contract Out changed: contentHash, schema"),
    ({"hooks": [WATCH, AUDIT.model_copy(update={"timeout_ms": 5})]}, "hook audit changed: timeoutMs"),
    ({"hooks": [WATCH]}, "hook audit removed"),
    ({"output_sinks": [OutputSinkSpec(sink_id="mail")]}, "output sink file removed"),
    ({"skills": ["sums"]}, "skills changed"),
]


@pytest.mark.parametrize(("changes", "words"), CHANGES)
def test_every_behavioural_part_of_an_agent_changes_the_fingerprint(changes: dict[str, object], words: str):
    assert print_of(**changes) != print_of()
    assert words in package_difference(compile_package(shop()), compile_package(shop(**changes)))


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "other"},
        {"tools": ("*", "x")},
        {"modes": frozenset({ToolMode.READ})},
        {"effect": "deny"},
        {"tainted": True},
        {"max_shell": "caution"},
        {"min_shell": "caution"},
        {"commands": ("git status",)},
        {"effect": "modify", "arguments": {"x": 1}},
        {"effect": "defer", "resume_after_ms": 5},
    ],
)
def test_every_part_of_a_rule_counts(change: dict[str, object]):
    base: dict[str, object] = {"effect": "allow", "modes": frozenset({ToolMode.READ, ToolMode.LOCAL})}

    def made(**parts: object) -> str | None:
        return policy_ref(PolicySet((LOOSE_RULE("a", **{**base, **parts}),))).version

    assert made(**change) != made()


@pytest.mark.parametrize("name", ["tools", "subagents", "hooks", "output_sinks", "skills"])
def test_the_order_of_a_list_does_not_count(name: str):
    items = cast(list[object], Parts.all()[name])
    turned = shop(**{name: items[::-1]})
    assert fingerprint(compile_package(turned)) == print_of()
    assert package_difference(compile_package(shop()), compile_package(turned)) == ()


def test_the_order_of_rules_and_in_rules_does_not_count():
    first, second = RULES
    turned = PolicySet((second, Rule("b", "deny", tools=("purge_*", "drop_*"))), version="3")
    assert policy_ref(turned) == policy_ref(PolicySet((first, second), version="3"))


def test_the_order_in_a_package_made_elsewhere_does_not_count():
    package = compile_package(shop())
    turned = package.model_copy(
        update={
            "tools": (package.tools or ())[::-1],
            "subagents": (package.subagents or ())[::-1],
            "hooks": (package.hooks or ())[::-1],
            "skills": (package.skills or ())[::-1],
        }
    )
    assert turned != package
    assert fingerprint(turned) == fingerprint(package)


def test_volatile_fields_do_not_change_the_fingerprint():
    package = compile_package(shop())
    marked = package.model_copy(update={"volatile": PackageVolatile(run_id="r1", host="somewhere")})
    assert fingerprint(marked) == fingerprint(package)
    assert package_difference(package, marked) == ()


def test_parameters_in_another_order_are_the_same_tool():
    def one(item: str, place: str) -> None: ...

    def other(place: str, item: str) -> None: ...

    specs = [tool(one, name="find"), tool(other, name="find")]
    assert print_of(tools=[specs[0]]) == print_of(tools=[specs[1]])


def test_a_package_difference_names_added_and_removed_parts():
    small, large_one = compile_package(Agent("shop", model="a/b")), compile_package(shop())
    difference = package_difference(small, large_one)
    assert "tool look added" in difference
    assert "budget added" in difference
    assert "skills added" in difference
    assert "tool look removed" in package_difference(large_one, small)


def test_two_packages_differ_in_words_exactly_when_their_fingerprints_differ():
    for changes, _ in CHANGES:
        assert package_difference(compile_package(shop(**changes)), compile_package(shop(**changes))) == ()
