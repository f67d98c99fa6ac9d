"""The backend over HTTP: a Windlass server in place of the local store.

The contracts of the methods are in `windlass_cli.backend`: `Backend`, `Run` and `Sessions`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from windlass import AgentError, Conflict
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
from windlass_cli.backend import chosen_agent
from windlass_cli.output import Problem
from windlass_protocol import InputResolvedData

if TYPE_CHECKING:
    from windlass.catalog import Page, RunQuery
    from windlass_protocol import (
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


class RemoteServer:
    """A server as a `Backend`. The server knows the user by the key."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sessions = RemoteSessions(client)
        self.schedules = client.schedules
        self.deliveries = client.deliveries

    async def agent(self, name: str | None) -> str:
        return chosen_agent(name, [agent.agent_id for agent in await self._client.agents()])

    async def new_session(self, agent: str) -> str:
        return (await self._client.sessions.create(agent=agent)).session_id

    async def start(self, agent: str, message: str, *, session_id: str | None) -> "RemoteRun":
        if session_id is None:
            begun = await self._client.sessions.create(message, agent=agent)
        else:
            try:
                begun = await self._client.sessions.send(session_id, message, agent=agent)
            except NotFound:
                raise Problem(f"unknown session: {session_id}", f"Omit --session: {_SERVER_IDS}.") from None
        return RemoteRun(self._client, begun.run_id)

    def handle(self, run_id: str) -> "RemoteRun":
        return RemoteRun(self._client, run_id)

    async def retry(self, run_id: str) -> "RemoteRun":
        return RemoteRun(self._client, (await known(self._client.runs.retry(run_id))).run_id)

    async def undo(self, run_id: str) -> "RemoteRun":
        return RemoteRun(self._client, (await known(self._client.runs.undo(run_id))).run_id)

    async def undo_plan(self, run_id: str) -> "UndoPlan":
        return await known(self._client.runs.undo_plan(run_id))

    async def run_snapshot(self, run_id: str) -> "RunSnapshot":
        return (await known(self._client.runs.get(run_id))).run

    def can_drive(self, agent_id: str) -> bool:
        return True

    async def undriven(self) -> frozenset[str]:
        # A server drives the runs of its agents.
        return frozenset()

    async def decisions(self, run_id: str) -> "DecisionRun":
        return await known(self._client.runs.decisions(run_id))

    async def session_records(self, session_id: str) -> "AsyncGenerator[Event]":
        async for event in self._client.events(session_id=session_id, follow=False):
            if event.index is None:
                yield event

    async def run_records(self, run_id: str) -> "AsyncGenerator[Event]":
        async for event in self._client.events(run_id=run_id, follow=False):
            if event.index is None:
                yield event


class RemoteRun:
    """A run on a server; see `Run`."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    def events(self) -> "AsyncIterator[Event]":
        return self._client.events(run_id=self.run_id)

    async def wait(self, timeout: float | None = None) -> "RunResult":  # noqa: ASYNC109 - the run continues
        async with asyncio.timeout(timeout), self._client.events(run_id=self.run_id) as feed:
            async for _ in feed:
                pass
        result = (await known(self._client.runs.get(self.run_id))).result
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
        await known(self._client.approvals.answer(request_id, option_id, text=text, arguments=arguments))

    async def cancel(self, *, by: str, reason: str | None = None) -> None:
        await known(self._client.runs.cancel(self.run_id, reason=reason))


class RemoteSessions:
    """The sessions and runs of a server; see `Sessions`."""

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
        self, *, after: str | None = None, limit: int = 50, **wanted: "Unpack[RunQuery]"
    ) -> "Page[RunRow]":
        since, until = wanted.get("since"), wanted.get("until")
        return await self._client.runs.list(
            session=wanted.get("session_id"),
            agent=wanted.get("agent_id"),
            status=wanted.get("status"),
            after=after,
            limit=limit,
            subagents=not wanted.get("root_only", False),
            waits_on=wanted.get("waits_on"),
            version=wanted.get("version"),
            error=wanted.get("error"),
            tag=wanted.get("tag"),
            feedback=wanted.get("feedback"),
            crashed=wanted.get("has_crashed"),
            since=None if since is None else since.isoformat(),
            until=None if until is None else until.isoformat(),
            cost_min=wanted.get("cost_micros_min"),
            cost_max=wanted.get("cost_micros_max"),
            duration_min=wanted.get("duration_ms_min"),
            duration_max=wanted.get("duration_ms_max"),
            text=wanted.get("text"),
            sort=wanted.get("sort"),
            ascending=wanted.get("is_ascending", False),
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
            for one in page.items:
                if one.request.request_id == request_id:
                    return one
            if page.next is None:
                return await self._settled(request_id)
            after = page.next

    async def _settled(self, request_id: str) -> SettledRequest | None:
        """Return how a request of a visible run was settled."""
        run_id = request_id.partition(":")[2].partition(":")[0]
        try:
            session_id = (await self._client.runs.get(run_id)).run.session_id or ""
        except AgentError:
            return None
        async for event in self._client.events(run_id=run_id, follow=False):
            if event.type != "input.resolved":
                continue
            for one in InputResolvedData.model_validate(event.data).resolutions:
                if one.request_id == request_id:
                    said = one.response
                    return SettledRequest(
                        request_id,
                        session_id,
                        run_id,
                        owner=None,
                        outcome=one.outcome,
                        option_id=None if said is None else said.option_id,
                        responder=None if said is None else said.responder,
                        at=event.meta.at,
                    )
        return None

    async def get(self, session_id: str) -> SessionInfo:
        return await known(self._client.sessions.get(session_id))

    async def history(
        self, session_id: str, *, after: str | None = None, limit: int = 50
    ) -> "Page[ChatMessage]":
        return await known(self._client.sessions.history(session_id, after=after, limit=limit))

    async def trace(self, run_id: str) -> TraceInfo:
        return await known(self._client.runs.trace(run_id))

    async def fork(
        self, session_id: str, *, at: int | None = None, session_id_new: str | None = None
    ) -> SessionInfo:
        if session_id_new is not None:
            raise Problem(_SERVER_IDS, "Omit --name.")
        return await known(self._client.sessions.fork(session_id, at=at))

    def export(self, session_id: str) -> AsyncIterator[str]:
        return self._client.sessions.export(session_id)

    async def delete(self, session_id: str) -> tuple[str, ...]:
        return await known(self._client.sessions.delete(session_id))


async def known(answer: Awaitable[T]) -> T:
    """Return an answer of the server; "not found" is `Conflict`, as in a store.

    Raises:
        Conflict: the server does not have it.
    """
    try:
        return await answer
    except NotFound as error:
        raise Conflict(error.message, kind=error.kind, retry=error.retry) from None
