"""Made-up but realistic inputs."""

from windlass_harness.record import Record
from windlass_protocol import JsonObject, encode

TEXT = "The deployment finished, three of the four checks passed, and the fourth needs a person. "


def event_bytes(size: int) -> bytes:
    """Return a finished message as an event of about `size` bytes."""
    data: JsonObject = {"message": TEXT * (size // len(TEXT)), "finishReason": "stop", **_step(3)}
    meta: JsonObject = {"at": "2026-01-31T09:30:00.250Z", "id": "evt_1", "attempt": 1}
    event: JsonObject = {"type": "message.completed", "data": data, "meta": meta, "sessionId": "s1", "seq": 9}
    return encode(event)


def journal(steps: int) -> list[Record]:
    """Return the records of one run with as many tool steps, six records a step."""
    records: list[Record] = []

    def add(type_: str, data: JsonObject) -> None:
        seq = len(records) + 1
        at = f"2026-01-31T{seq // 3600 % 24:02}:{seq // 60 % 60:02}:{seq % 60:02}Z"
        records.append(Record(session_id="s1", run_id="r1", seq=seq, at=at, type=type_, data=data))

    add("run.started", {"runId": "r1", "agentId": "a1"})
    add("turn.started", {"sequence": 0, "turnId": "t1"})
    add("message.received", {"message": TEXT, "sequence": 0, "turnId": "t1"})
    for index in range(steps):
        step, call = _step(index), f"c{index}"
        request: JsonObject = {"kind": "tool-call", "callId": call, "toolName": "look", "input": {"n": index}}
        result: JsonObject = {"kind": "tool-result", "callId": call, "toolName": "look", "output": TEXT}
        usage: JsonObject = {"inputTokens": 900, "outputTokens": 40}
        add("step.started", {**step, "modelId": "demo/scripted"})
        add("message.completed", {**step, "message": TEXT, "finishReason": "tool-calls"})
        add("actions.requested", {**step, "actions": [request]})
        add("step.completed", {**step, "finishReason": "tool-calls", "usage": usage})
        add(
            "action.started",
            {**step, "callId": call, "toolName": "look", "effect": "read", "idempotencyKey": call},
        )
        add("action.result", {**step, "result": result, "status": "completed"})
    return records


def _step(index: int) -> JsonObject:
    return {"sequence": 0, "turnId": "t1", "stepIndex": index}
