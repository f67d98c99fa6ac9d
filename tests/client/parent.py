"""A program that gives work to another server, as a process of its own."""

import asyncio
import sys

from windlass import Agent, AgentRuntime
from windlass.client import RemoteAgent
from windlass.testing import ScriptedModel, by_history, call, say


async def main(store: str, url: str, message: str) -> None:
    helper = RemoteAgent("helper", url=url, key_env="REMOTE_KEY", description="Works elsewhere.")
    script = [call("helper", {"message": message}), say("The helper is done.")]
    boss = Agent("boss", model=ScriptedModel(by_history(script)), subagents=[helper])
    async with AgentRuntime.open(store, agents=[boss], durability="process") as runtime:
        handle = await runtime.start_run(boss, "Go on.", session_id="s", run_id="r")
        async for event in handle.events():
            sys.stdout.write(f"{event.type} {event.data.get('on', '')}\n")
            sys.stdout.flush()
            if event.type == "run.waiting" and event.data.get("on") == "input":
                for request in await handle.open_requests():
                    if not request.is_answered:
                        await handle.answer(request.request_id, "approve")
        result = await handle.wait()
        [child] = await runtime.sessions.descendants("s")
        sys.stdout.write(f"{result.status.value}: {result.output}\n{child.status}\n")


asyncio.run(main(*sys.argv[1:]))
