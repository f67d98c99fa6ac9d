"""`check_workflow`: a workflow that is run from its start again whenever it has something to do."""

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from windlass.agent.agent import AnyAgent
from windlass.testing.crashes import run_once
from windlass.testing.time import check_no_loop
from windlass.workflow.definition import replay_always, workflows_of
from windlass_protocol import InputRequest, InputResponse, RunResult


def check_workflow(
    workflow: AnyAgent,
    argument: object = None,
    *,
    answer: str | Callable[[InputRequest], InputResponse] = "approve",
    send: Mapping[str, JsonValue] | None = None,
) -> RunResult:
    """Run a workflow from its start again whenever it has something to do; return the result.

    So each of its calls is compared with the records, as after a crash. It runs in memory and in fake time;
    `answer` and `send` are those of `crash_everywhere`. Code that reads clocks, random numbers or ids that
    are not those of the context is refused before.

    Raises:
        AssertionError: it went another way than its records, or its source reads a clock or a random number.
        RuntimeError: an event loop is running in this thread, or the run never ends.
    """
    check_no_loop("check_workflow")
    hazards = sorted({hazard for part in workflows_of(workflow) for hazard in part.parts.hazards})
    if hazards:
        raise AssertionError(
            f"{workflow.name} does not go the same way each time: it uses {', '.join(hazards)}"
        )
    return run_once(replay_always(workflow), argument, answer=answer, send=send)
