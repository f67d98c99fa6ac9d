# Generated from spec/policy.schema.json by `make gen`. Do not edit.
"""Six answers a policy can give."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from windlass_protocol._wire import Closed, JsonObject, Maybe, Open, Str, Tagged
from windlass_protocol.generated.common import Count, PolicyRef, Positive

class AllowDecision(Tagged, Open):
    """Go ahead."""

    __constants__ = ("decision",)

    code: Annotated[Str, StringConstraints(min_length=1)]
    """Stable dotted code of the reason."""
    reason: Str
    """Why, in a sentence for people."""
    policy_refs: tuple[PolicyRef, ...]
    """The rules that decided, strongest first."""
    decision: Literal["allow"] = "allow"
    """Which of the six answers this is."""

class DenyDecision(Tagged, Open):
    """Do not do it."""

    __constants__ = ("decision",)

    code: Annotated[Str, StringConstraints(min_length=1)]
    """Stable dotted code of the reason."""
    reason: Str
    """Why, in a sentence for people."""
    policy_refs: tuple[PolicyRef, ...]
    """The rules that decided, strongest first."""
    decision: Literal["deny"] = "deny"
    """Which of the six answers this is."""

class AskDecision(Tagged, Open):
    """A person must consent first."""

    __constants__ = ("decision",)

    code: Annotated[Str, StringConstraints(min_length=1)]
    """Stable dotted code of the reason."""
    reason: Str
    """Why, in a sentence for people."""
    policy_refs: tuple[PolicyRef, ...]
    """The rules that decided, strongest first."""
    decision: Literal["ask"] = "ask"
    """Which of the six answers this is."""
    prompt: Maybe[Str] = None
    """What to ask."""
    expires_in_ms: Maybe[Positive] = None
    """How long the question stays open."""
    arguments: Maybe[JsonObject] = None
    """The arguments to ask about and to use instead, when a rule changed them too."""

class ModifyDecision(Tagged, Open):
    """Go ahead with other arguments."""

    __constants__ = ("decision",)

    code: Annotated[Str, StringConstraints(min_length=1)]
    """Stable dotted code of the reason."""
    reason: Str
    """Why, in a sentence for people."""
    policy_refs: tuple[PolicyRef, ...]
    """The rules that decided, strongest first."""
    arguments: JsonObject
    """The arguments to use instead."""
    decision: Literal["modify"] = "modify"
    """Which of the six answers this is."""

class InterruptDecision(Tagged, Open):
    """Stop the run here."""

    __constants__ = ("decision",)

    code: Annotated[Str, StringConstraints(min_length=1)]
    """Stable dotted code of the reason."""
    reason: Str
    """Why, in a sentence for people."""
    policy_refs: tuple[PolicyRef, ...]
    """The rules that decided, strongest first."""
    decision: Literal["interrupt"] = "interrupt"
    """Which of the six answers this is."""

class DeferDecision(Tagged, Open):
    """Try again later."""

    __constants__ = ("decision",)

    code: Annotated[Str, StringConstraints(min_length=1)]
    """Stable dotted code of the reason."""
    reason: Str
    """Why, in a sentence for people."""
    policy_refs: tuple[PolicyRef, ...]
    """The rules that decided, strongest first."""
    decision: Literal["defer"] = "defer"
    """Which of the six answers this is."""
    resume_after_ms: Maybe[Count] = None
    """Earliest time to try again."""

PolicyDecision = Annotated[
    AllowDecision | DenyDecision | AskDecision | ModifyDecision | InterruptDecision | DeferDecision,
    Field(discriminator="decision"),
]
"""What a policy says of a run start or a tool call."""

class PolicyStage(StrEnum):
    """When the policy was asked."""

    RUN_START = "run_start"
    PRE_TOOL = "pre_tool"
    POST_TOOL = "post_tool"
    OUTPUT = "output"
    DELIVERY = "delivery"

class BudgetLimits(Closed):
    """Most that a run may use; an absent limit does not limit."""

    max_tokens: Maybe[Count] = None
    """Tokens, input and output together."""
    max_steps: Maybe[Count] = None
    """Model calls."""
    max_tool_calls: Maybe[Count] = None
    """Tool calls."""
    max_cost_micros: Maybe[Count] = None
    """Money, in millionths of a US dollar."""
    max_wall_ms: Maybe[Count] = None
    """Time, in milliseconds."""

class BudgetUsage(Closed):
    """What a run has used so far."""

    tokens_used: Count
    """Tokens, input and output together."""
    steps_used: Count
    """Model calls."""
    tool_calls_used: Count
    """Tool calls."""
    cost_micros_used: Count
    """Money, in millionths of a US dollar."""
    wall_ms_used: Count
    """Time, in milliseconds."""

class BudgetName(StrEnum):
    """Which limit."""

    TOKENS = "tokens"
    STEPS = "steps"
    TOOL_CALLS = "tool_calls"
    COST = "cost"
    WALL = "wall"
