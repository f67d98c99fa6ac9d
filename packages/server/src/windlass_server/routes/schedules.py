"""Routes of schedules: make, list, read, pause, resume, delete."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Response

import windlass_protocol as wire
from windlass import Schedule
from windlass.limits import SCHEDULE_NAME_CHARS_MAX
from windlass_protocol import AcceptedRun, Deleted, ScheduleInfo, SchedulePage, ScheduleTicks
from windlass_server.generated.bodies import NewSchedule
from windlass_server.openapi import SCHEDULE_EXAMPLE, answers, body_example
from windlass_server.problems import Problem
from windlass_server.requests import (
    PREFIX,
    SCOPE_CHARS,
    Caller,
    CallerDep,
    OwnSchedule,
    PageDep,
    accepted,
    agent_for,
    find_schedule,
    reply,
    scope_name,
    unscope_name,
)
from windlass_server.routing import Route
from windlass_server.settings import SCHEDULES_MAX

router = APIRouter(prefix=PREFIX, tags=["schedules"], route_class=Route)
_NAME_CHARS_MAX: Final = SCHEDULE_NAME_CHARS_MAX - SCOPE_CHARS - 1
_MADE: Final = re.compile(r"[:/]")
"""Ids of sessions that webhooks, schedules and experiments make have one of these."""


@router.get(
    "/schedules",
    response_model=SchedulePage,
    responses=answers(200, {"schedules": [SCHEDULE_EXAMPLE]}),
)
async def list_schedules(caller: CallerDep, page: PageDep) -> Response:
    """Return your schedules by name, with their next and last ticks."""
    listed = await caller.tenant.runtime.schedules.list(
        owner=caller.principal.user, after=page.after, limit=page.limit
    )
    schedules = tuple(_with_given_name(caller, schedule) for schedule in listed.items)
    return reply(SchedulePage(schedules=schedules, next=listed.next))


def _with_given_name(caller: Caller, schedule: ScheduleInfo) -> ScheduleInfo:
    """Return a schedule with the name that its user gave."""
    return schedule.model_copy(update={"name": unscope_name(caller, schedule.name)})


@router.post(
    "/schedules",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE),
)
async def put(
    *,
    caller: CallerDep,
    body: Annotated[
        NewSchedule,
        body_example(
            cron={"name": "nightly", "agent": "clerk", "message": "Write the report.", "cron": "0 3 * * *"},
            interval={"name": "mail", "agent": "clerk", "message": "Look for mail.", "everyS": 300},
        ),
    ],
) -> Response:
    """Make a schedule that runs an agent for you, or replace yours with this name."""
    agent_for(caller, body.agent)
    if len(body.name) > _NAME_CHARS_MAX:
        raise Problem(400, f"name: at most {_NAME_CHARS_MAX} characters, found {len(body.name)}")
    user, schedules = caller.principal.user, caller.tenant.runtime.schedules
    before = await find_schedule(caller, body.name)
    if before is None and len((await schedules.list(owner=user, limit=SCHEDULES_MAX)).items) >= SCHEDULES_MAX:
        raise Problem(409, f"you have {SCHEDULES_MAX} schedules: delete one first")
    values = {name: getattr(body, name) for name in wire.NewSchedule.model_fields}
    values["name"] = scope_name(caller, body.name) if before is None else before.name
    values["session_id"] = await _session_for(caller, body.session_id)
    schedule = Schedule(**{name: value for name, value in values.items() if value is not None}, owner=user)
    return reply(_with_given_name(caller, await schedules.put(schedule)))


async def _session_for(caller: Caller, session_id: str | None) -> str | None:
    """Return the session of a schedule: one of the user, or a new one.

    The id of a new one is scoped, so the user does not learn whether others have a session with the id that
    was given.

    Raises:
        Problem: the user has no such session, and its id is one that others make, such as a webhook for the
            thread of a channel; 400.
    """
    if session_id is None or await caller.sessions.find(session_id) is not None:
        return session_id
    if _MADE.search(session_id):
        raise Problem(
            400, "sessionId: a new session has an id without : and /, and there is none with this id"
        )
    return scope_name(caller, unscope_name(caller, session_id))


@router.get(
    "/schedules/{schedule_id:path}",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE),
)
async def get(caller: CallerDep, schedule: OwnSchedule) -> Response:
    """Return a schedule with its next and last ticks."""
    return reply(_with_given_name(caller, schedule))


@router.get(
    "/schedules/{schedule_id:path}/ticks",
    response_model=ScheduleTicks,
    responses=answers(
        200,
        {
            "next": ["2026-01-02T03:00:00.000Z"],
            "last": [{"at": "2026-01-01T03:00:00.000Z", "runId": "019a8f…", "status": "completed"}],
        },
    ),
)
async def ticks(caller: CallerDep, schedule: OwnSchedule) -> Response:
    """Return up to ten ticks that come next, and the last ten with their runs; a skipped tick has none."""
    return reply(await caller.tenant.runtime.schedules.ticks(schedule.name))


@router.post(
    "/schedules/{schedule_id:path}/pause",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE),
)
async def pause(caller: CallerDep, schedule: OwnSchedule) -> Response:
    """Start no further runs; those that go on are not affected."""
    return reply(_with_given_name(caller, await caller.tenant.runtime.schedules.pause(schedule.name)))


@router.post(
    "/schedules/{schedule_id:path}/resume",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE),
)
async def resume(caller: CallerDep, schedule: OwnSchedule) -> Response:
    """Start runs again, from the next tick on."""
    return reply(_with_given_name(caller, await caller.tenant.runtime.schedules.resume(schedule.name)))


@router.post(
    "/schedules/{schedule_id:path}/run",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(
        202,
        {
            "sessionId": "session:schedule:nightly:20260101T093000Z",
            "runId": "schedule:nightly:20260101T093000Z",
        },
    ),
)
async def run(caller: CallerDep, schedule: OwnSchedule) -> Response:
    """Start a run at once, beside the ticks; a second request within the same second is the same run."""
    run_id = await caller.tenant.runtime.schedules.run_now(schedule.name, at=caller.now())
    return accepted(schedule.session_id or f"session:{run_id}", run_id)


@router.delete(
    "/schedules/{schedule_id:path}",
    response_model=Deleted,
    responses=answers(200, {"deleted": ["nightly"]}),
)
async def delete(caller: CallerDep, schedule: OwnSchedule) -> Response:
    """Delete a schedule; its runs stay."""
    await caller.tenant.runtime.schedules.delete(schedule.name)
    return reply(Deleted(deleted=(unscope_name(caller, schedule.name),)))
