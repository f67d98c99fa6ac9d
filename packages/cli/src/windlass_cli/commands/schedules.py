"""`windlass schedules`: add, list, run, pause, resume and remove schedules."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass_cli.backend import Backend, command_of
from windlass_cli.output import NO_VALUE, show_page, show_table, when
from windlass_cli.settings import OWNER

if TYPE_CHECKING:
    from windlass_protocol import ScheduleInfo

app = typer.Typer(no_args_is_help=True, help="Schedules of runs: add, list, run, pause, resume, remove.")
Name = Annotated[str, typer.Argument(help="The name of the schedule.")]
_HEADER: Final = ("schedule", "when", "agent", "next", "last", "started", "skipped", "error", "message")


@app.command()
def add(
    context: typer.Context,
    name: Name,
    message: Annotated[str, typer.Argument(help="The message of each run.")],
    *,
    agent: Annotated[str | None, typer.Option(help="The agent; default: the only one.")] = None,
    cron: Annotated[str | None, typer.Option(help="When: five fields, such as '0 3 * * MON-FRI'.")] = None,
    every: Annotated[int | None, typer.Option(min=1, help="When: the seconds between two ticks.")] = None,
    at: Annotated[str | None, typer.Option(help="When: one moment, such as 2027-01-01T09:00:00.")] = None,
    timezone: Annotated[str, typer.Option(help="The time zone of --cron and --at.")] = "UTC",
    missed: Annotated[
        str, typer.Option(help="Missed ticks that are made up for: skip (none), once (the last) or all.")
    ] = "once",
    overlap: Annotated[
        str, typer.Option(help="A tick while an earlier run goes on: skip, queue or cancel (the run).")
    ] = "skip",
    jitter: Annotated[int, typer.Option(min=0, help="Start up to so many seconds later.")] = 0,
    session: Annotated[str | None, typer.Option(help="One session for all runs; default: a new one.")] = None,
) -> None:
    """Add a schedule, or replace the one with this name.

    Its runs are started by the processes that drive the store: windlass serve, windlass dev, or your own.

    Example: windlass schedules add nightly "Write the report." --cron "0 3 * * *" --timezone Europe/Berlin
    """
    from windlass import Schedule  # noqa: PLC0415 - slow to import

    command = command_of(context)

    async def work(backend: Backend) -> None:
        schedule = Schedule(
            name,
            agent=await backend.agent(agent),
            message=message,
            cron=cron,
            every_s=every,
            at=at,
            timezone=timezone,
            missed=missed,  # pyright: ignore[reportArgumentType] - `Schedule` checks it
            overlap=overlap,  # pyright: ignore[reportArgumentType] - `Schedule` checks it
            jitter_s=jitter,
            session_id=session,
            owner=OWNER,
        )
        info = await backend.schedules.put(schedule)
        if info.next_at is None:
            command.terminal.say(f"{name} has no tick in the future.")
        else:
            command.terminal.say(f"{name} starts a run at {when(info.next_at)}.")

    command.ask(work)


@app.command("list")
def list_schedules(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of schedules.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each schedule.")] = False,
) -> None:
    """List schedules by name, with their next and last ticks.

    Example: windlass schedules list
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        show_page(
            command.terminal,
            await backend.schedules.list(limit=limit),
            show=lambda items: show_table(command.terminal, _HEADER, rows=map(_row, items)),
            empty="No schedules. Add one: windlass schedules add NAME MESSAGE --cron '0 3 * * *'",
            as_json=as_json,
        )

    command.ask(work)


def _row(schedule: "ScheduleInfo") -> tuple[str, ...]:
    times = (
        f"{schedule.cron} {schedule.timezone}" if schedule.cron else None,
        schedule.every_s and f"every {schedule.every_s} s",
    )
    ticks = ("paused" if schedule.is_paused else when(schedule.next_at), when(schedule.last_at))
    counts = (str(schedule.started), str(schedule.skipped))
    texts = (schedule.error or NO_VALUE, schedule.message)
    return (
        schedule.name,
        next((text for text in times if text), schedule.at or NO_VALUE),
        schedule.agent,
        *ticks,
        *counts,
        *texts,
    )


@app.command()
def run(context: typer.Context, name: Name) -> None:
    """Start a run at once, beside the ticks, and wait for its end; an interrupted run continues elsewhere.

    Example: windlass schedules run nightly
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        run_id = await backend.schedules.run_now(name)
        command.terminal.say(f"{name} has started the run {run_id}.")
        result = await backend.handle(run_id).wait()
        command.terminal.say(f"{result.status.value}. See it: windlass runs show {run_id}")

    command.ask(work, drives=True)


@app.command()
def pause(context: typer.Context, name: Name) -> None:
    """Start no further runs; those that go on are not affected.

    Example: windlass schedules pause nightly
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await backend.schedules.pause(name)
        command.terminal.say(f"{name} is paused. Go on: windlass schedules resume {name}")

    command.ask(work)


@app.command()
def resume(context: typer.Context, name: Name) -> None:
    """Start runs again, from the next tick on: those during the pause are not made up for.

    Example: windlass schedules resume nightly
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        info = await backend.schedules.resume(name)
        command.terminal.say(f"{name} starts a run at {when(info.next_at)}.")

    command.ask(work)


@app.command()
def remove(context: typer.Context, name: Name) -> None:
    """Delete a schedule; its runs stay.

    Example: windlass schedules remove nightly
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await backend.schedules.delete(name)
        command.terminal.say(f"{name} is deleted.")

    command.ask(work)
