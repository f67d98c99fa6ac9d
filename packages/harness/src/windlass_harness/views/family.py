"""Subagents of a session and the requests that they forward."""

from collections.abc import Iterable
from dataclasses import replace

from windlass_protocol import InputRequest, RunStatus
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records


@sealed
class ChildSession:
    """The session of a subagent that a call of this session started; it has ended if there is a status."""

    session_id: str
    name: str
    call_id: str
    run_id: str | None = None
    status: RunStatus | None = None


@sealed
class ProxiedRequest:
    """A request of a subagent at any depth; the answer goes to the subagent's session."""

    request: InputRequest
    session_id: str
    """The session that asks and receives the answer."""
    call_id: str
    """The call of this session that leads to the subagent."""


class FamilyDraft:
    """The subagents of a session while records are applied."""

    def __init__(self, children: Iterable[ChildSession], proxied: Iterable[ProxiedRequest]) -> None:
        self.children = {child.session_id: child for child in children}
        self.proxied = {one.request.request_id: one for one in proxied}

    def ask(self, body: records.InputRequested, session_id: str) -> None:
        """Add the requests of a session below."""
        for request in body.requests:
            asked = ProxiedRequest(request, session_id, body.call_id or "")
            self.proxied[request.request_id] = asked

    def called(self, body: records.SubagentCalled) -> None:
        """Add a call of a subagent."""
        child = ChildSession(body.child_session_id, body.name, body.call_id, body.child_run_id)
        self.children[child.session_id] = child

    def completed(self, body: records.SubagentCompleted) -> None:
        """Apply the end of a subagent; its requests are dropped."""
        child = self.children.get(body.child_session_id or "")
        if child is not None:
            self.children[child.session_id] = replace(child, status=body.status)
        for asked in [one for one in self.proxied.values() if one.call_id == body.call_id]:
            del self.proxied[asked.request.request_id]
