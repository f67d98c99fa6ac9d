"""Who answers for the provider, address and key that a host names."""

from collections.abc import Awaitable, Callable
from typing import Final, cast

from windlass.adapters.models import (
    AnthropicProvider,
    DemoModel,
    ModelSettings,
    OpenAICompatProvider,
    providers_from_environment,
)
from windlass.ports.model import LLMProvider
from windlass_sidecar.errors import invalid_params

NAMES: Final = ("openai", "anthropic", "ollama", "openai-compat", "demo")
OLLAMA: Final = "http://localhost:11434/v1"
_NO_KEY: Final = "none"


class _Nothing:
    """An environment without variables."""

    def get(self, name: str, /) -> str | None:
        """Return nothing."""
        return None


def provider_of(
    name: str, model: str, *, base_url: str | None, api_key: str | None, max_tokens: int | None
) -> LLMProvider:
    """Return who answers.

    What is not given is taken from the environment, as `OPENAI_API_KEY`; but never the key for an address
    that the host names, which may be anybody's.

    Raises:
        RpcError: nobody is known by that name, and there is no address either.
        Unavailable: the key is missing.
    """
    if name == "demo":
        return DemoModel(model)
    settings = ModelSettings(max_tokens=max_tokens)
    if name == "anthropic":
        if base_url is None:
            return AnthropicProvider(model, api_key=api_key, settings=settings)
        return AnthropicProvider(
            model, api_key=api_key, base_url=base_url, settings=settings, environment=_Nothing()
        )
    if name == "openai" and base_url is None:
        return OpenAICompatProvider(model, api_key=api_key, settings=settings)
    if base_url is None:
        return _known(name, model, api_key=api_key, settings=settings)
    return OpenAICompatProvider(
        model,
        api_key=api_key or _NO_KEY,
        base_url=base_url,
        settings=settings,
        environment=_Nothing(),
        route_id=name,
    )


def _known(name: str, model: str, *, api_key: str | None, settings: ModelSettings) -> LLMProvider:
    if api_key is None and settings.max_tokens is None:
        found = providers_from_environment().provider(name, model)
        if found is not None:
            return found
    if name == "ollama":
        return OpenAICompatProvider(
            model,
            api_key=api_key or _NO_KEY,
            base_url=OLLAMA,
            settings=settings,
            environment=_Nothing(),
            route_id=name,
        )
    raise invalid_params(
        f"provider: expected one of {', '.join(NAMES)}, or a baseUrl that speaks OpenAI's Chat Completions"
    )


async def close(provider: LLMProvider) -> None:
    """Let go of the connections of a provider, if it has any."""
    end = cast("Callable[[], Awaitable[None]] | None", getattr(provider, "aclose", None))
    if end is not None:
        await end()
