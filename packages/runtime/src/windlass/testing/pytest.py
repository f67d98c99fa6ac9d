"""Fixtures for pytest: `windlass_runtime`, `scripted_model`, `fake_clock` and `windlass_eval`.

`@pytest.mark.windlass_eval(dataset, agent=…, gates=[…])` runs an experiment before its test.

Enable them in the top-level `conftest.py` of a project: `pytest_plugins = ["windlass.testing.pytest"]`. There
is no entry point: pytest would then import the test kit in every project of the environment, also in those
that do not use it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, Unpack

import pytest

from windlass.agent import AnyAgent
from windlass.errors import Rejected
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.options import RuntimeOptions
from windlass.runtime.registry import Machine
from windlass.testing.models import Answer, ScriptedModel, by_history
from windlass.testing.time import FakeClock, run_in_fake_time, seeded_random, sequential_ids

if TYPE_CHECKING:
    from windlass.evals import ExperimentResult

T = TypeVar("T")
_MARK = "windlass_eval"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(dataset, agent, gates=[], store=None, **options): run an experiment before the test; "
        "it fails if a gate is not met",
    )


class RunStory(Protocol):
    """The fixture `windlass_runtime`."""

    def __call__(
        self,
        story: Callable[[AgentRuntime], Awaitable[T]],
        *,
        agents: Iterable[AnyAgent],
        **options: Unpack[RuntimeOptions],
    ) -> T:
        """Run a story on a runtime in memory, in the time of `fake_clock`; return its value.

        Ids and randomness are the same in each test run. It takes the options of `AgentRuntime.open`.
        """
        ...


class MakeModel(Protocol):
    """The fixture `scripted_model`."""

    def __call__(self, *answers: Answer) -> ScriptedModel:
        """Return a model that gives these answers, each by the number of answers in the history."""
        ...


@pytest.fixture
def fake_clock() -> FakeClock:
    """Return the clock of `windlass_runtime`; a day of waiting takes no time."""
    return FakeClock()


@pytest.fixture
def scripted_model() -> MakeModel:
    """Return a function that makes models out of answers: `scripted_model(call("pay"), say("Done."))`."""

    def make(*answers: Answer) -> ScriptedModel:
        return ScriptedModel(by_history(answers))

    return make


@pytest.fixture
def windlass_runtime(fake_clock: FakeClock) -> RunStory:
    """Return a function that runs an async function with a runtime, in fake time; see `RunStory`.

    The test itself is a plain function, so no plugin for async tests is needed.
    """

    def run(
        story: Callable[[AgentRuntime], Awaitable[T]],
        *,
        agents: Iterable[AnyAgent],
        **options: Unpack[RuntimeOptions],
    ) -> T:
        machine = Machine(fake_clock, sequential_ids(), seeded_random(0))
        given: RuntimeOptions = {"machine": machine, **options}

        async def main() -> T:
            async with AgentRuntime.in_memory(agents, **given) as runtime:
                return await story(runtime)

        return run_in_fake_time(main(), clock=fake_clock)

    return run


@pytest.fixture(autouse=True)
def _windlass_eval_gates(request: pytest.FixtureRequest) -> None:  # pyright: ignore[reportUnusedFunction] - of pytest
    """Run the experiment of a marked test, also if the test does not ask for its result."""
    if request.node.get_closest_marker(_MARK) is not None:
        request.getfixturevalue(_MARK)


@pytest.fixture
def windlass_eval(request: pytest.FixtureRequest) -> "ExperimentResult":
    """Return the result of the experiment of `@pytest.mark.windlass_eval(…)`.

    The data set is a `Dataset`, or a file beside the test. `store` is a file beside it too, which keeps what
    was paid for; without one, everything is in memory. Options are those of `Experiment`. The test fails if a
    gate is not met.
    """
    from windlass.evals import Dataset, Experiment, Gate  # noqa: PLC0415 - only evaluations need it

    mark = request.node.get_closest_marker(_MARK)
    if mark is None or len(mark.args) != 1 or "agent" not in mark.kwargs:
        pytest.fail(f"write @pytest.mark.{_MARK}(dataset, agent=agent) before the test", pytrace=False)
    options = dict(mark.kwargs)
    agent, gates, store = options.pop("agent"), options.pop("gates", ()), options.pop("store", None)
    folder, [data] = request.path.parent, mark.args
    try:
        dataset = data if isinstance(data, Dataset) else Dataset.load(folder / data)
        plan = Experiment(dataset, agent, **options)
        plan.check_gates(one if isinstance(one, Gate) else Gate.read(one) for one in gates)
    except (Rejected, TypeError) as error:  # a mark with a mistake: its traceback would show our code alone
        pytest.fail(f"@pytest.mark.{_MARK}: {error}", pytrace=False)

    async def main() -> "ExperimentResult":
        if store is None:
            runtime = AgentRuntime.in_memory([agent])
        else:
            runtime = await AgentRuntime.open(folder / Path(store), agents=[agent], durability="process")
        async with runtime:
            return await plan.run(runtime)

    found = asyncio.run(main())
    missed = [one for one in map(found.check, gates) if not one.is_met]
    if missed:
        told = [
            f"{one.gate} is not met: {'not known' if one.found is None else f'{one.found:g}'}"
            for one in missed
        ]
        cases = [f"{one.name}: {one.why or one.status.value}" for one in found.failed]
        pytest.fail("\n".join([*told, *cases]), pytrace=False)
    return found
