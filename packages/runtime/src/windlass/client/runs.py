"""The runs of a server, and what they ask people."""

from typing import TYPE_CHECKING, TypedDict, Unpack

from windlass.catalog.page import Page
from windlass.client.address import path_of
from windlass.client.asking import Linked, key_for
from windlass.client.calls import Call, query_of
from windlass.definitions import option_problem
from windlass.refusals import bad_request
from windlass_protocol import (
    Accepted,
    ApprovalInfo,
    ApprovalPage,
    DecisionRun,
    JsonObject,
    RunInfo,
    RunPage,
    RunRow,
    TraceInfo,
)

if TYPE_CHECKING:
    from windlass.client.link import Link


class RunQuery(TypedDict, total=False):
    """Which runs are wanted."""

    after: str | None
    limit: int
    session: str | None
    agent: str | None
    status: str | None


class Runs:
    """Where runs are, what they did, and ending them.

    Every method raises an AgentError: see `windlass.client.errors`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def get(self, run_id: str) -> RunInfo:
        """Return where a run is, what it waits for, and what came of it."""
        return await self._link.ask(RunInfo, Call("GET", path_of("runs", run_id)))

    async def list(self, **query: Unpack[RunQuery]) -> Page[RunRow]:
        """Return a page of runs, the newest first."""
        problem = option_problem(query, RunQuery, what="runs.list")
        if problem is not None:
            raise bad_request(problem)
        found = await self._link.ask(RunPage, Call("GET", "/runs", query=query_of(query)))
        return Page(found.runs, found.next)

    async def cancel(self, run_id: str, *, reason: str | None = None) -> Accepted:
        """Ask a run to end; nothing happens to one that has ended."""
        body: JsonObject | None = None if reason is None else {"reason": reason}
        call = Call("POST", path_of("runs", run_id, "cancel"), body=body, key=key_for(self._link, None))
        return await self._link.ask(Accepted, call)

    async def trace(self, run_id: str) -> TraceInfo:
        """Return what a run did, and how long it took."""
        return await self._link.ask(TraceInfo, Call("GET", path_of("runs", run_id, "trace")))

    async def decisions(self, run_id: str) -> DecisionRun:
        """Return what a run chose, and what came of it."""
        return await self._link.ask(DecisionRun, Call("GET", path_of("runs", run_id, "decisions")))

    @property
    def _link(self) -> "Link":
        return self._client.link


class Approvals:
    """Everything that waits for a person, over all sessions.

    Every method raises an AgentError: see `windlass.client.errors`.
    """

    def __init__(self, client: Linked) -> None:
        self._client = client

    async def list(self, *, after: str | None = None, limit: int | None = None) -> Page[ApprovalInfo]:
        """Return a page of what waits, the oldest first."""
        query = {"after": after, "limit": limit}
        found = await self._client.link.ask(ApprovalPage, Call("GET", "/approvals", query=query))
        return Page(found.requests, found.next)

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        arguments_hash: str | None = None,
    ) -> Accepted:
        """Answer a request: with one of its options, with words, or with both.

        With the `arguments_hash` of what was shown, it is refused if the arguments are others.
        """
        given = {"optionId": option_id, "text": text, "argumentsHash": arguments_hash}
        body: JsonObject = {name: value for name, value in given.items() if value is not None}
        link = self._client.link
        # A second answer is refused, also if the first one was this.
        call = Call(
            "POST", path_of("approvals", request_id), body=body, key=key_for(link, None), is_repeatable=False
        )
        return await link.ask(Accepted, call)
