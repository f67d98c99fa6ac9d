"""Standard input and output, kept for the protocol alone."""

import os
import sys
from typing import cast

import acp

from windlass import Agent, AgentRuntime
from windlass_cli.acp.agent import EditorAgent
from windlass_cli.acp.lines import Lines


async def serve(runtime: AgentRuntime, agent: Agent, *, user: str) -> None:
    """Talk to an editor until it goes away; what tools print goes to the error output."""
    kept = sys.stdout
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        reader, writer = await acp.stdio_streams()
    finally:
        sys.stdout = kept
    # What it does not offer it has no methods for; the library answers for them.
    mine = EditorAgent(runtime, agent, user=user)
    try:
        # The library counts going on with a session among what may change; the protocol does not any more.
        lines = Lines(reader, writer)
        await acp.run_agent(cast(acp.Agent, mine), lines, use_unstable_protocol=True)
    finally:
        await mine.aclose()
