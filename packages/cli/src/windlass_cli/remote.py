"""The backend over HTTP: a Windlass server in place of the local store.

The contracts of the methods are in `windlass_cli.backend`: `Backend`, `BackendRun` and `BackendSessions`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from windlass import AgentError
from windlass.catalog import SettledRequest
from windlass.client import (
    ApprovalInfo,
    Client,
    NotFound,
    NotWindlass,
    RefusedStart,
    RunRow,
    SessionInfo,
    TraceInfo,
)
from windlass.errors import UnknownName
from windlass_cli.backend import choose_agent
from windlass_cli.output import CommandError
from windlass_protocol import InputResolvedData

if TYPE_CHECKING:
    from windlass.catalog import Page, RunQuery
    from windlass_protocol import (
        BudgetLimits,
        ChatMessage,
        DecisionRun,
        Event,
        InputRequest,
        JsonObject,
        RunResult,
        RunSnapshot,
        UndoPlan,
    )

T = TypeVar("T")
REQUESTS_PER_PAGE: Final = 200
_SERVER_IDS: Final = "a server chooses the ids of its sessions"


class ServerBackend:
    """A server as a `Backend`. The server knows the user by the key."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sessions = RemoteSessions(client)
        self.schedules = client.schedules
        self.deliveries = client.deliveries

    async def agent(self, name: str | None) -> str:
        return choose_agent(name, [agent.agent_id for agent in await self._client.agents()])

    async def new_session(self, agent: str) -> str:
        return (await self._client.sessions.create(agent=agent)).session_id

    async def start(self, agent: str, message: str, *, session_id: str | None) -> "RemoteRun":
        if session_id is None:
            started = await self._client.sessions.create(message, agent=agent)
        else:
            try:
                started = await self._client.sessions.send(session_id, message, agent=agent)
            except NotFound:
                raise CommandError(
                    f"unknown session: {session_id}", f"Omit --session: {_SERVER_IDS}."
                ) from None
        return RemoteRun(self._client, started.run_id)

    def handle(self, run_id: str) -> "RemoteRun":
        return RemoteRun(self._client, run_id)

    async def retry(self, run_id: str, *, budget: "BudgetLimits | None" = None) -> "RemoteRun":
        return RemoteRun(
            self._client, (await conflict_if_missing(self._client.runs.retry(run_id, budget=budget))).run_id
        )

    async def undo(self, run_id: str) -> "RemoteRun":
        return RemoteRun(self._client, (await conflict_if_missing(self._client.runs.undo(run_id))).run_id)

    async def undo_plan(self, run_id: str) -> "UndoPlan":
        return await conflict_if_missing(self._client.runs.undo_plan(run_id))

    async def run_snapshot(self, run_id: str) -> "RunSnapshot":
        return (await conflict_if_missing(self._client.runs.get(run_id))).run

    def can_drive(self, agent_id: str) -> bool:
        return True

    async def undriven(self) -> frozenset[str]:
        # A server drives the runs of its agents.
        return frozenset()

    async def decisions(self, run_id: str) -> "DecisionRun":
        return await conflict_if_missing(self._client.runs.decisions(run_id))

    async def session_records(self, session_id: str) -> "AsyncGenerator[Event]":
        async for event in self._client.events(session_id=session_id, follow=False):
            if event.index is None:
                yield event

    async def run_records(self, run_id: str) -> "AsyncGenerator[Event]":
        async for event in self._client.events(run_id=run_id, follow=False):
            if event.index is None:
                yield event


class RemoteRun:
    """A run on a server; see `BackendRun`."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    def events(self) -> "AsyncIterator[Event]":
        return self._client.events(run_id=self.run_id)

    async def wait(self, timeout: float | None = None) -> "RunResult":  # noqa: ASYNC109 - the run continues
        async with asyncio.timeout(timeout), self._client.events(run_id=self.run_id) as feed:
            async for _ in feed:
                pass
        result = (await conflict_if_missing(self._client.runs.get(self.run_id))).result
        if result is None:
            raise NotWindlass("the server ended the feed of a run that has not ended")
        return result

    async def open_requests(self) -> "tuple[InputRequest, ...]":
        try:
            return (await self._client.runs.get(self.run_id)).requests
        except NotFound:  # a run of another user: only its approver sees the request
            return ()

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        responder: str,
        arguments: "JsonObject | None" = None,
    ) -> None:
        # The server takes the responder from the key.
        await conflict_if_missing(
            self._client.approvals.answer(request_id, option_id, text=text, arguments=arguments)
        )

    async def cancel(self, *, by: str, reason: str | None = None) -> None:
        await conflict_if_missing(self._client.runs.cancel(self.run_id, reason=reason))


class RemoteSessions:
    """The sessions and runs of a server; see `BackendSessions`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(
        self,
        *,
        text: str | None = None,
        agent_id: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int = 50,
        root_only: bool = True,
    ) -> "Page[SessionInfo]":
        return await self._client.sessions.list(
            text=text, agent=agent_id, status=status, after=after, limit=limit, subagents=not root_only
        )

    async def runs(
        self, *, after: str | None = None, limit: int = 50, **query: "Unpack[RunQuery]"
    ) -> "Page[RunRow]":
        since, until = query.get("since"), query.get("until")
        return await self._client.runs.list(
            session=query.get("session_id"),
            agent=query.get("agent_id"),
            status=query.get("status"),
            after=after,
            limit=limit,
            subagents=not query.get("root_only", False),
            waits_on=query.get("waits_on"),
            version=query.get("version"),
            error=query.get("error"),
            tag=query.get("tag"),
            feedback=query.get("feedback"),
            crashed=query.get("has_crashed"),
            since=None if since is None else since.isoformat(),
            until=None if until is None else until.isoformat(),
            cost_min=query.get("cost_micros_min"),
            cost_max=query.get("cost_micros_max"),
            duration_min=query.get("duration_ms_min"),
            duration_max=query.get("duration_ms_max"),
            text=query.get("text"),
            sort=query.get("sort"),
            ascending=query.get("is_ascending", False),
        )

    async def refused_starts(self, *, agent_id: str | None = None, limit: int = 50) -> "Page[RefusedStart]":
        return await self._client.runs.refused(agent=agent_id, limit=limit)

    async def requests(self, *, after: str | None = None, limit: int = 50) -> "Page[ApprovalInfo]":
        return await self._client.approvals.list(after=after, limit=limit)

    async def request(self, request_id: str) -> ApprovalInfo | SettledRequest | None:
        # The server has no route to read a request by its id.
        after: str | None = None
        while True:
            page = await self._client.approvals.list(after=after, limit=REQUESTS_PER_PAGE)
            for row in page.items:
                if row.request.request_id == request_id:
                    return row
            if page.next is None:
                return await self._find_settled_request(request_id)
            after = page.next

    async def _find_settled_request(self, request_id: str) -> SettledRequest | None:
        """Return how a request of a visible run was settled."""
        run_id = request_id.partition(":")[2].partition(":")[0]
        try:
            session_id = (await self._client.runs.get(run_id)).run.session_id or ""
        except AgentError:
            return None
        async for event in self._client.events(run_id=run_id, follow=False):
            if event.type != "input.resolved":
                continue
            for resolution in InputResolvedData.model_validate(event.data).resolutions:
                if resolution.request_id == request_id:
                    response = resolution.response
                    return SettledRequest(
                        request_id,
                        session_id,
                        run_id,
                        owner=None,
                        outcome=resolution.outcome,
                        option_id=None if response is None else response.option_id,
                        responder=None if response is None else response.responder,
                        at=event.meta.at,
                    )
        return None

    async def get(self, session_id: str) -> SessionInfo:
        return await conflict_if_missing(self._client.sessions.get(session_id))

    async def history(
        self, session_id: str, *, after: str | None = None, limit: int = 50
    ) -> "Page[ChatMessage]":
        return await conflict_if_missing(self._client.sessions.history(session_id, after=after, limit=limit))

    async def trace(self, run_id: str) -> TraceInfo:
        return await conflict_if_missing(self._client.runs.trace(run_id))

    async def fork(
        self, session_id: str, *, at: int | None = None, session_id_new: str | None = None
    ) -> SessionInfo:
        if session_id_new is not None:
            raise CommandError(_SERVER_IDS, "Omit --name.")
        return await conflict_if_missing(self._client.sessions.fork(session_id, at=at))

    def export(self, session_id: str) -> AsyncIterator[str]:
        return self._client.sessions.export(session_id)

    async def delete(self, session_id: str) -> tuple[str, ...]:
        return await conflict_if_missing(self._client.sessions.delete(session_id))


async def conflict_if_missing(answer: Awaitable[T]) -> T:
    """Return an answer of the server; "not found" is `Conflict`, as in a store.

    Raises:
        Conflict: the server does not have it.
    """
    try:
        return await answer
    except NotFound as error:
        raise UnknownName(error.message, kind=error.kind, retry=error.retry) from None
