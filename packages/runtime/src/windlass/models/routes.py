"""Model routes: `openai/…`, `anthropic/…`, `google/…`, `ollama/…`, `demo/…` and others."""

from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from typing import Final, TypedDict, cast

from windlass import models
from windlass.errors import Rejected
from windlass.models.transport import PROCESS_ENVIRONMENT, Environment, ModelSettings, not_set_up
from windlass.ports.model import LLMProvider
from windlass_protocol import ErrorKind, RetryClass
from windlass_protocol.frozen import sealed

PACE_S: Final = 0.03
"""Seconds between two words of `demo/paced`: about reading speed."""
PACE_S_MAX: Final = 10.0
PACE: Final = "WINDLASS_DEMO_PACE"
"""The environment variable that overrides it, in seconds."""
OLLAMA_HOST: Final = "OLLAMA_HOST"
OLLAMA: Final = "http://localhost:11434"
COMPAT_BASE_URL: Final = "OPENAI_COMPAT_BASE_URL"
COMPAT_KEY: Final = "OPENAI_COMPAT_API_KEY"


@sealed
class ProviderOptions:
    """Options of a provider; keys and addresses that are None are read from the environment."""

    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    """The address of a server with the API of the provider."""
    settings: ModelSettings | None = None
    environment: Environment = PROCESS_ENVIRONMENT


class _Common(TypedDict):
    """Arguments that all providers of a server take."""

    api_key: str | None
    base_url: str | None
    settings: ModelSettings | None
    environment: Environment


def _common(options: ProviderOptions) -> _Common:
    return _Common(
        api_key=options.api_key,
        base_url=options.base_url,
        settings=options.settings,
        environment=options.environment,
    )


# Providers are imported through the package on first use: an application uses one or two of them.


def _openai(model: str, options: ProviderOptions) -> LLMProvider:
    return models.OpenAICompatProvider(model, **_common(options))


def _anthropic(model: str, options: ProviderOptions) -> LLMProvider:
    return models.AnthropicProvider(model, **_common(options))


def _responses(model: str, options: ProviderOptions) -> LLMProvider:
    return models.OpenAIResponsesProvider(model, **_common(options))


def _azure(model: str, options: ProviderOptions) -> LLMProvider:
    return models.AzureOpenAIProvider(model, **_common(options))


def _google(model: str, options: ProviderOptions) -> LLMProvider:
    return models.GoogleProvider(model, **_common(options))


def _bedrock(model: str, options: ProviderOptions) -> LLMProvider:
    if options.base_url is not None and options.api_key is None:
        raise not_set_up("bedrock", "give the API key of this address: AWS credentials are for AWS alone")
    return models.BedrockProvider(model, **_common(options))


def _ollama(model: str, options: ProviderOptions) -> LLMProvider:
    host = options.environment.get(OLLAMA_HOST) or OLLAMA
    address = host if "://" in host else f"http://{host}"
    # Must not get the key of another provider.
    return models.OpenAICompatProvider(
        model,
        api_key=options.api_key,
        base_url=options.base_url or f"{address.rstrip('/')}/v1",
        settings=options.settings,
        environment=options.environment,
        route_id="ollama",
        key_variable="OLLAMA_API_KEY",
        url_variable=OLLAMA_HOST if options.base_url is None else None,
    )


def _compat(model: str, options: ProviderOptions) -> LLMProvider:
    base_url = options.base_url or options.environment.get(COMPAT_BASE_URL)
    if not base_url:
        raise not_set_up("openai-compat", f"set the variable {COMPAT_BASE_URL} to the address of the server")
    return models.OpenAICompatProvider(
        model,
        api_key=options.api_key,
        base_url=base_url,
        settings=options.settings,
        environment=options.environment,
        route_id="openai-compat",
        key_variable=COMPAT_KEY,
        url_variable=COMPAT_BASE_URL if options.base_url is None else None,
    )


def _demo(model: str, options: ProviderOptions) -> LLMProvider:
    pace = options.environment.get(PACE)
    return models.DemoModel(model, pace_s=_pace_s(pace) if model == "paced" else 0.0)


def _pace_s(text: str | None) -> float:
    if not text:
        return PACE_S
    try:
        pace_s = float(text)
    except ValueError:
        pace_s = -1.0
    if not 0 <= pace_s <= PACE_S_MAX:
        raise not_set_up(
            "demo", f"{PACE} must be a number of seconds from 0 to {PACE_S_MAX:g}, found {text[:40]!r}"
        )
    return pace_s


_ROUTES: Final[dict[str, Callable[[str, ProviderOptions], LLMProvider]]] = {
    "openai": _openai,
    "openai-responses": _responses,
    "azure": _azure,
    "anthropic": _anthropic,
    "google": _google,
    "bedrock": _bedrock,
    "ollama": _ollama,
    "openai-compat": _compat,
    "demo": _demo,
}
ROUTE_IDS: Final = tuple(_ROUTES)
"""The known routes."""


def make_provider(route_id: str, model_id: str, options: ProviderOptions) -> LLMProvider | None:
    """Return a new provider of a route; None if the route is unknown.

    With `base_url` no variable is read: a key of the environment is for the provider's own address alone.

    Raises:
        Unavailable: an extra, a key or an address is missing; the message says which.
    """
    make = _ROUTES.get(route_id)
    if make is None:
        return None
    if options.base_url is not None:
        options = replace(options, environment=dict[str, str]())
    return make(model_id, options)


class EnvironmentProviders:
    """Providers created on first use, from environment variables."""

    def __init__(self, environment: Environment = PROCESS_ENVIRONMENT) -> None:
        self._environment = environment
        self._made: dict[tuple[str, str], LLMProvider] = {}

    @property
    def routes(self) -> tuple[str, ...]:
        """The known routes."""
        return ROUTE_IDS

    def provider(self, route_id: str, model_id: str) -> LLMProvider | None:
        """Return the provider of a route, the same object each time; None if the route is unknown.

        Raises:
            Unavailable: an extra, a key or an address is missing; the message says which.
        """
        provider = self._made.get((route_id, model_id))
        if provider is None:
            provider = make_provider(route_id, model_id, ProviderOptions(environment=self._environment))
            if provider is not None:
                self._made[route_id, model_id] = provider
        return provider

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        providers = list(self._made.values())
        self._made.clear()
        for provider in providers:
            close = cast("Callable[[], Awaitable[None]] | None", getattr(provider, "aclose", None))
            if close is not None:
                await close()


def providers_from_environment(environment: Environment = PROCESS_ENVIRONMENT) -> EnvironmentProviders:
    """Return the providers of the known routes."""
    return EnvironmentProviders(environment)


def provider_for(name: str, environment: Environment = PROCESS_ENVIRONMENT) -> LLMProvider:
    """Return the provider of a name as `provider/model`.

    Raises:
        Rejected: the name does not have that form, or the provider is unknown.
        Unavailable: an extra, a key or an address is missing; the message says which.
    """
    route_id, _, model_id = name.partition("/")
    provider = EnvironmentProviders(environment).provider(route_id, model_id) if model_id else None
    if provider is None:
        raise Rejected(
            f'a model must be "provider/model", with a provider of {", ".join(ROUTE_IDS)}; found {name!r}',
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )
    return provider
