"""Slots: how many sessions a process drives at once."""

import asyncio
from contextlib import suppress

import pytest
from tests.story import play

from windlass import Agent, AgentRuntime, Approval, Rejected, RunHandle, ToolContext, tool
from windlass.engine.driving.slots import SessionSlots
from windlass.testing import ScriptedModel, by_history, call, say


async def turns(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def is_new() -> bool:
    return False


async def is_under_way() -> bool:
    return True


class Holder:
    """Tasks that hold slots until they are told to let go."""

    def __init__(self, slots: SessionSlots) -> None:
        self.slots = slots
        self.held: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    def begin(self, name: str, runtime: object, *, new: bool = True) -> asyncio.Task[None]:
        async def hold() -> None:
            async with self.slots.hold(runtime, is_new if new else is_under_way):
                self.held.append(name)
                await self._ends.setdefault(name, asyncio.Event()).wait()
            self.held.remove(name)

        return asyncio.create_task(hold())

    async def end(self, name: str) -> None:
        self._ends.setdefault(name, asyncio.Event()).set()
        await turns()


def test_starts_wait_for_a_slot_and_runtimes_take_turns() -> None:
    async def story() -> None:
        holder = Holder(SessionSlots(1))
        tasks = [holder.begin(name, "one") for name in ("a1", "a2", "a3")]
        tasks.append(holder.begin("b1", "two"))
        await turns()
        assert holder.held == ["a1"]
        order: list[str] = []
        for _ in range(4):
            [name] = holder.held
            order.append(name)
            await holder.end(name)
        assert order == ["a1", "a2", "b1", "a3"]
        assert holder.slots.taken == 0
        await asyncio.gather(*tasks)

    play(story())


def test_a_run_that_is_under_way_waits_for_no_slot() -> None:
    async def story() -> None:
        holder = Holder(SessionSlots(1))
        tasks = [holder.begin("start", 1), holder.begin("answer", 1, new=False), holder.begin("next", 1)]
        await turns()
        assert sorted(holder.held) == ["answer", "start"]
        await holder.end("start")
        assert holder.held == ["answer"], "one is driven, which is the most"
        await holder.end("answer")
        assert holder.held == ["next"]
        await holder.end("next")
        await asyncio.gather(*tasks)

    play(story())


def test_a_start_that_no_longer_waits_passes_its_turn_on() -> None:
    async def story() -> None:
        holder = Holder(SessionSlots(1))
        first, second, third = (holder.begin(name, 1) for name in ("first", "second", "third"))
        await turns()
        second.cancel()
        await turns()
        await holder.end("first")
        assert holder.held == ["third"]
        await holder.end("third")
        with suppress(asyncio.CancelledError):
            await second
        await asyncio.gather(first, third)
        # Its turn comes in the moment in which it is cancelled.
        first, second, third = (holder.begin(name, 1) for name in ("fourth", "fifth", "sixth"))
        await turns()
        holder.slots._waiting[1][0].set_result(None)  # pyright: ignore[reportPrivateUsage]
        holder.slots._waiting[1].popleft()  # pyright: ignore[reportPrivateUsage]
        second.cancel()
        await holder.end("fourth")
        assert holder.held == ["sixth"]
        await holder.end("sixth")
        await asyncio.gather(first, third)

    play(story())


@pytest.mark.parametrize("most", [0, 10_001, "2"])
def test_a_number_of_slots_that_is_none_is_refused(most: int) -> None:
    with pytest.raises(Rejected, match="sessions_max must be"):
        AgentRuntime.in_memory([Agent("a", model=ScriptedModel([]))], sessions_max=most)


def test_a_runtime_drives_as_many_sessions_as_it_may_and_answers_are_not_kept_waiting() -> None:
    async def story() -> None:
        gates = {name: asyncio.Event() for name in ("s1", "s2", "s3")}
        begun, is_begun = list[str](), asyncio.Event()

        @tool(mode="read")
        async def work(ctx: ToolContext) -> str:
            """Work."""
            begun.append(ctx.session_id)
            is_begun.set()
            await gates[ctx.session_id].wait()
            return "worked"

        @tool(mode="external")
        async def pay() -> str:
            """Pay."""
            begun.append("pay")
            return "paid"

        model = ScriptedModel(
            lambda messages: by_history([call(str(messages[0].content)), say("done")])(messages)
        )
        agent = Agent("a", model=model, tools=[work, pay])
        async with AgentRuntime.in_memory([agent], sessions_max=1) as runtime:
            paying = await runtime.start_run(agent, "pay", session_id="asked")
            runs = list[RunHandle]()
            async for request in paying.requests():
                runs = [await runtime.start_run(agent, "work", session_id=name) for name in gates]
                await is_begun.wait()
                await turns(100)
                assert len(begun) == 1, "the others wait"
                assert isinstance(request, Approval)
                await request.approve()
                assert (await paying.wait()).output == "done", "an answer does not"
                break
            for gate in gates.values():
                gate.set()
            assert [(await run.wait()).output for run in runs] == ["done"] * 3

    play(story())
