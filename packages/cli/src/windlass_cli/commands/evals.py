"""`windlass eval`: run agents on data sets, list experiments, compare them; keep data sets in the store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass.errors import wrong
from windlass_cli.backend import Command, all_items, chosen_agent, command_of, completed, finish
from windlass_cli.output import NO_VALUE, Exit, Terminal, seconds, short, show_table, to_json, when
from windlass_cli.settings import OWNER

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass import AgentRuntime
    from windlass.evals import Dataset, Experiment, ExperimentResult, GateResult, Results
    from windlass_protocol import Estimate, EvalComparison, EvalExperiment

app = typer.Typer(no_args_is_help=True, help="Evaluations: run agents on data sets, list and compare them.")
datasets = typer.Typer(no_args_is_help=True, help="Data sets in the store: list, fill, write to files.")
app.add_typer(datasets, name="datasets")
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Id = Annotated[str, typer.Argument(help="An experiment.")]
Name = Annotated[str, typer.Argument(help="A data set in the store.")]
_MICROS: Final = 1_000_000
_FAILED_SHOWN_MAX: Final = 50
_WHY_CHARS: Final = 120
_TEXT_CHARS: Final = 60
_PAGE: Final = 200
_SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")


@app.command()
def run(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Argument(help="A .yaml, .json or .jsonl file, or the name of a data set in the store.")
    ],
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
        data = await _dataset(command, dataset)
        data = data.tagged(*tag) if tag else data
        if not data.cases:
            # A misspelt tag must not look like a job that passed.
            words = f" with the tag {' or '.join(tag)}" if tag else ""
            raise wrong(f"data set {data.name} has no cases{words}: there is nothing to measure")
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
        plan.check_gates(gates)
        if not any((data.scorers, *(one.scorers for one in data.cases))):
            command.terminal.say(
                f"Data set {data.name} has no scorers: a case passes if its run completes, with any answer. "
                "Add evaluators to the file, such as EqualsExpected."
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


async def _dataset(command: Command, given: str) -> "Dataset":
    """Return the data set of a file, or else the one of the store with this name."""
    from windlass import evals  # noqa: PLC0415 - slow to import

    file = Path(given)
    if file.suffix.lower() in _SUFFIXES:
        return evals.Dataset.load(file)
    async with command.reading() as runtime:
        return await evals.Datasets(runtime, owner=OWNER).load(given)


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
def list_experiments(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE, help="The number of experiments.")] = 50,
    as_json: Json = False,
) -> None:
    """List experiments, the newest first.

    Example: windlass eval list
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            found = (await evals.Results(runtime).list(limit=limit)).items
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
    version = _version(one.fingerprint)
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


async def _experiments(results: "Results") -> "list[EvalExperiment]":
    found: list[EvalExperiment] = []
    after: str | None = None
    while True:
        page = await results.list(after=after, limit=_PAGE)
        found += page.items
        after = page.next
        if after is None:
            return found


async def _known(results: "Results", given: str) -> str:
    ids = [one.id for one in await _experiments(results)]
    return given if given in ids else completed(given, ids, what="experiment")


# data sets in the store


@datasets.command("list")
def list_datasets(context: typer.Context, *, as_json: Json = False) -> None:
    """List the data sets in the store.

    Example: windlass eval datasets list
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            kept = evals.Datasets(runtime, owner=OWNER)
            found = await all_items(lambda after: kept.list(after=after, limit=_PAGE))
        if as_json:
            for one in found:
                command.terminal.line(to_json(one))
            return Exit.DONE
        rows = ((one.name, str(one.cases), _version(one.hash), when(one.changed_at)) for one in found)
        if not show_table(command.terminal, ("data set", "cases", "version", "changed"), rows=rows):
            command.terminal.say("No data sets. Keep one: windlass eval datasets add NAME --run RUN")
        return Exit.DONE

    finish(work())


@datasets.command("show")
def show_dataset(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Show the cases of a data set.

    Example: windlass eval datasets show prices
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            kept = evals.Datasets(runtime, owner=OWNER)
            info = await kept.get(name)
            cases = await all_items(lambda after: kept.cases(name, after=after, limit=_PAGE))
        if as_json:
            command.terminal.line(to_json({"dataset": info, "cases": cases}))
            return Exit.DONE
        command.terminal.show(f"{info.name}: {info.cases} cases, version {_version(info.hash)}", "bold")
        rows = (
            (
                one.name,
                _said(one.inputs),
                _said(one.expected),
                ", ".join(one.tags or ()),
                one.run_id or NO_VALUE,
            )
            for one in cases
        )
        show_table(command.terminal, ("case", "inputs", "expected", "tags", "run"), rows=rows)
        return Exit.DONE

    finish(work())


@datasets.command("add")
def add_cases(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(help="A .yaml, .json or .jsonl file, which replaces the data set.")
    ] = None,
    *,
    run: Annotated[
        list[str] | None, typer.Option(help="A recorded run to add as a case; may be repeated.")
    ] = None,
) -> None:
    """Keep the data set of a file, or add recorded runs as cases.

    Example: windlass eval datasets add prices --run 019a8f…
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        if (file is None) == (not run):
            raise typer.BadParameter("give a file, or --run with a recorded run")
        async with command.reading() as runtime:
            kept = evals.Datasets(runtime, owner=OWNER)
            if file is not None:
                await kept.save(replace(evals.Dataset.load(file), name=name))
            for one in run or ():
                await kept.add_run(name, one)
            info = await kept.get(name)
        command.terminal.say(f"{info.name} has {info.cases} cases, version {_version(info.hash)}.")
        return Exit.DONE

    finish(work())


@datasets.command("remove")
def remove_case(
    context: typer.Context,
    name: Name,
    case: Annotated[str | None, typer.Argument(help="A case; default: the whole data set.")] = None,
) -> None:
    """Remove a case, or a whole data set; experiments stay.

    Example: windlass eval datasets remove prices oslo
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import

        async with command.reading() as runtime:
            kept = evals.Datasets(runtime, owner=OWNER)
            await (kept.delete(name) if case is None else kept.remove(name, case))
        command.terminal.say(f"Removed {name}." if case is None else f"Removed {case} from {name}.")
        return Exit.DONE

    finish(work())


@datasets.command("save")
def save_dataset(
    context: typer.Context,
    name: Name,
    file: Annotated[Path, typer.Argument(help="The .yaml, .json or .jsonl file to write.")],
) -> None:
    """Write a data set to a file, in the form of pydantic-evals.

    Example: windlass eval datasets save prices prices.yaml
    """
    command = command_of(context)

    async def work() -> Exit:
        from windlass import evals  # noqa: PLC0415 - slow to import
        from windlass.evals.dataset import file_format  # noqa: PLC0415 - slow to import

        kind = file_format(file)
        async with command.reading() as runtime:
            text = await evals.Datasets(runtime, owner=OWNER).text(name, kind)
        file.write_text(text, encoding="utf-8")
        return Exit.DONE

    finish(work())


def _version(fingerprint: str) -> str:
    return fingerprint.removeprefix("sha256:")[:12]


def _said(value: "JsonValue") -> str:
    if value is None:
        return NO_VALUE
    return short(value if isinstance(value, str) else to_json(value), _TEXT_CHARS)


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
