# Generated from spec/operations.json by `make gen`. Do not edit.
"""The operations of the server by method and path."""

from typing import Final

from windlass_server.operations import ServerOperation

OPERATIONS: Final = (
    ServerOperation("sessions.create", "POST", "/v1/sessions", repeat="derived", who="user"),
    ServerOperation("sessions.list", "GET", "/v1/sessions", repeat="harmless", who="user"),
    ServerOperation("sessions.get", "GET", "/v1/sessions/{sessionId}", repeat="harmless", who="user"),
    ServerOperation("sessions.delete", "DELETE", "/v1/sessions/{sessionId}", repeat="keyed", who="user"),
    ServerOperation("sessions.send", "POST", "/v1/sessions/{sessionId}/messages", repeat="keyed", who="user"),
    ServerOperation("sessions.cancel", "POST", "/v1/sessions/{sessionId}/cancel", repeat="keyed", who="user"),
    ServerOperation(
        "sessions.compact", "POST", "/v1/sessions/{sessionId}/compact", repeat="derived", who="user"
    ),
    ServerOperation("sessions.fork", "POST", "/v1/sessions/{sessionId}/fork", repeat="derived", who="user"),
    ServerOperation(
        "sessions.history", "GET", "/v1/sessions/{sessionId}/history", repeat="harmless", who="user"
    ),
    ServerOperation(
        "sessions.safePoints", "GET", "/v1/sessions/{sessionId}/safe-points", repeat="harmless", who="user"
    ),
    ServerOperation(
        "sessions.export", "GET", "/v1/sessions/{sessionId}/export", repeat="harmless", who="user"
    ),
    ServerOperation(
        "sessions.contents", "GET", "/v1/sessions/{sessionId}/contents", repeat="harmless", who="user"
    ),
    ServerOperation(
        "sessions.content",
        "GET",
        "/v1/sessions/{sessionId}/contents/{contentHash}",
        repeat="harmless",
        who="user",
    ),
    ServerOperation("agentSessions.list", "GET", "/v1/agent-sessions", repeat="harmless", who="user"),
    ServerOperation(
        "agentSessions.get", "GET", "/v1/sessions/{sessionId}/agent-session", repeat="harmless", who="user"
    ),
    ServerOperation(
        "agentSessions.update", "POST", "/v1/sessions/{sessionId}/agent-session", repeat="derived", who="user"
    ),
    ServerOperation("approvals.list", "GET", "/v1/approvals", repeat="harmless", who="user"),
    ServerOperation("approvals.get", "GET", "/v1/approvals/{requestId}", repeat="harmless", who="user"),
    ServerOperation("approvals.answer", "POST", "/v1/approvals/{requestId}", repeat="keyed", who="user"),
    ServerOperation("runs.list", "GET", "/v1/runs", repeat="harmless", who="user"),
    ServerOperation("runs.get", "GET", "/v1/runs/{runId}", repeat="harmless", who="user"),
    ServerOperation("runs.trace", "GET", "/v1/runs/{runId}/trace", repeat="harmless", who="user"),
    ServerOperation("runs.costs", "GET", "/v1/runs/{runId}/costs", repeat="harmless", who="user"),
    ServerOperation("runs.decisions", "GET", "/v1/runs/{runId}/decisions", repeat="harmless", who="user"),
    ServerOperation(
        "runs.prompt", "GET", "/v1/runs/{runId}/steps/{stepIndex}/prompt", repeat="harmless", who="user"
    ),
    ServerOperation(
        "runs.draft", "GET", "/v1/runs/{runId}/steps/{stepIndex}/playground", repeat="harmless", who="user"
    ),
    ServerOperation(
        "runs.play", "POST", "/v1/runs/{runId}/steps/{stepIndex}/playground", repeat="derived", who="user"
    ),
    ServerOperation("runs.cancel", "POST", "/v1/runs/{runId}/cancel", repeat="harmless", who="user"),
    ServerOperation("runs.send", "POST", "/v1/runs/{runId}/events", repeat="derived", who="user"),
    ServerOperation("runs.retry", "POST", "/v1/runs/{runId}/retry", repeat="harmless", who="user"),
    ServerOperation("runs.undoPlan", "GET", "/v1/runs/{runId}/undo", repeat="harmless", who="user"),
    ServerOperation("runs.undo", "POST", "/v1/runs/{runId}/undo", repeat="keyed", who="user"),
    ServerOperation("runs.giveFeedback", "POST", "/v1/runs/{runId}/feedback", repeat="derived", who="user"),
    ServerOperation("runs.feedback", "GET", "/v1/runs/{runId}/feedback", repeat="harmless", who="user"),
    ServerOperation("runs.refused", "GET", "/v1/refused-starts", repeat="harmless", who="user"),
    ServerOperation("runs.stats", "GET", "/v1/stats", repeat="harmless", who="user"),
    ServerOperation("runs.failures", "GET", "/v1/failures", repeat="harmless", who="user"),
    ServerOperation("feeds.all", "GET", "/v1/events", repeat="harmless", who="user"),
    ServerOperation("feeds.session", "GET", "/v1/sessions/{sessionId}/events", repeat="harmless", who="user"),
    ServerOperation("feeds.run", "GET", "/v1/runs/{runId}/events", repeat="harmless", who="user"),
    ServerOperation("feeds.replay", "GET", "/v1/runs/{runId}/replay", repeat="harmless", who="user"),
    ServerOperation("schedules.list", "GET", "/v1/schedules", repeat="harmless", who="user"),
    ServerOperation("schedules.put", "POST", "/v1/schedules", repeat="keyed", who="user"),
    ServerOperation("schedules.get", "GET", "/v1/schedules/{scheduleId}", repeat="harmless", who="user"),
    ServerOperation(
        "schedules.ticks", "GET", "/v1/schedules/{scheduleId}/ticks", repeat="harmless", who="user"
    ),
    ServerOperation(
        "schedules.pause", "POST", "/v1/schedules/{scheduleId}/pause", repeat="keyed", who="user"
    ),
    ServerOperation(
        "schedules.resume", "POST", "/v1/schedules/{scheduleId}/resume", repeat="keyed", who="user"
    ),
    ServerOperation("schedules.run", "POST", "/v1/schedules/{scheduleId}/run", repeat="derived", who="user"),
    ServerOperation("schedules.delete", "DELETE", "/v1/schedules/{scheduleId}", repeat="keyed", who="user"),
    ServerOperation("limits.list", "GET", "/v1/limits", repeat="harmless", who="user"),
    ServerOperation("limits.put", "POST", "/v1/limits", repeat="keyed", who="operator"),
    ServerOperation("limits.delete", "DELETE", "/v1/limits/{limitName}", repeat="keyed", who="operator"),
    ServerOperation("datasets.list", "GET", "/v1/datasets", repeat="harmless", who="user"),
    ServerOperation("datasets.make", "POST", "/v1/datasets", repeat="harmless", who="user"),
    ServerOperation("datasets.get", "GET", "/v1/datasets/{datasetId}", repeat="harmless", who="user"),
    ServerOperation("datasets.yaml", "GET", "/v1/datasets/{datasetId}/yaml", repeat="harmless", who="user"),
    ServerOperation("datasets.delete", "DELETE", "/v1/datasets/{datasetId}", repeat="keyed", who="user"),
    ServerOperation("datasets.addCase", "POST", "/v1/datasets/{datasetId}/cases", repeat="keyed", who="user"),
    ServerOperation(
        "datasets.changeCase", "PATCH", "/v1/datasets/{datasetId}/cases", repeat="keyed", who="user"
    ),
    ServerOperation(
        "datasets.deleteCase", "DELETE", "/v1/datasets/{datasetId}/cases", repeat="keyed", who="user"
    ),
    ServerOperation("experiments.list", "GET", "/v1/experiments", repeat="harmless", who="user"),
    ServerOperation(
        "experiments.get", "GET", "/v1/experiments/{experimentId}", repeat="harmless", who="user"
    ),
    ServerOperation(
        "experiments.compare",
        "GET",
        "/v1/experiments/{experimentId}/comparison",
        repeat="harmless",
        who="user",
    ),
    ServerOperation("deliveries.list", "GET", "/v1/deliveries", repeat="harmless", who="user"),
    ServerOperation("deliveries.get", "GET", "/v1/deliveries/{deliveryId}", repeat="harmless", who="user"),
    ServerOperation(
        "deliveries.retry", "POST", "/v1/deliveries/{deliveryId}/retry", repeat="keyed", who="user"
    ),
    ServerOperation("deliveries.delete", "DELETE", "/v1/deliveries/{deliveryId}", repeat="keyed", who="user"),
    ServerOperation("proposals.list", "GET", "/v1/proposals", repeat="harmless", who="improver"),
    ServerOperation("proposals.create", "POST", "/v1/proposals", repeat="derived", who="improver"),
    ServerOperation("proposals.get", "GET", "/v1/proposals/{proposalId}", repeat="harmless", who="improver"),
    ServerOperation(
        "proposals.check", "POST", "/v1/proposals/{proposalId}/check", repeat="keyed", who="improver"
    ),
    ServerOperation(
        "proposals.approve", "POST", "/v1/proposals/{proposalId}/approve", repeat="keyed", who="improver"
    ),
    ServerOperation(
        "proposals.refuse", "POST", "/v1/proposals/{proposalId}/refuse", repeat="keyed", who="improver"
    ),
    ServerOperation("agents.list", "GET", "/v1/agents", repeat="harmless", who="user"),
    ServerOperation("agents.versions", "GET", "/v1/versions", repeat="harmless", who="user"),
    ServerOperation("agents.compare", "GET", "/v1/compare", repeat="harmless", who="user"),
    ServerOperation("tools.list", "GET", "/v1/tools", repeat="harmless", who="user"),
    ServerOperation("server.health", "GET", "/v1/health", repeat="harmless", who="public"),
    ServerOperation("server.ready", "GET", "/v1/ready", repeat="harmless", who="public"),
    ServerOperation("server.metrics", "GET", "/v1/metrics", repeat="harmless", who="operator"),
    ServerOperation("agui.run", "POST", "/v1/agui/{agent}", repeat="harmless", who="user"),
    ServerOperation("ai.chat", "POST", "/v1/ai/{agent}/chat", repeat="harmless", who="user"),
    ServerOperation("ai.history", "GET", "/v1/ai/{agent}/chat/{chatId}", repeat="harmless", who="user"),
    ServerOperation("ai.resume", "GET", "/v1/ai/{agent}/chat/{chatId}/stream", repeat="harmless", who="user"),
    ServerOperation("eve.create", "POST", "/eve/v1/session", repeat="keyed", who="user"),
    ServerOperation("eve.send", "POST", "/eve/v1/session/{sessionId}", repeat="keyed", who="user"),
    ServerOperation("eve.stream", "GET", "/eve/v1/session/{sessionId}/stream", repeat="harmless", who="user"),
    ServerOperation("eve.health", "GET", "/eve/v1/health", repeat="harmless", who="public"),
)
GROUPS: Final = {
    "sessions": "Sessions: created, continued, read, forked, exported and deleted.",
    "agentSessions": "Sessions as `AgentSession` documents, with their stages.",
    "approvals": "Requests to people over all sessions, and their answers.",
    "runs": "Runs: listed, read, explained, cancelled, continued and judged.",
    "feeds": "Events, stored and live.",
    "schedules": "Schedules: runs that start by the clock.",
    "limits": "Limits for people and teams: what runs may spend together.",
    "datasets": "Data sets of evaluations, and their cases.",
    "experiments": "Evaluations with their cases.",
    "deliveries": "Notifications and messages of channels that were not taken.",
    "proposals": "Proposals to change agents; for improvers.",
    "agents": "Agents and their versions.",
    "tools": "Tools of the agents.",
    "server": "Health and metrics of the server.",
    "agui": "AG-UI, for its clients.",
    "ai": "The AI SDK, for its clients.",
    "eve": "Routes of eve 0.13.8, for its clients.",
}
