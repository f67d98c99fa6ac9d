"""Model providers.

Names are imported on first use, and the SDKs with the first request.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.models.anthropic import AnthropicProvider as AnthropicProvider
    from windlass.models.bedrock import BedrockProvider as BedrockProvider
    from windlass.models.demo import DemoModel as DemoModel
    from windlass.models.google import GoogleProvider as GoogleProvider
    from windlass.models.openai import AzureOpenAIProvider as AzureOpenAIProvider
    from windlass.models.openai import OpenAICompatProvider as OpenAICompatProvider
    from windlass.models.prompted import PromptedTools as PromptedTools
    from windlass.models.responses import OpenAIResponsesProvider as OpenAIResponsesProvider
    from windlass.models.routes import ROUTE_IDS as ROUTE_IDS
    from windlass.models.routes import EnvironmentProviders as EnvironmentProviders
    from windlass.models.routes import ProviderOptions as ProviderOptions
    from windlass.models.routes import make_provider as make_provider
    from windlass.models.routes import provider_for as provider_for
    from windlass.models.routes import providers_from_environment as providers_from_environment
    from windlass.models.transport import ModelSettings as ModelSettings

_HOMES = {
    "windlass.models.anthropic": ("AnthropicProvider",),
    "windlass.models.bedrock": ("BedrockProvider",),
    "windlass.models.demo": ("DemoModel",),
    "windlass.models.google": ("GoogleProvider",),
    "windlass.models.openai": ("AzureOpenAIProvider", "OpenAICompatProvider"),
    "windlass.models.prompted": ("PromptedTools",),
    "windlass.models.responses": ("OpenAIResponsesProvider",),
    "windlass.models.routes": (
        "ROUTE_IDS",
        "EnvironmentProviders",
        "ProviderOptions",
        "make_provider",
        "provider_for",
        "providers_from_environment",
    ),
    "windlass.models.transport": ("ModelSettings",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
