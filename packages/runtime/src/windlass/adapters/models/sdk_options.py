"""Options that the SDK clients share."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from httpx2 import AsyncClient, Timeout

from windlass.adapters.models.transport import Address, ModelSettings


class SdkOptions(TypedDict):
    """What an SDK's client is made with."""

    api_key: str
    base_url: str
    timeout: Timeout
    http_client: AsyncClient
    max_retries: int
    default_headers: Mapping[str, str] | None


def sdk_options(
    address: Address, settings: ModelSettings, *, make_http: Callable[..., AsyncClient]
) -> SdkOptions:
    """Return what a client is made with; it has connections of its own."""
    timeout = Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s)
    return SdkOptions(
        api_key=address.api_key,
        base_url=address.base_url,
        timeout=timeout,
        # The one that the SDK makes by itself would close itself in whatever event loop runs by then.
        http_client=make_http(timeout=timeout),
        # Attempts are journaled, so nobody but the loop makes one.
        max_retries=0,
        default_headers=settings.headers,
    )
