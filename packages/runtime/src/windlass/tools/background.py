"""Tools for work in the background: `wake_me`, and those that list, await, message and cancel jobs.

An agent that has background work gets the tools for jobs by itself. The loop settles their calls; the
functions here are called only where there is no run.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Final, cast

from pydantic import Field, JsonValue

from windlass.limits import WAIT_MS_MAX
from windlass.tools import Tool, ToolFailed, library_tool
from windlass.tools.context import ToolContext
from windlass_harness.loop.notes import CANCEL_JOB, LIST_JOBS, MESSAGE_JOB, WAIT_FOR_JOB
from windlass_protocol import EffectClass, ToolMode

MESSAGE_CHARS_MAX: Final = 100_000
NOTE_CHARS_MAX: Final = 10_000
_NO_RUN: Final = "jobs exist only in a run of an agent"

JobId = Annotated[str, Field(min_length=1, max_length=64)]


async def _list_jobs() -> JsonValue:
    """List your work in the background: the jobs of this conversation, and how far each is."""
    raise ToolFailed(_NO_RUN)


async def _wait_for_job(job: JobId) -> JsonValue:
    """Wait until a job has ended. Its result follows as a message, also if you do not wait.

    Args:
        job: The id of the job, such as job_1.
    """
    raise ToolFailed(_NO_RUN)


async def _message_job(
    job: JobId, message: Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARS_MAX)]
) -> JsonValue:
    """Send a message to a job that an agent works on, for example more facts or a change of the task.

    Args:
        job: The id of the job, such as job_1.
        message: The message.
    """
    raise ToolFailed(_NO_RUN)


async def _cancel_job(job: JobId) -> JsonValue:
    """Cancel a job. What it has done so far stays.

    Args:
        job: The id of the job, such as job_1.
    """
    raise ToolFailed(_NO_RUN)


async def _wake_me(
    ctx: ToolContext,
    note: Annotated[str, Field(min_length=1, max_length=NOTE_CHARS_MAX)],
    after_seconds: Annotated[float, Field(gt=0, le=WAIT_MS_MAX / 1000)] | None = None,
    at: datetime | None = None,
) -> str:
    """Be woken later with a note: end your answer now, and go on when the time has come.

    Args:
        note: What you want to know then; it is all that you are told.
        after_seconds: In how many seconds; 86400 is a day.
        at: Or at which time, with its time zone, such as 2026-01-31T09:00:00+01:00.
    """
    if (after_seconds is None) == (at is None):
        raise ToolFailed("say either after_seconds or at")
    if at is None:
        await ctx.sleep(after_seconds or 0)
    else:
        await ctx.sleep_until(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
    return note


def _job_tool(function: Callable[..., Awaitable[JsonValue]], name: str) -> Tool[..., object]:
    tool = library_tool(function, name=name, mode=ToolMode.READ, effect=EffectClass.READ)
    return tool.with_options(is_outbound=False, use="direct")


job_tools: Final = (
    _job_tool(_list_jobs, LIST_JOBS),
    _job_tool(_wait_for_job, WAIT_FOR_JOB),
    _job_tool(_message_job, MESSAGE_JOB),
    _job_tool(_cancel_job, CANCEL_JOB),
)
"""Tools of an agent that has background work, which it gets by itself."""


def wake_me_tool() -> Tool[..., object]:
    """Return a tool that lets a model sleep: its run ends, and a turn of the session begins at the time."""
    tool = library_tool(
        _wake_me, name="wake_me", mode=ToolMode.READ, effect=EffectClass.READ, background=True
    )
    return cast("Tool[..., object]", tool.with_options(is_outbound=False))
