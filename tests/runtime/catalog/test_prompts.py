"""Prompts rebuilt from the journal equal the requests of the model."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.shifting import STORY_S_MAX

from windlass import Agent, AgentRuntime, Conflict, LLMMessage, Rejected, tool
from windlass.agent.dynamic import dynamic
from windlass.agent.hooks import hook
from windlass.catalog import StepPrompt
from windlass.catalog.reading import NOT_KEPT, QUESTIONS
from windlass.ports.host import Change, HookCall
from windlass.ports.model import LLMStreamChunk
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.tools.question import ask_question
from windlass_protocol import JsonObject

Asked = tuple[list[LLMMessage], list[JsonObject], float | None]


@tool(mode="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"rain in {place}"


@tool(mode="read")
async def extra(place: str) -> str:
    """Look again."""
    return f"sun in {place}"


@hook("before_model_call", right="mutate", timeout_ms=30_000)
def reminds(call: HookCall) -> Change:
    return Change(context=["Be brief."])


class Listening(ScriptedModel):
    """A scripted model that keeps all that it gets."""

    def __init__(self, script: Any, **more: Any) -> None:
        super().__init__(script, **more)
        self.asked: list[Asked] = []

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        known = list(tools or ())
        self.asked.append((list(messages), known, temperature))
        return super().stream(messages, tools=known, temperature=temperature)


def request_of(found: StepPrompt) -> Asked:
    """A prompt as the model got it."""
    system = [LLMMessage("system", found.system)] if found.system else []
    return [*system, *found.messages], list(found.tools), found.temperature


ANSWERS = [call("look", {"place": "Oslo"}), call("look", {"place": "Rome"}), say('"done"')]


def script(messages: Sequence[LLMMessage]) -> Answer:
    """Look twice, and then be done, in each run."""
    begun = max(at for at, one in enumerate(messages) if one.content.startswith("Go"))
    return ANSWERS[sum(one.role == "assistant" for one in messages[begun:])]


AGENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with words": {"instructions": "Look around.", "temperature": 0.5},
    "with an output": {"instructions": "Look.", "output": str},
    "with hooks": {"hooks": [reminds]},
    "with questions": {"tools": [look, ask_question]},
    "with a subagent": {"subagents": [Agent("below", model="demo/guide", description="Does things.")]},
    "with dynamic parts": {
        "instructions": dynamic(lambda one: f"Now {one.step_index}.", at="step", name="words"),
        "tools": [look, dynamic(lambda _: [extra], at="session", name="more")],
    },
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_rebuilt_prompt_equals_the_request_of_the_model(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        model = Listening(script)
        given: dict[str, Any] = {"tools": [look], **AGENTS[name]}
        agent = Agent("a", model=model, **given)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], durability="process") as runtime:
            for number in range(2):
                handle = await runtime.start_run(agent, f"Go {number}.", session_id="s", run_id=f"r{number}")
                assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            at = 0
            for number in range(2):
                step = 0
                while (found := await runtime.sessions.prompt(f"r{number}", step)) is not None:
                    assert request_of(found) == model.asked[at]
                    assert (QUESTIONS in found.unknown) == (name == "with questions")
                    at, step = at + 1, step + 1
            assert at == len(model.asked) >= 4

    asyncio.run(main())


def test_an_unknown_prompt_is_none_and_a_lost_package_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent("a", model=Listening(script), tools=[look], instructions="Look.")
        path = tmp_path / "a.db"
        async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
            await (await runtime.start_run(agent, "Go.", session_id="s", run_id="r")).wait()
            assert await runtime.sessions.prompt("r", 7) is None
            with pytest.raises(Conflict):
                await runtime.sessions.prompt("ghost", 0)
            with pytest.raises(Rejected, match="step_index"):
                await runtime.sessions.prompt("r", -1)
            lines = [line async for line in runtime.sessions.export("s")]
        kept = [line for line in lines if '"isOwn":false' not in line]
        assert len(kept) < len(lines)
        found = await _without_package(lines, tmp_path / "b.db")
        assert found is not None
        assert NOT_KEPT in found.unknown
        assert [one.content for one in found.messages] == ["Go."]
        assert (found.system, found.tools, found.route_id) == ("", (), None)

    asyncio.run(main())


async def _without_package(lines: list[str], path: Path) -> StepPrompt | None:
    """The first prompt of a session imported without its package."""

    kept = [line for line in lines[:-1] if '"isOwn":false' not in line]
    total = sha256("".join(f"{line}\n" for line in kept).encode()).hexdigest()
    end = json.dumps({"kind": "end", "lines": len(kept), "sha256": total}, separators=(",", ":"))
    async with AgentRuntime.open(path, agents=[], durability="process") as runtime:
        await runtime.sessions.import_([*kept, end])
        return await runtime.sessions.prompt("r", 0)
