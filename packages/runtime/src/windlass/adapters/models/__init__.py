"""Models: who answers for a route.

Nothing here is imported before it is asked for, and the SDKs not before the first request.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.adapters.models.anthropic_messages import AnthropicProvider as AnthropicProvider
    from windlass.adapters.models.demo import DemoModel as DemoModel
    from windlass.adapters.models.openai_compat import OpenAICompatProvider as OpenAICompatProvider
    from windlass.adapters.models.prompted import PromptedTools as PromptedTools
    from windlass.adapters.models.routes import EnvironmentProviders as EnvironmentProviders
    from windlass.adapters.models.routes import provider_for as provider_for
    from windlass.adapters.models.routes import providers_from_environment as providers_from_environment
    from windlass.adapters.models.settings import ModelSettings as ModelSettings

_NAMES = {
    "anthropic_messages": ("AnthropicProvider",),
    "demo": ("DemoModel",),
    "openai_compat": ("OpenAICompatProvider",),
    "prompted": ("PromptedTools",),
    "routes": ("EnvironmentProviders", "provider_for", "providers_from_environment"),
    "settings": ("ModelSettings",),
}

__getattr__, __dir__ = _lazy_names(__name__, {name: home for home, names in _NAMES.items() for name in names})
