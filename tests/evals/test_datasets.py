"""Data sets: files of Windlass and pydantic-evals, versions, and cases from recorded runs."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic_evals
import pytest
from pydantic import JsonValue
from pydantic_evals import evaluators as theirs

from windlass import Agent, AgentRuntime, Rejected
from windlass.evals import (
    Attempt,
    Calls,
    Case,
    Check,
    Contains,
    Conversation,
    Dataset,
    Exact,
    FitsSchema,
    Judge,
    Limit,
    Matches,
    Near,
    PolicyOutcome,
)
from windlass.evals.scorers import write_scorer
from windlass.testing import ScriptedModel, say


def is_polite(attempt: Attempt) -> bool:
    return "please" in attempt.output


SCORERS = (
    Exact(),
    Exact(5, weight=2),
    Exact("five", name="word"),
    Contains("crowns"),
    Contains(["a", "b"], is_case_sensitive=True),
    Contains(),
    Matches("^[0-9]+$"),
    Near(tolerance=0.5),
    Near(3, tolerance=1),
    FitsSchema({"type": "object"}),
    Limit("duration_ms", 2_000),
    Limit("cost_micros", 20_000, name="cheap"),
    Calls(["find", {"tool": "pay", "arguments": {"cents": 5}}], order="exact"),
    PolicyOutcome({"pay": "ask"}),
    Judge("Is it kind?", "openai/gpt-5", pass_score=0.9),
    Check(is_polite),
)
CASES = Dataset(
    "desk",
    [
        Case("refund", "Refund order 77.", "Done.", tags=["smoke"], metadata={"level": 2}, run_id="run-1"),
        Case("data", {"order": 77}, {"ok": True}, scorers=[Matches("ok")]),
        Case("talk", Conversation(["Hello.", "Bye."])),
        Case("persona", Conversation(persona="You are in a hurry.", turns_max=4)),
    ],
    scorers=SCORERS,
)


@pytest.mark.parametrize("suffix", ["yaml", "json", "yml"])
def test_a_data_set_is_the_same_after_it_was_written_and_read(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"cases.{suffix}"
    CASES.save(file)
    found = Dataset.load(file)
    assert found.data() == CASES.data()
    assert found.hash == CASES.hash
    assert list(found.scorers) == [*SCORERS]
    assert found.cases == CASES.cases


def test_a_line_of_a_jsonl_file_is_a_case(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    CASES.save(file)
    assert len(file.read_text().splitlines()) == 4
    assert Dataset.load(file).cases == CASES.cases
    file.write_text('\n{"inputs": "Hi."}\n')
    assert Dataset.load(file) == Dataset("cases", [Case("case-1", "Hi.")])


def test_the_version_changes_with_contents_and_not_with_the_name() -> None:
    renamed = Dataset("other", CASES.cases, scorers=SCORERS)
    assert (renamed.hash, renamed.inputs_hash) == (CASES.hash, CASES.inputs_hash)
    rescored = Dataset("desk", CASES.cases)
    assert rescored.hash != CASES.hash
    assert rescored.inputs_hash == CASES.inputs_hash, "what is asked is the same"
    expected = Dataset("desk", [Case("a", "x", "1")])
    assert expected.hash != Dataset("desk", [Case("a", "x", "2")]).hash
    assert expected.inputs_hash != Dataset("desk", [Case("a", "y", "1")]).inputs_hash
    assert expected.hash.startswith("sha256:")


def test_cases_are_chosen_by_tag() -> None:
    assert [one.name for one in CASES.tagged("smoke", "other").cases] == ["refund"]


# pydantic-evals


@dataclass
class Shouts(theirs.Evaluator[object, object, object]):
    loud: bool = True

    def evaluate(self, ctx: theirs.EvaluatorContext[object, object, object]) -> bool:
        return str(ctx.output).isupper() == self.loud


def test_a_file_of_pydantic_evals_is_read(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    made = pydantic_evals.Dataset[str, str, dict[str, Any]](
        name="theirs",
        cases=[
            pydantic_evals.Case(
                name="oslo",
                inputs="Where?",
                expected_output="Oslo",
                metadata={"tags": ["smoke"], "level": 1},
                evaluators=(theirs.Contains(value="Os"), Shouts(loud=False)),
            )
        ],
        evaluators=[
            theirs.EqualsExpected(),
            theirs.Equals(value="Oslo"),
            theirs.MaxDuration(seconds=3),
            theirs.IsInstance(type_name="str"),
            theirs.LLMJudge(rubric="Is it a city?", model="openai:gpt-5", include_input=True),
        ],
    )
    made.to_file(file, custom_evaluator_types=[Shouts])
    found = Dataset.load(file, evaluators=[Shouts])
    [case] = found.cases
    assert (case.name, case.inputs, case.expected, case.tags) == ("oslo", "Where?", "Oslo", ("smoke",))
    assert case.metadata == {"level": 1}
    assert list(case.scorers) == [Contains("Os", is_case_sensitive=True), Shouts(loud=False)]
    assert list(found.scorers) == [
        Exact(),
        Exact("Oslo"),
        Limit("duration_ms", 3_000),
        theirs.IsInstance(type_name="str"),
        Judge("Is it a city?", "openai/gpt-5"),
    ]


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_pydantic_evals_reads_a_written_file(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"ours.{suffix}"
    scorers = [Exact(), Exact("x", name="x"), Contains("a"), Limit("duration_ms", 500), Shouts()]
    given = Dataset("ours", [*CASES.cases[:1], Case("more", ["a", 1], scorers=[Exact(5)])], scorers=scorers)
    given.save(file)
    found = pydantic_evals.Dataset[Any, Any, Any].from_file(file, custom_evaluator_types=[Shouts])
    assert found.evaluators == [
        theirs.EqualsExpected(),
        theirs.Equals(value="x", evaluation_name="x"),
        theirs.Contains(value="a", case_sensitive=False),
        theirs.MaxDuration(seconds=0.5),
        Shouts(),
    ]
    assert [(one.name, one.inputs, one.expected_output) for one in found.cases] == [
        ("refund", "Refund order 77.", "Done."),
        ("more", ["a", 1], None),
    ]
    assert found.cases[0].metadata == {"level": 2, "tags": ["smoke"], "run_id": "run-1"}
    assert found.cases[1].evaluators == [theirs.Equals(value=5)]


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("EqualsExpected", Exact()),
        ({"Equals": 5}, Exact(5)),
        ({"name": "Equals", "arguments": [{"a": 1}]}, Exact({"a": 1})),
        ({"name": "EqualsExpected", "arguments": None}, Exact()),
        ({"Contains": {"value": "a", "case_sensitive": False, "weight": 3}}, Contains("a", weight=3)),
        ({"FitsSchema": {"type": "array"}}, FitsSchema({"type": "array"})),
        ({"PolicyOutcome": {"pay": "deny"}}, PolicyOutcome({"pay": "deny"})),
        ({"Calls": ["pay"]}, Calls(["pay"])),
        ({"Limit": {"measure": "steps", "most": 3}}, Limit("steps", 3)),
        (
            {"LLMJudge": {"rubric": "Kind?", "model": "a/b", "pass_score": 0.5}},
            Judge("Kind?", "a/b", pass_score=0.5),
        ),
    ],
)
def test_a_scorer_is_named_with_an_argument_or_options(spec: JsonValue, meant: object) -> None:
    found = Dataset.of_data({"cases": [], "evaluators": [spec]})
    assert list(found.scorers) == [meant]


def test_a_check_names_a_function_of_a_file_beside_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("def short(attempt):\n    return len(attempt.output) < 9\n")
    file = tmp_path / "cases.yaml"
    file.write_text("cases: [{inputs: Hi.}]\nevaluators: [{Check: 'checks.py:short'}]\n")
    [check] = Dataset.load(file).scorers
    assert isinstance(check, Check)
    assert (check.name, check.function.__name__) == ("check", "short")


WRONG: dict[str, tuple[object, str]] = {
    "no object": ([], "a data set must be an object, found list"),
    "no cases": ({}, "a data set needs a list of cases, found NoneType"),
    "another key": ({"cases": [], "case": []}, "unknown key 'case'; it takes"),
    "a case without inputs": ({"cases": [{"name": "a"}]}, "case a has no inputs"),
    "a case with empty inputs": ({"cases": [{"name": "a", "inputs": ""}]}, "case a has no inputs"),
    "a key of a case": ({"cases": [{"inputs": "x", "expected": 1}]}, "case 1 has an unknown key 'expected'"),
    "two of a name": ({"cases": [{"name": "a", "inputs": "x"}] * 2}, "two cases named a"),
    "an odd name": ({"cases": [{"name": "a\n", "inputs": "x"}]}, "1 to 200 printable characters"),
    "a long name": ({"cases": [{"name": "a" * 201, "inputs": "x"}]}, "too long: 201 characters, limit 200"),
    "odd tags": ({"cases": [{"inputs": "x", "metadata": {"tags": "a"}}]}, "tags must be a list of texts"),
    "odd metadata": ({"cases": [{"inputs": "x", "metadata": 5}]}, "metadata must be an object, found int"),
    "odd scorers": ({"cases": [], "evaluators": "Equals"}, "evaluators must be a list, found str"),
    "no scorer": ({"cases": [], "evaluators": [5]}, "a scorer is Name, Name: argument or"),
    "an unknown scorer": ({"cases": [], "evaluators": ["Odd"]}, "unknown scorer Odd; known are Equals"),
    "a misspelt scorer": ({"cases": [], "evaluators": ["Call"]}, "pydantic-evals; did you mean Calls"),
    "an option missing": ({"cases": [], "evaluators": ["Equals"]}, "Equals needs value"),
    "an unknown option": (
        {"cases": [], "evaluators": [{"Equals": {"value": 1, "odd": 2}}]},
        "unknown option odd",
    ),
    "an option of ours": (
        {"cases": [], "evaluators": [{"Near": {"odd": 2}}]},
        "unknown option odd; it takes",
    ),
    "no options": ({"cases": [], "evaluators": ["Calls"]}, "the options of Calls do not fit"),
    "a judge without a model": (
        {"cases": [], "evaluators": [{"LLMJudge": "Kind?"}]},
        "name the model, such as",
    ),
    "an odd duration": ({"cases": [], "evaluators": [{"MaxDuration": "x"}]}, "seconds must be a number"),
    "an odd pattern": ({"cases": [], "evaluators": [{"Matches": "("}]}, "evaluators: Matches: .*no regular"),
    "an odd conversation": ({"cases": [{"inputs": {"conversation": "x"}}]}, "must be a list of texts"),
    "an empty conversation": (
        {"cases": [{"inputs": {"conversation": []}}]},
        "needs messages, or the persona",
    ),
    "odd turns": (
        {"cases": [{"inputs": {"persona": "x", "turns": 0}}]},
        "turns_max must be 1 to 100, found 0",
    ),
    "a whole module": ({"cases": [], "evaluators": [{"Check": "json"}]}, "write module:function or"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_data_set_that_cannot_be_used_is_refused_with_the_place(name: str) -> None:
    data, words = WRONG[name]
    with pytest.raises(Rejected, match=words):
        Dataset.of_data(data)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a.txt", "", "must be a .yaml, .json or .jsonl file"),
        ("a.json", "{", "a.json is no JSON: "),
        ("a.yaml", "a: [", "a.yaml is no YAML: line 1 column 5: "),
        ("a.yaml", "cases:\n- {inputs: Why?, name: a}", "line 2 column 15: .* got '\\?'; quote a text with "),
        ("a.yaml", "a: \x00", "a.yaml is no YAML: unacceptable character"),
        ("a.yaml", f"cases: {'[' * 3_000}", "nested too deeply"),
        ("a.json", f'{{"cases": {"[" * 200_000}', "nested too deeply"),
        (
            "a.json",
            f'{{"cases": [{{"inputs": "{"x" * 1_048_577}"}}]}}',
            "inputs cannot be used: message too large: ",
        ),
        ("a.yaml", "cases: [{inputs: 2026-01-01}]", "in YAML, quote dates and times"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, file: str, text: str, words: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(Rejected, match=words):
        Dataset.load(tmp_path / file)
    with pytest.raises(Rejected, match="cannot be read: FileNotFoundError"):
        Dataset.load(tmp_path / "none.yaml")


def loose(value: object) -> Any:
    """A value that passes no type checker."""
    return value


def test_wrong_values_in_python_are_refused() -> None:
    for name in ("tags", "run_id"):
        with pytest.raises(Rejected, match=f"case a: metadata cannot have {name}: give it as an option"):
            Case("a", "x", metadata={name: 1})
    with pytest.raises(Rejected, match="cases must be Cases, found str"):
        Dataset("a", loose(["x"]))
    with pytest.raises(Rejected, match="must be JSON"):
        Case("a", loose(object()))
    with pytest.raises(Rejected, match=r"Write Check\(function\) for a function of your own"):
        Case("a", "x", scorers=loose([is_polite]))
    with pytest.raises(Rejected, match="must be a list of scorers, found str"):
        Dataset("a", [], scorers=loose("Exact"))
    with pytest.raises(Rejected, match="must be a list of texts"):
        Conversation(loose("x"))
    with pytest.raises(Rejected, match="101 messages, limit 100"):
        Conversation(["x"] * 101)


def test_scorers_of_a_provider_object_are_told_by_its_route() -> None:
    told = write_scorer(Judge("Kind?", ScriptedModel([], route_id="scripted", model_id="one")))
    assert told == {"LLMJudge": {"rubric": "Kind?", "model": "scripted/one"}}


# recorded runs


def test_cases_are_taken_from_recorded_runs() -> None:
    desk = Agent("desk", model=ScriptedModel(lambda messages: say(f"Heard {messages[-1].content}")))

    async def story() -> Dataset:
        async with AgentRuntime.in_memory([desk]) as runtime:
            for run_id, session_id in (("r1", "s1"), ("r2", "s1"), ("r3", "s2")):
                await (await runtime.start_run(desk, run_id, run_id=run_id, session_id=session_id)).wait()
            return await Dataset.from_runs("taken", ["r2", "r3", "r3"], runtime=runtime)

    assert asyncio.run(story()) == Dataset(
        "taken",
        [
            Case("r2", Conversation(["r1", "r2"]), "Heard r2", run_id="r2"),
            Case("r3", "r3", "Heard r3", run_id="r3"),
        ],
    )


def test_a_run_without_an_answer_is_no_case() -> None:
    desk = Agent("desk", model=ScriptedModel([]))

    async def story() -> None:
        async with AgentRuntime.in_memory([desk]) as runtime:
            await (await runtime.start_run(desk, "Hi.", run_id="r1")).wait()
            await Dataset.from_runs("taken", ["r1"], runtime=runtime)

    with pytest.raises(Rejected, match="run r1 has no answer"):
        asyncio.run(story())


def test_a_dumped_data_set_is_json() -> None:
    assert json.loads(json.dumps(CASES.data())) == CASES.data()
