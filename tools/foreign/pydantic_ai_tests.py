"""pydantic-ai's own tests of agents, with each run of an agent inside a workflow of Windlass.

A plugin of pytest gives every agent the capability, and wraps `Agent.run`. Only tests that ran an agent in a
workflow are counted; the others are skipped.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pydantic_ai import Agent

from tools.files import ROOT
from tools.foreign.counts import Counts
from windlass import AgentRuntime, Approval
from windlass.foreign.calls import is_in_workflow
from windlass.foreign.pydantic_ai import WindlassDurability, tools_of
from windlass.workflow import WorkflowContext, workflow

FILE: Final = "tests/test_agent.py"
PART: Final = "test_result or test_output or retry or instructions or union or tool or history"
"""The named part of it: the rest is about streams and models that are given to runs."""
_IS_INSIDE: ContextVar[bool] = ContextVar("is_inside", default=False)
"""Whether this code is in a call of a workflow: an agent that a tool runs."""


class Plugin:
    """Counts the tests, and the workflows that each of them ran."""

    def __init__(self, failures: frozenset[str]) -> None:
        self.counts = Counts()
        self.failures = failures
        """Tests that fail without a workflow too."""
        self.workflows = 0
        self.unchanged = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Count the workflows of one test."""
        self.workflows = 0
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that ran an agent in a workflow."""
        if report.skipped or (report.when == "call" and report.nodeid in self.failures):
            self.counts.skipped += 1
        elif report.when == "call" and not self.workflows:
            self.unchanged += 1
        elif report.when == "call":
            reason = str(report.longrepr).strip().splitlines()[-1:] or [""]
            self.counts.check(report.nodeid, None if report.passed else reason[0])


def put_runs_into_workflows(plugin: Plugin) -> None:
    """Replace `Agent.run` by one that runs it in a workflow."""
    make, run = Agent.__init__, Agent.run

    def make_durable(agent: Any, *args: Any, **options: Any) -> None:
        options["capabilities"] = [*(options.get("capabilities") or ()), WindlassDurability(name="agent")]
        make(agent, *args, **options)

    async def run_durable(agent: Any, *args: Any, **options: Any) -> Any:
        if is_in_workflow() or _IS_INSIDE.get():
            return await run(agent, *args, **options)
        plugin.workflows += 1
        results: list[Any] = []
        errors: list[Exception] = []

        async def case(ctx: WorkflowContext) -> None:
            _IS_INSIDE.set(True)
            try:
                results.append(await run(agent, *args, **options))
            except Exception as error:  # noqa: BLE001 - raised where the test expects it
                errors.append(error)

        durable = workflow(tools=tools_of(agent))(case)
        async with AgentRuntime.in_memory([durable]) as runtime:
            handle = await runtime.start_run(durable)
            async for request in handle.requests():
                assert isinstance(request, Approval)
                await request.approve(by="suite")
            result = await handle.wait()
        for error in errors:
            raise error
        assert results, f"the workflow ended without a result: {result.error}"
        return results[0]

    cast("Any", Agent).__init__ = make_durable
    cast("Any", Agent).run = run_durable


def _ignore(_: object) -> None:
    pass


def run_tests(folder: Path, plugin: "Plugin | Baseline") -> None:
    """Run the tests in their folder, without the settings of its project: they make warnings errors."""
    # Their detector of blocking calls takes the first import of a module for one.
    detector: Any = import_module("blockbuster").BlockBuster
    detector.activate = _ignore
    # Both projects have a package with this name.
    sys.path[:] = [str(folder), *(path for path in sys.path if path not in ("", str(ROOT)))]
    os.chdir(folder)
    options = ["-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider"]
    pytest.main([FILE, "-k", PART, *options], plugins=[plugin])


class Baseline:
    """Collects the tests that fail without a workflow, such as those of another version."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self.failures.append(report.nodeid)


def main(folder: Path) -> Counts:
    """Run the tests without workflows, and then with them."""
    command = [sys.executable, "-m", "tools.foreign.pydantic_ai_tests", str(folder), "baseline"]
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    failures = frozenset(json.loads(plain.stdout.splitlines()[-1]))
    plugin = Plugin(failures)
    put_runs_into_workflows(plugin)
    run_tests(folder, plugin)
    plugin.counts.notes += [
        f"{plugin.unchanged} tests of this part of {FILE} call neither `run` nor `run_sync`: not counted",
        f"{len(failures)} tests fail without a workflow too, with this version, and are skipped",
    ]
    return plugin.counts


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["baseline"]:
        baseline = Baseline()
        run_tests(place, baseline)
        print(json.dumps(baseline.failures))
    else:
        main(place).show()
