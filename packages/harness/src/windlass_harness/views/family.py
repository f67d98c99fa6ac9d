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
        self.proxied = {request.request.request_id: request for request in proxied}

    def ask(self, body: records.InputRequested, session_id: str) -> None:
        """Add the requests of a session below."""
        for request in body.requests:
            proxied = ProxiedRequest(request, session_id, body.call_id or "")
            self.proxied[request.request_id] = proxied

    def add_call(self, body: records.SubagentCalled) -> None:
        """Add a call of a subagent."""
        child = ChildSession(body.child_session_id, body.name, body.call_id, body.child_run_id)
        self.children[child.session_id] = child

    def end_call(self, body: records.SubagentCompleted) -> None:
        """Apply the end of a subagent; its requests are dropped."""
        child = self.children.get(body.child_session_id or "")
        if child is not None:
            self.children[child.session_id] = replace(child, status=body.status)
        for proxied in [request for request in self.proxied.values() if request.call_id == body.call_id]:
            del self.proxied[proxied.request.request_id]
