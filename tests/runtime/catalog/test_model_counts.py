"""Statistics by model: a run counts for each model that answered it, also a fallback or one of a subagent."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.runtime.catalog.rig import opened
from tests.story import play

from windlass import Agent, AgentRuntime, LLMUsage, Rejected
from windlass.catalog import RunNumbers, model_counts
from windlass.parts import ModelPrice
from windlass.ports.model import ModelFault, ModelUnavailable
from windlass.testing import Answer, ScriptedModel, call, say

USAGE = LLMUsage(1_000, 100, cache_read_tokens=400)
COST = 1_000 * 100 + 100 * 1_000
PRICES = {"*": ModelPrice(100, 1_000)}


def refuse(_: object) -> Answer:
    raise ModelUnavailable("it is away", fault=ModelFault.AUTH)


def openai() -> ScriptedModel:
    """A model that agents name `openai/gpt-4o`."""
    return ScriptedModel(lambda _: say("Done.", usage=USAGE), route_id="openai", model_id="gpt-4o")


async def counted(runtime: AgentRuntime, **options: object) -> dict[str, RunNumbers]:
    now = datetime.now(UTC)
    span = (now - timedelta(hours=2), now + timedelta(hours=1))
    stats = await runtime.sessions.stats(*span, split="model", **options)  # pyright: ignore[reportArgumentType]
    for group in stats.groups:
        assert sum(bucket.runs for bucket in group.buckets) == group.total.runs
    if not options:
        assert sum(group.total.cost_micros for group in stats.groups) == stats.total.cost_micros
    return {group.name: group.total for group in stats.groups}


@pytest.mark.parametrize("is_kept", [True, False], ids=["file", "memory"])
def test_a_run_counts_for_the_model_that_answered(tmp_path: Path, *, is_kept: bool) -> None:
    first = Agent("first", model=openai(), prices=PRICES)
    away = ScriptedModel(refuse, model_id="away")
    second = Agent("second", model=[away, openai()], prices=PRICES)

    async def story() -> None:
        async with opened(tmp_path / "app.db" if is_kept else None, first, second) as runtime:
            for agent in (first, second, second):
                await (await runtime.start_run(agent, "Hi", owner="ann")).wait()
            numbers = await counted(runtime)
            # One row for the model, whether it is the first one of its agent or a fallback.
            assert [*numbers] == ["openai/gpt-4o"]
            total = numbers["openai/gpt-4o"]
            assert (total.runs, total.completed, total.cost_micros) == (3, 3, 3 * COST)
            assert (total.input_tokens, total.cache_read_tokens, total.output_tokens) == (3_000, 1_200, 300)
            assert total.p50_ms is None, "percentiles of several versions do not add up"
            alone = await counted(runtime, agent_id="first", owner="ann")
            assert alone["openai/gpt-4o"].p50_ms is not None
            assert await counted(runtime, owner="bob") == {}
            now = datetime.now(UTC)
            with pytest.raises(Rejected, match="split must be agent, model, owner or version"):
                await runtime.sessions.stats(now, now + timedelta(1), split="mood")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    play(story())


def test_what_subagents_and_summaries_used_counts_for_their_models(tmp_path: Path) -> None:
    helper = Agent("helper", model=openai(), prices=PRICES)
    ask = call("helper", {"message": "Help."}) + say("", usage=USAGE)
    chief_model = ScriptedModel([ask, say("Done.", usage=USAGE)], model_id="chief")
    chief = Agent("chief", model=chief_model, prices=PRICES, subagents=[helper])

    async def story() -> None:
        async with opened(tmp_path / "app.db", chief, helper) as runtime:
            await (await runtime.start_run(chief, "Go.")).wait()
            numbers = await counted(runtime)
            costs = {name: total.cost_micros for name, total in numbers.items()}
            assert costs == {"scripted/chief": 2 * COST, "openai/gpt-4o": COST}
            assert [total.runs for total in numbers.values()] == [1, 1]
            assert {*await counted(runtime, agent_id="helper")} == {"openai/gpt-4o"}

    play(story())


def test_the_newest_runs_with_several_models_are_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_counts, "PAGE", 2)
    monkeypatch.setattr(model_counts, "RUNS_READ_MAX", 4)
    monkeypatch.setattr(model_counts, "RUNS_KEPT_MAX", 2)
    agent = Agent("clerk", model=[openai(), ScriptedModel(refuse, model_id="away")], prices=PRICES)

    async def story() -> None:
        async with opened(tmp_path / "app.db", agent) as runtime:
            for _ in range(3):
                await (await runtime.start_run(agent, "Hi")).wait()
            for _ in range(2):
                assert (await counted(runtime))["openai/gpt-4o"].runs == 3
            for _ in range(3):
                await (await runtime.start_run(agent, "Hi")).wait()
            now = datetime.now(UTC)
            stats = await runtime.sessions.stats(now - timedelta(1), now + timedelta(1), split="model")
            assert (stats.total.runs, stats.groups[0].total.runs) == (6, 4)

    play(story())
