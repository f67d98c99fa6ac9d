"""`windlass runs`, `trace` and `decisions`: list, inspect, resume, cancel and compare runs."""

import difflib
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pydantic_core import from_json

import windlass
from windlass import parts
from windlass_cli.backend import (
    ENDS,
    Backend,
    command_of,
    find_run,
    find_session,
    last_seq_of_run,
    session_of_run,
)
from windlass_cli.commands import sessions
from windlass_cli.follow import RunWatch, describe_changes, follow_run, request_subject
from windlass_cli.output import (
    LINE_CHARS,
    CommandError,
    Exit,
    cost,
    duration,
    moment,
    short,
    show_page,
    show_table,
    show_tree,
    show_waterfall,
    to_json,
    tokens,
    when,
)
from windlass_protocol import BudgetLimits, InputRequestedData, InputResolvedData
from windlass_protocol.limits import INTEGER_MAX

if TYPE_CHECKING:
    from windlass.catalog import RunQuery
    from windlass_cli.backend import RefusedRow, RunRow
    from windlass_harness.record import Record
    from windlass_protocol import (
        Decision,
        Event,
        InputRequest,
        InputResolution,
        JsonObject,
        Outcome,
        RunSnapshot,
        RunStatus,
        RunWait,
        UndoItem,
    )

app = typer.Typer(
    no_args_is_help=True,
    help="Runs: list, refused, show, tail, resume, retry, undo, cancel, replay, diff, fork, export.",
)


class ThumbFilter(StrEnum):
    """The newest thumb of people."""

    UP = "up"
    DOWN = "down"
    NONE = "none"


Id = Annotated[str, typer.Argument(help="The run: its id, or the beginning of it.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Limit = Annotated[
    int | None, typer.Option(min=0, max=INTEGER_MAX, help="A limit of both runs together, as in Budget.")
]
OPTIONS_SHOWN_MAX: Final = 6
_LIMIT_OPTIONS: Final = {
    "tokens": "--max-tokens",
    "steps": "--max-steps",
    "tool_calls": "--max-tool-calls",
    "cost": "--max-cost-micros",
    "wall": "--max-wall-ms",
}
"""Options of `windlass runs retry`, by the names of budgets in records."""
_FAILED_ENDS: Final = ("run.failed", "run.budget_exhausted", "run.cancelled")
"""Options of a decision, besides the chosen one, in its row."""
CANCEL_WAIT_S: Final = 1.0
"""Time for the driver of a run to end it before the command says how to end it here."""
_TIMED: Final = frozenset({"provider", "recovery", "timer"})
"""Waits that end at a time; the row of a run does not have it."""
_REFUSED_HEADER: Final = ("refused", "code", "run", "agent", "owner", "error")
_HEADER: Final = ("run", "status", "agent", "started", "duration", "tokens", "cost", "session", "input")


@app.command("list")
def list_runs(
    context: typer.Context,
    *,
    session: Annotated[str | None, typer.Option(help="Only runs of this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="pending, running, waiting, cancelling, completed, failed, cancelled or budget_exhausted."
        ),
    ] = None,
    waits_on: Annotated[
        str | None, typer.Option(help="Waiting for input, recovery, subagent, provider, timer or budget.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Only runs of this fingerprint.")] = None,
    error: Annotated[str | None, typer.Option(help="Failed with this kind of error; any for all.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    feedback: Annotated[ThumbFilter | None, typer.Option(help="Only runs with this newest thumb.")] = None,
    crashed: Annotated[
        bool | None, typer.Option(help="Only runs that did, or did not, survive a crash.")
    ] = None,
    hours: Annotated[float | None, typer.Option(min=0, help="Started in the last hours.")] = None,
    cost_min: Annotated[float | None, typer.Option(min=0, help="Dollars at least.")] = None,
    longer: Annotated[float | None, typer.Option(min=0, help="Seconds at least.")] = None,
    text: Annotated[str | None, typer.Option(help="Words that occur in the session.")] = None,
    sort: Annotated[str, typer.Option(help="started, duration or cost.")] = "started",
    ascending: Annotated[bool, typer.Option("--ascending", help="The least first.")] = False,
    subagents: Annotated[bool, typer.Option("--subagents", help="Also the runs of subagents.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of runs.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each run.")] = False,
) -> None:
    """List runs, the newest first unless sorted otherwise.

    A run that has work to do while no process does it is "not driven".

    Example: windlass runs list --status failed --hours 24 --sort cost
    """
    command = command_of(context)
    query: RunQuery = {
        "agent_id": agent,
        "status": status,
        "waits_on": waits_on,
        "version": version,
        "error": error,
        "tag": tag,
        "feedback": None if feedback is None else feedback.value,
        "has_crashed": crashed,
        "since": None if hours is None else parts.SystemClock().now() - timedelta(hours=hours),
        "cost_micros_min": None if cost_min is None else round(cost_min * 1_000_000),
        "duration_ms_min": None if longer is None else round(longer * 1_000),
        "text": text,
        "sort": sort,
        "is_ascending": ascending,
    }

    async def work(backend: Backend) -> None:
        session_id = None if session is None else (await find_session(backend, session)).session_id
        # The session of a subagent has no other runs.
        root_only = not subagents and session is None
        page = await backend.sessions.runs(
            limit=limit, **{**query, "session_id": session_id, "root_only": root_only}
        )
        undriven_sessions = frozenset[str]() if as_json else await backend.undriven()
        undriven_runs = [run for run in page.items if _is_undriven(run, undriven_sessions)]
        until: dict[str, str] = {}
        for run in page.items:
            if run.waits_on in _TIMED and not as_json:
                until[run.run_id] = _until((await backend.run_snapshot(run.run_id)).waiting)
        show_page(
            command.terminal,
            page,
            show=lambda items: show_table(
                command.terminal,
                _HEADER,
                rows=(
                    _row(run, until=until.get(run.run_id, ""), is_undriven=run in undriven_runs)
                    for run in items
                ),
            ),
            empty=f'No runs found. Start one: windlass run "…"{command.other_stores()}',
            as_json=as_json,
        )
        if undriven_runs:
            command.terminal.say(
                "Runs that are not driven continue when a process has their agent: windlass serve, "
                f"or windlass runs resume {undriven_runs[0].run_id}",
                "yellow",
            )

    command.ask(work)


def _is_undriven(run: "RunRow", undriven_sessions: frozenset[str]) -> bool:
    """Whether a run goes on only when another process takes it."""
    return run.status.value not in ENDS and run.session_id in undriven_sessions


def _row(run: "RunRow", *, until: str, is_undriven: bool) -> tuple[str, ...]:
    took = duration(run.started_at, run.ended_at)
    began, used = when(run.started_at), (tokens(run.usage), cost(run.usage))
    waits = "" if run.waits_on is None else f" for {run.waits_on}"
    status = f"{run.status.value}{waits}{until}{', not driven' if is_undriven else ''}"
    return (run.run_id, status, run.agent_id, began, took, *used, run.session_id, run.input or "")


def _status(status: "RunStatus", wait: "RunWait | None") -> str:
    """Return the status of a run, with what it waits for."""
    if wait is None:
        return status.value
    since = "" if wait.since is None or wait.until is not None else f" since {when(wait.since)}"
    return f"{status.value} for {wait.on}{since}{_until(wait)}"


def _until(wait: "RunWait | None") -> str:
    return "" if wait is None or wait.until is None else f" until {when(wait.until)}"


@app.command("refused")
def list_refused(
    context: typer.Context,
    *,
    agent: Annotated[str | None, typer.Option(help="Only starts of this agent.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of refused starts.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each one.")] = False,
) -> None:
    """List starts that were refused, the newest first, with their errors.

    Example: windlass runs refused --agent clerk
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        page = await backend.sessions.refused_starts(agent_id=agent, limit=limit)
        show_page(
            command.terminal,
            page,
            show=lambda items: show_table(command.terminal, _REFUSED_HEADER, rows=map(_refusal_row, items)),
            empty="No start was refused.",
            as_json=as_json,
        )

    command.ask(work)


def _refusal_row(start: "RefusedRow") -> tuple[str, ...]:
    ids = (start.run_id or "", start.agent_id or "", start.owner or "")
    return (when(start.at), start.code.value, *ids, start.message)


@app.command()
def show(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Show the steps of a run as a tree, with durations and costs; where its money went; who answered what;
    and why it failed.

    Example: windlass runs show 019a8f…
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        snapshot = await find_run(backend, run_id)
        trace_info = await backend.sessions.trace(snapshot.run_id)
        if as_json:
            command.terminal.line(to_json({"run": snapshot, "trace": trace_info}))
        else:
            show_tree(command.terminal, trace_info, status=_status(snapshot.status, snapshot.waiting))
            from windlass.agent.agent import WORKFLOW_ROUTE  # noqa: PLC0415 - slow to import
            from windlass_cli.commands.costs import cost_lines  # noqa: PLC0415 - slow to import
            from windlass_harness.views.costs import fold_costs  # noqa: PLC0415 - slow to import

            records = [(record.type, record.data) async for record in backend.run_records(snapshot.run_id)]
            for line in cost_lines(fold_costs(records)):
                command.terminal.show(line)
            is_workflow = snapshot.route_id == WORKFLOW_ROUTE
            async for line, style in _story(backend, snapshot.run_id, is_workflow=is_workflow):
                command.terminal.show(line, style)
            if snapshot.waiting is not None and snapshot.waiting.reason is not None:
                command.terminal.say(snapshot.waiting.reason, "yellow")
            if snapshot.status.value not in ENDS and snapshot.session_id in await backend.undriven():
                needed = f"workflow {snapshot.model_id}" if is_workflow else f"agent {snapshot.agent_id}"
                command.terminal.say(
                    f"No process drives this run. It continues when one with {needed} runs: windlass serve, "
                    "windlass worker, or windlass runs resume",
                    "yellow",
                )
                if is_workflow:
                    command.terminal.say(
                        "A process with another version takes it when none with this one lives.", "yellow"
                    )

    command.ask(work)


async def _story(backend: Backend, run_id: str, *, is_workflow: bool) -> AsyncIterator[tuple[str, str]]:
    """Yield who started a run, what people were asked and answered, and how it ended, in order."""

    requests: dict[str, InputRequest] = {}
    async for record in backend.run_records(run_id):
        at, data = when(_at(record)), record.data
        match record.type:
            case "input.requested":
                for request in InputRequestedData.model_validate(data).requests:
                    requests[request.request_id] = request
                    yield f"{at}  asked: {short(request.prompt, LINE_CHARS)}", ""
            case "input.resolved":
                for resolution in InputResolvedData.model_validate(data).resolutions:
                    request = requests.get(resolution.request_id)
                    yield f"{at}  {_answer(resolution, request)}", ""
            case kind if kind in _FAILED_ENDS:
                yield f"{at}  {_ending(record.type, data)}", "red"
                if record.type != "run.cancelled":
                    yield _next_step(run_id, data, is_workflow=is_workflow), ""
            case _:
                pass


def _next_step(run_id: str, ending: "JsonObject", *, is_workflow: bool) -> str:
    """Return how a failed run is continued: with a larger limit, if it used up its budget."""
    if is_workflow:
        return f"Start a new run with the same argument, or reverse its calls: windlass runs undo {run_id}"
    error, exceeded = ending.get("error"), ending.get("exceeded")
    details = error.get("details") if isinstance(error, dict) else None
    is_own = isinstance(details, dict) and details.get("reason") == "budget_exhausted"
    if not is_own or not isinstance(exceeded, list):
        return f"Continue it: windlass runs retry {run_id}"
    options = " ".join(f"{_LIMIT_OPTIONS[str(name)]} N" for name in exceeded if str(name) in _LIMIT_OPTIONS)
    return f"Continue it with a larger limit: windlass runs retry {run_id} {options}"


def _answer(resolution: "InputResolution", request: "InputRequest | None") -> str:
    """Return how a request was answered; None for one that is not in the run."""
    response, subject, changes = resolution.response, resolution.request_id, ""
    if request is not None:
        subject = request_subject(request)
        changes = describe_changes(request, resolution)
    if response is None:
        return f"{subject}: {resolution.outcome.value}"
    text = "" if not response.text else f": {short(response.text, LINE_CHARS)}"
    by = "" if response.responder is None else f" by {response.responder}"
    return f"{subject}: {resolution.outcome.value} ({response.option_id or 'in words'}){by}{changes}{text}"


def _ending(kind: str, data: "JsonObject") -> str:
    """Return how a run ended, and why: the message of its error with its code, or the reason of a cancel."""
    error, reason = data.get("error"), data.get("reason")
    name = kind.removeprefix("run.")
    if isinstance(error, dict):
        codes = ", ".join(str(error[key]) for key in ("code", "kind") if key in error)
        return f"{name}: {short(str(error.get('message')), LINE_CHARS)} ({codes})"
    return f"{name}: {short(reason, LINE_CHARS)}" if isinstance(reason, str) else name


def trace(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Show the steps of a run as bars on a time axis.

    Example: windlass trace 019a8f…
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        trace_info = await backend.sessions.trace((await find_run(backend, run_id)).run_id)
        if as_json:
            command.terminal.line(to_json(trace_info))
        else:
            show_waterfall(command.terminal, trace_info)

    command.ask(work)


def decisions(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Show the decisions of a run: the intent, the chosen option, the others and the outcome.

    Example: windlass decisions 019a8f…
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        snapshot = await find_run(backend, run_id)
        report = await backend.decisions(snapshot.run_id)
        if as_json:
            command.terminal.line(to_json(report))
            return
        rows = (
            (
                str(number),
                decision.intent,
                decision.chosen_option_id,
                _others(decision),
                _outcome(decision.outcome, snapshot.status.value),
            )
            for number, decision in enumerate(report.decisions, start=1)
        )
        if not show_table(command.terminal, ("", "intent", "chosen", "other options", "outcome"), rows=rows):
            command.terminal.say("The run made no decisions.")
        for problem in report.problems:
            command.terminal.show(f"{problem.severity.value}: {short(problem.description, 400)}", "yellow")

    command.ask(work)


def _others(decision: "Decision") -> str:
    """Return the options that were not chosen; the first ones if there are many."""
    others = [option.id for option in decision.options if option.id != decision.chosen_option_id]
    rest = len(others) - OPTIONS_SHOWN_MAX
    return ", ".join(others[:OPTIONS_SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _outcome(outcome: "Outcome | None", run_status: str) -> str:
    if outcome is None:
        return f"none: {run_status}" if run_status in ENDS else "pending"
    return "ok" if outcome.success else f"failed: {outcome.error or ''}"


@app.command()
def tail(
    context: typer.Context,
    run_id: Id,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each event.")] = False,
    follow: Annotated[bool, typer.Option(help="Continue until the run ends.")] = True,
) -> None:
    """Show the events of a run from its start, and follow it while it is driven elsewhere.

    Example: windlass runs tail 019a8f…
    """
    command = command_of(context)

    async def work(backend: Backend) -> Exit | None:
        known_id = (await find_run(backend, run_id)).run_id
        watch = RunWatch(command.terminal, command.user, is_json=as_json, is_asking=False)
        if follow:
            return watch.end(await watch.follow(backend.handle(known_id)), run_id=known_id)
        async for record in backend.run_records(known_id):
            watch.show(record)
        watch.leave()
        return None

    command.ask(work)


@app.command()
def resume(
    context: typer.Context,
    run_id: Id,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write events and result as lines of JSON.")
    ] = False,
) -> None:
    """Drive an unfinished run here to its end, and ask here for its approvals.

    Example: windlass runs resume 019a8f…
    """
    command = command_of(context)
    terminal = command.terminal

    async def work(backend: Backend) -> Exit:
        snapshot = await find_run(backend, run_id)
        run = backend.handle(snapshot.run_id)
        watch = RunWatch(terminal, command.user, is_json=as_json, is_asking=terminal.is_interactive)
        if snapshot.status.value not in ENDS:
            await _check_drivable(backend, snapshot)
            return await follow_run(command, backend, watch=watch, run=run)
        # The events are not shown: they would look as if the run was executed again.
        result = await run.wait()
        terminal.say(f"The run has ended. Show its steps: windlass runs show {run.run_id}")
        if not as_json:
            terminal.write(f"{result.output}\n")
        return watch.end(result, run_id=run.run_id)

    command.ask(work, drives=True)


async def _check_drivable(backend: Backend, run: "RunSnapshot") -> None:
    """Refuse to follow a run that would stand still: its agent is not here, and no process drives it.

    A cancelled run ends without its agent.

    Raises:
        CommandError: the run needs an agent that this command does not have.
    """
    if backend.can_drive(run.agent_id) or run.cancellation_requested:
        return
    if run.session_id in await backend.undriven():
        raise CommandError(
            f"the run needs agent {run.agent_id}, which this command does not have",
            f"Name it: windlass --agents file.py:name runs resume {run.run_id}",
        )


@app.command()
def retry(
    context: typer.Context,
    run_id: Id,
    *,
    max_tokens: Limit = None,
    max_steps: Limit = None,
    max_tool_calls: Limit = None,
    max_cost_micros: Limit = None,
    max_wall_ms: Limit = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write events and result as lines of JSON.")
    ] = False,
) -> None:
    """Continue a failed run in a new run of its session, here, without repeating finished calls.

    It has what the failed run left of its budget. Limits are those of both runs together.

    Example: windlass runs retry 019a8f…
    Example: windlass runs retry 019a8f… --max-steps 40
    """
    command = command_of(context)
    terminal = command.terminal
    limits = BudgetLimits(
        max_tokens=max_tokens,
        max_steps=max_steps,
        max_tool_calls=max_tool_calls,
        max_cost_micros=max_cost_micros,
        max_wall_ms=max_wall_ms,
    )
    budget = None if limits == BudgetLimits() else limits

    async def work(backend: Backend) -> Exit:
        known_id = (await find_run(backend, run_id)).run_id
        again = f"retry:{known_id}"
        with suppress(windlass.Conflict):  # the first retry
            if (await backend.run_snapshot(again)).status.value in ("failed", "budget_exhausted"):
                raise CommandError(f"that retry failed too: windlass runs retry {again}", code=Exit.FAILED)
        run = await backend.retry(known_id, budget=budget)
        terminal.say(f"Run {run.run_id} continues it.", "dim")
        watch = RunWatch(terminal, command.user, is_json=as_json, is_asking=terminal.is_interactive)
        return await follow_run(command, backend, watch=watch, run=run)

    command.ask(work, drives=True)


@app.command()
def undo(
    context: typer.Context,
    run_id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Reverse the calls without asking.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write events and result as lines of JSON.")
    ] = False,
) -> None:
    """Show which calls of a run can be reversed, ask, and reverse them here, newest first.

    Example: windlass runs undo 019a8f…
    """
    command = command_of(context)
    terminal = command.terminal

    async def work(backend: Backend) -> Exit:
        known_id = (await find_run(backend, run_id)).run_id
        plan = await backend.undo_plan(known_id)
        for call in plan.calls:
            terminal.say(_undo_line(call))
        count = sum(call.status == "reversible" for call in plan.calls)
        if count and not yes:
            if not terminal.is_interactive:
                raise CommandError("nothing was reversed: this is not a terminal", "Confirm with --yes.")
            terminal.forget()
            answer = await terminal.ask(f"Reverse {count} calls? [y/N] ")
            if (answer or "").strip().lower() not in {"y", "yes"}:
                return Exit.CANCELLED
        run = await backend.undo(known_id)
        terminal.say(f"Run {run.run_id} reverses the calls.", "dim")
        watch = RunWatch(terminal, command.user, is_json=as_json, is_asking=terminal.is_interactive)
        return await follow_run(command, backend, watch=watch, run=run)

    command.ask(work, drives=True)


def _undo_line(call: "UndoItem") -> str:
    """Return a call of a run in a line, with what happens to it."""
    arguments = short(to_json(call.arguments), _ARGUMENTS_CHARS_MAX)
    effects = {
        "reversible": f"is reversed by {call.undo_name}",
        "reversed": "was reversed",
        "no_undo": "has no undo",
        "unknown": "is not known to have taken effect",
    }
    effect = effects[call.status.value]
    if call.child_run_id is not None:
        effect = f"is the call of a subagent: windlass runs undo {call.child_run_id}"
    return f"{call.tool_name} {arguments}: {effect}"


_ARGUMENTS_CHARS_MAX: Final = 120


@app.command()
def send(
    context: typer.Context,
    run_id: Id,
    name: Annotated[str, typer.Argument(help="What the workflow waits for.")],
    data: Annotated[str, typer.Argument(help="What comes with it: JSON, or a text.")] = "true",
    *,
    key: Annotated[str | None, typer.Option(help="Events with the same key are one event.")] = None,
) -> None:
    """Send an event that the workflow of a run waits for; it is kept until then.

    Example: windlass runs send inc-1042 recovered '{"load": 0.2}' --key check-7
    """
    command = command_of(context)
    try:
        value = from_json(data)
    except ValueError:
        value = data

    async def work(backend: Backend) -> None:
        snapshot = await find_run(backend, run_id)
        await backend.handle(snapshot.run_id).send(name, value, key=key, by=command.user)
        command.terminal.say(f"{name} was sent to {snapshot.run_id}.")

    command.ask(work)


@app.command()
def cancel(
    context: typer.Context,
    run_id: Id,
    *,
    reason: Annotated[str | None, typer.Option(help="The reason, which is stored with the run.")] = None,
) -> None:
    """Cancel a run, wherever it is driven.

    Example: windlass runs cancel 019a8f… --reason "not needed"
    """
    command = command_of(context)
    terminal = command.terminal

    async def work(backend: Backend) -> None:
        snapshot = await find_run(backend, run_id)
        if snapshot.status.value in ENDS:
            terminal.say(
                f"The run has ended already: {snapshot.status.value}. "
                f"Show it: windlass runs show {snapshot.run_id}"
            )
            return
        run = backend.handle(snapshot.run_id)
        await run.cancel(by=command.user, reason=reason)
        try:
            terminal.say((await run.wait(CANCEL_WAIT_S)).status.value)
        except TimeoutError:
            terminal.say("The cancel is stored. The process that drives the run ends it.")
            terminal.say(f"If no process drives it, end it here: windlass runs resume {run.run_id}")

    command.ask(work)


@app.command()
def diff(
    context: typer.Context, first: Id, *, second: Annotated[str, typer.Argument(help="Another run.")]
) -> None:
    """Show the differences between two runs. Exit code 1 if there are any.

    Example: windlass runs diff 019a8f… 019a90…
    """
    command = command_of(context)

    async def work(backend: Backend) -> Exit:
        ids = [(await find_run(backend, prefix)).run_id for prefix in (first, second)]
        old_lines, new_lines = [[line async for line in _lines(backend, run_id)] for run_id in ids]
        lines = list(difflib.unified_diff(old_lines, new_lines, *ids, n=2, lineterm=""))
        for line in lines:
            style = {"+": "green", "-": "red"}.get(line[:1], "")
            command.terminal.show(line, style)
        return Exit.FAILED if lines else Exit.DONE

    command.ask(work)


@app.command()
def replay(
    context: typer.Context,
    run_id: Id,
    *,
    speed: Annotated[
        float, typer.Option(min=0, help="1 is the original speed; 0 shows everything at once.")
    ] = 0.0,
) -> None:
    """Show the events of a run again from the journal. Nothing is executed.

    Example: windlass runs replay 019a8f… --speed 4
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        clock = parts.SystemClock()
        snapshot = await find_run(backend, run_id)
        watch, last = RunWatch(command.terminal, command.user), None
        async for record in backend.run_records(snapshot.run_id):
            now = moment(_at(record))
            if speed and last is not None:
                await clock.sleep(max(0.0, (now - last).total_seconds()) / speed)
            watch.show(record)
            last = now
            if record.type in _FAILED_ENDS:
                watch.leave()
                command.terminal.say(_ending(record.type, record.data), "red")
        watch.leave()

    command.ask(work)


def _at(record: "Record | Event") -> str:
    return record.meta.at if isinstance(record, windlass.Event) else record.at


@app.command()
def fork(
    context: typer.Context,
    run_id: Id,
    *,
    at: Annotated[
        int | None, typer.Option(min=1, help="The number of a record; default: the last one of the run.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The id of the new session.")] = None,
) -> None:
    """Copy the session of a run, as it was when the run ended, to a new session.

    Example: windlass runs fork 019a8f… --name another-way
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        snapshot = await find_run(backend, run_id)
        session_id = await session_of_run(backend, snapshot.run_id)
        last = at or await last_seq_of_run(backend, snapshot.run_id)
        if last is None:
            hint = f"It is queued. List the runs before it: windlass runs list --session {session_id}"
            raise CommandError("the run has not started", hint)
        await sessions.fork_session(command, backend, session_id=session_id, at=last, name=name)

    command.ask(work)


@app.command()
def export(
    context: typer.Context,
    run_id: Id,
    *,
    to: Annotated[Path | None, typer.Option(help="A new file; default: standard output.")] = None,
) -> None:
    """Write the session of a run as lines of JSON with a checksum.

    Example: windlass runs export 019a8f… --to run.jsonl
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        session_id = await session_of_run(backend, (await find_run(backend, run_id)).run_id)
        await sessions.export_session(command, backend, session_id=session_id, to=to)

    command.ask(work)


async def _lines(backend: Backend, run_id: str) -> AsyncIterator[str]:
    """Yield the messages, calls and results of a run, without ids and times."""
    async for record in backend.run_records(run_id):
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
