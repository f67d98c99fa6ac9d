"""The agents of the fleet tests: tools, an approval, a subagent, and a model that is away for a while.

Tools write what they do to a file that all processes share, `FLEET_EFFECTS`, with one write for each line.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from windlass import Agent, LLMMessage, ToolContext, Unavailable, tool
from windlass.testing import Answer, ScriptedModel, by_history, call, fail, say
from windlass_protocol import ErrorKind, RetryClass

AWAY_MS = 31_000
"""Longer than a run stays awake for: its session is parked until then."""


def _note(what: str, key: str) -> None:
    with Path(os.environ["FLEET_EFFECTS"]).open("ab", buffering=0) as file:
        file.write(f"{what} {key} {time.time_ns() // 1_000_000}\n".encode())


@tool(mode="read", effect="idempotent")
async def look(ctx: ToolContext) -> str:
    """Look something up."""
    _note("look", ctx.idempotency_key)
    return "seen"


@tool(mode="external", effect="idempotent")
async def pay(ctx: ToolContext) -> str:
    """Pay; a person must allow it."""
    _note("pay", ctx.idempotency_key)
    return "paid"


helper = Agent("helper", model=ScriptedModel(by_history([call("look"), say("checked")])), tools=[look])
_plain = by_history([call("look"), call("pay"), call("helper", {"message": "check"}), say("done")])


def _write(messages: Sequence[LLMMessage]) -> Answer:
    """Answer by the history; a message with `later NAME` finds the model away once."""
    words = str(messages[-1].content).split()
    if "later" in words:
        mark = Path(f"{os.environ['FLEET_EFFECTS']}-{words[-1]}")
        if not mark.exists():
            mark.touch()
            return fail(
                Unavailable(
                    "away",
                    kind=ErrorKind.PROVIDER_FAILURE,
                    retry=RetryClass.RETRYABLE,
                    retry_after_ms=AWAY_MS,
                )
            )
    return _plain(messages)


agent = Agent("clerk", model=ScriptedModel(_write), tools=[look, pay], subagents=[helper])
