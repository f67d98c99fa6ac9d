"""`agent.chat.*` and `agent.input.*`: durable chats, and what people answer."""

import logging
from typing import Final

from pydantic import JsonValue

from windlass_protocol import JsonObject
from windlass_sidecar.app import App
from windlass_sidecar.asking import Answer
from windlass_sidecar.chat_params import ChatStream
from windlass_sidecar.errors import not_found
from windlass_sidecar.methods.sessions import set_active
from windlass_sidecar.params import Name, Params
from windlass_sidecar.rpc import Later, Method, method

_LOG: Final = logging.getLogger(__name__)


class ChatCancel(Params):
    """Which stream."""

    stream_id: Name


class InputAnswer(Answer):
    """An answer that comes by itself, not as that to `host.input.request`."""

    stream_id: Name
    request_id: Name


async def stream(app: App, params: ChatStream) -> Later:
    """Start a run and tell of it, once the host knows its id."""
    session_id = params.session_id
    known = app.streams.reserve(params.stream_id or app.new_id())
    handle = await app.streams.begin(known, params, owners=lambda: _owners(app, session_id))
    await _note(app, session_id, is_active=True)

    async def ended() -> None:
        await _note(app, session_id, is_active=False)

    return Later({"streamId": handle.run_id}, lambda: app.streams.tell(known, ended))


async def _note(app: App, session_id: str | None, *, is_active: bool) -> None:
    """Note whether a session is at work; the stream does not fail with it."""
    if session_id is None:
        return
    try:
        await set_active(app, session_id, is_active=is_active)
    except Exception as error:  # noqa: BLE001 - the run is durable and must be told to its end
        _LOG.error("a session cannot be marked: %s", type(error).__name__)


async def _owners(app: App, session_id: str | None) -> JsonObject:
    """Whose run it is, if the host keeps its sessions here."""
    session = None if session_id is None else await (await app.storage()).get_session(session_id)
    return {} if session is None else {"chatId": session.chat_id, "userId": session.user_id}


async def cancel(app: App, params: ChatCancel) -> JsonValue:
    """Ask a stream to end; it says so when it has."""
    if params.stream_id not in app.streams:
        await _known(app, params.stream_id)
    await app.streams.cancel(params.stream_id)
    return None


async def answer(app: App, params: InputAnswer) -> JsonValue:
    """Answer what a run asks people."""
    await _known(app, params.stream_id)
    handle = app.runtime.handle(params.stream_id)
    await handle.answer(params.request_id, params.option_id, text=params.text, responder=params.responder)
    return None


async def _known(app: App, stream_id: str) -> None:
    if await app.store.run(stream_id) is None:
        raise not_found("there is no such stream")


METHODS: Final[tuple[Method[App], ...]] = (
    method("agent.chat.stream", ChatStream, run=stream),
    method("agent.chat.cancel", ChatCancel, run=cancel, is_urgent=True),
    method("agent.input.answer", InputAnswer, run=answer, is_urgent=True),
)
