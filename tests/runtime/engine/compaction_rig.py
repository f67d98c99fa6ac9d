"""A long walk: an agent of many steps, and a model that checks every prompt."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from windlass import Agent, ToolContext, tool
from windlass.ports.model import LLMMessage, LLMUsage
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.tools import Tool
from windlass_harness.compaction import estimate_tokens
from windlass_protocol import CompactionConfig

TASK: Final = 'Walk all the way and note "every" stone; ünder no circumstances stop.'
RESULT_CHARS: Final = 2_000
SUMMARY_HEAD: Final = "You write a checkpoint"


def is_summary(messages: Sequence[LLMMessage]) -> bool:
    """Whether a model is asked for a summary."""
    return messages[0].content.startswith(SUMMARY_HEAD)


def walked(messages: Sequence[LLMMessage]) -> int:
    """The progress of the walk, read from the messages."""
    found = [int(one) for message in messages for one in re.findall(r"stone (\d+)", message.content)]
    return max(found, default=0)


UNKNOWN: Final = LLMUsage()
"""Without counts of the provider, the runtime estimates the prompt."""


class Guide:
    """Writes the answers of a walk of a number of steps from the prompt alone."""

    def __init__(self, steps: int, threshold: int, task: str = TASK) -> None:
        self.steps = steps
        self.threshold = threshold
        self.task = task
        self.problems: list[str] = []
        self.summaries = 0
        self.longest = 0

    def __call__(self, messages: Sequence[LLMMessage]) -> Answer:
        done = walked(messages)
        if is_summary(messages):
            self.summaries += 1
            return say(f"Walked so far, up to stone {done}.", usage=UNKNOWN)
        self._check(messages)
        if done >= self.steps:
            return say(f"Arrived at stone {done}.", usage=UNKNOWN)
        return replace(call("walk", {"to": done + 1}, call_id=f"c-{done + 1}"), usage=UNKNOWN)

    def _check(self, messages: Sequence[LLMMessage]) -> None:
        size = sum(prompt_size(message) for message in messages)
        self.longest = max(self.longest, size)
        if size > self.threshold:
            self.problems.append(f"a prompt of {size} tokens")
        if not any(message.role == "user" and message.content == self.task for message in messages):
            self.problems.append("a prompt without the task")
        for at, message in enumerate(messages):
            if message.role == "tool":
                before = messages[at - 1]
                if message.tool_call_id not in {one.id for one in before.tool_calls}:
                    self.problems.append("a result without its call")


def prompt_size(message: LLMMessage) -> int:
    """The token estimate of a message, as the runtime counts it."""
    return estimate_tokens([message.content, [one.arguments for one in message.tool_calls]])


def walk_tool() -> Tool[..., object]:
    @tool(mode="read")
    async def walk(to: int, ctx: ToolContext) -> str:
        """Walk to the next stone."""
        return f"stone {to}. " + "~" * (RESULT_CHARS - 10)

    return walk


def walker(guide: Guide, *, recent: int = 10) -> Agent:
    """An agent that walks."""
    config = CompactionConfig(threshold=guide.threshold, recent_window_size=recent)
    return Agent("walker", model=ScriptedModel(guide), tools=[walk_tool()], compaction=config)
