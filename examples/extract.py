"""A letter goes in, an object of your own type comes out: never a guess."""

import asyncio
from datetime import date

from pydantic import BaseModel, Field

from windlass import Agent
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
agent = Agent("reader", model=model, instructions="You read invoices.", output=Invoice)


async def main() -> None:
    result = await agent.run(LETTER)
    print("the model was told:", model.requests[-1].messages[-1].content)
    print(result.output.cents, "cents are due on", result.output.due)


asyncio.run(main())
