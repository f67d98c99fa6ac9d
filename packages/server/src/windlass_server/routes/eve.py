"""Routes of eve 0.13.8, for its clients: sessions, their turns, and their stream.

They read the bodies of eve and call the functions of the routes under /v1. The continuation token of a
session is its id. A problem has the `ok` and `error` that clients of eve read, see `Problem.for_eve`.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, LiteralString

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from windlass.catalog import OpenRequest
from windlass_protocol import (
    FilePart,
    Id,
    InputKind,
    InputRequest,
    InputResponse,
    JsonObject,
    JsonValue,
    RunMode,
    UserContent,
    encode,
)
from windlass_protocol import NewMessage as Message
from windlass_protocol import NewSession as Session
from windlass_server.generated.queries import EveStreamQuery
from windlass_server.models import Text, WireModel
from windlass_server.openapi import answers, body_example
from windlass_server.problems import Problem, not_found
from windlass_server.requests import EVE_PREFIX, Caller, CallerDep, OwnSession, reply
from windlass_server.routes import feeds, sessions
from windlass_server.routes.system import require_ready
from windlass_server.routing import AnyQueryDep, Route
from windlass_server.settings import THREAD_ANSWERS_MAX
from windlass_server.streams import NDJSON_TYPE

router = APIRouter(prefix=EVE_PREFIX, tags=["clients of eve"], route_class=Route)
SESSION_HEADER: Final = "x-eve-session-id"
AGENT_HEADER: Final = "windlass-agent"
AgentName = Annotated[
    Id | None,
    Header(alias=AGENT_HEADER, description="The agent of a new session; optional if there is only one."),
]
_TEXTS_MAX: Final = 64
"""As for the `context` of a session under /v1."""
Context = Text | Annotated[tuple[Text, ...], Field(max_length=_TEXTS_MAX)] | JsonObject
_REFUSED: Final[dict[str, LiteralString]] = {
    "callback": "callback is not supported: read the end of the session from its stream",
    "continuationToken": "continuationToken: a new session has none; continue a session by its id",
}


class Said(WireModel):
    """The fields that the bodies of a new session and of a turn share."""

    message: Annotated[
        UserContent | None, Field(description="Text, or parts: `text`, and `file` with its bytes as base64.")
    ] = None
    client_context: Annotated[
        Context | None,
        Field(description="A text, texts, or an object, which the model gets before the message."),
    ] = None
    output_schema: Annotated[
        JsonObject | None, Field(description="A JSON Schema that the output must fit.")
    ] = None

    @property
    def content(self) -> UserContent | None:
        """The message with files as data URLs; None if it is empty."""
        if self.message is None or isinstance(self.message, str):
            return self.message or None
        return tuple(_inline(part) if isinstance(part, FilePart) else part for part in self.message) or None

    @property
    def context(self) -> tuple[str, ...] | None:
        """The context as texts."""
        match self.client_context:
            case None:
                return None
            case str(text):
                return (text,) if text else None
            case tuple(texts):
                return texts or None
            case given:
                return (encode(given).decode(),)


class EveSession(Said):
    """Body of `POST /eve/v1/session`: a session with its first message."""

    mode: Annotated[RunMode | None, Field(description="Whether the run is a conversation or a task.")] = None

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name, reason in _REFUSED.items():
            if name in body:
                raise PydanticCustomError("refused", reason)
        return body


class EveTurn(Said):
    """Body of `POST /eve/v1/session/{id}`: a message, answers, or both."""

    continuation_token: Annotated[Text, Field(description="The token of the session: its id.")]
    input_responses: Annotated[
        tuple[InputResponse, ...] | None,
        Field(min_length=1, max_length=THREAD_ANSWERS_MAX, description="Answers to requests of the session."),
    ] = None


class EveStarted(WireModel):
    """A session that was begun."""

    ok: Literal[True] = True
    session_id: str
    continuation_token: str


class EveAccepted(WireModel):
    """A turn that was accepted."""

    ok: Literal[True] = True
    session_id: str


class EveHealth(WireModel):
    """Whether the server accepts requests."""

    ok: Literal[True] = True
    status: Literal["ready"] = "ready"
    workflow_id: str = "windlass"


_HEALTHY: Final[JsonObject] = {"ok": True, "status": "ready", "workflowId": "windlass"}


@router.get(
    "/health",
    response_model=EveHealth,
    responses=answers(200, _HEALTHY),
)
async def health(request: Request, query: AnyQueryDep) -> Response:
    """Return whether the server accepts requests, as `/v1/ready` does; needs no credentials."""
    require_ready(request)
    return reply(EveHealth())


@router.post(
    "/session",
    status_code=202,
    response_model=EveStarted,
    responses=answers(202, {"ok": True, "sessionId": "019a8f…", "continuationToken": "019a8f…"}),
)
async def create(
    *,
    caller: CallerDep,
    body: Annotated[
        EveSession,
        body_example(
            message={"message": "Pay the hotel."},
            typed={"message": "Which city?", "outputSchema": {"type": "string"}, "mode": "task"},
        ),
    ],
    agent: AgentName = None,
) -> Response:
    """Create a session with its first message; the response is sent when the message is durable."""
    content = body.content
    if content is None:
        raise Problem(400, "message: a session begins with one that is not empty")
    begun = await sessions.begin(
        caller,
        Session(
            message=content,
            agent=agent,
            mode=body.mode,
            output_schema=body.output_schema,
            context=body.context,
        ),
    )
    name = begun.session_id
    started = EveStarted.model_validate({"sessionId": name, "continuationToken": name})
    return _with_session_header(reply(started, 202), name)


@router.post(
    "/session/{session_id:path}",
    response_model=EveAccepted,
    responses=answers(200, {"ok": True, "sessionId": "019a8f…"}),
)
async def proceed(
    *,
    caller: CallerDep,
    session: OwnSession,
    body: Annotated[
        EveTurn,
        body_example(
            message={"continuationToken": "019a8f…", "message": "And the train?"},
            answers={
                "continuationToken": "019a8f…",
                "inputResponses": [{"requestId": "approval:019a8f…", "optionId": "approve"}],
            },
        ),
    ],
) -> Response:
    """Send a message to a session, answer its requests, or both."""
    if body.continuation_token != session.session_id:
        raise not_found("session")
    content, answered = body.content, body.input_responses
    runtime = caller.tenant.runtime
    requests = () if session.info is None else await runtime.sessions.open_requests(session.session_id)
    ids = {response.request_id for response in answered or ()}
    unanswered = [request for request in requests if request.request_id not in ids]
    if content is None and answered is None:
        raise Problem(400, "give a message that is not empty, inputResponses, or both")
    if content is None and body.context is not None:
        raise Problem(400, "clientContext: only with a message; answers carry none")
    if content is None and unanswered:
        _check_goes_on([request for request in requests if request.request_id in ids])
    if content is not None:
        await _check_is_heard(caller, session.session_id, unanswered)
    if body.output_schema is not None and (answered is not None or requests):
        raise Problem(
            400, "outputSchema: the run that waits keeps its own; send another with the next message"
        )
    if content is None:
        await sessions.deliver(caller, session, Message(responses=answered))
    elif answered is not None or requests:
        await sessions.steer(
            caller,
            session,
            message=content,
            context=body.context,
            responses=answered,
        )
    else:
        message = Message(message=content, output_schema=body.output_schema, context=body.context)
        await sessions.deliver(caller, session, message)
    return _with_session_header(
        reply(EveAccepted.model_validate({"sessionId": session.session_id})), session.session_id
    )


def _check_goes_on(answered: Sequence[InputRequest]) -> None:
    """Refuse answers after which the run still waits: no event would tell the client that it does.

    A call that was approved or denied has a result, after which the session waits again. An answer to a
    question is kept until the others are given.
    """
    if {request.kind for request in answered} == {InputKind.QUESTION}:
        raise Problem(400, "inputResponses: answer the other open requests with the question")


async def _check_is_heard(caller: Caller, session_id: str, unanswered: Sequence[InputRequest]) -> None:
    """Refuse a message while a subagent waits for an answer: the run would not hear it before that.

    A message dismisses the requests of its own session, and not those of subagents.
    """
    for request in unanswered:
        state = await caller.tenant.runtime.sessions.request(request.request_id)
        if isinstance(state, OpenRequest) and state.session_id != session_id:
            raise Problem(
                409, f"a subagent waits for an answer: send inputResponses for {request.request_id} first"
            )


_EXAMPLE: Final = (
    '{"type":"message.completed","data":{"message":"Done."},"meta":{"at":"2026-01-01T00:00:00.000Z"}}\n'
)


@router.get(
    "/session/{session_id:path}/stream",
    response_class=Response,
    responses=answers(200, _EXAMPLE, media_type=NDJSON_TYPE),
)
async def stream(
    *, request: Request, caller: CallerDep, session: OwnSession, query: Annotated[EveStreamQuery, Query()]
) -> Response:
    """Send the events of a session in the sequence of eve, as lines of JSON; then new ones."""
    shape = {"shape": "eve", "format": "ndjson", "startIndex": query.start_index, "follow": query.follow}
    response = await feeds.of_session(
        request=request, caller=caller, session=session, query=feeds.FeedsSessionQuery.model_validate(shape)
    )
    return _with_session_header(response, session.session_id)


def _with_session_header(response: Response, session_id: str) -> Response:
    """Return a response with the session in its header; an id may have characters that no header has."""
    if session_id.isascii():
        response.headers[SESSION_HEADER] = session_id
    return response


def _inline(part: FilePart) -> FilePart:
    """Return a file as an address or a data URL: clients of eve may send the base64 alone."""
    if ":" in part.data:
        return part
    return part.model_copy(update={"data": f"data:{part.media_type};base64,{part.data}"})
