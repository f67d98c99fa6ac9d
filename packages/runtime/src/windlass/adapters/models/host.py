"""What a provider needs of its host before it can be asked anything."""

from importlib.util import find_spec

from windlass.errors import Unavailable
from windlass_protocol import ErrorKind, RetryClass


def need_extra(extra: str, route_id: str) -> None:
    """Check that an SDK is installed, without importing it.

    Raises:
        Unavailable: it is not.
    """
    if find_spec(extra) is None:
        raise not_set_up(route_id, f"run pip install 'windlass[{extra}]'")


def need_key(key: str | None, variable: str, *, route_id: str, maker: str) -> str:
    """Return a key; `maker` is the class that takes one.

    Raises:
        Unavailable: there is none.
    """
    plain = (key or "").strip()
    if not plain:
        by_hand = f"{maker}(…, api_key=…) of windlass.adapters.models"
        raise not_set_up(route_id, f"set the variable {variable}, or give the agent model={by_hand}")
    return plain


def not_set_up(route_id: str, remedy: str) -> Unavailable:
    """Return the error of a route whose provider cannot be made on this host."""
    return Unavailable(
        f"missing provider adapter for package route {route_id}: {remedy}",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )
