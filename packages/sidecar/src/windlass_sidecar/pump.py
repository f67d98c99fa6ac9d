"""What a run does, told as notifications of its stream."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from windlass_protocol import ErrorInfo, Event, JsonObject, RunBudgetExhaustedData
from windlass_sidecar.errors import stream_kind

CHUNK: Final = "stream.chunk"
DONE: Final = "stream.done"
ERROR: Final = "stream.error"

Notice = tuple[str, JsonObject]
"""A notification: its method and its parameters, the stream apart."""


@dataclass(slots=True)
class Teller:
    """Tells one run; what was shown live is not told again with its message."""

    shown: str = ""
    """The words of the present step that were told."""
    thought: str = ""
    is_open: bool = False
    """Whether a step has begun whose message is not finished."""

    def told(self, event: Event) -> Iterator[Notice]:
        """Yield the notifications of one event, in order."""
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            yield from handler(self, event.data)

    def step_began(self, data: JsonObject) -> Iterator[Notice]:
        """Say that what was told of a step is void, if it is tried again."""
        if self.is_open and (self.shown or self.thought):
            yield CHUNK, {"restart": True}
        self.shown, self.thought, self.is_open = "", "", True

    def words(self, data: JsonObject) -> Iterator[Notice]:
        """Tell a piece of the answer."""
        new = _new(data, "message", self.shown)
        self.shown += new
        if new:
            yield CHUNK, {"delta": new}

    def thoughts(self, data: JsonObject) -> Iterator[Notice]:
        """Tell a piece of the reasoning."""
        new = _new(data, "reasoning", self.thought)
        self.thought += new
        if new:
            yield CHUNK, {"reasoningDelta": new}

    def finished(self, data: JsonObject) -> Iterator[Notice]:
        """Tell what was not shown live of a message that is durable now."""
        message = data.get("message")
        whole = message if isinstance(message, str) else ""
        if not whole.startswith(self.shown):
            yield CHUNK, {"restart": True}
            self.shown = ""
        if len(whole) > len(self.shown):
            yield CHUNK, {"delta": whole[len(self.shown) :]}
        self.shown, self.is_open = whole, False

    def arguments(self, data: JsonObject) -> Iterator[Notice]:
        """Tell a piece of the arguments of a call."""
        piece: JsonObject = {"id": data.get("callId"), "argumentsDelta": data.get("inputDelta")}
        if data.get("toolName") is not None:
            piece["name"] = data["toolName"]
        yield CHUNK, {"toolCallDelta": piece}

    def calls(self, data: JsonObject) -> Iterator[Notice]:
        """Tell the calls that the model asks for, whole."""
        for action in cast(list[JsonObject], data.get("actions") or []):
            if action.get("kind") == "tool-call":
                given = action.get("input")
                arguments: JsonValue = given if isinstance(given, dict) else {"": given}
                call: JsonObject = {
                    "id": action["callId"],
                    "name": action["toolName"],
                    "arguments": arguments,
                }
                yield CHUNK, {"toolCall": call}

    def result(self, data: JsonObject) -> Iterator[Notice]:
        """Tell what came of a call, with the id of the call."""
        result = cast(JsonObject, data["result"])
        error = data.get("error")
        is_good = data.get("status") == "completed"
        told: JsonObject = {"id": result["callId"], "success": is_good}
        if result.get("toolName") is not None:
            told["name"] = result["toolName"]
        if is_good:
            told["data"] = result.get("output")
        else:
            told["error"] = str(error.get("message")) if isinstance(error, dict) else "the call failed"
        yield CHUNK, {"toolResult": told}

    def asked(self, data: JsonObject) -> Iterator[Notice]:
        """Tell what people are asked."""
        yield CHUNK, {"inputRequests": data.get("requests")}

    def step_ended(self, data: JsonObject) -> Iterator[Notice]:
        """Tell what a step used, and why its answer ended."""
        told = {"finishReason": data.get("finishReason"), "usage": data.get("usage")}
        yield CHUNK, {name: value for name, value in told.items() if value is not None}

    def completed(self, data: JsonObject) -> Iterator[Notice]:
        """Tell that all is well."""
        yield DONE, {"ok": True}

    def cancelled(self, data: JsonObject) -> Iterator[Notice]:
        """Tell that somebody ended it."""
        yield DONE, {"ok": False, "cancelled": True}

    def failed(self, data: JsonObject) -> Iterator[Notice]:
        """Tell why it failed, and that it is over."""
        error = ErrorInfo.model_validate(data["error"])
        yield ERROR, {"kind": stream_kind(error).value, "message": error.message}
        yield DONE, {"ok": False}

    def exhausted(self, data: JsonObject) -> Iterator[Notice]:
        """Tell which budget is used up, and that it is over."""
        names = ", ".join(RunBudgetExhaustedData.model_validate(data).exceeded)
        yield ERROR, {"kind": "budget_exhausted", "message": f"the budget is used up: {names}"}
        yield DONE, {"ok": False}


def _new(data: JsonObject, what: str, shown: str) -> str:
    """Return what is new in a piece, which may repeat what came so far."""
    so_far, delta = data.get(f"{what}SoFar"), str(data.get(f"{what}Delta", ""))
    if isinstance(so_far, str) and so_far.startswith(shown):
        return so_far[len(shown) :]
    return delta


_HANDLERS: Final[dict[str, Callable[[Teller, JsonObject], Iterator[Notice]]]] = {
    "step.started": Teller.step_began,
    "step.retrying": Teller.step_began,
    "message.appended": Teller.words,
    "reasoning.appended": Teller.thoughts,
    "message.completed": Teller.finished,
    "action.input.appended": Teller.arguments,
    "actions.requested": Teller.calls,
    "action.result": Teller.result,
    "input.requested": Teller.asked,
    "step.completed": Teller.step_ended,
    "run.completed": Teller.completed,
    "run.cancelled": Teller.cancelled,
    "run.failed": Teller.failed,
    "run.budget_exhausted": Teller.exhausted,
}
