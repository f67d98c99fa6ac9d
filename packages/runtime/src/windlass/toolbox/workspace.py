"""Workspace: a folder and the tools confined to it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from windlass.errors import wrong
from windlass.toolbox.folder import Folder, Marks
from windlass.toolbox.read import read_file_tool
from windlass.toolbox.search import glob_tool, grep_tool
from windlass.toolbox.shell import Shell, bash_tool, command_environment
from windlass.toolbox.write import write_file_tool
from windlass.tools import Tool


class Workspace:
    """A folder in which agents work; any number of agents and sessions may share it.

    The file tools reach nothing outside of the folder. Commands run in it but are not confined to it: that
    needs a sandbox around the process.

    The session state holds which files the session has read. `environment` is added to the few harmless
    variables that commands get from the host process. `allows_hard_links` allows reading files with several
    names, as package managers create them; another name may be outside of the folder.

    Raises:
        Rejected: the folder does not exist.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        environment: Mapping[str, str] | None = None,
        allows_hard_links: bool = False,
    ) -> None:
        place = Folder(folder, allows_hard_links=allows_hard_links)
        host = os.environ  # noqa: TID251 - a command needs the search path of the host process, and little else
        shell = Shell(place, command_environment(place, host, given=environment or {}))
        marks = Marks(place.path)
        self.path: Final = Path(place.path)
        self._makers: Final = {
            "read_file": lambda: read_file_tool(place, marks),
            "write_file": lambda: write_file_tool(place, marks),
            "glob": lambda: glob_tool(place),
            "grep": lambda: grep_tool(place),
            "bash": lambda: bash_tool(shell),
        }
        self._made: dict[str, Tool[..., object]] = {}

    def tools(self, *names: str) -> list[Tool[..., object]]:
        """Return the tools with these names: read_file, write_file, glob, grep, bash.

        Raises:
            Rejected: a name is unknown, or none was given.
        """
        known = ", ".join(self._makers)
        unknown = [name for name in names if name not in self._makers]
        if unknown or not names:
            raise wrong(f"a workspace has the tools {known}; found {', '.join(unknown) or 'no name'}")
        return [self._tool(name) for name in names]

    def _tool(self, name: str) -> Tool[..., object]:
        # Created once, so that all agents share one write lock.
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]
