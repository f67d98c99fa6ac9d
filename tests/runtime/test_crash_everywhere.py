"""`crash_everywhere`: one run for each point at which its process can die."""

import asyncio
from collections import Counter
from typing import Literal

import pytest

from windlass import Agent, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, crash_everywhere, say
from windlass_protocol import InputKind, InputRequest, InputResponse

SCRIPT = (call("look", {}), call("pay", {"cents": 5}) + call("look", {}), say("done"))


def desk(effect: Literal["idempotent", "once"], paid: Counter[str]) -> Agent:
    @tool(mode="read")
    async def look() -> str:
        return "a bill"

    @tool(mode="external", effect=effect)
    async def pay(cents: int, ctx: ToolContext) -> str:
        paid[ctx.idempotency_key] += 1
        return "paid"

    return Agent("desk", model=ScriptedModel(by_history(SCRIPT)), tools=[look, pay])


@pytest.mark.slow
def test_a_run_ends_alike_after_a_crash_at_each_call_of_the_store() -> None:
    paid: Counter[str] = Counter()
    points: list[str] = []
    repeated = 0
    for crash in crash_everywhere(desk("idempotent", paid), "pay the bill"):
        assert (crash.result.output, len(paid)) == ("done", 1), crash
        points.append(crash.point)
        repeated += paid.total() - 1
        paid.clear()
        assert crash.number == len(points)
    assert {"post asked", "post done", "claim done", "append asked", "append done"} <= set(points)
    assert points.count("append done") > 4
    assert repeated, "no crash was in the middle of the payment"


@pytest.mark.slow
def test_an_interrupted_call_that_must_happen_once_is_a_request() -> None:
    paid: Counter[str] = Counter()
    kinds: Counter[object] = Counter()
    totals = set[int]()

    def answer(request: InputRequest) -> InputResponse:
        kinds[request.kind] += 1
        option_id = "skip" if request.kind is InputKind.RECOVERY else "approve"
        return InputResponse(request_id=request.request_id, option_id=option_id)

    for crash in crash_everywhere(desk("once", paid), "pay the bill", answer=answer):
        assert crash.result.output == "done", crash
        totals.add(paid.total())
        paid.clear()
    assert kinds[InputKind.RECOVERY] > 0
    assert totals == {0, 1}, "the crash was before the payment, or after it"


@pytest.mark.slow
def test_a_tool_that_repeats_what_must_happen_once_is_found() -> None:
    paid: Counter[str] = Counter()
    totals = set[int]()
    for _ in crash_everywhere(desk("once", paid), "pay the bill", recover="retry"):
        totals.add(paid.total())
        paid.clear()
    assert totals == {1, 2}


def test_it_says_so_inside_a_running_loop() -> None:
    async def story() -> None:
        next(crash_everywhere(desk("once", Counter()), "go"))

    with pytest.raises(RuntimeError, match="crash_everywhere"):
        asyncio.run(story())
