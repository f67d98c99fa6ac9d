"""A letter goes in, an object of your own type comes out: never a guess."""

import asyncio
from datetime import date

from pydantic import BaseModel, Field

from windlass import Agent, AgentRuntime
from windlass.testing import ScriptedModel, say

LETTER = """Dear guest, for your two nights we ask for 99 euros, to be paid by the end of February.
Yours, the Fjord Inn"""


class Invoice(BaseModel):
    sender: str
    cents: int = Field(ge=0)
    due: date


# A script in place of a model: its first answer does not fit, so it gets the reason and is asked again.
# A real one: model="openai/gpt-5" and OPENAI_API_KEY.
model = ScriptedModel(
    [
        say('{"sender": "Fjord Inn", "cents": "99 euros"}'),
        say('{"sender": "Fjord Inn", "cents": 9900, "due": "2026-02-28"}'),
    ]
)
agent = Agent("reader", model=model, instructions="You read invoices.")


async def main() -> None:
    async with AgentRuntime.in_memory([agent]) as runtime:
        done = await runtime.run_typed(agent, LETTER, Invoice)
    print("the model was told:", model.requests[-1].messages[-1].content)
    print(repr(done.value))


asyncio.run(main())
