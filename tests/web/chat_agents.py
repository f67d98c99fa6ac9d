"""Agents for the tests with chat clients of others, served by a real server."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from windlass import Agent, tool
from windlass.models.demo import DemoModel
from windlass.parts import SystemClock
from windlass.ports.model import LLMMessage, LLMUsage
from windlass.testing import Answer, ScriptedModel, call, fail, say
from windlass.tools.question import ask_question
from windlass_protocol import JsonValue

PACE_S: Final = 0.03
CHUNK_CHARS: Final = 4
USAGE: Final = LLMUsage(input_tokens=20, output_tokens=5, cost_micros=70)


@tool(mode="read")
async def look(place: str) -> dict[str, str]:
    """Look at a place."""
    return {"place": place, "sky": "grey"}


@tool(mode="external", effect="idempotent")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def _done(messages: Sequence[LLMMessage]) -> int:
    """The number of results since the last user message."""
    said = max(at for at, message in enumerate(messages) if message.role == "user")
    return sum(message.role == "tool" for message in messages[said:])


def _clerk(messages: Sequence[LLMMessage]) -> Answer:
    script = [
        say("Let me look.", reasoning="What is the sky like?", usage=USAGE) + call("look", {"place": "Oslo"}),
        call("pay", {"cents": 5}),
        say("All done.", usage=USAGE),
    ]
    return script[min(_done(messages), 2)]


def _twice(messages: Sequence[LLMMessage]) -> Answer:
    if _done(messages):
        return say("Both are settled.")
    return call("pay", {"cents": 1}) + call("pay", {"cents": 2})


def _curious(messages: Sequence[LLMMessage]) -> Answer:
    answers = [message.content for message in messages if message.role == "tool"]
    if _done(messages):
        return say(f"You said: {answers[-1]}")
    options: JsonValue = [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}]
    return call("ask_question", {"prompt": "Which colour?", "options": options, "allow_freeform": True})


def _chief(messages: Sequence[LLMMessage]) -> Answer:
    return say("The clerk is done.") if _done(messages) else call("clerk", {"message": "Pay."})


def _coder(messages: Sequence[LLMMessage]) -> Answer:
    return say("The program is done.") if _done(messages) else call("run_code", {"code": _PROGRAM})


_PROGRAM: Final = """
import asyncio
await asyncio.gather(look("Oslo"), pay(7))
"""
_counted: list[int] = []


def _talker(messages: Sequence[LLMMessage]) -> Answer:
    _counted.append(1)
    # With a pause before each chunk: chunks that arrive at once are shown as one delta.
    return replace(say(f"Hello, number {len(_counted)}.", usage=USAGE), delay_s=0.02)


_tried: set[str] = set()


def _shaky(messages: Sequence[LLMMessage]) -> Answer:
    """Break off at the first try of a prompt, and answer at the second."""
    prompt = str(messages)
    if prompt in _tried:
        _tried.discard(prompt)
        return say("The whole answer.")
    _tried.add(prompt)
    return fail(ConnectionError(), after="Half an answer")


clerk = Agent("clerk", model=ScriptedModel(_clerk, chunk_chars=CHUNK_CHARS), tools=[look, pay])
agents = [
    clerk,
    Agent("talker", model=ScriptedModel(_talker, chunk_chars=CHUNK_CHARS, clock=SystemClock())),
    Agent("slow", model=DemoModel(pace_s=PACE_S), tools=[look]),
    Agent("twice", model=ScriptedModel(_twice), tools=[pay]),
    Agent("curious", model=ScriptedModel(_curious), tools=[ask_question]),
    Agent("shaky", model=ScriptedModel(_shaky, chunk_chars=CHUNK_CHARS)),
    Agent("broken", model=ScriptedModel(lambda _: fail(ValueError("no"), after="I think"))),
    Agent("coder", model=ScriptedModel(_coder), tools=[look, pay], code_mode=True),
    Agent("chief", model=ScriptedModel(_chief), subagents=[clerk]),
]
