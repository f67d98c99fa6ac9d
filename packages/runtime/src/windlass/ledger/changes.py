"""Changes to an agent: parsed from a proposal, recorded, applied."""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import from_json

from windlass.agent.agent import AnyAgent
from windlass.agent.package import compile_package, fingerprint, package_json
from windlass.errors import wrong
from windlass.tools import Tool
from windlass_harness.budget import Budget
from windlass_harness.ledger.proposals import differences
from windlass_harness.policy import Effect, PolicySet, Rule
from windlass_protocol import JsonObject, PackageDifference, ProposalChange, ProposalPart, RuntimePackage

CHANGES_MAX: Final = 8
TEXT_CHARS_MAX: Final = 100_000
RULE_PREFIX: Final = "proposed-"
_LIMITS: Final = tuple(part.name for part in fields(Budget))
_EFFECTS: Final = ("allow", "ask", "deny")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")


class DraftChange(BaseModel):
    """One change, as a model writes it; flat, so that small models can fill it in."""

    model_config = ConfigDict(extra="forbid")

    part: ProposalPart
    target: str = Field("", max_length=512, description="The tool, for tool_description and policy.")
    text: str = Field(
        "",
        max_length=TEXT_CHARS_MAX,
        description="The whole new instructions or description; provider/model; for policy, why.",
    )
    effect: Literal["allow", "ask", "deny"] | None = Field(None, description="For policy.")
    limits: dict[str, int] | None = Field(
        None,
        description=f"For budget: whole numbers of {', '.join(_LIMITS)}; those left out stay as they are.",
    )


class PackageDraft(BaseModel):
    """A change to an agent that should help, and why."""

    model_config = ConfigDict(extra="forbid")

    changes: list[DraftChange] = Field(min_length=1, max_length=CHANGES_MAX)
    rationale: str = Field(min_length=1, max_length=TEXT_CHARS_MAX, description="Why this should help.")
    evidence: list[str] = Field(
        min_length=1, max_length=100, description="Ids of runs that show the problem."
    )


def version_of(agent: AnyAgent) -> str:
    """Return the fingerprint of an agent."""
    return fingerprint(compile_package(agent))


def package_differences(old: AnyAgent, new: AnyAgent) -> tuple[PackageDifference, ...]:
    """Return where the packages of two agents differ."""
    return package_values(compile_package(old), compile_package(new))


def package_values(old: RuntimePackage, new: RuntimePackage) -> tuple[PackageDifference, ...]:
    """Return the values at which two packages differ, such as their instructions."""
    before, after = (cast(JsonValue, from_json(package_json(package))) for package in (old, new))
    return differences(before, after)


def wire_changes(draft: PackageDraft, agent: AnyAgent) -> tuple[ProposalChange, ...]:
    """Return the changes of a draft in wire form, with the old values.

    Raises:
        Rejected: a change names a part that the agent does not have, or is incomplete.
    """
    return tuple(_wire(change, agent) for change in draft.changes)


def apply_changes(agent: AnyAgent, changes: Sequence[ProposalChange]) -> AnyAgent:
    """Return a copy of the agent with the changes applied.

    Raises:
        Rejected: a change cannot be applied; the message says why.
    """
    for change in changes:
        agent = _MAKERS[change.part](agent, change)
    return agent


def _wire(change: DraftChange, agent: AnyAgent) -> ProposalChange:
    match change.part:
        case ProposalPart.INSTRUCTIONS:
            before, after, target = _instructions(agent), _new_text(change), None
        case ProposalPart.TOOL_DESCRIPTION:
            before, after, target = (
                _current_description(agent, change.target),
                _new_text(change),
                change.target,
            )
        case ProposalPart.MODEL:
            before, after, target = "/".join(agent.route), _new_text(change), None
        case ProposalPart.BUDGET:
            before, after, target = _budget(agent.budget), _limits(change), None
        case ProposalPart.POLICY:
            before, after, target = None, _rule(change), change.target or "*"
    facts: dict[str, object] = {"part": change.part, "target": target, "before": before, "after": after}
    return ProposalChange.model_validate({name: value for name, value in facts.items() if value is not None})


def _new_text(change: DraftChange) -> str:
    if not change.text.strip():
        raise wrong(f"a change of {change.part.value} needs the new value in text; found none")
    return change.text


def _limits(change: DraftChange) -> JsonObject:
    limits = change.limits or {}
    if not limits or not set(limits) <= set(_LIMITS):
        raise wrong(f"a change of budget needs limits, whole numbers of {', '.join(_LIMITS)}")
    return dict(limits)


def _rule(change: DraftChange) -> JsonObject:
    if change.effect is None:
        raise wrong(f"a change of policy needs an effect, one of {', '.join(_EFFECTS)}")
    return {"effect": change.effect, "tools": [change.target or "*"], "reason": change.text}


def _instructions(agent: AnyAgent) -> str:
    if not isinstance(agent.instructions, str):
        raise wrong(
            f"the instructions of {agent.name} come from a function and cannot be changed by a proposal"
        )
    return agent.instructions


def _current_description(agent: AnyAgent, name: str) -> str:
    for tool in agent.tools:
        if isinstance(tool, Tool) and tool.name == name:
            return tool.description
    for subagent in agent.subagents:
        if subagent.name == name:
            return subagent.description
    names = [tool.name for tool in agent.tools if isinstance(tool, Tool)]
    names += [subagent.name for subagent in agent.subagents]
    raise wrong(f"{agent.name} has no tool {name!r}; it has {', '.join(names) or 'none'}")


def _budget(budget: Budget | None) -> JsonObject | None:
    if budget is None:
        return None
    return {name: getattr(budget, name) for name in _LIMITS if getattr(budget, name) is not None}


def _set_instructions(agent: AnyAgent, change: ProposalChange) -> AnyAgent:
    _instructions(agent)
    return replace(agent, instructions=str(change.after))


def _describe(agent: AnyAgent, change: ProposalChange) -> AnyAgent:
    name, description = change.target or "", str(change.after)
    _current_description(agent, name)
    tools = [
        replace(tool, description=description) if isinstance(tool, Tool) and tool.name == name else tool
        for tool in agent.tools
    ]
    subagents = [
        replace(subagent, description=description) if subagent.name == name else subagent
        for subagent in agent.subagents
    ]
    return replace(agent, tools=tools, subagents=subagents)


def _set_model(agent: AnyAgent, change: ProposalChange) -> AnyAgent:
    return replace(agent, model=str(change.after))


def _set_budget(agent: AnyAgent, change: ProposalChange) -> AnyAgent:
    limits = cast(dict[str, int], change.after)
    try:
        budget = replace(agent.budget or Budget(), **limits)
    except (TypeError, ValueError) as error:
        problem = str(error)
    else:
        return replace(agent, budget=budget)
    raise wrong(f"the new budget is not valid: {problem}")


def _add_rule(agent: AnyAgent, change: ProposalChange) -> AnyAgent:
    after = cast(dict[str, JsonValue], change.after)
    effect, tools = cast(Effect, after["effect"]), tuple(cast(list[str], after["tools"]))
    name = _OTHER.sub("_", f"{RULE_PREFIX}{effect}-{'-'.join(tools)}")
    try:
        rule = Rule(name, effect, tools=tools, reason=str(after.get("reason", "")))
        rules = [existing for existing in agent.policy.rules if existing.id != name]
        policy: PolicySet = replace(agent.policy, rules=(*rules, rule))
    except ValueError as error:
        problem = str(error)
    else:
        return replace(agent, policy=policy)
    raise wrong(f"the new policy is not valid: {problem}")


_MAKERS: Final[dict[ProposalPart, Callable[[AnyAgent, ProposalChange], AnyAgent]]] = {
    ProposalPart.INSTRUCTIONS: _set_instructions,
    ProposalPart.TOOL_DESCRIPTION: _describe,
    ProposalPart.MODEL: _set_model,
    ProposalPart.BUDGET: _set_budget,
    ProposalPart.POLICY: _add_rule,
}
