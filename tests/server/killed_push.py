"""A server that is killed when a push notification is about to be sent; started by `test_a2a_push`.

python -m tests.server.killed_push FOLDER URL
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Never

from tests.server.rig import eventually, serving, talker
from tests.server.test_a2a import connected, states
from tests.server.test_a2a_push import pushed

from windlass.webhooks import Outbox


async def main(folder: str, url: str) -> Never:
    """Run a task to its end, and be killed before anything is read from the journal."""
    is_over = False

    async def dying(_: Outbox) -> bool:
        await eventually(lambda: is_over)
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    setattr(Outbox, "_gather", dying)  # noqa: B010 - it is private
    async with serving(Path(folder), [talker()]) as server, connected(server, "talker") as client:
        went, _ = await states(client, pushed("Hi.", "m1", url))
        assert went[-1] == "COMPLETED"
        is_over = True
        await asyncio.Event().wait()
    raise AssertionError("it goes on until it is killed")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
