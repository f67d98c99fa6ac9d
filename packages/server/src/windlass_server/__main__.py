"""`python -m windlass_server`: serve agents over HTTP."""

import sys

from windlass_server.app import main

if __name__ == "__main__":
    sys.exit(main())
