"""Two servers' worth of agents: a captain here asks a pilot who works elsewhere."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from windlass import Agent, AgentRuntime
from windlass.client import RemoteAgent
from windlass.testing import ScriptedModel, by_history, call, say

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    PORT = probe.getsockname()[1]

pilot = RemoteAgent(
    "pilot",
    url=f"http://127.0.0.1:{PORT}",  # of another machine: https://…, key_env="PILOT_KEY"
    description="Knows the weather, and pays the harbour.",
)
# A script in place of a model. A real one: model="anthropic/claude-sonnet-4-5" and ANTHROPIC_API_KEY.
captain = Agent(
    "captain",
    model=ScriptedModel(
        by_history([call("pilot", {"message": "Use weather, then pay."}), say("We sail, paid and warned.")])
    ),
    subagents=[pilot],
)


async def main() -> None:
    async with AgentRuntime.in_memory([captain]) as runtime:
        handle = await runtime.start(captain, "Can we sail?")
        async for event in handle.events():
            if event.type == "subagent.called":
                print("captain asks", event.data["name"])
            if event.type == "input.requested":  # the pilot asks there, and is answered here
                for request in await handle.open_requests():
                    print(request.prompt.splitlines()[0])
                    await handle.answer(request.request_id, "approve")
            if event.type == "subagent.completed":
                print("pilot paid:", "paid 1 cents" in str(event.data["output"]))
        print("captain:", (await handle.wait()).output)


# The other side: the demo agent on a server of its own. Work waits until it is up.
with TemporaryDirectory() as folder:
    data = str(Path(folder) / "data")
    command = [sys.executable, "-m", "windlass_server", "--port", str(PORT), "--data", data]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            asyncio.run(main())
        finally:
            server.kill()
