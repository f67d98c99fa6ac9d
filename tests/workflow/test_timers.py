"""Timers of workflows: years and time zones, across restarts."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.faults.scene import Scene
from tests.runtime.engine.test_owners import Street

from windlass import AgentRuntime
from windlass.workflow import WorkflowContext, workflow
from windlass_protocol import RunStatus

BERLIN = ZoneInfo("Europe/Berlin")
MOMENTS: list[datetime] = []


@workflow
async def wait_years(ctx: WorkflowContext, years: int) -> int:
    begun_at = ctx.now()
    await ctx.sleep(timedelta(days=365 * years))
    return (ctx.now() - begun_at).days


@workflow
async def wait_until(ctx: WorkflowContext) -> str:
    await ctx.sleep_until(MOMENTS[-1])
    return f"{ctx.now().astimezone(BERLIN):%Y-%m-%d %H:%M %Z}"


def end_of(agent: Any, argument: object, *, start: datetime, end: datetime) -> Any:
    """Run a workflow whose process is away until just before its end; return its output."""
    outputs: list[Any] = []

    async def story(scene: Scene) -> None:
        street, clock = Street(scene), scene.clock
        clock.jump((start - clock.now()).total_seconds())
        async with street.process([agent]) as runtime:
            run = await runtime.start_run(agent, argument, run_id="r")
            async for event in run.events():
                if event.type == "run.waiting":
                    break
        clock.jump((end - clock.now()).total_seconds() - 10)
        async with street.process([agent]) as runtime:
            await clock.sleep(9)
            assert await runtime.handle("r").status() is RunStatus.WAITING
            result = await runtime.handle("r").wait(timeout=10)
            assert clock.now() - end < timedelta(seconds=2)
            outputs.append(result.output if result.structured_output is None else result.structured_output)

    Scene().play(story)
    return outputs[0]


@pytest.mark.parametrize("years", [1, 30, 200])
def test_a_timer_of_years_ends_at_its_time_in_another_process(years: int) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    end = start + timedelta(days=365 * years)
    assert end_of(wait_years, years, start=start, end=end) == 365 * years


@pytest.mark.parametrize(
    ("local", "end", "shown"),
    [
        # The clocks go back in the night before: the day has 25 hours.
        (datetime(2026, 10, 25, 9, tzinfo=BERLIN), datetime(2026, 10, 25, 8, tzinfo=UTC), "09:00 CET"),
        # The hour that comes twice, for the first and for the second time.
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
            datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
            "02:30 CEST",
        ),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
            datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
            "02:30 CET",
        ),
        # They go forward: the day has 23 hours, and one hour does not exist.
        (datetime(2027, 3, 28, 9, tzinfo=BERLIN), datetime(2027, 3, 28, 7, tzinfo=UTC), "09:00 CEST"),
        (datetime(2027, 3, 28, 2, 30, tzinfo=BERLIN), datetime(2027, 3, 28, 1, 30, tzinfo=UTC), "03:30 CEST"),
    ],
)
def test_a_time_of_a_zone_is_that_of_its_clocks_across_a_daylight_change(
    local: datetime, end: datetime, shown: str
) -> None:
    MOMENTS.append(local)
    start = end - timedelta(hours=20)
    output = end_of(wait_until, None, start=start, end=end)
    assert output == f"{end.astimezone(BERLIN):%Y-%m-%d} {shown}"


def test_a_time_without_a_zone_is_refused() -> None:
    MOMENTS.append(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point

    async def main() -> str:
        async with AgentRuntime.in_memory([wait_until]) as runtime:
            result = await (await runtime.start_run(wait_until)).wait()
        assert result.error is not None
        return result.error.message

    assert "sleep_until takes a time with a time zone, found 2026-01-01" in asyncio.run(main())
