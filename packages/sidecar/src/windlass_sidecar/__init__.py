"""Windlass for programs in any language: JSON-RPC 2.0 on stdin and stdout."""

from typing import Final

__all__ = ["PROTOCOL_VERSION"]

__version__ = "0.1.0"

PROTOCOL_VERSION: Final = "1.0"
"""Of the methods and notifications; a client that knows the first number knows all it needs."""
