"""The index of a store: sessions, runs and requests, without reading records.

It is written in the transaction of whatever it tells of, and only by appends and posts that change what it
shows: a run began, waits or ended, people are asked or not any more, the first words of a session.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from windlass_protocol import InputOutcome, InputRequest, RunStatus, Usage
from windlass_protocol import SessionStatus as SessionStatus

NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as the index knows it."""

    session_id: str
    title: str
    """What was said first, in one short line; without the secrets that the runtime knows."""
    agent_id: str
    """Of the newest run that has begun."""
    status: SessionStatus
    owner: str | None
    """Whom it belongs to; None if nobody said so when it began."""
    created_at: str
    updated_at: str
    """When what is shown here last changed; the steps of a run change nothing."""
    run_count: int
    request_count: int
    """Requests to people that are open in it; those of subagents are in their own sessions."""
    usage: Usage
    """What its runs have used that have ended, with their subagents and the cost."""
    parent_session_id: str | None
    """The session that it works for, if it is a subagent's."""
    root_session_id: str
    """The session at the top of that tree; its own if it works for nobody."""
    predecessor_id: str | None
    """The session that it was forked from."""
    predecessor_seq: int | None
    """The number of the last record that was copied from there."""
    number: int
    """Its place in the list: a later session has a higher one."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as the index knows it."""

    run_id: str
    session_id: str
    agent_id: str
    package_fingerprint: str
    status: RunStatus
    started_at: str | None
    """None while it waits for its turn."""
    ended_at: str | None
    usage: Usage
    """What it used; empty until it has ended."""
    first_seq: int
    """The number of the record with which its session begins to tell of it; 0 while it waits for its turn."""
    number: int
    """Its place in the list: a run that was asked for later has a higher one."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Something that waits for a person, with the session to answer."""

    session_id: str
    """Whose request it is: `runtime.answer_session` takes it."""
    root_session_id: str
    run_id: str
    agent_id: str
    owner: str | None
    asked_at: str
    request: InputRequest
    """What is asked: the tool and its arguments are in its `action`, with `expires_at` beside."""
    number: int
    """Its place in the list: a later request has a higher one."""

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self.request.request_id


@dataclass(frozen=True, slots=True)
class SettledRequest:
    """A request that is closed: answered, or expired."""

    request_id: str
    session_id: str
    run_id: str
    owner: str | None
    outcome: InputOutcome
    option_id: str | None
    """The option that was chosen."""
    responder: str | None
    at: str


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions are wanted; None means any."""

    agent_id: str | None = None
    status: SessionStatus | None = None
    owner: str | None = None
    words: tuple[str, ...] = ()
    """Beginnings of words that the title must have, all of them, as `words_in` gives them."""
    root_only: bool = True


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; None means any."""

    session_id: str | None = None
    agent_id: str | None = None
    status: RunStatus | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class CountFilter:
    """Which runs are counted, and in which parts of the time.

    Those count that began from `start` on and before `end`. Without an agent, runs of subagents are left out:
    what they used is in the run that they work for.
    """

    start: str
    end: str
    bucket_ms: int
    agent_id: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class RunCell:
    """Runs of one status that began in one part of the time."""

    bucket: int
    """Which part, from 0."""
    status: RunStatus
    count: int
    input_tokens: int
    output_tokens: int
    cost_micros: int


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How long runs took that have ended: the middle, and the slow end."""

    bucket: int | None
    """Which part of the time; None for all of it."""
    p50_ms: int
    p95_ms: int


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Runs in numbers; what is not there is zero."""

    cells: tuple[RunCell, ...]
    times: tuple[RunTimes, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for people now."""

    runs: int
    requests: int
    oldest_asked_at: str | None


class Listing(Protocol):
    """What is in the store, newest first, in pages."""

    async def listed(
        self, wanted: SessionFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        """Return sessions, newest first, numbered below `before`."""
        ...

    async def listed_session(self, session_id: str) -> SessionInfo | None:
        """Return a session; None if no run was ever asked for in it."""
        ...

    async def listed_runs(
        self, wanted: RunFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        """Return runs, newest first, numbered below `before`."""
        ...

    async def listed_requests(
        self, *, owner: str | None = None, after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        """Return open requests, oldest first, numbered behind `after`."""
        ...

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request, open or settled.

        None if no session ever asked it, or if its run ended before it was settled.
        """
        ...

    async def counted_runs(self, wanted: CountFilter) -> RunCounts:
        """Return runs in numbers."""
        ...

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        """Return how much waits for people; of one owner or agent if one is named."""
        ...
