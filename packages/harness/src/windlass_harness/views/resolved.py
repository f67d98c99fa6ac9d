"""What resolvers of an agent gave: where it is, and for how long it holds."""

from dataclasses import dataclass

from windlass_protocol import AgentResolvedData, ContentRef, ResolverScope


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a resolver gave last."""

    scope: ResolverScope
    content: ContentRef
    run_id: str | None = None


def resolved_key(agent_id: str, resolver: str) -> str:
    """Return where a session has what a resolver of an agent gave."""
    return f"{agent_id}/{resolver}"


def resolved_by(data: AgentResolvedData, *, agent_id: str, run_id: str | None) -> dict[str, Resolved]:
    """Return what a record says that a resolver gave, by its key."""
    return {resolved_key(agent_id, data.resolver): Resolved(data.scope, data.content_ref, run_id)}
