"""The messages that frames of AG-UI build, as a client of it keeps them."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Final

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
_ROLES: Final = frozenset({"developer", "system", "assistant", "user", "tool", "reasoning"})


class Transcript:
    """What a client has after frames of a run, whether they were sent or not."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._messages: list[JsonObject] = []

    def apply(self, frames: Iterable[JsonObject]) -> None:
        """Take frames; those that build no message change nothing."""
        for frame in frames:
            match frame["type"]:
                case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                    self._message(frame["messageId"], frame["role"])
                case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                    message = self._message(frame["messageId"], "assistant")
                    message["content"] = f"{message.get('content') or ''}{frame['delta']}"
                case "TOOL_CALL_START":
                    function: JsonObject = {"name": frame["toolCallName"], "arguments": ""}
                    message = self._message(frame["parentMessageId"], "assistant")
                    call: JsonObject = {"id": frame["toolCallId"], "type": "function", "function": function}
                    message["toolCalls"] = [*_list(message.get("toolCalls")), call]
                case "TOOL_CALL_ARGS":
                    self.set_arguments(frame["toolCallId"], frame["delta"], is_more=True)
                case "TOOL_CALL_RESULT":
                    self._result(frame)
                case _:
                    pass

    def set_arguments(self, key: JsonValue, arguments: JsonValue, *, is_more: bool = False) -> None:
        """Write the arguments of a call, in place of those it has or behind them."""
        for message in self._messages:
            for call in _list(message.get("toolCalls")):
                if isinstance(call, dict) and call["id"] == key:
                    function = call["function"]
                    assert isinstance(function, dict), "it was made here"
                    before = function["arguments"] if is_more else ""
                    function["arguments"] = f"{before}{arguments}"

    def drop(self, step: int) -> None:
        """Forget the messages of a step; its thoughts become empty.

        Clients keep thoughts that a list of messages leaves out.
        """
        name = f"{self._run_id}/{step}"
        kept: list[JsonObject] = []
        for message in self._messages:
            if not _is_of(str(message["id"]), name):
                kept.append(message)
            elif message["role"] == "reasoning":
                kept.append({**message, "content": ""})
        self._messages = kept

    def expect(self, messages: Iterable[Mapping[str, JsonValue]]) -> None:
        """Take note of thoughts of the run that a client has: they become empty."""
        for message in messages:
            name = message.get("id")
            is_own = isinstance(name, str) and name.startswith(f"{self._run_id}/")
            if is_own and message.get("role") == "reasoning":
                self._message(name, "reasoning")

    def snapshot(self, others: Sequence[JsonObject]) -> list[JsonObject]:
        """Return all messages: those of others, then those of this run."""
        return [*others, *deepcopy(self._messages)]

    def _message(self, key: JsonValue, role: JsonValue) -> JsonObject:
        for message in self._messages:
            if message["id"] == key:
                return message
        message: JsonObject = {"id": key, "role": role}
        if role != "assistant":
            message["content"] = ""
        self._messages.append(message)
        return message

    def _result(self, frame: JsonObject) -> None:
        """Put a result behind what asked for it, and behind other results of that."""
        result = {"id": frame["messageId"], "role": "tool", "toolCallId": frame["toolCallId"]}
        at = len(self._messages)
        for place, message in enumerate(self._messages):
            calls = [call for call in _list(message.get("toolCalls")) if isinstance(call, dict)]
            if any(call["id"] == frame["toolCallId"] for call in calls):
                at = place + 1
                while at < len(self._messages) and self._messages[at]["role"] == "tool":
                    at += 1
        self._messages.insert(at, {**result, "content": frame["content"]})


def others_of(messages: Iterable[Mapping[str, JsonValue]], run_id: str) -> tuple[JsonObject, ...]:
    """Return those messages of a client that are not of a run, as it sent them."""
    return tuple(
        dict(message)
        for message in messages
        if message.get("role") in _ROLES
        and isinstance(name := message.get("id"), str)
        and not name.startswith(f"{run_id}/")
    )


def _is_of(key: str, name: str) -> bool:
    return key == name or key.startswith((f"{name}.", f"{name}/"))


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
