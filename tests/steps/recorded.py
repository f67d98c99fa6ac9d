"""Recorded streams of eve 0.13.8: their events, the model behind them, and the comparison with ours."""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import cast

from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import FinishReason, JsonObject, JsonValue, ToolCall

STREAMS = Path(__file__).parent / "streams"
OURS = {
    "step.started": {"modelId", "promptMessageCount"},
    "step.completed": {"latencyMs", "price"},
    "action.result": {"durationMs"},
    "turn.completed": {"usage"},
    "input.requested": {"allowFreeform", "argumentsHash", "prompt", "style"},
    "session.completed": {"output"},
    "subagent.called": {"childRunId", "depth"},
    "subagent.completed": {"childRunId", "childSessionId", "status"},
}
"""Fields of our events beyond the recorded ones."""
NAMES = {"callId", "requestId", "sessionId", "childSessionId", "usage", "runtime"}
KINDS = {"approval", "question"}
"""Why a person is asked: a recorded request does not say."""

Step = list[str] | tuple[str, JsonObject]
"""Pieces of text, or a call."""


def recorded(name: str) -> list[tuple[str, JsonObject]]:
    """Return the types and data of a stream."""
    lines = (STREAMS / f"{name}.ndjson").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [(event["type"], event.get("data", {})) for event in events]


def pieces(name: str) -> list[str]:
    """Return the pieces of text that the model gave."""
    return [str(data["messageDelta"]) for type_, data in recorded(name) if type_ == "message.appended"]


def meaning(event_type: str, data: JsonValue) -> JsonValue:
    """Return data without the fields that are specific to each system."""
    if isinstance(data, list):
        return [meaning(event_type, one) for one in data]
    if not isinstance(data, dict):
        return data
    dropped = NAMES | OURS.get(event_type, set())
    if data.get("code") == "TOOL_EXECUTION_DENIED":
        # The words of a denial are each system's own.
        dropped = dropped | {"message"}
    if data.get("display") == "confirmation":
        options = cast(list[JsonObject], data["options"])
        data = {**data, "options": [option["id"] for option in options]}
    if data.get("kind") in KINDS:
        dropped = dropped | {"kind"}
    return {key: meaning(event_type, value) for key, value in data.items() if key not in dropped}


def meanings(events: Iterable[tuple[str, JsonObject]]) -> list[tuple[str, JsonValue]]:
    return [(event_type, meaning(event_type, data)) for event_type, data in events]


def prompts(events: Iterable[tuple[str, JsonObject]]) -> list[JsonValue]:
    return [
        request.get("prompt")
        for event_type, data in events
        if event_type == "input.requested"
        for request in cast(list[JsonObject], data["requests"])
    ]


class Recorded:
    """A model that gives the recorded answers, piece by piece."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Give the next answer."""
        step = self._steps.pop(0)
        if isinstance(step, list):
            for piece in step:
                yield LLMStreamChunk(content_delta=piece)
            yield LLMStreamChunk(finish_reason=FinishReason.STOP)
            return
        name, arguments = step
        call = ToolCall(id=f"call-{len(self._steps)}", name=name, arguments=arguments)
        yield LLMStreamChunk(tool_call_delta=call)
        yield LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS)


QUESTION: JsonObject = {
    "prompt": "Which color?",
    "options": [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}],
}
