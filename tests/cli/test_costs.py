"""`windlass costs` and the costs in `windlass runs show`."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.commands import run_here

from windlass import Agent, AgentRuntime, LLMUsage, tool
from windlass.parts import ModelPrice
from windlass.ports.model import ModelFault, ModelUnavailable
from windlass.testing import Answer, ScriptedModel, by_history, call, say


@tool(mode="read")
async def look(item: str) -> str:
    """Look at a thing."""
    return "x" * 398


def clerk(name: str) -> Agent:
    """Looks twice and answers: each prompt has the results before it."""
    usage = LLMUsage(1_000, 100, cache_read_tokens=500)
    answers = [
        call("look", {"item": "a"}, call_id="a"),
        call("look", {"item": "b"}, call_id="b"),
        say("Done."),
    ]
    model = ScriptedModel(by_history(answer + say("", usage=usage) for answer in answers))
    prices = {"*": ModelPrice(100, 1_000, cache_read=10)}
    return Agent(name, model=model, tools=[look], prices=prices)


@pytest.fixture
def run_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)

    async def story() -> list[str]:
        agents = [clerk("clerk"), clerk("other")]
        made: list[str] = []
        async with AgentRuntime.open("app.db", agents=agents) as runtime:
            for agent, owner in ((agents[0], "ann"), (agents[0], "bob"), (agents[1], "ann")):
                handle = await runtime.start_run(agent, "Look.", owner=owner)
                await handle.wait()
                made.append(handle.run_id)
        return made

    return asyncio.run(story())


def refuse(_: object) -> Answer:
    raise ModelUnavailable("it is away", fault=ModelFault.AUTH)


# One answer: 500 fresh tokens at 100 millionths, 500 cached at 10, 100 of output at 1,000.
ANSWER = 500 * 100 + 500 * 10 + 100 * 1_000
RUN = 3 * ANSWER


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    ran = run_here(capsys, "--store", "app.db", "costs", *arguments, "--csv")
    assert ran.code == 0, ran.err
    return [line.split(",") for line in ran.out.splitlines()]


@pytest.mark.usefixtures("run_ids")
def test_costs_are_split_by_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    header = ["runs", "input tokens", "cached", "output tokens", "cost"]
    one, two = (["1", "3000", "0.5", "300", str(RUN / 1e6)], ["2", "6000", "0.5", "600", str(2 * RUN / 1e6)])
    three = ["3", "9000", "0.5", "900", str(3 * RUN / 1e6)]
    assert rows(capsys, "--by", "user") == [["user", *header], ["ann", *two], ["bob", *one]]
    assert rows(capsys, "--by", "agent") == [["agent", *header], ["clerk", *two], ["other", *one]]
    assert rows(capsys, "--by", "model") == [["model", *header], ["scripted/scripted", *three]]
    assert [row[1:] for row in rows(capsys, "--by", "version")] == [header, two, one]
    assert rows(capsys, "--by", "day")[1][1:] == three
    assert rows(capsys, "--by", "user", "--agent", "other")[1:] == [["ann", *one]]
    assert rows(capsys, "--since", "1h")[1:] == [["clerk", *two], ["other", *one]]


def test_what_a_fallback_answered_is_a_cost_of_the_fallback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def story() -> None:
        away = ScriptedModel(refuse, model_id="away")
        other = ScriptedModel([say("Done.", usage=LLMUsage(1_000, 100))], model_id="other")
        agent = Agent("clerk", model=[away, other], prices={"*": ModelPrice(100, 1_000)})
        async with AgentRuntime.open("app.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "Look.", run_id="r1")
            assert (await handle.wait()).output == "Done."

    asyncio.run(story())
    assert rows(capsys, "--by", "model")[1:] == [["scripted/other", "1", "1000", "0.0", "100", "0.2"]]
    shown = run_here(capsys, "--store", "app.db", "runs", "show", "r1").out
    assert "model scripted/other: 1,000/100 tokens" in shown
    assert "model away" not in shown


@pytest.mark.usefixtures("run_ids")
def test_the_results_of_a_tool_cost_in_each_later_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    header, found = rows(capsys, "--by", "tool")
    assert header == ["tool", "calls", "tokens of results", "tokens in prompts", "cost in prompts"]
    # 400 bytes are 100 tokens; of two results, the first is in two prompts and the second in one.
    prompt = 500 * 100 + 500 * 10
    assert found == ["look", "6", "600", "900", str(9 * (prompt * 100 // 1_000) / 1e6)]


def test_a_result_costs_in_later_runs_of_its_session_and_in_sessions_of_subagents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def story() -> None:
        agent = clerk("clerk")
        ask = [call("clerk", {"message": "Look."}), say("Done.")]
        chief = Agent("chief", model=ScriptedModel(by_history(ask)), subagents=[agent])
        chat = Agent("chat", model=ScriptedModel([say("Yes.", usage=LLMUsage(1_000, 100))] * 2), tools=[look])
        first = clerk("chat")
        async with AgentRuntime.open("app.db", agents=[first]) as runtime:
            await (await runtime.start_run(first, "Look.", session_id="s")).wait()
        async with AgentRuntime.open("app.db", agents=[chat, chief, agent]) as runtime:
            for _ in range(2):
                await (await runtime.start_run(chat, "And?", session_id="s")).wait()
            await (await runtime.start_run(chief, "Go.")).wait()

    asyncio.run(story())
    # Each clerk has results of 100 tokens in two prompts and in one; the next two runs of the chat have both.
    of_clerks, of_chat = 2 * 300, 2 * 200
    found = {row[0]: row[1:4] for row in rows(capsys, "--by", "tool")}
    assert found["look"] == ["4", "400", str(of_clerks + of_chat)]


@pytest.mark.usefixtures("run_ids")
@pytest.mark.parametrize("since", ["2000-01-01", "9000d"])
def test_costs_of_a_long_time_are_shown(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row[:2] for row in rows(capsys, "--since", since)[1:]] == [["clerk", "2"], ["other", "1"]]


@pytest.mark.usefixtures("run_ids")
def test_a_time_before_all_times_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = run_here(capsys, "--store", "app.db", "costs", "--since", "0001-01-01T00:00+01:00", "--by", "day")
    assert wrong.code != 0
    assert "not a time: 0001-01-01T00:00+01:00" in wrong.err


def test_a_run_shows_where_its_money_went(run_ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "--store", "app.db", "runs", "show", run_ids[0])
    lines = ran.out.splitlines()
    assert (
        f"model scripted/scripted: 3,000/300 tokens, 50% of the input from the cache, ${RUN / 1e6:.4f}"
        in lines
    )
    assert "results of look: about 200 tokens, 300 in prompts, $0.0165" in lines


@pytest.mark.usefixtures("run_ids")
def test_costs_are_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = run_here(capsys, "--store", "app.db", "costs", "--by", "user").out.splitlines()
    assert table[1].split() == ["ann", "2", "6,000", "50%", "600", f"${2 * RUN / 1e6:,.4f}"]
    line = run_here(capsys, "--store", "app.db", "costs", "--by", "user", "--json").out.splitlines()[1]
    assert json.loads(line)["user"] == "bob"
    day = datetime.now(UTC).date().isoformat()
    none = run_here(capsys, "--store", "app.db", "costs", "--since", "2020-01-01", "--until", "2020-01-02")
    assert "No runs started in this time." in none.out + none.err
    none = run_here(
        capsys,
        "--store",
        "app.db",
        "costs",
        "--by",
        "tool",
        *("--since", "2020-01-01", "--until", "2020-01-02"),
    )
    assert "No tools were called by runs that started in this time." in none.err
    assert rows(capsys, "--since", day)[1:]
    wrong = run_here(capsys, "--store", "app.db", "costs", "--since", "yesterday")
    assert wrong.code != 0
    assert "not a time: yesterday" in wrong.err


@pytest.mark.usefixtures("run_ids")
def test_an_unknown_split_or_agent_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "--store", "app.db", "costs", "--by", "users")
    assert (ran.code, "'users' is not one of 'user', 'agent'" in ran.err) == (2, True)
    assert "Value error" not in ran.err
    for by in ("agent", "tool"):
        ran = run_here(capsys, "--store", "app.db", "costs", "--by", by, "--agent", "nobody")
        assert (ran.code, "no run of an agent nobody is in the store" in ran.err) == (2, True)
    ran = run_here(
        capsys,
        "--store",
        "app.db",
        "costs",
        "--agent",
        "clerk",
        *("--since", "2019-01-01"),
        *("--until", "2020-01-01"),
    )
    assert (ran.code, "No runs started in this time." in ran.err) == (0, True)
