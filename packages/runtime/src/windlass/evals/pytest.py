"""Experiments in pytest: `@pytest.mark.windlass_eval(dataset, agent=…, gates=[…])` runs one before its test.

Enable it in the top-level `conftest.py` of a project: `pytest_plugins = ["windlass.evals.pytest"]`.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from windlass.errors import Rejected
from windlass.evals.dataset import Dataset
from windlass.evals.experiment import Experiment
from windlass.evals.results import ExperimentResult, Gate
from windlass.runtime.compose import AgentRuntime

_MARK: Final = "windlass_eval"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(dataset, agent, gates=[], store=None, **options): run an experiment before the test; "
        "it fails if a gate is not met",
    )


@pytest.fixture(autouse=True)
def _windlass_eval_gates(request: pytest.FixtureRequest) -> None:  # pyright: ignore[reportUnusedFunction] - of pytest
    """Run the experiment of a marked test, also if the test does not ask for its result."""
    if request.node.get_closest_marker(_MARK) is not None:
        request.getfixturevalue(_MARK)


@pytest.fixture
def windlass_eval(request: pytest.FixtureRequest) -> ExperimentResult:
    """Return the result of the experiment of `@pytest.mark.windlass_eval(…)`.

    The data set is a `Dataset`, or a file beside the test. `store` is a file beside it too, which keeps what
    was paid for; without one, everything is in memory. Options are those of `Experiment`. The test fails if a
    gate is not met.
    """
    mark = request.node.get_closest_marker(_MARK)
    if mark is None or len(mark.args) != 1 or "agent" not in mark.kwargs:
        pytest.fail(f"write @pytest.mark.{_MARK}(dataset, agent=agent) before the test", pytrace=False)
    options = dict(mark.kwargs)
    agent, gates, store = options.pop("agent"), options.pop("gates", ()), options.pop("store", None)
    folder, [data] = request.path.parent, mark.args
    try:
        dataset = data if isinstance(data, Dataset) else Dataset.load(folder / data)
        plan = Experiment(dataset, agent, **options)
        plan.check_gates(gate if isinstance(gate, Gate) else Gate.read(gate) for gate in gates)
    except (Rejected, TypeError) as error:  # a mark with a mistake: its traceback would show our code alone
        pytest.fail(f"@pytest.mark.{_MARK}: {error}", pytrace=False)

    async def main() -> ExperimentResult:
        if store is None:
            runtime = AgentRuntime.in_memory([agent])
        else:
            runtime = await AgentRuntime.open(folder / Path(store), agents=[agent], durability="process")
        async with runtime:
            return await plan.run(runtime)

    results = asyncio.run(main())
    missed = [check for check in map(results.check, gates) if not check.is_met]
    if missed:
        lines = [
            f"{check.gate} is not met: {'not known' if check.found is None else f'{check.found:g}'}"
            for check in missed
        ]
        cases = [f"{attempt.name}: {attempt.why or attempt.status.value}" for attempt in results.failed]
        pytest.fail("\n".join([*lines, *cases]), pytrace=False)
    return results
