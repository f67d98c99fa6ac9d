"""The contract of purses, in every store: what is held fits, and each call is settled once."""

import asyncio
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.stores import AnyStore, Play, claim

from windlass.errors import Conflict
from windlass.ports.journal import Batch, Claim, SharedCalls
from windlass.ports.purses import CallAsk, CallGrant, CallRefusal, Purse, PurseState
from windlass_harness.loop.purse import PaidCall
from windlass_harness.loop.rules import CallBounds, CallPrice
from windlass_protocol import BudgetName

MILLION: Final = 1_000_000
BOUNDS: Final = CallBounds(CallPrice(0, 10 * MILLION), 50, 400, 100)
"""An answer costs 10 for each of its 100 to 400 tokens; the prompt has 50."""
HOUSE: Final = Purse("house", "", "2026-11", max_cost_micros=10_000)
ANN: Final = Purse("people", "ann", "2026-11-19", max_tokens=800)


async def settle(store: AnyStore, owner: Claim, *paid: PaidCall, open_call: str | None = None) -> None:
    await store.append(Batch(owner, 0, (), calls=SharedCalls(paid, open_call)))


async def state(store: AnyStore, purse: Purse) -> PurseState:
    (found,) = await store.purses([purse.name])
    return found


def test_a_call_is_held_in_all_its_purses_and_its_cost_takes_the_place(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        owner = await claim(store)
        assert await store.hold_call(CallAsk(owner, "c", (HOUSE, ANN), BOUNDS)) == CallGrant(400)
        assert await state(other, HOUSE) == PurseState(0, 0, 4_000, 450)
        await settle(store, owner, PaidCall("c", 1_500, 200))
        for purse in (HOUSE, ANN):
            assert await state(other, purse) == PurseState(1_500, 200, 0, 0)
        # The same end again settles nothing.
        await settle(store, owner, PaidCall("c", 1_500, 200))
        assert await state(other, HOUSE) == PurseState(1_500, 200, 0, 0)

    play(story)


def test_an_answer_is_made_shorter_to_fit_the_purse_with_the_least(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first, second = await claim(store, "a"), await claim(store, "b")
        assert await store.hold_call(CallAsk(first, "c", (HOUSE, ANN), BOUNDS)) == CallGrant(400)
        assert await other.hold_call(CallAsk(second, "c", (HOUSE, ANN), BOUNDS)) == CallGrant(300)
        third = await claim(store, "c")
        refusal = await store.hold_call(CallAsk(third, "c", (HOUSE, ANN), BOUNDS))
        assert refusal == CallRefusal(ANN, PurseState(0, 0, 7_000, 800), 1_000, 150)
        assert isinstance(refusal, CallRefusal)
        assert refusal.budget is BudgetName.TOKENS
        # It is held in none.
        assert await state(store, HOUSE) == PurseState(0, 0, 7_000, 800)

    play(story)


def test_the_same_call_again_takes_the_place_of_the_first(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        owner = await claim(store)
        for _ in range(3):
            assert await store.hold_call(CallAsk(owner, "c", (HOUSE,), BOUNDS)) == CallGrant(400)
        assert await state(other, HOUSE) == PurseState(0, 0, 4_000, 450)

    play(story)


@pytest.mark.parametrize("is_begun", [True, False])
def test_the_next_owner_settles_a_call_once_and_gives_back_one_that_never_began(
    play: Play, *, is_begun: bool
) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        dead = await claim(store)
        await store.hold_call(CallAsk(dead, "c", (HOUSE,), BOUNDS))
        await store.retire("o1")
        alive = await claim(other, owner_id="p")
        with pytest.raises(Conflict):
            await store.hold_call(CallAsk(dead, "d", (HOUSE,), BOUNDS))
        with pytest.raises(Conflict):
            await settle(store, dead, PaidCall("c", 1, 1))
        assert await state(store, HOUSE) == PurseState(0, 0, 4_000, 450)
        # The next attempt is held before the end of the first one is durable.
        await other.hold_call(CallAsk(alive, "d", (HOUSE,), BOUNDS))
        lost = (PaidCall("c", None, None),) if is_begun else ()
        await settle(other, alive, *lost, open_call="d")
        spent = (4_000, 450) if is_begun else (0, 0)
        assert await state(store, HOUSE) == PurseState(*spent, 4_000, 450)
        await settle(other, alive, PaidCall("d", 10, 10))
        assert await state(store, HOUSE) == PurseState(spent[0] + 10, spent[1] + 10, 0, 0)

    play(story)


def test_many_calls_at_once_hold_no_more_than_the_limit(play: Play) -> None:
    async def one(store: AnyStore, name: str) -> int:
        owner = await claim(store, name, owner_id=f"owner of {name}")
        answer = await store.hold_call(CallAsk(owner, "c", (HOUSE,), BOUNDS))
        if isinstance(answer, CallRefusal):
            return 0
        assert (await state(store, HOUSE)).held_micros <= 10_000
        await settle(store, owner, PaidCall("c", answer.answer_tokens * 10, 1))
        return answer.answer_tokens * 10

    async def story(store: AnyStore, other: AnyStore) -> None:
        paid = await asyncio.gather(*(one([store, other][at % 2], f"s{at}") for at in range(40)))
        assert 9_000 < sum(paid) <= 10_000
        assert await state(store, HOUSE) == PurseState(sum(paid), sum(map(bool, paid)), 0, 0)
        assert await store.documents("purse-calls") == ()

    play(story)


def test_a_summary_counts_although_it_was_not_held_before(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        owner = await claim(store)
        await store.hold_call(CallAsk(owner, "c", (HOUSE,), BOUNDS))
        await settle(store, owner, PaidCall("summary/3", 700, 80, (HOUSE.name, ANN.name)), open_call="c")
        assert await state(other, HOUSE) == PurseState(700, 80, 4_000, 450)
        assert await state(other, ANN) == PurseState(700, 80, 0, 0)

    play(story)


def test_an_append_that_is_refused_settles_nothing(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        owner = await claim(store)
        await store.hold_call(CallAsk(owner, "c", (HOUSE,), BOUNDS))
        with pytest.raises(Conflict):
            await settle(store, replace(owner, epoch=owner.epoch + 1), PaidCall("c", 1, 1))
        assert await state(other, HOUSE) == PurseState(0, 0, 4_000, 450)

    play(story)
