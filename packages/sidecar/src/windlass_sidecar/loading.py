"""Tools of the user, by the name of their module."""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import cast

from windlass import Tool, ToolRouter
from windlass.errors import AgentError


class CannotLoad(Exception):
    """Tools that are not there; the message says which and why."""


def load_tools(names: Iterable[str]) -> ToolRouter:
    """Return the tools of modules, each named as `module` or `module:name`.

    A module gives all its tools; a name is that of a tool, a list of tools or a ToolRouter. Modules are
    looked for in the present folder too.

    Raises:
        CannotLoad: one of them cannot be loaded.
    """
    router = ToolRouter()
    sys.path.append(os.getcwd())
    for name in names:
        try:
            for tool in _tools(name):
                router.register(tool)
        except AgentError as error:
            raise CannotLoad(f"{name}: {error.message}") from None
        except Exception as error:
            raise CannotLoad(f"{name}: {type(error).__name__}: {error}") from error
    return router


def _tools(name: str) -> list[Tool[..., object]]:
    place, _, wanted = name.partition(":")
    module = import_module(place)
    found: object = getattr(module, wanted) if wanted else list(vars(module).values())
    if isinstance(found, ToolRouter):
        return found.list_tools()
    items = cast("list[object]", found) if isinstance(found, list | tuple) else [found]
    tools = [cast("Tool[..., object]", item) for item in items if isinstance(item, Tool)]
    if not tools:
        raise CannotLoad("no tools in it; write functions with @tool")
    return tools
