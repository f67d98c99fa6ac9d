"""send_files and fetch_files: files between the sandboxes of agents that work together."""

from typing import Annotated

from pydantic import Field

from windlass.errors import AgentError
from windlass.ports.sandbox import SandboxAccess, SandboxFailed
from windlass.toolbox.folder import parts_of
from windlass.toolbox.limits import SENT_FILES_MAX
from windlass.toolbox.protected import names_protected
from windlass.toolbox.read import PathText, asks_for_secrets
from windlass.toolbox.shell import ToolPlace
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass_protocol import JsonObject

_Paths = Annotated[list[PathText], Field(min_length=1, max_length=SENT_FILES_MAX)]
_Files = Annotated[dict[PathText, str], Field(min_length=1, max_length=SENT_FILES_MAX)]


def send_files_tool(place: ToolPlace) -> Tool[..., object]:
    """Return the tool that hands files over."""

    @tool(mode="read", approval=asks_for_secrets)
    async def send_files(paths: _Paths, ctx: ToolContext) -> dict[str, str]:
        """Hand files of the workspace over to another agent, which has a workspace of its own.

        The result has an id for each path: tell the other agent the ids, it gets the files with fetch_files.

        Args:
            paths: The files, relative to the workspace.
        """
        own, sandbox = _own(ctx), await place.sandbox(ctx)
        try:
            return {path: await own.send(sandbox, _inside(path)) for path in paths}
        except (SandboxFailed, AgentError) as error:
            raise ToolFailed(str(error)) from None

    return send_files.with_options(is_outbound=False)


def fetch_files_tool(place: ToolPlace) -> Tool[..., object]:
    """Return the tool that gets files that were handed over."""

    def asks(arguments: JsonObject) -> str:
        files = arguments.get("files")
        paths = files if isinstance(files, dict) else {}
        return "always" if any(map(names_protected, paths)) else "policy"

    @tool(mode="safe_write", effect="idempotent", approval=asks)
    async def fetch_files(files: _Files, ctx: ToolContext) -> str:
        """Get files that another agent has handed over with send_files.

        Args:
            files: The id of each file, by the path that it gets in the workspace.
        """
        own, sandbox = _own(ctx), await place.sandbox(ctx)
        try:
            sizes = [await own.fetch(sandbox, own_path, _inside(path)) for path, own_path in files.items()]
        except SandboxFailed as error:
            raise ToolFailed(str(error)) from None
        return f"got {len(sizes):,} files, {sum(sizes):,} bytes"

    return fetch_files.with_options(is_outbound=False, reads="untrusted")


def _own(ctx: ToolContext) -> SandboxAccess:
    if ctx.sandbox is None:
        raise ToolFailed("files are handed over between sandboxes, and this agent has none")
    return ctx.sandbox


def _inside(path: str) -> str:
    """Return a path relative to the folder."""
    parts = parts_of(path, "/workspace")
    if ".." in parts or not parts:
        raise ToolFailed("the path must name a file in the workspace, without `..`")
    return "/".join(parts)
