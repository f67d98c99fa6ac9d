"""A tour: one run with a tool and a consent, and what its journal tells."""

import asyncio

from windlass import Agent, AgentRuntime, tool
from windlass.models import DemoModel
from windlass.parts import Feed, MemoryStore, SystemClock, allow_start
from windlass_harness.tracing import fold_trace
from windlass_harness.views import fold_chat, fold_usage


@tool(mode="read")
async def weather(city: str) -> str:
    """Say what the weather is: a read, so it needs no approval."""
    return "rain all day"


@tool(mode="external")
async def mail(text: str) -> str:
    """Send a mail: it leaves the house, so a person is asked."""
    return "sent"


async def main() -> None:
    agent = Agent("guide", model=DemoModel(), tools=[weather, mail])
    store = MemoryStore()  # AgentRuntime.open("app.db", agents=[agent]) keeps it all in a file
    builder = AgentRuntime.builder().journal(store).content(store).event_bus(Feed(store, SystemClock()))
    async with builder.policy(allow_start).agent(agent).options(is_attended=True).build() as runtime:
        print("WHAT HAPPENS, AS IT HAPPENS", end="")
        handle = await runtime.start_run(
            agent, "Look at the weather, then mail it to Ada.", session_id="tour"
        )
        async for event in handle.events():
            if event.index is None:
                print(f"\n{event.seq:4} {event.type}", end="  ")
            else:  # a piece of an answer: shown live, and not kept
                print(event.data.get("messageDelta", ""), end="")
            for request in await handle.open_requests() if event.type == "run.waiting" else ():
                print(f"\n{request.prompt} Yes!", end="")
                await handle.answer(request.request_id, "approve", responder="you")
        journal = await store.read("tour", limit=1000)

    print("\n\nTHE SAME RECORDS AS A CHAT")
    for message in fold_chat(journal).messages:
        print(f"  {message.role}: {message.content or message.tool_calls or message.tool_result}")

    print("\nAS A TRACE")
    for span in fold_trace(journal).spans:
        print(f"  {span.name}")

    print("\nAS A BILL")
    print(f"  {fold_usage(journal).runs[handle.run_id].usage}")


asyncio.run(main())
