"""What happens at a limit: the run ends, a person is asked, or a cheaper model goes on."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from tests.story import play

from windlass import Agent, AgentRuntime, Denied, LLMUsage, Rejected, RunHandle, RunResult, RunStatus
from windlass.parts import ModelPrice, SpendLimit
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.tools import tool
from windlass_protocol import InputRequest, SessionCapabilities, Usage

DEAR: Final = ModelPrice(0, 10)
CHEAP: Final = ModelPrice(0, 1)
FREE: Final = ModelPrice(0, 0)
USAGE: Final = LLMUsage(5, 300)
UNATTENDED: Final = SessionCapabilities(request_input=False)
COST: Final = 3_000
"""What an answer costs, in millionths of a dollar; the shortest one may cost 2,560."""


@tool(mode="read")
async def look() -> str:
    """Look."""
    return "seen"


def looks(times: int) -> Sequence[Answer]:
    """Answers that look so often, and say that they are done."""
    return [*[replace(call("look"), usage=USAGE)] * times, say("Done.", usage=USAGE)]


def clerk(*models: ScriptedModel, **prices: ModelPrice) -> Agent:
    first, *others = models
    return Agent("clerk", model=[first, *others] if others else first, tools=[look], prices=prices)


def limit(at_limit: str, per: str = "month", **options: Any) -> SpendLimit:
    amounts = {"max_cost_micros": 2 * COST, **options}
    return SpendLimit("house", per, at_limit=at_limit, **amounts)  # pyright: ignore[reportArgumentType]


async def ask(handle: RunHandle, before: int = 0) -> InputRequest:
    """Return what a run asks, after it has waited for so many answers."""
    waits = 0
    async for event in handle.events():
        waits += event.type == "run.waiting"
        if waits > before:
            break
    (request,) = await handle.open_requests()
    return request


@pytest.mark.parametrize("per", ["run", "month"])
def test_a_person_lets_a_run_spend_more_and_what_they_allow_is_its_limit(per: str) -> None:
    model = ScriptedModel(looks(4), model_id="dear")
    agent = clerk(model, dear=DEAR)

    async def story() -> tuple[InputRequest, InputRequest, RunResult]:
        async with AgentRuntime.in_memory([agent], limits=[limit("ask", per)]) as runtime:
            handle = await runtime.start_run(agent, "Hi", owner="ann")
            first = await ask(handle)
            assert len(model.requests) == 2, "the limit holds until a person has answered"
            await handle.answer(first.request_id, "approve", arguments={"costMicros": 2 * COST})
            second = await ask(handle, 1)
            assert len(model.requests) == 4
            await handle.answer(second.request_id, "approve", responder="bob")
            result = await handle.wait()
            for use in await runtime.sessions.limits.uses():
                assert (use.state.cost_micros, use.state.held_micros) == (5 * COST, 0)
            return first, second, result

    first, second, result = play(story())
    assert result.status is RunStatus.COMPLETED
    assert result.usage is not None
    assert result.usage.cost_micros == 5 * COST
    assert first.prompt.startswith("The limit house")
    asks = " is reached: 0.006000 of 0.006000 dollars are spent. May this run spend 0.327680 dollars more?"
    assert first.prompt.endswith(asks)
    assert first.request_id != second.request_id
    # The model is not told.
    roles = [message.role for message in model.requests[-1].messages]
    assert roles == ["user", *["assistant", "tool"] * 4]


@pytest.mark.parametrize("per", ["run", "month"])
def test_a_limit_in_tokens_asks_too(per: str) -> None:
    model = ScriptedModel(looks(4))
    agent = clerk(model)

    async def story() -> tuple[InputRequest, RunResult]:
        limits = [limit("ask", per, max_cost_micros=None, max_tokens=400)]
        async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            request = await ask(handle)
            assert len(model.requests) < 3
            await handle.answer(request.request_id, "approve")
            result = await handle.wait()
            for use in await runtime.sessions.limits.uses():
                assert (use.state.tokens, use.state.held_tokens) == (5 * 305, 0)
            return request, result

    request, result = play(story())
    assert result.status is RunStatus.COMPLETED
    assert " of 400 tokens are spent. May this run spend 32," in request.prompt


def test_a_person_who_refuses_ends_the_run_unpaid() -> None:
    model = ScriptedModel(looks(4), model_id="dear")
    agent = clerk(model, dear=DEAR)

    async def story() -> RunResult:
        async with AgentRuntime.in_memory([agent], limits=[limit("ask", owner="*")]) as runtime:
            handle = await runtime.start_run(agent, "Hi", owner="ann")
            request = await ask(handle)
            with pytest.raises(Rejected, match="costMicros must be a whole number above 0"):
                await handle.answer(request.request_id, "approve", arguments={"costMicros": 0})
            await handle.answer(request.request_id, "deny", text="Enough for today.")
            return await handle.wait()

    result = play(story())
    assert result.status is RunStatus.BUDGET_EXHAUSTED
    assert result.error is not None
    details = result.error.details or {}
    assert (details["limit"], details["subject"]) == ("house", "ann")
    assert result.error.message == (
        f"The limit house of ann for {details['period']} is reached, and a person refused to let the run "
        "exceed it: Enough for today."
    )
    assert len(model.requests) == 2


def test_what_an_answer_did_not_need_is_there_for_the_next_one() -> None:
    # The loop itself answers calls of a tool that there is not: the next model call follows at once.
    model = ScriptedModel(
        [*[replace(call("nothing"), usage=USAGE)] * 3, say("Done.", usage=USAGE)], model_id="dear"
    )
    agent = clerk(model, dear=DEAR)

    async def story() -> RunResult:
        limits = [limit("refuse", max_cost_micros=5 * COST)]
        async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
            return await (await runtime.start_run(agent, "Hi")).wait()

    result = play(story())
    assert (result.status, len(model.requests)) == (RunStatus.COMPLETED, 4)


def test_only_those_who_are_named_may_answer() -> None:
    agent = clerk(ScriptedModel(looks(2), model_id="dear"), dear=DEAR)

    async def story() -> RunStatus:
        limits = [limit("ask", responders=["finance"])]
        async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
            handle = await runtime.start_run(agent, "Hi", owner="ann")
            request = await ask(handle)
            with pytest.raises(Denied):
                await handle.answer(request.request_id, "approve", responder="ann")
            await handle.answer(request.request_id, "approve", responder="finance")
            return (await handle.wait()).status

    assert play(story()) is RunStatus.COMPLETED


def test_a_request_outlives_the_process_and_a_new_run_asks_at_once(tmp_path: Path) -> None:
    limits = [limit("ask", max_cost_micros=1)]

    def open_with(model: ScriptedModel) -> AbstractAsyncContextManager[AgentRuntime]:
        return AgentRuntime.open(tmp_path / "app.db", agents=[clerk(model, dear=DEAR)], limits=limits)

    async def story() -> RunResult:
        before, after = (ScriptedModel(looks(1), model_id="dear") for _ in range(2))
        async with open_with(before) as runtime:
            handle = await runtime.start_run("clerk", "Hi", run_id="r1")
            request = await ask(handle)
        assert not before.requests
        async with open_with(after) as runtime:
            handle = runtime.handle("r1")
            await handle.answer(request.request_id, "approve")
            return await handle.wait()

    assert play(story()).status is RunStatus.COMPLETED


def test_a_new_run_at_a_used_up_limit_starts_and_asks() -> None:
    model = ScriptedModel(lambda _: say("Done.", usage=USAGE), model_id="dear")
    agent = clerk(model, dear=DEAR)

    async def story() -> RunStatus:
        async with AgentRuntime.in_memory([agent], limits=[limit("ask", max_cost_micros=COST)]) as runtime:
            assert (await (await runtime.start_run(agent, "Hi")).wait()).status is RunStatus.COMPLETED
            handle = await runtime.start_run(agent, "Hi")
            request = await ask(handle)
            assert len(model.requests) == 1
            await handle.answer(request.request_id, "approve")
            return (await handle.wait()).status

    assert play(story()) is RunStatus.COMPLETED


def test_a_message_passes_the_request_over_and_the_run_asks_again() -> None:
    agent = clerk(ScriptedModel(looks(0), model_id="dear"), dear=DEAR)

    async def story() -> tuple[InputRequest, InputRequest, RunStatus]:
        async with AgentRuntime.in_memory([agent], limits=[limit("ask", max_cost_micros=1)]) as runtime:
            handle = await runtime.start_run(agent, "Hi", session_id="s1")
            first = await ask(handle)
            await runtime.steer(agent, "Well?", session_id="s1")
            second = await ask(handle, 1)
            await handle.answer(second.request_id, "approve")
            return first, second, (await handle.wait()).status

    first, second, status = play(story())
    assert first.request_id != second.request_id
    assert status is RunStatus.COMPLETED


def test_a_subagent_asks_through_its_caller() -> None:
    helper = Agent(
        "helper", model=ScriptedModel([say("Done.", usage=USAGE)]), description="x", prices={"*": DEAR}
    )
    model = ScriptedModel([call("helper", {"message": "x"}), say("Done.")])
    agent = Agent("clerk", model=model, subagents=[helper], prices={"*": FREE})

    async def story() -> RunStatus:
        limits = [SpendLimit("helpers", "day", max_cost_micros=1, agent="helper", at_limit="ask")]
        async with AgentRuntime.in_memory([agent, helper], limits=limits) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            request = await ask(handle, 1)
            assert request.prompt.startswith("The limit helpers for 20")
            await handle.answer(request.request_id, "approve")
            return (await handle.wait()).status

    assert play(story()) is RunStatus.COMPLETED


def test_where_nobody_can_be_asked_the_run_ends() -> None:
    agent = clerk(ScriptedModel(looks(0), model_id="dear"), dear=DEAR)

    async def story() -> list[RunStatus]:
        statuses: list[RunStatus] = []
        for per in ("run", "day"):
            limits = [limit("ask", per, max_cost_micros=1)]
            async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
                handle = await runtime.start_run(agent, "Hi", capabilities=UNATTENDED)
                statuses.append((await handle.wait()).status)
        return statuses

    assert play(story()) == [RunStatus.BUDGET_EXHAUSTED] * 2


@pytest.mark.parametrize("per", ["run", "month"])
def test_a_cheaper_model_goes_on_while_its_answers_fit(per: str) -> None:
    dear = ScriptedModel(looks(9), model_id="dear")
    dearer = ScriptedModel(looks(9), model_id="dearer")
    cheap = ScriptedModel(looks(9), model_id="cheap")
    agent = clerk(dear, dearer, cheap, dear=DEAR, dearer=ModelPrice(0, 20), cheap=CHEAP)

    async def story() -> tuple[RunResult, list[object]]:
        limits = [limit("cheaper", per, max_cost_micros=2 * COST + 700)]
        async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            result = await handle.wait()
            events = [event async for event in handle.events()]
            for use in await runtime.sessions.limits.uses():
                assert (use.state.cost_micros, use.state.held_micros) == (2 * COST + 600, 0)
        return result, [(event.data or {})["modelId"] for event in events if event.type == "step.started"]

    result, models = play(story())
    assert result.status is RunStatus.BUDGET_EXHAUSTED
    assert models == ["dear", "dear", "scripted/cheap", "scripted/cheap"]
    assert (len(dear.requests), len(dearer.requests), len(cheap.requests)) == (2, 0, 2)


def test_a_cheaper_model_with_the_name_that_the_first_one_has_at_its_provider_is_another_model() -> None:
    dear, cheap = ScriptedModel(looks(9), model_id="openai/gpt"), ScriptedModel(looks(9), model_id="gpt")
    dear.route_id, cheap.route_id = "gateway", "openai"
    agent = Agent("clerk", model=[dear, cheap], tools=[look], prices={"gateway/*": DEAR, "openai/gpt": CHEAP})

    async def story() -> tuple[Sequence[object], dict[str, Usage]]:
        limits = [limit("cheaper", max_cost_micros=2 * COST + 700)]
        async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            await handle.wait()
            events = [event async for event in handle.events()]
            (use,) = await runtime.sessions.limits.uses()
            assert (use.state.cost_micros, use.state.held_micros) == (2 * COST + 600, 0)
            costs = await runtime.sessions.costs(handle.run_id)
        models = [(event.data or {})["modelId"] for event in events if event.type == "step.started"]
        return models, costs.models

    names, costs = play(story())
    assert names == ["gateway/openai/gpt"] * 2 + ["openai/gpt"] * 2
    assert {name: usage.cost_micros for name, usage in costs.items()} == {names[0]: 2 * COST, names[3]: 600}


@pytest.mark.parametrize(("price", "is_refused"), [(FREE, False), (CHEAP, True)])
def test_a_run_starts_at_a_limit_that_is_used_up_only_with_a_free_model(
    price: ModelPrice, is_refused: bool
) -> None:
    dear, other = ScriptedModel(looks(0), model_id="dear"), ScriptedModel(looks(0), model_id="other")
    agent = clerk(dear, other, dear=DEAR, other=price)

    async def story() -> RunStatus:
        async with AgentRuntime.in_memory(
            [agent], limits=[limit("cheaper", max_cost_micros=COST)]
        ) as runtime:
            await (await runtime.start_run(agent, "Hi")).wait()
            return (await (await runtime.start_run(agent, "Hi")).wait()).status

    if is_refused:
        with pytest.raises(Denied, match="limit house for"):
            play(story())
    else:
        assert play(story()) is RunStatus.COMPLETED
    assert (len(dear.requests), len(other.requests)) == (1, not is_refused)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_limit": "beg"}, "at_limit of limit house must be one of refuse, ask, cheaper, found 'beg'"),
        ({"at_limit": "refuse", "responders": ["ann"]}, 'responders of limit house are for at_limit "ask"'),
        (
            {"at_limit": "ask", "responders": "ann"},
            "responders of limit house must be names or roles, found str",
        ),
        (
            {"at_limit": "ask", "responders": []},
            "responders of limit house must be names or roles, found list",
        ),
        ({"at_limit": "ask", "responders": [5]}, "a responder of limit house is a text, found int"),
    ],
)
def test_a_wrong_choice_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejected) as caught:
        limit(**options)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("price", "words"), [(DEAR, "used up its budget"), (None, "limit helpers is in money")]
)
def test_a_limit_of_each_run_holds_for_subagents(price: ModelPrice | None, words: str) -> None:
    inner = ScriptedModel([say("Done.", usage=USAGE)], model_id="inner")
    prices = {} if price is None else {"*": price}
    helper = Agent("helper", model=inner, description="x", prices=prices)
    outer = ScriptedModel([call("helper", {"message": "x"}), say("Done.")])
    agent = Agent("clerk", model=outer, subagents=[helper], prices={"*": FREE})

    async def story() -> RunStatus:
        limits = [SpendLimit("helpers", "run", max_cost_micros=1, agent="helper")]
        async with AgentRuntime.in_memory([agent, helper], limits=limits) as runtime:
            return (await (await runtime.start_run(agent, "Hi")).wait()).status

    assert play(story()) is RunStatus.COMPLETED
    assert not inner.requests
    assert words in outer.requests[-1].messages[-1].content
