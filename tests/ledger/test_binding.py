"""Which run a call belongs to: bound by a block, a context or a parameter; never guessed among several."""

import asyncio
import os
import pickle
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from tests.ledger.samples import GOAL, OPTIONS, anything, decide

from windlass.ledger import (
    BuilderQuery,
    DecisionEvaluation,
    RecordingError,
    RunStatus,
    Runtime,
    in_this_context,
)

THREADS = 8
BROKEN_AFTER_S = 30
"""A thread that waits longer than this for the others fails instead of hanging."""


def intents(folder: Path, run_id: str) -> list[str]:
    run = BuilderQuery(folder).get_full_run(run_id)
    assert run is not None
    return [decision.intent for decision in run.decisions]


def nodes(folder: Path, run_id: str) -> list[str]:
    run = BuilderQuery(folder).get_full_run(run_id)
    assert run is not None
    return [decision.node_id for decision in run.decisions]


def status(folder: Path, run_id: str) -> RunStatus:
    run = BuilderQuery(folder).get_run_summary(run_id)
    assert run is not None
    return run.status


def in_new_thread(work: Callable[[], object]) -> None:
    """Do some work in a thread that has ended on return."""
    thread = Thread(target=work)
    thread.start()
    thread.join()


def started_elsewhere(runtime: Runtime, goal_id: str) -> str:
    """Start a run in a thread that has ended on return."""
    ids: list[str] = []
    in_new_thread(lambda: ids.append(runtime.start_run(goal_id)))
    return ids[0]


def must_not_run() -> None:
    pytest.fail("a decision that cannot be recorded must not be executed")


CALLS: dict[str, Callable[[Runtime], object]] = {
    "decide": decide,
    "quick_decision": lambda runtime: runtime.quick_decision("i", "a", "r"),
    "decide_and_execute": lambda runtime: runtime.decide_and_execute("i", OPTIONS, "ask", "r", must_not_run),
    "record_outcome": lambda runtime: runtime.record_outcome("dec_0", True),
    "record_evaluation": lambda runtime: runtime.record_evaluation("dec_0", DecisionEvaluation()),
    "report_problem": lambda runtime: runtime.report_problem("minor", "d"),
    "set_node": lambda runtime: runtime.set_node("n"),
    "end_run": lambda runtime: runtime.end_run(True),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_worker_thread_beside_two_open_runs_is_told_and_loses_nothing(
    tmp_path: Path, call: str, strict: bool
) -> None:
    runtime = Runtime(tmp_path, strict=strict)
    mine = runtime.start_run("mine")
    decide(runtime)
    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(1) as workers:
        theirs = other.submit(runtime.start_run, "theirs").result()
        with pytest.raises(RecordingError) as caught:
            workers.submit(CALLS[call], runtime).result()
        assert caught.value.code == "ambiguous_run"
        assert set(caught.value.run_ids) == {mine, theirs}
        told = str(caught.value)
        assert (mine in told, theirs in told) == (True, True)
        for way in ("with runtime.run(run_id):", "run_id=", "in_this_context("):
            assert way in told
        assert other.submit(decide, runtime, "still works").result() == "dec_0"
    assert [intents(tmp_path, mine), intents(tmp_path, theirs)] == [["Check the budget"], ["still works"]]


def test_the_error_keeps_its_code_and_ids_across_processes() -> None:
    error = pickle.loads(pickle.dumps(RecordingError("said", code="ambiguous_run", run_ids=("a", "b"))))
    assert (str(error), error.code, error.run_ids) == ("said", "ambiguous_run", ("a", "b"))
    assert RecordingError("any").code == "rejected"


def test_inspection_says_that_there_is_no_current_run_where_it_could_be_one_of_several(
    tmp_path: Path,
) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run(GOAL)
    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(1) as workers:
        other.submit(runtime.start_run, GOAL).result()
        assert workers.submit(lambda: runtime.current_run).result() is None
        assert workers.submit(lambda: runtime.execution_id).result() == ""


def test_a_block_binds_reused_threads_to_a_run_and_leaves_them_unbound(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(3) as workers:
        runs = [runtime.start_run("mine"), other.submit(runtime.start_run, "theirs").result()]

        def work(number: int) -> None:
            with runtime.run(runs[number % 2]) as run_id:
                assert run_id == runs[number % 2]
                runtime.set_node(f"node {number}")
                runtime.record_outcome(decide(runtime, f"{number}"), True)
            with pytest.raises(RecordingError, match="not bound to a run"):
                decide(runtime)

        list(workers.map(work, range(40)))
    for number, run_id in enumerate(runs):
        run = BuilderQuery(tmp_path).get_full_run(run_id)
        assert run is not None
        expected = {(f"{job}", f"node {job}") for job in range(number, 40, 2)}
        assert {(decision.intent, decision.node_id) for decision in run.decisions} == expected
        assert run.metrics.successful_decisions == 20


def test_a_carried_context_binds_threads_and_pools_also_at_the_same_time(tmp_path: Path) -> None:
    runtime, together = Runtime(tmp_path, strict=True), Barrier(THREADS)

    def work(number: int) -> str:
        together.wait(BROKEN_AFTER_S)
        runtime.set_node(f"node {number}")
        return decide(runtime, f"{number}")

    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(THREADS) as workers:
        run_id = runtime.start_run("mine")
        runtime.set_node("outside")
        theirs = other.submit(runtime.start_run, "theirs").result()
        carried = in_this_context(work)
        # All calls of one carried function wait for each other: they run at once.
        assert len(set(workers.map(carried, range(THREADS)))) == THREADS
        in_new_thread(in_this_context(lambda: decide(runtime, "thread")))
        assert decide(runtime, "main") == f"dec_{THREADS + 1}"
        other.submit(decide, runtime, "their own").result()
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    assert [decision.node_id for decision in run.decisions[-2:]] == ["outside", "outside"]
    assert {decision.node_id for decision in run.decisions[:-2]} == {f"node {n}" for n in range(THREADS)}
    assert intents(tmp_path, theirs) == ["their own"]


def test_a_carried_function_keeps_its_name_and_its_exceptions() -> None:
    def work() -> None:
        """Say what it does."""
        raise LookupError("gone")

    carried = in_this_context(work)
    assert (carried.__name__, carried.__doc__) == ("work", "Say what it does.")
    with pytest.raises(LookupError, match="gone"):
        carried()


def test_every_call_takes_the_run_that_it_is_given(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    runs: dict[str, str] = {}
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other, ThreadPoolExecutor(1) as workers:
        for name, pool in (("a", one), ("b", other)):
            runs[name] = pool.submit(runtime.start_run, name).result()

        def work(name: str) -> None:
            run_id = runs[name]
            runtime.set_node(f"node {name}", run_id=run_id)
            first = runtime.decide(f"1 {name}", OPTIONS, "ask", "r", run_id=run_id)
            runtime.record_outcome(first, True, tokens_used=7, run_id=run_id)
            runtime.record_evaluation(first, DecisionEvaluation(outcome_quality=0.25), run_id=run_id)
            runtime.quick_decision(f"2 {name}", "act", "r", run_id=run_id)
            runtime.decide_and_execute(f"3 {name}", OPTIONS, "ask", "r", lambda: 42, run_id=run_id)
            runtime.report_problem("minor", name, first, run_id=run_id)
            runtime.end_run(True, name, run_id=run_id)

        workers.submit(work, "b").result()
        workers.submit(work, "a").result()
    for name, run_id in runs.items():
        run = BuilderQuery(tmp_path).get_full_run(run_id)
        assert run is not None
        assert [decision.intent for decision in run.decisions] == [f"1 {name}", f"2 {name}", f"3 {name}"]
        assert {decision.node_id for decision in run.decisions} == {f"node {name}"}
        first, _, third = run.decisions
        assert first.evaluation is not None
        assert third.outcome is not None
        assert (first.evaluation.outcome_quality, third.outcome.result) == (0.25, 42)
        assert (run.metrics.total_tokens, run.problems[0].description) == (7, name)
        assert (run.status, run.narrative) == (RunStatus.COMPLETED, name)


def test_a_node_for_a_named_run_does_not_bind_the_context_to_it(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    mine = runtime.start_run("mine")
    runtime.set_node("my node")
    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(1) as workers:
        theirs, third = (other.submit(in_this_context(runtime.start_run), name).result() for name in "ab")
        for run_id in (theirs, third):
            runtime.set_node(f"of {run_id}", run_id=run_id)
        runtime.set_node("my other node", run_id=mine)
        decide(runtime)
        runtime.decide("named", OPTIONS, "ask", "r", run_id=theirs)
        bound(runtime, third)
        # Another context has not set it.
        workers.submit(lambda: runtime.decide("i", OPTIONS, "ask", "r", run_id=theirs)).result()
        workers.submit(lambda: runtime.set_node("n", run_id=theirs)).result()
        assert workers.submit(code_of, lambda: decide(runtime)).result() == "ambiguous_run"
    assert nodes(tmp_path, mine) == ["my other node"]
    assert nodes(tmp_path, theirs) == [f"of {theirs}", "unknown"]
    assert nodes(tmp_path, third) == [f"of {third}"]


def test_a_run_that_is_not_open_here_cannot_be_bound_or_named(tmp_path: Path) -> None:
    runtime, stranger = Runtime(tmp_path), Runtime(tmp_path)
    ended = runtime.start_run(GOAL)
    runtime.end_run(True)
    open_id = runtime.start_run(GOAL)
    for run_id in (ended, stranger.start_run(GOAL), "run_of_nobody", anything(None), anything(7)):
        with pytest.raises(RecordingError) as caught, runtime.run(run_id):
            pytest.fail("the block must not begin")
        assert (caught.value.code, caught.value.run_ids) == ("run_not_open", (str(run_id),))
        assert open_id in str(caught.value)
        if run_id is not None:
            for call in (
                partial(runtime.decide, "i", OPTIONS, "ask", "r"),
                partial(runtime.set_node, "n"),
                partial(runtime.end_run, True),
            ):
                assert code_of(partial(call, run_id=run_id)) == "run_not_open"
    assert intents(tmp_path, open_id) == []
    assert status(tmp_path, open_id) is RunStatus.RUNNING


def test_a_block_of_a_run_that_has_ended_records_into_no_other_run(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    outer = runtime.start_run("outer")
    inner = started_elsewhere(runtime, "inner")
    with runtime.run(outer), runtime.run(inner):
        runtime.end_run(True)
        assert runtime.current_run is None
        with pytest.raises(RecordingError) as caught:
            decide(runtime)
        assert (caught.value.code, caught.value.run_ids) == ("run_not_open", (inner,))
    assert decide(runtime, "after") == "dec_0"
    assert [status(tmp_path, run_id) for run_id in (outer, inner)] == [RunStatus.RUNNING, RunStatus.COMPLETED]


def test_a_leaked_run_of_a_thread_gets_nothing_of_a_later_run(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    leaked = started_elsewhere(runtime, "leaked")
    later = runtime.start_run("later")
    with ThreadPoolExecutor(1) as workers:
        assert workers.submit(decide, runtime, "of the later").result() == "dec_0"
        runtime.end_run(True)
        assert workers.submit(decide, runtime, "too late").result() == ""
    assert (intents(tmp_path, leaked), intents(tmp_path, later)) == ([], ["of the later"])
    runtime.end_run(False, run_id=leaked)
    assert status(tmp_path, leaked) is RunStatus.FAILED


def test_a_leaked_run_of_a_task_gets_nothing_of_a_later_run(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)

    async def leak() -> str:
        return runtime.start_run("leaked")

    leaked = asyncio.run(leak())
    later = runtime.start_run("later")
    in_new_thread(lambda: decide(runtime, "of the later"))
    assert (intents(tmp_path, leaked), intents(tmp_path, later)) == ([], ["of the later"])


def test_a_run_that_a_job_leaked_in_a_reused_thread_gets_nothing_of_later_jobs(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    with ThreadPoolExecutor(1) as workers:

        def leak() -> str:
            run_id = runtime.start_run("leaked")
            decide(runtime, "of the leaked")
            return run_id

        leaked = workers.submit(in_this_context(leak)).result()
        later = runtime.start_run("later")
        assert workers.submit(decide, runtime, "of the later").result() == "dec_0"
        assert workers.submit(in_this_context(decide), runtime, "too").result() == "dec_1"
    assert (intents(tmp_path, leaked), intents(tmp_path, later)) == (
        ["of the leaked"],
        ["of the later", "too"],
    )


def test_a_run_that_was_started_in_a_finished_task_is_used_while_it_is_the_newest(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)

    async def prepare(goal_id: str) -> str:
        return runtime.start_run(goal_id)

    run_id = asyncio.run(prepare("one"))
    assert decide(runtime) == "dec_0"
    second = asyncio.run(prepare("two"))
    with pytest.raises(RecordingError) as caught:
        decide(runtime)
    assert (caught.value.code, set(caught.value.run_ids)) == ("ambiguous_run", {run_id, second})


def test_a_thread_joins_the_only_run_that_began_after_the_end_of_its_own(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)

    def own_run() -> None:
        runtime.start_run("own")
        runtime.end_run(True)

    with ThreadPoolExecutor(1) as workers:
        workers.submit(own_run).result()
        first = runtime.start_run("first")
        workers.submit(runtime.set_node, "node").result()
        assert workers.submit(decide, runtime, "in the first").result() == "dec_0"
        runtime.end_run(True)
        # A node was set in the first run: the thread must not be stuck in it.
        second = runtime.start_run("second")
        assert workers.submit(decide, runtime, "in the second").result() == "dec_0"
    assert (intents(tmp_path, first), intents(tmp_path, second)) == (["in the first"], ["in the second"])


@pytest.mark.parametrize("is_first", [False, True])
def test_a_thread_does_not_slip_into_a_run_that_was_open_beside_its_own(
    tmp_path: Path, is_first: bool
) -> None:
    runtime = Runtime(tmp_path)
    theirs = "" if is_first else runtime.start_run("theirs")
    with ThreadPoolExecutor(1) as workers:
        own = workers.submit(runtime.start_run, "own").result()
        theirs = theirs or runtime.start_run("theirs")
        workers.submit(runtime.end_run, True).result()
        with pytest.raises(RecordingError) as caught:
            workers.submit(decide, runtime).result()
        assert (caught.value.code, caught.value.run_ids) == ("ambiguous_run", (theirs,))
        assert f"run {own} of this thread or task has ended" in str(caught.value)
        # It can be bound to it.
        assert workers.submit(lambda: bound(runtime, theirs)).result() == "dec_0"


def bound(runtime: Runtime, run_id: str) -> str:
    with runtime.run(run_id):
        return decide(runtime)


def test_a_second_end_does_not_end_the_run_of_another_thread(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run("own")
    runtime.end_run(True)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(runtime.start_run, "theirs").result()
        runtime.end_run(True)
        assert status(tmp_path, theirs) is RunStatus.RUNNING
        assert other.submit(decide, runtime).result() == "dec_0"


def test_a_task_that_inherited_an_ended_run_joins_the_only_open_one(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)

    async def main() -> tuple[str, str]:
        go_on = asyncio.Event()

        async def straggler() -> str:
            await go_on.wait()
            return decide(runtime)

        runtime.start_run("first")
        task = asyncio.create_task(straggler())
        runtime.end_run(True)
        second = runtime.start_run("second")
        go_on.set()
        return second, await task

    second, decision_id = asyncio.run(main())
    assert (intents(tmp_path, second), decision_id) == (["Check the budget"], "dec_0")


def test_a_task_that_inherited_an_ended_run_does_not_slip_into_one_that_was_open_then(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)

    async def main() -> tuple[str, str]:
        go_on, is_started = asyncio.Event(), asyncio.Event()

        async def straggler() -> str:
            await go_on.wait()
            return decide(runtime)

        async def neighbour() -> str:
            run_id = runtime.start_run("second")
            is_started.set()
            await go_on.wait()
            return run_id

        other = asyncio.create_task(neighbour())
        await is_started.wait()
        runtime.start_run("first")
        task = asyncio.create_task(straggler())
        runtime.end_run(True)
        go_on.set()
        with pytest.raises(RecordingError) as caught:
            await task
        return await other, caught.value.code

    second, code = asyncio.run(main())
    assert (intents(tmp_path, second), code) == ([], "ambiguous_run")


def test_a_late_worker_without_any_open_run_is_told_as_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run(GOAL)
    runtime.end_run(True)
    with ThreadPoolExecutor(1) as workers:
        assert workers.submit(decide, runtime).result() == ""
    assert caplog.messages == ["decide: there is no current run: call start_run first"]


def test_a_worker_that_joined_a_run_does_not_cancel_it_when_it_starts_its_own(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    shared = runtime.start_run("shared")

    def work() -> None:
        runtime.set_node("worker")
        decide(runtime, "joined")
        runtime.start_run("own")
        decide(runtime, "own")
        runtime.end_run(True)
        decide(runtime, "joined again")

    in_new_thread(work)
    runtime.end_run(True)
    assert status(tmp_path, shared) is RunStatus.COMPLETED
    run = BuilderQuery(tmp_path).get_full_run(shared)
    assert run is not None
    assert [(decision.intent, decision.node_id) for decision in run.decisions] == [
        ("joined", "worker"),
        ("joined again", "worker"),
    ]


def test_a_run_started_in_a_block_is_nested_and_the_outer_run_goes_on_after_it(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    outer = runtime.start_run("outer")
    runtime.set_node("outer node")
    with runtime.run(outer):
        decide(runtime, "before")
        inner = runtime.start_run("inner")
        decide(runtime, "inside")
        assert runtime.execution_id == anything(runtime.current_run).execution_id
        runtime.end_run(False)
        decide(runtime, "after")
    decide(runtime, "outside")
    runtime.end_run(True)
    run = BuilderQuery(tmp_path).get_full_run(outer)
    assert run is not None
    assert [decision.intent for decision in run.decisions] == ["before", "after", "outside"]
    assert run.metrics.nodes_executed == ("outer node",)
    assert intents(tmp_path, inner) == ["inside"]
    assert [status(tmp_path, each) for each in (outer, inner)] == [RunStatus.COMPLETED, RunStatus.FAILED]


def test_a_run_that_a_block_left_open_stays_current(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    outer = runtime.start_run("outer")
    with runtime.run(outer):
        inner = runtime.start_run("inner")
    decide(runtime, "inner")
    runtime.end_run(True)
    decide(runtime, "outer")
    assert (intents(tmp_path, outer), intents(tmp_path, inner)) == (["outer"], ["inner"])


def test_after_its_own_run_a_task_is_in_the_run_that_it_inherited(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def inner() -> None:
        runtime.start_run("inner")
        runtime.end_run(True)
        decide(runtime, "of the outer")

    async def main() -> str:
        run_id = runtime.start_run("outer")
        await asyncio.gather(inner(), inner())
        return run_id

    assert intents(tmp_path, asyncio.run(main())) == ["of the outer"] * 2


def test_tasks_in_a_block_inherit_its_run(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def main() -> list[str]:
        runs = [await asyncio.create_task(started(f"{number}")) for number in range(3)]

        async def work(run_id: str) -> None:
            with runtime.run(run_id):
                await asyncio.sleep(0)
                await asyncio.gather(*(asyncio.create_task(one(run_id)) for _ in range(3)))
                await asyncio.to_thread(decide, runtime, run_id)

        async def one(run_id: str) -> None:
            await asyncio.sleep(0)
            decide(runtime, run_id)

        await asyncio.gather(*map(work, runs))
        return runs

    async def started(goal_id: str) -> str:
        return runtime.start_run(goal_id)

    for run_id in asyncio.run(main()):
        assert intents(tmp_path, run_id) == [run_id] * 4


def test_blocks_of_generators_that_end_in_another_order_remove_only_themselves(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    runs = [started_elsewhere(runtime, f"{number}") for number in range(3)]

    def block(run_id: str) -> Generator[None]:
        with runtime.run(run_id):
            yield

    first, second = block(runs[0]), block(runs[1])
    with runtime.run(runs[2]):
        next(first)
        next(second)
        first.close()
        decide(runtime, "second")
        second.close()
        decide(runtime, "block")
    with pytest.raises(RecordingError, match="not bound to a run"):
        decide(runtime)
    assert [intents(tmp_path, run_id) for run_id in runs] == [[], ["second"], ["block"]]


def test_generators_that_name_their_run_do_not_disturb_each_other(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    runs = [started_elsewhere(runtime, f"{number}") for number in range(2)]

    def steps(run_id: str) -> Generator[None]:
        for number in range(3):
            runtime.decide(f"{number}", OPTIONS, "ask", "r", run_id=run_id)
            yield

    for _ in zip(steps(runs[0]), steps(runs[1]), strict=True):
        pass
    assert [intents(tmp_path, run_id) for run_id in runs] == [["0", "1", "2"]] * 2


def test_a_block_in_an_async_generator_may_end_in_another_task(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def block(run_id: str) -> AsyncGenerator[str]:
        with runtime.run(run_id):
            yield decide(runtime, "inside")

    async def main() -> str:
        run_id = runtime.start_run(GOAL)
        reader = block(run_id)

        async def read() -> None:
            await anext(reader)

        await asyncio.create_task(read())
        await reader.aclose()
        decide(runtime, "after")
        return run_id

    assert intents(tmp_path, asyncio.run(main())) == ["inside", "after"]


def test_a_fork_cannot_record_into_a_run_of_its_parent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run("parent")
    child = os.fork()
    if child == 0:
        # The child must exit here: pytest must not go on in it.
        try:
            codes = [code_of(lambda: runtime.decide("i", OPTIONS, "ask", "r", run_id=run_id))]
            codes.append(code_of(lambda: bound(runtime, run_id)))
            was_told = decide(runtime) == "" and f"run {run_id} is its parent's" in caplog.messages[-1]
            os._exit(0 if was_told and codes == ["run_not_open"] * 2 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert decide(runtime) == "dec_0"


def code_of(call: Callable[[], object]) -> str:
    try:
        call()
    except RecordingError as error:
        return error.code
    return ""


def test_the_outcome_of_an_execution_belongs_to_the_run_of_its_decision(tmp_path: Path) -> None:
    runtime, is_deciding, may_go_on = Runtime(tmp_path, strict=True), Event(), Event()

    def execute() -> int:
        is_deciding.set()
        may_go_on.wait(BROKEN_AFTER_S)
        return 42

    run_id = runtime.start_run("first")
    with ThreadPoolExecutor(1) as workers:
        done: Future[tuple[str, int]] = workers.submit(
            runtime.decide_and_execute, "Act", OPTIONS, "ask", "r", execute
        )
        is_deciding.wait(BROKEN_AFTER_S)
        in_new_thread(lambda: decide_in_new_run(runtime))
        may_go_on.set()
        assert done.result() == ("dec_0", 42)
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    assert run.decisions[0].was_successful


def decide_in_new_run(runtime: Runtime) -> None:
    runtime.start_run("second")
    decide(runtime)


def test_tasks_in_a_carried_function_have_runs_of_their_own(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def child() -> None:
        runtime.start_run("child")
        runtime.end_run(True)

    async def main() -> str:
        run_id = runtime.start_run("parent")
        await asyncio.create_task(child())
        decide(runtime)
        runtime.end_run(True)
        return run_id

    with ThreadPoolExecutor(1) as workers:
        run_id = workers.submit(in_this_context(lambda: asyncio.run(main()))).result()
    assert status(tmp_path, run_id) is RunStatus.COMPLETED
