"""The index of a store in memory."""

from dataclasses import dataclass, field, replace
from typing import Final

from windlass.adapters.journals.faults import not_owned
from windlass.adapters.journals.listing_rules import ENDED, resolutions_in, status_after, total_usage
from windlass.ports.store import (
    NO_USAGE,
    Batch,
    OpenRequest,
    RunRow,
    SessionFilter,
    SessionInfo,
    SessionStatus,
    SettledRequest,
)
from windlass_harness.views.listing import RunTold, Told, told_by, words_in
from windlass_protocol import InputRequest, Usage


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the index adds to a run."""

    started_at: str | None = None
    ended_at: str | None = None
    usage: Usage = NO_USAGE


NO_FACTS: Final = RunFacts()


@dataclass(slots=True)
class MemoryIndex:
    """Sessions, runs and open requests by their names."""

    sessions: dict[str, SessionInfo] = field(default_factory=dict[str, SessionInfo])
    runs: dict[str, RunFacts] = field(default_factory=dict[str, RunFacts])
    asked: dict[str, dict[str, OpenRequest]] = field(default_factory=dict[str, dict[str, OpenRequest]])
    settled: dict[str, SettledRequest] = field(default_factory=dict[str, SettledRequest])
    session_count: int = 0
    """Of all sessions that there ever were."""
    asked_count: int = 0
    """Of all requests that there ever were."""

    def check_owner(self, session_id: str, told: Told) -> None:
        """Refuse a request for a run for another owner than the session has."""
        known = self.sessions.get(session_id)
        if told.owner is not None and known is not None and known.owner != told.owner:
            raise not_owned(session_id)

    def enter(self, session_id: str, told: Told, *, status: SessionStatus = SessionStatus.PENDING) -> None:
        """Put a session into the index, unless it is there."""
        if session_id in self.sessions:
            return
        self.session_count += 1
        self.sessions[session_id] = SessionInfo(
            session_id=session_id,
            title=told.title,
            agent_id=told.agent_id or "",
            status=status,
            owner=told.owner,
            created_at=told.since,
            updated_at=told.at,
            run_count=0,
            request_count=0,
            usage=total_usage(NO_USAGE, told.runs),
            parent_session_id=told.parent,
            root_session_id=told.root or session_id,
            predecessor_id=told.predecessor,
            predecessor_seq=told.predecessor_seq,
            number=self.session_count,
        )

    def follow(self, session_id: str, batch: Batch, *, asking: RunRow | None) -> None:
        """Take what an append tells of its session."""
        told = told_by(batch.drafts)
        if told is not None:
            self._take(session_id, told)
        if batch.asked is not None:
            self._settle(session_id, batch)
            self.ask(session_id, batch.asked, at=batch.drafts[-1].at if batch.drafts else "", run=asking)

    def _take(self, session_id: str, told: Told) -> None:
        for run in told.runs:
            self._take_run(run)
        known = self.sessions.get(session_id)
        if known is None:
            if told.runs:
                self.enter(session_id, told, status=status_after(told))
            return
        self.sessions[session_id] = replace(
            known,
            title=known.title or told.title,
            agent_id=told.agent_id or known.agent_id,
            status=status_after(told, known.status),
            created_at=known.created_at or told.since,
            updated_at=told.at,
            usage=total_usage(known.usage, told.runs),
        )

    def _settle(self, session_id: str, batch: Batch) -> None:
        asked = self.asked.get(session_id, {})
        for resolution, at in resolutions_in(batch.drafts):
            request = asked.get(resolution.request_id)
            if request is not None:
                self.settled[resolution.request_id] = SettledRequest(
                    resolution.request_id,
                    session_id,
                    request.run_id,
                    request.owner,
                    resolution.outcome,
                    None if resolution.response is None else resolution.response.option_id,
                    None if resolution.response is None else resolution.response.responder,
                    at,
                )

    def _take_run(self, run: RunTold) -> None:
        facts = self.runs.get(run.run_id, NO_FACTS)
        if run.begins:
            facts = replace(facts, started_at=run.at)
        if run.status in ENDED:
            facts = replace(facts, ended_at=run.at, usage=run.usage or NO_USAGE)
        self.runs[run.run_id] = facts

    def ask(
        self, session_id: str, requests: tuple[InputRequest, ...], *, at: str, run: RunRow | None
    ) -> None:
        """Keep all that a session asks people now, and nothing else."""
        before, session = self.asked.pop(session_id, {}), self.sessions.get(session_id)
        now: dict[str, OpenRequest] = {}
        for request in requests:
            known = before.get(request.request_id)
            if known is None:
                self.asked_count += 1
                known = OpenRequest(
                    session_id,
                    session_id if session is None else session.root_session_id,
                    "" if run is None else run.run_id,
                    "" if run is None else run.agent_id,
                    None if session is None else session.owner,
                    at,
                    request,
                    self.asked_count,
                )
            now[request.request_id] = known
        if now:
            self.asked[session_id] = now
        if at and session is not None:
            self.sessions[session_id] = replace(session, updated_at=at)

    def remove(self, session_id: str) -> None:
        """Forget a session."""
        self.settled = {name: one for name, one in self.settled.items() if one.session_id != session_id}
        self.sessions.pop(session_id, None)
        self.asked.pop(session_id, None)


def fits(info: SessionInfo, wanted: SessionFilter) -> bool:
    """Tell whether a session is one that somebody wants."""
    words = words_in(info.title)
    return (
        wanted.agent_id in (None, info.agent_id)
        and wanted.status in (None, info.status)
        and wanted.owner in (None, info.owner)
        and not (wanted.root_only and info.parent_session_id is not None)
        and all(any(known.startswith(word) for known in words) for word in wanted.words)
    )
