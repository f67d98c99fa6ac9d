"""The user's agents: found by name, imported from their folder."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import windlass
from windlass_cli.problems import Problem

if TYPE_CHECKING:
    from windlass import Agent


def load_agents(reference: str, folder: Path) -> "tuple[Agent, ...]":
    """Return the agents that `module:name` or `file.py:name` stands for; those of a module without a name.

    Raises:
        Problem: there is no such module or name, it cannot be imported, or it holds no agents.
    """
    where, _, name = reference.partition(":")
    module = _imported(where, folder)
    if not name:
        found = [value for value in vars(module).values() if isinstance(value, windlass.Agent)]
        if not found:
            raise Problem(
                f"{where} holds no agents",
                "Write one: agent = Agent(…), or name what holds them: module:name",
            )
        return tuple({agent.name: agent for agent in found}.values())
    value: object = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise Problem(f"{where} has no {name}", f"It has {_names(module)}.")
        value = cast(object, getattr(value, part))
    return _agents(value, reference)


def pick_agent(agents: "Sequence[Agent]", name: str | None) -> "Agent":
    """Return the agent of a name; the first one if nobody said.

    Raises:
        Problem: there is none of that name.
    """
    for agent in agents:
        if name is None or agent.name == name:
            return agent
    raise Problem(f"there is no agent {name}", f"There is {', '.join(agent.name for agent in agents)}.")


def _imported(where: str, folder: Path) -> ModuleType:
    if not where:
        raise Problem("agents is module:name or file.py:name", "Such as app:agent, or agents/shop.py:agent")
    try:
        if where.endswith(".py"):
            return _from_file(folder / where)
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        return importlib.import_module(where)
    except Problem:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
            raise Problem(f"there is no module {where}", f"It is looked for in {folder}.") from None
        raise _broken(where, error) from error
    except Exception as error:
        raise _broken(where, error) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Problem(f"there is no file {path}", "agents is module:name or file.py:name")
    name = f"windlass_agents_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    loader = None if spec is None else spec.loader
    assert spec is not None, "a file that ends with .py has a spec"
    assert loader is not None, "and a loader"
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _broken(where: str, error: Exception) -> Problem:
    # Our own frames say nothing to whoever wrote the module.
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return Problem(f"{where} cannot be imported: {type(error).__name__}: {error}{place}")


def _agents(value: object, reference: str) -> "tuple[Agent, ...]":
    if isinstance(value, windlass.Agent):
        return (value,)
    items = cast("Sequence[object]", value) if _is_list(value) else ()
    if items and all(isinstance(item, windlass.Agent) for item in items):
        return tuple(cast("Sequence[Agent]", items))
    raise Problem(f"{reference} is {type(value).__name__}", "It must be an Agent, or a list of them.")


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _names(module: ModuleType) -> str:
    found = [name for name, value in vars(module).items() if isinstance(value, windlass.Agent | list)]
    return ", ".join(found[:10]) or "no agents"
