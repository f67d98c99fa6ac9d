"""grep: the lines that a regular expression matches, in linear time.

The expressions are those of `windlass.json_schema`, which never go back. What is searched of a line is
bounded, so the time of one match is; between two of them a search can be stopped.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from pydantic import Field

from windlass.json_schema import matches, pattern_problem, weight
from windlass.limits import PATTERN_CHARS_MAX
from windlass.tool_context import ToolContext
from windlass.tool_thread import in_thread
from windlass.toolbox.folder import Folder, Place
from windlass.toolbox.limits import (
    GREP_BYTES_MAX,
    GREP_CONTEXT_LINES_MAX,
    GREP_FILE_BYTES_MAX,
    GREP_LINE_CHARS_MAX,
    GREP_SHOWN_CHARS_MAX,
    GREP_WEIGHT_MAX,
    SEARCH_TIMEOUT_MS,
    WALK_ENTRIES_MAX,
)
from windlass.toolbox.lines import encoding_of
from windlass.toolbox.output import Listing
from windlass.toolbox.patterns import PathPattern, path_pattern
from windlass.toolbox.reading import PathText
from windlass.toolbox.walking import Kind, Search
from windlass.tools import Tool, ToolFailed, tool


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, and where."""

    pattern: str
    files: PathPattern | None = None
    context: int = 0


def grep_tool(folder: Folder) -> Tool[..., object]:
    """Return the tool that searches the text of a folder's files."""

    @tool(mode="read", is_outbound=False, reads="untrusted", timeout_ms=SEARCH_TIMEOUT_MS)
    async def grep(
        pattern: Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)],
        ctx: ToolContext,
        path: PathText = ".",
        files: str | None = None,
        ignore_case: bool = False,
        context: Annotated[int, Field(ge=0, le=GREP_CONTEXT_LINES_MAX)] = 0,
    ) -> str:
        """Search text files for lines that match; each is shown as path:line: text.

        Args:
            pattern: A regular expression without look-around and back-references, matched line by line.
            path: The folder or file to search, relative to the workspace.
            files: Only files that this glob pattern means, like `*.py`.
            ignore_case: Whether small and capital letters are the same.
            context: How many lines to show before and after each match.
        """
        query = query_of(pattern, files, ignore_case=ignore_case, context=context)
        return await in_thread(
            partial(search, folder, path, query=query, is_cancelled=lambda: ctx.is_cancelled)
        )

    return grep


def query_of(pattern: str, files: str | None = None, *, ignore_case: bool = False, context: int = 0) -> Query:
    """Check what a model asks for.

    Raises:
        ToolFailed: a pattern cannot be used.
    """
    text = f"(?i){pattern}" if ignore_case else pattern
    problem = pattern_problem(text)
    if problem is None and weight(text) > GREP_WEIGHT_MAX:
        problem = f"a pattern repeats too much: over the limit of {GREP_WEIGHT_MAX:,} pieces"
    if problem is not None:
        raise ToolFailed(
            f"{problem}; to find a text as it is, write a backslash before . * + ? ( ) [ ] {{ }} | ^ $"
        )
    return Query(text, None if files is None else path_pattern(files), context)


def search(folder: Folder, path: str, *, query: Query, is_cancelled: Callable[[], bool]) -> str:
    """Return the lines that match."""
    found = _Found(folder, query, is_cancelled)
    walk = Search(is_cancelled)
    with folder.walk(path) as place:
        if not place.is_folder:
            handle = folder.open_file(place)
            found.file(handle, place.path)
        else:
            start = len(place.path) + 1 if place.path else 0
            for entry in walk.entries(place):
                is_wanted = query.files is None or query.files.matches(entry.path[start:])
                if entry.kind is Kind.FILE and is_wanted:
                    found.entry(entry.parent, entry.name, entry.path)
                if found.is_done:
                    break
    return found.text(walk)


@dataclass(slots=True)
class _Found:
    """The matches of one search."""

    folder: Folder
    query: Query
    is_cancelled: Callable[[], bool]
    listing: Listing = field(default_factory=Listing)
    read: int = 0
    skipped: int = 0
    matched: int = 0

    @property
    def is_done(self) -> bool:
        return self.listing.is_full or self.read > GREP_BYTES_MAX

    def entry(self, parent: int, name: str, path: str) -> None:
        """Search a file that a walk came by; one that cannot be opened is counted."""
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            handle = self.folder.open_file(Place(parent, name, path, status))
        except (OSError, ToolFailed):
            self.skipped += 1
            return
        self.file(handle, path)

    def file(self, handle: int, path: str) -> None:
        """Search a file and close it."""
        with os.fdopen(handle, "rb") as file:
            body = file.read(GREP_FILE_BYTES_MAX + 1)
        self.read += len(body)
        encoding = encoding_of(body)
        if len(body) > GREP_FILE_BYTES_MAX:
            self.skipped += 1
        elif encoding is not None:
            self._lines(body.decode(encoding, "replace").split("\n"), path)

    def _lines(self, lines: list[str], path: str) -> None:
        context = self.query.context
        if not lines[-1]:
            lines.pop()  # what is behind the last line end is no line
        shown = -2  # the last line that was shown; never the neighbour of the first
        to_show = -1  # the last line that the match before wants to have shown
        for at, line in enumerate(lines):
            if self.is_cancelled():
                raise ToolFailed("the search was stopped")
            if matches(self.query.pattern, line[:GREP_LINE_CHARS_MAX].removesuffix("\r")):
                first = max(at - context, shown + 1, 0)
                if context and self.matched and first != shown + 1:
                    self.listing.add("--")
                for near in range(first, at):
                    self._show(path, near, lines[near], mark="-")
                self._show(path, at, line, mark=":")
                self.matched += 1
                shown, to_show = at, at + context
            elif at <= to_show:
                self._show(path, at, line, mark="-")
                shown = at
            if self.listing.is_full:
                return

    def _show(self, path: str, at: int, line: str, *, mark: str) -> None:
        line = line.removesuffix("\r")
        if len(line) > GREP_SHOWN_CHARS_MAX:
            line = f"{line[:GREP_SHOWN_CHARS_MAX]} [… {len(line) - GREP_SHOWN_CHARS_MAX:,} characters]"
        self.listing.add(f"{path}{mark}{at + 1}{mark} {line}")

    def text(self, walk: Search) -> str:
        """Return what to show."""
        notes: list[str] = []
        if not self.matched:
            notes.append("nothing matches")
        if self.listing.is_full:
            notes.append("there are more matches; use a narrower pattern or path")
        if self.skipped:
            notes.append(f"{self.skipped:,} files were not searched: too large, or not to be opened")
        if walk.is_cut or self.read > GREP_BYTES_MAX:
            limit = f"{WALK_ENTRIES_MAX:,} entries and {GREP_BYTES_MAX:,} bytes"
            notes.append(f"the search ended at its limit of {limit}: search a smaller folder")
        return self.listing.text(*notes)
