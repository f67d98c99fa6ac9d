"""Agents are found by module or file, and what is wrong with them is told without a traceback."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass_cli.agents import load_agents, pick_agent
from windlass_cli.problems import Problem

ONE = 'from windlass import Agent\nagent = Agent("{name}", model="demo/demo")\n'


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("shop_", "windlass_agents_")):
            del sys.modules[name]


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def test_a_file_a_module_a_list_and_all_of_a_module(tmp_path: Path) -> None:
    write(tmp_path, "shop_a.py", ONE.format(name="a"))
    write(
        tmp_path,
        "shop_b.py",
        "from shop_a import agent\n"
        + ONE.format(name="b").replace("agent =", "other =")
        + "both = [agent, other]\n",
    )
    assert [agent.name for agent in load_agents("shop_a.py:agent", tmp_path)] == ["a"]
    assert [agent.name for agent in load_agents("shop_a:agent", tmp_path)] == ["a"]
    assert [agent.name for agent in load_agents("shop_b:both", tmp_path)] == ["a", "b"]
    assert {agent.name for agent in load_agents("shop_b", tmp_path)} == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "reference", "told"),
    [
        ("", "shop_none:agent", "there is no module shop_none"),
        ("", "shop_none.py:agent", "there is no file"),
        ("", ":agent", "module:name"),
        ("", "shop_x", "holds no agents"),
        ("x = 1\n", "shop_x:agent", "has no agent"),
        ("agent = 1\n", "shop_x:agent", "is int"),
        ("agent = []\n", "shop_x:agent", "is list"),
        ("import shop_missing\n", "shop_x:agent", "No module named 'shop_missing'"),
        ("\n\n1 / 0\n", "shop_x.py:agent", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "shop_x:agent", "SyntaxError"),
    ],
)
def test_what_cannot_be_loaded_is_told(tmp_path: Path, text: str, reference: str, told: str) -> None:
    write(tmp_path, "shop_x.py", text)
    with pytest.raises(Problem) as refused:
        load_agents(reference, tmp_path)
    assert told in f"{refused.value.message} {refused.value.hint}"


def test_the_line_at_fault_is_named(tmp_path: Path) -> None:
    write(tmp_path, "shop_y.py", "\n\n1 / 0\n")
    with pytest.raises(Problem, match=r"shop_y\.py, line 3"):
        load_agents("shop_y.py:agent", tmp_path)


def test_an_agent_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    write(tmp_path, "shop_a.py", ONE.format(name="a"))
    agents = load_agents("shop_a.py:agent", tmp_path)
    assert pick_agent(agents, None).name == "a"
    with pytest.raises(Problem) as refused:
        pick_agent(agents, "b")
    assert refused.value.hint == "There is a."
