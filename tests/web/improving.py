"""A server for the tests of the inspector: its agent can be improved."""

import argparse
import sys
from pathlib import Path

from tests.ledger.rig import BETTER, GOAL, clerk
from tests.server.test_proposals import thinker

from windlass_server import ImproveSettings, Settings
from windlass_server.app import serve
from windlass_server.tenants import Tenants


def main() -> int:
    """Serve the clerk as it is, or as it would be better."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--better", action="store_true")
    options = parser.parse_args()
    settings = Settings(port=options.port, improve=ImproveSettings(thinker(), [GOAL]))
    agent = clerk(instructions=BETTER) if options.better else clerk()
    return serve(settings, Tenants(options.data, [agent]))


if __name__ == "__main__":
    sys.exit(main())
