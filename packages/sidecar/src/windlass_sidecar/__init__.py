"""Windlass for programs in any language: JSON-RPC 2.0 on stdin and stdout."""

from typing import Final

import windlass
from windlass_protocol.origin import check_origin

__all__ = ["PROTOCOL_VERSION"]

__version__ = "0.1.0"

PROTOCOL_VERSION: Final = "1.0"
"""Of the methods and notifications; a client that knows the first number knows all it needs."""

check_origin(windlass, __version__)
