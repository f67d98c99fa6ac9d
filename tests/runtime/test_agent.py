from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import BaseModel

from windlass.agent.agent import Agent, output_contract
from windlass.agent.hooks import hook
from windlass.errors import Rejected
from windlass.limits import SUBAGENT_LEVELS_MAX
from windlass.ports.host import HookCall
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.testing import ScriptedModel
from windlass.tools import tool
from windlass_harness.budget import Budget
from windlass_harness.policy import PolicySet, Rule
from windlass_protocol import (
    CompactionConfig,
    ErrorKind,
    HookSpec,
    JsonObject,
    OutputContract,
    OutputSinkSpec,
    SchemaVersion,
)


@tool(mode="read")
def look(item: str) -> str:
    return item


class Plain:
    """A model that is only a model."""

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        raise NotImplementedError


@hook("before_tool_call")
def watch(call: HookCall) -> None:
    """Look at every call."""


class Invoice(BaseModel):
    """An invoice."""

    total: int


def test_an_agent_needs_a_name_and_a_model():
    agent = Agent("shop", model="openai/gpt-5/mini")
    assert (agent.agent_id, agent.route) == ("shop", ("openai", "gpt-5/mini"))
    assert (agent.instructions, agent.tools, agent.policy, agent.contract) == ("", (), PolicySet(), None)
    with pytest.raises(FrozenInstanceError):
        agent.__setattr__("name", "other")


def test_the_route_of_a_model_object_comes_from_its_attributes():
    assert Agent("a", model=ScriptedModel([])).route == ("scripted", "scripted")
    assert Agent("a", model=ScriptedModel([], route_id="r", model_id="m")).route == ("r", "m")
    assert Agent("a", model=Plain()).route == ("object", "Plain")


def test_an_agent_holds_all_that_it_is_given():
    bare = HookSpec(hook_id="bare", point="after_tool_call")
    helper = Agent("helper", model="a/b")
    agent = Agent(
        "shop",
        model="a/b",
        instructions="Sell.",
        description="Sells.",
        version="2",
        tools=[look],
        subagents=[helper],
        policy=PolicySet((Rule("r", "deny"),)),
        budget=Budget(max_steps=5),
        output=Invoice,
        hooks=[watch, bare],
        output_sinks=[OutputSinkSpec(sink_id="mail")],
        skills=["sums"],
        compaction=CompactionConfig(recent_window_size=2, threshold=10),
        temperature=0.5,
    )
    assert (agent.tools, agent.subagents, agent.skills, agent.levels) == ((look,), (helper,), ("sums",), 2)
    assert agent.tool("look") is look
    assert agent.tool("loo") is None
    assert agent.hook_specs == (watch.spec, bare)


HOOK = HookSpec(hook_id="h", point="after_tool_call")
LOOSE_AGENT: Any = Agent
"""For arguments that a type checker would refuse."""


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"model": "gpt-5"}, 'agent shop: model must be "provider/model"'),
        ({"model": "/gpt-5"}, 'model must be "provider/model"'),
        ({"model": "openai/"}, 'model must be "provider/model"'),
        ({"model": "a/b\n"}, 'model must be "provider/model"'),
        ({"model": None}, r"an object with stream\(\), found NoneType"),
        ({"model": Plain}, "found the class Plain"),
        ({"instructions": None}, "instructions must be a string or a function, found NoneType"),
        (
            {"instructions": "a" * 1_000_001},
            "instructions is too long: 1,000,001 characters, limit 1,000,000",
        ),
        ({"description": "a" * 16_385}, "the description is too long"),
        ({"version": 2}, "the version must be a string, found int"),
        ({"version": "1" * 65}, "the version is too long"),
        ({"tools": look}, "tools must be a list of functions with @tool, found Tool"),
        ({"tools": [look.function]}, "tools must be functions with @tool; number 0 is function"),
        ({"tools": [look, look]}, "tools and subagents: duplicate name look"),
        ({"tools": [look], "subagents": [Agent("look", model="a/b")]}, "duplicate name look"),
        ({"subagents": ["helper"]}, "subagents must be agents; number 0 is str"),
        ({"subagents": [Agent(f"a{number}", model="a/b") for number in range(65)]}, "found 65, limit 64"),
        ({"policy": None}, "policy must be a PolicySet, found NoneType"),
        ({"budget": 5}, "budget must be a Budget, found int"),
        ({"compaction": {}}, "compaction must be a number of tokens or a CompactionConfig, found dict"),
        (
            {"hooks": [print]},
            "hooks must be functions with @hook or @on_event; number 0 is builtin_function_or_method",
        ),
        ({"hooks": [HOOK, HOOK]}, "hooks: duplicate name h"),
        ({"output_sinks": ["mail"]}, "output_sinks must be output sinks; number 0 is str"),
        ({"skills": "sums"}, "skills must be a list of skills or names of skills, found str"),
        ({"skills": ["a", "a"]}, "skills: duplicate name a"),
        ({"temperature": 2.1}, "temperature must be a number from 0 to 2, found 2.1"),
        ({"temperature": True}, "temperature must be a number"),
        ({"temperature": float("nan")}, "temperature must be a number"),
        ({"output": 5}, "output must be a model, a dataclass, a JSON Schema or an OutputContract, found int"),
        ({"output": {"type": float("inf")}}, "the output schema is not JSON"),
    ],
)
def test_an_invalid_part_of_an_agent_is_refused_with_a_message(parts: dict[str, object], words: str):
    with pytest.raises(Rejected, match=words) as caught:
        LOOSE_AGENT("shop", **{"model": "a/b", **parts})
    assert caught.value.kind == ErrorKind.INVALID_PACKAGE


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "a" * 65])
def test_an_agent_name_must_be_valid_for_every_provider(name: str):
    with pytest.raises(Rejected, match="the name of an agent"):
        Agent(name, model="a/b")


def test_agents_go_inside_one_another_up_to_a_limit():
    agent = Agent("a", model="a/b")
    for _ in range(SUBAGENT_LEVELS_MAX - 1):
        agent = Agent("a", model="a/b", subagents=[agent])
    with pytest.raises(Rejected, match="levels of subagents: found 9, limit 8"):
        Agent("a", model="a/b", subagents=[agent])


def test_the_number_of_tools_of_an_agent_is_limited():
    tools = [tool(look.function, name=f"look_{number}") for number in range(513)]
    assert Agent("a", model="a/b", tools=tools[:512])
    with pytest.raises(Rejected, match="tools: found 513, limit 512"):
        Agent("a", model="a/b", tools=tools)


def test_output_types_and_schemas_become_a_contract():
    contract = output_contract(Invoice, "shop")
    assert contract.schema_id == "Invoice"
    assert contract.json_schema == {
        "description": "An invoice.",
        "type": "object",
        "properties": {"total": {"type": "integer"}},
        "required": ["total"],
    }
    assert output_contract(list[int], "shop").json_schema == {"type": "array", "items": {"type": "integer"}}
    assert output_contract({"type": "string"}, "shop").schema_id == "shop"
    assert output_contract({"title": "T"}, "shop").schema_id == "T"
    assert output_contract({"$id": "I", "title": "T"}, "shop").schema_id == "I"
    ready = OutputContract.model_validate(
        {"schema_id": "x", "schema_version": SchemaVersion(major=2, minor=0, patch=0), "schema": {}}
    )
    assert Agent("a", model="a/b", output=ready).contract is ready
    hashed = contract.content_hash
    assert hashed is not None
    assert hashed.startswith("sha256:")


def test_a_copy_with_another_model_differs_in_nothing_else() -> None:
    expert = Agent("expert", model="acme/old", description="Knows.")
    lead = Agent("lead", model="acme/old", subagents=[expert])
    desk = Agent("desk", model="acme/old", tools=[look], subagents=[lead], output=dict[str, int])
    mine, other = ScriptedModel([]), ScriptedModel([])
    copy = desk.with_model(mine, subagents={"expert": other})
    assert (copy.model, desk.model) == (mine, "acme/old")
    assert (copy.tools, copy.output, copy.name) == (desk.tools, desk.output, "desk")
    [led] = copy.subagents
    assert led.model == "acme/old"
    assert [(one.model, one.description) for one in led.subagents] == [(other, "Knows.")]
    with pytest.raises(Rejected, match="agent desk: no subagent is named clerk"):
        desk.with_model(mine, subagents={"clerk": other})
    with pytest.raises(Rejected, match="model"):
        desk.with_model("nothing")
