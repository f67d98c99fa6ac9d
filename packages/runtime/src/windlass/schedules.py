"""Schedules: runs that start by themselves, once for each tick, also after a crash.

A schedule is a document of the store. The run id of a tick follows from its schedule and its time, so a tick
that is started twice is one run. The decision about a tick is written before the run is started.
"""

import builtins
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from hashlib import sha256
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args
from zoneinfo import ZoneInfo

from windlass.catalog.reading import documents_page
from windlass.errors import AgentError, Conflict, Unavailable
from windlass.limits import (
    SCHEDULE_LATE_MS,
    SCHEDULE_NAME_CHARS_MAX,
    SCHEDULE_TICKS_MAX,
    WAIT_MS_MAX,
    WRITES_MAX,
)
from windlass.ports.clock import Clock
from windlass.ports.documents import SCHEDULE, Document
from windlass.ports.store import Store
from windlass.refusals import (
    bad_request,
    bad_setup,
    check_given,
    check_id,
    check_name,
    check_part,
    too_many_writers,
    unknown_document,
)
from windlass_harness.times import stamp_of
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import (
    JsonObject,
    RunRequest,
    ScheduleInfo,
    ScheduleTick,
    ScheduleTicks,
    SourceKind,
    SourceRef,
)
from windlass_protocol.frozen import frozen

if TYPE_CHECKING:
    from cronsim import CronSim

    from windlass.catalog.reading import Page
    from windlass.runtime.core import Core

Missed: TypeAlias = Literal["skip", "once", "all"]
Overlap: TypeAlias = Literal["skip", "queue", "cancel"]
_DAY_MS: Final = 86_400_000
_RETRY_MS: Final = 10_000
_POLL_MS: Final = 1_000
_DUE_MAX: Final = 1_000
_TICKS_SHOWN: Final = 10
JITTER_S_MAX: Final = 86_400
"""The longest delay of a tick, seconds."""
_SECONDS_MAX: Final = WAIT_MS_MAX // 1_000
_OVER: Final = frozenset(RUN_ENDS.values())
_LOG: Final = logging.getLogger("windlass.runs")


@frozen
class Schedule:
    """When an agent is to be run, and with which message.

    One of `cron`, `every_s` and `at` says when.
    """

    name: str
    agent: str
    """The name of the agent."""
    message: str
    cron: str | None = None
    """A cron expression with five fields, such as `0 3 * * MON-FRI`, or six, with seconds first."""
    every_s: int | None = None
    """Seconds between two ticks, counted from 1970 in UTC: with 3,600 a tick is at each full hour."""
    at: str | None = None
    """One moment, such as `2027-01-01T09:00:00+01:00`; without an offset it is in `timezone`."""
    timezone: str = "UTC"
    """The time zone of `cron` and `at`, such as `Europe/Berlin`."""
    missed: Missed = "once"
    """Which ticks that passed while no process was running are made up for: none, the last one, or all."""
    overlap: Overlap = "skip"
    """What happens at a tick while the run of an earlier one goes on: the tick is skipped or queued, or the
    earlier run is cancelled."""
    jitter_s: int = 0
    """A tick starts up to so many seconds later, always the same for one tick, and before the next tick."""
    session_id: str | None = None
    """The session of all runs; when left out, each run has its own."""
    owner: str | None = None
    """The owner of the sessions."""

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a schedule")
        if len(self.name) > SCHEDULE_NAME_CHARS_MAX:
            raise bad_setup(f"the name of a schedule has at most {SCHEDULE_NAME_CHARS_MAX} characters")
        check_id(self.agent, f"the agent of schedule {self.name}")
        for option in ("message", "cron", "at", "timezone", "session_id", "owner"):
            value = getattr(self, option)
            if value is not None:
                check_given(value, str, what=f"{option} of schedule {self.name}", words="a text")
        if not self.message:
            raise bad_setup(f"the message of schedule {self.name} is empty")
        times = [
            option_name for option_name in ("cron", "every_s", "at") if getattr(self, option_name) is not None
        ]
        if len(times) != 1:
            shown_times = " and ".join(times) or "none"
            raise bad_setup(f"schedule {self.name} needs one of cron, every_s and at, found {shown_times}")
        for option, values in (("missed", Missed), ("overlap", Overlap)):
            if getattr(self, option) not in get_args(values):
                expected = ", ".join(get_args(values))
                raise bad_setup(f"{option} of schedule {self.name} is one of {expected}")
        for option, least, most in (("every_s", 1, _SECONDS_MAX), ("jitter_s", 0, JITTER_S_MAX)):
            value = getattr(self, option)
            if value is not None and (type(value) is not int or not least <= value <= most):
                expected = f"a whole number of seconds from {least} to {most:,}"
                raise bad_setup(f"{option} of schedule {self.name} is {expected}")
        # It reads the expression, the zone and the moment; no tick is looked for.
        self.ticks(0)

    def ticks(self, after_ms: int) -> Iterator[int]:
        """Yield the ticks after a time, in milliseconds since 1970, the earliest first."""
        if self.every_s is not None:
            step = self.every_s * 1_000
            return iter(range(after_ms - after_ms % step + step, after_ms + _DAY_MS * 36_500, step))
        if self.at is not None:
            at_ms = _ms_of(self._moment())
            return iter([at_ms] if at_ms > after_ms else [])
        return self._complete(map(_ms_of, self._cron(_time_of(after_ms))), after_ms)

    def _complete(self, ticks: Iterator[int], after_ms: int) -> Iterator[int]:
        """Yield ticks with those between them that the library finds only backwards.

        Forwards it goes by whole hours, and misses a tick after clocks were set by half an hour.
        """
        for tick_ms in ticks:
            between = takewhile(
                lambda earlier_ms, least=after_ms: earlier_ms > least, self.ticks_back(tick_ms - 1_000)
            )
            yield from [*between][::-1]
            yield tick_ms
            after_ms = tick_ms

    def ticks_back(self, until_ms: int) -> Iterator[int]:
        """Yield the ticks up to and including a time, the latest first."""
        if self.every_s is not None:
            step = self.every_s * 1_000
            return iter(range(until_ms - until_ms % step, -1, -step))
        if self.at is not None:
            at_ms = _ms_of(self._moment())
            return iter([at_ms] if at_ms <= until_ms else [])
        return map(_ms_of, self._cron(_time_of(until_ms) + timedelta(seconds=1), is_back=True))

    def starts_ms(self, tick_ms: int) -> int:
        """Return when a tick is started: its time and its jitter."""
        if not self.jitter_s:
            return tick_ms
        spread = int.from_bytes(sha256(f"{self.name}/{tick_ms}".encode()).digest()[:8]) / 2**64
        # A tick that came after the next one would hold up all ticks between.
        next_ms = next(self.ticks(tick_ms), None)
        most_ms = self.jitter_s * 1_000
        return tick_ms + int(spread * (most_ms if next_ms is None else min(most_ms, next_ms - tick_ms)))

    def run_id(self, tick_ms: int) -> str:
        """Return the id of the run of a tick."""
        return f"schedule:{self.name}:{_time_of(tick_ms):%Y%m%dT%H%M%SZ}"

    def _zone(self) -> tzinfo:
        try:
            return ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError) as error:
            raise bad_setup(
                f"timezone {self.timezone!r} of schedule {self.name} is not known: name one such as "
                "Europe/Berlin; on a system without time zones, install tzdata"
            ) from error

    def _moment(self) -> datetime:
        try:
            at = datetime.fromisoformat(self.at or "")
        except ValueError as error:
            raise bad_setup(
                f"at of schedule {self.name} is a time such as 2027-01-01T09:00:00, found {self.at!r}"
            ) from error
        at = at if at.tzinfo is not None else at.replace(tzinfo=self._zone())
        try:
            return at.astimezone(UTC)
        except OverflowError:
            raise bad_setup(f"at of schedule {self.name} is not within the years 1 to 9999 in UTC") from None

    def _cron(self, time: datetime, *, is_back: bool = False) -> "CronSim":
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only schedules with cron need it

        try:
            return CronSim(self.cron or "", time.astimezone(self._zone()), reverse=is_back)
        except CronSimError as error:
            raise bad_setup(
                f"cron of schedule {self.name} cannot be read: {error} in {self.cron!r}; "
                "it has five fields: minute, hour, day of month, month, day of week"
            ) from error


@frozen
class ScheduleState:
    """The progress of a schedule: the ticks that were decided on, and the last run."""

    until_ms: int
    """All ticks up to this time are decided on."""
    run_id: str | None = None
    """The run of the last tick."""
    tick_ms: int | None = None
    """The last tick that was started."""
    is_starting: bool = False
    """Whether the run of the last tick is still to be started."""
    cancels: str | None = None
    """The run that is cancelled before."""
    queued: tuple[int, ...] = ()
    """Ticks that wait for the run of an earlier one."""
    started: int = 0
    skipped: int = 0
    """Ticks that were not started: missed, or at the time of another run."""
    error: str | None = None
    """Why the last start failed."""
    is_paused: bool = False


def decide(schedule: Schedule, state: ScheduleState, now_ms: int, *, is_busy: bool) -> ScheduleState:
    """Decide on the ticks up to now; `is_busy` says that the run of the last tick goes on.

    At most one tick is to be started afterwards; the others stay in the queue for the next decision.
    """
    back = takewhile(lambda tick_ms: tick_ms > state.until_ms, schedule.ticks_back(now_ms))
    due_ticks = [*islice(back, SCHEDULE_TICKS_MAX)][::-1]
    passed = [*takewhile(lambda tick_ms: schedule.starts_ms(tick_ms) <= now_ms, due_ticks)]
    if schedule.missed == "all":
        due = passed
    else:
        due = [tick_ms for tick_ms in passed if now_ms - schedule.starts_ms(tick_ms) <= SCHEDULE_LATE_MS]
        if schedule.missed == "once" and not due:
            due = passed[-1:]
    queue = [*state.queued, *due]
    skipped = len(passed) - len(due)
    if is_busy and schedule.overlap == "skip":
        skipped, queue = skipped + len(queue), []
    elif is_busy and schedule.overlap == "cancel":
        skipped, queue = skipped + len(queue[:-1]), queue[-1:]
    elif len(queue) > SCHEDULE_TICKS_MAX:
        skipped, queue = skipped + len(queue) - SCHEDULE_TICKS_MAX, queue[-SCHEDULE_TICKS_MAX:]
    until_ms = passed[-1] if passed else state.until_ms
    state = replace(state, until_ms=until_ms, queued=tuple(queue), skipped=state.skipped + skipped)
    if not queue or (is_busy and schedule.overlap == "queue"):
        return state
    first, *rest = queue
    return replace(
        state,
        cancels=state.run_id if is_busy else None,
        queued=tuple(rest),
        tick_ms=first,
        run_id=schedule.run_id(first),
        is_starting=True,
    )


def due_at_ms(schedule: Schedule, state: ScheduleState, now_ms: int) -> int | None:
    """Return when there is something to do; None if never."""
    if state.is_paused:
        return None
    if state.is_starting:
        return now_ms + (_RETRY_MS if state.error else 0)
    if state.queued:
        return now_ms + _POLL_MS
    tick_ms = next(schedule.ticks(state.until_ms), None)
    return None if tick_ms is None else schedule.starts_ms(tick_ms)


@frozen
class _Stored:
    """A schedule as it is in the store."""

    schedule: Schedule
    state: ScheduleState
    revision: int
    due_at_ms: int | None = None

    @classmethod
    def read(cls, document: Document) -> "_Stored":
        spec = cast("dict[str, str]", document.body["schedule"])
        facts = cast("dict[str, object]", document.body["state"])
        state = ScheduleState(**{**facts, "queued": tuple(cast("list[int]", facts["queued"]))})  # pyright: ignore[reportArgumentType] - as `document` wrote them
        return cls(Schedule(**spec), state, document.revision, document.due_at_ms)  # pyright: ignore[reportArgumentType] - as `document` wrote them

    def document(self) -> Document:
        body = cast("JsonObject", {"schedule": asdict(self.schedule), "state": asdict(self.state)})
        return Document(SCHEDULE, self.schedule.name, self.revision, body, self.due_at_ms)

    def after(self, now_ms: int, **changes: object) -> "_Stored":
        """Return the next revision, with changes of the state."""
        state = replace(self.state, **changes)  # pyright: ignore[reportArgumentType] - fields of the state
        due = due_at_ms(self.schedule, state, now_ms)
        return _Stored(self.schedule, state, self.revision + 1, due)

    def info(self) -> ScheduleInfo:
        state = self.state
        return ScheduleInfo.model_validate(
            {
                **{name: value for name, value in asdict(self.schedule).items() if value is not None},
                "is_paused": state.is_paused,
                "next_at": None if self.due_at_ms is None else stamp_of(self.due_at_ms),
                "last_at": None if state.tick_ms is None else stamp_of(state.tick_ms),
                "last_run_id": state.run_id,
                "started": state.started,
                "skipped": state.skipped,
                "queued": len(state.queued),
                "error": state.error,
            }
        )


@frozen
class Starter:
    """The part of a runtime that schedules need."""

    start: Callable[[RunRequest], Awaitable[object]]
    cancel: Callable[[str], Awaitable[None]]
    agents: Callable[[], Collection[str] | None]
    """The agents of this process; None means: any."""
    hide: Callable[[str], str]
    """Masks the secrets in a text."""


class Schedules:
    """The schedules of a store: makes, changes, lists and deletes them, and starts their runs."""

    def __init__(self, store: Store, clock: Clock, starter: Starter) -> None:
        self._store = store
        self._clock = clock
        self._starter = starter

    async def put(self, schedule: Schedule) -> ScheduleInfo:
        """Make a schedule, or replace the one with its name; an equal one stays as it is.

        A replaced schedule keeps its counts and its last run. Its next tick is the first one after now.

        Raises:
            Rejected: it is not a Schedule, or its name cannot be found again.
        """
        check_part(schedule, Schedule, what="a schedule", words="a Schedule")
        if self._starter.hide(check_id(schedule.name, "the name of a schedule")) != schedule.name:
            raise bad_request("the name of the schedule would be masked: it is, or looks like, a secret")
        # A document is as durable as a record, so it must not hold a secret either.
        schedule = replace(schedule, message=self._starter.hide(schedule.message))
        for _ in range(WRITES_MAX):
            before = await self._find(schedule.name)
            if before is not None and before.schedule == schedule:
                return before.info()
            now_ms = self._now_ms()
            if before is None:
                state = ScheduleState(now_ms)
                new = _Stored(schedule, state, 1, due_at_ms(schedule, state, now_ms))
            else:
                until_ms = max(now_ms, before.state.until_ms)
                new = _Stored(schedule, before.state, before.revision).after(
                    now_ms, until_ms=until_ms, queued=()
                )
            if await self._write(new):
                return new.info()
        raise too_many_writers(f"schedule {schedule.name}")

    async def get(self, name: str) -> ScheduleInfo:
        """Return a schedule.

        Raises:
            Conflict: there is none with this name.
        """
        return (await self._existing(name)).info()

    async def ticks(self, name: str) -> ScheduleTicks:
        """Return the next ticks of a schedule and the last ones, each with its run.

        A tick without a run was missed or skipped.

        Raises:
            Conflict: there is none with this name.
        """
        stored = await self._existing(name)
        now_ms, schedule = self._now_ms(), stored.schedule
        decided = stored.state.started + stored.state.skipped + len(stored.state.queued)
        last: builtins.list[ScheduleTick] = []
        for tick_ms in islice(schedule.ticks_back(now_ms), _TICKS_SHOWN):
            row = await self._store.run(schedule.run_id(tick_ms))
            # Ticks from before the schedule was made, or during a pause, were never decided on.
            if row is not None or len(last) < decided:
                facts = {} if row is None else {"runId": row.run_id, "status": row.status}
                last.append(ScheduleTick.model_validate({"at": stamp_of(tick_ms), **facts}))
        ahead = () if stored.state.is_paused else islice(schedule.ticks(now_ms), _TICKS_SHOWN)
        return ScheduleTicks(next=tuple(stamp_of(tick_ms) for tick_ms in ahead), last=tuple(last))

    async def list(
        self, *, owner: str | None = None, after: str | None = None, limit: int = 100
    ) -> "Page[ScheduleInfo]":
        """Return a page of schedules, by name; with an owner, only theirs."""

        def made(document: Document) -> ScheduleInfo | None:
            info = self._info_of(document)
            return info if owner in (None, info.owner) else None

        return await documents_page(self._store, SCHEDULE, made, after=after, limit=limit)

    def _info_of(self, document: Document) -> ScheduleInfo:
        """Return a schedule of a list; one that cannot be read on this machine has an error that says why."""
        try:
            return _Stored.read(document).info()
        except AgentError as failure:
            spec = cast("dict[str, object]", document.body["schedule"])
            state = cast("dict[str, object]", document.body["state"])
            facts = {name: value for name, value in spec.items() if value is not None}
            counts = {name: state[name] for name in ("is_paused", "started", "skipped")}
            error = self._starter.hide(failure.message)
            return ScheduleInfo.model_validate({**facts, **counts, "queued": 0, "error": error})

    async def run_now(self, name: str, *, at: datetime | None = None) -> str:
        """Start a run of a schedule at once, beside its ticks; return the id of the run.

        A second call within the same second is the same run, and so is one with the same `at`. The next tick
        comes as before.

        Raises:
            Conflict: there is no schedule with this name.
            AgentError: the run was refused, or its provider is away.
        """
        stored = await self._existing(name)
        now_ms = self._now_ms() if at is None else _ms_of(at)
        # Ids have whole seconds, and so has the request: otherwise the second one would be another request.
        request = _request(replace(stored, state=replace(stored.state, tick_ms=now_ms - now_ms % 1_000)))
        await self._starter.start(request)
        return request.run_id

    async def pause(self, name: str) -> ScheduleInfo:
        """Stop starting runs; those that go on are not affected.

        Raises:
            Conflict: there is no schedule with this name.
        """
        return await self._change(name, lambda now_ms, before: before.after(now_ms, is_paused=True))

    async def resume(self, name: str) -> ScheduleInfo:
        """Start runs again, from the next tick on: those during the pause are not made up for.

        Raises:
            Conflict: there is no schedule with this name.
        """

        def change(now_ms: int, before: _Stored) -> _Stored:
            if not before.state.is_paused:
                return before
            until_ms = max(now_ms, before.state.until_ms)
            return before.after(now_ms, is_paused=False, until_ms=until_ms, queued=())

        return await self._change(name, change)

    async def delete(self, name: str) -> None:
        """Delete a schedule; its runs stay.

        Raises:
            Conflict: there is no schedule with this name.
        """
        for _ in range(WRITES_MAX):
            before = await self._existing(name)
            try:
                return await self._store.drop_document(before.document())
            except Conflict:
                continue
        raise too_many_writers(f"schedule {name}")

    async def start_due(self) -> None:
        """Start the runs of the ticks that are due."""
        agents = self._starter.agents()
        for document in await self._store.due_documents(SCHEDULE, now_ms=self._now_ms(), limit=_DUE_MAX):
            try:
                stored = _Stored.read(document)
                if agents is None or stored.schedule.agent in agents:
                    await self._advance(stored)
            except AgentError as failure:
                # The others are not held up: this machine may lack a time zone, or the store fails for now.
                self._tell(document.name, failure.message)

    async def start_next(self, name: str) -> None:
        """Start the next tick that waits for the run of a schedule, which has ended."""
        try:
            stored, agents = await self._find(name), self._starter.agents()
            if stored is None or not stored.state.queued or stored.state.is_paused:
                return
            if agents is None or stored.schedule.agent in agents:
                await self._advance(stored)
        except AgentError as failure:
            self._tell(name, failure.message)

    def _tell(self, name: str, problem: str) -> None:
        _LOG.warning("schedule %s could not start its run: %s", name, self._starter.hide(problem))

    async def _advance(self, before: _Stored) -> None:
        """Decide on the ticks of a schedule and start a run; another process may do the same."""
        now_ms, state = self._now_ms(), before.state
        current = before
        if not state.is_starting:
            is_busy = await self._is_busy(state)
            decided = decide(before.schedule, state, now_ms, is_busy=is_busy)
            current = _Stored(before.schedule, decided, before.revision).after(now_ms)
            if not await self._write(current):
                return
            if not decided.is_starting:
                return
        error: str | None = None
        is_starting = False
        try:
            if current.state.cancels is not None:
                await self._starter.cancel(current.state.cancels)
            await self._starter.start(_request(current))
        except AgentError as failure:
            if not await self._is_begun(failure, current.state):
                error, is_starting = self._starter.hide(failure.message), isinstance(failure, Unavailable)
                self._tell(before.schedule.name, error)
        started = current.state.started + (error is None)
        changes = {"is_starting": is_starting, "error": error, "started": started}
        await self._write(current.after(self._now_ms(), **changes))

    async def _is_begun(self, failure: AgentError, state: ScheduleState) -> bool:
        """Whether the run of a tick began before the schedule was replaced, with another request."""
        if not isinstance(failure, Conflict) or state.run_id is None:
            return False
        return await self._store.run(state.run_id) is not None

    async def _is_busy(self, state: ScheduleState) -> bool:
        run = None if state.run_id is None else await self._store.run(state.run_id)
        return run is not None and run.status not in _OVER

    async def _change(self, name: str, change: Callable[[int, _Stored], _Stored]) -> ScheduleInfo:
        for _ in range(WRITES_MAX):
            before = await self._existing(name)
            after = change(self._now_ms(), before)
            if after is before or await self._write(after):
                return after.info()
        raise too_many_writers(f"schedule {name}")

    async def _write(self, stored: _Stored) -> bool:
        """Write a schedule; return False if another process has changed it."""
        try:
            await self._store.put_document(stored.document())
        except Conflict:
            return False
        return True

    async def _find(self, name: str) -> _Stored | None:
        document = await self._store.document(SCHEDULE, name)
        return None if document is None else _Stored.read(document)

    async def _existing(self, name: str) -> _Stored:
        stored = await self._find(check_id(name, "the name of a schedule"))
        if stored is None:
            raise unknown_document("schedule", name)
        return stored

    def _now_ms(self) -> int:
        return _ms_of(self._clock.now())


def schedules_of(core: "Core") -> Schedules:
    """Return the schedules of the store of a runtime."""
    hide = core.ports.scribe.redactor.text
    starter = Starter(core.starts.start, partial(core.cancel, by="schedule"), lambda: core.agents, hide)
    return Schedules(core.store, core.ports.machine.clock, starter)


def _request(stored: _Stored) -> RunRequest:
    """Return the request for the run of the last tick."""
    schedule, state = stored.schedule, stored.state
    assert state.tick_ms is not None, "a tick was decided on"
    return RunRequest(
        run_id=schedule.run_id(state.tick_ms),
        agent_id=schedule.agent,
        input=schedule.message,
        session_id=schedule.session_id,
        owner=schedule.owner,
        source=SourceRef(kind=SourceKind.SCHEDULED_TASK, id=schedule.name),
        metadata={"schedule": schedule.name, "tick": stamp_of(state.tick_ms)},
    )


def _time_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def _ms_of(time: datetime) -> int:
    return int(time.timestamp()) * 1_000 + time.microsecond // 1_000
