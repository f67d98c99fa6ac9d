"""The `windlass` command."""

import windlass
from windlass_protocol.origin import check_origin

__version__ = "0.1.0"

check_origin(windlass, __version__)
