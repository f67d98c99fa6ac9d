"""One journal, many views: a small run, and what can be folded out of it."""

from itertools import count

from windlass_harness.tracing import fold_trace
from windlass_harness.views import fold_chat, fold_runs, fold_session, fold_usage, to_event, to_sse
from windlass_protocol import JsonObject, Record, encode

seq = count(1)
step = {"sequence": 0, "turnId": "t1", "stepIndex": 0}
call: JsonObject = {"kind": "tool-call", "callId": "c1", "toolName": "weather", "input": {"city": "Oslo"}}
answer: JsonObject = {"kind": "tool-result", "callId": "c1", "toolName": "weather", "output": {"rain": True}}


def record(type_: str, **data: object) -> Record:
    number = next(seq)
    at = f"2026-01-31T09:30:{number:02}Z"
    return Record.model_validate(
        {"sessionId": "s1", "runId": "r1", "seq": number, "at": at, "type": type_, "data": data}
    )


journal = [
    record("run.started", runId="r1", agentId="helper"),
    record("turn.started", sequence=0, turnId="t1"),
    record("message.received", message="Umbrella in Oslo today?", sequence=0, turnId="t1"),
    record("step.started", **step, modelId="demo/scripted"),
    record("actions.requested", actions=[call], **step),
    record(
        "step.completed", finishReason="tool-calls", usage={"inputTokens": 90, "outputTokens": 12}, **step
    ),
    record("action.started", callId="c1", toolName="weather", effect="read", idempotencyKey="r1/c1", **step),
    record("action.result", result=answer, status="completed", **step),
    record("step.started", **step | {"stepIndex": 1}, modelId="demo/scripted"),
    record("message.completed", message="Yes, take one.", finishReason="stop", **step | {"stepIndex": 1}),
    record("step.completed", finishReason="stop", usage={"inputTokens": 130}, **step | {"stepIndex": 1}),
    record("turn.completed", sequence=0, turnId="t1"),
    record("run.completed", runId="r1", output="Yes, take one."),
]

print("chat")
for message in fold_chat(journal).messages:
    print(f"  {message.role}: {message.content or message.tool_calls or message.tool_result}")

print("what the model sees next:", len(fold_session(journal).session.history), "messages")
print("usage:", fold_usage(journal).runs["r1"].usage)
print("result:", fold_runs(journal).runs["r1"].result)

print("trace")
for span in fold_trace(journal).spans:
    print(f"  {span.name}: {span.start_at} to {span.end_at}")

print("simple stream")
for event in (sse for item in journal for sse in to_sse(to_event(item))):
    print(f"  {encode(event).decode()}")
