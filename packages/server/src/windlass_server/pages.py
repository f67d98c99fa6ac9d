"""The inspector: a web app inside this package, sent to browsers as files."""

from dataclasses import dataclass, field
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass_server.guard import PREFIX

FOLDER: Final = Path(__file__).with_name("inspector") / "dist"
"""Where `make inspector` puts the app; it is in wheels, and not in the repository."""
NOT_BUILT: Final = (
    "The inspector is not built in this checkout.\n\n"
    "Build it with:  make inspector\n"
    "and start the server again. It needs Node 20.19 or newer, once; a wheel has it inside.\n\n"
    f"The server itself works without it: see {PREFIX}/openapi.json and docs/server.md.\n"
)
_HASHED: Final = "/assets/"
"""Files below have a digest in their name: what is there never changes."""
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


@dataclass(frozen=True, slots=True)
class Pages:
    """Answers what no route does: a file of the app, its first page, or `otherwise`.

    Anybody gets the app: it holds nothing of anybody, and asks the routes for all that it shows.
    """

    otherwise: ASGIApp
    folder: Path = field(default_factory=lambda: FOLDER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        found = self._answer(scope) if scope["type"] == "http" else None
        await (found or self.otherwise)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        is_ours = path == PREFIX or path.startswith(f"{PREFIX}/")
        if is_ours or scope["method"] not in {"GET", "HEAD"}:
            return None
        file = self._file(path)
        if file is not None:
            cache = "public, max-age=31536000, immutable" if path.startswith(_HASHED) else "no-cache"
            media_type = guess_type(file.name)[0] or "application/octet-stream"
            return FileResponse(file, media_type=media_type, headers={**_HEADERS, "cache-control": cache})
        if not _wants_page(scope):
            return None
        first = self.folder / "index.html"
        headers = {**_HEADERS, "cache-control": "no-cache"}
        if first.is_file():
            return FileResponse(first, media_type="text/html", headers=headers)
        return PlainTextResponse(NOT_BUILT, 404, headers)

    def _file(self, path: str) -> Path | None:
        """Return a file of the app; a name that leads out of its folder is none."""
        if "\0" in path or "\\" in path:
            return None
        file = (self.folder / path.lstrip("/")).resolve()
        is_inside = file.is_relative_to(self.folder.resolve())
        return file if is_inside and file.is_file() else None


def _wants_page(scope: Scope) -> bool:
    """Whether a browser goes there: the app finds its way by the address."""
    return scope["path"] == "/" or "text/html" in Headers(scope=scope).get("accept", "")
