"""Contents: what is too large for a record, kept by its hash for one session."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Response

from windlass_protocol import ContentRef
from windlass_server import examples
from windlass_server.access import CallerDep, own_history
from windlass_server.docs import answers, reply
from windlass_server.guard import PREFIX
from windlass_server.models import ContentList
from windlass_server.problems import not_found
from windlass_server.routes.sessions import SessionId

router = APIRouter(prefix=PREFIX, tags=["contents"])
ContentHash = Annotated[
    str,
    Path(pattern=r"^sha256:[0-9a-f]{64}$", description="The hash of a content.", examples=["sha256:4be1…"]),
]
BYTES: Final = "application/octet-stream"
_PLAIN: Final = frozenset(
    {
        "application/json",
        "application/pdf",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/plain",
    }
)
"""What is sent as what it is; a browser saves it all the same."""
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, max-age=31536000, immutable",
}


@router.get(
    "/sessions/{session_id:path}/contents",
    response_model=ContentList,
    responses=answers(200, {"contents": [examples.CONTENT]}, 404),
    summary="What a session keeps beside its records",
)
async def contents(caller: CallerDep, session_id: SessionId) -> Response:
    """Return the contents of a session: results that are too large for a record."""
    await own_history(caller, session_id)
    return reply(ContentList(contents=await caller.tenant.store.contents_of(session_id)))


@router.get(
    "/sessions/{session_id:path}/contents/{content_hash}",
    response_class=Response,
    responses=answers(200, "…", 404, media_type=BYTES),
    summary="A content",
)
async def content(*, caller: CallerDep, session_id: SessionId, content_hash: ContentHash) -> Response:
    """Send a content as it is, to be saved: no browser shows or runs it.

    A record or a message refers to it by its hash.
    """
    await own_history(caller, session_id)
    found = await caller.tenant.store.contents_of(session_id)
    ref = next((one for one in found if one.hash == content_hash), None)
    store = caller.tenant.runtime.ports.content
    assert store is not None, "it was opened with one"
    if ref is None:
        raise not_found("content")
    kind, _, _ = (ref.media_type or BYTES).partition(";")
    headers = {**_HEADERS, "content-disposition": f'attachment; filename="{_name(ref)}"'}
    return Response(await store.get(ref), media_type=kind if kind in _PLAIN else BYTES, headers=headers)


def _name(ref: ContentRef) -> str:
    """A name for the file; nothing that anybody wrote is in it."""
    kind = (ref.media_type or "").partition(";")[0]
    ending = {"application/json": "json", "text/plain": "txt", "application/pdf": "pdf"}.get(kind)
    ending = ending or (kind.removeprefix("image/") if kind in _PLAIN else "bin")
    return f"{ref.hash.removeprefix('sha256:')[:16]}.{ending}"
