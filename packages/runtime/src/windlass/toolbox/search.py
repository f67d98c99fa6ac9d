"""glob and grep: path patterns and regular expressions, in linear time."""

import os
import re
from collections.abc import Callable
from dataclasses import field
from fnmatch import translate
from functools import partial
from itertools import product
from typing import Annotated, Final

from pydantic import Field

from windlass.limits import PATTERN_CHARS_MAX
from windlass.toolbox.folder import FindFolder, Folder, Kind, PathTarget, Search, shown_path
from windlass.toolbox.limits import (
    GLOB_CHARS_MAX,
    GLOB_CHOICES_MAX,
    GLOB_PARTS_MAX,
    GREP_BYTES_MAX,
    GREP_CONTEXT_LINES_MAX,
    GREP_FILE_BYTES_MAX,
    GREP_LINE_CHARS_MAX,
    GREP_SHOWN_CHARS_MAX,
    GREP_WEIGHT_MAX,
    SEARCH_TIMEOUT_MS,
    WALK_ENTRIES_MAX,
)
from windlass.toolbox.read import FolderListing, PathText, asks_for_secrets, check_secret, encoding_of
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.calling import in_thread
from windlass.tools.context import ToolContext
from windlass.tools.json_schema import matches, pattern_problem, weight
from windlass_harness.shell.credentials import is_secret
from windlass_protocol.frozen import mutable, sealed

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_Part = re.Pattern[str] | None
"""None is `**`: any number of folders."""


@sealed
class PathPattern:
    """A path pattern; one without a slash matches the last name alone."""

    choices: tuple[tuple[_Part, ...], ...]

    def matches(self, path: str) -> bool:
        """Whether a relative path with slashes matches."""
        names = path.split("/")
        return any(_matches(choice, names) for choice in self.choices)


def path_pattern(text: str) -> PathPattern:
    """Parse a pattern.

    Raises:
        ToolFailed: it is too long, or has too many parts or alternatives.
    """
    if len(text) > GLOB_CHARS_MAX:
        raise ToolFailed(f"the pattern is too long: {len(text):,} characters, limit {GLOB_CHARS_MAX:,}")
    if text.startswith("/") or ".." in text.split("/"):
        raise ToolFailed("the pattern is relative to `path`: leave out the slash at its beginning and `..`")
    return PathPattern(tuple(_parts(choice) for choice in _choices(text)))


def _choices(text: str) -> list[str]:
    pieces = _BRACES.split(text)
    # Every second piece was inside braces.
    options = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    count = 1
    for option in options:
        count *= len(option)
    if count > GLOB_CHOICES_MAX:
        raise ToolFailed(f"the braces of the pattern make {count:,} patterns, limit {GLOB_CHOICES_MAX}")
    return ["".join(choice) for choice in product(*options)]


def _parts(text: str) -> tuple[_Part, ...]:
    names = [name for name in text.split("/") if name not in {"", "."}]
    if len(names) > GLOB_PARTS_MAX:
        raise ToolFailed(f"the pattern has {len(names):,} parts, limit {GLOB_PARTS_MAX}")
    if len(names) == 1:
        names.insert(0, "**")
    # Each star of a name matches as early as possible, without backtracking: see fnmatch.translate.
    return tuple(None if name == "**" else re.compile(translate(name)) for name in names)


def _matches(parts: tuple[_Part, ...], names: list[str]) -> bool:
    """Match all alternatives of a pattern at once: the steps are names times parts."""
    reached = _with_skips({0}, parts)
    for name in names:
        after: set[int] = set()
        for at in reached:
            if at == len(parts):
                continue
            part = parts[at]
            if part is None:
                after.add(at)
            elif part.match(name):
                after.add(at + 1)
        reached = _with_skips(after, parts)
        if not reached:
            return False
    return len(parts) in reached


def _with_skips(places: set[int], parts: tuple[_Part, ...]) -> set[int]:
    """Add the states after a `**` that matches nothing."""
    skipped = set(places)
    for at in sorted(places):
        while at < len(parts) and parts[at] is None:
            at += 1
            skipped.add(at)
    return skipped


def glob_tool(folder_of: FindFolder) -> Tool[..., object]:
    """Return the tool that finds files of a folder by their names."""

    @tool(mode="read", timeout=SEARCH_TIMEOUT_MS / 1_000)
    async def glob(
        pattern: Annotated[str, Field(min_length=1)], ctx: ToolContext, path: PathText = "."
    ) -> str:
        """Find files by their paths.

        Folders of version control and of installed packages are left out.

        Args:
            pattern: Like `*.py` (anywhere), `src/**/*.ts` or `**/test_*.{py,ts}`; relative to `path`.
            path: The folder to search, relative to the workspace.
        """
        folder = await folder_of(ctx)
        return await in_thread(
            partial(find, folder, path, pattern=pattern, is_cancelled=lambda: ctx.is_cancelled)
        )

    return glob.with_options(is_outbound=False, reads="untrusted")


def find(folder: Folder, path: str, *, pattern: str, is_cancelled: Callable[[], bool]) -> str:
    """Return the matching paths, one on a line; folders end with a slash."""
    pattern_match, listing, search = path_pattern(pattern), FolderListing(), Search(is_cancelled)
    with folder.walk(path) as place:
        if not place.is_folder:
            raise ToolFailed(f"{shown_path(path)} is not a folder; glob searches folders")
        start = len(place.path) + 1 if place.path else 0
        for entry in search.entries(place):
            if pattern_match.matches(entry.path[start:]):
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


@sealed
class Query:
    """A checked search: the patterns and the options."""

    pattern: str
    files: PathPattern | None = None
    context: int = 0


def grep_tool(folder_of: FindFolder) -> Tool[..., object]:
    """Return the tool that searches the text of a folder's files."""

    @tool(mode="read", timeout=SEARCH_TIMEOUT_MS / 1_000, approval=asks_for_secrets)
    async def grep(
        pattern: Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)],
        ctx: ToolContext,
        path: PathText = ".",
        files: str | None = None,
        ignore_case: bool = False,
        context: Annotated[int, Field(ge=0, le=GREP_CONTEXT_LINES_MAX)] = 0,
    ) -> str:
        """Search text files for lines that match; each is shown as path:line: text.

        Files with names of credentials are left out, unless `path` names one, and a person consents.

        Args:
            pattern: A regular expression without look-around and back-references, matched line by line.
            path: The folder or file to search, relative to the workspace.
            files: Only files that this glob pattern means, like `*.py`.
            ignore_case: Whether small and capital letters are the same.
            context: How many lines to show before and after each match.
        """
        query = query_of(pattern, files, ignore_case=ignore_case, context=context)
        folder = await folder_of(ctx)
        return await in_thread(
            partial(search, folder, path, query=query, is_cancelled=lambda: ctx.is_cancelled)
        )

    return grep.with_options(is_outbound=False, reads="untrusted")


def query_of(pattern: str, files: str | None = None, *, ignore_case: bool = False, context: int = 0) -> Query:
    """Check the arguments of a search.

    Raises:
        ToolFailed: a pattern is not valid.
    """
    text = f"(?i){pattern}" if ignore_case else pattern
    problem = pattern_problem(text)
    if problem is None and weight(text) > GREP_WEIGHT_MAX:
        problem = f"a pattern repeats too much: limit {GREP_WEIGHT_MAX:,} pieces"
    if problem is not None:
        raise ToolFailed(
            f"{problem}; to find a text as it is, write a backslash before . * + ? ( ) [ ] {{ }} | ^ $"
        )
    return Query(text, None if files is None else path_pattern(files), context)


def search(folder: Folder, path: str, *, query: Query, is_cancelled: Callable[[], bool]) -> str:
    """Return the lines that match."""
    matches = _Found(folder, query, is_cancelled)
    walk = Search(is_cancelled)
    with folder.walk(path) as place:
        check_secret(path, place.path)
        if not place.is_folder:
            handle = folder.open_file(place)
            matches.file(handle, place.path)
        else:
            has_consent = is_secret(path)
            start = len(place.path) + 1 if place.path else 0
            for entry in walk.entries(place):
                is_wanted = query.files is None or query.files.matches(entry.path[start:])
                if entry.kind is not Kind.FILE or not is_wanted:
                    continue
                if is_secret(entry.path) and not has_consent:
                    matches.left_out += 1
                else:
                    matches.entry(entry.parent, entry.name, entry.path)
                if matches.is_done:
                    break
    return matches.text(walk)


@mutable
class _Found:
    """The matches of one search."""

    folder: Folder
    query: Query
    is_cancelled: Callable[[], bool]
    listing: FolderListing = field(default_factory=FolderListing)
    read: int = 0
    skipped: int = 0
    left_out: int = 0
    matched: int = 0

    @property
    def is_done(self) -> bool:
        return self.listing.is_full or self.read > GREP_BYTES_MAX

    def entry(self, parent: int, name: str, path: str) -> None:
        """Search a file of a walk; a file that cannot be opened is counted."""
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            handle = self.folder.open_file(PathTarget(parent, name, path, status))
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
            lines.pop()  # there is no line after the last line end
        shown = -2  # the last line that was shown; never adjacent to the first
        to_show = -1  # the last context line of the previous match
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
        notes: list[str] = []
        if not self.matched:
            notes.append("nothing matches")
        if self.listing.is_full:
            notes.append("there are more matches; use a narrower pattern or path")
        if self.skipped:
            notes.append(f"{self.skipped:,} files were not searched: too large, or not to be opened")
        if self.left_out:
            notes.append(
                f"{self.left_out:,} files with names of credentials were left out: "
                "name one as `path`, so that a person is asked"
            )
        if walk.is_cut or self.read > GREP_BYTES_MAX:
            limit = f"{WALK_ENTRIES_MAX:,} entries and {GREP_BYTES_MAX:,} bytes"
            notes.append(f"the search ended at its limit of {limit}: search a smaller folder")
        return self.listing.text(*notes)
