"""Fixtures for pytest: `windlass_runtime`, `scripted_model` and `fake_clock`.

Enable them in the top-level `conftest.py` of a project: `pytest_plugins = ["windlass.testing.pytest"]`. There
is no entry point: pytest would then import the test kit in every project of the environment, also in those
that do not use it.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar, Unpack

import pytest

from windlass.agent.agent import AnyAgent
from windlass.ports.machine import Machine
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.options import RuntimeOptions
from windlass.testing.models import Answer, ScriptedModel, by_history
from windlass.testing.time import FakeClock, run_in_fake_time, seeded_random, sequential_ids

T = TypeVar("T")


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
        runtime_options: RuntimeOptions = {"machine": machine, **options}

        async def main() -> T:
            async with AgentRuntime.in_memory(agents, **runtime_options) as runtime:
                return await story(runtime)

        return run_in_fake_time(main(), clock=fake_clock)

    return run
