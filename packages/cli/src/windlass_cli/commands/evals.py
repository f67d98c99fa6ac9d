"""`windlass eval`: run agents on data sets, list experiments, compare them; keep data sets in the store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass import evals
from windlass.errors import wrong
from windlass_cli.backend import (
    BatchOption,
    Command,
    all_items,
    batch_choice,
    choose_agent,
    command_of,
    complete_id,
    finish,
)
from windlass_cli.output import NO_VALUE, Exit, Terminal, seconds, short, show_table, to_json, when
from windlass_cli.settings import OWNER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from windlass import AgentRuntime
    from windlass.evals import Dataset, Experiment, ExperimentResult, Gate, GateResult, Results
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
    at_once: Annotated[
        int | None,
        typer.Option(min=1, max=1_000, help="Attempts at the same time: 8, or 1,000 with batches."),
    ] = None,
    batch: BatchOption = None,
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
        gates = [evals.Gate.read(condition) for condition in gate or ()]
        data = await _dataset(command, dataset)
        data = data.tagged(*tag) if tag else data
        if not data.cases:
            # A misspelt tag must not look like a job that passed.
            tags = f" with the tag {' or '.join(tag)}" if tag else ""
            raise wrong(f"data set {data.name} has no cases{tags}: there is nothing to measure")
        name = choose_agent(agent, [known_agent.name for known_agent in command.agents()])
        plan = evals.Experiment(
            data,
            name,
            repeats=repeats,
            tools=tools,  # pyright: ignore[reportArgumentType] - `Experiment` checks it
            approvals=approvals,  # pyright: ignore[reportArgumentType] - `Experiment` checks it
            user_model=user_model,
            at_once=at_once,
            batch=batch_choice(batch),
            experiment_id=experiment,
            owner=OWNER,
        )
        plan.check_gates(gates)
        if not any((data.scorers, *(case.scorers for case in data.cases))):
            command.terminal.say(
                f"Data set {data.name} has no scorers: a case passes if its run completes, with any answer. "
                "Add evaluators to the file, such as EqualsExpected."
            )
        async with command.driving() as runtime:
            results = evals.Results(runtime)
            older = (
                None if against is None else await results.read(await _find_experiment_id(results, against))
            )
            result = await _with_progress(command.terminal, plan, runtime=runtime, gates=gates)
        outcomes = [result.check(condition) for condition in gates]
        comparison = None if older is None else result.compare(older)
        if junit is not None:
            junit.write_text(result.junit(outcomes), encoding="utf-8")
        if as_json:
            more = {} if comparison is None else {"comparison": comparison}
            command.terminal.line(to_json({**result.data(outcomes), **more}))
        else:
            _show_result(command.terminal, result, outcomes)
            if comparison is not None:
                _show_comparison(command.terminal, comparison)
        is_worse = comparison is not None and comparison.comparison.verdict == "worse"
        return Exit.FAILED if is_worse or not all(outcome.is_met for outcome in outcomes) else Exit.DONE

    finish(work())


async def _dataset(command: Command, source: str) -> "Dataset":
    """Return the data set of a file, or else the one of the store with this name."""

    file = Path(source)
    if file.suffix.lower() in _SUFFIXES:
        return evals.Dataset.load(file)
    async with command.reading() as runtime:
        return await evals.Datasets(runtime, owner=OWNER).load(source)


def _with_agents(command: Command, agents: str | None) -> Command:
    if agents is None:
        return command
    settings = command.settings
    value = replace(settings.values["agents"], value=agents, source="option --agents", is_from_file=False)
    return Command(
        replace(settings, values={**settings.values, "agents": value}), command.terminal, key=command.key
    )


async def _with_progress(
    terminal: Terminal, plan: "Experiment", *, runtime: "AgentRuntime", gates: "Sequence[Gate]"
) -> "ExperimentResult":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415 - slow

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=terminal.err, transient=True, disable=not terminal.err.is_terminal)
    with bar:
        task = bar.add_task("cases")
        return await plan.run(
            runtime, gates=gates, progress=lambda done, all_: bar.update(task, completed=done, total=all_)
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
        async with command.reading() as runtime:
            experiments = (await evals.Results(runtime).list(limit=limit)).items
        if as_json:
            for info in experiments:
                command.terminal.line(to_json(info))
            return Exit.DONE
        header = ("experiment", "begun", "data set", "agent", "version", "cases", "pass rate", "cost")
        if not show_table(command.terminal, header, rows=map(_row, experiments)):
            command.terminal.say(
                "No experiments. Run one: windlass eval run cases.yaml --agents app.py:agent"
            )
        return Exit.DONE

    finish(work())


def _row(experiment: "EvalExperiment") -> tuple[str, ...]:
    version = _version(experiment.fingerprint)
    state = _share(experiment.pass_rate) if experiment.ended_at is not None else "not ended"
    return (
        experiment.id,
        when(experiment.at),
        experiment.dataset,
        experiment.agent_id,
        version,
        str(experiment.cases),
        state,
        _cost(experiment),
    )


@app.command()
def show(context: typer.Context, experiment: Id, *, as_json: Json = False) -> None:
    """Show an experiment, with the cases that did not pass.

    Example: windlass eval show eval-cases-19c0…
    """
    command = command_of(context)

    async def work() -> Exit:
        async with command.reading() as runtime:
            results = evals.Results(runtime)
            result = await results.read(await _find_experiment_id(results, experiment))
        if as_json:
            command.terminal.line(to_json(result.data()))
        else:
            _show_result(command.terminal, result, ())
        return Exit.DONE

    finish(work())


@app.command()
def compare(context: typer.Context, old: Id, new: Id, *, as_json: Json = False) -> None:
    """Compare two experiments, case by case. Exit code 1 if the new one is worse.

    Example: windlass eval compare eval-cases-19c0… eval-cases-4be1…
    """
    command = command_of(context)

    async def work() -> Exit:
        async with command.reading() as runtime:
            results = evals.Results(runtime)
            older, newer = [
                await results.read(await _find_experiment_id(results, prefix)) for prefix in (old, new)
            ]
        comparison = newer.compare(older)
        if as_json:
            command.terminal.line(to_json(comparison))
        else:
            _show_comparison(command.terminal, comparison)
        return Exit.FAILED if comparison.comparison.verdict == "worse" else Exit.DONE

    finish(work())


async def _find_experiment_id(results: "Results", prefix: str) -> str:
    experiments = await all_items(lambda after: results.list(after=after, limit=_PAGE))
    ids = [experiment.id for experiment in experiments]
    return prefix if prefix in ids else complete_id(prefix, ids, what="experiment")


# data sets in the store


@datasets.command("list")
def list_datasets(context: typer.Context, *, as_json: Json = False) -> None:
    """List the data sets in the store.

    Example: windlass eval datasets list
    """
    command = command_of(context)

    async def work() -> Exit:
        async with command.reading() as runtime:
            store = evals.Datasets(runtime, owner=OWNER)
            infos = await all_items(lambda after: store.list(after=after, limit=_PAGE))
        if as_json:
            for info in infos:
                command.terminal.line(to_json(info))
            return Exit.DONE
        rows = ((info.name, str(info.cases), _version(info.hash), when(info.changed_at)) for info in infos)
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
        async with command.reading() as runtime:
            store = evals.Datasets(runtime, owner=OWNER)
            info = await store.get(name)
            cases = await all_items(lambda after: store.cases(name, after=after, limit=_PAGE))
        if as_json:
            command.terminal.line(to_json({"dataset": info, "cases": cases}))
            return Exit.DONE
        command.terminal.show(f"{info.name}: {info.cases} cases, version {_version(info.hash)}", "bold")
        rows = (
            (
                case.name,
                _value_text(case.inputs),
                _value_text(case.expected),
                ", ".join(case.tags or ()),
                case.run_id or NO_VALUE,
            )
            for case in cases
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
        if (file is None) == (not run):
            raise typer.BadParameter("give a file, or --run with a recorded run")
        async with command.reading() as runtime:
            store = evals.Datasets(runtime, owner=OWNER)
            if file is not None:
                await store.save(replace(evals.Dataset.load(file), name=name))
            for run_id in run or ():
                await store.add_run(name, run_id)
            info = await store.get(name)
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
        async with command.reading() as runtime:
            store = evals.Datasets(runtime, owner=OWNER)
            await (store.delete(name) if case is None else store.remove(name, case))
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
        from windlass.evals.dataset import file_format  # noqa: PLC0415 - slow to import

        kind = file_format(file)
        async with command.reading() as runtime:
            text = await evals.Datasets(runtime, owner=OWNER).text(name, kind)
        file.write_text(text, encoding="utf-8")
        return Exit.DONE

    finish(work())


def _version(fingerprint: str) -> str:
    return fingerprint.removeprefix("sha256:")[:12]


def _value_text(value: "JsonValue") -> str:
    if value is None:
        return NO_VALUE
    return short(value if isinstance(value, str) else to_json(value), _TEXT_CHARS)


# drawing


def _show_result(terminal: Terminal, result: "ExperimentResult", gates: "Sequence[GateResult]") -> None:
    info = result.experiment
    times = f" × {info.repeats}" if info.repeats > 1 else ""
    terminal.show(f"{info.id}: {info.agent_id} on {info.dataset}, {info.cases} cases{times}", "bold")
    terminal.show(f"  pass rate  {_share(info.pass_rate)}")
    terminal.show(f"  cost       {_cost(info)} a case")
    if info.duration_ms is not None:
        terminal.show(f"  duration   {seconds(info.duration_ms.value / 1_000)} a case")
    for name, score in (info.scores or {}).items():
        terminal.show(f"  {name:<10} {score.value:.2f}")
    failed = result.failed
    if failed:
        terminal.show("")
        rows = (
            (
                attempt.name,
                str(attempt.repeat),
                short(attempt.why or attempt.status.value, _WHY_CHARS),
                attempt.run_id,
            )
            for attempt in failed[:_FAILED_SHOWN_MAX]
        )
        show_table(terminal, ("failed case", "attempt", "why", "run"), rows=rows)
        if len(failed) > _FAILED_SHOWN_MAX:
            terminal.show(f"and {len(failed) - _FAILED_SHOWN_MAX} more")
    for outcome in gates:
        value = "not known" if outcome.found is None else f"{outcome.found:.4g}"
        mark, style = ("✓", "green") if outcome.is_met else ("✗", "red")
        terminal.show(f"{mark} {outcome.gate}: {value}", style)


def _show_comparison(terminal: Terminal, comparison: "EvalComparison") -> None:
    gain = comparison.comparison.success_rate
    change = NO_VALUE if gain is None else f"{gain.value:+.0%}{_interval(gain, '+.0%')}"
    terminal.show(
        f"{comparison.comparison.verdict.value}: {comparison.new.id} against {comparison.old.id}", "bold"
    )
    terminal.show(f"  pass rate  {change}")
    terminal.show(
        f"  {comparison.fixed} fixed, {comparison.broken} broken of {len(comparison.pairs)} cases of both"
    )
    changed = [pair for pair in comparison.pairs if pair.change != "same"]
    rows = (
        (pair.name, pair.change.value, pair.old[0].run_id, pair.new[0].run_id)
        for pair in changed[:_FAILED_SHOWN_MAX]
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
