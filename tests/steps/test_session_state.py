"""ctx.state in steps: state changes of tools are in the returned session."""

from tests.steps.steps_rig import Stage, inside, play

from windlass.limits import STATE_VALUE_BYTES_MAX
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.toolbox import todo_reminder, todo_tool
from windlass.tools import ToolFailed, tool
from windlass.tools.context import STEPS_KEY, ToolContext
from windlass_harness.loop.authored import STATE_TOO_LARGE
from windlass_protocol import JsonValue

LIST: JsonValue = [{"id": "1", "text": "write it"}]


@tool(mode="safe_write")
async def keep(ctx: ToolContext, key: str, *, fails: bool = False, parts: int = 0) -> list[str]:
    """Keep something."""
    seen = sorted(ctx.state)
    ctx.state[key] = True
    for number in range(parts):
        ctx.state[f"part {number}"] = "x" * (STATE_VALUE_BYTES_MAX - 32)
    if fails:
        raise ToolFailed("no")
    return seen


def sent(*answers: Answer) -> Stage:
    """A stage after a message; every step was another process."""
    stage = Stage(keeps=lambda steps: False)
    stage.harness(ScriptedModel([*answers]), tools={"keep": keep, "todo": todo_tool()})
    play(stage.send("go"), stage)
    return stage


def test_state_of_calls_is_in_the_session_beside_the_state_of_the_steps() -> None:
    stage = sent(call("keep", {"key": "a"}), call("keep", {"key": "b"}), say("done"))
    assert stage.session.state is not None
    assert stage.session.state.keys() == {"a", "b", STEPS_KEY}
    outputs = [event.data["result"] for event in stage.events if event.type == "action.result"]
    assert [inside(one, "output") for one in outputs] == [[], ["a"]]


def test_a_call_that_fails_or_does_not_fit_keeps_nothing() -> None:
    stage = sent(
        call("keep", {"key": "a", "fails": True}), call("keep", {"key": "b", "parts": 5}), say("done")
    )
    assert stage.session.state is not None
    assert stage.session.state.keys() == {STEPS_KEY}
    failed = [event.data["error"] for event in stage.events if event.type == "action.result"]
    assert inside(failed[1], "code") == STATE_TOO_LARGE


def test_the_list_of_a_session_can_be_shown_again_by_its_driver() -> None:
    stage = sent(call("todo", {"items": LIST}), say("done"))
    assert todo_reminder(stage.session.state or {}) == "Your to-do list as it stands:\n[ ] 1: write it"
