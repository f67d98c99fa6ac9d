"""A server in place of the store: the same questions, asked over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

from windlass import Conflict
from windlass.client import ApprovalInfo, Client, NotFound, NotWindlass, RunRow, SessionInfo, TraceInfo
from windlass_cli.problems import Problem

if TYPE_CHECKING:
    from windlass.catalog import Page
    from windlass_protocol import (
        ChatMessage,
        DecisionRun,
        Event,
        InputRequest,
        RunResult,
        RunSnapshot,
        RunStatus,
    )

T = TypeVar("T")
_NAMED: Final = "a server names its sessions itself"


class _Sessions(TypedDict, total=False):
    text: str | None
    agent_id: str | None
    status: str | None
    limit: int


class _Runs(TypedDict, total=False):
    session_id: str | None
    agent_id: str | None
    status: str | None
    limit: int


class Served:
    """What a server keeps, as the commands ask a runtime for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sessions = ServedSessions(client)

    async def run_status(self, run_id: str) -> "RunStatus":
        """Return where a run is."""
        return (await self.run_snapshot(run_id)).status

    async def run_snapshot(self, run_id: str) -> "RunSnapshot":
        """Return where a run is, and what it has used."""
        return (await known(self.client.runs.get(run_id))).run

    async def decisions(self, run_id: str) -> "DecisionRun":
        """Return what a run chose."""
        return await known(self.client.runs.decisions(run_id))

    def handle(self, run_id: str) -> "ServedRun":
        """Return a run."""
        return ServedRun(self.client, run_id)

    async def start(self, agent: str, words: str, *, session_id: str | None) -> "ServedRun":
        """Say something on the server, in a session that it has or in a new one.

        Raises:
            Problem: it does not have the session.
        """
        if session_id is None:
            begun = await self.client.sessions.create(words, agent=agent)
        else:
            try:
                begun = await self.client.sessions.send(session_id, words, agent=agent)
            except NotFound:
                raise Problem(
                    f"there is no session {session_id}", f"Leave --session out: {_NAMED}."
                ) from None
        if begun.run_id is None:
            raise NotWindlass("the server took words and names no run that they begin")
        return ServedRun(self.client, begun.run_id)

    async def agent(self, name: str | None) -> str:
        """Return the agent of a name; the first one if nobody said.

        Raises:
            Problem: there is none of that name.
        """
        names = [agent.agent_id for agent in await self.client.agents()]
        if name is None and names:
            return names[0]
        if name is None or name not in names:
            raise Problem(f"there is no agent {name}", f"There is {', '.join(names)}.")
        return name


class ServedRun:
    """A run on a server."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    def events(self) -> "AsyncIterator[Event]":
        """Return the events of the run, stored and live, up to its end."""
        return self._client.events(run_id=self.run_id)

    async def records(self) -> "AsyncGenerator[Event]":
        """Yield what is stored of the run, up to now."""
        async for event in self._client.events(run_id=self.run_id, follow=False):
            if event.index is None:
                yield event

    async def wait(self, timeout: float | None = None) -> "RunResult":  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return what came of the run, once it has ended.

        Raises:
            TimeoutError: it did not end in so many seconds.
        """
        async with asyncio.timeout(timeout), self._client.events(run_id=self.run_id) as feed:
            async for _ in feed:
                pass
        result = (await known(self._client.runs.get(self.run_id))).result
        if result is None:
            raise NotWindlass("the server ended the feed of a run that goes on")
        return result

    async def requests(self) -> "tuple[InputRequest, ...]":
        """Return what people are being asked; nothing of a run that is somebody else's."""
        try:
            return (await self._client.runs.get(self.run_id)).requests
        except NotFound:
            return ()

    async def answer(
        self, request_id: str, option_id: str | None = None, *, text: str | None = None, responder: str
    ) -> None:
        """Answer a request; who answers is who the server knows by the key."""
        await known(self._client.approvals.answer(request_id, option_id, text=text))

    async def cancel(self, *, by: str, reason: str | None = None) -> None:
        """Ask the run to end, in the name of whom the server knows by the key."""
        await known(self._client.runs.cancel(self.run_id, reason=reason))


class ServedSessions:
    """The sessions of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, **query: Unpack[_Sessions]) -> "Page[SessionInfo]":
        """Return a page of sessions."""
        return await self._client.sessions.list(
            text=query.get("text"),
            agent=query.get("agent_id"),
            status=query.get("status"),
            limit=query.get("limit", 50),
        )

    async def runs(self, **query: Unpack[_Runs]) -> "Page[RunRow]":
        """Return a page of runs."""
        return await self._client.runs.list(
            session=query.get("session_id"),
            agent=query.get("agent_id"),
            status=query.get("status"),
            limit=query.get("limit", 50),
        )

    async def requests(self, *, after: str | None = None, limit: int = 50) -> "Page[ApprovalInfo]":
        """Return a page of what waits for a person."""
        return await self._client.approvals.list(after=after, limit=limit)

    async def get(self, session_id: str) -> SessionInfo:
        """Return a session."""
        return await known(self._client.sessions.get(session_id))

    async def history(self, session_id: str, *, after: str | None, limit: int) -> "Page[ChatMessage]":
        """Return a page of what was said."""
        return await known(self._client.sessions.history(session_id, after=after, limit=limit))

    async def stored(self, session_id: str) -> "AsyncGenerator[Event]":
        """Yield what is stored of a session, up to now."""
        async for event in self._client.events(session_id=session_id, follow=False):
            if event.index is None:
                yield event

    async def trace(self, run_id: str) -> TraceInfo:
        """Return what a run did."""
        return await known(self._client.runs.trace(run_id))

    async def fork(self, session_id: str, *, at: int | None, session_id_new: str | None) -> SessionInfo:
        """Copy a session.

        Raises:
            Problem: it should get a name.
        """
        if session_id_new is not None:
            raise Problem(_NAMED, "Leave --name out.")
        return await known(self._client.sessions.fork(session_id, at=at))

    def export(self, session_id: str) -> AsyncIterator[str]:
        """Return everything that is stored of a session, a line each."""
        return self._client.sessions.export(session_id)

    async def delete(self, session_id: str) -> tuple[str, ...]:
        """Remove a session; return which are gone."""
        return await known(self._client.sessions.delete(session_id))


async def known(asked: Awaitable[T]) -> T:
    """Return an answer; what the server does not have is what a store does not have.

    Raises:
        Conflict: there is no such thing.
    """
    try:
        return await asked
    except NotFound as error:
        raise Conflict(error.message, kind=error.kind, retry=error.retry) from None
