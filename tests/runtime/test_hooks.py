"""Hook definitions: mistakes are refused when a hook is defined."""

from typing import Any, get_args

import pytest

from windlass.agent import Agent
from windlass.agent.hooks import EventHook, Hook, HookPoint, hook, on_event
from windlass.errors import Rejected
from windlass.limits import HOOK_TIMEOUT_MS_MAX, HOOKS_PER_AGENT_MAX
from windlass.ports.host import HookCall
from windlass_protocol import EVENT_DATA, Event, HookFailure, HookPhase, HookRight, HookSpec
from windlass_protocol.generated.values import EventTypeValue

LOOSE_HOOK: Any = hook
LOOSE_EVENT_HOOK: Any = on_event
"""For arguments that a type checker would refuse."""


def look(call: HookCall) -> None:
    """Do nothing."""


def test_a_function_becomes_a_hook_that_observes_and_fails_open():
    made = hook("after_tool_call")(look)
    assert isinstance(made, Hook)
    assert made.function is look
    assert repr(made) == "Hook('look', 'after_tool_call')"
    assert made.spec == HookSpec(
        hook_id="look",
        point="after_tool_call",
        right=HookRight.OBSERVE,
        order=100,
        phase=HookPhase.NORMAL,
        timeout_ms=250,
        failure=HookFailure.FAIL_OPEN,
    )


def test_everything_about_a_hook_can_be_said():
    options = {"hook_id": "guard", "right": "veto", "order": -1, "phase": "early", "failure": "fail_run"}
    made = LOOSE_HOOK("before_tool_call", timeout_ms=HOOK_TIMEOUT_MS_MAX, **options)(look)
    spec = made.spec
    assert (spec.hook_id, spec.right, spec.order, spec.phase) == ("guard", "veto", -1, "early")
    assert (spec.timeout_ms, spec.failure) == (HOOK_TIMEOUT_MS_MAX, "fail_run")


def test_a_hook_that_guards_something_denies_when_it_fails_unless_its_author_says_otherwise():
    assert hook("before_tool_call", right="veto")(look).spec.failure is HookFailure.DENY
    assert hook("before_tool_call")(look).spec.failure is HookFailure.FAIL_OPEN
    assert hook("before_tool_call", failure="deny")(look).spec.failure is HookFailure.DENY
    assert hook("run_starting", right="veto")(look).spec.failure is HookFailure.DENY
    assert hook("run_starting")(look).spec.failure is HookFailure.FAIL_OPEN


def test_a_callable_object_is_named_by_its_class():
    class Watch:
        def __call__(self, call: HookCall) -> None: ...

    assert hook("after_model_call")(Watch()).spec.hook_id == "Watch"


SLIPS: list[tuple[str, dict[str, object], str]] = [
    ("on_model_delta", {}, "unknown point 'on_model_delta'; the points are run_starting"),
    ("", {}, "unknown point ''"),
    (
        "after_tool_call",
        {"right": "veto"},
        "right veto is not allowed at after_tool_call; it allows observe, mutate",
    ),
    (
        "after_model_call",
        {"right": "mutate"},
        "right mutate is not allowed at after_model_call; it allows observe, veto",
    ),
    ("after_approval_decision", {"right": "mutate"}, "it allows observe"),
    ("before_tool_call", {"right": "veto", "failure": "fail_open"}, "fail_open is not allowed"),
    (
        "run_starting",
        {"right": "mutate", "failure": "fail_open"},
        "use deny, interrupt_run or fail_run",
    ),
    ("after_run_terminal", {"failure": "fail_run"}, "the run cannot be stopped at after_run_terminal"),
    ("after_tool_call", {"right": "edit"}, "right must be one of observe, mutate, veto; found 'edit'"),
    ("after_tool_call", {"phase": "soon"}, "phase must be one of early, normal, late"),
    ("after_tool_call", {"failure": "maybe"}, "failure must be one of fail_open, deny"),
    ("after_tool_call", {"order": True}, "order must be a whole number, found bool"),
    ("after_tool_call", {"timeout_ms": 0}, "timeout_ms must be 1 to 30,000"),
    ("after_tool_call", {"timeout_ms": HOOK_TIMEOUT_MS_MAX + 1}, "timeout_ms must be 1 to 30,000"),
    ("after_tool_call", {"hook_id": "no spaces"}, "the name of a hook"),
]


@pytest.mark.parametrize(("point", "options", "told"), SLIPS)
def test_an_invalid_hook_is_refused_when_it_is_defined(point: str, options: dict[str, object], told: str):
    with pytest.raises(Rejected) as caught:
        LOOSE_HOOK(point, **options)(look)
    assert told in caught.value.message


def test_only_functions_become_hooks():
    with pytest.raises(Rejected, match="@hook must decorate a function, found int"):
        LOOSE_HOOK("after_tool_call")(5)


SPECS = [
    HookSpec(hook_id="h", point="somewhere"),
    HookSpec(hook_id="h", point="before_tool_call", right=HookRight.VETO),
    HookSpec(hook_id="h", point="after_model_call", right=HookRight.MUTATE),
    HookSpec(hook_id="h", point="after_tool_call", timeout_ms=HOOK_TIMEOUT_MS_MAX + 1),
]


@pytest.mark.promise("H2")
@pytest.mark.parametrize("spec", SPECS)
def test_an_agent_refuses_a_hook_that_could_only_be_ignored(spec: HookSpec):
    with pytest.raises(Rejected, match="hook h"):
        Agent("a", model="p/m", hooks=[spec])


def test_the_number_of_hooks_of_an_agent_is_limited():
    hooks = [HookSpec(hook_id=f"h{number}", point="after_tool_call") for number in range(65)]
    assert len(Agent("a", model="p/m", hooks=hooks[:HOOKS_PER_AGENT_MAX]).hooks) == HOOKS_PER_AGENT_MAX
    with pytest.raises(Rejected, match="hooks: found 65, limit 64"):
        Agent("a", model="p/m", hooks=hooks)


def test_hooks_at_every_point_observe_by_default():
    for point in get_args(HookPoint):
        assert hook(point)(look).spec.right is HookRight.OBSERVE


def test_a_hook_without_a_point_is_refused_with_the_points_there_are():
    with pytest.raises(
        Rejected, match=r'@hook takes the name of a point, such as @hook\("before_tool_call"\)'
    ):
        LOOSE_HOOK(look)
    with pytest.raises(Rejected, match="unknown point"):
        LOOSE_HOOK(["before_tool_call"])(look)


# event hooks


def heed(event: Event) -> None:
    """Do nothing."""


def test_a_function_becomes_an_event_hook() -> None:
    made = on_event("run.completed", "action.result", "run.completed")(heed)
    assert isinstance(made, EventHook)
    assert (made.types, made.function) == (("run.completed", "action.result"), heed)
    assert (made.hook_id, made.timeout_ms) == ("heed", 250)
    assert repr(made) == "EventHook('heed', 'run.completed', 'action.result')"
    assert [made.wants(one) for one in ("run.completed", "action.result", "run.failed")] == [
        True,
        True,
        False,
    ]
    named = on_event("*", hook_id="all", timeout_ms=HOOK_TIMEOUT_MS_MAX)(heed)
    assert (named.hook_id, named.timeout_ms) == ("all", HOOK_TIMEOUT_MS_MAX)


def test_an_event_hook_can_be_on_every_type_of_event() -> None:
    assert on_event(*get_args(EventTypeValue))(heed).types == tuple(EVENT_DATA)
    assert all(on_event("*")(heed).wants(one) for one in EVENT_DATA)


EVENT_SLIPS: list[tuple[tuple[object, ...], dict[str, object], str]] = [
    (
        ("run.complete",),
        {},
        "unknown type of event 'run.complete'; \"*\" stands for all types; did you mean run.",
    ),
    (("run.completed", "message.deltas"), {}, "unknown type of event 'message.deltas'"),
    ((5,), {}, "unknown type of event 5"),
    (([],), {}, "unknown type of event []"),
    ((), {}, '@on_event takes types of events, such as @on_event("run.completed"), or "*" for all'),
    ((heed,), {}, "@on_event takes types of events"),
    (("*",), {"timeout_ms": 0}, "hook heed: timeout_ms must be 1 to 30,000"),
    (("*",), {"timeout_ms": HOOK_TIMEOUT_MS_MAX + 1}, "timeout_ms must be 1 to 30,000"),
    (("*",), {"hook_id": "no spaces"}, "the name of a hook"),
]


@pytest.mark.parametrize(("types", "options", "told"), EVENT_SLIPS)
def test_an_invalid_event_hook_is_refused_when_it_is_defined(
    types: tuple[object, ...], options: dict[str, object], told: str
) -> None:
    with pytest.raises(Rejected) as caught:
        LOOSE_EVENT_HOOK(*types, **options)(heed)
    assert told in caught.value.message


def test_only_functions_become_event_hooks() -> None:
    with pytest.raises(Rejected, match="@on_event must decorate a function, found int"):
        LOOSE_EVENT_HOOK("*")(5)
