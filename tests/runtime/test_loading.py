"""Loading agents by module or file, and the errors of a failed load."""

import asyncio
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import Rejected
from windlass.loading import load_agents

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
        ("", "shop_none:agent", "no module named shop_none"),
        ("", "shop_none.py:agent", "no such file"),
        ("", ":agent", "module:name"),
        ("", "shop_x", "holds no Agent"),
        ("x = 1\n", "shop_x:agent", "has no agent"),
        ("agent = 1\n", "shop_x:agent", "is int"),
        ("agent = []\n", "shop_x:agent", "is list"),
        ("import shop_missing\n", "shop_x:agent", "No module named 'shop_missing'"),
        ("\n\n1 / 0\n", "shop_x.py:agent", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "shop_x:agent", "SyntaxError"),
    ],
)
def test_a_failed_load_is_rejected_with_the_reason(
    tmp_path: Path, text: str, reference: str, told: str
) -> None:
    write(tmp_path, "shop_x.py", text)
    with pytest.raises(Rejected) as refused:
        load_agents(reference, tmp_path)
    assert told in refused.value.message


def test_the_line_at_fault_is_named(tmp_path: Path) -> None:
    write(tmp_path, "shop_y.py", "\n\n1 / 0\n")
    with pytest.raises(Rejected, match=r"shop_y\.py, line 3"):
        load_agents("shop_y.py:agent", tmp_path)


HELLO = (
    'from windlass import Agent\n\nagent = Agent("a", model="demo/demo")\n'
    'async def main() -> None:\n    await agent.run("hello")\n'
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ['print(agent.run_sync("hello").output)', "import asyncio; asyncio.run(main())", "exit(0)"]
)
@pytest.mark.filterwarnings("ignore:coroutine 'main' was never awaited")
def test_a_module_that_runs_its_agent_on_import_is_refused_with_line_and_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    write(tmp_path, "shop_run.py", f"{HELLO}{line}\n")

    async def load() -> None:
        load_agents("shop_run.py:agent", tmp_path)

    with pytest.raises(Rejected) as refused:
        asyncio.run(load())
    assert "shop_run.py, line 6)" in refused.value.message
    assert 'if __name__ == "__main__":' in refused.value.message
    assert capsys.readouterr().out == ""
    # Coroutines that the program never awaited are collected now, and not in another test.
    del refused
    gc.collect()


def test_a_module_that_runs_its_agent_is_refused_without_an_event_loop_too(tmp_path: Path) -> None:
    write(tmp_path, "shop_sync.py", f'{HELLO}agent.run_sync("hello")\n')
    with pytest.raises(Rejected, match=r"shop_sync\.py, line 6"):
        load_agents("shop_sync:agent", tmp_path)


def test_code_under_the_main_guard_is_not_run(tmp_path: Path) -> None:
    guarded = f'{HELLO}if __name__ == "__main__":\n    agent.run_sync("hello")\n'
    write(tmp_path, "shop_guard.py", guarded)
    assert [agent.name for agent in load_agents("shop_guard.py", tmp_path)] == ["a"]
