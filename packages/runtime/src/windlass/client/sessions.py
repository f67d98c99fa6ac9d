"""The sessions of a server."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from windlass.catalog.page import Page
from windlass.client.address import path_of
from windlass.client.asking import Linked, key_for
from windlass.client.calls import Call, query_of
from windlass.client.limits import LINE_CHARS_MAX
from windlass.definitions import option_problem
from windlass.refusals import bad_request
from windlass_protocol import (
    Accepted,
    BudgetLimits,
    ChatMessage,
    Deleted,
    HistoryPage,
    InputResponse,
    JsonObject,
    RunMode,
    SessionInfo,
    SessionPage,
    UserContent,
)

if TYPE_CHECKING:
    from windlass.client.link import Link


class RunWishes(TypedDict, total=False):
    """What a run may be told beside its message."""

    agent: str | None
    """Which agent; may be left out if it is clear."""
    mode: RunMode | str | None
    output_schema: JsonObject | None
    context: Sequence[str] | None
    """Texts before the message."""
    metadata: Mapping[str, JsonValue] | None
    budget: BudgetLimits | None
    idempotency_key: str | None
    """The same key with the same request is the same work; one of its own when left out."""


class SessionQuery(TypedDict, total=False):
    """Which sessions are wanted."""

    after: str | None
    limit: int
    agent: str | None
    status: str | None
    text: str | None
    """Words of the title, or beginnings of them."""
    subagents: bool
    """Whether sessions of subagents are listed as well."""


class Sessions:
    """Begins sessions, speaks in them, reads, copies and removes them.

    Every method raises an AgentError: see `windlass.client.errors`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def create(self, message: UserContent | None = None, **wishes: Unpack[RunWishes]) -> Accepted:
        """Begin a session, with its first message or without."""
        return await self._post("/sessions", wishes, message=message)

    async def send(
        self,
        session_id: str,
        message: UserContent,
        *,
        continuation_token: str | None = None,
        **wishes: Unpack[RunWishes],
    ) -> Accepted:
        """Say something: it begins a run, which waits for the one under way.

        With the token it is refused if the session has gone on since.
        """
        path = path_of("sessions", session_id, "messages")
        return await self._post(path, wishes, message=message, token=continuation_token)

    async def steer(
        self, session_id: str, message: UserContent, *, idempotency_key: str | None = None
    ) -> Accepted:
        """Speak to the run under way."""
        body: JsonObject = {"message": _plain(message), "delivery": "steer"}
        return await self._send("POST", path_of("sessions", session_id, "messages"), body, idempotency_key)

    async def answer(self, session_id: str, *responses: InputResponse) -> Accepted:
        """Answer what a session asks."""
        body: JsonObject = {"responses": [_plain(one) for one in responses]}
        path = path_of("sessions", session_id, "messages")
        return await self._link.ask(Accepted, self._once("POST", path, body))

    async def cancel(self, session_id: str, *, reason: str | None = None) -> Accepted:
        """Ask the run under way to end; the answer names it if there was one."""
        body: JsonObject | None = None if reason is None else {"reason": reason}
        # The run under way may be another one by the time it is asked again.
        call = self._once("POST", path_of("sessions", session_id, "cancel"), body)
        return await self._link.ask(Accepted, call)

    async def compact(self, session_id: str) -> Accepted:
        """Ask for a shorter history."""
        return await self._link.ask(Accepted, self._once("POST", path_of("sessions", session_id, "compact")))

    async def get(self, session_id: str) -> SessionInfo:
        """Return a session."""
        return await self._link.ask(SessionInfo, Call("GET", path_of("sessions", session_id)))

    async def list(self, **query: Unpack[SessionQuery]) -> Page[SessionInfo]:
        """Return a page of sessions, the newest first."""
        _check(query, SessionQuery, "sessions.list")
        found = await self._link.ask(SessionPage, Call("GET", "/sessions", query=query_of(query)))
        return Page(found.sessions, found.next)

    async def history(
        self, session_id: str, *, after: str | None = None, limit: int | None = None
    ) -> Page[ChatMessage]:
        """Return a page of what was said, the oldest first."""
        path = path_of("sessions", session_id, "history")
        found = await self._link.ask(HistoryPage, Call("GET", path, query={"after": after, "limit": limit}))
        return Page(found.messages, found.next)

    async def fork(
        self, session_id: str, *, at: int | None = None, idempotency_key: str | None = None
    ) -> SessionInfo:
        """Make a session that begins as this one is now, or was after a record."""
        body: JsonObject = {} if at is None else {"at": at}
        key = key_for(self._link, idempotency_key)
        call = Call("POST", path_of("sessions", session_id, "fork"), body=body, key=key)
        return await self._link.ask(SessionInfo, call)

    async def export(self, session_id: str) -> AsyncGenerator[str]:
        """Yield everything that is stored of a session, a line of JSON each.

        The last line holds a checksum of the others: without it the export was cut off.
        """
        call = Call("GET", path_of("sessions", session_id, "export"))
        async for line in self._link.lines(call, chars_max=LINE_CHARS_MAX):
            yield line

    async def delete(self, session_id: str) -> tuple[str, ...]:
        """Remove a session and those of its subagents; return which are gone."""
        return (await self._link.ask(Deleted, self._once("DELETE", path_of("sessions", session_id)))).deleted

    @property
    def _link(self) -> "Link":
        return self._client.link

    def _once(self, method: str, path: str, body: JsonObject | None = None) -> Call:
        """A request that the server does not know again: it is not repeated blindly."""
        key = key_for(self._link, None) if method == "POST" else None
        return Call(method, path, body=body, key=key, is_repeatable=False)

    async def _send(self, method: str, path: str, body: JsonObject, key: str | None) -> Accepted:
        call = Call(method, path, body=body, key=key_for(self._link, key))
        return await self._link.ask(Accepted, call)

    async def _post(
        self, path: str, wishes: RunWishes, *, message: UserContent | None, token: str | None = None
    ) -> Accepted:
        _check(wishes, RunWishes, "a run")
        given = {
            "message": message,
            "agent": wishes.get("agent"),
            "mode": wishes.get("mode"),
            "outputSchema": wishes.get("output_schema"),
            "context": wishes.get("context"),
            "metadata": wishes.get("metadata"),
            "budget": wishes.get("budget"),
            "continuationToken": token,
        }
        body: JsonObject = {name: _plain(value) for name, value in given.items() if value is not None}
        return await self._send("POST", path, body, wishes.get("idempotency_key"))


def _check(options: Mapping[str, object], known: type, what: str) -> None:
    problem = option_problem(options, known, what=what)
    if problem is not None:
        raise bad_request(problem)


def _plain(value: object) -> JsonValue:
    """Return a value as the wire has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast(Sequence[object], value)]
    return to_jsonable_python(value, by_alias=True)
