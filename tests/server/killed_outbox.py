"""A process that notifies an endpoint and kills itself on the way; started by `test_notifications`.

python -m tests.server.killed_outbox STORE URL POINT
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Never

from tests.server.test_notifications import endpoint, notifying

from windlass.webhooks import Outbox


async def main(store: str, url: str, point: str) -> Never:
    """Run once, and be killed when the receiver has answered, or before the bookmark is moved."""
    whole: Any = getattr(Outbox, point)

    async def dying(*given: Any, **options: Any) -> Any:
        if point == "_send":
            assert (await whole(*given)).problem is None
        elif options:
            return await whole(*given, **options)
        return os.kill(os.getpid(), signal.SIGKILL)

    setattr(Outbox, point, dying)
    async with notifying(store if "://" in store else Path(store), [endpoint(url)]) as scene:
        await (await scene.runtime.start_run("talker", "Hi.", run_id="r1")).wait()
        await asyncio.Event().wait()
    raise AssertionError("it goes on until it is killed")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
