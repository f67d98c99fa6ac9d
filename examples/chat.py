"""A chat that outlives its process.

Say "mail Ada", end the process at the question (Ctrl-D, or kill it), start it again in the same folder: it
shows the chat so far and asks the same question.
"""

import asyncio
from contextlib import suppress

from windlass import Agent, AgentRuntime, Approval, Conflict, Interrupted, Question, tool


@tool(mode="external")
async def mail(text: str) -> str:
    """Send a mail; this leaves the house, so a person is asked first."""
    return "sent"


# "demo/…" plays a model by rules, offline. A real one: model="openai/gpt-5" and OPENAI_API_KEY.
agent = Agent("helper", model="demo/chat", tools=[mail], instructions="You write mails.")


async def ask(question: str) -> str:
    return await asyncio.to_thread(input, question)


async def turn(runtime: AgentRuntime, number: int) -> None:
    """Show one turn of the chat: one that is stored, that goes on, or a new one."""
    handle = runtime.handle(f"turn-{number}")
    try:
        await handle.status()
    except Conflict:  # it has not started yet
        await runtime.start_run(agent, await ask("> "), session_id="chat", run_id=handle.run_id)
    async for event in handle.events():
        if event.type == "message.received":
            print("you:", event.data["message"])
            break
    async for request in handle.requests():  # none if they were answered long ago
        answer = await ask(f"{request.prompt} [y/n] ")
        match request:
            case Approval():
                await (request.approve() if answer == "y" else request.deny())
            case Interrupted():
                await (request.retry() if answer == "y" else request.skip())
            case Question():
                await request.reply(answer)
    print("agent:", (await handle.wait()).output)


async def main() -> None:
    async with AgentRuntime.open("chat.db", agents=[agent]) as runtime:
        for number in range(1, 1000):
            await turn(runtime, number)


with suppress(EOFError):
    asyncio.run(main())
print("\nSee you.")
