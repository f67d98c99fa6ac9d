"""A server that kills itself while it holds an idempotency key; started by `test_shared_keys`.

python -m tests.server.doomed --data FOLDER --port 0 --address postgresql://… --at claim
"""

import argparse
import os
import signal
from pathlib import Path
from typing import Any, cast

from tests.server.rig import FAST, payer

from windlass.telemetry import exporter
from windlass_server import Settings, Tenants
from windlass_server.app import serve
from windlass_server.reservations import Reservations


def main() -> int:
    """Serve until a key is claimed, or until the answer to the request of a key is about to be kept."""
    parser = argparse.ArgumentParser()
    for name in ("--data", "--port", "--address", "--at"):
        parser.add_argument(name, default="")
    given = parser.parse_args()
    if given.at:
        whole = getattr(Reservations, given.at)

        async def dying(*arguments: Any) -> Any:
            if given.at == "claim":
                await whole(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(Reservations, given.at, cast(Any, dying))
    # A test ends its lease of the export itself.
    exporter.LEASE_MS = 3_600_000  # pyright: ignore[reportAttributeAccessIssue] a constant for all others
    tenants = Tenants(Path(given.data), [payer()], address=given.address, is_driving=False)
    return serve(Settings(port=int(given.port), limits=FAST), tenants)


if __name__ == "__main__":
    raise SystemExit(main())
