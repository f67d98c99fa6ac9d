"""Changes to agents: the parts that can be proposed, and their effect."""

import pytest
from tests.ledger.rig import clerk

from windlass import Agent, Budget, Rejected, Rule
from windlass.agent.agent import AnyAgent
from windlass.agent.dynamic import dynamic
from windlass.ledger.changes import PackageDraft, apply_changes, package_differences, version_of, wire_changes
from windlass.testing import ScriptedModel, say
from windlass_harness.policy import PolicySet
from windlass_protocol import JsonObject, ProposalChange, ProposalPart


def draft(**change: object) -> PackageDraft:
    return PackageDraft.model_validate({"changes": [change], "rationale": "Why not?", "evidence": ["run-1"]})


def changed(agent: AnyAgent, **change: object) -> tuple[ProposalChange, AnyAgent]:
    [wire] = wire_changes(draft(**change), agent)
    again = ProposalChange.model_validate_json(wire.model_dump_json(by_alias=True), by_alias=True)
    return wire, apply_changes(agent, [again])


def test_instructions_are_replaced_and_the_old_agent_stays() -> None:
    agent = clerk()
    before = version_of(agent)
    wire, new = changed(agent, part="instructions", text="Be kind.")
    assert (wire.before, wire.after, wire.target) == ("Say where parcels are.", "Be kind.", None)
    assert (new.instructions, agent.instructions) == ("Be kind.", "Say where parcels are.")
    assert (version_of(agent), version_of(new) != before) == (before, True)
    assert [one.path for one in package_differences(agent, new)] == ["/agent/instructions"]


def test_tools_and_subagents_are_described_anew() -> None:
    helper = Agent("helper", model=ScriptedModel([say("")]), description="Helps.")
    agent = clerk(subagents=[helper])
    wire, new = changed(agent, part="tool_description", target="find_parcel", text="Find one.")
    assert (wire.target, wire.before) == ("find_parcel", "Find the parcel of a customer.")
    assert [tool.description for tool in new.offered_tools] == ["Find one."]
    assert [one.path for one in package_differences(agent, new)] == ["/tools/0/description"]
    wire, new = changed(agent, part="tool_description", target="helper", text="Helps a lot.")
    assert (wire.before, new.subagents[0].description, helper.description) == (
        "Helps.", "Helps a lot.", "Helps."
    )  # fmt: skip


def test_a_rule_is_added_to_the_policy_and_replaces_its_own_kind() -> None:
    agent = clerk(policy=PolicySet(rules=(Rule("r1", "ask", tools=("find_*",)),)))
    wire, new = changed(agent, part="policy", target="find_parcel", effect="deny", text="Never.")
    assert wire.after == {"effect": "deny", "tools": ["find_parcel"], "reason": "Never."}
    assert [(rule.id, rule.effect, rule.tools) for rule in new.policy.rules] == [
        ("r1", "ask", ("find_*",)), ("proposed-deny-find_parcel", "deny", ("find_parcel",))
    ]  # fmt: skip
    _, again = changed(new, part="policy", target="find_parcel", effect="deny", text="Still never.")
    assert [rule.reason for rule in again.policy.rules] == ["", "Still never."]
    wire, _ = changed(agent, part="policy", effect="ask")
    assert wire.target == "*"


def test_limits_of_the_budget_are_set_and_others_stay() -> None:
    agent = clerk(budget=Budget(max_steps=3, max_tokens=10))
    wire, new = changed(agent, part="budget", limits={"max_steps": 9})
    assert (wire.before, wire.after) == ({"max_steps": 3, "max_tokens": 10}, {"max_steps": 9})
    assert new.budget == Budget(max_steps=9, max_tokens=10)
    wire, new = changed(clerk(), part="budget", limits={"max_steps": 9})
    assert (wire.before, new.budget) == (None, Budget(max_steps=9))


def test_another_model_is_named() -> None:
    wire, new = changed(clerk(), part="model", text="openai/gpt-5")
    assert (wire.before, new.model) == ("scripted/scripted", "openai/gpt-5")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part": "instructions"}, "needs the new value in text"),
        ({"part": "instructions", "text": "  "}, "needs the new value in text"),
        ({"part": "tool_description", "target": "pay", "text": "x"}, "has no tool 'pay'; it has find_parcel"),
        ({"part": "budget"}, "needs limits"),
        ({"part": "budget", "limits": {"money": 1}}, "needs limits"),
        ({"part": "budget", "limits": {"max_steps": -1}}, "the new budget is not valid"),
        ({"part": "policy", "target": "x"}, "needs an effect"),
        ({"part": "policy", "target": "", "effect": "deny", "text": "x" * 100_000}, None),
        ({"part": "model", "text": "gpt"}, "provider/model"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: JsonObject, message: str | None) -> None:
    if message is None:
        changed(clerk(), **change)
        return
    with pytest.raises(Rejected, match=message):
        changed(clerk(), **change)


def test_a_rule_that_cannot_be_is_refused() -> None:
    change = ProposalChange(
        part=ProposalPart.POLICY, target="x", after={"effect": "explode", "tools": ["x"], "reason": ""}
    )
    with pytest.raises(Rejected, match="the new policy is not valid"):
        apply_changes(clerk(), [change])


def test_instructions_of_a_function_cannot_be_proposed() -> None:
    async def words(_: object) -> str:
        return "Be kind."

    agent = clerk(instructions=dynamic(words))
    with pytest.raises(Rejected, match="come from a function"):
        changed(agent, part="instructions", text="Be rude.")
    with pytest.raises(Rejected, match="come from a function"):
        apply_changes(agent, [ProposalChange(part=ProposalPart.INSTRUCTIONS, after="Be rude.")])


def test_an_agent_without_tools_says_so() -> None:
    with pytest.raises(Rejected, match="it has none"):
        changed(clerk(tools=[]), part="tool_description", target="x", text="y")
