"""A process that freezes in a transaction, after its statements and before its commit: it holds its locks.

python -m tests.faults.frozen_writer ADDRESS
"""

import asyncio
import signal
import sys
import threading

from tests.contracts.stores import claim, write

from windlass.postgres.link import PostgresLink
from windlass.postgres.store import PostgresStore


async def main(address: str) -> None:
    store = await PostgresStore.open(address)
    mine = await claim(store)
    check = PostgresLink.check

    def freeze(self: PostgresLink) -> None:
        check(self)
        PostgresLink.check = check
        # This thread takes the signal, so it does not go on to the commit.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    PostgresLink.check = freeze
    await write(store, mine, 1)
    sys.stdout.write("written\n")
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
