"""Concurrency limits of a tool, and the start of its timeout."""

from datetime import timedelta

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.parts import Machine
from windlass.testing import Answer, FakeClock, ScriptedModel, by_history, call, run_in_fake_time, say
from windlass.tools import Tool

CALL_S = 3


class Counter:
    """Counts calls of its tools that run at the same time, in fake time."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.now = self.most = 0
        self.left: list[timedelta] = []
        """Of each call, how long it has when it begins."""

    def tool(self, concurrency: int) -> Tool[..., object]:
        @tool(mode="read", concurrency=concurrency, timeout=CALL_S + 1)
        async def work(ctx: ToolContext) -> str:
            assert ctx.deadline is not None
            self.left.append(ctx.deadline - self.clock.now())
            self.now += 1
            self.most = max(self.most, self.now)
            await self.clock.sleep(CALL_S)
            self.now -= 1
            return "worked"

        return work


def calling(name: str, work: Tool[..., object], *, times: int) -> Agent:
    calls = call("work", {})
    for _ in range(times - 1):
        calls += call("work", {})
    script: list[Answer] = [calls, say("done")]
    return Agent(name, model=ScriptedModel(by_history(script)), tools=[work])


def machine(clock: FakeClock) -> Machine:
    ids = iter(range(1_000))
    return Machine(clock, lambda: f"id-{next(ids)}", lambda: 0.5)


def test_two_tools_of_one_name_have_limits_of_their_own() -> None:
    clock = FakeClock()
    wide, tight = Counter(clock), Counter(clock)
    agents = [calling("wide", wide.tool(8), times=4), calling("tight", tight.tool(1), times=4)]

    async def story() -> None:
        async with AgentRuntime.in_memory(agents, machine=machine(clock)) as runtime:
            for agent in agents:
                assert (await (await runtime.start_run(agent, "go")).wait()).output == "done"

    run_in_fake_time(story(), clock=clock)
    assert (wide.most, tight.most) == (4, 1)


def test_one_tool_of_two_agents_has_one_limit() -> None:
    clock = FakeClock()
    counter = Counter(clock)
    shared = counter.tool(1)
    agents = [calling("one", shared, times=2), calling("two", shared, times=2)]

    async def story() -> None:
        async with AgentRuntime.in_memory(agents, machine=machine(clock)) as runtime:
            handles = [await runtime.start_run(agent, "go") for agent in agents]
            assert [(await handle.wait()).output for handle in handles] == ["done", "done"]

    run_in_fake_time(story(), clock=clock)
    assert counter.most == 1


def test_the_time_of_a_call_begins_with_its_turn() -> None:
    clock = FakeClock()
    counter = Counter(clock)
    agent = calling("patient", counter.tool(1), times=4)

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], machine=machine(clock)) as runtime:
            assert (await (await runtime.start_run(agent, "go")).wait()).output == "done"

    run_in_fake_time(story(), clock=clock)
    assert counter.left == [timedelta(seconds=CALL_S + 1)] * 4
