"""Schedules: one run for each tick, whatever crashes and however clocks are set."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import Agent, AgentRuntime, Schedule, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.policy import allow_start
from windlass.engine.driving.engine import SWEEP_S
from windlass.errors import Ambiguous, Conflict, Denied, Rejected, Unavailable
from windlass.feed import Feed
from windlass.limits import SCHEDULE_LATE_MS, SCHEDULE_TICKS_MAX
from windlass.ports.documents import SCHEDULE, Document
from windlass.ports.host import StartPolicy
from windlass.ports.listing import RunFilter, SessionFilter
from windlass.ports.machine import Machine
from windlass.schedules import Schedules, ScheduleState, Starter, decide
from windlass.testing import (
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.testing.stores import FaultRates, FaultyStore
from windlass_protocol import (
    ErrorKind,
    PolicyDecision,
    RetryClass,
    RunRequest,
    RunStatus,
    RuntimePackage,
    SourceKind,
)

HOUR_S, DAY_S = 3_600, 86_400
SECRET = "sesame"
LOOSE: Any = Schedule
HOURLY = Schedule("hourly", agent="clerk", message="go", every_s=HOUR_S)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def texts(ticks: Iterable[int], count: int = 3) -> list[str]:
    return [f"{datetime.fromtimestamp(one / 1_000, UTC):%m-%dT%H:%M}" for one in islice(ticks, count)]


def cron(expression: str, timezone: str = "Europe/Berlin") -> Schedule:
    return Schedule("one", agent="clerk", message="go", cron=expression, timezone=timezone)


# ticks


@pytest.mark.parametrize(
    ("expression", "after", "found"),
    [
        # Berlin is an hour before UTC in winter, and two in summer.
        ("30 9 * * *", "2026-01-31T08:30", ["02-01T08:30", "02-02T08:30", "02-03T08:30"]),
        # 2:30 does not exist on 29 March: it is made up for at once.
        ("30 2 * * *", "2026-03-28T02:00", ["03-29T01:00", "03-30T00:30", "03-31T00:30"]),
        # 2:30 is there twice on 25 October: once is enough.
        ("30 2 * * *", "2026-10-24T01:00", ["10-25T00:30", "10-26T01:30", "10-27T01:30"]),
        ("0 * * * *", "2026-10-24T23:30", ["10-25T00:00", "10-25T01:00", "10-25T02:00"]),
        ("0 12 * * MON-FRI", "2026-11-13T11:00", ["11-16T11:00", "11-17T11:00", "11-18T11:00"]),
    ],
)
def test_cron_goes_by_the_clock_of_its_time_zone(expression: str, after: str, found: list[str]) -> None:
    schedule = cron(expression)
    assert texts(schedule.ticks(ms(after))) == found
    last = next(islice(schedule.ticks(ms(after)), 2, None))
    back = [*islice(schedule.ticks_back(last), 3)][::-1]
    assert texts(back) == found


@pytest.mark.parametrize(
    ("after", "found"),
    [
        # Lord Howe sets its clocks by half an hour: from +11:00 to +10:30 in April, and back in October.
        ("2026-04-04T13:00", ["04-04T13:15", "04-04T17:45", "04-04T21:45"]),
        ("2026-10-03T13:00", ["10-03T13:45", "10-03T17:15", "10-03T21:15"]),
    ],
)
def test_no_tick_is_missed_when_clocks_are_set_by_half_an_hour(after: str, found: list[str]) -> None:
    schedule = cron("15 */4 * * *", "Australia/Lord_Howe")
    assert texts(schedule.ticks(ms(after))) == found
    first, second = islice(schedule.ticks(ms(after)), 2)
    assert next(schedule.ticks(first)) == second, "also one at a time, as the next tick is looked for"


def test_an_interval_is_counted_from_1970_and_a_moment_comes_once() -> None:
    assert texts(HOURLY.ticks(ms("2026-01-01T00:00"))) == ["01-01T01:00", "01-01T02:00", "01-01T03:00"]
    assert texts(HOURLY.ticks_back(ms("2026-01-01T02:00")), 2) == ["01-01T02:00", "01-01T01:00"]
    once = Schedule("one", agent="clerk", message="go", at="2026-07-01T09:00:00", timezone="Europe/Berlin")
    assert texts(once.ticks(0)) == ["07-01T07:00"]
    assert [*once.ticks(ms("2026-07-01T07:00"))] == []
    assert [*once.ticks_back(ms("2026-07-01T06:59"))] == []
    assert texts(replace(once, at="2026-07-01T09:00:00+00:00").ticks_back(2**42)) == ["07-01T09:00"]


@given(st.integers(0, 2**41), st.integers(0, 600))
def test_jitter_is_within_its_limit_and_always_the_same(tick_ms: int, jitter_s: int) -> None:
    schedule = replace(HOURLY, jitter_s=jitter_s)
    assert 0 <= schedule.starts_ms(tick_ms) - tick_ms <= jitter_s * 1_000
    assert schedule.starts_ms(tick_ms) == replace(schedule, message="other").starts_ms(tick_ms)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs one of cron, every_s and at, found none"),
        ({"cron": "* * * * *", "every_s": 5}, "found cron and every_s"),
        ({"cron": "61 * * * *"}, "Bad minute in '61 \\* \\* \\* \\*'; it has five fields"),
        ({"cron": "* * *"}, "Wrong number of fields"),
        ({"every_s": 0}, "every_s of schedule s is a whole number of seconds from 1"),
        ({"every_s": 1.5}, "whole number"),
        ({"every_s": 5, "jitter_s": -1}, "jitter_s of schedule s"),
        (
            {"every_s": 5, "jitter_s": 86_401},
            "jitter_s of schedule s is a whole number of seconds from 0 to 86,400",
        ),
        ({"at": "tomorrow"}, "at of schedule s is a time such as 2027-01-01T09:00:00, found 'tomorrow'"),
        ({"at": "9999-12-31T23:00:00-14:00"}, "at of schedule s is not within the years 1 to 9999"),
        ({"cron": "* * * * *", "timezone": "Berlin"}, "timezone 'Berlin' of schedule s is not known"),
        ({"cron": "* * * * *", "timezone": "../etc/passwd"}, "is not known"),
        ({"every_s": 5, "missed": "some"}, "missed of schedule s is one of skip, once, all"),
        ({"every_s": 5, "overlap": "x"}, "overlap of schedule s is one of skip, queue, cancel"),
        ({"every_s": 5, "agent": ""}, "agent of schedule s"),
        ({"every_s": 10**30}, "from 1 to"),
        ({"every_s": 5, "message": ""}, "the message of schedule s is empty"),
        ({"every_s": 5, "message": 3}, "message of schedule s must be a text"),
        ({"every_s": 5, "name": "n" * 129}, "at most 128 characters"),
        ({"cron": 5}, "cron of schedule s must be a text"),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, "at of schedule s must be a text"),
        ({"cron": "* * * * *", "timezone": 5}, "timezone of schedule s must be a text"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        LOOSE(**{"name": "s", "agent": "clerk", "message": "go", **options})


# decisions


def decided(schedule: Schedule, late_s: float, *, is_busy: bool = False, ticks: int = 3) -> ScheduleState:
    """Decide on ticks of which the last was so long ago."""
    until_ms = ms("2026-01-01T00:00")
    now_ms = until_ms + ticks * HOUR_S * 1_000 + int(late_s * 1_000)
    before = ScheduleState(until_ms, run_id="before", tick_ms=until_ms)
    return decide(schedule, before, now_ms, is_busy=is_busy)


@pytest.mark.parametrize(
    ("missed", "late_s", "started", "queued", "skipped"),
    [
        ("skip", 0, "03", 0, 2),
        ("skip", SCHEDULE_LATE_MS / 1_000 + 1, None, 0, 3),
        ("once", 0, "03", 0, 2),
        ("once", 1_000, "03", 0, 2),
        ("all", 1_000, "01", 2, 0),
    ],
)
def test_missed_ticks(missed: Any, late_s: float, started: str | None, queued: int, skipped: int) -> None:
    state = decided(replace(HOURLY, missed=missed), late_s)
    assert state.is_starting == (started is not None)
    assert state.run_id == (f"schedule:hourly:20260101T{started}0000Z" if started else "before")
    assert (len(state.queued), state.skipped) == (queued, skipped)
    assert state.until_ms == ms("2026-01-01T03:00")


@pytest.mark.parametrize(
    ("overlap", "started", "queued", "skipped", "cancels"),
    [("skip", None, 0, 3, None), ("queue", None, 3, 0, None), ("cancel", "03", 0, 2, "before")],
)
def test_ticks_during_a_run(
    overlap: Any, started: str | None, queued: int, skipped: int, cancels: str | None
) -> None:
    state = decided(replace(HOURLY, missed="all", overlap=overlap), 5, is_busy=True)
    assert state.run_id == (f"schedule:hourly:20260101T{started}0000Z" if started else "before")
    assert (len(state.queued), state.skipped, state.cancels) == (queued, skipped, cancels)


def test_a_queue_has_a_limit() -> None:
    state = decided(replace(HOURLY, missed="all", overlap="queue"), 0, is_busy=True, ticks=1_000)
    assert len(state.queued) == SCHEDULE_TICKS_MAX
    later = decide(replace(HOURLY, overlap="queue"), state, state.until_ms + HOUR_S * 1_000, is_busy=True)
    assert (len(later.queued), later.skipped) == (SCHEDULE_TICKS_MAX, 1)
    assert later.queued[-1] == later.until_ms


def test_a_jitter_beyond_the_interval_holds_up_no_tick() -> None:
    schedule, now_ms = replace(HOURLY, every_s=1, jitter_s=HOUR_S), ms("2026-01-01T00:00")
    state = ScheduleState(now_ms)
    started: list[int | None] = []
    for second in range(1, 1_000):
        state = decide(schedule, state, now_ms + second * 1_000, is_busy=False)
        started += [state.tick_ms] if state.is_starting else []
        state = replace(state, is_starting=False)
    assert started == [now_ms + second * 1_000 for second in range(1, 999)]


def test_a_tick_waits_for_its_jitter() -> None:
    schedule = replace(HOURLY, jitter_s=600)
    tick_ms = ms("2026-01-01T01:00")
    before = ScheduleState(tick_ms - 1)
    assert decide(schedule, before, schedule.starts_ms(tick_ms) - 1, is_busy=False) == before
    assert decide(schedule, before, schedule.starts_ms(tick_ms), is_busy=False).tick_ms == tick_ms


# the store


class Kept(MemoryStore):
    """A store that outlives its runtimes."""

    async def aclose(self) -> None:
        pass


def hide(text: str) -> str:
    return text.replace(SECRET, "***")


class Desk:
    """A store with schedules, and a list of what they started."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.clock, self.store = FakeClock(), store or MemoryStore()
        self.started: list[RunRequest] = []
        self.failure: Exception | None = None
        self.agents: Sequence[str] | None = None
        self.schedules = Schedules(
            self.store, self.clock, Starter(self._start, self._cancel, lambda: self.agents, hide)
        )

    async def _start(self, request: RunRequest) -> None:
        self.started.append(request)
        if self.failure is not None:
            raise self.failure

    async def _cancel(self, run_id: str) -> None:
        raise AssertionError(run_id)

    async def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.schedules.start_due()

    def ids(self) -> list[str]:
        return [one.run_id for one in self.started]


def test_a_schedule_is_made_listed_changed_paused_and_deleted() -> None:
    async def story() -> None:
        desk = Desk()
        schedules = desk.schedules
        made = await schedules.put(HOURLY)
        assert made.next_at == "2026-01-01T01:00:00.000Z"
        assert await schedules.put(HOURLY) == made == await schedules.get("hourly")
        await desk.after(HOUR_S)
        changed = await schedules.put(replace(HOURLY, every_s=DAY_S))
        assert (changed.next_at, changed.started) == ("2026-01-02T00:00:00.000Z", 1)
        await schedules.put(replace(HOURLY, name="another"))
        assert [one.name for one in (await schedules.list()).items] == ["another", "hourly"]
        paused = await schedules.pause("hourly")
        assert (paused.next_at, paused.is_paused) == (None, True)
        await desk.after(3 * DAY_S)
        resumed = await schedules.resume("hourly")
        assert resumed.next_at == "2026-01-05T00:00:00.000Z", "ticks during a pause are not made up for"
        assert await schedules.resume("hourly") == resumed
        assert [one for one in desk.ids() if ":hourly:" in one] == ["schedule:hourly:20260101T010000Z"]
        await schedules.delete("hourly")
        for ask in (schedules.get, schedules.pause, schedules.resume, schedules.delete):
            with pytest.raises(Conflict, match="unknown schedule: hourly"):
                await ask("hourly")

    asyncio.run(story())


def test_a_start_that_fails_is_tried_again_only_if_that_can_help() -> None:
    async def story() -> None:
        desk = Desk()
        await desk.schedules.put(HOURLY)
        facts: Any = {"kind": ErrorKind.PROVIDER_FAILURE, "retry": RetryClass.RETRYABLE}
        desk.failure = Unavailable("no model", **facts)
        await desk.after(HOUR_S)
        await desk.after(5)
        assert (len(desk.started), (await desk.schedules.get("hourly")).error) == (1, "no model")
        desk.failure = Denied("not today", **facts)
        await desk.after(5)
        assert desk.ids() == ["schedule:hourly:20260101T010000Z"] * 2
        await desk.after(60)
        found = await desk.schedules.get("hourly")
        assert (found.error, found.next_at) == ("not today", "2026-01-01T02:00:00.000Z")
        desk.failure = None
        await desk.after(HOUR_S)
        assert (await desk.schedules.get("hourly")).error is None
        assert len(desk.started) == 3

    asyncio.run(story())


def test_neither_the_message_nor_the_error_of_a_schedule_keeps_a_secret() -> None:
    async def story() -> None:
        desk = Desk()
        made = await desk.schedules.put(replace(HOURLY, message=f"open {SECRET}"))
        assert made.message == "open ***"
        assert await desk.schedules.put(replace(HOURLY, message=f"open {SECRET}")) == made
        facts: Any = {"kind": ErrorKind.POLICY_DENIAL, "retry": RetryClass.NOT_RETRYABLE}
        desk.failure = Denied(f"not with {SECRET}", **facts)
        await desk.after(HOUR_S)
        found = await desk.schedules.get("hourly")
        assert (found.error, found.started) == ("not with ***", 0)
        assert SECRET not in str(await desk.store.documents(SCHEDULE))

    asyncio.run(story())


def test_a_schedule_that_cannot_be_read_here_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        desk = Desk()
        for name in ("early", "later"):
            await desk.schedules.put(replace(HOURLY, name=name))
        stored = await desk.store.document(SCHEDULE, "early")
        assert stored is not None
        spec: Any = stored.body["schedule"]
        # A machine without this time zone.
        spec["timezone"] = "Europe/Atlantis"
        spec["cron"], spec["every_s"] = "0 * * * *", None
        await desk.store.put_document(replace(stored, revision=stored.revision + 1))
        await desk.after(HOUR_S)
        assert desk.ids() == ["schedule:later:20260101T010000Z"]
        early, later = (await desk.schedules.list()).items
        assert (early.name, later.name, later.error) == ("early", "later", None)
        assert "timezone 'Europe/Atlantis' of schedule early is not known" in str(early.error)

    with caplog.at_level("WARNING", "windlass.runs"):
        asyncio.run(story())
    assert "schedule early could not start its run: timezone 'Europe/Atlantis'" in caplog.text


def test_a_run_that_began_before_its_schedule_was_replaced_counts_as_started() -> None:
    async def story() -> None:
        office = Office()
        async with office.runtime() as runtime:
            await runtime.schedules.put(HOURLY)
            stored = await office.store.document(SCHEDULE, "hourly")
            assert stored is not None
            # The process died after the start and before it was noted; then the message was changed.
            tick_ms = next(HOURLY.ticks(ms_now(office.clock)))
            state: Any = stored.body["state"]
            facts = {**state, "tick_ms": tick_ms, "is_starting": True}
            run_id = HOURLY.run_id(tick_ms)
            await (await runtime.start_run("clerk", "go", run_id=run_id)).wait()
            body = {**stored.body, "state": {**facts, "run_id": run_id}}
            await office.store.put_document(replace(stored, revision=2, body=body, due_at_ms=0))
            await runtime.schedules.put(replace(HOURLY, message="go on"))
            await runtime.schedules.start_due()
            found = await runtime.schedules.get("hourly")
            assert (found.started, found.error, found.last_run_id) == (1, None, run_id)

    asyncio.run(story())


def test_a_schedule_is_run_at_once_beside_its_ticks() -> None:
    async def story() -> None:
        desk = Desk()
        made = await desk.schedules.put(HOURLY)
        desk.clock.advance(90)
        run_id = await desk.schedules.run_now("hourly")
        desk.clock.advance(0.9)
        assert run_id == await desk.schedules.run_now("hourly") == "schedule:hourly:20260101T000130Z"
        assert await desk.schedules.get("hourly") == made, "the next tick comes as before"
        await desk.after(HOUR_S)
        assert desk.ids() == [run_id, run_id, "schedule:hourly:20260101T010000Z"]
        assert desk.started[0] == desk.started[1], "another request with the same id would be refused"
        with pytest.raises(Conflict, match="unknown schedule: ghost"):
            await desk.schedules.run_now("ghost")

    asyncio.run(story())


def test_a_schedule_of_another_process_is_left_to_it() -> None:
    async def story() -> None:
        desk = Desk()
        desk.agents = ["other"]
        await desk.schedules.put(HOURLY)
        await desk.after(HOUR_S)
        assert desk.started == []
        desk.agents = ["clerk"]
        await desk.after(0)
        assert len(desk.started) == 1

    asyncio.run(story())


class Crash(BaseException):
    """A process was killed."""


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
CRONS = ("0 3 * * *", "30 2 * * *", "15 */4 * * *", "0 0 1 * *", "45 1 * * SUN", "0 9-17/2 * * MON-FRI")


def made(random: Random, count: int) -> list[Schedule]:
    """Return schedules of all kinds that start every tick."""
    found: list[Schedule] = []
    for number in range(count):
        when: dict[str, Any] = random.choice(
            [
                {"cron": random.choice(CRONS), "timezone": random.choice(ZONES)},
                {"every_s": random.choice([HOUR_S, 5 * HOUR_S, DAY_S + 60])},
                {"at": f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}T02:30:00"},
            ]
        )
        when |= {"jitter_s": random.choice([0, 0, 900]), "missed": "all", "overlap": "queue"}
        found.append(Schedule(f"s{number}", agent="clerk", message="go", **when))
    return found


async def live(seed: int, *, count: int, days: int) -> None:
    """Live through days with two processes that crash, a store that fails and clocks that are set."""
    random = Random(seed)
    clock, store = FakeClock(), MemoryStore()
    runs: dict[str, RunRequest] = {}

    async def start(request: RunRequest) -> None:
        chance = random.random()
        if chance < 0.05:
            raise Crash
        assert runs.setdefault(request.run_id, request) == request
        if chance > 0.95:
            raise Crash

    async def cancel(run_id: str) -> None:
        raise AssertionError(run_id)

    starter = Starter(start, cancel, lambda: None, hide)
    rates = FaultRates(refuse=0.02, lose=0.02, hide=0.02, slow=0)
    faulty = FaultyStore(store, random=random.random, clock=clock, rates=rates)
    schedules = made(random, count)
    for schedule in schedules:
        await Schedules(store, clock, starter).put(schedule)
    first_ms = last_ms = ms_now(clock)

    async def look() -> None:
        nonlocal last_ms
        last_ms = max(last_ms, ms_now(clock))
        with suppress(Crash, Unavailable, Ambiguous):
            await Schedules(faulty, clock, starter).start_due()

    for _ in range(days * 24):
        clock.advance(HOUR_S)
        if random.random() < 0.02:
            clock.jump(random.choice([-DAY_S, -HOUR_S, HOUR_S, DAY_S / 2]))
        for _ in range(random.choice([0, 4, 12])):
            await asyncio.gather(*(look() for _ in range(random.randrange(3))))
            clock.advance(2)
    clock.advance(max(0, last_ms - ms_now(clock)) / 1_000)
    faulty.is_faulty = False
    while await is_behind(store, ms_now(clock)):
        await look()
        clock.advance(11)
    ticks = {
        one.run_id(tick)
        for one in schedules
        for tick in takewhile(lambda tick: tick <= last_ms, one.ticks(first_ms))
        if one.starts_ms(tick) <= last_ms
    }
    assert runs.keys() == ticks, f"seed {seed}"


def ms_now(clock: FakeClock) -> int:
    return round(clock.now().timestamp() * 1_000)


async def is_behind(store: MemoryStore, last_ms: int) -> bool:
    return any((one.due_at_ms or last_ms + 1) <= last_ms for one in await store.documents(SCHEDULE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_each_tick_is_started_once_through_crashes_clock_jumps_and_daylight_changes(seed: int) -> None:
    asyncio.run(live(seed, count=6, days=110 * (1 + seed)))


# a runtime


class Office:
    """Runtimes on one store, with an agent that takes its time."""

    def __init__(self, *, work_s: float = 0, policy: StartPolicy = allow_start) -> None:
        self.clock, self.store = FakeClock(), Kept()
        self.policy = policy

        @tool(mode="read", timeout=DAY_S * 1_000 / 1_000)
        async def work() -> str:
            """Take some time."""
            await self.clock.sleep(work_s)
            return "worked"

        self.agent = Agent(
            "clerk", model=ScriptedModel(by_history([call("work"), say("done")])), tools=[work]
        )

    def runtime(self) -> AgentRuntime:
        builder = AgentRuntime.builder().options(clock=self.clock).journal(self.store).content(self.store)
        builder.event_bus(Feed(self.store, self.clock)).policy(self.policy).agent(self.agent)
        return builder.build()

    async def statuses(self) -> dict[str, RunStatus]:
        runs = await self.store.list_runs(RunFilter())
        return {one.run_id.split(":")[-1][9:13]: one.status for one in reversed(runs)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overlap", "found"),
    [
        ("skip", {"0100": "completed", "0300": "completed", "0500": "running"}),
        ("queue", {"0100": "completed", "0200": "completed", "0300": "running"}),
        ("cancel", {"0100": "cancelled", "0200": "cancelled", "0300": "cancelled", "0400": "cancelled"}),
    ],
)
def test_two_runtimes_start_each_tick_once(overlap: Any, found: dict[str, str]) -> None:
    office = Office(work_s=1.4 * HOUR_S)

    async def story() -> None:
        async with office.runtime() as first, office.runtime():
            await first.schedules.put(replace(HOURLY, overlap=overlap))
            await office.clock.sleep(5 * HOUR_S + 60)
            statuses = {at: status.value for at, status in (await office.statuses()).items()}
            assert {at: statuses[at] for at in found} == found
            assert len(statuses) == len(found) + (overlap == "cancel")
            [session, *_] = await office.store.list_sessions(SessionFilter())
            started = next(
                one for one in await office.store.read(session.session_id) if one.type == "run.started"
            )
            assert started.data["source"] == {"kind": SourceKind.SCHEDULED_TASK, "id": "hourly"}

    run_in_fake_time(story(), clock=office.clock)


def test_a_schedule_is_looked_after_by_the_next_runtime() -> None:
    office = Office()

    async def story() -> None:
        async with office.runtime() as first:
            await first.schedules.put(HOURLY)
        await office.clock.sleep(3.5 * HOUR_S)
        async with office.runtime() as second:
            await office.clock.sleep(2 * SWEEP_S)
            assert [*await office.statuses()] == ["0300"]
            await office.clock.sleep(HOUR_S)
            assert [*await office.statuses()] == ["0300", "0400"]
            found = await second.schedules.get("hourly")
            assert (found.started, found.skipped, found.last_at) == (2, 2, "2026-01-01T04:00:00.000Z")

    run_in_fake_time(story(), clock=office.clock)


def test_a_start_policy_that_hangs_stops_neither_other_runs_nor_the_end_of_the_runtime() -> None:
    async def hang(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        if request.source is not None:
            await asyncio.Event().wait()
        return allow_start(request, package)

    office = Office(policy=hang)

    async def story() -> None:
        async with office.runtime() as runtime:
            await runtime.schedules.put(HOURLY)
            await office.clock.sleep(HOUR_S + 2)
            assert (
                await (await runtime.start_run(office.agent, "hello")).wait()
            ).status is RunStatus.COMPLETED

    run_in_fake_time(story(), clock=office.clock)


class Counted(Kept):
    """A store that counts the looks for schedules that are due."""

    looks = 0

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        self.looks += 1
        return await super().due_documents(kind, now_ms=now_ms, limit=limit)


@pytest.mark.slow
def test_missed_ticks_are_started_one_after_the_other_without_waiting_for_the_clock() -> None:
    clock, store = FakeClock(), Counted()

    async def story() -> None:
        machine = Machine(clock, sequential_ids("id"), seeded_random(1))
        agent = Agent("clerk", model=ScriptedModel(lambda _: say("done")))

        def runtime() -> AgentRuntime:
            builder = AgentRuntime.builder().journal(store).content(store).event_bus(Feed(store, clock))
            return (
                builder.options(machine=machine)
                .policy(allow_start)
                .agent(agent)
                .options(is_attended=True)
                .build()
            )

        async with runtime() as made:
            await made.schedules.put(replace(HOURLY, every_s=60, missed="all", overlap="queue"))
        clock.advance(60 * SCHEDULE_TICKS_MAX)
        began, looks = clock.monotonic(), store.looks
        async with runtime() as late:
            while (found := await late.schedules.get("hourly")).queued or found.started < SCHEDULE_TICKS_MAX:
                await clock.sleep(SWEEP_S)
            assert (found.started, found.skipped) == (SCHEDULE_TICKS_MAX, 0)
            assert sum(group.count for group in await store.open_runs()) <= 1
        # One look a second was one run a second before.
        assert clock.monotonic() - began <= 10 * SWEEP_S
        assert store.looks - looks <= 10

    run_in_fake_time(story(), clock=clock)
