"""Engines of wakes by their addresses: `temporal://host:port/namespace`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from windlass.errors import Rejected, install_hint
from windlass_protocol import ErrorKind, RetryClass

if TYPE_CHECKING:
    from windlass.temporal.wakes import TemporalWakes

_FORM: Final = "temporal://host:port/namespace"
_PORT: Final = 7233


def wakes_at(address: str, store_id: str | None, *, tenant: str | None = None) -> "TemporalWakes":
    """Return the wakes of an engine at an address, for the sessions of one store.

    Raises:
        Rejected: the address cannot be used, its adapter is not installed, or the store is not in PostgreSQL.
    """
    try:
        parts = urlsplit(address)
        port = parts.port or _PORT
    except ValueError:
        raise misconfiguration(f"wakes must be {_FORM}; the port of this address is no number") from None
    namespace = parts.path.strip("/") or "default"
    is_plain = not (parts.query or parts.fragment or parts.username) and "/" not in namespace
    if parts.scheme != "temporal" or not parts.hostname or not is_plain:
        raise misconfiguration(f"wakes must be {_FORM}; found an address of another form")
    if store_id is None:
        raise misconfiguration(
            "wakes need a store in PostgreSQL: leave out wakes, or name a store postgresql://user@host/database"
        )
    if find_spec("temporalio") is None:
        raise misconfiguration(f"wakes by Temporal need temporalio: {install_hint('temporal')}")
    from windlass.temporal.wakes import TemporalWakes  # noqa: PLC0415 - an extra

    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return TemporalWakes(f"{host}:{port}", namespace, store_id=store_id, tenant=tenant)


def misconfiguration(message: str) -> Rejected:
    """Return the error of a wrong configuration."""
    return Rejected(
        message, kind=ErrorKind.HOST_CONFIGURATION_NEEDED, retry=RetryClass.HOST_CONFIGURATION_NEEDED
    )
