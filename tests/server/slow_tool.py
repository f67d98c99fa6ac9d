"""A server with a tool that waits in the middle of its call; started by `test_bad_disk`.

python -m tests.server.slow_tool --data FOLDER --port 0 --effects FOLDER --durability power
"""

import argparse
from pathlib import Path

from tests.server.rig import FAST, eventually

from windlass import Agent, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_server import Settings, Tenants
from windlass_server.app import serve


def main() -> int:
    """Serve; the tool writes each of its calls to the file `calls`, and ends when the file `go` exists."""
    parser = argparse.ArgumentParser()
    for name in ("--data", "--port", "--effects", "--durability"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    effects = Path(given.effects)

    @tool(mode="safe_write")
    async def work(ctx: ToolContext) -> str:
        """Work; a second time does harm."""
        with (effects / "calls").open("ab", buffering=0) as file:
            file.write(b"c\n")
        await eventually((effects / "go").exists)
        return "worked"

    agent = Agent("worker", model=ScriptedModel(by_history([call("work"), say("all done")])), tools=[work])
    tenants = Tenants(Path(given.data), [agent], durability=given.durability)
    return serve(Settings(port=int(given.port), limits=FAST), tenants)


if __name__ == "__main__":
    raise SystemExit(main())
