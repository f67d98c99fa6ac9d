"""Examples that the OpenAPI document shows."""

from typing import Final

from pydantic import JsonValue

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
