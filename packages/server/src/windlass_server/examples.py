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
_NUMBERS: Final[dict[str, JsonValue]] = {
    "runs": 12,
    "completed": 10,
    "failed": 1,
    "cancelled": 0,
    "open": 1,
    "inputTokens": 41_200,
    "outputTokens": 3_100,
    "costMicros": 98_000,
    "p50Ms": 2_300,
    "p95Ms": 9_800,
}
STATS: Final[JsonValue] = {
    "from": "2026-01-01T00:00:00.000Z",
    "to": "2026-01-01T01:00:00.000Z",
    "bucketS": 3_600,
    "total": _NUMBERS,
    "buckets": [{**_NUMBERS, "at": "2026-01-01T00:00:00.000Z"}],
    "waiting": {"runs": 1, "requests": 1, "oldestAskedAt": "2026-01-01T00:59:00.000Z"},
    "failingTools": [{"tool": "pay", "calls": 9, "failed": 2}],
}
FAILURES: Final[JsonValue] = {
    "runs": 12,
    "failed": 1,
    "isAll": True,
    "groups": [
        {
            "kind": "tool_error",
            "count": 1,
            "causes": [{"told": "The card was refused.", "count": 1, "runIds": ["019a8f…"]}],
        }
    ],
}
_RATE: Final[JsonValue] = {"value": 0.9, "low": 0.62, "high": 0.98}
_TALLY: Final[dict[str, JsonValue]] = {
    "fingerprint": "sha256:4be1…",
    "runs": 12,
    "succeeded": 11,
    "successRate": _RATE,
}
VERSIONS: Final[JsonValue] = {
    "agentId": "clerk",
    "current": "sha256:4be1…",
    "versions": [
        {"firstAt": "2026-01-01T00:00:00.000Z", "lastAt": "2026-01-01T01:00:00.000Z", "tally": _TALLY}
    ],
}
COMPARE: Final[JsonValue] = {
    "agentId": "clerk",
    "comparison": {
        "old": {**_TALLY, "fingerprint": "sha256:19c0…"},
        "new": _TALLY,
        "verdict": "unclear",
        "successRate": {"value": 0.1, "low": -0.2, "high": 0.4},
    },
    "changes": ["agent.instructions changed"],
}
PROPOSAL: Final[JsonValue] = {
    "proposal": {
        "id": "proposal-019a8f…",
        "goalId": "prices",
        "agentId": "clerk",
        "baseFingerprint": "sha256:19c0…",
        "fingerprint": "sha256:4be1…",
        "changes": [{"part": "instructions", "before": "Tell prices.", "after": "Tell prices in crowns."}],
        "differences": [
            {"path": "/agent/instructions", "before": "Tell prices.", "after": "Tell prices in crowns."}
        ],
        "rationale": "People ask for crowns, and it answers in cents.",
        "evidence": ["019a8f…"],
        "at": "2026-01-01T00:00:00.000Z",
    },
    "status": "accepted",
    "settled": {"proposalId": "proposal-019a8f…", "isAccepted": True, "by": "ann", "reason": "It is clear."},
    "settledAt": "2026-01-01T01:00:00.000Z",
    "work": [],
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
PROMPT: Final[JsonValue] = {
    "runId": "019a8f…",
    "sessionId": "019a8f…",
    "stepIndex": 0,
    "seq": 5,
    "routeId": "openai",
    "modelId": "gpt-5",
    "fingerprint": "sha256:4be1…",
    "system": "You pay bills.",
    "tools": [{"name": "pay", "description": "Pay.", "inputSchema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "Pay the hotel.", "isError": False}],
    "unknown": ["Secrets were masked before anything was written: …"],
}
CONTENT: Final[JsonValue] = {
    "contentId": "sha256:4be1…",
    "hash": "sha256:4be1…",
    "sizeBytes": 1_204_000,
    "mediaType": "application/json",
}
