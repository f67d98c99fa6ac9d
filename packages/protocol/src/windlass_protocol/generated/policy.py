# Generated from spec/policy.schema.json by `make gen`. Do not edit.
"""Six answers a policy can give.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_AllowDecision() -> object:
    from typing import Annotated, Literal

    from pydantic import StringConstraints

    from windlass_protocol._wire import Open, Str, Tagged
    from windlass_protocol.generated.common import PolicyRef

    class AllowDecision(Tagged, Open):
        """Go ahead."""

        __qualname__ = "AllowDecision"

        __constants__ = ("decision",)

        code: Annotated[Str, StringConstraints(min_length=1)]
        reason: Str
        policy_refs: tuple[PolicyRef, ...]
        decision: Literal["allow"] = "allow"

    return AllowDecision


def _make_DenyDecision() -> object:
    from typing import Annotated, Literal

    from pydantic import StringConstraints

    from windlass_protocol._wire import Open, Str, Tagged
    from windlass_protocol.generated.common import PolicyRef

    class DenyDecision(Tagged, Open):
        """Do not do it."""

        __qualname__ = "DenyDecision"

        __constants__ = ("decision",)

        code: Annotated[Str, StringConstraints(min_length=1)]
        reason: Str
        policy_refs: tuple[PolicyRef, ...]
        decision: Literal["deny"] = "deny"

    return DenyDecision


def _make_AskDecision() -> object:
    from typing import Annotated, Literal

    from pydantic import StringConstraints

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import PolicyRef, Positive

    class AskDecision(Tagged, Open):
        """A person must consent first."""

        __qualname__ = "AskDecision"

        __constants__ = ("decision",)

        code: Annotated[Str, StringConstraints(min_length=1)]
        reason: Str
        policy_refs: tuple[PolicyRef, ...]
        decision: Literal["ask"] = "ask"
        prompt: Maybe[Str] = None
        expires_in_ms: Maybe[Positive] = None
        arguments: Maybe[JsonObject] = None

    return AskDecision


def _make_ModifyDecision() -> object:
    from typing import Annotated, Literal

    from pydantic import StringConstraints

    from windlass_protocol._wire import JsonObject, Open, Str, Tagged
    from windlass_protocol.generated.common import PolicyRef

    class ModifyDecision(Tagged, Open):
        """Go ahead with other arguments."""

        __qualname__ = "ModifyDecision"

        __constants__ = ("decision",)

        code: Annotated[Str, StringConstraints(min_length=1)]
        reason: Str
        policy_refs: tuple[PolicyRef, ...]
        arguments: JsonObject
        decision: Literal["modify"] = "modify"

    return ModifyDecision


def _make_InterruptDecision() -> object:
    from typing import Annotated, Literal

    from pydantic import StringConstraints

    from windlass_protocol._wire import Open, Str, Tagged
    from windlass_protocol.generated.common import PolicyRef

    class InterruptDecision(Tagged, Open):
        """Stop the run here."""

        __qualname__ = "InterruptDecision"

        __constants__ = ("decision",)

        code: Annotated[Str, StringConstraints(min_length=1)]
        reason: Str
        policy_refs: tuple[PolicyRef, ...]
        decision: Literal["interrupt"] = "interrupt"

    return InterruptDecision


def _make_DeferDecision() -> object:
    from typing import Annotated, Literal

    from pydantic import StringConstraints

    from windlass_protocol._wire import Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import Count, PolicyRef

    class DeferDecision(Tagged, Open):
        """Try again later."""

        __qualname__ = "DeferDecision"

        __constants__ = ("decision",)

        code: Annotated[Str, StringConstraints(min_length=1)]
        reason: Str
        policy_refs: tuple[PolicyRef, ...]
        decision: Literal["defer"] = "defer"
        resume_after_ms: Maybe[Count] = None

    return DeferDecision


def _make_PolicyDecision() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.policy import (
        AllowDecision,
        AskDecision,
        DeferDecision,
        DenyDecision,
        InterruptDecision,
        ModifyDecision,
    )

    PolicyDecision = Annotated[
        AllowDecision | DenyDecision | AskDecision | ModifyDecision | InterruptDecision | DeferDecision,
        Field(discriminator="decision"),
    ]
    return PolicyDecision


def _make_PolicyStage() -> object:
    from enum import StrEnum

    class PolicyStage(StrEnum):
        """When the policy was asked."""

        __qualname__ = "PolicyStage"

        RUN_START = "run_start"
        PRE_TOOL = "pre_tool"
        POST_TOOL = "post_tool"
        OUTPUT = "output"
        DELIVERY = "delivery"

    return PolicyStage


def _make_BudgetLimits() -> object:
    from windlass_protocol._wire import Closed, Maybe
    from windlass_protocol.generated.common import Count

    class BudgetLimits(Closed):
        """Most that a run may use; an absent limit does not limit."""

        __qualname__ = "BudgetLimits"

        max_tokens: Maybe[Count] = None
        max_steps: Maybe[Count] = None
        max_tool_calls: Maybe[Count] = None
        max_cost_micros: Maybe[Count] = None
        max_wall_ms: Maybe[Count] = None

    return BudgetLimits


def _make_BudgetUsage() -> object:
    from windlass_protocol._wire import Closed
    from windlass_protocol.generated.common import Count

    class BudgetUsage(Closed):
        """What a run has used so far."""

        __qualname__ = "BudgetUsage"

        tokens_used: Count
        steps_used: Count
        tool_calls_used: Count
        cost_micros_used: Count
        wall_ms_used: Count

    return BudgetUsage


def _make_BudgetName() -> object:
    from enum import StrEnum

    class BudgetName(StrEnum):
        """Which limit."""

        __qualname__ = "BudgetName"

        TOKENS = "tokens"
        STEPS = "steps"
        TOOL_CALLS = "tool_calls"
        COST = "cost"
        WALL = "wall"

    return BudgetName


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "AllowDecision": _make_AllowDecision,
        "DenyDecision": _make_DenyDecision,
        "AskDecision": _make_AskDecision,
        "ModifyDecision": _make_ModifyDecision,
        "InterruptDecision": _make_InterruptDecision,
        "DeferDecision": _make_DeferDecision,
        "PolicyDecision": _make_PolicyDecision,
        "PolicyStage": _make_PolicyStage,
        "BudgetLimits": _make_BudgetLimits,
        "BudgetUsage": _make_BudgetUsage,
        "BudgetName": _make_BudgetName,
    },
)
