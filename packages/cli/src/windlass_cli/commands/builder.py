"""`windlass builder`: reports on the runs of a goal, and proposals to change its agent."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

import windlass
from windlass import ledger
from windlass_cli.backend import Command, LocalStore, command_of, complete_id, find_run, finish
from windlass_cli.output import (
    MICROS,
    NO_VALUE,
    CommandError,
    Exit,
    Terminal,
    seconds,
    short,
    show_table,
    to_json,
    when,
)

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass.ledger import Builder, Goal, ProposalState
    from windlass.ledger.reports import View
    from windlass_harness.ledger import GoalReport, Report, VersionsReport
    from windlass_protocol import Estimate

app = typer.Typer(
    no_args_is_help=True, help="Reports on goals, failures and versions; proposals to change agents."
)
proposals = typer.Typer(
    no_args_is_help=True, help="Proposals to change agents: list, show, check, approve, refuse."
)
app.add_typer(proposals, name="proposals")
GoalId = Annotated[str, typer.Argument(help="The goal: the goal_id that runs were started with.")]
Id = Annotated[str, typer.Argument(help="The proposal.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Reason = Annotated[str, typer.Option(help="The reason, which is stored with the proposal.")]
_SPARKS: Final = "▁▂▃▄▅▆▇█"


@app.command()
def report(context: typer.Context, goal: GoalId, *, as_json: Json = False) -> None:
    """Show the success rate and duration of the runs of a goal, its versions and failures.

    Example: windlass builder report prices
    """
    _report(command_of(context), goal, view="overview", as_json=as_json)


@app.command()
def failures(context: typer.Context, goal: GoalId, *, as_json: Json = False) -> None:
    """Show the failures of a goal by kind and cause, the most frequent first.

    Example: windlass builder failures prices
    """
    _report(command_of(context), goal, view="failures", as_json=as_json)


@app.command()
def compare(
    context: typer.Context,
    goal: GoalId,
    *,
    old: Annotated[str | None, typer.Argument(help="A version; default: the two newest ones.")] = None,
    new: Annotated[str | None, typer.Argument(help="The version to compare it with.")] = None,
    as_json: Json = False,
) -> None:
    """Compare two versions of the agent of a goal, with confidence intervals.

    Example: windlass builder compare prices
    """
    if (old is None) != (new is None):
        raise CommandError(
            "compare needs two versions, found one", "Name both, or none to compare the two newest."
        )
    versions = None if old is None or new is None else (old, new)
    _report(command_of(context), goal, view="versions", versions=versions, as_json=as_json)


@app.command()
def run(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(help="The run.")],
    *,
    as_json: Json = False,
) -> None:
    """Show the decisions of a run, and its failure.

    Example: windlass builder run 019a8f…
    """
    command = command_of(context)

    async def ask(runtime: "AgentRuntime") -> "Report":
        run = await find_run(LocalStore(runtime, command.agents, user=command.user), run_id)
        with ledger.BuilderQuery(runtime=runtime) as query:
            return await asyncio.to_thread(ledger.report, query, run_id=run.run_id)

    _show(command, ask, as_json=as_json)


def _report(
    command: Command,
    goal: str,
    *,
    view: "View",
    versions: tuple[str, str] | None = None,
    as_json: bool,
) -> NoReturn:
    async def ask(runtime: "AgentRuntime") -> "Report":
        with ledger.BuilderQuery(runtime=runtime) as query:
            if not await asyncio.to_thread(query.list_runs_for_goal, goal, 1):
                raise CommandError(
                    f"no runs with the goal {goal}",
                    "Start runs with a goal: runtime.start_run(…, goal_id=…)",
                )
            return await asyncio.to_thread(ledger.report, query, goal_id=goal, view=view, versions=versions)

    _show(command, ask, as_json=as_json)


def _show(command: Command, ask: "Callable[[AgentRuntime], Awaitable[Report]]", *, as_json: bool) -> NoReturn:
    async def work() -> Exit:
        async with command.reading() as runtime:
            _tell(command, await ask(runtime), as_json=as_json)
        return Exit.DONE

    finish(work())


def _tell(command: Command, report: "Report", *, as_json: bool) -> None:
    if as_json:
        command.terminal.line(to_json(ledger.report_json(report)))
    else:
        show_report(command.terminal, report)


# proposals


@asynccontextmanager
async def _builder(runtime: "AgentRuntime", goals: "tuple[Goal, ...]" = ()) -> "AsyncGenerator[Builder]":
    async with ledger.Builder(None, runtime=runtime, goals=goals) as builder:
        yield builder


async def _state(builder: "Builder", proposal_id: str) -> "ProposalState":
    try:
        return await builder.proposal(proposal_id)
    except windlass.Conflict:
        ids = [state.proposal.id for state in await builder.proposals(None)]
        return await builder.proposal(complete_id(proposal_id, ids, what="proposal"))


@proposals.command("list")
def list_proposals(
    context: typer.Context,
    *,
    goal: Annotated[str | None, typer.Option(help="Only proposals for this goal.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each proposal.")] = False,
) -> None:
    """List proposals, the newest first.

    Example: windlass builder proposals list --goal prices
    """
    command = command_of(context)

    async def work() -> Exit:
        async with command.reading() as runtime, _builder(runtime) as builder:
            states = await builder.proposals(goal)
        if as_json:
            for state in states:
                command.terminal.line(to_json(state))
            return Exit.DONE
        header = ("proposal", "status", "goal", "agent", "created", "changes", "rationale")
        if not show_table(command.terminal, header, rows=map(_row, states)):
            command.terminal.say("No proposals found. A Builder makes them: see docs/improve.md")
        return Exit.DONE

    finish(work())


def _row(state: "ProposalState") -> tuple[str, ...]:
    proposal = state.proposal
    changes = ", ".join(str(change.part) for change in proposal.changes)
    return (
        proposal.id,
        state.status.value,
        proposal.goal_id,
        proposal.agent_id,
        when(proposal.at),
        changes,
        short(proposal.rationale),
    )


@proposals.command()
def show(context: typer.Context, proposal_id: Id, *, as_json: Json = False) -> None:
    """Show a proposal: its changes, rationale, check, and approval or refusal.

    Example: windlass builder proposals show proposal-019a8f…
    """
    command = command_of(context)

    async def work() -> Exit:
        async with command.reading() as runtime, _builder(runtime) as builder:
            await _show_state(command, builder, proposal_id, as_json=as_json)
        return Exit.DONE

    finish(work())


async def _show_state(command: Command, builder: "Builder", proposal_id: str, *, as_json: bool) -> None:
    from windlass.ledger import reports  # noqa: PLC0415 - slow to import

    state = await _state(builder, proposal_id)
    _tell(command, reports.ProposalReport(state), as_json=as_json)


@proposals.command()
def check(
    context: typer.Context,
    proposal_id: Id,
    *,
    goals: Annotated[
        str | None, typer.Option(help="Your goals: module:name or file.py:name; default: the setting goals.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=20, help="How often each run is replayed.")] = 1,
    as_json: Json = False,
) -> None:
    """Replay recorded runs with and without the change, and compare the results.

    Tools answer from the record; models are called. Runs under way are not touched. Exit code 1 if the change
    breaks more runs than it fixes.

    Example: windlass builder proposals check proposal-019a8f… --goals app.py:goals
    """
    command = command_of(context)

    async def work() -> Exit:
        known_goals = command.goals(goals)
        if not known_goals:
            raise CommandError("a check needs goals, and none are set", "Name them: --goals app.py:goals")
        async with command.reading(with_agents=True) as runtime, _builder(runtime, known_goals) as builder:
            known_id = (await _state(builder, proposal_id)).proposal.id
            outcome = await builder.check(known_id, repeats=repeats)
            await _show_state(command, builder, known_id, as_json=as_json)
        return Exit.FAILED if outcome.broken > outcome.fixed else Exit.DONE

    finish(work())


@proposals.command()
def approve(context: typer.Context, proposal_id: Id, *, reason: Reason = "") -> None:
    """Approve a proposal. A program of yours applies it.

    Example: windlass builder proposals approve proposal-019a8f… --reason "tested on Monday"
    """
    _settle(command_of(context), proposal_id, reason=reason, is_yes=True)


@proposals.command()
def refuse(context: typer.Context, proposal_id: Id, *, reason: Reason = "") -> None:
    """Refuse a proposal.

    Example: windlass builder proposals refuse proposal-019a8f… --reason "too broad"
    """
    _settle(command_of(context), proposal_id, reason=reason, is_yes=False)


def _settle(command: Command, proposal_id: str, *, reason: str, is_yes: bool) -> NoReturn:
    async def work() -> Exit:
        async with command.reading() as runtime, _builder(runtime) as builder:
            known_id = (await _state(builder, proposal_id)).proposal.id
            settle = builder.approve if is_yes else builder.refuse
            state = await settle(known_id, by=command.user, reason=reason)
        command.terminal.say(f"{known_id}: {state.status.value}, by {command.user}")
        if is_yes:
            command.terminal.say("Apply it with builder.apply: see docs/improve.md", "dim")
        return Exit.DONE

    finish(work())


# drawing of reports


def show_report(terminal: Terminal, report: "Report") -> None:
    """Write a report: series and comparisons are drawn, other reports are plain text."""
    from windlass_harness.ledger import reports  # noqa: PLC0415 - slow to import

    match report:
        case reports.GoalReport():
            _show_goal(terminal, report)
        case reports.VersionsReport():
            _show_versions(terminal, report)
        case _:
            terminal.show(reports.report_text(report))


def _show_goal(terminal: Terminal, report: "GoalReport") -> None:
    running = f", {report.running} running" if report.running else ""
    terminal.show(f"Goal {report.goal_id}: {report.runs} runs ended{running}", "bold")
    if report.description:
        terminal.show(report.description)
    if report.success_rate is None:
        return
    terminal.show(f"success   {sparkline(report.success, low=0, high=1)}  {_rate(report.success_rate)}")
    if report.duration_ms:
        mean = sum(report.duration_ms) / len(report.duration_ms) / 1000
        terminal.show(f"duration  {sparkline(report.duration_ms, low=0)}  {seconds(mean)}")
    terminal.show(f"{report.judged} of {report.runs} runs were evaluated against the goal.")
    if report.versions:
        terminal.show("")
        rows = [
            (
                _version(version.fingerprint),
                str(version.runs),
                _rate(version.success_rate),
                _value(version.cost_micros, _dollars),
                _value(version.duration_ms, _ms),
                _value(version.tokens, _count),
            )
            for version in report.versions
        ]
        header = ("version", "runs", "success (95 % interval)", "cost", "duration", "tokens")
        show_table(terminal, header, rows=rows, right=(1, 3, 4, 5))
    if report.failures:
        terminal.show("")
        failures = [
            (failure.kind.value, str(failure.count), failure.causes[0].told) for failure in report.failures
        ]
        show_table(terminal, ("failure", "runs", "most frequent cause"), rows=failures, right=(1,))


def _show_versions(terminal: Terminal, report: "VersionsReport") -> None:
    from windlass_harness.ledger.reports import verdict_text  # noqa: PLC0415 - slow to import

    compared = report.comparison
    old, new = compared.old, compared.new
    rows = [
        ("runs", str(old.runs), str(new.runs), ""),
        ("success", _rate(old.success_rate), _rate(new.success_rate), _change(compared.success_rate, _share)),
    ]
    for name, before, after, change, form in (
        ("cost", old.cost_micros, new.cost_micros, compared.cost_micros, _dollars),
        ("duration", old.duration_ms, new.duration_ms, compared.duration_ms, _ms),
        ("tokens", old.tokens, new.tokens, compared.tokens, _count),
    ):
        rows.append((name, _value(before, form), _value(after, form), _change(change, form)))
    terminal.show(f"Two versions on goal {report.goal_id}", "bold")
    header = (
        "",
        f"old {_version(old.fingerprint)}",
        f"new {_version(new.fingerprint)}",
        "change (95 % interval)",
    )
    show_table(terminal, header, rows=rows)
    terminal.show(verdict_text(compared))


def sparkline(values: Sequence[float], *, low: float | None = None, high: float | None = None) -> str:
    """Return a bar for each value, between `low` and `high` or the least and the greatest value."""
    bottom = min(values, default=0) if low is None else low
    spread = (max(values, default=0) if high is None else high) - bottom
    if spread <= 0:
        return _SPARKS[0] * len(values)
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[round(min(max((value - bottom) / spread, 0), 1) * steps)] for value in values)


def _version(fingerprint: str) -> str:
    from windlass_harness.ledger.reports import short_fingerprint  # noqa: PLC0415 - slow to import

    return short_fingerprint(fingerprint)


def _rate(estimate: "Estimate | None") -> str:
    if estimate is None:
        return NO_VALUE
    return f"{estimate.value:.0%} ({estimate.low or 0:.0%} to {estimate.high or 0:.0%})"


def _value(estimate: "Estimate | None", form: Callable[[float], str]) -> str:
    return NO_VALUE if estimate is None else form(estimate.value)


def _change(estimate: "Estimate | None", form: Callable[[float], str]) -> str:
    if estimate is None:
        return NO_VALUE
    value, low, high = (
        NO_VALUE if number is None else f"{'-' if number < 0 else '+'}{form(abs(number))}"
        for number in (estimate.value, estimate.low, estimate.high)
    )
    return value if estimate.low is None or estimate.high is None else f"{value} ({low} to {high})"


def _share(value: float) -> str:
    return f"{value:.0%}"


def _dollars(micros: float) -> str:
    return f"${micros / MICROS:.6f}"


def _ms(value: float) -> str:
    return seconds(value / 1000)


def _count(value: float) -> str:
    return f"{value:,.0f}"
