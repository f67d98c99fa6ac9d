"""Experiments: attempts are runs, scores are kept, and nothing is paid for twice."""

import asyncio
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import JsonValue
from pydantic_evals import evaluators as theirs
from tests.ledger import rig as improved

from windlass import Agent, AgentRuntime, Conflict, LLMMessage, LLMUsage, Rejected, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.evals import (
    Attempt,
    Calls,
    Case,
    Check,
    Contains,
    Conversation,
    Dataset,
    Exact,
    Experiment,
    ExperimentResult,
    Gate,
    Judge,
    Limit,
    PolicyOutcome,
    Results,
    check_proposal,
)
from windlass.evals.results import LISTED
from windlass.ledger.changes import version_of
from windlass.ports.documents import Document
from windlass.ports.machine import Machine
from windlass.runtime.compose import Opening
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.tools.question import ask_question
from windlass_protocol import EvalChange, JsonObject, RunStatus, VersionVerdict

T = TypeVar("T")
USAGE = LLMUsage(input_tokens=8, output_tokens=2, cost_micros=1_000)
prices = {"Oslo": 90, "Rome": 60}
asked: list[str] = []


@tool(mode="read")
async def price(city: str) -> int:
    """Tell the price of a room."""
    asked.append(city)
    return prices[city]


@tool(mode="external", effect="idempotent")
async def book(city: str) -> str:
    """Book a room."""
    asked.append(f"book {city}")
    return "booked"


def clerk_script(messages: Sequence[LLMMessage]) -> Answer:
    """Look the price up; book if asked to."""
    last = messages[-1]
    if last.role == "tool":
        return say(f"It costs {last.content}." if not last.is_error else "I may not.", usage=USAGE)
    word, city = last.content.split()[0], last.content.split()[-1]
    return say("", usage=USAGE) + call("book" if word == "Book" else "price", {"city": city})


def clerk(script: Any = clerk_script, **more: Any) -> Agent:
    return Agent("clerk", model=ScriptedModel(script), tools=[price, book], **more)


CITIES = Dataset(
    "cities",
    [
        Case("oslo", "Price of Oslo", "It costs 90."),
        Case("rome", "Price of Rome", "It costs 61.", tags=["x"]),
    ],
    scorers=[Exact()],
)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    asked.clear()


def on(agent: Agent, story: Callable[[AgentRuntime], Awaitable[T]]) -> T:
    async def main() -> T:
        async with AgentRuntime.in_memory([agent]) as runtime:
            return await story(runtime)

    return asyncio.run(main())


def model_of(agent: Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def test_each_attempt_is_a_run_and_is_scored() -> None:
    agent, seen = clerk(), list[tuple[int, int]]()

    async def story(runtime: AgentRuntime) -> ExperimentResult:
        plan = Experiment(CITIES, agent, repeats=2, scorers=[Limit("steps", 2), Calls(["price"])])
        found = await plan.run(runtime, progress=lambda done, total: seen.append((done, total)))
        for one in found.cases:
            assert (await runtime.handle(one.run_id).status()) is RunStatus.COMPLETED
        return found

    found = on(agent, story)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    info = found.experiment
    assert (info.agent_id, info.dataset, info.dataset_hash) == ("clerk", "cities", CITIES.hash)
    assert (info.cases, info.attempts, info.passed, info.repeats) == (2, 4, 2, 2)
    assert info.fingerprint.startswith("sha256:")
    assert info.scorers == (
        {"EqualsExpected": {}},
        {"Limit": {"measure": "steps", "most": 2}},
        {"Calls": {"expected": ["price"]}},
    )
    assert [(one.name, one.repeat, one.is_passed, one.why) for one in found.cases] == [
        ("oslo", 1, True, None),
        ("oslo", 2, True, None),
        ("rome", 1, False, "exact: expected 'It costs 61.', found 'It costs 60.'"),
        ("rome", 2, False, "exact: expected 'It costs 61.', found 'It costs 60.'"),
    ]
    first = found.cases[0]
    assert first.run_id == f"{info.id}/oslo/1"
    assert (first.steps, first.cost_micros, first.tokens, first.output) == (2, 2_000, 20, "It costs 90.")
    assert found.cases[2].tags == ("x",)
    assert info.pass_rate is not None
    assert (info.pass_rate.value, round(info.pass_rate.low or 0, 3)) == (0.5, 0.095)
    assert {name: one.value for name, one in (info.scores or {}).items()} == {
        "exact": 0.5,
        "limit": 1,
        "calls": 1,
    }


def test_the_same_experiment_again_pays_for_nothing_and_other_scorers_score_the_same_answers() -> None:
    agent = clerk()

    async def story(runtime: AgentRuntime) -> None:
        first = await Experiment(CITIES, agent).run(runtime)
        paid = len(model_of(agent).requests)
        again = await Experiment(CITIES, agent).run(runtime)
        assert again.cases == first.cases
        rescored = Dataset("cities", CITIES.cases, scorers=[Contains("costs")])
        other = await Experiment(rescored, agent).run(runtime)
        assert other.experiment.id == first.experiment.id
        assert [one.is_passed for one in other.cases] == [True, True]
        assert len(model_of(agent).requests) == paid
        kept = await Results(runtime).read(first.experiment.id)
        assert kept == other, "the store keeps the newest scores"
        [listed] = (await Results(runtime).list()).items
        assert listed == other.experiment
        await Experiment(CITIES, agent, experiment_id="again").run(runtime)
        assert len(model_of(agent).requests) == 2 * paid
        assert [one.id for one in (await Results(runtime).list()).items] == ["again", first.experiment.id]

    on(agent, story)


def test_an_experiment_is_pinned_to_its_agent_and_inputs() -> None:
    agent, other = clerk(), clerk(instructions="Be brief.")

    async def story(runtime: AgentRuntime) -> None:
        await Experiment(CITIES, agent, experiment_id="e1").run(runtime)
        inputs = Dataset("cities", [Case("oslo", "Price of Rome")])
        with pytest.raises(Conflict, match="experiment e1 was begun with another inputs: give this one"):
            await Experiment(inputs, agent, experiment_id="e1").run(runtime)
        with pytest.raises(Rejected, match="the runtime has no agent ghost: open it with this agent"):
            await Experiment(CITIES, "ghost").run(runtime)
        newer = await Experiment(CITIES, other).run(runtime)
        assert newer.experiment.agent_id == "clerk"
        assert newer.experiment.fingerprint == version_of(other), "another version runs beside the first"
        with pytest.raises(Conflict, match="unknown experiment: ghost"):
            await Results(runtime).read("ghost")

    on(agent, story)
    ids = {
        on(one, lambda runtime: Experiment(CITIES, "clerk").run(runtime)).experiment.id
        for one in (agent, other)
    }
    assert len(ids) == 2, "the id follows from the version of the agent"


def test_a_failed_run_is_a_failed_case() -> None:
    broken = Agent("clerk", model=ScriptedModel([]))
    found = on(broken, lambda runtime: Experiment(CITIES, broken).run(runtime))
    assert [(one.status.value, one.is_passed) for one in found.cases] == [("failed", False)] * 2
    assert "completed: the run is failed: the script has 0 answers" in (found.cases[0].why or "")


# judges


def judge_script(messages: Sequence[LLMMessage]) -> Answer:
    good = "It costs 90." in messages[-1].content.split('"answer"')[1].split('"expected"')[0]
    return say('{"score": 0.9, "why": "Right."}' if good else '{"score": 0.2, "why": "Wrong price."}')


def test_a_judgement_is_a_run_of_its_own_and_paid_for_once() -> None:
    agent, model = clerk(), ScriptedModel(judge_script)
    judge = Judge("Is the price right?", model, name="right")

    async def story(runtime: AgentRuntime) -> ExperimentResult:
        plan = Experiment(Dataset("cities", CITIES.cases), agent, scorers=[judge])
        found = await plan.run(runtime)
        assert (await plan.run(runtime)).cases == found.cases
        assert len(model.requests) == 2
        [verdict] = found.cases[1].verdicts
        assert verdict.run_id is not None
        said = await runtime.handle(verdict.run_id).wait()
        assert said.structured_output == {"score": 0.2, "why": "Wrong price."}, (
            "its reasoning is in the journal"
        )
        kinder = Judge("Is it kind?", model)
        await Experiment(Dataset("cities", CITIES.cases), agent, scorers=[judge, kinder]).run(runtime)
        assert len(model.requests) == 4, "only the new question is asked"
        return found

    found = on(agent, story)
    assert [(one.is_passed, one.verdicts[0].why) for one in found.cases] == [
        (True, None),
        (False, "Wrong price."),
    ]
    assert '"expected":"It costs 61."' in model.requests[1].messages[-1].content


def test_a_judge_without_a_verdict_fails_its_case_and_no_other() -> None:
    agent, model = clerk(), ScriptedModel(lambda messages: say("I would rather not."))
    data = Dataset("cities", CITIES.cases[:1])
    found = on(agent, lambda runtime: Experiment(data, agent, scorers=[Judge("Fine?", model)]).run(runtime))
    [verdict] = found.cases[0].verdicts
    assert not verdict.is_met
    assert (verdict.why or "").startswith("no verdict: ")


def test_the_agreement_of_a_judge_with_people_is_reported() -> None:
    agent, judge = clerk(), Judge("Is the price right?", ScriptedModel(judge_script), name="right")
    cases = [Case(f"{city}-{at}", f"Price of {city}") for at in range(4) for city in ("Oslo", "Rome")]
    data = Dataset("many", cases, scorers=[judge])
    found = on(agent, lambda runtime: Experiment(data, agent).run(runtime))
    human = {one.name: one.name.startswith("Oslo") for one in cases} | {"Rome-3": 0.8}
    agreement = found.agreement("right", human)
    assert (agreement.share.value, agreement.answers) == (7 / 8, 8)
    assert agreement.kappa == 0.75
    assert agreement.differing == (f"{found.experiment.id}/Rome-3/1",)
    assert found.agreement("right", {"Oslo-1": 1.0}).kappa is None
    with pytest.raises(Rejected, match="no answer has a score of right and one of a person"):
        found.agreement("right", {})


# tools and people


def test_requests_are_denied_unless_the_experiment_approves() -> None:
    data = Dataset("bookings", [Case("book", "Book Oslo")], scorers=[PolicyOutcome({"book": "ask"})])
    agent = clerk()

    async def story(runtime: AgentRuntime) -> list[str]:
        denied = await Experiment(data, agent).run(runtime)
        assert asked == []
        approved = await Experiment(data, agent, approvals="approve").run(runtime)
        assert asked == ["book Oslo"]
        assert all(one.is_passed for one in (*denied.cases, *approved.cases))
        return [one.output for one in (*denied.cases, *approved.cases)]

    assert on(agent, story) == ["I may not.", "It costs booked."]


def test_tools_answer_from_the_recorded_run_of_a_case() -> None:
    agent = clerk()

    async def story(runtime: AgentRuntime) -> None:
        for run_id, words in (("r1", "Price of Oslo"), ("r2", "Book Rome")):
            handle = await runtime.start_run(agent, words, run_id=run_id)
            async for request in handle.requests():
                await handle.answer(request.request_id, "approve")
            await handle.wait()
        data = await Dataset.from_runs("taken", ["r1", "r2"], runtime=runtime)
        asked.clear()
        found = await Experiment(data, agent, scorers=[Exact()], tools="recorded", repeats=2).run(runtime)
        assert asked == [], "no tool was called"
        assert [one.output for one in found.cases] == ["It costs 90."] * 2 + ["It costs booked."] * 2
        assert found.experiment.pass_rate is not None
        assert found.experiment.pass_rate.value == 1
        assert found.experiment.agent_id == "clerk"
        assert found.experiment.tools == "recorded"

    on(agent, story)


def test_experiments_with_recorded_tools_run_side_by_side() -> None:
    agent = clerk()

    async def story(runtime: AgentRuntime) -> list[str]:
        plans: list[Experiment] = []
        for run_id, words in (("r1", "Price of Oslo"), ("r2", "Price of Rome")):
            await (await runtime.start_run(agent, words, run_id=run_id)).wait()
            data = await Dataset.from_runs(run_id, [run_id], runtime=runtime)
            plans.append(Experiment(data, agent, tools="recorded"))
        return [one.cases[0].output for one in await asyncio.gather(*(plan.run(runtime) for plan in plans))]

    assert on(agent, story) == ["It costs 90.", "It costs 60."]


def test_recorded_answers_are_scored_without_running_an_agent() -> None:
    agent = clerk()

    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run(agent, "Price of Oslo", run_id="r1")).wait()
        data = await Dataset.from_runs("taken", ["r1"], runtime=runtime)
        paid = len(model_of(agent).requests)
        found = await Experiment(data, None, scorers=[Exact(), Calls(["price"])]).run(runtime)
        assert len(model_of(agent).requests) == paid
        assert (found.cases[0].run_id, found.cases[0].is_passed) == ("r1", True)
        assert (found.experiment.agent_id, found.experiment.fingerprint) == ("clerk", "recorded")

    on(agent, story)


def test_a_conversation_is_one_session_and_a_simulated_user_goes_on() -> None:
    def user_script(messages: Sequence[LLMMessage]) -> Answer:
        return say(json.dumps({"message": "Price of Rome", "isDone": "60" in messages[-1].content}))

    agent, user = clerk(), ScriptedModel(user_script)
    talk = Conversation(["Price of Oslo"], persona="You want the cheapest room.", turns_max=5)
    data = Dataset(
        "talks", [Case("cheap", talk), Case("two", Conversation(["Price of Oslo", "Price of Rome"]))]
    )

    async def story(runtime: AgentRuntime) -> ExperimentResult:
        plan = Experiment(data, agent, user_model=user, scorers=[Contains("60"), Limit("steps", 4)])
        found = await plan.run(runtime)
        assert (await plan.run(runtime)).cases == found.cases
        assert len(user.requests) == 2, "one more message, and then the user is done"
        return found

    found = on(agent, story)
    assert [(one.is_passed, one.steps, one.cost_micros) for one in found.cases] == [(True, 4, 4_000)] * 2
    assert found.cases[0].input.splitlines()[0] == "User: Price of Oslo"
    assert found.cases[0].session_id == f"{found.experiment.id}/cheap/1"
    assert found.cases[0].run_id == f"{found.experiment.id}/cheap/1/2"


def test_questions_are_answered_by_the_simulated_user_or_declined() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        if messages[-1].role == "tool":
            return say(f"Heard {messages[-1].content}")
        options: list[JsonValue] = [{"id": "a", "label": "Oslo"}, {"id": "b", "label": "Rome"}]
        more: JsonObject = {"options": options} if messages[-1].content == "choose" else {}
        return call("ask_question", {"prompt": "Which city?", **more})

    agent = Agent("clerk", model=ScriptedModel(script), tools=[ask_question])
    user = ScriptedModel(lambda messages: say('{"message": "Rome", "isDone": false}'))
    cases = [Case("plain", "ask")]
    for word in ("ask", "choose"):
        cases.append(Case(f"persona {word}", Conversation([word], persona="You like Rome.", turns_max=1)))
    data = Dataset("questions", cases)
    found = on(agent, lambda runtime: Experiment(data, agent, user_model=user).run(runtime))
    assert "I cannot answer that" in found.cases[0].output
    assert ["Rome" in one.output or '"b"' in one.output for one in found.cases[1:]] == [True, True]


def test_an_interrupted_experiment_with_recorded_tools_goes_on_where_it_was(tmp_path: Path) -> None:
    """Equal calls get their recorded results in order, also if the first was made in another process."""
    prices_now = iter([90, 95, 99])

    @tool(mode="read")
    async def quote() -> int:
        """Tell the price now."""
        return next(prices_now)

    def script(messages: Sequence[LLMMessage]) -> Answer:
        heard = [one.content for one in messages if one.role == "tool"]
        return call("quote", {}) if len(heard) < 3 else say(" ".join(heard))

    agent = Agent("broker", model=ScriptedModel(script), tools=[quote])

    async def story() -> str:
        def runtime_with(one: Agent) -> Opening[AgentRuntime]:
            return AgentRuntime.open(tmp_path / "s.db", agents=[one], durability="process")

        async with runtime_with(agent) as runtime:
            assert (
                await (await runtime.start_run(agent, "Quotes?", run_id="r1")).wait()
            ).output == "90 95 99"
            data = await Dataset.from_runs("taken", ["r1"], runtime=runtime)
        plan = Experiment(data, agent, scorers=[Exact()], tools="recorded")
        stops = asyncio.Event()

        def stopping(messages: Sequence[LLMMessage]) -> Answer:
            if sum(one.role == "tool" for one in messages) == 2:
                stops.set()
                return Answer(gate=asyncio.Event())
            return script(messages)

        stopped = Agent("broker", model=ScriptedModel(stopping), tools=[quote])
        async with runtime_with(stopped) as runtime:
            work = asyncio.ensure_future(replace(plan, agent=stopped).run(runtime))
            await stops.wait()
            work.cancel()
            await asyncio.wait([work])
        async with runtime_with(agent) as runtime:
            [case] = (await plan.run(runtime)).cases
        return case.output

    assert asyncio.run(story()) == "90 95 99"


def test_a_real_call_that_may_have_taken_effect_is_not_made_again(tmp_path: Path) -> None:
    paid: list[int] = []
    stops = asyncio.Event()

    @tool(mode="external")
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        stops.set()
        await asyncio.Event().wait()
        return "paid"

    def script(messages: Sequence[LLMMessage]) -> Answer:
        return say(messages[-1].content) if messages[-1].role == "tool" else call("pay", {"cents": 5})

    agent = Agent("payer", model=ScriptedModel(script), tools=[pay])
    plan = Experiment(Dataset("bills", [Case("one", "Pay.")]), agent, approvals="approve")

    async def story() -> str:
        async with AgentRuntime.open(tmp_path / "s.db", agents=[agent], durability="process") as runtime:
            work = asyncio.ensure_future(plan.run(runtime))
            await stops.wait()
            work.cancel()
            await asyncio.wait([work])
        async with AgentRuntime.open(tmp_path / "s.db", agents=[agent], durability="process") as runtime:
            [case] = (await plan.run(runtime)).cases
        return case.output

    assert "may or may not have taken effect" in asyncio.run(story())
    assert paid == [5]


# pydantic-evals


@dataclass
class Several(theirs.Evaluator[object, object, object]):
    def evaluate(self, ctx: theirs.EvaluatorContext[object, object, object]) -> dict[str, Any]:
        return {
            "short": len(str(ctx.output)) < 20,
            "length": len(str(ctx.output)),
            "kind": theirs.EvaluationReason("price", "It names one."),
            "steps": ctx.metrics["steps"],
        }


@dataclass
class Breaks(theirs.Evaluator[object, object, object]):
    async def evaluate(self, ctx: theirs.EvaluatorContext[object, object, object]) -> bool:
        raise ValueError("hunter2")


@dataclass
class Unsound(theirs.Evaluator[object, object, object]):
    def evaluate(self, ctx: theirs.EvaluatorContext[object, object, object]) -> Any:
        return {"a": 10**400, "b": 1.7e308, "c": "\ud800"}


def test_results_that_cannot_be_summed_or_stored_do_not_end_an_experiment() -> None:
    agent = clerk()
    huge = [Check(lambda attempt: 10**400, name="check"), Unsound()]
    found = on(agent, lambda runtime: Experiment(CITIES, agent, scorers=huge).run(runtime))
    assert [found.measure(name) is not None for name in ("check", "a", "b", "c")] == [True] * 4
    why = found.cases[0].why or ""
    assert "check: the check gave int" in why
    assert "a: the evaluator gave int" in why
    assert "b: the evaluator gave float" in why


@dataclass
class Waits(theirs.Evaluator[object, object, object]):
    async def evaluate(self, ctx: theirs.EvaluatorContext[object, object, object]) -> bool:
        await asyncio.Event().wait()
        return True


def test_a_scorer_that_gives_no_verdict_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(attempt: Attempt) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr("windlass.evals.scorers.SCORER_S", 0.0)
    agent, scorers = clerk(), [Check(waits, name="check"), Waits()]
    found = on(agent, lambda runtime: Experiment(CITIES, agent, scorers=scorers).run(runtime))
    late = "no verdict within 600 seconds"
    assert [one.why for one in found.cases[0].verdicts[1:]] == [late, late]


def test_scorers_of_one_name_are_told_apart() -> None:
    agent = clerk()
    model = ScriptedModel(lambda messages: say('{"score": 0, "why": "No."}'))
    scorers = [Contains("It"), Contains("crowns"), Judge("One?", model), Judge("Two?", model)]
    found = on(agent, lambda runtime: Experiment(CITIES, agent, scorers=scorers).run(runtime))
    scores = {name: one.value for name, one in (found.experiment.scores or {}).items() if name != "exact"}
    assert scores == {"contains": 1.0, "contains-2": 0.0, "judge": 0.0, "judge-2": 0.0}
    runs = {one.name: one.run_id for one in found.cases[0].verdicts if one.name.startswith("judge")}
    assert (len({*runs.values()}), None in runs.values()) == (2, False)


def test_the_cost_of_some_attempts_is_not_the_cost_of_all() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        is_priced = "Oslo" in messages[-1].content
        return say("x", usage=USAGE if is_priced else LLMUsage(input_tokens=8, output_tokens=2))

    agent = clerk(script)
    found = on(agent, lambda runtime: Experiment(CITIES, agent).run(runtime))
    assert [one.cost_micros for one in found.cases] == [1_000, None]
    assert not any(found.check(gate).is_met for gate in ("cost<=1", "cost_total<=1"))


@pytest.mark.parametrize("judged", ["gate", "scorer"])
def test_a_judgement_by_cost_refuses_a_model_without_a_price_before_the_first_call(judged: str) -> None:
    agent = clerk()
    scorers = [Limit("cost_micros", 5_000)] if judged == "scorer" else []
    gates = [Gate.read("cost<=1")] if judged == "gate" else []
    plan = Experiment(CITIES, agent, scorers=scorers)
    with pytest.raises(
        Rejected, match="judged by its cost, and model scripted/scripted of agent clerk has no"
    ):
        on(agent, lambda runtime: plan.run(runtime, gates=gates))
    assert not model_of(agent).requests
    priced = replace(agent, prices={"*": {"input": 100, "output": 100}})
    plan = replace(plan, agent=priced)
    assert on(priced, lambda runtime: plan.run(runtime, gates=gates)).experiment.cost_micros is not None


def test_evaluators_of_pydantic_evals_score_too() -> None:
    agent = clerk()
    scorers = [
        theirs.EqualsExpected(),
        theirs.Contains(value="costs"),
        Several(),
        theirs.MaxDuration(seconds=900),
    ]
    data = Dataset("cities", CITIES.cases)
    found = on(agent, lambda runtime: Experiment(data, agent, scorers=scorers).run(runtime))
    assert [one.is_passed for one in found.cases] == [True, False]
    assert [(one.name, one.score, one.is_counted, one.why) for one in found.cases[0].verdicts] == [
        ("EqualsExpected", 1, True, None),
        ("Contains", 1, True, None),
        ("short", 1, True, None),
        ("length", 12, False, None),
        ("kind", 1, False, "price: It names one."),
        ("steps", 2, False, None),
        ("MaxDuration", 1, True, None),
    ]
    broken = on(agent, lambda runtime: Experiment(data, agent, scorers=[Breaks()]).run(runtime))
    assert broken.cases[0].verdicts[0].why == "the evaluator failed with ValueError"


# proposals


def test_a_proposal_is_checked_on_a_data_set() -> None:
    agent = improved.clerk()

    async def story() -> None:
        async with improved.opened(agent) as runtime, improved.builder(runtime) as builder:
            data = await Dataset.from_runs("taken", ["run-1", "run-2", "run-3"], runtime=runtime)
            proposal = await builder.propose("parcels", proposal_id="p1")
            scorers = [Contains("parcel-")]
            found = await check_proposal(builder, proposal, data, runtime=runtime, scorers=scorers)
            assert improved.looked_up == [], "tools answer from the record"
            assert (found.fixed, found.broken, found.comparison.verdict) == (3, 0, VersionVerdict.UNCLEAR)
            assert found.new.fingerprint == proposal.fingerprint
            check = (await builder.proposal("p1")).check
            assert check is not None
            assert (check.fixed, [one.run_id for one in check.replays]) == (
                3,
                ["run-1", "run-2", "run-3"] * 2,
            )
            paid = len(model_of(agent).requests)
            await check_proposal(builder, "p1", data, runtime=runtime, scorers=scorers)
            assert len(model_of(agent).requests) == paid

    asyncio.run(story())


# gates, comparisons, reports


def finished(pattern: str, experiment_id: str) -> ExperimentResult:
    """The result of an experiment; a letter for each case: o passes, x does not."""
    agent = clerk()
    cases = [
        Case(f"case-{at}", "Price of Oslo", "It costs 90." if one == "o" else "no")
        for at, one in enumerate(pattern)
    ]
    data = Dataset("cities", cases, scorers=[Exact()])
    return on(agent, lambda runtime: Experiment(data, agent, experiment_id=experiment_id).run(runtime))


def test_two_experiments_are_compared_in_pairs() -> None:
    old, new = finished("xxxxxxxoo", "old"), finished("ooooooooxo", "new")
    found = new.compare(old)
    assert (found.fixed, found.broken, found.comparison.verdict) == (7, 1, VersionVerdict.UNCLEAR)
    assert [one.change for one in found.pairs][:2] == [EvalChange.BROKEN, EvalChange.FIXED]
    assert (found.only_new, found.only_old) == (("case-9",), None)
    better = finished("oooooooooo", "best").compare(old)
    assert better.comparison.verdict is VersionVerdict.BETTER
    few = finished("ooo", "few").compare(finished("xxx", "none"))
    assert (few.fixed, few.comparison.verdict) == (3, VersionVerdict.UNCLEAR), "too few cases to tell"


@pytest.mark.parametrize(
    ("gate", "is_met", "value"),
    [
        ("pass_rate>=0.5", True, 0.5),
        ("pass_rate > 0.5", False, 0.5),
        ("pass_rate.low>=0.5", False, 0.0945),
        ("cost<=0.002", True, 0.002),
        ("cost_total<0.004", False, 0.004),
        ("tokens==20", True, 20),
        ("steps<2", False, 2),
        ("exact>=0.4", True, 0.5),
        ("duration<600", True, None),
    ],
)
def test_a_gate_compares_a_measure_with_a_number(gate: str, is_met: bool, value: float | None) -> None:
    found = finished("ox", "gated").check(gate)
    assert (found.gate, found.is_met) == (gate, is_met)
    assert value is None or found.found == pytest.approx(value, abs=1e-4)


def test_a_gate_on_a_measure_that_is_not_known_is_not_met() -> None:
    model = ScriptedModel(lambda messages: say("Hi.", usage=LLMUsage()))
    agent = Agent("clerk", model=model)
    found = on(agent, lambda runtime: Experiment(CITIES, agent).run(runtime))
    assert [found.check(one).found for one in ("cost<=1", "cost_total<=1", "tokens.low>=0")] == [None] * 3
    with pytest.raises(Rejected, match=r"unknown measure 'odd'; there are pass_rate, cost, .*, exact"):
        found.check("odd>1")


@pytest.mark.parametrize("text", ["", "pass_rate", "pass_rate=0.5", "pass_rate>=high", ">=1", "a>=1.2.3"])
def test_a_text_that_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="a gate is a measure, a comparison and a number"):
        Gate.read(text)


def test_junit_has_a_test_for_each_attempt_and_gate() -> None:
    found = finished("ox", "written")
    gates = [found.check("pass_rate>=0.5"), found.check("pass_rate>=0.9")]
    suite = ElementTree.fromstring(found.junit(gates))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("4", "2")
    assert [(one.attrib["name"], one.find("failure") is not None) for one in suite] == [
        ("case-0", False),
        ("case-1", True),
        ("pass_rate>=0.5", False),
        ("pass_rate>=0.9", True),
    ]
    failure = suite[1].find("failure")
    assert failure is not None
    assert "run written/case-1/1: exact: expected 'no'" in (failure.text or "")
    data = found.data(gates)
    assert data["gates"] == [
        {"gate": "pass_rate>=0.5", "isMet": True, "found": 0.5},
        {"gate": "pass_rate>=0.9", "isMet": False, "found": 0.5},
    ]


def loose(value: object) -> Any:
    """A value that passes no type checker."""
    return value


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no data set": (lambda: Experiment(loose([]), "clerk"), "dataset"),
    "no repeats": (lambda: Experiment(CITIES, "clerk", repeats=0), "repeats must be 1 to 1,000, found 0"),
    "odd tools": (lambda: Experiment(CITIES, "clerk", tools=loose("fake")), "tools is one of real, recorded"),
    "odd approvals": (lambda: Experiment(CITIES, "clerk", approvals=loose("")), "approvals is one of deny"),
    "nothing recorded": (lambda: Experiment(CITIES, None), "case oslo has no recorded run"),
    "a script that is no scorer": (lambda: Experiment(CITIES, "clerk", scorers=loose([5])), "found int"),
    "nobody to play": (
        lambda: Experiment(Dataset("a", [Case("b", Conversation(persona="c"))]), "clerk"),
        "case b has a persona: give the experiment a user_model",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_experiment_that_cannot_be_run_is_refused(name: str) -> None:
    make, words = WRONG[name]
    with pytest.raises(Rejected, match=words):
        make()


def test_a_secret_in_a_data_set_does_not_reach_the_store() -> None:
    secret = "sk-ant-api03-0123456789abcdef0123456789abcdef"
    agent = clerk()
    data = Dataset(
        "s", [Case("a", "Price of Oslo", secret)], scorers=[Exact(), Check(lambda one: (0.0, secret))]
    )

    async def story(runtime: AgentRuntime) -> str:
        info = (await Experiment(data, agent).run(runtime)).experiment
        return str(await Results(runtime).read(info.id))

    assert "0123456789abcdef" not in on(agent, story)


def test_experiments_have_pages_and_one_that_goes_on_tells_its_progress() -> None:
    agent, calls = clerk(), 0

    def judged(attempt: Attempt) -> bool:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise asyncio.CancelledError  # as if the program were stopped
        return True

    data = Dataset("d", [Case(f"n{n}", "Price of Oslo") for n in range(4)], scorers=[Check(judged)])

    async def story(runtime: AgentRuntime) -> None:
        results = Results(runtime)
        for n in range(3):
            await Experiment(data.tagged("none"), agent, experiment_id=f"e{n}", owner="ann").run(runtime)
        with pytest.raises(asyncio.CancelledError):
            await Experiment(data, agent, experiment_id="late", owner="bob", at_once=1).run(runtime)
        [late] = (await results.list(owner="bob")).items
        assert (late.ended_at, late.attempts, late.passed, late.cases) == (None, 2, 2, 4)
        first = await results.list(limit=3)
        rest = await results.list(limit=3, after=first.next)
        assert sorted(one.id for one in [*first.items, *rest.items]) == ["e0", "e1", "e2", "late"]
        assert (len(first.items), rest.next) == (3, None)
        assert len((await results.list(owner="ann", agent_id="clerk", dataset="d")).items) == 3
        # One that goes on keeps its place.
        await Experiment(data, agent, experiment_id="late", owner="bob").run(runtime)
        # A process that was killed before it wrote the experiment has left an entry of the list.
        store = runtime.core.ports.store
        assert store is not None
        for name, known in (("late", "late"), ("ghost", "ghost")):
            entry: JsonObject = {"id": known, "owner": "bob", "agentId": "clerk", "dataset": "d"}
            place = f"{1:013}/{sha256(name.encode()).hexdigest()[:24]}"
            await store.put_document(Document(LISTED, place, 1, entry))
        assert [one.id for one in (await results.list(owner="bob")).items] == ["late"]
        for wrong in ("late", "x" * 38, ""):
            with pytest.raises(Rejected, match="not the next of a page"):
                await results.list(after=wrong)

    on(agent, story)


def test_a_page_of_experiments_reads_a_bounded_number_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.evals.results.LOOKED_AT_MAX", 8)
    monkeypatch.setattr("windlass.evals.results._PAGE", 4)
    agent, reads = clerk(), list[int]()
    data = Dataset("d", [Case("n", "Price of Oslo")], scorers=[Check(lambda _: True)])
    whole = MemoryStore.documents

    async def counted(store: MemoryStore, kind: str, **given: Any) -> tuple[Document, ...]:
        found = await whole(store, kind, **given)
        reads.append(len(found))
        return found

    monkeypatch.setattr(MemoryStore, "documents", counted)

    async def story(runtime: AgentRuntime) -> None:
        results = Results(runtime)
        for n in range(20):
            owner = "ann" if n == 0 else "bob"
            await Experiment(data.tagged("none"), agent, experiment_id=f"e{n}", owner=owner).run(runtime)
        reads.clear()
        page = await results.list(owner="bob", limit=3)
        times = [one.at for one in page.items]
        assert (times, len(times), reads) == (sorted(times, reverse=True), 3, [4])
        # The oldest is found after looks that are each bounded.
        looks = 0
        page = await results.list(owner="ann")
        while not page.items and page.next is not None:
            reads.clear()
            page = await results.list(owner="ann", after=page.next)
            looks += 1
            assert sum(reads) <= 8
        assert ([one.id for one in page.items], looks) == (["e0"], 2)

    on(agent, story)


def test_an_experiment_has_its_answers_in_batches_with_one_option() -> None:
    model = ScriptedModel(lambda messages: say(messages[-1].content))
    agent = Agent("echo", model=model)
    clock = FakeClock()
    machine = Machine(clock, sequential_ids(), seeded_random(1))

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], machine=machine) as runtime:
            data = Dataset("words", [Case(f"case{at}", f"word {at}") for at in range(30)])
            result = await Experiment(data, "echo", batch="within 24h").run(runtime)
            assert (result.experiment.attempts, result.experiment.passed) == (30, 30)
            assert model.batches == [30]
            again = await Experiment(data, "echo", batch="within 24h").run(runtime)
            assert again.experiment.id == result.experiment.id, "it has ended"
            assert len(model.requests) == 30

    run_in_fake_time(story(), clock=clock)
