"""The inspector: the files of the web app, which this package contains."""

import asyncio
from dataclasses import field
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass_protocol.frozen import sealed
from windlass_server.requests import PREFIX, PREFIXES
from windlass_server.routing import StaticBody, static_body

FOLDER: Final = Path(__file__).with_name("inspector") / "dist"
"""The output of `make inspector`; it is in wheels, and not in the repository."""
NOT_BUILT: Final = (
    "The inspector is not part of this installation.\n\n"
    "In a checkout:  make inspector, then install packages/server again and start the server.\n"
    "It needs Node 20.19 or newer, once; the wheels that  make wheels  makes have it inside.\n\n"
    f"The server itself works without it: see {PREFIX}/openapi.json and docs/server.md.\n"
)
_HASHED: Final = "/assets/"
"""Files below have a digest in their name, so they never change."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def _stamp(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_mtime_ns, state.st_size


@sealed
class _LoadedFile:
    stamp: tuple[int, int]
    """Time and size of the file when it was read: it is read again when they change."""
    body: StaticBody


def _load(file: Path) -> _LoadedFile:
    stamp, media_type = _stamp(file), guess_type(file.name)[0] or "application/octet-stream"
    return _LoadedFile(stamp, static_body(file.read_bytes(), media_type))


@sealed
class Pages:
    """Answers requests that no route matches: a file of the app, its first page, or `otherwise`.

    The app needs no credentials: it contains no data, and reads all of it from the routes.
    """

    otherwise: ASGIApp
    folder: Path = field(default_factory=lambda: FOLDER)
    _loaded: dict[Path, _LoadedFile] = field(default_factory=dict[Path, _LoadedFile])
    """Files that were sent; the folder has few."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        response = await self._answer(scope) if scope["type"] == "http" else None
        await (response or self.otherwise)(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        is_ours = f"{path}/".startswith(PREFIXES)
        # The addresses of its files begin at the root.
        is_mounted = bool(scope.get("app_root_path"))
        if is_ours or is_mounted or scope["method"] not in {"GET", "HEAD"}:
            return None
        file = self._file(path)
        if file is not None:
            cache = "public, max-age=31536000, immutable" if path.startswith(_HASHED) else "no-cache"
            return (await self._load_body(file)).response(scope, {**_HEADERS, "cache-control": cache})
        if not _wants_page(scope):
            return None
        first = self.folder / "index.html"
        if first.is_file():
            return (await self._load_body(first)).response(scope, {**_HEADERS, "cache-control": "no-cache"})
        return PlainTextResponse(NOT_BUILT, 404, {**_HEADERS, "cache-control": "no-cache"})

    async def _load_body(self, file: Path) -> StaticBody:
        loaded = self._loaded.get(file)
        if loaded is None or loaded.stamp != _stamp(file):
            loaded = self._loaded[file] = await asyncio.to_thread(_load, file)
        return loaded.body

    def _file(self, path: str) -> Path | None:
        """Return a file of the app; None for a path that leaves its folder."""
        if "\0" in path or "\\" in path:
            return None
        try:
            file = (self.folder / path.lstrip("/")).resolve()
            is_inside = file.is_relative_to(self.folder.resolve())
            return file if is_inside and file.is_file() else None
        except OSError:
            return None  # the file system refuses the name


def _wants_page(scope: Scope) -> bool:
    """Whether a browser navigates there: the app routes by the address."""
    return scope["path"] == "/" or "text/html" in Headers(scope=scope).get("accept", "")
