"""Who answers for routes that nobody registered a provider for."""

from typing import Protocol

from windlass.ports.model import LLMProvider


class ProviderSource(Protocol):
    """Makes providers by the names of routes and models.

    One that has `routes`, the names of those it knows, is quoted with them when somebody asks for another.
    """

    def provider(self, route_id: str, model_id: str) -> LLMProvider | None:
        """Return who answers, the same each time; None if the route is not known.

        Raises:
            Unavailable: the route is known, and something of the host is missing for it.
        """
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...
