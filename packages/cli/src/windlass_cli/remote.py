"""The backend over HTTP: a Windlass server in place of the local store.

The contracts of the methods are in `windlass_cli.backend`: `Backend`, `BackendRun` and `BackendSessions`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Final, TypeVar, Unpack, cast

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
from windlass_cli.backend import all_items, choose_agent
from windlass_cli.output import CommandError
from windlass_protocol import DeliveryInfo, LimitInfo, NewLimit, NewSchedule, ScheduleInfo

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass import Schedule
    from windlass.agent.agent import BatchChoice
    from windlass.catalog import Page, RunQuery
    from windlass.parts import SpendLimit
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
    from windlass_protocol.generated import values

T = TypeVar("T")
_SERVER_IDS: Final = "a server chooses the ids of its sessions"


class ServerBackend:
    """A server as a `Backend`. The server knows the user by the key."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sessions = RemoteSessions(client)
        self.schedules = RemoteSchedules(client)
        self.limits = RemoteLimits(client)
        self.deliveries = RemoteDeliveries(client)

    async def agent(self, name: str | None) -> str:
        return choose_agent(name, [agent.agent_id for agent in (await self._client.agents.list()).agents])

    async def new_session(self, agent: str) -> str:
        return (await self._client.sessions.create_empty(agent)).session_id

    async def start(
        self, agent: str, message: str, *, session_id: str | None, batch: "BatchChoice | None" = None
    ) -> "RemoteRun":
        if session_id is None:
            started = await self._client.sessions.create(message, agent=agent, batch=batch)
        else:
            try:
                started = await self._client.sessions.send(session_id, message, agent=agent, batch=batch)
            except NotFound:
                raise CommandError(
                    f"unknown session: {session_id}", f"Omit --session: {_SERVER_IDS}."
                ) from None
        return RemoteRun(self._client, started.run_id)

    def handle(self, run_id: str) -> "RemoteRun":
        return RemoteRun(self._client, run_id)

    async def retry(self, run_id: str, *, budget: "BudgetLimits | None" = None) -> "RemoteRun":
        retried = await conflict_if_missing(self._client.runs.retry(run_id, budget))
        return RemoteRun(self._client, retried.run_id)

    async def undo(self, run_id: str) -> "RemoteRun":
        undone = await conflict_if_missing(self._client.runs.undo(run_id))
        return RemoteRun(self._client, undone.run_id)

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
        await conflict_if_missing(self._client.runs.cancel(self.run_id, reason))

    async def send(self, name: str, data: "JsonValue", *, key: str | None, by: str) -> None:
        # The server takes the sender from the key.
        await conflict_if_missing(self._client.runs.send(self.run_id, name, data=data, key=key))


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
            text=text,
            agent=agent_id,
            status=cast("values.SessionStatusValue | None", status),
            after=after,
            limit=limit,
            subagents=not root_only,
        )

    async def runs(
        self, *, after: str | None = None, limit: int = 50, **query: "Unpack[RunQuery]"
    ) -> "Page[RunRow]":
        since, until = query.get("since"), query.get("until")
        return await self._client.runs.list(
            session=query.get("session_id"),
            agent=query.get("agent_id"),
            status=cast("values.RunStatusValue | None", query.get("status")),
            after=after,
            limit=limit,
            subagents=not query.get("root_only", False),
            waits_on=cast("values.WaitCauseValue | None", query.get("waits_on")),
            version=query.get("version"),
            error=cast("values.ErrorKindValue | None", query.get("error")),
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
            sort=cast("values.RunSortValue | None", query.get("sort")),
            ascending=query.get("is_ascending", False),
        )

    async def refused_starts(self, *, agent_id: str | None = None, limit: int = 50) -> "Page[RefusedStart]":
        return await self._client.runs.refused(agent=agent_id, limit=limit)

    async def requests(self, *, after: str | None = None, limit: int = 50) -> "Page[ApprovalInfo]":
        return await self._client.approvals.list(after=after, limit=limit)

    async def request(self, request_id: str) -> ApprovalInfo | SettledRequest | None:
        try:
            view = await self._client.approvals.get(request_id)
        except NotFound:
            return None
        if view.settled is None:
            return view.open
        settled = view.settled
        return SettledRequest(
            request_id,
            settled.session_id,
            settled.run_id,
            owner=settled.owner,
            outcome=settled.outcome,
            option_id=settled.option_id,
            responder=settled.responder,
            at=settled.at,
        )

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
        return (await conflict_if_missing(self._client.sessions.delete(session_id))).deleted


class RemoteSchedules:
    """The schedules of a server; see `BackendSchedules`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def put(self, schedule: "Schedule") -> ScheduleInfo:
        fields = {name: getattr(schedule, name) for name in NewSchedule.model_fields}
        return await self._client.schedules.put(**fields)

    async def list(self, *, limit: int = 100) -> "Page[ScheduleInfo]":
        return await self._client.schedules.list(limit=limit)

    async def run_now(self, name: str) -> str:
        return (await self._client.schedules.run(name)).run_id

    async def pause(self, name: str) -> ScheduleInfo:
        return await self._client.schedules.pause(name)

    async def resume(self, name: str) -> ScheduleInfo:
        return await self._client.schedules.resume(name)

    async def delete(self, name: str) -> None:
        await self._client.schedules.delete(name)


class RemoteLimits:
    """The limits of a server; see `BackendLimits`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def infos(self, *, owner: str | None = None) -> tuple[LimitInfo, ...]:
        infos = await all_items(lambda after: self._client.limits.list(after=after))
        if owner is None:
            return tuple(infos)
        return tuple(info for info in infos if info.owner in (None, owner) or info.subject == owner)

    async def set(self, limit: "SpendLimit") -> LimitInfo:
        return await self._client.limits.put(**{name: getattr(limit, name) for name in NewLimit.model_fields})

    async def remove(self, name: str) -> LimitInfo:
        return await self._client.limits.delete(name)


class RemoteDeliveries:
    """The deliveries of a server; see `BackendDeliveries`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, *, dead_only: bool = False, limit: int = 100) -> "Page[DeliveryInfo]":
        return await self._client.deliveries.list(dead=dead_only, limit=limit)

    async def retry(self, delivery_id: str) -> DeliveryInfo:
        return await self._client.deliveries.retry(delivery_id)

    async def delete(self, delivery_id: str) -> None:
        await self._client.deliveries.delete(delivery_id)


async def conflict_if_missing(answer: Awaitable[T]) -> T:
    """Return an answer of the server; "not found" is `Conflict`, as in a store.

    Raises:
        Conflict: the server does not have it.
    """
    try:
        return await answer
    except NotFound as error:
        raise UnknownName(error.message, kind=error.kind, retry=error.retry) from None
