"""A process whose runs have their model calls in batches: it fans out, and prints what came of it.

Its clock is that of the machine, so the pauses of batches are short.
"""

import asyncio
import json
import sys
from typing import Final

import anthropic
import openai

from windlass import Agent, AgentRuntime
from windlass.engine.spending import batches
from windlass.models import AnthropicProvider, OpenAICompatProvider
from windlass.ports.model import LLMProvider

LEASE_MS: Final = 1_500
SDKS: Final = (anthropic, openai)
"""Imported before the clock runs: it takes longer than a lease of this test."""
PRICES: Final = {"gpt-4o": "openai", "claude-sonnet-4-5": "anthropic"}


def hurry() -> None:
    """Make the pauses of batches short."""
    batches.GATHER_S = 0.3
    batches.POLL_MS, batches.LEASE_MS, batches.REMIND_MS = 100, LEASE_MS, 100


def model_of(api: str, url: str) -> LLMProvider:
    """Return a model with batches."""
    if api == "anthropic":
        return AnthropicProvider("claude-sonnet-4-5", base_url=url, api_key="key")
    return OpenAICompatProvider("gpt-4o", base_url=f"{url}/v1", api_key="key")


async def main(api: str, url: str, store: str, count: int) -> None:
    agent = Agent("judge", model=model_of(api, url), batch="within 24h", prices=PRICES)
    async with AgentRuntime.open(store, agents=[agent]) as runtime:
        tasks = {f"task{at}": (agent, f"Say word{at}") for at in range(count)}
        results = await runtime.fan_out(tasks, job_id="job")
        ends = {
            name: [result.status.value, result.output, result.usage.cost_micros]
            for name, result in results.items()
            if result.usage is not None
        }
        sys.stdout.write(json.dumps(ends))


if __name__ == "__main__":
    hurry()
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
