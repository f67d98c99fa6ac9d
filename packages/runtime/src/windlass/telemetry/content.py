"""What was said, as attributes of spans; only where somebody asked for it.

Records hold no secrets, and what is known to be one by now is masked again.
"""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from windlass.ports.telemetry import Attribute
from windlass.telemetry.attributes import clean_text
from windlass.telemetry.limits import CONTENT_CHARS_MAX, MESSAGES_PER_STEP_MAX
from windlass_harness.redact import Redactor
from windlass_harness.views.fold import text_in
from windlass_protocol import Record

JsonObject = dict[str, JsonValue]

_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"


class Notes:
    """The words of one run that belong to spans which have not ended yet."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._asked: JsonObject | None = None
        self._heard: list[JsonObject] = []
        """What the model gets to hear with its next answer."""
        self._heard_chars = 0
        self._said: list[JsonObject] = []
        """Parts of the answer that is being finished."""
        self._arguments: dict[str, str] = {}
        self._result: str | None = None
        self._output: str | None = None

    def take(self, record: Record) -> None:
        """Note what a record says; before the spans that it ends are made."""
        data = record.data
        match record.type:
            case "message.received":
                text = _text(data)
                self._hear(_message("user", text), len(text))
            case "message.completed":
                self._said.append({"type": "text", "content": _text(data)})
            case "actions.requested":
                self._ask(data.get("actions"))
            case "action.result":
                result = data.get("result")
                self._return(result if isinstance(result, dict) else {})
            case "run.completed":
                self._output = text_in(data, "output")
            case _:
                pass

    def chat(self, *, is_done: bool) -> dict[str, Attribute]:
        """Return what a model call heard that was new, and what it said."""
        found = {_INPUT: self._written(list[JsonValue](self._heard))} if self._heard else {}
        if is_done:
            if self._said:
                answer: JsonObject = {"role": "assistant", "parts": list[JsonValue](self._said)}
                found[_OUTPUT] = self._written([answer])
            self._heard, self._said, self._heard_chars = [], [], 0
        return dict(found)

    def tool(self, call_id: str) -> dict[str, Attribute]:
        """Return the arguments of a call, and its result if the last record was that."""
        given = {
            "gen_ai.tool.call.arguments": self._arguments.pop(call_id, None),
            "gen_ai.tool.call.result": self._result,
        }
        self._result = None
        return {name: value for name, value in given.items() if value is not None}

    def agent(self) -> dict[str, Attribute]:
        """Return what a run was asked, and what it answered."""
        found: dict[str, Attribute] = {}
        if self._asked is not None:
            found[_INPUT] = self._written([self._asked])
        if self._output is not None:
            found[_OUTPUT] = self._written([_message("assistant", self._output)])
        return found

    def _hear(self, message: JsonObject, chars: int) -> None:
        if self._asked is None:
            self._asked = message
        # What comes behind the limit would be cut off anyway.
        if len(self._heard) < MESSAGES_PER_STEP_MAX and self._heard_chars < CONTENT_CHARS_MAX:
            self._heard.append(message)
            self._heard_chars += chars

    def _ask(self, actions: JsonValue) -> None:
        for action in actions if isinstance(actions, list) else ():
            call = action if isinstance(action, dict) else {}
            call_id, given = text_in(call, "callId") or "", call.get("input")
            name = text_in(call, "toolName") or text_in(call, "name") or ""
            if len(self._said) < MESSAGES_PER_STEP_MAX:
                self._said.append({"type": "tool_call", "id": call_id, "name": name, "arguments": given})
            if len(self._arguments) < MESSAGES_PER_STEP_MAX:
                self._arguments[call_id] = self._written(given)

    def _return(self, result: Mapping[str, JsonValue]) -> None:
        text = self._result = self._written(result.get("output"))
        part: JsonObject = {"type": "tool_call_response", "id": text_in(result, "callId"), "response": text}
        self._hear({"role": "tool", "parts": [part]}, len(text))

    def _written(self, value: JsonValue) -> str:
        masked = self._redactor.value(value)
        text = masked if isinstance(masked, str) else json.dumps(masked, ensure_ascii=False, default=str)
        return clean_text(text, CONTENT_CHARS_MAX)


def _message(role: str, text: str) -> JsonObject:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _text(data: Mapping[str, JsonValue]) -> str:
    parts = data.get("parts")
    texts = [text_in(data, "message") or ""]
    for part in parts if isinstance(parts, list) else ():
        texts.append(text_in(part, "text") or "" if isinstance(part, dict) else "")
    return "\n".join(text for text in texts if text)[:CONTENT_CHARS_MAX]
