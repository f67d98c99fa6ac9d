"""Events of a run as updates of the Agent Client Protocol."""

import json
from collections.abc import Iterator
from typing import Final, Literal

import acp
from acp import schema
from pydantic import JsonValue

from windlass_protocol import Event, InputRequest, Record

JsonObject = dict[str, JsonValue]
Update = (
    schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.UserMessageChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
)
OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
OUTPUT_CHARS_MAX: Final = 20_000
_KINDS: Final[dict[str, OptionKind]] = {
    "approve": "allow_once",
    "approve_session": "allow_always",
    "deny": "reject_once",
}


class Updates:
    """Turns events of a session into updates, each said once.

    An editor knows what the person in front of it said; `with_words` is for one that does not.
    """

    def __init__(self, *, with_words: bool = False) -> None:
        self._streamed: set[tuple[object, object, str]] = set()
        self._with_words = with_words

    def of(self, event: Event | Record) -> Iterator[Update]:
        """Return what an editor is told of an event."""
        data = event.data
        step = (data.get("turnId"), data.get("stepIndex"))
        match event.type:
            case "message.received" if self._with_words:
                yield acp.update_user_message_text(_said(data.get("message")))
            case "message.appended":
                self._streamed.add((*step, "message"))
                yield acp.update_agent_message_text(str(data.get("messageDelta", "")))
            case "message.completed" if (*step, "message") not in self._streamed and data.get("message"):
                yield acp.update_agent_message_text(str(data["message"]))
            case "reasoning.appended":
                self._streamed.add((*step, "reasoning"))
                yield acp.update_agent_thought_text(str(data.get("reasoningDelta", "")))
            case "reasoning.completed" if (*step, "reasoning") not in self._streamed:
                yield acp.update_agent_thought_text(str(data.get("reasoning", "")))
            case "actions.requested":
                yield from _calls(data)
            case "action.started":
                yield acp.update_tool_call(str(data.get("callId")), status="in_progress")
            case "action.result":
                yield _result(data)
            case _:
                pass


def _calls(data: JsonObject) -> Iterator[Update]:
    actions = data.get("actions")
    for action in actions if isinstance(actions, list) else ():
        if isinstance(action, dict):
            name = str(action.get("toolName") or action.get("name"))
            yield acp.start_tool_call(
                str(action.get("callId")), name, kind="other", status="pending", raw_input=action.get("input")
            )


def _result(data: JsonObject) -> Update:
    result = data.get("result")
    known = result if isinstance(result, dict) else {}
    error = data.get("error")
    said = error.get("message") if isinstance(error, dict) else known.get("output")
    text = _said(said)
    return acp.update_tool_call(
        str(known.get("callId")),
        status="completed" if error is None else "failed",
        content=[acp.tool_content(acp.text_block(text[:OUTPUT_CHARS_MAX]))],
        raw_output=known.get("output"),
    )


def options_of(request: InputRequest) -> list[schema.PermissionOption]:
    """Return the answers to a request, as an editor offers them."""
    return [
        schema.PermissionOption(
            option_id=option.id, name=option.label, kind=_KINDS.get(option.id, "allow_once")
        )
        for option in request.options or ()
    ]


def call_of(request: InputRequest) -> schema.ToolCallUpdate:
    """Return the call that a request is about."""
    action = request.action
    return schema.ToolCallUpdate(
        tool_call_id=action.call_id,
        title=request.prompt,
        status="pending",
        raw_input=action.input,
    )


def _said(message: JsonValue) -> str:
    return message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
