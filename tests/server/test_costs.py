"""Where the money of a run went, over HTTP: from the stream of a provider to what the inspector shows."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.models import wire
from tests.models.test_prices import events
from tests.runtime.test_money import CACHED, CHAT, CLAUDE, CONVERSE, GEMINI, RESPONSE, SONNET
from tests.server.rig import ended, run, serving, waiting

from windlass import Agent, LLMUsage, tool
from windlass.catalog import reading
from windlass.models import ModelSettings
from windlass.parts import ModelPrice
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_harness.views.costs import RunCosts, fold_session_costs
from windlass_protocol import JsonObject

PROVIDERS = {
    "openai": (wire.OPENAI.make, "chat", "gpt-4o-2024-08-06", CHAT, 3_500),
    "azure": (wire.azure, "chat", "gpt-4o-2024-11-20", CHAT, 3_500),
    "responses": (wire.RESPONSES.make, "responses", "gpt-5-2025-08-07", RESPONSE, 2_250),
    "anthropic": (wire.ANTHROPIC.make, "messages", SONNET, CACHED, 3_855),
    "google": (wire.GOOGLE.make, "gemini", "gemini-2.5-flash", GEMINI, 550),
    "bedrock": (wire.BEDROCK.make, "converse", CLAUDE, CONVERSE, 4_950),
}
TABLE = {"responses": "openai", "bedrock": "aws"}


@pytest.mark.parametrize("name", [*PROVIDERS])
def test_the_stream_of_a_provider_becomes_the_cost_that_the_inspector_shows(
    name: str, tmp_path: Path
) -> None:
    make, api, model, usage, micros = PROVIDERS[name]

    async def main() -> None:
        async with wire.serving(wire.Reply(events(api, model, usage))) as upstream:
            provider = make(upstream.url, ModelSettings())
            agent = Agent("clerk", model=provider, prices={"*": TABLE.get(name, name)})
            async with serving(tmp_path, [agent]) as server, server.client() as client:
                begun = (await client.post("/sessions", json={"message": "Hi"})).json()
                await ended(client, begun["runId"])
                (row,) = (await client.get("/runs")).json()["runs"]
                assert row["usage"]["costMicros"] == micros
                costs = (await client.get(f"/runs/{begun['runId']}/costs")).json()
                (step,) = costs["steps"]
                assert step["usage"]["costMicros"] == step["price"]["listMicros"] == micros
                assert sum(part["micros"] for part in step["price"]["parts"]) == micros
                assert [model["usage"]["costMicros"] for model in costs["models"]] == [micros]
                stats = (await client.get("/stats")).json()
                assert stats["total"]["costMicros"] == micros
            await provider.aclose()

    run(main())


def test_a_start_in_batches_says_since_when_its_run_waits(tmp_path: Path) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("Done.")]))

    async def main() -> None:
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            refused = await client.post("/sessions", json={"message": "Hi", "batch": "soon"})
            assert (refused.status_code, "batch" in refused.text) == (422, True)
            begun = (await client.post("/sessions", json={"message": "Hi", "batch": "within 24h"})).json()
            info = await waiting(client, begun["runId"])
            assert info["run"]["waiting"]["on"] == "batch"
            assert info["run"]["waiting"]["since"] >= info["row"]["startedAt"]
            opened = (await client.post("/sessions", json={})).json()
            message = {"message": "Hi", "batch": "within 24h"}
            begun = (await client.post(f"/sessions/{opened['sessionId']}/messages", json=message)).json()
            assert (await waiting(client, begun["runId"]))["run"]["waiting"]["on"] == "batch"

    run(main())


def test_a_start_says_no_to_the_batches_of_its_agent(tmp_path: Path) -> None:
    model = ScriptedModel([say("At once."), say("Again.")])
    agent = Agent("clerk", model=model, batch="within 24h")

    async def main() -> None:
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hi", "batch": "off"})).json()
            assert (await ended(client, begun["runId"]))["result"]["output"] == "At once."
            message = {"message": "Hi", "batch": "off"}
            begun = (await client.post(f"/sessions/{begun['sessionId']}/messages", json=message)).json()
            assert (await ended(client, begun["runId"]))["result"]["output"] == "Again."
        assert model.batches == []

    run(main())


@tool(mode="read")
async def look(item: str) -> str:
    """Look at a thing."""
    return "x" * 398


def test_results_of_tools_and_lost_caches_are_in_the_costs_of_a_run(tmp_path: Path) -> None:
    answers = [
        call("look", {"item": "a"}, call_id="a"),
        call("look", {"item": "b"}, call_id="b"),
        say("Done."),
    ]
    reads = (0, 800, 0)
    usages = [LLMUsage(1_000, 10, cache_read_tokens=read, cache_write_tokens=900 - read) for read in reads]
    scripted = ScriptedModel(
        by_history(answer + say("", usage=usage) for answer, usage in zip(answers, usages, strict=True))
    )
    agent = Agent("clerk", model=scripted, tools=[look], prices={"*": ModelPrice(100, 0)})

    async def main() -> None:
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Look."})).json()
            await ended(client, begun["runId"])
            costs = (await client.get(f"/runs/{begun['runId']}/costs")).json()
            assert [step.get("loss") for step in costs["steps"]] == [None, {"tokens": 100}, {"tokens": 900}]
            assert "price" in costs["steps"][0]
            results = [(result["callId"], result["prompts"]) for result in costs["results"]]
            assert results == [("a", 2), ("b", 1)]
            (tool_cost,) = costs["tools"]
            # 100 tokens a result, in a prompt of 1,000 tokens at 100 millionths each.
            assert tool_cost == {
                "tool": "look",
                "calls": 2,
                "resultTokens": 200,
                "promptTokens": 300,
                "costMicros": 30_000,
            }
            assert costs["subagents"] == []
            assert (await client.get("/runs/unknown/costs")).status_code == 404

    run(main())


def test_the_costs_of_a_run_are_folded_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def fold(entries: Iterable[tuple[str | None, str, JsonObject]]) -> dict[str, RunCosts]:
        threads.append(threading.get_ident())
        return fold_session_costs(entries)

    monkeypatch.setattr(reading, "fold_session_costs", fold)

    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hi"})).json()
            await ended(client, begun["runId"])
            costs = (await client.get(f"/runs/{begun['runId']}/costs")).json()
            assert len(costs["steps"]) == 1

    run(main())
    assert len(threads) == 1
    assert threads != [threading.get_ident()], "the session may be long"
