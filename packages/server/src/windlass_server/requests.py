"""Requests: the caller and what belongs to them, and starting runs.

Every id in a path goes through `OwnSession`, `OwnHistory` or `OwnRun`, and every list through
`caller.sessions`, which is bound to its user: a route that uses them cannot show what another user owns.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Final, Self, TypeVar, Unpack

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel

from windlass import Conflict, Denied, Event, Rejected, RunHandle
from windlass.agent.agent import output_contract
from windlass.catalog import (
    OpenRequest,
    Page,
    RefusedStart,
    RunInfo,
    RunQuery,
    RunStats,
    SessionInfo,
    SessionQuery,
    SettledRequest,
)
from windlass.catalog.stats import RunSplit
from windlass.evals import Datasets, ExperimentResult, Results
from windlass.parts import Store
from windlass.ports.catalog import RunRow
from windlass.ports.feed import EventStream, StreamOptions
from windlass.ports.recorded import RunLook
from windlass.refusals import list_names
from windlass.runtime.options import RunOptions
from windlass.runtime.requests import consents
from windlass.telemetry.spans import TRACEPARENT
from windlass_harness.times import stamp_of
from windlass_protocol import (
    AcceptedRun,
    BudgetLimits,
    CausalIds,
    Cursor,
    DeliveryInfo,
    ErrorKind,
    EvalDataset,
    InputKind,
    InputRequest,
    InputResponse,
    JsonObject,
    OutputContract,
    RetryClass,
    ScheduleInfo,
    UserContent,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import ID_CHARS_MAX, OUTPUT_REPAIRS
from windlass_server.auth import Principal
from windlass_server.generated.queries import PageQuery
from windlass_server.models import RunWishes
from windlass_server.options import BACKLOG_MAX
from windlass_server.problems import Problem, not_found
from windlass_server.reservations import ReservedSession
from windlass_server.settings import OWNED_READ_AHEAD_MAX, OWNERS_KNOWN_MAX, PAGE_DEFAULT
from windlass_server.tenants import Tenant

PREFIX: Final = "/v1"
EVE_PREFIX: Final = "/eve/v1"
"""The prefix of the routes that clients of eve call."""
PREFIXES: Final = (f"{PREFIX}/", f"{EVE_PREFIX}/")
"""The beginnings of the paths that are routes; all other paths are pages of the inspector."""
WEBHOOKS: Final = "/webhooks/"
"""The beginning of the paths of webhooks: their requests are signed, and need no credentials."""
JSON_TYPE: Final = "application/json"
_ID: Final = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff]{{1,{ID_CHARS_MAX}}}")
SCOPE_CHARS: Final = 16
"""Characters that say to which user a name belongs."""
T = TypeVar("T", bound=BaseModel)
ItemT = TypeVar("ItemT")


@sealed
class RequestKey:
    """The Idempotency-Key of a request: what follows from it is the same when the request is repeated."""

    id: str
    """Different for different users, addresses and keys."""
    at: datetime
    """When the first request with the key came."""
    is_new: bool
    """Whether this is the first request with the key."""


@sealed
class Caller:
    """The user who makes a request, with their tenant; `Guard` puts it into the state of the request."""

    principal: Principal
    tenant: Tenant
    release_slot: Callable[[], None]
    """Let another request be answered; for a request that only waits from now on, such as a stream."""
    is_welcome: Callable[[], Awaitable[bool]]
    """Whether the credentials of the request are still valid: a stream may outlive a key."""
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    """The trace context of the request, `traceparent` and `tracestate`: that of a run that it starts."""
    approves_own: bool = False
    """Whether users without the role approver may approve calls of their own sessions."""
    output_repairs_max: int = OUTPUT_REPAIRS
    """How often an answer that misses the output schema of a request goes back to the model."""
    backlog_max: int = BACKLOG_MAX
    """Queued runs of the tenant at which further starts are refused."""
    key: RequestKey | None = None
    """The Idempotency-Key; None if the request has none, or its operation takes none."""

    def with_key(self, key: RequestKey) -> "Caller":
        """Return the caller of a request with a key."""
        return replace(self, key=key)

    def id_for(self, kind: str) -> str | None:
        """Return an id that follows from the key; None without a key."""
        return None if self.key is None else derive_id(kind, self.key.id)

    def new_id(self, kind: str) -> str:
        """Return an id for something that the request makes: the same if it is repeated with its key."""
        return self.id_for(kind) or self.tenant.new_id()

    def now(self) -> datetime:
        """Return the time that the request acts by: the same if it is repeated with its key."""
        return self.tenant.runtime.core.ports.machine.clock.now() if self.key is None else self.key.at

    @property
    def sessions(self) -> "OwnSessions":
        """The sessions, runs and requests of this user."""
        return OwnSessions(self.tenant, self.principal)

    @property
    def datasets(self) -> Datasets:
        """The data sets of this user."""
        return Datasets(self.tenant.runtime, owner=self.principal.user)


async def _caller(request: Request) -> Caller:
    return request.state.caller


CallerDep = Annotated[Caller, Depends(_caller)]
PageDep = Annotated[PageQuery, Query()]


# ownership


@sealed
class OwnedSession:
    """A session of the caller: with a history, or reserved and still empty."""

    session_id: str
    agent_id: str
    info: SessionInfo | None = None
    reserved: ReservedSession | None = None


@sealed
class OwnSessions:
    """The sessions, runs and requests of one user in a tenant.

    A session of another user looks the same as one that does not exist.
    """

    tenant: Tenant
    principal: Principal

    async def find(self, session_id: str) -> OwnedSession | None:
        """Return a session of the user; None if there is none."""
        if not _ID.fullmatch(session_id):
            return None
        info = await self.tenant.store.session_info(session_id)
        if info is not None:
            is_own = info.owner == self.principal.user
            return OwnedSession(session_id, info.agent_id, info) if is_own else None
        reserved = await self.tenant.reservations.find(session_id, self.principal.user)
        if reserved is None:
            return None
        return OwnedSession(session_id, reserved.agent_id, reserved=reserved)

    async def find_run(self, run_id: str) -> RunRow | None:
        """Return a run in a session of the user; None if there is none."""
        row = await self.tenant.store.run(run_id) if _ID.fullmatch(run_id) else None
        return row if row is not None and row.owner == self.principal.user else None

    async def list(
        self, *, after: str | None = None, limit: int = PAGE_DEFAULT, **query: Unpack[SessionQuery]
    ) -> Page[SessionInfo]:
        """Return sessions of the user."""
        query["owner"] = self.principal.user
        return await self.tenant.runtime.sessions.list(after=after, limit=limit, **query)

    async def count(self, **query: Unpack[SessionQuery]) -> int:
        """Return how many sessions of the user match a filter."""
        query["owner"] = self.principal.user
        return await self.tenant.runtime.sessions.count(**query)

    async def count_runs(self, **query: Unpack[RunQuery]) -> int:
        """Return how many runs of the user match a filter."""
        query["owner"] = self.principal.user
        return await self.tenant.runtime.sessions.count_runs(**query)

    async def runs(
        self, *, after: str | None = None, limit: int = PAGE_DEFAULT, **query: Unpack[RunQuery]
    ) -> Page[RunInfo]:
        """Return runs of the user."""
        query["owner"] = self.principal.user
        return await self.tenant.runtime.sessions.runs(after=after, limit=limit, **query)

    async def refused_starts(
        self, *, after: str | None, limit: int, agent_id: str | None = None
    ) -> Page[RefusedStart]:
        """Return refused starts of the user, newest first."""
        sessions, owner = self.tenant.runtime.sessions, self.principal.user
        return await sessions.refused_starts(after=after, limit=limit, owner=owner, agent_id=agent_id)

    async def requests(self, *, after: str | None, limit: int) -> Page[OpenRequest]:
        """Return open requests, oldest first; to an approver, those of the whole tenant.

        Other users get those of their sessions, and the questions that name them or a role of theirs.
        """
        owner = None if self._is_approver else self.principal.user
        return await self.tenant.runtime.sessions.requests(
            owner=owner, named=self._names, after=after, limit=limit
        )

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request that the user may answer, or might have; None if there is none."""
        request = (
            await self.tenant.runtime.sessions.request(request_id) if _ID.fullmatch(request_id) else None
        )
        if request is None or self._is_approver or request.owner == self.principal.user:
            return request
        if isinstance(request, SettledRequest):
            return request if request.responder == self.principal.user else None
        return request if request.asks(self._names) else None

    async def stats(
        self,
        start: datetime,
        end: datetime,
        *,
        bucket_s: int,
        agent_id: str | None,
        split: RunSplit | None,
    ) -> RunStats:
        """Return counts, durations and cost of runs."""
        sessions, owner = self.tenant.runtime.sessions, self.principal.user
        return await sessions.stats(
            start, end, bucket_s=bucket_s, agent_id=agent_id, owner=owner, split=split
        )

    def look(self, agent_id: str | None = None, start: str | None = None, end: str | None = None) -> RunLook:
        """Return the question for runs of the user that the ledger takes."""
        return RunLook(self.principal.user, agent_id, start, end)

    def events(
        self, cursor: Cursor | None, *, options: StreamOptions, types: Collection[str] | None
    ) -> "OwnedStream":
        """Return the events of all sessions of the user; of some types, if they are given."""
        inner = self.tenant.runtime.events().subscribe_all(cursor, options=options)
        return OwnedStream(inner, self.tenant.store, owner=self.principal.user, types=types)

    @property
    def _names(self) -> tuple[str, ...]:
        """The names by which a question of a tool asks the user."""
        return (self.principal.user, *(self.principal.role_names or ()))

    @property
    def _is_approver(self) -> bool:
        return "approver" in self.principal.roles


async def _own_session(
    caller: CallerDep, session_id: Annotated[str, Path(description="A session.", examples=["019a8f…"])]
) -> OwnedSession:
    session = await caller.sessions.find(session_id)
    if session is None:
        raise not_found("session")
    return session


OwnSession = Annotated[OwnedSession, Depends(_own_session)]
"""The session of the path, which belongs to the caller; 404 otherwise."""


async def _own_history(session: OwnSession) -> SessionInfo:
    if session.info is None:
        raise not_found("session")
    return session.info


OwnHistory = Annotated[SessionInfo, Depends(_own_history)]
"""The session of the path, which belongs to the caller and has a history; 404 otherwise."""


async def _own_run(
    caller: CallerDep, run_id: Annotated[str, Path(description="A run.", examples=["019a8f…"])]
) -> RunRow:
    row = await caller.sessions.find_run(run_id)
    if row is None:
        raise not_found("run")
    return row


async def _own_schedule(
    caller: CallerDep, schedule_id: Annotated[str, Path(description="A schedule.", examples=["nightly"])]
) -> ScheduleInfo:
    schedule = await find_schedule(caller, schedule_id)
    if schedule is None:
        raise not_found("schedule")
    return schedule


OwnSchedule = Annotated[ScheduleInfo, Depends(_own_schedule)]
"""The schedule of the path as it is stored, which belongs to the caller; 404 otherwise."""


async def find_schedule(caller: Caller, name: str) -> ScheduleInfo | None:
    """Return a schedule of the caller as it is stored; None if there is none.

    Earlier releases, and applications, store schedules of users under their plain names.
    """
    for stored in (name, scope_name(caller, name)):
        try:
            schedule = await caller.tenant.runtime.schedules.get(stored)
        except (Conflict, Rejected):  # no schedule has such a name
            continue
        if schedule.owner == caller.principal.user:
            return schedule
    return None


def scope_name(caller: Caller, name: str) -> str:
    """Return a name that a user gave as it is stored: users may give the same names."""
    return f"{name}{_scope(caller)}"


def unscope_name(caller: Caller, name: str) -> str:
    """Return a name as the user gave it."""
    return name.removesuffix(_scope(caller))


def _scope(caller: Caller) -> str:
    return f"~{sha256(caller.principal.user.encode()).hexdigest()[:SCOPE_CHARS]}"


async def _own_experiment(
    caller: CallerDep,
    experiment_id: Annotated[str, Path(description="An experiment.", examples=["eval-prices-19c0"])],
) -> ExperimentResult:
    return await experiment_of(caller, experiment_id)


async def experiment_of(caller: Caller, experiment_id: str) -> ExperimentResult:
    """Return an experiment of the caller.

    Raises:
        Problem: there is none with this id; 404.
    """
    try:
        result = await Results(caller.tenant.runtime).read(experiment_id)
    except (Conflict, Rejected):
        result = None
    if result is None or result.experiment.owner != caller.principal.user:
        raise not_found("experiment")
    return result


OwnExperiment = Annotated[ExperimentResult, Depends(_own_experiment)]
"""The experiment of the path, which belongs to the caller; 404 otherwise."""


async def _own_dataset(
    caller: CallerDep, dataset_id: Annotated[str, Path(description="A data set.", examples=["prices"])]
) -> EvalDataset:
    try:
        return await caller.datasets.get(dataset_id)
    except (Conflict, Rejected):  # no data set has such a name
        pass
    raise not_found("data set")


OwnDataset = Annotated[EvalDataset, Depends(_own_dataset)]
"""The data set of the path, which belongs to the caller; 404 otherwise."""


async def _own_delivery(
    caller: CallerDep, delivery_id: Annotated[str, Path(description="A delivery.", examples=["msg_5f0c…"])]
) -> DeliveryInfo:
    try:
        delivery = await caller.tenant.deliveries.get(delivery_id)
    except (Conflict, Rejected):  # no delivery has such an id
        delivery = None
    if delivery is None or delivery.owner != caller.principal.user:
        raise not_found("delivery")
    return delivery


OwnDelivery = Annotated[DeliveryInfo, Depends(_own_delivery)]
"""The delivery of the path, about a session of the caller; 404 otherwise."""
OwnRun = Annotated[RunRow, Depends(_own_run)]
"""The run of the path, which belongs to the caller; 404 otherwise."""


async def _own_request(
    caller: CallerDep,
    request_id: Annotated[str, Path(description="A request.", examples=["approval:019a8f…"])],
) -> OpenRequest | SettledRequest:
    request = await caller.sessions.find_request(request_id)
    if request is None:
        raise not_found("request")
    return request


OwnRequest = Annotated[OpenRequest | SettledRequest, Depends(_own_request)]
"""The request of the path, which the caller may answer, or might have; 404 otherwise."""


class OwnedStream:
    """The events of all sessions of one user, out of those of a tenant; see `EventStream`.

    Cursors are those of the tenant: they reveal how many events it has, and nothing else.
    """

    def __init__(
        self, inner: EventStream, store: Store, *, owner: str, types: Collection[str] | None = None
    ) -> None:
        self._inner = inner
        self._store = store
        self._owner = owner
        self._types = types
        self._ownership: OrderedDict[str, bool] = OrderedDict()
        """Whether sessions belong to the user; an owner never changes."""
        self._ahead: deque[tuple[Event, Cursor]] = deque()
        self._pending: tuple[Event, Cursor] | None = None
        """An event that was read and not checked yet."""
        self._cursor = inner.cursor

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event of the user; wait for it if there is none."""
        while not self._ahead:
            await self._take()
            # Read ahead what is ready: `ready` must count only events that can be sent without waiting.
            while self._inner.ready and len(self._ahead) < OWNED_READ_AHEAD_MAX:
                await self._take()
        event, self._cursor = self._ahead.popleft()
        return event

    @property
    def cursor(self) -> Cursor:
        """The cursor after the last event."""
        return self._cursor

    @property
    def ready(self) -> int:
        """The number of events that can be read without waiting."""
        return len(self._ahead)

    async def open(self) -> None:
        """Check the cursor before the first event is read."""
        await self._inner.open()
        self._cursor = self._inner.cursor

    async def aclose(self) -> None:
        """End the stream."""
        await self._inner.aclose()

    async def _take(self) -> None:
        """Read the next event, and keep it if it belongs to the user."""
        if self._pending is None:
            event = await anext(self._inner)
            self._pending = (event, self._inner.cursor)
        # A wait that is interrupted here keeps the event for the next call.
        event, cursor = self._pending
        is_wanted = self._types is None or event.type in self._types
        if is_wanted and event.session_id is not None and await self._is_own(event.session_id):
            self._ahead.append((event, cursor))
        self._pending = None

    async def _is_own(self, session_id: str) -> bool:
        is_own = self._ownership.get(session_id)
        if is_own is None:
            info = await self._store.session_info(session_id)
            is_own = self._ownership[session_id] = info is not None and info.owner == self._owner
            if len(self._ownership) > OWNERS_KNOWN_MAX:
                self._ownership.popitem(last=False)
        return is_own


# answers


async def sign_responses(caller: Caller, responses: Iterable[InputResponse]) -> list[InputResponse]:
    """Return responses in the name of the caller, whatever they contain.

    Raises:
        Denied: a response approves a call, or repeats or supplies an interrupted one, and the caller is
            neither an approver nor named by the request.
    """
    user = caller.principal.user
    by = {"responder": user, "roles": caller.principal.role_names}
    answers = [response.model_copy(update=by) for response in responses]
    if caller.approves_own or "approver" in caller.principal.roles:
        return answers
    for response in answers:
        # The runtime refuses a request that is not open, and one of another user like an unknown one.
        request = await caller.sessions.find_request(response.request_id)
        if isinstance(request, OpenRequest) and consents(request.request, response):
            alternative = "skip it" if request.request.kind is InputKind.RECOVERY else "deny it"
            raise Denied(
                f"{_approvers_text(request.request)}, and you are {list_names([user])}; "
                f"you may {alternative}",
                kind=ErrorKind.APPROVAL_FAILURE,
                retry=RetryClass.USER_ACTION_NEEDED,
                causal_ids=CausalIds(session_id=request.session_id, request_id=request.request_id),
            )
    return answers


def _approvers_text(request: InputRequest) -> str:
    if request.responders is None:
        return "only users with the role approver may approve this call"
    return f"this call may be approved by: {list_names(request.responders)}"


# starting runs


KEY_TAKEN: Final = (
    "the Idempotency-Key (or the continuationToken) was used with another request: send that one again as it "
    "was, or choose another key"
)


def first_run_id(session_id: str) -> str:
    """Return the id of the run that a session begins with."""
    return derive_id("first run", session_id)


def run_id_for(caller: Caller, session_id: str, *, token: str | None = None) -> str:
    """Return the id of a new run: the same for the same key, and for the same token.

    Two different messages with the same token ask for the same run id, so one of them is refused.
    """
    return caller.new_id("run") if token is None else derive_id("run behind", session_id, token)


async def token_of(caller: Caller, session_id: str) -> str:
    """Return the continuation token of a session."""
    newest = await caller.sessions.runs(session_id=session_id, limit=1)
    return token_after(session_id, newest.items[0].run_id if newest.items else "")


def token_after(session_id: str, run_id: str) -> str:
    """Return the continuation token after a run; the run is empty in a session without runs."""
    return derive_id("token", session_id, run_id)


async def check_token(caller: Caller, session_id: str, *, token: str | None, run_id: str) -> None:
    """Refuse a continuation token that is not that of the session now.

    Raises:
        Conflict: the session has changed since, or never had the token.
    """
    if token is None or token == await token_of(caller, session_id):
        return
    # A repeated request: the run that it started is the one that changed the session.
    if await caller.tenant.store.run(run_id) is None:
        raise conflict_error("stale continuationToken: the session has changed since; read it, then decide")


def stamp(time: datetime) -> str:
    """Return a time in the format of records."""
    return stamp_of(int(time.timestamp()) * 1_000 + time.microsecond // 1_000)


def conflict_error(message: str) -> Conflict:
    """Return the error of a request that conflicts with an earlier one."""
    return Conflict(message, kind=ErrorKind.INVALID_STATE_TRANSITION, retry=RetryClass.NOT_RETRYABLE)


def derive_id(*parts: str) -> str:
    """Return an id that is a digest of texts."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode()).hexdigest()[:44]


def agent_for(caller: Caller, wished: str | None, *, default: str | None = None) -> str:
    """Return the agent of a request: the wished one, the default, or the only one.

    Raises:
        Problem: the agent is unknown, or none is given and there are several.
    """
    names = caller.tenant.agent_ids
    name = wished or default or (names[0] if len(names) == 1 else None)
    if name is None:
        raise Problem(422, f"agent is missing: give one of {', '.join(names)}")
    if name not in names:
        raise Problem(422, f"unknown agent; known are {', '.join(names)}")
    return name


async def start(
    caller: Caller,
    message: UserContent,
    *,
    wishes: RunWishes,
    ids: tuple[str, str],
    agent_id: str,
    conflict: str = KEY_TAKEN,
) -> RunHandle:
    """Start a run of the caller; `ids` are those of its session and its own.

    Raises:
        Conflict: the id is taken by a run with another request. `conflict` is the text of the error: an id
            is derived from an idempotency key, a token, or a name that the client chose.
        Problem: 429, too many runs of the tenant are queued.
    """
    await caller.tenant.backlog.check(caller.backlog_max)
    session_id, run_id = ids
    options: RunOptions = {
        "session_id": session_id,
        "run_id": run_id,
        "mode": wishes.mode,
        "batch": wishes.batch,
        "output": _contract(caller, agent_id, wishes.output_schema),
        "context": wishes.context,
        "metadata": await _metadata(caller, session_id, wishes),
        "budget": narrow_budget(caller, agent_id, wishes.budget),
        "source": caller.principal.source,
        "owner": caller.principal.user,
        "goal_id": wishes.goal,
    }
    try:
        return await caller.tenant.runtime.start_run(agent_id, message, **options)
    except Conflict:
        if await caller.tenant.store.run(run_id) is None:
            raise
    raise conflict_error(conflict)


def _contract(caller: Caller, agent_id: str, schema: JsonObject | None) -> OutputContract | JsonObject | None:
    """Return the output contract of a request, with the number of repairs of this server."""
    if schema is None or caller.output_repairs_max == OUTPUT_REPAIRS:
        return schema
    contract = output_contract(schema, agent_id)
    return contract.model_copy(update={"max_repair_attempts": caller.output_repairs_max})


async def _metadata(caller: Caller, session_id: str, wishes: RunWishes) -> JsonObject | None:
    """Return the metadata of a run, with the trace of the request and the chat of the `AgentSession`."""
    facts = await caller.tenant.runtime.sessions.agent_sessions.facts(session_id)
    owners = {name: facts[name] for name in ("chatId", "userId") if name in facts}
    own = wishes.metadata or {}
    trace = dict[str, str]() if TRACEPARENT in own else caller.trace
    return {**trace, **owners, **own} if owners or trace else wishes.metadata


def narrow_budget(caller: Caller, agent_id: str, wish: BudgetLimits | None) -> BudgetLimits | None:
    """Return the budget that a client asks for, within that of the agent: a client cannot raise a limit."""
    registered = caller.tenant.runtime.core.ports.registry.agent(agent_id)
    own = None if registered is None else registered.package.budget
    if wish is None or own is None:
        return wish
    limits = {**own.model_dump(exclude_none=True), **wish.model_dump(exclude_none=True)}
    most = own.model_dump(exclude_none=True)
    return BudgetLimits.model_validate({name: min(most.get(name, at), at) for name, at in limits.items()})


# responses


def page_of(
    items: Sequence[ItemT],
    query: PageQuery,
    *,
    name: Callable[[ItemT], str],
    is_shown: Callable[[ItemT], bool] = lambda _: True,
) -> Page[ItemT]:
    """Return a page of a list that is read whole; its cursor names the last item of the page before.

    The cursor still holds when that item is shown no more. `name` is different for each item.

    Raises:
        Problem: 400, the cursor is not one of this list.
    """
    if query.after is not None:
        names = [derive_id(name(item)) for item in items]
        if query.after not in names:
            raise Problem(400, "after must be the `next` of a page of the same kind")
        items = items[names.index(query.after) + 1 :]
    shown = [item for item in items if is_shown(item)]
    page = tuple(shown[: query.limit])
    return Page(page, derive_id(name(page[-1])) if len(shown) > query.limit else None)


def body_of(model: type[T], source: object, **more: object) -> T:
    """Return the body that shows something of the runtime; `more` are fields that it does not have.

    Raises:
        ValidationError: the body would lack a required field, or have one that its clients refuse.
    """
    fields = {name: getattr(source, name) for name in model.model_fields if hasattr(source, name)}
    return model.model_validate({**fields, **more}, from_attributes=True)


def reply(value: BaseModel, status: int = 200) -> Response:
    """Return a body as a response."""
    return Response(value.model_dump_json(by_alias=True, warnings=False), status, media_type=JSON_TYPE)


def accepted(session_id: str, run_id: str) -> Response:
    """Return that a request for a run was accepted."""
    return reply(AcceptedRun(session_id=session_id, run_id=run_id), 202)
