"""`windlass builder`: what the ledger says of a goal, and what could be changed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

import windlass
from windlass_cli.problems import Exit, Problem
from windlass_cli.session import Session, finish, known_run, session_of
from windlass_cli.shapes import short, show_table, to_json, when

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass.ledger import Builder, Goal, ProposalState
    from windlass.ledger.reports import Report, View

app = typer.Typer(no_args_is_help=True, help="Reports of the ledger: goals, failures, versions, proposals.")
proposals = typer.Typer(
    no_args_is_help=True, help="Changes that were proposed: list, show, check, approve, refuse."
)
app.add_typer(proposals, name="proposals")
GoalId = Annotated[str, typer.Argument(help="The goal, as runs were started with it.")]
Id = Annotated[str, typer.Argument(help="The proposal.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Reason = Annotated[str, typer.Option(help="Why.")]


@app.command()
def report(context: typer.Context, goal: GoalId, *, as_json: Json = False) -> None:
    """Tell how the runs of a goal went: success over time, versions, failures.

    Example: windlass builder report prices
    """
    _report(session_of(context), goal, view="overview", as_json=as_json)


@app.command()
def failures(context: typer.Context, goal: GoalId, *, as_json: Json = False) -> None:
    """Tell why runs of a goal failed, the most frequent reason first.

    Example: windlass builder failures prices
    """
    _report(session_of(context), goal, view="failures", as_json=as_json)


@app.command()
def compare(
    context: typer.Context,
    goal: GoalId,
    *,
    old: Annotated[str | None, typer.Argument(help="A version; the two newest when left out.")] = None,
    new: Annotated[str | None, typer.Argument(help="Another one.")] = None,
    as_json: Json = False,
) -> None:
    """Compare two versions of the agent of a goal, with confidence intervals.

    Example: windlass builder compare prices
    """
    if (old is None) != (new is None):
        raise Problem("two versions are compared, found one", "Name both, or none for the two newest.")
    versions = None if old is None or new is None else (old, new)
    _report(session_of(context), goal, view="versions", versions=versions, as_json=as_json)


@app.command()
def run(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(help="The run.")],
    *,
    as_json: Json = False,
) -> None:
    """Tell what a run decided, and why it failed if it did.

    Example: windlass builder run 019a8f…
    """
    session = session_of(context)

    async def ask(runtime: "AgentRuntime") -> "Report":
        # The ledger is no small import.
        from windlass import ledger  # noqa: PLC0415 - slow to import

        await known_run(runtime, run_id)
        with ledger.BuilderQuery(runtime=runtime) as query:
            return await asyncio.to_thread(ledger.report, query, run_id=run_id)

    _show(session, ask, as_json=as_json)


def _report(
    session: Session,
    goal: str,
    *,
    view: "View",
    versions: tuple[str, str] | None = None,
    as_json: bool,
) -> NoReturn:
    async def ask(runtime: "AgentRuntime") -> "Report":
        from windlass import ledger  # noqa: PLC0415 - slow to import

        with ledger.BuilderQuery(runtime=runtime) as query:
            if not await asyncio.to_thread(query.list_runs_for_goal, goal, 1):
                raise Problem(
                    f"no run was ever started for the goal {goal}",
                    "Runs belong to a goal that they are started with: runtime.start(…, goal_id=…)",
                )
            return await asyncio.to_thread(ledger.report, query, goal_id=goal, view=view, versions=versions)

    _show(session, ask, as_json=as_json)


def _show(session: Session, ask: "Callable[[AgentRuntime], Awaitable[Report]]", *, as_json: bool) -> NoReturn:
    async def work() -> Exit:
        async with session.reading() as runtime:
            _tell(session, await ask(runtime), as_json=as_json)
        return Exit.DONE

    finish(work())


def _tell(session: Session, found: "Report", *, as_json: bool) -> None:
    from windlass import ledger  # noqa: PLC0415 - slow to import

    if as_json:
        session.terminal.line(to_json(ledger.report_json(found)))
    else:
        session.terminal.show(ledger.report_text(found, width=min(session.terminal.out.width, 100)))


# proposals


@asynccontextmanager
async def _builder(runtime: "AgentRuntime", goals: "tuple[Goal, ...]" = ()) -> "AsyncGenerator[Builder]":
    from windlass import ledger  # noqa: PLC0415 - slow to import

    async with ledger.Builder(None, runtime=runtime, goals=goals) as builder:
        yield builder


async def _state(builder: "Builder", proposal_id: str) -> "ProposalState":
    try:
        return await builder.proposal(proposal_id)
    except windlass.Conflict:
        raise Problem(
            f"there is no proposal {proposal_id}", "See which there are: windlass builder proposals list"
        ) from None


@proposals.command("list")
def list_proposals(
    context: typer.Context,
    *,
    goal: Annotated[str | None, typer.Option(help="Of this goal.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
) -> None:
    """List what was proposed, the newest first.

    Example: windlass builder proposals list --goal prices
    """
    session = session_of(context)

    async def work() -> Exit:
        async with session.reading() as runtime, _builder(runtime) as builder:
            found = await builder.proposals(goal)
        if as_json:
            for one in found:
                session.terminal.line(to_json(one))
            return Exit.DONE
        header = ("proposal", "status", "goal", "agent", "made", "changes", "why")
        if not show_table(session.terminal, header, rows=map(_row, found)):
            session.terminal.say("Nothing was proposed. A Builder does that: see docs/improve.md")
        return Exit.DONE

    finish(work())


def _row(one: "ProposalState") -> tuple[str, ...]:
    made = one.proposal
    changes = ", ".join(str(change.part) for change in made.changes)
    return (
        made.id,
        one.status.value,
        made.goal_id,
        made.agent_id,
        when(made.at),
        changes,
        short(made.rationale),
    )


@proposals.command()
def show(context: typer.Context, proposal_id: Id, *, as_json: Json = False) -> None:
    """Show a proposal: what it changes, why, how it did, and what people said.

    Example: windlass builder proposals show proposal-019a8f…
    """
    session = session_of(context)

    async def work() -> Exit:
        async with session.reading() as runtime, _builder(runtime) as builder:
            await _show_state(session, builder, proposal_id, as_json=as_json)
        return Exit.DONE

    finish(work())


async def _show_state(session: Session, builder: "Builder", proposal_id: str, *, as_json: bool) -> None:
    from windlass.ledger import reports  # noqa: PLC0415 - slow to import

    state = await _state(builder, proposal_id)
    _tell(session, reports.ProposalReport(state), as_json=as_json)


@proposals.command()
def check(
    context: typer.Context,
    proposal_id: Id,
    *,
    goals: Annotated[
        str | None, typer.Option(help="Your goals: module:name or file.py:name; the setting when left out.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=20, help="How often each run is done again.")] = 1,
    as_json: Json = False,
) -> None:
    """Do recorded runs again with and without the change, and compare how they do.

    Tools answer from the record; models are asked for real. Runs under way are left alone. Exit code 1 if the
    change breaks more than it mends.

    Example: windlass builder proposals check proposal-019a8f… --goals app.py:goals
    """
    session = session_of(context)

    async def work() -> Exit:
        known = session.goals(goals)
        if not known:
            raise Problem(
                "a change is tried for goals, and there are none", "Name them: --goals app.py:goals"
            )
        async with session.knowing() as runtime, _builder(runtime, known) as builder:
            await _state(builder, proposal_id)
            found = await builder.check(proposal_id, repeats=repeats)
            await _show_state(session, builder, proposal_id, as_json=as_json)
        return Exit.FAILED if found.broken > found.fixed else Exit.DONE

    finish(work())


@proposals.command()
def approve(context: typer.Context, proposal_id: Id, *, reason: Reason = "") -> None:
    """Say yes to a proposal; who applies it is a program of yours.

    Example: windlass builder proposals approve proposal-019a8f… --reason "tried on Monday"
    """
    _settle(session_of(context), proposal_id, reason=reason, is_yes=True)


@proposals.command()
def refuse(context: typer.Context, proposal_id: Id, *, reason: Reason = "") -> None:
    """Say no to a proposal.

    Example: windlass builder proposals refuse proposal-019a8f… --reason "too broad"
    """
    _settle(session_of(context), proposal_id, reason=reason, is_yes=False)


def _settle(session: Session, proposal_id: str, *, reason: str, is_yes: bool) -> NoReturn:
    async def work() -> Exit:
        async with session.reading() as runtime, _builder(runtime) as builder:
            await _state(builder, proposal_id)
            say = builder.approve if is_yes else builder.refuse
            state = await say(proposal_id, by=session.user, reason=reason)
        session.terminal.say(f"{proposal_id}: {state.status.value}, by {session.user}")
        if is_yes:
            session.terminal.say("Make the change with builder.apply: see docs/improve.md", "dim")
        return Exit.DONE

    finish(work())
