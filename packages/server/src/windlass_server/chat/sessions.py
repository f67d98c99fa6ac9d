"""Chats of AG-UI and AI SDK clients: their requests, the sessions they mean, and the runs in them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import Request
from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from windlass import Conflict, Event
from windlass.ports.catalog import RunRow
from windlass.ports.feed import StreamOptions
from windlass_harness.loop.people import APPROVE, APPROVE_SESSION, DENY
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Id, InputKind, InputRequest, InputResponse, JsonObject, RunStatus, UserContent
from windlass_protocol.frozen import mutable, sealed
from windlass_server.chat.run_events import WHOLE, ChatRunFold, Past, View
from windlass_server.generated.bodies import NewSession
from windlass_server.models import RunWishes, Text, WireModel
from windlass_server.problems import Problem, not_found
from windlass_server.requests import Caller, OwnedSession, conflict_error, derive_id, sign_responses, start
from windlass_server.settings import (
    THREAD_ANSWERS_MAX,
    THREAD_GAP_MAX,
    THREAD_MESSAGES_MAX,
    THREAD_REWINDS_MAX,
    THREAD_RUNS_SEARCHED_MAX,
)
from windlass_server.streams import SSE_TYPE, FeedResponse, Frames, Streams, open_feed

_CONTENT: Final[TypeAdapter[UserContent]] = TypeAdapter(UserContent)
_MEDIA: Final = frozenset({"image", "audio", "video", "document", "binary"})
_CONSENTS: Final = {APPROVE: True, APPROVE_SESSION: True, DENY: False}
_NOT_ANSWERED: Final = "The question was not answered."
ANSWER_PART: Final = "data-answer"
"""The part of a message that answers a request without a chunk type of its own."""
Messages = Annotated[
    tuple[JsonObject, ...],
    Field(
        max_length=THREAD_MESSAGES_MAX, description="The messages of the client; only the last one is used."
    ),
]


class Foreign(WireModel):
    """A body of a foreign protocol: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class ResumeEntry(Foreign):
    """An answer to an interrupt."""

    interrupt_id: Id
    status: Literal["resolved", "cancelled"]
    payload: JsonValue = None


class ContextEntry(Foreign):
    """Context for the model."""

    description: Text = ""
    value: Text = ""


class RunAgentInput(Foreign):
    """The body of an AG-UI client: a message, or answers to interrupts."""

    thread_id: Id
    run_id: Id
    protocol_version: Text | None = None
    messages: Messages = ()
    context: Annotated[tuple[ContextEntry, ...], Field(max_length=64)] = ()
    resume: Annotated[tuple[ResumeEntry, ...] | None, Field(max_length=THREAD_ANSWERS_MAX)] = None
    state: JsonValue = None


class ChatRequest(Foreign):
    """The body that `DefaultChatTransport` of the AI SDK sends."""

    id: Id
    messages: Annotated[Messages, Field(min_length=1)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: Annotated[Id | None, Field(description="The message to regenerate.")] = None


@sealed
class ClientAnswer:
    """An answer of a client to a request."""

    request_id: str
    option_id: str | None = None
    text: str | None = None
    approved: bool | None = None
    arguments_hash: str | None = None
    is_abandoned: bool = False

    def response(self, request: InputRequest) -> InputResponse:
        """Return the answer in the form of the runtime."""
        option_id, text = self.option_id, self.text
        if request.kind is InputKind.APPROVAL and option_id is None and self.approved is not None:
            option_id = APPROVE if self.approved else DENY
        if self.is_abandoned:
            is_question = request.kind is InputKind.QUESTION
            option_id = DENY if request.kind is InputKind.APPROVAL else None
            text = _NOT_ANSWERED if is_question and request.allow_freeform else None
        return InputResponse(
            request_id=self.request_id,
            option_id=option_id,
            text=text,
            arguments_hash=self.arguments_hash,
        )


def answer_in(entry: ResumeEntry) -> ClientAnswer:
    """Return the answer in a resume entry: a text, an option, or a boolean."""
    if entry.status == "cancelled":
        return ClientAnswer(entry.interrupt_id, is_abandoned=True)
    if isinstance(entry.payload, dict):
        return _read_answer(entry.interrupt_id, entry.payload)
    if isinstance(entry.payload, bool):
        return ClientAnswer(entry.interrupt_id, approved=entry.payload)
    text = entry.payload if isinstance(entry.payload, str) else None
    return ClientAnswer(entry.interrupt_id, text=text)


def _read_answer(request_id: str, payload: Mapping[str, JsonValue]) -> ClientAnswer:
    texts = {name: payload.get(name) for name in ("optionId", "text", "argumentsHash")}
    if not all(value is None or isinstance(value, str) for value in texts.values()):
        raise _unfit("optionId, text and argumentsHash of an answer are strings")
    option_id, text, arguments_hash = (value if isinstance(value, str) else None for value in texts.values())
    approved = payload.get("approved")
    if approved is not None and not isinstance(approved, bool):
        raise _unfit("approved of an answer is true or false")
    # A contradiction must not count as an approval.
    if approved is not None and option_id in _CONSENTS and approved is not _CONSENTS[option_id]:
        raise _unfit("approved and optionId of an answer contradict each other: send one of them")
    return ClientAnswer(request_id, option_id or None, text, approved=approved, arguments_hash=arguments_hash)


def agui_content(message: Mapping[str, JsonValue]) -> UserContent | None:
    """Return the content of a user message of AG-UI; None for another role.

    Raises:
        Problem: the content cannot be read.
    """
    if message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content
    return _content([_media(part) for part in _objects(content)])


def ai_content(message: Mapping[str, JsonValue]) -> UserContent | None:
    """Return the content of a user message of the AI SDK; None if it is empty.

    Raises:
        Problem: the content cannot be read.
    """
    parts = _objects(message.get("parts"))
    texts = [part for part in parts if part.get("type") == "text"]
    files = [_file(part) for part in parts if part.get("type") == "file"]
    if not files and len(texts) == 1 and isinstance(text := texts[0].get("text"), str):
        return text
    content: list[JsonObject] = [*files, *({"type": "text", "text": part.get("text")} for part in texts)]
    return _content(content) if content else None


def answers_in(message: Mapping[str, JsonValue]) -> tuple[ClientAnswer, ...]:
    """Return the answers in a message of the AI SDK: approvals, or `data-answer` parts.

    Raises:
        Problem: an answer cannot be read, or there are too many.
    """
    answers: list[ClientAnswer] = []
    for part in _objects(message.get("parts")):
        approval = part.get("approval")
        if message.get("role") == "assistant" and part.get("state") == "approval-responded":
            answers.append(_approval(approval))
        elif message.get("role") == "user" and part.get("type") == ANSWER_PART:
            data = part.get("data")
            name = data.get("requestId") if isinstance(data, dict) else None
            if not isinstance(data, dict) or not isinstance(name, str):
                raise _unfit(f"the data of a {ANSWER_PART} part is an object with a requestId")
            answers.append(_read_answer(name, data))
    if len(answers) > THREAD_ANSWERS_MAX:
        raise _unfit(f"too many answers: {len(answers):,}, limit {THREAD_ANSWERS_MAX:,}")
    return tuple(answers)


def _approval(approval: JsonValue) -> ClientAnswer:
    fields = approval if isinstance(approval, dict) else {}
    name, approved, signature = fields.get("id"), fields.get("approved"), fields.get("signature")
    if not isinstance(name, str) or not isinstance(approved, bool):
        raise _unfit("an approval needs an id, and approved as true or false")
    return ClientAnswer(
        name, approved=approved, arguments_hash=signature if isinstance(signature, str) else None
    )


def _media(part: JsonObject) -> JsonObject:
    """Return a content part of AG-UI in the form of the runtime."""
    kind, source = part.get("type"), part.get("source")
    if kind == "text":
        return {"type": "text", "text": part.get("text")}
    if kind not in _MEDIA:
        raise _unfit("unknown content part: expected text, image, audio, video, document or binary")
    if kind == "binary":
        media, value = part, part.get("url") or part.get("data")
        is_data = part.get("url") is None
    else:
        media = source if isinstance(source, dict) else {}
        value, is_data = media.get("value"), media.get("type") == "data"
        if media.get("type") == "file":
            raise _unfit("files of a provider are not supported: send the data or a URL")
    media_type = media.get("mimeType")
    address = f"data:{media_type};base64,{value}" if is_data else value
    return _file({"url": address, "mediaType": media_type or ("image/*" if kind == "image" else None)})


def _file(part: Mapping[str, JsonValue]) -> JsonObject:
    media_type, address = part.get("mediaType"), part.get("url")
    if not isinstance(address, str):
        raise _unfit("a file part needs a URL or data")
    if isinstance(media_type, str) and media_type.startswith("image/"):
        picture: JsonObject = {"type": "image", "image": address}
        return picture if media_type == "image/*" else {**picture, "mediaType": media_type}
    name = part.get("filename")
    file: JsonObject = {"type": "file", "data": address, "mediaType": media_type}
    return {**file, "filename": name} if isinstance(name, str) else file


def _content(parts: Sequence[JsonObject]) -> UserContent:
    try:
        return _CONTENT.validate_python(tuple(parts))
    except ValidationError:
        raise _unfit(
            "a content part cannot be read: text must be a string, and a file needs a media type"
        ) from None


def _objects(value: JsonValue) -> Iterable[JsonObject]:
    if not isinstance(value, list):
        raise _unfit("a message needs a list of parts, each an object")
    return [part for part in value if isinstance(part, dict)]


def _unfit(detail: str) -> Problem:
    return Problem(422, detail)


_HEARTBEAT: Final = b": waiting\n\n"


def sse(frames: Iterable[JsonObject]) -> bytes:
    """Return frames as Server-Sent Events."""
    # Not with the codec of the wire: a list of messages may exceed its limits.
    return b"".join(b"data: %b\n\n" % to_json(frame) for frame in frames)


@mutable
class ChatFrames:
    """Frames of one run for a chat client, see `Frames`."""

    fold: ChatRunFold
    goes_on: str
    """The error text when the server shuts down before the run has ended."""
    end: bytes = b""
    """The last bytes of the stream."""
    media_type: str = SSE_TYPE

    def opening(self) -> bytes:
        """Return the first frames."""
        return sse(self.fold.opening())

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return the frames of an event; most have none."""
        return sse(self.fold.take(event))

    def is_last(self, event: Event) -> bool:
        """Whether the stream ends with the event before."""
        return self.fold.is_over

    def heartbeat(self) -> bytes:
        """Return an SSE comment."""
        return _HEARTBEAT

    def reconnect(self, retry_ms: int) -> bytes:
        """Return the error of a server that shuts down."""
        return sse([self.fold.failure("unavailable", self.goes_on)]) + self.end

    def failure(self, problem: Problem) -> bytes:
        """Return the error that ends the stream."""
        return sse([self.fold.failure(problem.named_code, problem.detail)]) + self.end

    def closing(self) -> bytes:
        """Return the last bytes of the stream."""
        return self.end


FIRST_RUN_SEQ: Final = 2
"""The highest record number at which the first run of a session begins."""
NAME_TAKEN: Final = "the runId (or the id of the message) was used with another message: choose another id"
ENDED: Final = frozenset(RUN_ENDS.values())
USER_MESSAGE_SUFFIX: Final = ":said"
"""The end of the id of a user's message in a history, after the id of its run."""


@sealed
class Thread:
    """A chat of a client: its current session."""

    session_id: str
    session: OwnedSession | None
    """None before the first message."""
    first_id: str
    """The first session of the chat."""
    rewinds: int = 0
    """How often the chat was rewound; each time it continues in a new session."""

    def run_id(self, name: str) -> str:
        """Return the id of the run that a client calls `name`."""
        return derive_id("thread run", self.session_id, name)


@sealed
class ChatRun:
    """A run, and the part of it to show."""

    session_id: str
    run_id: str
    view: View
    is_again: bool
    """Whether the message, or every answer, was a repetition."""


async def find_thread(caller: Caller, name: str) -> Thread:
    """Return the chat of a name: an existing chat or session of the caller, or a new chat.

    The session id is derived from the caller and the name: it survives a restart and belongs to the caller.
    """
    first_id = derive_id("thread", caller.principal.key, name)
    session = await caller.sessions.find(first_id)
    if session is None:
        session = await caller.sessions.find(name)
        first_id = first_id if session is None else session.session_id
    thread, count = Thread(first_id, session, first_id), 1
    # A deleted session of an earlier rewind must not hide the later ones.
    while count <= min(thread.rewinds + 1 + THREAD_GAP_MAX, THREAD_REWINDS_MAX):
        later_id = _rewind_id(first_id, count)
        session = await caller.sessions.find(later_id)
        thread = thread if session is None else Thread(later_id, session, first_id, count)
        count += 1
    return thread


async def require_thread(caller: Caller, name: str) -> Thread:
    """Return a chat of the caller that has a history.

    Raises:
        Problem: the caller has no such chat.
    """
    thread = await find_thread(caller, name)
    if thread.session is None or thread.session.info is None:
        raise not_found("session")
    return thread


def check_agent(caller: Caller, agent_id: str) -> str:
    """Return the agent of a path.

    Raises:
        Problem: the agent is unknown.
    """
    if agent_id not in caller.tenant.agent_ids:
        raise not_found("agent")
    return agent_id


async def speak(
    caller: Caller, thread: Thread, *, run_id: str, message: UserContent, agent_id: str, wishes: RunWishes
) -> None:
    """Start a run in a chat; a repeated message is the same run.

    Raises:
        Conflict: the run was started with another message, or the chat waits for answers.
    """
    store = caller.tenant.store
    if await store.run(run_id) is None and thread.session is not None and thread.session.info is not None:
        requests = await caller.tenant.runtime.sessions.open_requests(thread.session_id)
        if any(not request.is_answered for request in requests):
            raise conflict_error("the current run waits for answers: answer its requests first")
    ids = (thread.session_id, run_id)
    await start(caller, message, wishes=wishes, ids=ids, agent_id=agent_id, conflict=NAME_TAKEN)
    if thread.session is not None and thread.session.reserved is not None:
        await caller.tenant.reservations.release(thread.session_id, caller.principal.user)


async def say(
    caller: Caller,
    thread: Thread,
    name: str,
    *,
    message: UserContent | None,
    agent_id: str,
    context: tuple[str, ...] | None = None,
) -> ChatRun | None:
    """Start the run that a client calls `name`, or find it; None without a message and such a run.

    Raises:
        Conflict: the run was started with another message, or the chat waits for answers.
    """
    run_id = thread.run_id(name)
    is_again = await caller.tenant.store.run(run_id) is not None
    if message is not None:
        wishes = NewSession(context=context)
        await speak(caller, thread, run_id=run_id, message=message, agent_id=agent_id, wishes=wishes)
    elif not is_again:
        return None
    view = (await past_of(caller, run_id)).whole() if is_again else WHOLE
    return ChatRun(thread.session_id, run_id, view, is_again)


async def is_last(
    caller: Caller, thread: Thread, *, run_id: str, message: UserContent, agent_id: str
) -> bool:
    """Return whether a run is the last one of a chat, and was started with this message."""
    page = await caller.sessions.runs(session_id=thread.session_id, limit=1)
    if [run.run_id for run in page.items] != [run_id]:
        return False
    try:
        await speak(caller, thread, run_id=run_id, message=message, agent_id=agent_id, wishes=NewSession())
    except Conflict:
        return False
    return True


async def past_of(caller: Caller, run_id: str) -> Past:
    """Return the requests of a run so far."""
    past = Past(run_id)
    feed = caller.tenant.runtime.events().subscribe_run(run_id, options=StreamOptions(follow=False))
    try:
        async for event in feed:
            past.take(event)
    finally:
        await feed.aclose()
    return past


async def find_asking_run(caller: Caller, thread: Thread, *, request_ids: frozenset[str]) -> Past:
    """Return the run, among the newest ones, that made some requests.

    Raises:
        Conflict: none of them did.
    """
    page = await caller.sessions.runs(session_id=thread.session_id, limit=THREAD_RUNS_SEARCHED_MAX)
    for run in page.items:
        past = await past_of(caller, run.run_id)
        if request_ids <= past.requests.keys():
            return past
    raise conflict_error("unknown request: no recent run of this chat made it")


async def answer(caller: Caller, name: str, *, answers: Sequence[ClientAnswer], needs_all: bool) -> ChatRun:
    """Answer requests of a run in a chat.

    With `needs_all` the answers must cover every open request. Clients send answers again with their history:
    the same answer of the same person is accepted again.

    Raises:
        Conflict: a request is unknown, an open request has no answer, or another answer came first.
        Problem: the caller has no such chat.
    """
    thread = await require_thread(caller, name)
    ids = frozenset(entry.request_id for entry in answers)
    past = await find_asking_run(caller, thread, request_ids=ids)
    view = past.behind(ids, needs_all=needs_all)
    if view is None:
        raise conflict_error("the run has more open requests: answer all of them in one request")
    requests = await caller.tenant.runtime.sessions.open_requests(thread.session_id)
    left = {request.request_id for request in requests if not request.is_answered}
    for entry in answers:
        response = entry.response(past.requests[entry.request_id])
        key = derive_id("chat answer", caller.principal.key, response.model_dump_json(by_alias=True))
        await caller.tenant.runtime.sessions.answer(
            thread.session_id, await sign_responses(caller, [response]), key=key
        )
    return ChatRun(thread.session_id, past.run_id, view, is_again=ids.isdisjoint(left))


async def rewind(caller: Caller, thread: Thread, *, name: str) -> Thread:
    """Return the chat as it was before a run, to continue in a new session.

    The run and later ones are cancelled if they are open; the old session stays as it is. A repeated rewind
    returns the same session.

    Raises:
        Problem: the chat has no such run, an earlier rewind removed it, or there were too many rewinds.
    """
    row = await _find_named_run(caller, thread, name)
    if row is None:
        raise Problem(409, "unknown message: only a message of this chat can be edited or regenerated")
    if thread.rewinds >= THREAD_REWINDS_MAX:
        raise Problem(
            409, f"too many edits and regenerations, limit {THREAD_REWINDS_MAX}: start another chat"
        )
    if not await _is_shared(caller, thread, row):
        raise Problem(409, "this message is no longer part of the chat: an earlier edit removed it")
    await _cancel_from(caller, thread, row)
    runtime = caller.tenant.runtime
    later_id = _later_id(thread)
    if row.first_seq > FIRST_RUN_SEQ:
        at = row.first_seq - 1
        await runtime.sessions.fork(thread.session_id, at=at, session_id_new=later_id)
    return Thread(later_id, await caller.sessions.find(later_id), thread.first_id, thread.rewinds + 1)


async def _find_named_run(caller: Caller, thread: Thread, name: str) -> RunRow | None:
    """Return the newest run that a client calls `name`, including runs before a rewind."""
    for count in range(thread.rewinds, -1, -1):
        session_id = thread.first_id if not count else _rewind_id(thread.first_id, count)
        row = await caller.tenant.store.run(Thread(session_id, None, thread.first_id).run_id(name))
        if row is not None:
            return row
    # A message that a client has from the history is named after its run.
    if not name.endswith(USER_MESSAGE_SUFFIX):
        return None
    row = await caller.tenant.store.run(name.removesuffix(USER_MESSAGE_SUFFIX))
    sessions = {thread.first_id, *(_rewind_id(thread.first_id, count + 1) for count in range(thread.rewinds))}
    return row if row is not None and row.session_id in sessions else None


async def _is_shared(caller: Caller, thread: Thread, row: RunRow) -> bool:
    """Whether the chat still contains everything before a run."""
    if row.first_seq <= FIRST_RUN_SEQ:
        return True
    session_id = thread.session_id
    for _ in range(thread.rewinds):
        if session_id == row.session_id:
            return True
        info = await caller.tenant.store.session_info(session_id)
        if info is None or info.predecessor_id is None or (info.predecessor_seq or 0) < row.first_seq - 1:
            return False
        session_id = info.predecessor_id
    return session_id == row.session_id


async def _cancel_from(caller: Caller, thread: Thread, row: RunRow) -> None:
    """Cancel a run and later ones: a run that left the chat must not act."""
    runtime, later = caller.tenant.runtime, [row.run_id]
    for status in frozenset(RunStatus) - ENDED:
        after = None
        while True:
            page = await caller.sessions.runs(session_id=thread.session_id, status=status, after=after)
            later += [run.run_id for run in page.items if not 0 < run.first_seq < row.first_seq]
            after = page.next
            if after is None:
                break
    for run_id in later:
        await runtime.cancel_run(
            run_id, by=caller.principal.user, reason="The message was edited or regenerated."
        )


def _later_id(thread: Thread) -> str:
    return _rewind_id(thread.first_id, thread.rewinds + 1)


def _rewind_id(first_id: str, count: int) -> str:
    return derive_id("thread rewound", first_id, str(count))


async def stream_run(request: Request, caller: Caller, *, run_id: str, frames: Frames) -> FeedResponse:
    """Return the stream of a run, from its beginning."""
    streams: Streams = request.app.state.streams
    bus = caller.tenant.runtime.events()
    feed = bus.subscribe_run(run_id, options=streams.options(), until_terminal=True)
    return await open_feed(feed, lambda cursor: frames, streams=streams, caller=caller)
