"""Budgets of a run: limits, consumption and the remainder.

Money is counted in whole micro-dollars (millionths of a US dollar), so that sums are exact in every language.
"""

from dataclasses import fields
from math import ceil, inf
from typing import TypedDict, Unpack

from pydantic.alias_generators import to_camel

from windlass_protocol import BudgetName
from windlass_protocol.frozen import sealed


@sealed
class Budget:
    """The limits of a run, in whole numbers; None is no limit.

    Raises:
        ValueError: a limit is negative or not a whole number.
    """

    max_tokens: int | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_cost_micros: int | None = None
    max_wall_ms: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            limit: object = getattr(self, field.name)
            if limit is not None and not _is_limit(limit):
                raise ValueError(
                    f"{field.name} must be a whole number, 0 or more, found {limit!r}; use None for no limit"
                )


def wire_limits(budget: Budget) -> dict[str, int]:
    """Return the limits of a budget by the names that they have on the wire; absent ones are left out."""
    limits = {to_camel(field.name): getattr(budget, field.name) for field in fields(budget)}
    return {name: limit for name, limit in limits.items() if limit is not None}


@sealed
class BudgetState:
    """The consumption of a run so far."""

    tokens_used: int = 0
    steps_used: int = 0
    tool_calls_used: int = 0
    cost_micros_used: int = 0
    wall_ms_used: int = 0


class Spend(TypedDict, total=False):
    """One spend, as the keyword arguments of `consume_budget` and `would_exceed`.

    None counts as 0, because the fields of `Usage` may be None.
    """

    tokens: int | None
    step: bool
    tool_call: bool
    cost_micros: int | None
    wall_ms: int | None


def consume_budget(state: BudgetState, limits: Budget, **spend: Unpack[Spend]) -> tuple[BudgetState, bool]:
    """Add a spend; return the new state and whether any limit is exceeded.

    A limit is exceeded when consumption is above it, not when it is reached. Counting continues after that.
    Amounts that are None, negative, infinite or not a number count as 0, because usage figures come from
    providers; fractions round up.

    Raises:
        TypeError: a keyword is not in `Spend`.
    """
    after = _add("consume_budget", state, spend)
    return after, bool(exceeded(after, limits))


def exceeded(state: BudgetState, limits: Budget) -> tuple[BudgetName, ...]:
    """Return the names of exceeded limits, in the order of `Budget`."""
    return tuple(name for name, used, limit in _rows(state, limits) if limit is not None and used > limit)


def would_exceed(state: BudgetState, limits: Budget, **spend: Unpack[Spend]) -> tuple[BudgetName, ...]:
    """Return the names of the limits that a spend would exceed; call it before the spend.

    A model call always uses tokens: pass the least it will use (1 if nothing better is known), or a run that
    is exactly at its limit makes one call too many.

    Raises:
        TypeError: a keyword is not in `Spend`.
    """
    return exceeded(_add("would_exceed", state, spend), limits)


def remaining(state: BudgetState, limits: Budget) -> Budget:
    """Return the remaining limits, never below 0; an absent limit stays absent."""
    return Budget(
        *(None if limit is None else max(0, limit - used) for _, used, limit in _rows(state, limits))
    )


def share(state: BudgetState, limits: Budget, *, parts: int) -> Budget:
    """Return the limits of one of `parts` equal subagents.

    All shares together never exceed the remainder. Time is not divided: subagents run concurrently.

    Raises:
        ValueError: `parts` is less than 1.
    """
    if parts < 1:
        raise ValueError(f"parts must be 1 or more, found {parts}")
    left = remaining(state, limits)
    return Budget(
        max_tokens=_divide(left.max_tokens, parts),
        max_steps=_divide(left.max_steps, parts),
        max_tool_calls=_divide(left.max_tool_calls, parts),
        max_cost_micros=_divide(left.max_cost_micros, parts),
        max_wall_ms=left.max_wall_ms,
    )


def _rows(state: BudgetState, limits: Budget) -> tuple[tuple[BudgetName, int, int | None], ...]:
    return (
        (BudgetName.TOKENS, state.tokens_used, limits.max_tokens),
        (BudgetName.STEPS, state.steps_used, limits.max_steps),
        (BudgetName.TOOL_CALLS, state.tool_calls_used, limits.max_tool_calls),
        (BudgetName.COST, state.cost_micros_used, limits.max_cost_micros),
        (BudgetName.WALL, state.wall_ms_used, limits.max_wall_ms),
    )


def _add(caller: str, state: BudgetState, spend: Spend) -> BudgetState:
    unknown = sorted(spend.keys() - Spend.__annotations__.keys())
    if unknown:
        options = ", ".join(Spend.__annotations__)
        raise TypeError(f"{caller}: unknown option {', '.join(unknown)}; it takes {options}")
    return BudgetState(
        tokens_used=state.tokens_used + _amount(spend.get("tokens")),
        steps_used=state.steps_used + (1 if spend.get("step") else 0),
        tool_calls_used=state.tool_calls_used + (1 if spend.get("tool_call") else 0),
        cost_micros_used=state.cost_micros_used + _amount(spend.get("cost_micros")),
        wall_ms_used=state.wall_ms_used + _amount(spend.get("wall_ms")),
    )


def _amount(value: float | None) -> int:
    return ceil(value) if value is not None and 0 < value < inf else 0


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _divide(limit: int | None, parts: int) -> int | None:
    return None if limit is None else limit // parts
