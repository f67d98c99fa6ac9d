"""Routes of schedules: make, list, read, pause, resume, delete."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

import windlass_protocol as wire
from windlass import Conflict, Rejected, Schedule
from windlass_protocol import ScheduleInfo, SchedulePage
from windlass_server.models import NewSchedule, PageDep
from windlass_server.openapi import SCHEDULE_EXAMPLE, answers, body_example
from windlass_server.problems import Problem, not_found
from windlass_server.requests import PREFIX, Caller, CallerDep, agent_for, reply
from windlass_server.routing import Route

router = APIRouter(prefix=PREFIX, tags=["schedules"], route_class=Route)
Name = Annotated[str, Path(min_length=1, max_length=128, description="A schedule.", examples=["nightly"])]


async def _own(caller: Caller, name: str) -> ScheduleInfo | None:
    """Return a schedule of the caller; None if there is none with this name.

    Raises:
        Problem: it belongs to another user.
    """
    try:
        found = await caller.tenant.runtime.schedules.get(name)
    except (Conflict, Rejected):  # no schedule can have a name with control characters
        return None
    if found.owner != caller.principal.user:
        raise not_found("schedule")
    return found


@router.get(
    "/schedules",
    response_model=SchedulePage,
    responses=answers(200, {"schedules": [SCHEDULE_EXAMPLE]}, 400),
    summary="Your schedules",
)
async def list_schedules(caller: CallerDep, page: PageDep) -> Response:
    """Return your schedules by name, with their next and last ticks."""
    found = await caller.tenant.runtime.schedules.list(
        owner=caller.principal.user, after=page.after, limit=page.limit
    )
    return reply(SchedulePage(schedules=found.items, next=found.next))


@router.post(
    "/schedules/{name}",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE, 404, 409, has_body=True),
    summary="Make or replace a schedule",
)
async def put(
    *,
    caller: CallerDep,
    name: Name,
    wanted: Annotated[
        NewSchedule,
        body_example(
            cron={"agent": "clerk", "message": "Write the report.", "cron": "0 3 * * *", "timezone": "UTC"},
            interval={"agent": "clerk", "message": "Look for mail.", "everyS": 300},
        ),
    ],
) -> Response:
    """Make a schedule that runs an agent for you, or replace yours with this name.

    An equal schedule stays as it is.
    """
    agent_for(caller, wanted.agent)
    try:
        await _own(caller, name)
    except Problem:
        raise Problem(409, "the name is taken by another user: choose another") from None
    given = {key: getattr(wanted, key) for key in wire.NewSchedule.model_fields}
    schedule = Schedule(
        name, owner=caller.principal.user, **{key: value for key, value in given.items() if value is not None}
    )
    return reply(await caller.tenant.runtime.schedules.put(schedule))


@router.get(
    "/schedules/{name}",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE, 404),
    summary="A schedule",
)
async def get(caller: CallerDep, name: Name) -> Response:
    """Return a schedule with its next and last ticks."""
    return reply(await _known(caller, name))


@router.post(
    "/schedules/{name}/pause",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE, 404),
    summary="Pause a schedule",
)
async def pause(caller: CallerDep, name: Name) -> Response:
    """Start no further runs; those that go on are not affected."""
    await _known(caller, name)
    return reply(await caller.tenant.runtime.schedules.pause(name))


@router.post(
    "/schedules/{name}/resume",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE, 404),
    summary="Resume a schedule",
)
async def resume(caller: CallerDep, name: Name) -> Response:
    """Start runs again, from the next tick on."""
    await _known(caller, name)
    return reply(await caller.tenant.runtime.schedules.resume(name))


@router.delete(
    "/schedules/{name}",
    response_model=ScheduleInfo,
    responses=answers(200, SCHEDULE_EXAMPLE, 404),
    summary="Delete a schedule",
)
async def delete(caller: CallerDep, name: Name) -> Response:
    """Delete a schedule; its runs stay."""
    found = await _known(caller, name)
    await caller.tenant.runtime.schedules.delete(name)
    return reply(found)


async def _known(caller: Caller, name: str) -> ScheduleInfo:
    found = await _own(caller, name)
    if found is None:
        raise not_found("schedule")
    return found
