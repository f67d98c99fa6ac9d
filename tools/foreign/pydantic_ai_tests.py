"""pydantic-ai's own tests of agents, with each run of an agent inside a workflow of Windlass.

A plugin of pytest gives every agent the capability, and wraps `Agent.run`. Only tests that ran an agent in a
workflow are counted; the others are skipped.
"""

import os
import sys
from collections.abc import Generator
from contextvars import ContextVar
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

FILES: Final = ("test_agent.py", "test_tools.py", "test_deps.py", "test_toolsets.py")
_IS_INSIDE: ContextVar[bool] = ContextVar("is_inside", default=False)
"""Whether this code is in a call of a workflow: an agent that a tool runs."""


class Plugin:
    """Counts the tests, and the workflows that each of them ran."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.workflows = 0
        self.unchanged = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Count the workflows of one test."""
        self.workflows = 0
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that ran an agent in a workflow."""
        if report.skipped:
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


def main(folder: Path) -> Counts:
    """Run the tests in their folder, without the settings of its project: they make warnings errors."""
    plugin = Plugin()
    put_runs_into_workflows(plugin)
    # Both projects have a package with this name.
    sys.path[:] = [str(folder), *(path for path in sys.path if path not in ("", str(ROOT)))]
    os.chdir(folder)
    files = [f"tests/{name}" for name in FILES]
    pytest.main(
        [*files, "-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider"], plugins=[plugin]
    )
    names = ", ".join(FILES)
    plugin.counts.notes.append(f"{plugin.unchanged} tests of {names} run no agent, and are not counted")
    return plugin.counts


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve()).show()
