"""Public names of `windlass`, and the modules that importing it loads."""

import ast
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import cast, get_type_hints

import pytest

import windlass
from tools import tidy
from windlass import parts
from windlass.catalog.runtime_sessions import RuntimeSessions
from windlass_protocol import JsonObject

PROGRAMS = {
    "a function before its module": "from windlass import tool; import windlass.tools; assert callable(tool)",
    "a function after its module": "import windlass.tools; from windlass import tool; assert callable(tool)",
    "the agent after its module": (
        "import windlass.agent, windlass; from windlass import Agent; assert isinstance(Agent, type)"
    ),
    "the runtime first": (
        "from windlass import AgentRuntime; from windlass import Agent; assert AgentRuntime.builder()"
    ),
}


def python(program: str) -> str:
    """Run a program in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def typed_names(module: ModuleType = windlass) -> list[str]:
    """The names that the type checker sees; they are imported for it alone."""
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    return [alias.asname or alias.name for node in imports for alias in node.names]


def test_the_public_names_are_sorted_and_complete() -> None:
    names = cast(list[str], getattr(windlass, "__all__"))  # noqa: B009 - made when it is asked for
    assert names == sorted(names)
    assert dir(windlass) == names
    assert names == sorted(typed_names())
    assert len(names) <= tidy.PUBLIC_NAMES_MAX


def test_a_runtime_has_at_most_25_members() -> None:
    runtime = windlass.AgentRuntime()
    members = {name for name in (*dir(windlass.AgentRuntime), *vars(runtime)) if not name.startswith("_")}
    assert len(members) <= MEMBERS_MAX, sorted(members)


def test_every_public_name_exists_with_that_name() -> None:
    for name in dir(windlass):
        found = getattr(windlass, name)
        assert getattr(found, "__name__", name) == name
    with pytest.raises(AttributeError, match="has no attribute 'Agnet'"):
        getattr(windlass, "Agnet")  # noqa: B009 - the type checker knows that there is none


def test_the_parts_of_a_runtime_are_all_there_and_load_no_database_until_it_is_asked_for() -> None:
    assert dir(parts) == sorted(typed_names(parts))
    for name in dir(parts):
        assert getattr(getattr(parts, name), "__name__", name) == name
    with pytest.raises(AttributeError, match=r"module 'windlass\.parts' has no attribute 'Sqlite'"):
        getattr(parts, "Sqlite")  # noqa: B009 - the type checker knows that there is none
    assert python("import sys, windlass.parts; print('sqlite3' in sys.modules)") == "False\n"


def test_the_types_of_the_fields_of_public_classes_can_be_read() -> None:
    found = {name: getattr(windlass, name) for name in dir(windlass)}
    classes = {name for name, one in found.items() if is_dataclass(one)}
    assert {"Agent", "HookCall", "Tool", "ToolContext", "RunInfo"} <= classes
    # The severity of a shell command needs the module that grades it.
    for name in classes - {"Rule"}:
        names = {one.name for one in fields(found[name])}
        assert names <= get_type_hints(found[name]).keys(), name
    assert get_type_hints(RuntimeSessions.state)["return"] == JsonObject


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_names_are_the_same_after_any_order_of_imports(name: str) -> None:
    python(PROGRAMS[name])


def test_importing_windlass_loads_no_model_and_no_database() -> None:
    heavy = (
        "{'pydantic', 'pydantic_core', 'sqlite3', '_sqlite3', 'asyncio', 'jsonschema', 'windlass.runtime'}"
    )
    assert python(f"import sys, windlass; print(sorted({heavy} & sys.modules.keys()))") == "[]\n"


HELLO = """
import asyncio
from windlass import Agent, AgentRuntime, tool
from windlass.testing import ScriptedModel, call, say

@tool(mode="read")
async def weather(city: str) -> str:
    return "rain"

async def run():
    model = ScriptedModel([call("weather", {"city": "Oslo"}), say("It rains.")])
    async with AgentRuntime.in_memory([Agent("guide", model=model, tools=[weather])]) as runtime:
        assert (await (await runtime.start_run("guide", "How is it?")).wait()).output == "It rains."

asyncio.run(run())
"""
MEMBERS_MAX = 25
LOADED = "\nimport sys; print(*sorted(sys.modules))"
UNUSED = {
    "jsonschema",
    "sqlite3",
    "tree_sitter",
    "windlass.sqlite",
    "windlass.client",
    "windlass.ledger",
    "windlass.models.anthropic",
    "windlass.models.openai",
    "windlass.toolbox",
    "windlass_harness.ledger.goals",
    "windlass_harness.shell",
    "windlass_harness.views.decisions",
}
"""Modules that a small program in memory does not need; without them the three names take 250 ms of CPU."""


DECLARES = """
from windlass import Agent, AgentRuntime, tool

@tool(mode="read")
async def weather(city: str, days: int = 1) -> list[str]:
    return ["rain"]

Agent("guide", model="demo/guide", instructions="Say how the weather is.", tools=[weather])
"""


def test_declaring_an_agent_loads_no_database_shell_grader_room_or_view_of_decisions() -> None:
    loaded = set(python(DECLARES + LOADED).split())
    assert {"windlass.agent", "windlass.runtime.compose"} <= loaded
    assert loaded & UNUSED == set()


def test_a_small_program_in_memory_loads_nothing_more() -> None:
    assert set(python(HELLO + LOADED).split()) & UNUSED == set()
