"""Fallback models: `model=[…]` of an agent."""

import pytest
from tests.models.wire import ANTHROPIC, KEY, OPENAI, Reply, refusal, serving
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Rejected, Unavailable
from windlass.agent.package import compile_package
from windlass.models import ModelSettings, OpenAICompatProvider
from windlass.testing import ScriptedModel, say
from windlass_protocol import RunStatus


@pytest.mark.parametrize("status", [401, 402, 503])
def test_the_next_model_answers_when_the_first_is_away_or_refuses_the_account(status: int) -> None:
    async def story() -> None:
        broken, fine = refusal(status, {"error": {"message": "no"}}), Reply(ANTHROPIC.text(["Here I am."]))
        async with serving(broken) as first, serving(fine) as second:
            models = [OPENAI.make(first.url, ModelSettings()), ANTHROPIC.make(second.url, ModelSettings())]
            agent = Agent("desk", model=models)
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Hello?")
                result = await handle.wait()
                events = [event async for event in handle.events()]
            for model in models:
                await model.aclose()
        assert (result.status, result.output) == (RunStatus.COMPLETED, "Here I am.")
        asked = [(event.data or {})["modelId"] for event in events if event.type == "step.started"]
        assert asked[-1] == "/".join(agent.fallback_routes[0]), "the record names the model that answered"
        assert asked[0] == agent.route[1]
        assert len(first.asked) == (3 if status == 503 else 1)

    play(story())


def test_a_gateway_that_is_away_is_left_for_the_model_that_it_names() -> None:
    async def story() -> None:
        direct = ScriptedModel([say("Here I am.")], model_id="gpt")
        direct.route_id = "openai"
        async with serving(refusal(402, {"error": {"message": "no"}})) as server:
            gateway = OpenAICompatProvider("openai/gpt", api_key=KEY, base_url=server.url)
            agent = Agent("desk", model=[gateway, direct])
            async with AgentRuntime.in_memory([agent]) as runtime:
                result = await (await runtime.start_run(agent, "Hello?")).wait()
            await gateway.aclose()
        assert (result.status, result.output) == (RunStatus.COMPLETED, "Here I am.")

    play(story())


def test_fallbacks_are_a_part_of_the_package() -> None:
    agent = Agent("desk", model=["anthropic/a", "openai/b"])
    route = compile_package(agent).provider_route
    assert (route.route_id, route.model_id) == ("anthropic", "a")
    assert route.settings == {"fallbacks": [{"routeId": "openai", "modelId": "b"}]}
    assert compile_package(Agent("desk", model=["anthropic/a"])) == compile_package(
        Agent("desk", model="anthropic/a")
    )


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ([], "must not be an empty list"),
        (["openai/a", "b"], 'must be "provider/model"'),
        (["openai/a", "openai/a"], "openai/a"),
        (["openai/a"] * 9, "limit 8"),
        (["openai/a", 5], "found int"),
    ],
)
def test_a_wrong_list_of_models_is_refused(model: list[str], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Agent("desk", model=model)


def test_a_fallback_without_a_provider_is_refused_at_the_start() -> None:
    async def story() -> None:
        agent = Agent("desk", model=[ScriptedModel([say("hi")]), "nowhere/x"])
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Unavailable, match="nowhere"):
                await runtime.start_run(agent, "Hello?")

    play(story())
