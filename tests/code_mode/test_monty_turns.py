"""Who is next when more programs wait than there are helper processes."""

import asyncio
import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.code_mode.test_monty_helper import LIMITS, program
from tests.code_mode.test_programs import coder, flow, run
from tests.runtime.runtime_rig import play

from windlass import AgentRuntime
from windlass.code_mode.monty import (
    BEGUN_S,
    HALF_LIFE_S,
    USERS_MAX,
    InterpreterUsage,
    MontyInterpreter,
    Turns,
    User,
)
from windlass.ports.interpreter import Program, ProgramValue
from windlass_protocol import JsonObject

HOSTILE = [f"hostile {number}" for number in range(20)]


class Noting(MontyInterpreter):
    """Notes the families of programs in the order in which helpers took them."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []
        self.owners: set[str] = set()

    def _ask_helper(
        self, program: Program, request: JsonObject, snapshot: bytes
    ) -> tuple[JsonObject, bytes, bytes]:
        self.taken.append(program.family)
        self.owners.add(program.owner)
        return super()._ask_helper(program, request, snapshot)


class Clock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def endless(family: str) -> Program:
    return replace(program("while True:\n    pass"), family=family, limits=replace(LIMITS, turn_ms=100))


@pytest.mark.slow
@pytest.mark.parametrize("has_a_past", [True, False])
def test_programs_that_use_all_their_time_delay_another_session_by_those_that_run(has_a_past: bool) -> None:
    async def story() -> None:
        interpreter = Noting()
        if has_a_past:
            await asyncio.gather(*(interpreter.run(endless(family), []) for family in HOSTILE))
        flood = [
            asyncio.ensure_future(interpreter.run(endless(family), []))
            for _ in range(4)
            for family in HOSTILE
        ]
        if not has_a_past:
            # Each has had its first turn when the innocent program comes.
            await asyncio.wait(flood[: len(HOSTILE)])
        await asyncio.sleep(0)
        innocent = asyncio.ensure_future(interpreter.run(replace(program("1"), family="innocent"), []))
        await asyncio.sleep(0)
        taken_before = len(interpreter.taken)
        assert (await innocent).end == ProgramValue(1)
        # A helper may have taken a program before that is not noted yet.
        assert interpreter.taken.index("innocent") <= taken_before + (os.cpu_count() or 1)
        await interpreter.aclose()
        await asyncio.gather(*flood, return_exceptions=True)
        assert len(interpreter.taken) < len(flood)

    play(story())


def test_the_requests_that_wait_are_cancelled_with_the_interpreter_and_with_their_sessions() -> None:
    async def story() -> list[Any]:
        interpreter = Noting()
        waiting = [asyncio.ensure_future(interpreter.run(endless("one"), [])) for _ in range(40)]
        await asyncio.sleep(0)
        waiting[-1].cancel()
        await asyncio.wait(waiting[-1:])
        await interpreter.aclose()
        return await asyncio.gather(*waiting, return_exceptions=True)

    ends = play(story())
    assert sum(isinstance(end, asyncio.CancelledError) for end in ends) >= 40 - 2 * (os.cpu_count() or 1)


def test_fresh_sessions_of_one_owner_delay_another_owner_by_those_that_run() -> None:
    async def story() -> None:
        interpreter = Noting()
        flood = [
            asyncio.ensure_future(interpreter.run(replace(endless(f"fresh {number}"), owner="hostile"), []))
            for number in range(60)
        ]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        innocent = replace(program("1"), owner="innocent", family="innocent")
        for _ in range(3):
            # From the second time on it has used a helper, which the sessions that wait have not.
            taken_before = len(interpreter.taken)
            assert (await interpreter.run(innocent, [])).end == ProgramValue(1)
            assert interpreter.taken.index("innocent", taken_before) <= taken_before + (os.cpu_count() or 1)
        await interpreter.aclose()
        await asyncio.gather(*flood, return_exceptions=True)
        assert len(interpreter.taken) < len(flood)

    play(story())


def test_the_owner_that_used_least_is_next_then_its_family_that_did_and_then_the_first_to_come() -> None:
    clock = Clock()
    turns = Turns[str](clock)
    for owner, family in (("a", "1"), ("a", "1"), ("a", "2"), ("b", "3"), ("b", "3"), ("a", "1")):
        turns.add(User(owner, family), owner + family)
    assert turns.take() == (User("a", "1"), "a1")
    # One of `a` runs.
    assert turns.take() == (User("b", "3"), "b3")
    clock.now_s += 5
    turns.end(User("a", "1"))
    clock.now_s += 3
    turns.end(User("b", "3"))
    turns.add(User("c", "4"), "c4")
    # `2` is new, and its owner is not; `b` used more than `a` with those that run.
    assert [turns.take()[1] for _ in range(5)] == ["c4", "a2", "a1", "a1", "b3"]


def test_families_of_one_owner_and_those_without_an_owner_share_their_turns() -> None:
    clock = Clock()
    turns = Turns[str](clock)
    for name in ("a1", "a2", "b1", "c1", "a3"):
        turns.add(User("", name[0]), name)
    assert turns.take() == (User("", "a"), "a1")
    assert turns.take() == (User("", "b"), "b1")
    clock.now_s += 5
    turns.end(User("", "a"))
    clock.now_s += 3
    turns.end(User("", "b"))
    turns.add(User("", "b"), "b2")
    assert [turns.take()[1] for _ in range(4)] == ["c1", "a2", "a3", "b2"]


def test_what_was_used_long_ago_counts_little() -> None:
    clock = Clock()
    usage = InterpreterUsage[str](clock)
    for user, took_s in (("a", 40.0), ("b", 10.0)):
        usage.begin(user)
        clock.now_s += took_s
        usage.end(user)
        clock.now_s += 3 * HALF_LIFE_S
    assert usage.cost_s("a") < usage.cost_s("b")


def test_of_many_users_those_that_used_most_are_counted() -> None:
    clock = Clock()
    usage = InterpreterUsage[str](clock)
    for number in range(USERS_MAX + 10):
        usage.begin(str(number))
        clock.now_s += 1_000.0 if number == 5 else 0.001
        usage.end(str(number))
    assert len(usage._used) == USERS_MAX  # pyright: ignore[reportPrivateUsage]
    assert usage.cost_s("5") > 0


@given(
    st.lists(st.builds(User, st.sampled_from("ab"), st.sampled_from("12")), max_size=40),
    st.integers(1, 3),
    st.floats(0.1, 2 * BEGUN_S),
)
def test_every_request_is_taken_once_and_those_of_a_family_in_order(
    users: list[User], helpers: int, took_s: float
) -> None:
    clock = Clock()
    turns = Turns[int](clock)
    for number, user in enumerate(users):
        turns.add(user, number)
    taken: list[tuple[User, int]] = []
    running: list[User] = []
    for _ in users:
        taken.append(turns.take())
        running.append(taken[-1][0])
        if len(running) == helpers:
            clock.now_s += took_s
            turns.end(running.pop(0))
    for name in set(users):
        own = [number for user, number in taken if user == name]
        assert own == [number for number, user in enumerate(users) if user == name]
    assert Counter(number for _, number in taken) == Counter(range(len(users)))
    # Each owner has a turn before another has its second one, and so has each family of an owner.
    owners = {user.owner for user in users}
    assert {user.owner for user, _ in taken[: len(owners)]} == owners
    for owner in owners:
        families = {user.family for user in users if user.owner == owner}
        turns_of_owner = [user.family for user, _ in taken if user.owner == owner]
        assert set(turns_of_owner[: len(families)]) == families


def test_a_subagent_counts_for_the_session_that_called_it() -> None:
    interpreter = Noting()
    play(run(flow("await coder('go')", coder("1 + 1")), interpreter=interpreter))
    assert len(interpreter.taken) > 3
    assert set(interpreter.taken) == {"s1"}


def test_programs_of_a_run_and_of_its_subagents_count_for_the_owner_of_the_session() -> None:
    async def story() -> set[str]:
        interpreter = Noting()
        agent = flow("await coder('go')", coder("1 + 1"))
        async with AgentRuntime.in_memory([agent], interpreter=interpreter) as runtime:
            handle = await runtime.start_run(agent, "go", owner="user 1")
            await handle.wait(timeout=300)
        return interpreter.owners

    assert play(story()) == {"user 1"}
