"""The toolbox: file, shell, web and to-do tools.

An agent gets none of these tools by default: name those it needs. Tools that need more of the runtime than a
ToolContext (questions to people, other agents, skills) are defined in the modules of those features.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.toolbox.fetch import web_fetch_tool as web_fetch_tool
    from windlass.toolbox.todo import todo_reminder as todo_reminder
    from windlass.toolbox.todo import todo_tool as todo_tool
    from windlass.toolbox.workspace import Workspace as Workspace
    from windlass.tools.background import wake_me_tool as wake_me_tool

_HOMES = {
    "windlass.toolbox.fetch": ("web_fetch_tool",),
    "windlass.toolbox.todo": (
        "todo_reminder",
        "todo_tool",
    ),
    "windlass.toolbox.workspace": ("Workspace",),
    "windlass.tools.background": ("wake_me_tool",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
