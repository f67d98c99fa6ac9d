"""Model providers.

Names are imported on first use, and the SDKs with the first request.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.adapters.models.anthropic import AnthropicProvider as AnthropicProvider
    from windlass.adapters.models.bedrock import BedrockProvider as BedrockProvider
    from windlass.adapters.models.demo import DemoModel as DemoModel
    from windlass.adapters.models.google import GoogleProvider as GoogleProvider
    from windlass.adapters.models.openai import AzureOpenAIProvider as AzureOpenAIProvider
    from windlass.adapters.models.openai import OpenAICompatProvider as OpenAICompatProvider
    from windlass.adapters.models.prompted import PromptedTools as PromptedTools
    from windlass.adapters.models.responses import OpenAIResponsesProvider as OpenAIResponsesProvider
    from windlass.adapters.models.routes import ROUTE_IDS as ROUTE_IDS
    from windlass.adapters.models.routes import EnvironmentProviders as EnvironmentProviders
    from windlass.adapters.models.routes import ProviderOptions as ProviderOptions
    from windlass.adapters.models.routes import make_provider as make_provider
    from windlass.adapters.models.routes import provider_for as provider_for
    from windlass.adapters.models.routes import providers_from_environment as providers_from_environment
    from windlass.adapters.models.transport import ModelSettings as ModelSettings

_HOMES = {
    "windlass.adapters.models.anthropic": ("AnthropicProvider",),
    "windlass.adapters.models.bedrock": ("BedrockProvider",),
    "windlass.adapters.models.demo": ("DemoModel",),
    "windlass.adapters.models.google": ("GoogleProvider",),
    "windlass.adapters.models.openai": ("AzureOpenAIProvider", "OpenAICompatProvider"),
    "windlass.adapters.models.prompted": ("PromptedTools",),
    "windlass.adapters.models.responses": ("OpenAIResponsesProvider",),
    "windlass.adapters.models.routes": (
        "ROUTE_IDS",
        "EnvironmentProviders",
        "ProviderOptions",
        "make_provider",
        "provider_for",
        "providers_from_environment",
    ),
    "windlass.adapters.models.transport": ("ModelSettings",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
