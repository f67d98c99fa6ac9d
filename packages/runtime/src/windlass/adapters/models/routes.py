"""Model routes: `openai/…`, `anthropic/…`, `google/…`, `ollama/…`, `demo/…` and others."""

from collections.abc import Awaitable, Callable
from typing import Final, cast

from windlass.adapters import models
from windlass.adapters.models.transport import PROCESS_ENVIRONMENT, Environment, not_set_up
from windlass.errors import Rejected
from windlass.ports.model import LLMProvider
from windlass_protocol import ErrorKind, RetryClass

PACE_S: Final = 0.03
"""Seconds between two words of `demo/paced`: about reading speed."""
PACE_S_MAX: Final = 10.0
PACE: Final = "WINDLASS_DEMO_PACE"
"""The environment variable that overrides it, in seconds."""
OLLAMA_HOST: Final = "OLLAMA_HOST"
OLLAMA: Final = "http://localhost:11434"
COMPAT_BASE_URL: Final = "OPENAI_COMPAT_BASE_URL"
COMPAT_KEY: Final = "OPENAI_COMPAT_API_KEY"


# Providers are imported through the package on first use: an application uses one or two of them.


def _openai(model: str, environment: Environment) -> LLMProvider:
    return models.OpenAICompatProvider(model, environment=environment)


def _anthropic(model: str, environment: Environment) -> LLMProvider:
    return models.AnthropicProvider(model, environment=environment)


def _responses(model: str, environment: Environment) -> LLMProvider:
    return models.OpenAIResponsesProvider(model, environment=environment)


def _azure(model: str, environment: Environment) -> LLMProvider:
    return models.AzureOpenAIProvider(model, environment=environment)


def _google(model: str, environment: Environment) -> LLMProvider:
    return models.GoogleProvider(model, environment=environment)


def _bedrock(model: str, environment: Environment) -> LLMProvider:
    return models.BedrockProvider(model, environment=environment)


def _ollama(model: str, environment: Environment) -> LLMProvider:
    host = environment.get(OLLAMA_HOST) or OLLAMA
    address = host if "://" in host else f"http://{host}"
    # Must not get the key of another provider.
    return models.OpenAICompatProvider(
        model,
        base_url=f"{address.rstrip('/')}/v1",
        environment=environment,
        route_id="ollama",
        key_variable="OLLAMA_API_KEY",
        url_variable=OLLAMA_HOST,
    )


def _compat(model: str, environment: Environment) -> LLMProvider:
    base_url = environment.get(COMPAT_BASE_URL)
    if not base_url:
        raise not_set_up("openai-compat", f"set the variable {COMPAT_BASE_URL} to the address of the server")
    return models.OpenAICompatProvider(
        model,
        base_url=base_url,
        environment=environment,
        route_id="openai-compat",
        key_variable=COMPAT_KEY,
        url_variable=COMPAT_BASE_URL,
    )


def _demo(model: str, environment: Environment) -> LLMProvider:
    return models.DemoModel(model, pace_s=_pace_s(environment.get(PACE)) if model == "paced" else 0.0)


def _pace_s(given: str | None) -> float:
    if not given:
        return PACE_S
    try:
        pace_s = float(given)
    except ValueError:
        pace_s = -1.0
    if not 0 <= pace_s <= PACE_S_MAX:
        raise not_set_up(
            "demo", f"{PACE} must be a number of seconds from 0 to {PACE_S_MAX:g}, found {given[:40]!r}"
        )
    return pace_s


_ROUTES: Final[dict[str, Callable[[str, Environment], LLMProvider]]] = {
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


class EnvironmentProviders:
    """Providers created on first use, from environment variables."""

    def __init__(self, environment: Environment = PROCESS_ENVIRONMENT) -> None:
        self._environment = environment
        self._made: dict[tuple[str, str], LLMProvider] = {}

    @property
    def routes(self) -> tuple[str, ...]:
        """The known routes."""
        return tuple(_ROUTES)

    def provider(self, route_id: str, model_id: str) -> LLMProvider | None:
        """Return the provider of a route, the same object each time; None if the route is unknown.

        Raises:
            Unavailable: an extra, a key or an address is missing; the message says which.
        """
        known = self._made.get((route_id, model_id))
        if known is None and route_id in _ROUTES:
            known = self._made[route_id, model_id] = _ROUTES[route_id](model_id, self._environment)
        return known

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        made = list(self._made.values())
        self._made.clear()
        for provider in made:
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
    found = EnvironmentProviders(environment).provider(route_id, model_id) if model_id else None
    if found is None:
        raise Rejected(
            f'a model must be "provider/model", with a provider of {", ".join(_ROUTES)}; found {name!r}',
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )
    return found
