"""Helpers of the toolbox tests."""

import asyncio
import os
import select
from collections.abc import Coroutine, Mapping
from itertools import count
from pathlib import Path
from typing import TypeVar, cast

from pydantic import JsonValue

from windlass.engine.tool_calls.approval import maybe_await
from windlass.errors import Rejected
from windlass.toolbox import Workspace
from windlass.tools import Tool
from windlass.tools.calling import arguments_of, run_tool
from windlass.tools.context import CompactionContext, SessionValues, ToolContext, ToolControl, ToolState
from windlass_harness.loop.authored import apply_change
from windlass_protocol import JsonObject

T = TypeVar("T")
STORY_S_MAX = 300.0
SECRET = "the-secret-of-the-outside"
_calls = count(1)
_states: dict[str, JsonObject] = {}
"""The state of the sessions of a test."""


def play(story: Coroutine[object, object, T]) -> T:
    """Run a story to its end, in sessions that keep nothing yet; one that hangs fails."""
    _states.clear()

    async def guarded() -> T:
        async with asyncio.timeout(STORY_S_MAX):
            return await story

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(guarded())


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that may be told that time has passed."""

    passed_s = 0.0

    def time(self) -> float:
        return super().time() + self.passed_s


def let_pass(seconds: float) -> None:
    """Let time pass for everything that the story waits for, as soon as what it waits for has begun."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.passed_s += seconds


class Failed(AssertionError):
    """A call failed; the text is the error for the model."""


async def use(
    tool: Tool[..., object],
    arguments: Mapping[str, object],
    *,
    session: str = "s1",
    control: ToolControl | None = None,
) -> object:
    """Make a call as the runtime does: arguments are checked, failures are raised."""
    try:
        given = arguments_of(tool, cast(JsonValue, dict(arguments)))
    except Rejected as error:
        raise Failed(error.message) from None
    state = ToolState(state_of(session))
    context = ToolContext(session, "r1", f"c{next(_calls)}", state=state, control=control or ToolControl())
    outcome = await run_tool(tool, given.values, context=context)
    if not outcome.result.success:
        raise Failed(outcome.result.error)
    if state.change is not None:
        _states[session] = apply_change(_states[session], state.change)
    return outcome.result.data


def state_of(session: str = "s1") -> JsonObject:
    """The state of a session."""
    return _states.setdefault(session, {})


async def reminders(tool: Tool[..., object], session: str = "s1") -> list[str]:
    """The reminders of a tool after a compaction."""
    assert tool.on_compaction is not None
    context = CompactionContext(session, "r1", agent_id="a", state=SessionValues(state_of(session)))
    return [*await maybe_await(tool.on_compaction(context))]


async def text(tool: Tool[..., object], **arguments: object) -> str:
    """Make a call with a text as its result; `session` names the session of the call."""
    session = str(arguments.pop("session", "s1"))
    told = await use(tool, arguments, session=session)
    assert isinstance(told, str)
    return told


async def gone(pid: int) -> None:
    """Return once a process has ended; the story fails if it never does."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await asyncio.to_thread(select.select, [handle], [], [])
    finally:
        os.close(handle)


def tool_of(workspace: Workspace, name: str) -> Tool[..., object]:
    (found,) = workspace.tools(name)
    return found


def tree(folder: Path) -> dict[str, bytes | str]:
    """Everything in a folder, by path: contents of files, targets of links."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"-> {path.readlink()}"
        elif path.is_file():
            found[str(path)] = path.read_bytes()
        else:
            found[str(path)] = "other"
    return found
