"""Agents and tools loaded by reference: `module:name`, `file.py:name`."""

import asyncio
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar, cast

from windlass.agent.agent import Agent, AnyAgent
from windlass.agent.script import while_loading
from windlass.errors import AgentError, Rejected
from windlass.tools import Tool
from windlass.tools.router import ToolRouter
from windlass_protocol import ErrorKind, RetryClass

T = TypeVar("T")

NAMES_TOLD_MAX: Final = 10
_WINDLASS: Final = Path(__file__).parents[1]
_GUARD: Final = 'put what runs it under: if __name__ == "__main__":'


def load_agents(reference: str, folder: str | Path = ".") -> tuple[AnyAgent, ...]:
    """Return the agents at `module:name` or `file.py:name`; see `load`.

    Raises:
        Rejected: as for `load`.
    """
    return tuple({agent.name: agent for agent in load(reference, Agent, folder=folder)}.values())


def load(reference: str, kind: type[T], *, folder: str | Path = ".") -> tuple[T, ...]:
    """Return the objects at `module:name` or `file.py:name`, all of the type `kind`.

    A name refers to one object or to a list. Without a name, all objects of that type in the module are
    returned. Modules and files are searched in `folder` first.

    Raises:
        Rejected: the module or name does not exist, the module cannot be imported, or it holds no object of
            the type; the message names the line of a failed import.
    """
    where, _, name = reference.partition(":")
    module = _import_module(where, Path(folder).absolute())
    kind_name = kind.__name__
    if not name:
        objects = tuple(value for value in vars(module).values() if isinstance(value, kind))
        if not objects:
            raise _load_error(
                f"{where} holds no {kind_name}: define one, or name a list of them with module:name"
            )
        return objects
    value = _lookup(module, where, name=name, kind=kind)
    objects = _all_of(value, kind)
    if not objects:
        raise _load_error(f"{reference} is {type(value).__name__}: expected {kind_name}, or a list of them")
    return objects


def load_tools(places: Iterable[str], folder: str | Path = ".") -> ToolRouter:
    """Return the tools of modules, each named as `module` or `module:name`.

    A module gives all its tools; a name refers to a tool, a list of tools or a ToolRouter.

    Raises:
        Rejected: a module cannot be loaded; the message names the reference and the reason.
    """
    router = ToolRouter()
    for reference in places:
        for tool in _tools(reference, Path(folder).absolute()):
            try:
                router.register(tool)
            except AgentError as error:
                raise _load_error(f"{reference}: {error.message}") from None
    return router


def _tools(reference: str, folder: Path) -> Sequence[Tool[..., object]]:
    where, _, name = reference.partition(":")
    module = _import_module(where, folder)
    members: object = list(vars(module).values())
    target = _lookup(module, where, name=name, kind=Tool) if name else members
    if isinstance(target, ToolRouter):
        return target.list_tools()
    items = cast("Sequence[object]", target) if isinstance(target, list | tuple) else (target,)
    tools = [cast("Tool[..., object]", item) for item in items if isinstance(item, Tool)]
    if not tools:
        raise _load_error(f"{reference}: no tools found; define functions with @tool")
    return tools


def _import_module(where: str, folder: Path) -> ModuleType:
    if not where:
        raise _load_error("expected module:name or file.py:name, such as app:agent or agents/shop.py:agent")
    try:
        with while_loading():
            if where.endswith(".py"):
                return _from_file(folder / where)
            _look_in(folder)
            return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
            raise _load_error(f"no module named {where}: looked in {folder}") from None
        raise _broken(where, error) from error
    except _NoFile:
        raise _load_error(f"no such file: {folder / where}") from None
    except Exception as error:
        raise _broken(where, error) from error
    except SystemExit as error:
        raise _load_error(
            f"{where} cannot be imported: it exits the program{_place(error)}; {_GUARD}"
        ) from None


class _NoFile(Exception):
    pass


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _NoFile
    name = f"windlass_agents_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    loader = None if spec is None else spec.loader
    assert spec is not None, "a file that ends with .py has a spec"
    assert loader is not None, "and a loader"
    _look_in(path.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        # As `import` does: a module that failed to load does not stay in sys.modules.
        del sys.modules[name]
        raise
    return module


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _lookup(module: ModuleType, where: str, *, name: str, kind: type[object]) -> object:
    value: object = module
    for part in name.split("."):
        if not hasattr(value, part):
            candidates = [name for name, member in vars(module).items() if isinstance(member, (kind, list))]
            has = ", ".join(candidates[:NAMES_TOLD_MAX]) or f"no {kind.__name__}"
            raise _load_error(f"{where} has no {name}: it has {has}")
        value = cast(object, getattr(value, part))
    return value


def _all_of(value: object, kind: type[T]) -> tuple[T, ...]:
    """Return the value, or the items of a list; empty if one of them has another type."""
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    objects = tuple(item for item in items if isinstance(item, kind))
    return objects if len(objects) == len(items) else ()


def _broken(where: str, error: Exception) -> Rejected:
    reason = error.message if isinstance(error, AgentError) else str(error)
    # A module that starts an agent at import time cannot run inside the event loop of the host application.
    is_run = isinstance(error, RuntimeError) and "cannot be called from a running event loop" in reason
    problem = f"{reason}; {_GUARD}" if is_run else reason
    return _load_error(f"{where} cannot be imported: {type(error).__name__}: {problem}{_place(error)}")


def _place(error: BaseException) -> str:
    """Return the file and line at fault: the last frame outside Windlass and the standard library."""
    frames = traceback.extract_tb(error.__traceback__)
    modules = (asyncio.__file__, importlib.__file__)
    ours = ("<frozen ", str(_WINDLASS), *(str(Path(frame).parent) for frame in modules))
    theirs = [frame for frame in frames if not frame.filename.startswith(ours)]
    return f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""


def _load_error(message: str) -> Rejected:
    kind, retry = ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.HOST_CONFIGURATION_NEEDED
    return Rejected(message, kind=kind, retry=retry)
