"""Options that the SDK clients share."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from httpx2 import AsyncClient, Timeout

from windlass.adapters.models.transport import Address, ModelSettings


class SdkOptions(TypedDict):
    """Arguments of an SDK client."""

    api_key: str
    base_url: str
    timeout: Timeout
    http_client: AsyncClient
    max_retries: int
    default_headers: Mapping[str, str] | None


def sdk_options(
    address: Address, settings: ModelSettings, *, make_http: Callable[..., AsyncClient]
) -> SdkOptions:
    """Return the arguments of a client with its own connections."""
    timeout = Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s)
    return SdkOptions(
        api_key=address.api_key,
        base_url=address.base_url,
        timeout=timeout,
        # The SDK's default client closes itself in whichever event loop runs at that time.
        http_client=make_http(timeout=timeout),
        # The loop journals each attempt, so the SDK must not retry.
        max_retries=0,
        default_headers=settings.headers,
    )
