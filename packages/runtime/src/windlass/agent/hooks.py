"""Hooks: their definition, and what each hook point allows. Event hooks: their definition."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar, Unpack, cast

import windlass_protocol
from windlass.errors import check_name, check_whole, kind_of, near_names, option_problem, wrong
from windlass.limits import HOOK_TIMEOUT_MS, HOOK_TIMEOUT_MS_MAX
from windlass.ports.host import EventFunction, HookFunction
from windlass_harness.loop import rules as hooked
from windlass_protocol import HookFailure, HookPhase, HookRight
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import packages

if TYPE_CHECKING:
    from windlass_protocol.generated.values import (
        EventTypeValue,
        HookFailureValue,
        HookPhaseValue,
        HookRightValue,
    )

ORDER: Final = 100
ANY_EVENT: Final = "*"
"""Stands for every type of event."""


@sealed
class Point:
    """The rights of hooks at a point; every hook may observe."""

    owns: str | None = None
    """The field of a Change that hooks may set."""
    can_veto: bool = False
    is_observed: bool = False
    """The run cannot be stopped at this point any more: the failure mode must be fail_open."""


BEFORE_MODEL_CALL: Final = "before_model_call"
AFTER_MODEL_CALL: Final = "after_model_call"
AFTER_TOOL_CALL: Final = "after_tool_call"
BEFORE_APPROVAL_REQUEST: Final = "before_approval_request"
BEFORE_VALIDATION: Final = "before_structured_output_validation"
AFTER_VALIDATION: Final = "after_structured_output_validation"

HookPoint = Literal[
    "run_starting",
    "before_model_call",
    "after_model_call",
    "before_tool_call",
    "after_tool_call",
    "before_approval_request",
    "after_approval_decision",
    "before_structured_output_validation",
    "after_structured_output_validation",
    "before_run_complete",
    "after_run_terminal",
    "on_run_cancel_requested",
]
"""The points of a run at which hooks are called."""

POINTS: Final[dict[str, Point]] = {
    hooked.RUN_STARTING: Point(owns="context", can_veto=True),
    BEFORE_MODEL_CALL: Point(owns="context", can_veto=True),
    AFTER_MODEL_CALL: Point(can_veto=True),
    hooked.BEFORE_TOOL_CALL: Point(owns="arguments", can_veto=True),
    AFTER_TOOL_CALL: Point(owns="result"),
    BEFORE_APPROVAL_REQUEST: Point(owns="prompt", can_veto=True),
    hooked.AFTER_APPROVAL_DECISION: Point(),
    BEFORE_VALIDATION: Point(),
    AFTER_VALIDATION: Point(can_veto=True),
    hooked.BEFORE_RUN_COMPLETE: Point(can_veto=True),
    hooked.AFTER_RUN_TERMINAL: Point(is_observed=True),
    hooked.ON_RUN_CANCEL_REQUESTED: Point(is_observed=True),
}


@sealed(eq=False, weakref_slot=True)
class Hook:
    """A function that runs at a point of every run of an agent."""

    spec: packages.HookSpec
    function: HookFunction

    def __repr__(self) -> str:
        return f"Hook({self.spec.hook_id!r}, {self.spec.point!r})"


class HookOptions(TypedDict, total=False):
    """Options of a hook."""

    hook_id: str
    """Default: the name of the function."""
    right: HookRight | HookRightValue
    """observe (default), mutate or veto."""
    order: int
    """Hooks of a point run by phase, then by order (default 100), then by id."""
    phase: HookPhase | HookPhaseValue
    """early, normal (default) or late."""
    timeout_ms: int
    """How long the run waits for the hook; default 250."""
    failure: HookFailure | HookFailureValue
    """The effect on the run if the hook raises, times out or exceeds its right: fail_open (default for
    observe),
    deny (default for mutate and veto), interrupt_run or fail_run."""


def hook(point: HookPoint, **options: Unpack[HookOptions]) -> Callable[[HookFunction], Hook]:
    """Turn a function into a hook: it takes a HookCall and returns None, a Change or a Veto.

    Options:
        hook_id: the id in records; default: the name of the function.
        right: observe (default), mutate or veto.
        order: hooks of a point run by phase, then by order (default 100), then by id.
        phase: early, normal (default) or late.
        timeout_ms: how long the run waits for the hook; default 250.
        failure: the effect on the run if the hook fails: fail_open, deny, interrupt_run or fail_run.

    Raises:
        Rejected: the point is unknown or does not allow the right; the message names the allowed values.
    """

    if callable(point):
        raise wrong(
            '@hook takes the name of a point, such as @hook("before_tool_call"); the points are '
            f"{', '.join(POINTS)}"
        )
    problem = option_problem(options, HookOptions, what="hook")
    if problem is not None:
        raise wrong(problem)

    def make(function: HookFunction) -> Hook:
        spec = _spec(_hook_id(function, options.get("hook_id"), "@hook"), point, options)
        check_hook(spec)
        return Hook(spec, function)

    return make


def _hook_id(function: object, hook_id: str | None, decorator: str) -> str:
    if not callable(function):
        raise wrong(f"{decorator} must decorate a function, found {kind_of(function)}")
    name = hook_id or getattr(function, "__name__", type(function).__name__)
    return check_name(name, "a hook", option="hook_id")


@sealed(eq=False, weakref_slot=True)
class EventHook:
    """A function that gets the events of every run of an agent, after they are durable."""

    types: tuple[str, ...]
    """Types of events; `*` stands for every type."""
    function: EventFunction
    hook_id: str
    timeout_ms: int = HOOK_TIMEOUT_MS

    def __repr__(self) -> str:
        return f"EventHook({self.hook_id!r}, {', '.join(map(repr, self.types))})"

    def wants(self, event_type: str) -> bool:
        """Whether the hook gets events of this type."""
        return event_type in self.types or ANY_EVENT in self.types


LIVE_EVENTS: Final = frozenset(
    {"message.appended", "reasoning.appended", "action.input.appended", "action.partial", "step.queued"}
)
"""Types of events that are live only and never recorded."""


def on_event(
    *types: EventTypeValue | Literal["*"], hook_id: str | None = None, timeout_ms: int = HOOK_TIMEOUT_MS
) -> Callable[[EventFunction], EventHook]:
    """Turn a function into an event hook: it takes an Event and returns None.

    It gets events of these types; `*` stands for every type. A call that raises or exceeds `timeout_ms` is
    logged, and changes nothing. `hook_id` is the name of the function when left out.

    Raises:
        Rejected: a type is unknown; the message names close ones.
    """
    if not types or callable(types[0]):
        raise wrong('@on_event takes types of events, such as @on_event("run.completed"), or "*" for all')
    # Looked up here: few agents have event hooks, and the catalogue is slow to import.
    known_types = [ANY_EVENT, *windlass_protocol.EVENT_DATA]
    for event_type in types:
        if event_type not in known_types:
            close = near_names([event_type], known_types) if isinstance(cast(object, event_type), str) else ""
            raise wrong(f'@on_event: unknown type of event {event_type!r}; "*" stands for all types{close}')

    def make(function: EventFunction) -> EventHook:
        name = _hook_id(function, hook_id, "@on_event")
        limit = check_whole(timeout_ms, f"hook {name}: timeout_ms", most=HOOK_TIMEOUT_MS_MAX)
        return EventHook(tuple(dict.fromkeys(types)), function, name, limit)

    return make


def _spec(hook_id: str, point: str, options: HookOptions) -> packages.HookSpec:
    where = f"hook {hook_id}"
    point = _point(point, where)
    order = options.get("order", ORDER)
    if type(order) is not int:
        raise wrong(f"{where}: order must be a whole number, found {kind_of(order)}")
    right = _member(HookRight, options.get("right", HookRight.OBSERVE), f"{where}: right")
    failure = options.get("failure")
    if failure is None:
        failure = HookFailure.DENY if guards(right) else HookFailure.FAIL_OPEN
    timeout_ms = options.get("timeout_ms", HOOK_TIMEOUT_MS)
    return packages.HookSpec(
        hook_id=hook_id,
        point=point,
        right=right,
        order=order,
        phase=_member(HookPhase, options.get("phase", HookPhase.NORMAL), f"{where}: phase"),
        timeout_ms=check_whole(timeout_ms, f"{where}: timeout_ms", most=HOOK_TIMEOUT_MS_MAX),
        failure=_member(HookFailure, failure, f"{where}: failure"),
    )


def guards(right: HookRight | None) -> bool:
    """Whether a hook can prevent something, so that it must not fail open. A hook that observes cannot."""
    return right in (HookRight.MUTATE, HookRight.VETO)


def check_hook(spec: packages.HookSpec) -> None:
    """Check that the point of a hook exists and allows its right and its failure mode.

    Raises:
        Rejected: the point is unknown, or it does not allow the right or the failure mode.
    """
    where = f"hook {spec.hook_id}"
    point = POINTS[_point(spec.point, where)]
    right, failure = spec.right or HookRight.OBSERVE, spec.failure or HookFailure.FAIL_OPEN
    if right is HookRight.MUTATE and point.owns is None:
        raise wrong(f"{where}: right mutate is not allowed at {spec.point}; it allows {_rights(point)}")
    if right is HookRight.VETO and not point.can_veto:
        raise wrong(f"{where}: right veto is not allowed at {spec.point}; it allows {_rights(point)}")
    if failure is HookFailure.FAIL_OPEN and guards(right):
        raise wrong(
            f"{where}: failure fail_open is not allowed with right {right.value}, at {spec.point}; "
            "use deny, interrupt_run or fail_run"
        )
    if failure is not HookFailure.FAIL_OPEN and point.is_observed:
        raise wrong(f"{where}: the run cannot be stopped at {spec.point}; failure must be fail_open")
    if spec.timeout_ms is not None:
        check_whole(spec.timeout_ms, f"{where}: timeout_ms", most=HOOK_TIMEOUT_MS_MAX)


def _rights(point: Point) -> str:
    rights = ["observe", *(["mutate"] if point.owns else []), *(["veto"] if point.can_veto else [])]
    return ", ".join(rights)


def _point(point: object, where: str) -> str:
    if isinstance(point, str) and point in POINTS:
        return point
    raise wrong(f"{where}: unknown point {point!r}; the points are {', '.join(POINTS)}")


EnumT = TypeVar("EnumT", bound=StrEnum)


def _member(kind: type[EnumT], value: object, where: str) -> EnumT:
    try:
        return kind(str(value))
    except ValueError:
        names = ", ".join(member.value for member in kind)
    raise wrong(f"{where} must be one of {names}; found {value!r}")
