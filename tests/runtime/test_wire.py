"""Every accepted input becomes events that are valid on the wire."""

from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, RunStatus, ToolContext, tool
from windlass.errors import Rejected
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass_protocol import Event, decode, encode
from windlass_protocol.limits import FREE_LEVELS_MAX

HUGE = 10**30


def nested(levels: int) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@tool(mode="read")
async def count(n: int) -> str:
    """Count."""
    return "counted"


@tool(mode="read")
async def show(d: dict[str, object], ctx: ToolContext) -> object:
    """Show."""
    ctx.progress({"n": HUGE, "d": d})
    return {"n": HUGE, "d": d, "deep": nested(80)}


async def played(file: Path, *script: Answer, metadata: dict[str, JsonValue] | None = None) -> None:
    """Run an agent, and read each of its events by the strict rules of the wire."""
    agent = Agent("clerk", model=ScriptedModel(by_history([*script, say("done")])), tools=[count, show])
    async with AgentRuntime.open(file, agents=[agent], durability="process") as runtime:
        handle = await runtime.start_run(agent, "go", metadata=metadata)
        assert (await handle.wait()).status is RunStatus.COMPLETED
        async for event in handle.events():
            assert decode(Event, encode(event)).type == event.type


@pytest.mark.parametrize(
    "answer",
    [
        call("count", {"n": HUGE}),
        call("count", f'{{"n":{HUGE}}}'),
        call("show", {"d": nested(47)}),
        call("show", {"d": nested(60)}),
        call("show", {"d": nested(70)}),
        call("show", {"d": {"a": "\ud800"}}),
        call("show", f'{{"d":{"[" * 58}{"]" * 58}}}'),
        call("show", {"d": {}}),
    ],
)
def test_arguments_of_a_model_are_valid_on_the_wire(answer: Answer, tmp_path: Path) -> None:
    play(played(tmp_path / "app.db", answer))


def test_metadata_at_its_depth_limit_is_valid_on_the_wire(tmp_path: Path) -> None:
    play(played(tmp_path / "app.db", metadata=nested(FREE_LEVELS_MAX - 1)))


@pytest.mark.parametrize("metadata", [{"a": HUGE}, nested(FREE_LEVELS_MAX), nested(90), {"a": float("nan")}])
def test_metadata_that_is_too_deep_or_invalid_is_refused(
    metadata: dict[str, JsonValue], tmp_path: Path
) -> None:
    with pytest.raises(Rejected, match="metadata is not valid"):
        play(played(tmp_path / "app.db", metadata=metadata))
