"""The decision ledger of real runs, without recording calls."""

import asyncio
from pathlib import Path
from typing import Unpack

import pytest
from tests.golden.journal import JOURNALS
from tests.golden.journal import read as read_journal
from tests.runtime.engine.compaction_rig import TASK, Guide, walker
from tests.runtime.runtime_rig import play, shop, until

from windlass.adapters.journals.memory import MemoryStore
from windlass.agent import Agent
from windlass.agent.policy import allow_start
from windlass.errors import Conflict, Rejected
from windlass.feed import Feed
from windlass.ports.model import LLMUsage
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.options import RunOptions
from windlass.runtime.registry import PackageChange
from windlass.testing import Answer, ScriptedModel, by_history, call, fail, say
from windlass.testing.time import FakeClock
from windlass.tools import tool
from windlass.tools.question import ask_question
from windlass_harness.record import Record
from windlass_harness.views import DecisionsState, fold_decisions
from windlass_harness.views.decisions import ANSWER
from windlass_protocol import (
    ContentRef,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    ErrorKind,
    RetryClass,
    SessionCapabilities,
)


def ids(run: DecisionRun) -> list[str]:
    return [decision.id for decision in run.decisions]


def successes(run: DecisionRun) -> list[bool | None]:
    return [None if one.outcome is None else one.outcome.success for one in run.decisions]


def options(run: DecisionRun, at: int = 0) -> list[str]:
    return sorted(option.id for option in run.decisions[at].options)


def causes(run: DecisionRun) -> list[str | None]:
    return [problem.root_cause for problem in run.problems]


async def run_of(runtime: AgentRuntime, **parts: Unpack[RunOptions]) -> DecisionRun:
    handle = await runtime.start_run("shop", "Buy tea.", **parts)
    await handle.wait(timeout=300)
    return await runtime.handle(handle.run_id).decisions()


def test_a_run_of_the_loop_is_in_the_ledger_without_a_line_of_code() -> None:
    usage = LLMUsage(input_tokens=40, output_tokens=2, cost_micros=9)
    first = say("I look.", reasoning="Where is it?", usage=usage) + call("look", {"item": "tea"})

    async def story() -> None:
        model = ScriptedModel([first, say("Here it is.", usage=usage)])
        async with AgentRuntime.in_memory([shop(model, version="7")]) as runtime:
            run = await run_of(runtime, goal_id="errands", goal_description="Shopping is done.")
        assert (run.goal_id, run.goal_description) == ("errands", "Shopping is done.")
        assert (run.agent_id, run.package_id) == ("shop", "shop@7")
        assert (ids(run), successes(run)) == (["step_0.0", "step_1"], [True, True])
        assert run.decisions[0].reasoning == "Where is it?\n\nI look."
        assert options(run) == options(run, 1) == [ANSWER, "look", "mail"]
        assert (run.usage and run.usage.cost_micros, run.metrics.total_tokens) == (18, 84)
        assert (run.status, run.problems) == (DecisionRunStatus.COMPLETED, ())

    play(story())


def test_parallel_calls_are_choices_of_their_own() -> None:
    both = call("look", {"item": "tea"}) + call("look", {"thing": "?"}) + call("look", {"item": "milk"})

    async def story() -> None:
        async with AgentRuntime.in_memory([shop(ScriptedModel([both, say("done")]))]) as runtime:
            run = await run_of(runtime)
        assert ids(run) == ["step_0.0", "step_0.1", "step_0.2", "step_1"]
        assert successes(run) == [True, False, True, True]
        assert causes(run) == ["invalid_arguments"]
        assert run.problems[0].decision_id == "step_0.1"

    play(story())


def test_a_call_that_waits_for_consent_is_pending_also_after_a_restart_and_failed_once_denied(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        script = [call("mail", {"to": "ada"}), say("Not sent.")]
        store = tmp_path / "a.db"
        async with AgentRuntime.open(store, agents=[shop(ScriptedModel(by_history(script)))]) as runtime:
            await until(await runtime.start_run("shop", "Write.", run_id="r1"), "run.waiting")
            before = await runtime.handle("r1").decisions()
        assert (before.status, successes(before)) == (DecisionRunStatus.RUNNING, [None])
        async with AgentRuntime.open(store, agents=[shop(ScriptedModel(by_history(script)))]) as runtime:
            assert await runtime.handle("r1").decisions() == before
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "deny", text="Too early.")
            await handle.wait(timeout=300)
            run = await runtime.handle("r1").decisions()
        assert successes(run) == [False, True]
        assert (causes(run), run.problems[0].description) == (
            ["denied"],
            "mail: A person denied the call: Too early.",
        )

    play(story())


def test_only_the_run_that_is_asked_for_is_read() -> None:
    async def story() -> None:
        model = ScriptedModel([say("one"), call("look", {"item": "tea"}), say("two"), say("three")])
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            for name in ("r1", "r2", "r3"):
                await run_of(runtime, run_id=name, session_id="s")
            runs = [await runtime.handle(name).decisions() for name in ("r1", "r2", "r3")]
        assert [ids(run) for run in runs] == [["step_0"], ["step_0.0", "step_1"], ["step_0"]]
        assert [run.id for run in runs] == ["r1", "r2", "r3"]

    play(story())


def test_a_queued_or_unknown_run_has_no_ledger() -> None:
    async def story() -> None:
        gate = asyncio.Event()

        @tool(mode="read")
        async def wait_for_it() -> str:
            """Wait."""
            await gate.wait()
            return "it came"

        agent = shop(ScriptedModel([call("wait_for_it"), say("one"), say("two")]), tools=[wait_for_it])
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Conflict, match="unknown run: ghost"):
                await runtime.handle("ghost").decisions()
            first = await runtime.start_run("shop", "go", run_id="r1", session_id="s")
            await until(first, "action.started")
            second = await runtime.start_run("shop", "go", run_id="r2", session_id="s")
            with pytest.raises(Conflict, match="the run has not started"):
                await runtime.handle("r2").decisions()
            assert successes(await runtime.handle("r1").decisions()) == [None], (
                "a run under way can be asked for"
            )
            gate.set()
            await second.wait(timeout=300)
            assert successes(await runtime.handle("r2").decisions()) == [True]

    play(story())


def test_options_are_those_that_the_model_was_shown() -> None:
    async def story() -> None:
        agent = shop(ScriptedModel([say("one"), say("two")]), tools=[ask_question])
        async with AgentRuntime.in_memory([agent]) as runtime:
            asking = await run_of(runtime)
            silent = await run_of(runtime, capabilities=SessionCapabilities(request_input=False))
        assert options(asking) == ["ask_question", ANSWER]
        assert options(silent) == [ANSWER]

    play(story())


def test_work_for_a_subagent_is_an_option_and_a_delegation() -> None:
    async def story() -> None:
        clerk = Agent("clerk", model=ScriptedModel([say("Sent.")]), description="Writes letters.")
        agent = shop(ScriptedModel([call("clerk", {"message": "Write."}), say("done")]), subagents=[clerk])
        async with AgentRuntime.in_memory([agent]) as runtime:
            run = await run_of(runtime)
        assert options(run) == options(run, 1) == ["clerk", ANSWER, "look", "mail"]
        assert (run.decisions[0].decision_type, successes(run)) == (DecisionType.DELEGATION, [True, True])
        assert (run.decisions[0].outcome and run.decisions[0].outcome.result) == "Sent."

    play(story())


def test_options_are_those_of_the_version_that_chose_when_a_run_moved(tmp_path: Path) -> None:
    async def story() -> None:
        script = ScriptedModel(by_history([call("mail", {"to": "ada"}), say("Sent.")]))
        old = shop(script)
        new = Agent("shop", model=script, tools=[*old.tools, ask_question])
        async with AgentRuntime.open(tmp_path / "a.db", agents=[old]) as runtime:
            await until(await runtime.start_run("shop", "Write.", run_id="r1"), "run.waiting")
        moves = await AgentRuntime.open(tmp_path / "a.db", agents=[new], package_change=PackageChange.MOVE)
        async with moves as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            await handle.wait(timeout=300)
            run = await runtime.handle("r1").decisions()
        assert (options(run), options(run, 1)) == (
            [ANSWER, "look", "mail"],
            ["ask_question", ANSWER, "look", "mail"],
        )

    play(story())


class Forgetful(MemoryStore):
    """A store that has lost its packages."""

    async def get(self, ref: ContentRef) -> bytes:
        raise Rejected(
            f"there is no content {ref.hash}",
            kind=ErrorKind.INVALID_STATE_TRANSITION,
            retry=RetryClass.NOT_RETRYABLE,
        )


def test_a_run_with_a_lost_package_lists_its_choices_without_options() -> None:
    async def story() -> None:
        store = Forgetful()
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, FakeClock()))
        builder.content(store).policy(allow_start).agent(shop())
        async with builder.build() as runtime:
            run = await run_of(runtime)
        assert (options(run), successes(run)) == ([ANSWER], [True])

    play(story())


def test_retries_repairs_and_compactions_are_in_the_ledger() -> None:
    late = Rejected("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE, retry_after_ms=1)

    async def story() -> None:
        model = ScriptedModel([fail(late), say("five"), say("5")])
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            run = await run_of(runtime, output=int)
        assert successes(run) == [False, True]
        assert causes(run) == ["provider_failure", "output_contract"]
        guide = Guide(steps=12, threshold=4_000)
        async with AgentRuntime.in_memory([walker(guide)]) as runtime:
            handle = await runtime.start_run("walker", TASK)
            await handle.wait(timeout=300)
            walk = await runtime.handle(handle.run_id).decisions()
        assert guide.summaries
        assert ids(walk) == [*(f"step_{step}.0" for step in range(12)), "step_12"]
        assert all(successes(walk))
        assert walk.goal_description == TASK

    play(story())


def test_a_model_call_that_fails_tells_the_same_in_every_step() -> None:
    gone = Rejected("overloaded", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)

    async def told(*before: Answer) -> list[str]:
        async with AgentRuntime.in_memory([shop(ScriptedModel([*before, fail(gone)]))]) as runtime:
            run = await run_of(runtime)
        return [one.description for one in run.problems if one.severity == "critical"]

    async def story() -> None:
        assert await told() == await told(call("look", {"item": "tea"})) == ["overloaded"]

    play(story())


# journals of crashes


def _calls(records: tuple[Record, ...], run_id: str) -> dict[str, int]:
    """The number of calls in each finished step of a run."""
    asked: dict[str, int] = {}
    found: dict[str, int] = {}
    for record in records:
        step = str(record.data.get("stepIndex"))
        if record.run_id == run_id and record.type == "actions.requested":
            actions = record.data["actions"]
            asked[step] = len(actions) if isinstance(actions, list) else 0
        elif record.run_id == run_id and record.type == "step.completed":
            found[step] = asked.pop(step, 0)
    return found


@pytest.mark.parametrize("path", sorted(JOURNALS.glob("*/*.jsonl.gz")), ids=lambda path: path.name)
def test_every_choice_is_in_the_ledger_once_after_crashes(path: Path) -> None:
    records = read_journal(path)
    state = fold_decisions(records)
    for run_id, run in state.runs.items():
        steps = _calls(records, run_id)
        expected = [
            name
            for step, count in steps.items()
            for name in ([f"step_{step}.{number}" for number in range(count)] or [f"step_{step}"])
        ]
        assert ids(run) == expected
        if run.status is DecisionRunStatus.COMPLETED:
            assert None not in successes(run), "what completed has settled all its choices"
        if run.status is DecisionRunStatus.FAILED:
            assert run.problems
        ends = [one for one in records if one.type.startswith("run.") and one.data.get("usage")]
        told = [one.data["usage"] for one in ends if one.data.get("runId") == run_id]
        used = None if run.usage is None else run.usage.model_dump(by_alias=True, exclude_none=True)
        assert told in ([], [used])
    cut = DecisionsState()
    for record in records:
        cut = fold_decisions([record], cut)
    assert cut == state
