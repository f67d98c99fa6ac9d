"""`eval`: data sets are run, gates decide the exit code, experiments are listed and compared."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.cli.commands import run_here

AGENT = """
from windlass import Agent, LLMUsage
from windlass.testing import ScriptedModel, say

def answers(messages):
    word = messages[-1].content
    usage = LLMUsage(input_tokens=8, output_tokens=2)
    return say(word.upper() if "loud" in messages[0].content or word < "m" else word, usage=usage)

prices = {"*": {"input": 500, "output": 500}}
agent = Agent("clerk", model=ScriptedModel(answers), instructions="Answer.", prices=prices)
loud = Agent("clerk", model=ScriptedModel(answers), instructions="Be loud.", prices=prices)
agents = [agent, Agent("other", model=ScriptedModel([]))]
"""
CASES = """
name: words
cases:
- {name: first, inputs: apple, expected_output: APPLE, metadata: {tags: [fruit]}}
- {name: second, inputs: zebra, expected_output: ZEBRA}
- {name: third, inputs: zoo, expected_output: ZOO}
evaluators:
- EqualsExpected
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DURABILITY", "process")
    (tmp_path / "app.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")


def test_gates_decide_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("eval", "run", "cases.yaml", "--agents", "app.py:agent")
    good = run_here(capsys, *run, "--gate", "pass_rate>=0.3", "--gate", "cost<=0.02")
    assert good.code == 0, good.err
    lines = good.out.splitlines()
    assert lines[0].startswith("eval-words-")
    assert lines[0].endswith(": clerk on words, 3 cases")
    assert lines[1] == "  pass rate  33% (6% to 79%)"
    assert lines[2] == "  cost       $0.0050 a case"
    assert "exact: expected 'ZEBRA', found 'zebra'" in good.out
    assert lines[-2:] == ["✓ pass_rate>=0.3: 0.3333", "✓ cost<=0.02: 0.005"]
    bad = run_here(capsys, *run, "--gate", "pass_rate>=0.95", "--junit", "junit.xml", "--json")
    assert bad.code == 1
    told = json.loads(bad.out)
    assert told["gates"] == [{"gate": "pass_rate>=0.95", "isMet": False, "found": pytest.approx(1 / 3)}]
    assert [one["name"] for one in told["cases"] if not one["isPassed"]] == ["second", "third"]
    suite = ElementTree.parse("junit.xml").getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("4", "3")
    fruit = run_here(
        capsys, *run, "--tag", "fruit", "--gate", "pass_rate==1", "--id", "fruit", "--repeats", "2"
    )
    assert fruit.code == 0
    assert "fruit: clerk on words, 1 cases × 2" in fruit.out
    misspelt = run_here(capsys, *run, "--tag", "friut")
    assert (misspelt.code, "has no cases with the tag friut" in misspelt.err) == (2, True)


def test_experiments_are_listed_shown_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    for name, place in (("old", "app.py:agent"), ("new", "app.py:loud")):
        assert run_here(capsys, "eval", "run", "cases.yaml", "--agents", place, "--id", name).code == 0
    listed = run_here(capsys, "eval", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["experiment", "new", "old"]
    rows = [json.loads(line) for line in run_here(capsys, "eval", "list", "--json").out.splitlines()]
    assert [(one["id"], one["passed"]) for one in rows] == [("new", 3), ("old", 1)]
    shown = run_here(capsys, "eval", "show", "ol")
    assert "old: clerk on words" in shown.out, "the beginning of an id is enough"
    assert json.loads(run_here(capsys, "eval", "show", "old", "--json").out)["experiment"]["id"] == "old"
    compared = run_here(capsys, "eval", "compare", "old", "new")
    assert compared.code == 0
    assert compared.out.splitlines()[0] == "unclear: new against old"
    assert "2 fixed, 0 broken of 3 cases of both" in compared.out
    assert json.loads(run_here(capsys, "eval", "compare", "old", "new", "--json").out)["fixed"] == 2
    again = run_here(
        capsys, "eval", "run", "cases.yaml", "--agents", "app.py:loud", "--id", "new", "--against", "old"
    )
    assert (again.code, "unclear: new against old" in again.out) == (0, True)
    unknown = run_here(capsys, "eval", "show", "ghost")
    assert (unknown.code, "unknown experiment: ghost" in unknown.err) == (2, True)


def test_data_sets_are_kept_in_the_store_and_run_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_here(capsys, "eval", "run", "cases.yaml", "--agents", "app.py:agent", "--json")
    ran = json.loads(first.out)
    datasets = ("eval", "datasets")
    assert "No data sets." in run_here(capsys, *datasets, "list").err
    assert run_here(capsys, *datasets, "add", "words", "cases.yaml").code == 0
    again = run_here(capsys, "eval", "run", "words", "--agents", "app.py:agent", "--json")
    assert json.loads(again.out)["experiment"]["id"] == ran["experiment"]["id"], "it costs nothing again"
    taken = run_here(capsys, *datasets, "add", "failed", "--run", ran["cases"][1]["runId"])
    assert (taken.code, "failed has 1 cases" in taken.err) == (0, True)
    listed = run_here(capsys, *datasets, "list").out.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["failed", "1"], ["words", "3"]]
    rows = [json.loads(line) for line in run_here(capsys, *datasets, "list", "--json").out.splitlines()]
    assert [one["cases"] for one in rows] == [1, 3]
    shown = run_here(capsys, *datasets, "show", "words")
    assert shown.out.splitlines()[0].startswith("words: 3 cases, version ")
    assert ["second", "zebra", "ZEBRA"] in [line.split()[:3] for line in shown.out.splitlines()]
    assert run_here(capsys, *datasets, "remove", "words", "second").code == 0
    found = json.loads(run_here(capsys, *datasets, "show", "words", "--json").out)
    assert [one["name"] for one in found["cases"]] == ["first", "third"]
    assert run_here(capsys, *datasets, "save", "words", "words.jsonl").code == 0
    lines = (tmp_path / "words.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["first", "third"]
    assert run_here(capsys, *datasets, "remove", "words").code == 0
    gone = run_here(capsys, "eval", "run", "words", "--agents", "app.py:agent")
    assert (gone.code, "unknown data set: words" in gone.err) == (2, True)
    neither = run_here(capsys, *datasets, "add", "words")
    assert (neither.code, "give a file, or --run" in neither.err) == (2, True)


def test_a_worse_version_is_told_by_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [f"- {{name: n{n}, inputs: z{n}, expected_output: Z{n}}}" for n in range(8)]
    text = "name: many\ncases:\n" + "\n".join(cases) + "\nevaluators: [EqualsExpected]\n"
    (tmp_path / "many.yaml").write_text(text, encoding="utf-8")
    run = ("eval", "run", "many.yaml")
    assert run_here(capsys, *run, "--agents", "app.py:loud", "--id", "good").code == 0
    worse = run_here(capsys, *run, "--agents", "app.py:agent", "--id", "bad", "--against", "good", "--json")
    assert worse.code == 1
    assert json.loads(worse.out)["comparison"]["comparison"]["verdict"] == "worse"
    assert run_here(capsys, "eval", "compare", "good", "bad").code == 1


def test_mistakes_are_told_before_anything_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ("eval", "run", "cases.yaml", "--agents", "app.py:agents")
    wrong = run_here(capsys, *run, "--gate", "good")
    assert (wrong.code, "a gate is a measure" in wrong.err) == (2, True)
    wrong = run_here(capsys, *run, "--gate", "pass_rate=>0.9")
    assert (wrong.code, "a gate is a measure" in wrong.err) == (2, True)
    wrong = run_here(capsys, *run, "--agent", "clerk", "--gate", "pas_rate>=0.9")
    assert (wrong.code, "did you mean pass_rate?" in wrong.err) == (2, True)
    wrong = run_here(capsys, *run, "--agent", "clerk", "--tag", "frit")
    assert (wrong.code, "data set words has no cases with the tag frit" in wrong.err) == (2, True)
    wrong = run_here(capsys, *run, "--agent", "ghost")
    assert (wrong.code, "unknown agent: ghost" in wrong.err) == (2, True)
    wrong = run_here(capsys, *run, "--tools", "fake")
    assert (wrong.code, "tools is one of real, recorded" in wrong.err) == (2, True)
    none = run_here(capsys, "eval", "run", "none.yaml", "--agents", "app.py:agents")
    assert (none.code, "none.yaml cannot be read" in none.err) == (2, True)
    assert list(tmp_path.rglob("*.db")) == []


def test_a_data_set_without_scorers_is_run_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bare.yaml").write_text(CASES.partition("evaluators")[0], encoding="utf-8")
    told = run_here(capsys, "eval", "run", "bare.yaml", "--agents", "app.py:agent")
    assert (told.code, "pass rate  100%" in told.out) == (0, True)
    assert "Data set words has no scorers: a case passes if its run completes" in told.err
    assert "scorers" not in run_here(capsys, "eval", "run", "cases.yaml", "--agents", "app.py:agent").err
