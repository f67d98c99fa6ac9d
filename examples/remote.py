"""Two servers' worth of agents: a captain here asks a pilot who works elsewhere.

Needs the extra client and the server: pip install "windlass-runtime[client]" windlass-server.
"""

import asyncio
import socket
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from windlass import Agent, AgentRuntime
from windlass.testing import ScriptedModel, by_history, call, say

if find_spec("httpx2") is None or find_spec("windlass_server") is None:
    sys.exit('This example needs: pip install "windlass-runtime[client]" windlass-server')

from windlass.client import RemoteAgent

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    PORT = probe.getsockname()[1]

pilot = RemoteAgent(
    "pilot",
    url=f"http://127.0.0.1:{PORT}",  # of another machine: https://…, key_env="PILOT_KEY"
    description="Knows the weather, and pays the harbour.",
)
# A script in place of a model. A real one: model="anthropic/claude-sonnet-4-5" and ANTHROPIC_API_KEY.
script = [call("pilot", {"message": "Use weather, then pay."}), say("We sail, paid and warned.")]
captain = Agent("captain", model=ScriptedModel(by_history(script)), subagents=[pilot])


async def sail() -> None:
    async with AgentRuntime.in_memory([captain]) as runtime:
        handle = await runtime.start_run(captain, "Can we sail?")
        async for request in handle.requests():  # the pilot asks there, and is answered here
            print(request.prompt.splitlines()[0])
            await handle.answer(request.request_id, "approve")
        print("captain:", (await handle.wait()).output)


async def main(folder: str) -> None:
    # The other side: the demo agent on a server of its own. Work waits until it is up.
    options = ["--port", str(PORT), "--data", folder]
    server = await asyncio.create_subprocess_exec(sys.executable, "-m", "windlass_server", *options)
    work, ended = asyncio.ensure_future(sail()), asyncio.ensure_future(server.wait())
    await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        work.cancel()
        sys.exit(f"The server of the pilot ended with code {ended.result()}; see above.")
    server.kill()
    await ended
    await work


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
