"""`windlass eval`: run agents on data sets, list experiments, compare them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass_cli.backend import Command, chosen_agent, command_of, completed, finish
from windlass_cli.output import NO_VALUE, Exit, Terminal, seconds, short, show_table, to_json, when
from windlass_cli.settings import OWNER

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass.evals import Experiment, ExperimentResult, GateResult, Results
    from windlass_protocol import Estimate, EvalComparison, EvalExperiment

app = typer.Typer(no_args_is_help=True, help="Evaluations: run agents on data sets, list and compare them.")
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Id = Annotated[str, typer.Argument(help="An experiment.")]
_MICROS: Final = 1_000_000
_FAILED_SHOWN_MAX: Final = 50
_WHY_CHARS: Final = 120


@app.command()
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The data set: a .yaml, .json or .jsonl file.")],
    *,
    agents: Annotated[str | None, typer.Option(help="Your agents: module:name or file.py:name.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent; default: the first one.")] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(help="A condition, such as 'pass_rate>=0.95' or 'cost<=0.02'; may be repeated."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="An older experiment; exit code 1 if this one is worse.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1_000, help="Attempts at each case.")] = 1,
    at_once: Annotated[int, typer.Option(min=1, max=1_000, help="Attempts at the same time.")] = 8,
    tag: Annotated[list[str] | None, typer.Option(help="Only cases with this tag; may be repeated.")] = None,
    tools: Annotated[
        str, typer.Option(help="Tools: real, or recorded (from the runs of the cases).")
    ] = "real",
    approvals: Annotated[str, typer.Option(help="Approval requests: deny or approve.")] = "deny",
    user_model: Annotated[
        str | None, typer.Option(help="The model that plays users of conversations.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--id", help="The id of the experiment; another one asks the agent again.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Run an agent on the cases of a data set, and score its answers.

    An experiment that was interrupted goes on, and one that has ended costs nothing again. Exit code 1 if a
    gate is not met, or if it is worse than --against.

    Example: windlass eval run cases.yaml --agents app.py:agent --gate "pass_rate>=0.95"
    """
    command = _with_agents(command_of(context), agents)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        gates = [evals.Gate.read(one) for one in gate or ()]
        data = evals.Dataset.load(file)
        data = data.tagged(*tag) if tag else data
        name = chosen_agent(agent, [one.name for one in command.agents()])
        plan = evals.Experiment(
            data,
            name,
            repeats=repeats,
            tools=tools,  # pyright: ignore[reportArgumentType] - `Experiment` checks it
            approvals=approvals,  # pyright: ignore[reportArgumentType] - `Experiment` checks it
            user_model=user_model,
            at_once=at_once,
            experiment_id=experiment,
            owner=OWNER,
        )
        async with command.driving() as runtime:
            results = evals.Results(runtime)
            older = None if against is None else await results.read(await _known(results, against))
            found = await _with_progress(command.terminal, plan, runtime=runtime)
        met = [found.check(one) for one in gates]
        comparison = None if older is None else found.compare(older)
        if junit is not None:
            junit.write_text(found.junit(met), encoding="utf-8")
        if as_json:
            more = {} if comparison is None else {"comparison": comparison}
            command.terminal.line(to_json({**found.data(met), **more}))
        else:
            _show_result(command.terminal, found, met)
            if comparison is not None:
                _show_comparison(command.terminal, comparison)
        is_worse = comparison is not None and comparison.comparison.verdict == "worse"
        return Exit.FAILED if is_worse or not all(one.is_met for one in met) else Exit.DONE

    finish(work())


def _with_agents(command: Command, agents: str | None) -> Command:
    if agents is None:
        return command
    settings = command.settings
    named = replace(settings.values["agents"], value=agents, source="option --agents", is_from_file=False)
    return Command(
        replace(settings, values={**settings.values, "agents": named}), command.terminal, key=command.key
    )


async def _with_progress(
    terminal: Terminal, plan: "Experiment", *, runtime: "AgentRuntime"
) -> "ExperimentResult":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415 - slow

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=terminal.err, transient=True, disable=not terminal.err.is_terminal)
    with bar:
        task = bar.add_task("cases")
        return await plan.run(
            runtime, progress=lambda done, all_: bar.update(task, completed=done, total=all_)
        )


@app.command("list")
def list_experiments(context: typer.Context, *, as_json: Json = False) -> None:
    """List experiments, the newest first.

    Example: windlass eval list
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            found = await evals.Results(runtime).list()
        if as_json:
            for one in found:
                command.terminal.line(to_json(one))
            return Exit.DONE
        header = ("experiment", "begun", "data set", "agent", "version", "cases", "pass rate", "cost")
        if not show_table(command.terminal, header, rows=map(_row, found)):
            command.terminal.say(
                "No experiments. Run one: windlass eval run cases.yaml --agents app.py:agent"
            )
        return Exit.DONE

    finish(work())


def _row(one: "EvalExperiment") -> tuple[str, ...]:
    version = one.fingerprint.removeprefix("sha256:")[:12]
    state = _share(one.pass_rate) if one.ended_at is not None else "not ended"
    return (one.id, when(one.at), one.dataset, one.agent_id, version, str(one.cases), state, _cost(one))


@app.command()
def show(context: typer.Context, experiment: Id, *, as_json: Json = False) -> None:
    """Show an experiment, with the cases that did not pass.

    Example: windlass eval show eval-cases-19c0…
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            results = evals.Results(runtime)
            found = await results.read(await _known(results, experiment))
        if as_json:
            command.terminal.line(to_json(found.data()))
        else:
            _show_result(command.terminal, found, ())
        return Exit.DONE

    finish(work())


@app.command()
def compare(context: typer.Context, old: Id, new: Id, *, as_json: Json = False) -> None:
    """Compare two experiments, case by case. Exit code 1 if the new one is worse.

    Example: windlass eval compare eval-cases-19c0… eval-cases-4be1…
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            results = evals.Results(runtime)
            older, newer = [await results.read(await _known(results, one)) for one in (old, new)]
        found = newer.compare(older)
        if as_json:
            command.terminal.line(to_json(found))
        else:
            _show_comparison(command.terminal, found)
        return Exit.FAILED if found.comparison.verdict == "worse" else Exit.DONE

    finish(work())


async def _known(results: "Results", given: str) -> str:
    ids = [one.id for one in await results.list()]
    return given if given in ids else completed(given, ids, what="experiment")


# drawing


def _show_result(terminal: Terminal, found: "ExperimentResult", gates: "Sequence[GateResult]") -> None:
    info = found.experiment
    times = f" × {info.repeats}" if info.repeats > 1 else ""
    terminal.show(f"{info.id}: {info.agent_id} on {info.dataset}, {info.cases} cases{times}", "bold")
    terminal.show(f"  pass rate  {_share(info.pass_rate)}")
    terminal.show(f"  cost       {_cost(info)} a case")
    if info.duration_ms is not None:
        terminal.show(f"  duration   {seconds(info.duration_ms.value / 1_000)} a case")
    for name, score in (info.scores or {}).items():
        terminal.show(f"  {name:<10} {score.value:.2f}")
    failed = found.failed
    if failed:
        terminal.show("")
        rows = (
            (one.name, str(one.repeat), short(one.why or one.status.value, _WHY_CHARS), one.run_id)
            for one in failed[:_FAILED_SHOWN_MAX]
        )
        show_table(terminal, ("failed case", "attempt", "why", "run"), rows=rows)
        if len(failed) > _FAILED_SHOWN_MAX:
            terminal.show(f"and {len(failed) - _FAILED_SHOWN_MAX} more")
    for one in gates:
        value = "not known" if one.found is None else f"{one.found:.4g}"
        mark, style = ("✓", "green") if one.is_met else ("✗", "red")
        terminal.show(f"{mark} {one.gate}: {value}", style)


def _show_comparison(terminal: Terminal, found: "EvalComparison") -> None:
    gain = found.comparison.success_rate
    told = NO_VALUE if gain is None else f"{gain.value:+.0%}{_interval(gain, '+.0%')}"
    terminal.show(f"{found.comparison.verdict.value}: {found.new.id} against {found.old.id}", "bold")
    terminal.show(f"  pass rate  {told}")
    terminal.show(f"  {found.fixed} fixed, {found.broken} broken of {len(found.pairs)} cases of both")
    changed = [one for one in found.pairs if one.change != "same"]
    rows = (
        (one.name, one.change.value, one.old[0].run_id, one.new[0].run_id)
        for one in changed[:_FAILED_SHOWN_MAX]
    )
    show_table(terminal, ("case", "change", "old run", "new run"), rows=rows)


def _share(rate: "Estimate | None") -> str:
    return NO_VALUE if rate is None else f"{rate.value:.0%}{_interval(rate, '.0%')}"


def _interval(estimate: "Estimate", form: str) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({estimate.low:{form}} to {estimate.high:{form}})"


def _cost(info: "EvalExperiment") -> str:
    return NO_VALUE if info.cost_micros is None else f"${info.cost_micros.value / _MICROS:.4f}"
