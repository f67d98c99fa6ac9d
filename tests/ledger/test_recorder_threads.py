"""One recorder, many threads, tasks and forks: each has a run of its own."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread

import pytest
from tests.ledger.samples import GOAL, OPTIONS, decide, record

from windlass.ledger import BuilderQuery, RunStatus, Runtime

THREADS = 8
DECISIONS = 200


def in_threads(count: int, work: object) -> None:
    assert callable(work)
    threads = [Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_have_runs_of_their_own(tmp_path: Path) -> None:
    runtime, together = Runtime(tmp_path, strict=True), Barrier(THREADS)

    def work(number: int) -> None:
        together.wait()
        for _ in range(10):
            runtime.start_run(f"goal {number}")
            runtime.set_node(f"node {number}")
            for index in range(5):
                runtime.record_outcome(decide(runtime, f"{number}/{index}"), True)
            runtime.end_run(True)

    in_threads(THREADS, work)
    query = BuilderQuery(tmp_path)
    for number in range(THREADS):
        runs = [query.get_full_run(each.run_id) for each in query.list_runs_for_goal(f"goal {number}")]
        assert len(runs) == 10
        for run in runs:
            assert run is not None
            assert [decision.intent for decision in run.decisions] == [
                f"{number}/{index}" for index in range(5)
            ]
            assert run.metrics.nodes_executed == (f"node {number}",)


def test_threads_that_share_a_run_lose_nothing_and_have_unique_ids(tmp_path: Path) -> None:
    runtime, ids = Runtime(tmp_path, strict=True), list[str]()
    run_id = runtime.start_run(GOAL)

    def work(number: int) -> None:
        for _ in range(DECISIONS):
            decision_id = decide(runtime)
            runtime.record_outcome(decision_id, True, tokens_used=1)
            ids.append(decision_id)

    in_threads(THREADS, work)
    runtime.end_run(True)
    assert len(set(ids)) == THREADS * DECISIONS
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    assert run.metrics.successful_decisions == run.metrics.total_tokens == THREADS * DECISIONS
    assert [decision.id for decision in run.decisions] == [f"dec_{n}" for n in range(THREADS * DECISIONS)]


def test_a_pool_takes_part_in_the_only_open_run(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run(GOAL)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(decide, runtime).result() == "dec_0"
        assert decide(runtime) == "dec_1"


def test_tasks_have_runs_and_nodes_of_their_own(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def work(number: int) -> None:
        runtime.start_run(f"goal {number}")
        await asyncio.sleep(0)
        runtime.set_node(f"node {number}")
        await asyncio.sleep(0)
        decide(runtime, f"intent {number}")
        await asyncio.sleep(0)
        runtime.end_run(True)

    async def all_of_them() -> None:
        await asyncio.gather(*(work(number) for number in range(20)))

    asyncio.run(all_of_them())
    query = BuilderQuery(tmp_path)
    for number in range(20):
        [short] = query.list_runs_for_goal(f"goal {number}")
        assert query.get_decision_trace(short.run_id) == [
            f"… [node {number}] intent {number} → Infer from company size"
        ]


def test_tasks_of_one_run_have_nodes_of_their_own(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def work(number: int) -> None:
        runtime.set_node(f"node {number}")
        await asyncio.sleep(0)
        decide(runtime)

    async def all_of_them() -> None:
        runtime.start_run(GOAL)
        await asyncio.gather(*(work(number) for number in range(3)))
        decide(runtime)
        run = runtime.current_run
        assert run is not None
        assert sorted(run.metrics.nodes_executed) == ["node 0", "node 1", "node 2", "unknown"]

    asyncio.run(all_of_them())


def test_a_task_that_starts_a_run_does_not_cancel_the_one_it_inherited(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def inner() -> str:
        run_id = runtime.start_run("inner")
        runtime.end_run(True)
        return run_id

    async def outer() -> tuple[str, str]:
        run_id = runtime.start_run("outer")
        inner_id = await asyncio.create_task(inner())
        assert decide(runtime) == "dec_0"
        runtime.end_run(True)
        return run_id, inner_id

    for run_id in asyncio.run(outer()):
        summary = BuilderQuery(tmp_path).get_run_summary(run_id)
        assert summary is not None
        assert summary.status is RunStatus.COMPLETED


def test_a_thread_of_asyncio_takes_part_in_the_run_of_its_task(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def work() -> None:
        runtime.start_run(GOAL)
        assert await asyncio.to_thread(decide, runtime) == "dec_0"
        runtime.end_run(True)

    asyncio.run(work())


@pytest.mark.parametrize("fails", [False, True])
def test_the_outcome_of_an_async_executor_is_recorded_when_it_is_awaited(tmp_path: Path, fails: bool) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def act() -> int:
        await asyncio.sleep(0)
        if fails:
            raise LookupError("gone")
        return 42

    async def work() -> None:
        runtime.start_run(GOAL)
        decision_id, result = runtime.decide_and_execute("Act", OPTIONS, "ask", "why", act)
        run = runtime.current_run
        assert run is not None
        assert run.decisions[0].is_pending
        if fails:
            with pytest.raises(LookupError):
                await result
        else:
            assert await result == 42
        run = runtime.current_run
        assert run is not None
        outcome = run.decisions[0].outcome
        assert outcome is not None
        assert (decision_id, outcome.success, outcome.result, outcome.error) == (
            ("dec_0", False, None, "gone") if fails else ("dec_0", True, 42, None)
        )

    asyncio.run(work())


def test_an_async_executor_that_is_cancelled_has_failed(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)

    async def work() -> None:
        runtime.start_run(GOAL)
        _, result = runtime.decide_and_execute("Act", OPTIONS, "ask", "why", asyncio.Event().wait)
        task = asyncio.ensure_future(result)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        run = runtime.current_run
        assert run is not None
        assert run.decisions[0].has_failed

    asyncio.run(work())


@pytest.fixture
def forked() -> Iterator[list[int]]:
    children: list[int] = []
    yield children
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


def test_a_fork_records_runs_of_its_own_and_leaves_those_of_its_parent(
    tmp_path: Path, forked: list[int]
) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run("parent")
    decide(runtime)
    child = os.fork()
    if child == 0:
        # The child must exit here: pytest must not go on in it.
        try:
            is_right = decide(runtime) == "" and runtime.current_run is None
            record(runtime, goal_id="child")
            runtime.close()
            os._exit(0 if is_right else 1)
        finally:
            os._exit(2)
    forked.append(child)
    decide(runtime)
    runtime.end_run(True)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    query = BuilderQuery(tmp_path)
    assert len(query.get_decision_trace(run_id)) == 2
    assert [run.status for run in query.list_runs_for_goal("child")] == [RunStatus.COMPLETED]


def test_two_recorders_of_a_process_have_runs_of_their_own(tmp_path: Path) -> None:
    one, other = Runtime(tmp_path, strict=True), Runtime(tmp_path, strict=True)
    runs = one.start_run(GOAL), other.start_run(GOAL)
    decide(one)
    one.end_run(True)
    other.end_run(False)
    query = BuilderQuery(tmp_path)
    assert [len(query.get_decision_trace(run_id)) for run_id in runs] == [1, 0]
