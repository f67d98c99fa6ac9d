"""Data sets in a store: kept, filled from runs, changed, removed, and run by experiments."""

import asyncio
import builtins
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.postgres import Postgres
from windlass import Agent, AgentRuntime, Conflict, Rejected
from windlass.evals import Case, Check, Conversation, Dataset, Datasets, Exact, Experiment, datasets
from windlass.testing import ScriptedModel, say
from windlass_protocol import JsonObject

BROKEN = Agent("broken", model=ScriptedModel([]))
DESK = Agent("desk", model=ScriptedModel(lambda messages: say(f"Heard {messages[-1].content}")))
CASES = Dataset(
    "prices",
    [
        Case("oslo", "Price of Oslo", "90", tags=["smoke"], metadata={"level": 2}, run_id="run-1"),
        Case("data", {"city": "Rome"}, {"price": 60}, scorers=[Exact({"price": 60})]),
        Case("talk", Conversation(["Hello.", "Bye."])),
    ],
    scorers=[Exact()],
)
Story = Callable[[AgentRuntime], Awaitable[None]]


def play(story: Story, place: str | Path | None = None) -> None:
    async def main() -> None:
        agents = [DESK, BROKEN]
        opened = AgentRuntime.in_memory(agents) if place is None else AgentRuntime.open(place, agents=agents)
        async with opened as runtime:
            await story(runtime)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_data_set_is_kept_as_it_is_and_changed_case_by_case(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place: str | Path | None = tmp_path / "store.db"
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        place = server.new_database()

    async def story(runtime: AgentRuntime) -> None:
        kept = Datasets(runtime, owner="ann")
        saved = await kept.save(CASES)
        assert (saved.hash, saved.cases, saved.owner) == (CASES.hash, 3, "ann")
        assert await kept.load("prices") == CASES
        added = await kept.add("prices", Case("bergen", "Price of Bergen"))
        assert (await kept.get("prices")).hash == replace(
            CASES, cases=[*CASES.cases, Case("bergen", "Price of Bergen")]
        ).hash
        assert await kept.add("prices", Case("bergen", "Price of Bergen")) == added, "an equal case stays"
        with pytest.raises(Conflict, match="another case named bergen"):
            await kept.add("prices", Case("bergen", "Price of Turku"))
        changed = await kept.change("prices", "data", expected={"price": 65}, tags=["new"])
        assert (changed.expected, changed.tags, changed.inputs) == ({"price": 65}, ("new",), {"city": "Rome"})
        assert changed.scorers == ({"Equals": {"value": {"price": 60}}},), "what is not named stays"
        assert (await kept.change("prices", "oslo", expected=None)).expected is None
        await kept.remove("prices", "talk")
        assert [one.name for one in (await kept.load("prices")).cases] == ["oslo", "data", "bergen"]
        assert (await kept.get("prices")).cases == 3
        await kept.save(CASES)
        assert (await kept.get("prices")).hash == CASES.hash, "a data set is replaced as a whole"
        await kept.delete("prices")
        with pytest.raises(Conflict, match="unknown data set: prices"):
            await kept.load("prices")
        assert (await kept.list()).items == ()

    play(story, None if kind == "memory" else place)


def test_lists_have_pages_and_each_owner_has_names_of_their_own() -> None:
    async def story(runtime: AgentRuntime) -> None:
        ann, bob = Datasets(runtime, owner="ann"), Datasets(runtime, owner="bob")
        for name in ("c", "a", "b/x"):
            await ann.make(name)
        await bob.add("a", Case("one", "1"))
        await ann.save(Dataset("a", [Case(f"n{n}", str(n)) for n in range(5)]))
        first = await ann.list(limit=2)
        assert [(one.name, one.cases) for one in first.items] == [("a", 5), ("b/x", 0)]
        rest = await ann.list(limit=2, after=first.next)
        assert ([one.name for one in rest.items], rest.next) == (["c"], None)
        assert [(one.name, one.cases) for one in (await bob.list()).items] == [("a", 1)]
        assert (await Datasets(runtime).list()).items == ()
        seen: list[str] = []
        after = None
        while True:
            page = await ann.cases("a", after=after, limit=2)
            seen += [one.name for one in page.items]
            after = page.next
            if after is None:
                break
        assert seen == ["n0", "n1", "n2", "n3", "n4"]
        with pytest.raises(Rejected, match="after must be the `next`"):
            await ann.cases("a", after="session.1")

    play(story)


def test_a_run_is_added_with_its_answer_and_a_failed_one_without() -> None:
    async def story(runtime: AgentRuntime) -> None:
        for run_id, session_id in (("r1", "s1"), ("r2", "s1"), ("r3", "s2")):
            await (await runtime.start_run(DESK, run_id, run_id=run_id, session_id=session_id)).wait()
        kept = Datasets(runtime)
        assert (await kept.add_run("taken", "r3")).expected == "Heard r3"
        talk = await kept.add_run("taken", "r2", case="second", expected="Heard both.", tags=["talk"])
        assert (talk.name, talk.inputs, talk.expected) == (
            "second",
            {"conversation": ["r1", "r2"]},
            "Heard both.",
        )
        assert await kept.load("taken") == Dataset(
            "taken",
            [
                Case("r3", "r3", "Heard r3", run_id="r3"),
                Case("second", Conversation(["r1", "r2"]), "Heard both.", tags=["talk"], run_id="r2"),
            ],
        )
        await (await runtime.start_run(BROKEN, "Hi.", run_id="r4")).wait()
        assert (await kept.add_run("taken", "r4")).expected is None
        with pytest.raises(Conflict, match="unknown run"):
            await kept.add_run("taken", "ghost")

    play(story)


def test_an_experiment_on_a_kept_data_set_is_the_one_on_its_file(tmp_path: Path) -> None:
    async def story(runtime: AgentRuntime) -> None:
        data = Dataset("words", [Case("z", "zoo", "Heard zoo"), Case("a", "ant", "?")], scorers=[Exact()])
        kept = Datasets(runtime)
        await kept.save(data)
        (tmp_path / "words.yaml").write_text(await kept.text("words"), encoding="utf-8")
        assert Dataset.load(tmp_path / "words.yaml") == data
        first = await Experiment(await kept.load("words"), DESK).run(runtime)
        again = await Experiment(data, DESK).run(runtime)
        assert first.experiment.id == again.experiment.id, "nothing is paid for twice"
        assert [(one.name, one.expected) for one in first.cases] == [("z", "Heard zoo"), ("a", "?")]

    play(story)


def test_cases_that_are_added_at_the_same_time_are_all_kept() -> None:
    async def story(runtime: AgentRuntime) -> None:
        kept = Datasets(runtime)
        cases = [Case(f"n{n}", str(n)) for n in range(20)]
        await asyncio.gather(*(kept.add("many", one) for one in [*cases, *cases]))
        info = await kept.get("many")
        assert info.cases == 20
        assert info.hash == (await kept.load("many")).hash

    play(story)


def test_a_version_that_a_kill_left_behind_is_mended() -> None:
    async def story(runtime: AgentRuntime) -> None:
        kept, store = Datasets(runtime), runtime.core.ports.store
        assert store is not None
        await kept.save(CASES)
        [head] = await store.documents(datasets.DATASET)
        await kept.remove("prices", "talk")
        [now] = await store.documents(datasets.DATASET)
        # As if the process had ended after the case was removed, and before the data set was written.
        await store.put_document(replace(head, revision=now.revision + 1))
        info = await kept.get("prices")
        assert (info.cases, info.hash) == (2, replace(CASES, cases=CASES.cases[:2]).hash)

    play(story)


def test_a_function_is_imported_only_when_a_data_set_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judging.py").write_text(
        "import builtins\nbuiltins.windlass_ran = True\ndef fine(attempt): return True\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "windlass_ran", False, raising=False)

    async def story(runtime: AgentRuntime) -> None:
        kept = Datasets(runtime)
        await kept.save(Dataset("checked", [Case("a", "b", scorers=[Exact()])]))
        store = runtime.core.ports.store
        assert store is not None
        [case] = await store.documents(datasets.CASE)
        data: JsonObject = {"name": "a", "inputs": "b", "evaluators": [{"Check": "judging.py:fine"}]}
        await store.put_document(replace(case, revision=2, body={**case.body, "case": data}))
        await kept.change("checked", "a", tags=["x"])
        await kept.add("checked", Case("c", "d"))
        assert "judging.py:fine" in await kept.text("checked")
        assert not vars(builtins)["windlass_ran"]
        loaded = await kept.load("checked")
        assert isinstance(loaded.cases[0].scorers[0], Check)
        assert vars(builtins)["windlass_ran"]

    play(story)


def test_values_that_cannot_be_kept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(runtime: AgentRuntime) -> None:
        kept = Datasets(runtime)
        for name in ("", "a\nb", "x" * 201):
            with pytest.raises(Rejected, match="the name of a data set"):
                await kept.make(name)
        with pytest.raises(Conflict, match="unknown data set: ghost"):
            await kept.change("ghost", "a", tags=[])
        await kept.make("few")
        with pytest.raises(Conflict, match="data set few has no case ghost"):
            await kept.remove("few", "ghost")
        monkeypatch.setattr(datasets, "KEPT_CASES_MAX", 1)
        await kept.add("few", Case("a", "1"))
        with pytest.raises(Rejected, match="would have 2 cases, limit 1"):
            await kept.add("few", Case("b", "2"))
        with pytest.raises(Rejected, match="would have 3 cases, limit 1"):
            await kept.save(CASES)
        secret = "sk-ant-api03-0123456789abcdef0123456789abcdef"
        await kept.change("few", "a", expected=secret)
        assert "0123456789abcdef" not in await kept.text("few")

    play(story)


def test_a_data_set_is_larger_than_one_value_may_be() -> None:
    async def story(runtime: AgentRuntime) -> None:
        kept = Datasets(runtime)
        for at in range(6):
            await kept.add("large", Case(f"c{at}", f"{at}" * 230_000))
        assert (await kept.get("large")).cases == 6
        with pytest.raises(Rejected):
            await kept.add("large", Case("huge", "x" * 1_100_000))
        assert (await kept.get("large")).cases == 6
        await kept.remove("large", "c1")
        await kept.delete("large")

    play(story)
