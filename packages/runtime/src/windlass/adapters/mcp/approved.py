"""The tools that a person approved, as their servers described them then."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from pydantic_core import to_json

from windlass.adapters.mcp.definition import Definition
from windlass.adapters.mcp.limits import APPROVED_BYTES_MAX
from windlass.definitions import wrong
from windlass_protocol import CodecError, CodecLimits, JsonObject, parse

_VERSION: Final = 1
_LIMITS: Final = CodecLimits(message_bytes_max=APPROVED_BYTES_MAX, depth_max=128)

Known = dict[str, dict[str, Definition]]
"""Definitions by the server and by what it calls them."""


def read_approved(path: Path) -> Known:
    """Return what a file holds; nothing if there is no file.

    Raises:
        Rejected: it cannot be read as one.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise wrong(f"{path} cannot be read: {error.strerror}") from None
    try:
        body = parse(content, _LIMITS)
        assert isinstance(body, dict)
        assert body["version"] == _VERSION
        servers = cast(Mapping[str, Mapping[str, JsonObject]], body["servers"])
        return {
            server: {tool: Definition(server, {**said, "name": tool}) for tool, said in tools.items()}
            for server, tools in servers.items()
        }
    except (CodecError, AssertionError, KeyError, AttributeError, TypeError):
        pass
    raise wrong(f"{path} is not a file of approved MCP tools; move it away to approve all tools anew")


def write_approved(path: Path, known: Known) -> None:
    """Put a file in place of the one that is there, whole or not at all."""
    body = {
        "version": _VERSION,
        "servers": {
            server: {tool: definition.body for tool, definition in sorted(tools.items())}
            for server, tools in sorted(known.items())
        },
    }
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(to_json(body, indent=2))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
