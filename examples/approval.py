"""An agent looks things up by itself, and asks a person before it pays."""

import asyncio

from windlass import Agent, AgentRuntime, Approval, Interrupted, Question, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say


@tool(mode="read")
async def find_bill(hotel: str) -> int:
    """Say how many cents a hotel wants."""
    return 9900


@tool(mode="external", effect="idempotent")
async def pay(cents: int, ctx: ToolContext) -> str:
    """Pay; the key is the same in every attempt, also after a crash."""
    return f"paid, receipt {ctx.idempotency_key}"


# A script in place of a model: the answer follows from the history, also in a new process after a crash.
# A real model: model="anthropic/claude-sonnet-4-5" and ANTHROPIC_API_KEY.
script = [
    call("find_bill", {"hotel": "Fjord Inn"}),
    call("pay", {"cents": 9900}),
    say("The Fjord Inn has its money."),
]
model = ScriptedModel(by_history(script))
agent = Agent("clerk", model=model, tools=[find_bill, pay], instructions="You pay bills.")


async def main() -> None:
    async with AgentRuntime.open("app.db", agents=[agent]) as runtime:
        run = await runtime.start_run(agent, "Pay the hotel.", session_id="trip", run_id="bill-1")
        async for request in run.requests():  # open ones only, until the run ends
            print(request.prompt)
            match request:
                case Approval():
                    await request.approve(by="ann")  # or deny("too much")
                case Question():
                    await request.reply("the blue one")
                case Interrupted():  # a crash in the middle of a call that must not run twice
                    await request.retry()  # or skip(), or supply("the result")
        result = await run.wait()
        print(result.status, "-", result.output)


asyncio.run(main())
