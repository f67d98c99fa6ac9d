"""A model runs commands in a sandbox: they see one folder, and neither secrets nor the network.

Needs the program bwrap (Debian: apt install bubblewrap); without it, the run is refused with words.
"""

import asyncio
from pathlib import Path

from windlass import Agent, AgentRuntime, PolicySet, Rejected, Rule
from windlass.agent.sandbox import Bubblewrap
from windlass.testing import ScriptedModel, call, say
from windlass.toolbox import Workspace

ATTEMPTS = {
    "work in the folder": "echo 'print(6 * 7)' > a.py && ls",
    "read a secret": f"cat {Path('secret.txt').absolute()}",
    "see the processes of the machine": "ls /proc | grep -c '^[0-9]'",
    "reach the metadata service": ": < /dev/tcp/169.254.169.254/80",
    "leave a process behind": "setsid sleep 1000 & echo left",
    "start too many processes": "for i in $(seq 99); do sleep 9 & done 2>&1 | grep -m1 -o 'Resource .*'",
}


Path("secret.txt").write_text("the secret")


async def main() -> None:
    model = ScriptedModel([*(call("bash", {"command": one}) for one in ATTEMPTS.values()), say("Done.")])
    agent = Agent(
        "worker",
        model=model,
        tools=Workspace().tools("bash"),
        policy=PolicySet((Rule("sandboxed", "allow", tools=("bash",), max_shell="dangerous"),)),
        sandbox=Bubblewrap(processes=64, network=["api.example.com"]),
    )
    async with AgentRuntime.in_memory([agent]) as runtime:
        try:
            handle = await runtime.start_run(agent, "Try what you can.")
        except Rejected as refused:
            print(refused.message)
            return
        await handle.wait()
    for name, request in zip(ATTEMPTS, model.requests[1:], strict=True):
        print(f"{name}: {request.messages[-1].content}")


asyncio.run(main())
