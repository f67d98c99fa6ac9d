"""Client: sessions, runs and approvals of one server."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypedDict, Unpack, cast, overload

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from windlass.catalog.reading import Page
from windlass.client.connection import (
    IDLE_S,
    KEY_CHARS_MAX,
    LINE_CHARS_MAX,
    REQUESTS,
    Key,
    Means,
    NotWindlass,
    ServerAddress,
    ServerCall,
    path_of,
    query_of,
)
from windlass.errors import install_hint, option_problem
from windlass.refusals import bad_request, check_given
from windlass_harness.retry import RetryPolicy
from windlass_protocol import (
    Accepted,
    AgentInfo,
    AgentList,
    AgentSession,
    AgentSessionChange,
    AgentSessionList,
    ApprovalInfo,
    ApprovalPage,
    BudgetLimits,
    ChatMessage,
    DecisionRun,
    Deleted,
    DeliveryInfo,
    DeliveryPage,
    FeedbackInfo,
    FeedbackList,
    Health,
    HistoryPage,
    InputResponse,
    JsonObject,
    NewFeedback,
    NewSchedule,
    RefusedStart,
    RefusedStartPage,
    RunInfo,
    RunMode,
    RunPage,
    RunRow,
    ScheduleInfo,
    SchedulePage,
    ScheduleTicks,
    SessionInfo,
    SessionPage,
    TraceInfo,
    UndoPlan,
    UserContent,
)
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from windlass.client.feed import EventFeed
    from windlass.client.link import ServerLink
    from windlass.schedules import Schedule
    from windlass_protocol.generated.values import RunModeValue


@sealed
class Begun:
    """A run that was accepted: it is durable."""

    session_id: str
    run_id: str
    message_id: str | None
    continuation_token: str | None


def _read_begun(accepted: Accepted) -> Begun:
    if accepted.run_id is None:
        raise NotWindlass("the server accepted the request without naming its run; is it of this version?")
    return Begun(accepted.session_id, accepted.run_id, accepted.message_id, accepted.continuation_token)


class Linked(Protocol):
    """Gives access to the connection to the server."""

    @property
    def link(self) -> "ServerLink":
        """The connection to the server.

        Raises:
            Rejected: the client is not open.
        """
        ...


def key_for(link: "ServerLink", key: str | None) -> str:
    """Return the idempotency key of a request: the given one, or a new one.

    Raises:
        Rejected: the given key cannot be sent.
    """
    if key is None:
        return link.means.new_id()
    if not key or len(key) > KEY_CHARS_MAX or not all("!" <= char <= "~" for char in key):
        raise bad_request("idempotency_key must be a string of ASCII characters without spaces")
    return key


class RunQuery(TypedDict, total=False):
    """Filter of a list of runs."""

    after: str | None
    limit: int
    session: str | None
    agent: str | None
    status: str | None
    subagents: bool
    """Whether runs of subagents are listed as well; they are when left out."""
    waits_on: str | None
    version: str | None
    error: str | None
    """The kind of the error; `any` for every error."""
    tag: str | None
    feedback: Literal["up", "down", "none"] | None
    crashed: bool | None
    since: str | None
    """A time as in `2026-01-31T09:30:00Z`, as `until` is."""
    until: str | None
    cost_min: int | None
    """Millionths of a dollar, as `cost_max` is."""
    cost_max: int | None
    duration_min: int | None
    """Milliseconds, as `duration_max` is."""
    duration_max: int | None
    text: str | None
    sort: str | None
    """started, duration or cost."""
    ascending: bool


class Runs:
    """Reads, lists and cancels runs.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def get(self, run_id: str) -> RunInfo:
        """Return the status of a run, its open requests and its result."""
        return await self._link.ask(RunInfo, ServerCall("GET", path_of("runs", run_id)))

    async def list(self, **query: Unpack[RunQuery]) -> Page[RunRow]:
        """Return a page of runs, newest first unless sorted otherwise."""
        problem = option_problem(query, RunQuery, what="runs.list")
        if problem is not None:
            raise bad_request(problem)
        page = await self._link.ask(RunPage, ServerCall("GET", "/runs", query=query_of(query)))
        return Page(page.runs, page.next)

    async def refused(
        self, *, agent: str | None = None, after: str | None = None, limit: int | None = None
    ) -> Page[RefusedStart]:
        """Return a page of starts that were refused, newest first, with their errors."""
        query = {"agent": agent, "after": after, "limit": limit}
        page = await self._link.ask(RefusedStartPage, ServerCall("GET", "/refused-starts", query=query))
        return Page(page.refused_starts, page.next)

    async def cancel(self, run_id: str, *, reason: str | None = None) -> Accepted:
        """Request the cancellation of a run; a finished run is not changed."""
        body: JsonObject | None = None if reason is None else {"reason": reason}
        call = ServerCall("POST", path_of("runs", run_id, "cancel"), body=body, key=key_for(self._link, None))
        return await self._link.ask(Accepted, call)

    async def give_feedback(self, run_id: str, given: NewFeedback) -> Accepted:
        """Record what you say of a run, of one of its steps, or of an answer."""
        body = cast(JsonObject, given.model_dump(mode="json", by_alias=True, exclude_none=True))
        call = ServerCall(
            "POST", path_of("runs", run_id, "feedback"), body=body, key=key_for(self._link, None)
        )
        return await self._link.ask(Accepted, call)

    async def feedback(self, run_id: str) -> tuple[FeedbackInfo, ...]:
        """Return what people said of a run, oldest first."""
        answer = await self._link.ask(FeedbackList, ServerCall("GET", path_of("runs", run_id, "feedback")))
        return answer.feedback

    async def retry(self, run_id: str, *, budget: BudgetLimits | None = None) -> Begun:
        """Continue a failed run in a new run of its session; the result names that run.

        It has what the failed run left of its budget. `budget` are other limits, of both runs together; the
        server keeps them within those of the agent.
        """
        body: JsonObject | None = None if budget is None else {"budget": _plain(budget)}
        call = ServerCall("POST", path_of("runs", run_id, "retry"), body=body, key=key_for(self._link, None))
        return _read_begun(await self._link.ask(Accepted, call))

    async def undo_plan(self, run_id: str) -> UndoPlan:
        """Return the calls of a run that may have changed something, newest first."""
        return await self._link.ask(UndoPlan, ServerCall("GET", path_of("runs", run_id, "undo")))

    async def undo(self, run_id: str) -> Begun:
        """Reverse the calls of a run in a new run of its session; the result names that run."""
        call = ServerCall("POST", path_of("runs", run_id, "undo"), key=key_for(self._link, None))
        return _read_begun(await self._link.ask(Accepted, call))

    async def trace(self, run_id: str) -> TraceInfo:
        """Return the trace of a run: its spans with their durations."""
        return await self._link.ask(TraceInfo, ServerCall("GET", path_of("runs", run_id, "trace")))

    async def decisions(self, run_id: str, *, after: int = 0, limit: int | None = None) -> DecisionRun:
        """Return the decisions of a run with their outcomes; with `limit`, a page of them."""
        query = {"after": after or None, "limit": limit}
        call = ServerCall("GET", path_of("runs", run_id, "decisions"), query=query)
        return await self._link.ask(DecisionRun, call)

    @property
    def _link(self) -> "ServerLink":
        return self._client.link


class Approvals:
    """Open requests to people, over all sessions.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def list(self, *, after: str | None = None, limit: int | None = None) -> Page[ApprovalInfo]:
        """Return a page of open requests, oldest first."""
        query = {"after": after, "limit": limit}
        page = await self._client.link.ask(ApprovalPage, ServerCall("GET", "/approvals", query=query))
        return Page(page.requests, page.next)

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        arguments_hash: str | None = None,
        arguments: JsonObject | None = None,
    ) -> Accepted:
        """Answer a request: with one of its options, with text, or with both.

        With `arguments_hash` of the arguments that were shown, the answer is refused if the arguments have
        changed. With the option approve, `arguments` are those that the call runs with instead of its own.
        """
        fields: dict[str, JsonValue] = {
            "optionId": option_id,
            "text": text,
            "argumentsHash": arguments_hash,
            "arguments": arguments,
        }
        body: JsonObject = {name: value for name, value in fields.items() if value is not None}
        link = self._client.link
        # Not repeated blindly: a second answer is refused, even if it equals the first.
        call = ServerCall(
            "POST", path_of("approvals", request_id), body=body, key=key_for(link, None), is_repeatable=False
        )
        return await link.ask(Accepted, call)


class Deliveries:
    """Lists, retries and gives up notifications and messages of channels that were not taken.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def list(
        self, *, dead_only: bool = False, after: str | None = None, limit: int | None = None
    ) -> Page[DeliveryInfo]:
        """Return a page of deliveries, by id."""
        query = {"dead": "true" if dead_only else None, "after": after, "limit": limit}
        page = await self._client.link.ask(DeliveryPage, ServerCall("GET", "/deliveries", query=query))
        return Page(page.deliveries, page.next)

    async def retry(self, delivery_id: str) -> DeliveryInfo:
        """Try a delivery again now."""
        return await self._ask(ServerCall("POST", path_of("deliveries", delivery_id, "retry")))

    async def delete(self, delivery_id: str) -> None:
        """Give a delivery up."""
        await self._ask(ServerCall("DELETE", path_of("deliveries", delivery_id)))

    async def _ask(self, call: ServerCall) -> DeliveryInfo:
        # Equal requests have one effect, so each may be repeated.
        return await self._client.link.ask(DeliveryInfo, call)


class Schedules:
    """Makes, lists, pauses, resumes and deletes schedules.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def put(self, schedule: "Schedule") -> ScheduleInfo:
        """Make a schedule, or replace the one with its name; its owner is the user of the key."""
        facts = {name: getattr(schedule, name) for name in NewSchedule.model_fields}
        body = NewSchedule.model_validate(facts).model_dump(mode="json", by_alias=True, exclude_none=True)
        return await self._ask(ServerCall("POST", "/schedules", body=body))

    async def list(self, *, after: str | None = None, limit: int | None = None) -> Page[ScheduleInfo]:
        """Return a page of schedules, by name."""
        call = ServerCall("GET", "/schedules", query={"after": after, "limit": limit})
        page = await self._client.link.ask(SchedulePage, call)
        return Page(page.schedules, page.next)

    async def get(self, name: str) -> ScheduleInfo:
        """Return a schedule."""
        return await self._ask(ServerCall("GET", path_of("schedules", name)))

    async def ticks(self, name: str) -> ScheduleTicks:
        """Return the next ticks of a schedule, and the last ones with their runs."""
        return await self._client.link.ask(
            ScheduleTicks, ServerCall("GET", path_of("schedules", name, "ticks"))
        )

    async def run_now(self, name: str) -> str:
        """Start a run of a schedule at once, beside its ticks; return the id of the run."""
        accepted = await self._client.link.ask(
            Accepted, ServerCall("POST", path_of("schedules", name, "run"))
        )
        assert accepted.run_id is not None, "a run was started"
        return accepted.run_id

    async def pause(self, name: str) -> ScheduleInfo:
        """Start no further runs."""
        return await self._ask(ServerCall("POST", path_of("schedules", name, "pause")))

    async def resume(self, name: str) -> ScheduleInfo:
        """Start runs again, from the next tick on."""
        return await self._ask(ServerCall("POST", path_of("schedules", name, "resume")))

    async def delete(self, name: str) -> None:
        """Delete a schedule; its runs stay."""
        await self._ask(ServerCall("DELETE", path_of("schedules", name)))

    async def _ask(self, call: ServerCall) -> ScheduleInfo:
        # Equal requests have one effect, so each may be repeated.
        return await self._client.link.ask(ScheduleInfo, call)


class RunWishes(TypedDict, total=False):
    """Options of a run besides its message."""

    agent: str | None
    """The agent; optional if the session or the server has only one."""
    mode: "RunMode | RunModeValue | None"
    output_schema: JsonObject | None
    context: Sequence[str] | None
    """Texts before the message."""
    metadata: Mapping[str, JsonValue] | None
    budget: BudgetLimits | None
    idempotency_key: str | None
    """The same key with the same request has one effect; a new key by default."""


class SessionWishes(RunWishes, total=False):
    """Options of a session and of its first run."""

    chat_id: str | None
    """The chat of its `AgentSession`; the session itself if it is left out."""
    current_stage: str | None
    """Its first stage; START if it is left out."""
    scenario: str | None
    stage_data: Mapping[str, JsonValue] | None
    project_id: str | None


class SessionQuery(TypedDict, total=False):
    """Filter of a list of sessions."""

    after: str | None
    limit: int
    agent: str | None
    status: str | None
    text: str | None
    """Words, or prefixes of words, of messages, answers and names of called tools."""
    subagents: bool
    """Whether sessions of subagents are listed as well."""


class Sessions:
    """Creates sessions, sends messages to them, and reads, forks and deletes them.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    @overload
    async def create(self, message: None = None, **wishes: Unpack[SessionWishes]) -> Accepted: ...
    @overload
    async def create(self, message: UserContent, **wishes: Unpack[SessionWishes]) -> Begun: ...
    async def create(
        self, message: UserContent | None = None, **wishes: Unpack[SessionWishes]
    ) -> Accepted | Begun:
        """Create a session, with a first message that starts a run, or without."""
        _check(wishes, SessionWishes, "a session")
        document = {
            "chatId": wishes.get("chat_id"),
            "currentStage": wishes.get("current_stage"),
            "scenario": wishes.get("scenario"),
            "stageData": wishes.get("stage_data"),
            "projectId": wishes.get("project_id"),
        }
        accepted = await self._post("/sessions", wishes, message=message, **document)
        return accepted if message is None else _read_begun(accepted)

    async def send(
        self,
        session_id: str,
        message: UserContent,
        *,
        continuation_token: str | None = None,
        **wishes: Unpack[RunWishes],
    ) -> Begun:
        """Send a message: it starts a run, which is queued behind the current one.

        With the token, the message is refused if the session has changed since.
        """
        _check(wishes, RunWishes, "a run")
        path = path_of("sessions", session_id, "messages")
        accepted = await self._post(path, wishes, message=message, continuationToken=continuation_token)
        return _read_begun(accepted)

    async def steer(
        self, session_id: str, message: UserContent, *, idempotency_key: str | None = None
    ) -> Accepted:
        """Send a message to the current run."""
        body: JsonObject = {"message": _plain(message), "delivery": "steer"}
        return await self._send("POST", path_of("sessions", session_id, "messages"), body, idempotency_key)

    async def answer(self, session_id: str, *responses: InputResponse) -> Accepted:
        """Answer open requests of a session."""
        body: JsonObject = {"responses": [_plain(response) for response in responses]}
        path = path_of("sessions", session_id, "messages")
        return await self._link.ask(Accepted, self._once("POST", path, body))

    async def cancel(self, session_id: str, *, reason: str | None = None) -> Accepted:
        """Request the cancellation of the current run; the result names the run if there was one."""
        body: JsonObject | None = None if reason is None else {"reason": reason}
        # Not repeated blindly: the current run may be another one by then.
        call = self._once("POST", path_of("sessions", session_id, "cancel"), body)
        return await self._link.ask(Accepted, call)

    async def compact(self, session_id: str) -> Accepted:
        """Request a compaction of the history."""
        return await self._link.ask(Accepted, self._once("POST", path_of("sessions", session_id, "compact")))

    async def get(self, session_id: str) -> SessionInfo:
        return await self._link.ask(SessionInfo, ServerCall("GET", path_of("sessions", session_id)))

    async def list(self, **query: Unpack[SessionQuery]) -> Page[SessionInfo]:
        """Return a page of sessions, newest first."""
        _check(query, SessionQuery, "sessions.list")
        page = await self._link.ask(SessionPage, ServerCall("GET", "/sessions", query=query_of(query)))
        return Page(page.sessions, page.next)

    async def history(
        self, session_id: str, *, after: str | None = None, limit: int | None = None
    ) -> Page[ChatMessage]:
        """Return a page of the chat history, oldest first."""
        path = path_of("sessions", session_id, "history")
        page = await self._link.ask(
            HistoryPage, ServerCall("GET", path, query={"after": after, "limit": limit})
        )
        return Page(page.messages, page.next)

    async def fork(
        self, session_id: str, *, at: int | None = None, idempotency_key: str | None = None
    ) -> SessionInfo:
        """Create a session as a copy of this one, as it is now or was after a record."""
        body: JsonObject = {} if at is None else {"at": at}
        key = key_for(self._link, idempotency_key)
        call = ServerCall("POST", path_of("sessions", session_id, "fork"), body=body, key=key)
        return await self._link.ask(SessionInfo, call)

    async def export(self, session_id: str) -> AsyncGenerator[str]:
        """Yield the stored data of a session as JSON lines.

        The last line holds a checksum of the others: without it the export is incomplete.
        """
        call = ServerCall("GET", path_of("sessions", session_id, "export"))
        async for line in self._link.lines(call, chars_max=LINE_CHARS_MAX):
            yield line

    async def delete(self, session_id: str) -> tuple[str, ...]:
        """Delete a session and those of its subagents; return the deleted ids."""
        return (await self._link.ask(Deleted, self._once("DELETE", path_of("sessions", session_id)))).deleted

    @property
    def _link(self) -> "ServerLink":
        return self._client.link

    def _once(self, method: str, path: str, body: JsonObject | None = None) -> ServerCall:
        """A request that the server cannot deduplicate: it is not repeated blindly."""
        key = key_for(self._link, None) if method == "POST" else None
        return ServerCall(method, path, body=body, key=key, is_repeatable=False)

    async def _send(self, method: str, path: str, body: JsonObject, key: str | None) -> Accepted:
        call = ServerCall(method, path, body=body, key=key_for(self._link, key))
        return await self._link.ask(Accepted, call)

    async def _post(
        self, path: str, wishes: RunWishes, *, message: UserContent | None, **fields: object
    ) -> Accepted:
        values: dict[str, object] = {
            "message": message,
            "agent": wishes.get("agent"),
            "mode": wishes.get("mode"),
            "outputSchema": wishes.get("output_schema"),
            "context": wishes.get("context"),
            "metadata": wishes.get("metadata"),
            "budget": wishes.get("budget"),
            **fields,
        }
        body: JsonObject = {name: _plain(value) for name, value in values.items() if value is not None}
        return await self._send("POST", path, body, wishes.get("idempotency_key"))


class AgentSessions:
    """Sessions as `AgentSession` documents, with their stages.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def get(self, session_id: str) -> AgentSession:
        """Return a session with its stage."""
        path = path_of("sessions", session_id, "agent-session")
        return await self._client.link.ask(AgentSession, ServerCall("GET", path))

    async def update(self, session_id: str, change: AgentSessionChange) -> AgentSession:
        """Change the stage of a session; return it once the change is durable.

        Fields that are not given stay as they are; `next_stage=None` removes the next stage.
        """
        checked = check_given(change, AgentSessionChange, what="change", words="an AgentSessionChange")
        path = path_of("sessions", session_id, "agent-session")
        body: JsonObject = checked.model_dump(mode="json", by_alias=True)
        link = self._client.link
        # Not repeated blindly: it would undo a change that another caller has made since.
        call = ServerCall("POST", path, body=body, key=key_for(link, None), is_repeatable=False)
        return await link.ask(AgentSession, call)

    async def list(
        self, *, chat_id: str | None = None, active_only: bool = False, limit: int | None = None
    ) -> tuple[AgentSession, ...]:
        """Return sessions, newest first; `active_only` leaves out those that have ended."""
        query = {"chatId": chat_id, "activeOnly": active_only, "limit": limit}
        call = ServerCall("GET", "/agent-sessions", query=query_of(query))
        return (await self._client.link.ask(AgentSessionList, call)).sessions


def _check(options: Mapping[str, object], allowed: type, what: str) -> None:
    problem = option_problem(options, allowed, what=what)
    if problem is not None:
        raise bad_request(problem)


def _plain(value: object) -> JsonValue:
    """Return a value in wire form."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(Sequence[object], value)]
    return to_jsonable_python(value, by_alias=True)


class Client:
    """A client of one server: `async with Client("http://…", key=…) as client`.

    Every POST carries an idempotency key. A request is repeated if it had no effect (the server is down,
    busy, or asks to wait), and if its effect is unknown and the server can deduplicate it. The key never
    appears in an error or log text of this client.

    Args:
        url: The address of the server, such as http://localhost:8700.
        key: An API key or a token, or a function that returns one before each request.
        retries: The number of attempts and the delays between them; five attempts by default.
        means: Clock, id factory and random source, for tests.

    Raises:
        Rejected: the address or the key is not valid.
    """

    def __init__(
        self, url: str, *, key: Key = None, retries: RetryPolicy = REQUESTS, means: Means | None = None
    ) -> None:
        self._address = ServerAddress(url, key)
        self._retries = retries
        self._means = means or Means()
        self._link: ServerLink | None = None
        self.sessions = Sessions(self)
        self.agent_sessions = AgentSessions(self)
        self.runs = Runs(self)
        self.approvals = Approvals(self)
        self.schedules = Schedules(self)
        self.deliveries = Deliveries(self)

    def __repr__(self) -> str:
        return f"Client({self._address.shown!r})"

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def open(self) -> None:
        """Open the client; nothing is sent yet. The caller must close it.

        Raises:
            Rejected: the extra `packages/runtime[client]` is not installed.
        """
        if self._link is None:
            self._link = _module("link").ServerLink(self._address, self._means, retries=self._retries)

    async def aclose(self) -> None:
        """Close every connection."""
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    @property
    def link(self) -> "ServerLink":
        """The connection to the server.

        Raises:
            Rejected: the client is not open.
        """
        if self._link is None:
            raise bad_request("the client is not open: use `async with Client(…) as client`, or call open()")
        return self._link

    def events(
        self,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        after: str | None = None,
        follow: bool = True,
        idle_s: float = IDLE_S,
    ) -> "EventFeed":
        """Return the events of a session, or of a run up to its end.

        Args:
            session_id: The session; exactly one of session_id and run_id is required.
            run_id: The run.
            after: The `cursor` of a feed, to continue from there; the beginning by default.
            follow: Whether to wait for future events.
            idle_s: The time without data after which a connection is considered dead.
        """
        if (session_id is None) == (run_id is None):
            raise bad_request("events takes exactly one of session_id and run_id")
        kind, name = ("runs", run_id) if session_id is None else ("sessions", session_id)
        return _module("feed").EventFeed(
            self.link,
            path_of(kind, name or "", "events"),
            is_of_run=session_id is None,
            after=after,
            follow=follow,
            idle_s=idle_s,
        )

    async def agents(self) -> tuple[AgentInfo, ...]:
        """Return the agents of the server."""
        return (await self.link.ask(AgentList, ServerCall("GET", "/agents"))).agents

    async def health(self) -> Health:
        """Return whether the server accepts requests."""
        return await self.link.ask(Health, ServerCall("GET", "/health"))


def _module(name: str) -> ModuleType:
    try:
        # HTTP support is an extra, and slow to import.
        return import_module(f"windlass.client.{name}")
    except ModuleNotFoundError as error:
        missing = error.name
    raise bad_request(f"the client needs an optional dependency ({missing}): {install_hint('client')}")
