"""Requests to a thread that writes, and the way back of their results."""

import asyncio

from tests.runtime.runtime_rig import play

from windlass.adapters.journals.rules import unavailable
from windlass.sql.jobs import SETTLED_AT_ONCE, Job, settle


def test_callers_of_one_transaction_go_on_in_several_turns_and_in_order() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        count = 3 * SETTLED_AT_ONCE + 1
        jobs = [Job[None](lambda _: None, 0, loop, future=loop.create_future()) for _ in range(2 * count)]
        order: list[object] = []
        for number, job in enumerate(jobs):
            job.result = number
            assert job.future is not None
            job.future.add_done_callback(lambda future: order.append(future.result()))
        settle(jobs[:count])
        # A second transaction ends before all callers of the first have gone on.
        settle(jobs[count:])
        turns = 0
        while len(order) < len(jobs):
            before = len(order)
            await asyncio.sleep(0)
            turns += 1
            assert len(order) - before <= SETTLED_AT_ONCE
        assert order == [*range(2 * count)]
        assert turns >= 2 * count // SETTLED_AT_ONCE

    play(story())


def test_a_caller_gets_its_error_and_one_that_left_nothing() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        failed, left = (Job[None](lambda _: None, 0, loop, future=loop.create_future()) for _ in range(2))
        alone = Job[None](lambda _: None, 0, loop)
        failed.error = unavailable("the disk is full")
        assert failed.future is not None
        assert left.future is not None
        left.future.cancel()
        settle([failed, left, alone])
        assert failed.future.exception() is failed.error

    play(story())
