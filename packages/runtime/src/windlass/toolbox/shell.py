"""bash: one command with bounded output, in the sandbox of the session.

All processes of the command are ended when it ends, when its timeout is over, or when the call is cancelled.
Without a sandbox, a command can do everything that the user of the process can. A command that is graded safe
is checked against the folder right before it runs: see `text_to_run`.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, JsonValue

from windlass.ports.sandbox import Sandbox, SandboxFailed
from windlass.sandboxes.none import HostSandbox
from windlass.toolbox.folder import Folder, shown_path
from windlass.toolbox.limits import (
    COMMAND_CHARS_MAX,
    COMMAND_TIMEOUT_S,
    COMMAND_TIMEOUT_S_MAX,
    OUTPUT_BYTES_MAX,
    OUTPUT_LINES_MAX,
    PATTERN_FOLDERS_MAX,
    PATTERN_NAMES_MAX,
    PROGRESS_CHARS_MAX,
    PROGRESS_INTERVAL_S,
    SEARCHED_NAMES_MAX,
    SECRET_NAMES_MAX,
)
from windlass.toolbox.repository import begins_above, stray_place
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.calling import in_thread
from windlass.tools.context import ToolContext
from windlass_harness.shell.credentials import is_secret
from windlass_harness.shell.reads import read_of

_HALF_BYTES: Final = OUTPUT_BYTES_MAX // 2
_HALF_LINES: Final = OUTPUT_LINES_MAX // 2


class Streamed:
    """The output of a command: its head and its tail, with live progress."""

    def __init__(self, report: Callable[[object], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._reported_at = float("-inf")

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk."""
        self._size += len(chunk)
        room = _HALF_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        if len(self._tail) > 2 * _HALF_BYTES:
            del self._tail[:-_HALF_BYTES]
        now = self._now()
        if now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._report({"output": _decode(chunk[-PROGRESS_CHARS_MAX:]), "bytes": self._size})

    def text(self) -> str:
        """Return the output, or its head and tail with a note about the gap."""
        tail = self._tail[-_HALF_BYTES:]
        if len(self._head) + len(tail) == self._size:
            lines = _decode(bytes(self._head + tail)).split("\n")
            if len(lines) <= OUTPUT_LINES_MAX:
                return "\n".join(lines)
            first, last = lines, lines
        else:
            # Cut at line ends: half a line could hold half a secret, which redaction would not recognise.
            first = _decode(bytes(self._head.rpartition(b"\n")[0] or self._head)).split("\n")
            last = _decode(bytes(tail.partition(b"\n")[2] or tail)).split("\n")
        gap = f"[… the middle is left out: {self._size:,} bytes in all …]"
        return "\n".join([*first[:_HALF_LINES], gap, *last[-_HALF_LINES:]])


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class ToolPlace:
    """Where the tools of a workspace work: in its folder, or in that of the session's sandbox.

    If the agent has a sandbox, commands run in it and nowhere else.
    """

    def __init__(self, folder: Folder | None, *, allows_hard_links: bool) -> None:
        self._folder = folder
        self._allows_hard_links = allows_hard_links
        self._last: Folder | None = None

    async def folder(self, ctx: ToolContext) -> Folder:
        """Return the folder that a call works in.

        Raises:
            ToolFailed: there is none.
        """
        if self._folder is not None:
            return self._folder
        path = (await self.sandbox(ctx)).folder
        if self._last is None or self._last.path != str(path):
            self._last = Folder(path, allows_hard_links=self._allows_hard_links)
        return self._last

    async def sandbox(self, ctx: ToolContext) -> Sandbox:
        """Return the sandbox that a call works in.

        Raises:
            ToolFailed: there is none.
        """
        path = None
        if self._folder is not None:
            # Checked once more: commands use its path, and it may have been replaced.
            os.close(self._folder.open_root())
            path = Path(self._folder.path)
        if ctx.sandbox is not None:
            try:
                return await ctx.sandbox.open(path)
            except SandboxFailed as error:
                raise ToolFailed(str(error)) from None
        if path is None:
            raise ToolFailed("this workspace has no folder; its agent needs a sandbox")
        return HostSandbox(path)


def bash_tool(place: ToolPlace, environment: Mapping[str, str]) -> Tool[..., object]:
    """Return the tool that runs commands in a folder, with variables of the host application."""
    # With it, programs take options after an operand for files: those that leave out credentials, too.
    environment = {name: value for name, value in environment.items() if name != "POSIXLY_CORRECT"}

    # A little longer than the longest command: the command's own timeout comes first and keeps the output.
    @tool(mode="local", effect="once", timeout=COMMAND_TIMEOUT_S_MAX + 30)
    async def bash(
        command: Annotated[str, Field(min_length=1, max_length=COMMAND_CHARS_MAX)],
        ctx: ToolContext,
        timeout_s: Annotated[int, Field(ge=1, le=COMMAND_TIMEOUT_S_MAX)] = COMMAND_TIMEOUT_S,
    ) -> dict[str, JsonValue]:
        """Run a command with bash in the folder of the workspace; standard input is empty.

        Every call starts anew in that folder. Processes left in the background are ended with the command.

        Args:
            command: The command.
            timeout_s: After so many seconds it is ended.
        """
        if "\0" in command:
            raise ToolFailed("the command contains a NUL character; leave it out")
        output = Streamed(ctx.progress, asyncio.get_running_loop().time)
        sandbox = await place.sandbox(ctx)
        text = await in_thread(partial(text_to_run, command, sandbox.folder))
        try:
            ended = await sandbox.run(text, timeout_s=timeout_s, output=output.feed, environment=environment)
        except SandboxFailed as error:
            raise ToolFailed(str(error)) from None
        result: dict[str, JsonValue] = {"exit_code": ended.exit_code, "output": output.text()}
        notes = [
            ended.reason,
            _LEFT_OUT if text != command and "\nleft_out_of_" in text else "",
            _ELSEWHERE if text != command and "(cd / && " in text else "",
        ]
        if any(notes):
            result["note"] = "; ".join(filter(None, notes))
        return result

    return bash.with_options(is_shell=True, reads="untrusted")


_LEFT_OUT: Final = "files with names of credentials are left out; a command that names one asks a person"
_ELSEWHERE: Final = (
    "versions are asked outside of the folder, without its programs, .python-version and the like"
)


_ASK: Final = "name it with git --git-dir, so that a person is asked"


def text_to_run(command: str, folder: Path) -> str:
    """Return the text to run for a command: for one that is graded safe, without files of credentials.

    Raises:
        ToolFailed: a path of it leads to credentials or out of the folder.
    """
    read = read_of(command)
    if read is None:
        return command
    root = os.path.realpath(folder)
    for path in read.paths:
        for base in path.folders:
            for name in _names(path.text, os.path.join(root, base), is_pattern=path.is_pattern):
                written = os.path.join(root, base, name)
                if path.is_late and not os.path.lexists(written):
                    continue
                target = os.path.realpath(written)
                if path.shows_names_only and not os.path.isdir(target):
                    # The link itself is shown.
                    target = os.path.join(os.path.realpath(os.path.dirname(written)), os.path.basename(name))
                inside = os.path.relpath(target, root)
                if target != root and inside.startswith(os.pardir):
                    raise _refusal(name, f"leads to {shown_path(target)}, outside of the workspace")
                # A name of git may be that of a branch: there is no such file.
                if not path.shows_names_only and os.path.lexists(target) and is_secret(inside):
                    raise _refusal(name, f"is {shown_path(inside)}, which has the name of credentials")
    repositories = {os.path.realpath(os.path.join(root, folder)) for folder in read.repositories}
    for repository in repositories:
        stray = stray_place(repository, root, is_secret)
        if stray is not None:
            raise ToolFailed(f"the repository of this folder {stray}; {_ASK}")
    is_below_top = any(begins_above(repository, root) for repository in repositories)
    if is_below_top and read.from_top:
        raise ToolFailed(
            f"the repository of this folder begins above the workspace, and {shown_path(read.from_top[0])} "
            f"names a path from its top: write COMMIT:./PATH for one in this folder; {_ASK}"
        )
    folders = [
        os.path.join(root, base, name)
        for path in read.searches
        for base in path.folders
        for name in _names(path.text, os.path.join(root, base), is_pattern=path.is_pattern)
    ]
    names, has_unseen = _secret_names(folders, root)
    return read.text_without(names, has_unseen=has_unseen, is_below_top=is_below_top)


def _secret_names(folders: list[str], root: str) -> tuple[list[str], bool]:
    """Return the names of files below folders that are, by their paths, those of credentials.

    Also return whether there are too many files to look at each of them.
    """
    names: set[str] = set()
    count = 0
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        for place, below, files in os.walk(folder):
            if ".git" in below:
                below.remove(".git")  # Left out as a whole.
            count += len(files) + 1
            inside = os.path.relpath(place, root)
            names.update(name for name in files if is_secret(os.path.join(inside, name)))
            if len(names) > SECRET_NAMES_MAX:
                raise ToolFailed(
                    f"more than {SECRET_NAMES_MAX:,} names are those of credentials; search further below"
                )
            if count > SEARCHED_NAMES_MAX:
                return sorted(names), True
    return sorted(names), False


def _names(text: str, base: str, *, is_pattern: bool) -> list[str]:
    """Return the names that a path stands for in a folder: all that bash may make of a pattern."""
    if not is_pattern:
        return [text]
    # Quotes are gone, so brackets may be plain characters: their part of the name is taken for anything. A
    # question mark may be one byte of a letter, so it is taken for any number of letters.
    pattern = "/".join("*" if "[" in part else part.replace("?", "*") for part in text.split("/"))
    if sum("*" in part for part in pattern.split("/")) > PATTERN_FOLDERS_MAX:
        raise ToolFailed(f"{shown_path(text)} goes through too many folders; name one of them")
    names = list(islice(iglob(pattern, root_dir=base), PATTERN_NAMES_MAX + 1))
    if len(names) > PATTERN_NAMES_MAX:
        raise ToolFailed(
            f"{shown_path(text)} matches more than {PATTERN_NAMES_MAX:,} names; name fewer files"
        )
    for name in names:
        if name.startswith("-"):
            raise ToolFailed(f"{shown_path(name)} would be read as an option; write ./{text}")
    return names


def _refusal(name: str, why: str) -> ToolFailed:
    return ToolFailed(f"{shown_path(name)} {why}; name that file itself, so that a person is asked")
