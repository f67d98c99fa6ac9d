"""Examples that the OpenAPI document shows."""

from typing import Final

from pydantic import JsonValue

ACCEPTED: Final[JsonValue] = {"sessionId": "019a8f…", "runId": "019a8f…", "continuationToken": "4be1…"}
SESSION: Final[JsonValue] = {
    "sessionId": "019a8f…",
    "title": "Pay the hotel.",
    "agentId": "clerk",
    "status": "waiting",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "updatedAt": "2026-01-01T00:00:01.000Z",
    "runCount": 1,
    "requestCount": 1,
    "usage": {},
    "rootSessionId": "019a8f…",
}
MESSAGE: Final[JsonValue] = {
    "id": "019a8f…/4",
    "role": "user",
    "content": "Pay the hotel.",
    "createdAt": "2026-01-01T00:00:00.000Z",
}
APPROVAL: Final[JsonValue] = {
    "sessionId": "019a8f…",
    "rootSessionId": "019a8f…",
    "runId": "019a8f…",
    "agentId": "clerk",
    "askedAt": "2026-01-01T00:00:01.000Z",
    "request": {
        "requestId": "approval:019a8f…",
        "action": {"kind": "tool-call", "callId": "call-1", "toolName": "pay", "input": {"cents": 9900}},
        "prompt": "Run pay?",
        "display": "confirmation",
        "options": [{"id": "approve", "label": "Approve"}, {"id": "deny", "label": "Deny"}],
    },
}
RUN_ROW: Final[JsonValue] = {
    "runId": "019a8f…",
    "sessionId": "019a8f…",
    "agentId": "clerk",
    "status": "waiting",
    "startedAt": "2026-01-01T00:00:00.000Z",
    "usage": {},
}
TRACE: Final[JsonValue] = {
    "trace": {"traceId": "019a8f…", "startedAt": "2026-01-01T00:00:00.000Z"},
    "spans": [],
    "events": [],
}
RUN: Final[JsonValue] = {
    "run": {
        "runId": "019a8f…",
        "agentId": "clerk",
        "status": "completed",
        "packageId": "clerk",
        "packageFingerprint": "sha256:…",
        "routeId": "demo",
        "modelId": "clerk",
        "cancellationRequested": False,
        "sessionId": "019a8f…",
    },
    "result": {"runId": "019a8f…", "agentId": "clerk", "status": "completed", "output": "Paid."},
    "requests": [],
}
DECISIONS: Final[JsonValue] = {
    "id": "019a8f…",
    "goalId": "019a8f…",
    "startedAt": "2026-01-01T00:00:00.000Z",
    "status": "completed",
    "success": True,
    "decisions": [],
    "problems": [],
}
AGUI: Final[JsonValue] = (
    'data: {"type":"RUN_STARTED","threadId":"thread-1","runId":"run-1","protocolVersion":"1.0"}\n\n'
)
AGUI_MESSAGE: Final[JsonValue] = {
    "threadId": "thread-1",
    "runId": "run-1",
    "messages": [{"id": "message-1", "role": "user", "content": "Pay the hotel."}],
}
AGUI_RESUME: Final[JsonValue] = {
    "threadId": "thread-1",
    "runId": "run-2",
    "messages": [],
    "resume": [{"interruptId": "approval:019a8f…", "status": "resolved", "payload": {"approved": True}}],
}
AI: Final[JsonValue] = 'data: {"type":"text-delta","id":"019a8f…/0","delta":"Done."}\n\n'
AI_MESSAGE: Final[JsonValue] = {
    "id": "chat-1",
    "trigger": "submit-message",
    "messages": [{"id": "message-1", "role": "user", "parts": [{"type": "text", "text": "Pay the hotel."}]}],
}
AI_APPROVAL: Final[JsonValue] = {
    "id": "chat-1",
    "trigger": "submit-message",
    "messages": [
        {
            "id": "019a8f…",
            "role": "assistant",
            "parts": [
                {
                    "type": "dynamic-tool",
                    "state": "approval-responded",
                    "approval": {"id": "approval:019a8f…", "approved": True},
                }
            ],
        }
    ],
}
