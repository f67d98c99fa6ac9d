"""glob: the paths that a pattern means."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from pydantic import Field

from windlass.tool_context import ToolContext
from windlass.tool_thread import in_thread
from windlass.toolbox.folder import Folder
from windlass.toolbox.limits import SEARCH_TIMEOUT_MS, WALK_ENTRIES_MAX
from windlass.toolbox.output import Listing
from windlass.toolbox.paths import shown_path
from windlass.toolbox.patterns import path_pattern
from windlass.toolbox.reading import PathText
from windlass.toolbox.walking import Kind, Search
from windlass.tools import Tool, ToolFailed, tool


def glob_tool(folder: Folder) -> Tool[..., object]:
    """Return the tool that finds files of a folder by their names."""

    @tool(mode="read", is_outbound=False, reads="untrusted", timeout_ms=SEARCH_TIMEOUT_MS)
    async def glob(
        pattern: Annotated[str, Field(min_length=1)], ctx: ToolContext, path: PathText = "."
    ) -> str:
        """Find files by their paths.

        Folders of version control and of installed packages are left out.

        Args:
            pattern: Like `*.py` (anywhere), `src/**/*.ts` or `**/test_*.{py,ts}`; relative to `path`.
            path: The folder to search, relative to the workspace.
        """
        return await in_thread(
            partial(find, folder, path, pattern=pattern, is_cancelled=lambda: ctx.is_cancelled)
        )

    return glob


def find(folder: Folder, path: str, *, pattern: str, is_cancelled: Callable[[], bool]) -> str:
    """Return the paths that a pattern means, one on a line; folders end with a slash."""
    wanted, listing, search = path_pattern(pattern), Listing(), Search(is_cancelled)
    with folder.walk(path) as place:
        if not place.is_folder:
            raise ToolFailed(f"{shown_path(path)} is not a folder; glob searches folders")
        start = len(place.path) + 1 if place.path else 0
        for entry in search.entries(place):
            if wanted.matches(entry.path[start:]):
                listing.add(entry.path + ("/" if entry.kind is Kind.FOLDER else ""))
            if listing.is_full:
                break
    return listing.text(
        "" if len(listing) else "nothing matches",
        "there are more paths; use a narrower pattern or path" if listing.is_full else "",
        f"the search ended at its limit of {WALK_ENTRIES_MAX:,} entries: search a smaller folder"
        if search.is_cut
        else "",
    )
