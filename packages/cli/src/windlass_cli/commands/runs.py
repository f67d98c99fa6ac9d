"""`windlass runs`: what agents did, as lists, trees and streams."""

import difflib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass import parts
from windlass_cli.commands import sessions
from windlass_cli.keeping import watched
from windlass_cli.listing import Shape, show_list, table
from windlass_cli.problems import Exit, Problem
from windlass_cli.records import ENDS, at_of, last_of_run, run_records, session_of_run
from windlass_cli.session import finish, known_run, session_of
from windlass_cli.shapes import cost, lasted, moment, short, to_json, tokens, when
from windlass_cli.spans import show_tree
from windlass_cli.watch import Watch

if TYPE_CHECKING:
    from windlass.client import RunRow
    from windlass.ports.store import RunInfo
    from windlass_cli.session import Place

app = typer.Typer(
    no_args_is_help=True, help="Runs: list, show, tail, resume, cancel, replay, diff, fork, export."
)
Id = Annotated[str, typer.Argument(help="The run.")]
Json = Annotated[bool, typer.Option("--json", help="A line of JSON for each.")]
LINE_CHARS: Final = 400
CANCEL_WAIT_S: Final = 1.0
"""How long whoever drives a run has to end it before somebody is told how to do it here."""


@app.command("list")
def list_runs(
    context: typer.Context,
    *,
    session: Annotated[str | None, typer.Option(help="Of this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="Of this agent.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="pending, running, waiting, cancelling, completed, failed, cancelled or budget_exhausted."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs, the newest first.

    Example: windlass runs list --status failed
    """
    show_list(
        session_of(context),
        lambda runtime: runtime.sessions.runs(session_id=session, agent_id=agent, status=status, limit=limit),
        shape=_LIST,
        as_json=as_json,
    )


def _row(one: "RunInfo | RunRow") -> tuple[str, ...]:
    took = lasted(one.started_at, one.ended_at)
    began, used = when(one.started_at), (tokens(one.usage), cost(one.usage))
    return (one.run_id, one.status.value, one.agent_id, began, took, *used, one.session_id)


_LIST: Final = Shape(
    table(("run", "status", "agent", "began", "took", "tokens", "cost", "session"), _row),
    'No such runs. Begin one: windlass run "…"',
)


@app.command()
def show(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Show what a run did as a tree, with times and costs.

    Example: windlass runs show 019a8f…
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            snapshot, trace = await runtime.run_snapshot(run_id), await runtime.sessions.trace(run_id)
        if as_json:
            self.terminal.line(to_json({"run": snapshot, "trace": trace}))
        else:
            show_tree(self.terminal, trace, status=snapshot.status.value)
        return Exit.DONE

    finish(work())


@app.command()
def tail(
    context: typer.Context,
    run_id: Id,
    *,
    as_json: Json = False,
    follow: Annotated[bool, typer.Option(help="Go on until it ends.")] = True,
) -> None:
    """Show a run from its beginning, and go on with it as it happens elsewhere.

    Example: windlass runs tail 019a8f…
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            watch = Watch(self.terminal, self.user, is_json=as_json, is_asking=False)
            if follow:
                return watch.end(await watch.follow(runtime.handle(run_id)), run_id=run_id)
            async for record in run_records(runtime, run_id):
                watch.show(record)
            watch.leave()
            return Exit.DONE

    finish(work())


@app.command()
def resume(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Go on with a run that was left: driven here, asked here, to its end.

    Example: windlass runs resume 019a8f…
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place(drives=True) as runtime:
            is_over = await known_run(runtime, run_id) in ENDS
            handle = runtime.handle(run_id)
            watch = Watch(self.terminal, self.user, is_json=as_json, is_asking=self.terminal.is_interactive)
            if is_over:
                # What it did is not shown as if it were done again.
                result = await handle.wait()
                self.terminal.say(f"It has ended. See what it did: windlass runs show {run_id}")
                if not as_json:
                    self.terminal.write(f"{result.output}\n")
                return watch.end(result, run_id=run_id)
            return await watched(self, runtime, watch=watch, handle=handle)

    finish(work())


@app.command()
def cancel(
    context: typer.Context, run_id: Id, *, reason: Annotated[str | None, typer.Option(help="Why.")] = None
) -> None:
    """Ask a run to end, wherever it is driven.

    Example: windlass runs cancel 019a8f… --reason "not needed"
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            if (status := await known_run(runtime, run_id)) in ENDS:
                self.terminal.say(f"It has ended already: {status}. See it: windlass runs show {run_id}")
                return Exit.DONE
            handle = runtime.handle(run_id)
            await handle.cancel(by=self.user, reason=reason)
            try:
                self.terminal.say((await handle.wait(CANCEL_WAIT_S)).status.value)
            except TimeoutError:
                self.terminal.say("It is asked to end, and ends where it is driven, now or later.")
                self.terminal.say(f"If nobody drives it, end it here: windlass runs resume {run_id}")
        return Exit.DONE

    finish(work())


@app.command()
def diff(
    context: typer.Context, first: Id, *, second: Annotated[str, typer.Argument(help="Another run.")]
) -> None:
    """Show where two runs went different ways. Exit code 1 if they did.

    Example: windlass runs diff 019a8f… 019a90…
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            for run_id in (first, second):
                await known_run(runtime, run_id)
            one, other = [[line async for line in _lines(runtime, run_id)] for run_id in (first, second)]
        lines = list(difflib.unified_diff(one, other, first, second, n=2, lineterm=""))
        for line in lines:
            style = {"+": "green", "-": "red"}.get(line[:1], "")
            self.terminal.show(line, style)
        return Exit.FAILED if lines else Exit.DONE

    finish(work())


@app.command()
def replay(
    context: typer.Context,
    run_id: Id,
    *,
    speed: Annotated[float, typer.Option(min=0, help="1 is as fast as it was; 0 is at once.")] = 0.0,
) -> None:
    """Show again what a run did, from its journal: nothing is run.

    Example: windlass runs replay 019a8f… --speed 4
    """
    self = session_of(context)

    async def work() -> Exit:
        clock = parts.SystemClock()
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            watch, last = Watch(self.terminal, self.user), None
            async for record in run_records(runtime, run_id):
                now = moment(at_of(record))
                if speed and last is not None:
                    await clock.sleep(max(0.0, (now - last).total_seconds()) / speed)
                watch.show(record)
                last = now
        watch.leave()
        return Exit.DONE

    finish(work())


@app.command()
def fork(
    context: typer.Context,
    run_id: Id,
    *,
    at: Annotated[
        int | None, typer.Option(min=1, help="The number of a record; the run's last when left out.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The id of the new session.")] = None,
) -> None:
    """Begin a new session as that of a run was when the run had ended.

    Example: windlass runs fork 019a8f… --name another-way
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            session_id, last = await session_of_run(runtime, run_id), at or await last_of_run(runtime, run_id)
            if last is None:
                hint = f"See what it waits behind: windlass runs list --session {session_id}"
                raise Problem("it has not begun", hint)
            return await sessions.fork_session(self, runtime, session_id=session_id, at=last, name=name)

    finish(work())


@app.command()
def export(
    context: typer.Context,
    run_id: Id,
    *,
    to: Annotated[Path | None, typer.Option(help="A new file; the output when left out.")] = None,
) -> None:
    """Write the session of a run as lines of JSON, with a checksum at the end.

    Example: windlass runs export 019a8f… --to run.jsonl
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            session_id = await session_of_run(runtime, run_id)
            return await sessions.export_session(self, runtime, session_id=session_id, to=to)

    finish(work())


async def _lines(runtime: "Place", run_id: str) -> AsyncIterator[str]:
    """Return what was said and done in a run, without what differs each time."""
    async for record in run_records(runtime, run_id):
        data = record.data
        match record.type:
            case "message.received" | "message.completed":
                yield f"{record.type}: {short(str(data.get('message')), LINE_CHARS)}"
            case "actions.requested":
                yield f"calls {short(to_json(data.get('actions')), LINE_CHARS)}"
            case "action.result":
                yield f"{data.get('status')} {short(to_json(data.get('result')), LINE_CHARS)}"
            case "run.completed" | "run.failed" | "run.cancelled" | "run.budget_exhausted":
                yield f"{record.type}: {short(to_json(data.get('error') or data.get('output')), LINE_CHARS)}"
            case _:
                pass
