"""A client of AG-UI that keeps messages as the one in TypeScript does."""

from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event as AguiEvent
from pydantic import TypeAdapter

Json = dict[str, Any]
EVENTS: TypeAdapter[Any] = TypeAdapter(AguiEvent)


class AguiClient:
    """The state of a client after the frames it has seen."""

    def __init__(self, messages: Iterable[Json] = ()) -> None:
        self.messages: list[Json] = [dict(message) for message in messages]
        self.state: Any = {}
        self.ends: list[Json] = []
        self.is_running = False
        self._open: set[tuple[str, str]] = set()

    @property
    def interrupts(self) -> list[str]:
        outcome: Json = (self.ends[-1].get("outcome") if self.ends else None) or {}
        return [one["id"] for one in outcome.get("interrupts", [])]

    def cut(self) -> None:
        """The connection is gone."""
        self.is_running = False
        self._open.clear()

    def take(self, frames: Iterable[Json]) -> None:
        for frame in frames:
            EVENTS.validate_python(frame)
            assert "null" not in str(frame.get("subagentRunId"))
            self._take(frame)

    def _take(self, frame: Json) -> None:
        kind = frame["type"]
        assert self.is_running == (kind != "RUN_STARTED"), f"{kind} out of order"
        match kind:
            case "RUN_STARTED":
                self.is_running = True
            case "RUN_FINISHED" | "RUN_ERROR":
                assert kind == "RUN_ERROR" or not self._open, f"still open: {self._open}"
                self.cut()
                self.ends.append(frame)
            case "MESSAGES_SNAPSHOT":
                self._snapshot(frame["messages"])
            case "STATE_SNAPSHOT":
                self.state = frame["snapshot"]
            case _ if kind.startswith("TOOL_CALL_"):
                self._call(kind, frame)
            case _ if kind.startswith("SUBAGENT_"):
                self._bracket("subagent", frame["subagentRunId"], is_start=kind == "SUBAGENT_STARTED")
            case _:
                self._text(kind, frame)

    def _snapshot(self, messages: list[Json]) -> None:
        has_thoughts = any(one["role"] == "reasoning" for one in messages)
        by_id = {one["id"]: one for one in messages}
        assert len(by_id) == len(messages), "an id is there twice"
        kept = [
            one
            for one in self.messages
            if one["id"] in by_id or (one["role"] == "reasoning" and not has_thoughts)
        ]
        self.messages = [by_id.get(one["id"], one) for one in kept]
        here = {one["id"] for one in self.messages}
        self.messages += [one for one in messages if one["id"] not in here]

    def _text(self, kind: str, frame: Json) -> None:
        key = frame["messageId"]
        name = "span" if kind in ("REASONING_START", "REASONING_END") else kind.rpartition("_")[0]
        if kind.endswith("_CONTENT"):
            assert (name, key) in self._open
            found = self._find(key)
            found["content"] = (found.get("content") or "") + frame["delta"]
            return
        self._bracket(name, key, is_start=kind.endswith("_START"))
        if kind.endswith("MESSAGE_START") and self._find(key, is_must=False) is None:
            self.messages.append({"id": key, "role": frame["role"], "content": ""})

    def _call(self, kind: str, frame: Json) -> None:
        key = frame["toolCallId"]
        if kind == "TOOL_CALL_RESULT":
            owner = next(at for at, one in enumerate(self.messages) if _calls(one, key))
            at = owner + 1
            while at < len(self.messages) and self.messages[at]["role"] == "tool":
                at += 1
            result = {
                "id": frame["messageId"],
                "role": "tool",
                "toolCallId": key,
                "content": frame["content"],
            }
            self.messages.insert(at, result)
        elif kind == "TOOL_CALL_ARGS":
            assert ("call", key) in self._open
            [call] = [call for one in self.messages for call in _calls(one, key)]
            call["function"]["arguments"] += frame["delta"]
        else:
            self._bracket("call", key, is_start=kind == "TOOL_CALL_START")
            if kind == "TOOL_CALL_START" and not any(_calls(one, key) for one in self.messages):
                parent: Any = self._find(frame["parentMessageId"], is_must=False)
                if parent is None:
                    parent = {"id": frame["parentMessageId"], "role": "assistant"}
                    self.messages.append(parent)
                function = {"name": frame["toolCallName"], "arguments": ""}
                parent.setdefault("toolCalls", []).append(
                    {"id": key, "type": "function", "function": function}
                )

    def _bracket(self, kind: str, key: str, *, is_start: bool) -> None:
        assert ((kind, key) in self._open) != is_start, f"{kind} {key} out of order"
        (self._open.add if is_start else self._open.discard)((kind, key))

    def _find(self, key: str, *, is_must: bool = True) -> Any:
        found = [one for one in self.messages if one["id"] == key]
        assert len(found) == 1 or (not found and not is_must), key
        return found[0] if found else None


def _calls(message: Json, key: str) -> list[Json]:
    return [call for call in message.get("toolCalls", []) if call["id"] == key]
