"""Workspace: a folder and the tools confined to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from windlass.errors import wrong
from windlass.toolbox.folder import Folder, Marks
from windlass.toolbox.handover import fetch_files_tool, send_files_tool
from windlass.toolbox.read import read_file_tool
from windlass.toolbox.search import glob_tool, grep_tool
from windlass.toolbox.shell import ToolPlace, bash_tool
from windlass.toolbox.write import write_file_tool
from windlass.tools import Tool


class Workspace:
    """A folder in which agents work; any number of agents and sessions may share it.

    Without a folder, every session works in that of its sandbox: the agent needs one. The file tools reach
    nothing outside of the folder. Commands run in the sandbox of the agent; if it has none, they are not
    confined to the folder.

    The session state holds which files the session has read. `environment` is added to the few variables that
    commands get. `allows_hard_links` allows reading files with several names, as package managers create
    them; another name may be outside of the folder.

    Raises:
        Rejected: the folder does not exist.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        allows_hard_links: bool = False,
    ) -> None:
        own = None if folder is None else Folder(folder, allows_hard_links=allows_hard_links)
        place = ToolPlace(own, allows_hard_links=allows_hard_links)
        marks, variables = Marks("" if own is None else own.path), dict(environment or {})
        self.path: Final = None if own is None else Path(own.path)
        """The folder; None if each session has its own."""
        self._makers: Final = {
            "read_file": lambda: read_file_tool(place.folder, marks),
            "write_file": lambda: write_file_tool(place.folder, marks),
            "glob": lambda: glob_tool(place.folder),
            "grep": lambda: grep_tool(place.folder),
            "bash": lambda: bash_tool(place, variables),
            "send_files": lambda: send_files_tool(place),
            "fetch_files": lambda: fetch_files_tool(place),
        }
        self._made: dict[str, Tool[..., object]] = {}

    def tools(self, *names: str) -> list[Tool[..., object]]:
        """Return the tools with these names: read_file, write_file, glob, grep, bash, send_files,
        fetch_files.

        Raises:
            Rejected: a name is unknown, or none was given.
        """
        known_names = ", ".join(self._makers)
        unknown = [name for name in names if name not in self._makers]
        if unknown or not names:
            raise wrong(f"a workspace has the tools {known_names}; found {', '.join(unknown) or 'no name'}")
        return [self._tool(name) for name in names]

    def _tool(self, name: str) -> Tool[..., object]:
        # Created once, so that all agents share one write lock.
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]
