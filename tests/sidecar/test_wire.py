"""Notifications of the sidecar match spec/, from ready to shutdown."""

from pathlib import Path

import pytest
from tests.protocol.judges import Case, schema_accepts
from tests.sidecar.frames import check
from tests.sidecar.rig import Process, params_of
from tests.sidecar.test_host import INPUT, OPEN_FILE

from windlass_harness.views.stream import ChatFold
from windlass_protocol import Event, EventMeta, JsonObject, JsonValue, SidecarErrorKind
from windlass_sidecar.methods import HOST_METHODS, NOTIFICATIONS
from windlass_sidecar.streams import notices

TYPES = {
    "lifecycle.ready": "SidecarReady",
    "lifecycle.shutdown": "SidecarShutdown",
    "stream.chunk": "StreamChunk",
    "stream.event": "StreamEvent",
    "stream.error": "StreamError",
    "stream.done": "StreamDone",
    "host.tool.call": "HostToolCall",
    "host.input.request": "HostInputRequest",
    "host.request.cancelled": "HostRequestCancelled",
}
TOOLS = '''
from windlass import tool
from windlass.tools.question import ask_question

@tool(mode="read")
async def weather(city: str) -> str:
    """Say what the weather is."""
    return "rain"

@tool(mode="external")
async def mail(text: str) -> str:
    """Send a mail."""
    return "sent"

all_of_them = [weather, mail, ask_question]
'''


def start(child: Process, stream_id: str, tool: JsonValue, **params: JsonValue) -> None:
    """Begin a stream with a model that calls one tool."""
    name = tool["name"] if isinstance(tool, dict) else tool
    asked: JsonValue = [{"role": "user", "content": str(name).replace("_", " ")}]
    given: JsonObject = {"provider": "demo", "model": "m", "messages": asked, "tools": [tool], **params}
    answer = child.call("agent.chat.stream", {**given, "streamId": stream_id})
    assert answer["result"] == {"streamId": stream_id}


def answer(child: Process, request: JsonObject, result: JsonObject) -> None:
    child.send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def ended(child: Process) -> JsonObject:
    done = params_of(child.method("stream.done"))
    return {name: value for name, value in done.items() if name != "streamId"}


def story(child: Process) -> None:
    """A chat with each thing that can happen in one, and the end."""
    child.method("lifecycle.ready")
    child.call("protocol.describe", INPUT)
    start(child, "tool", "weather")
    assert ended(child) == {"ok": True}
    start(child, "events", "weather", shape="events")
    assert ended(child) == {"ok": True}
    verdict = child.call("harness.classifyShell", {"command": "rm -rf /"})["result"]
    assert schema_accepts(Case("ShellVerdict", "harness.classifyShell", verdict))
    start(child, "host tool", OPEN_FILE)
    answer(child, child.method("host.tool.call"), {"success": True, "data": {"lines": 3}})
    assert ended(child) == {"ok": True}
    start(child, "approval", "mail")
    answer(child, child.method("host.input.request"), {"optionId": "maybe"})
    again = child.method("host.input.request")
    assert "problem" in params_of(again)
    answer(child, again, {"optionId": "approve"})
    assert ended(child) == {"ok": True}
    start(child, "question", "ask_question")
    answer(child, child.method("host.input.request"), {"text": "in Oslo"})
    assert ended(child) == {"ok": True}
    start(child, "cancel", OPEN_FILE)
    child.method("host.tool.call")
    child.ask("agent.chat.cancel", {"streamId": "cancel"}, call_id=2)
    assert ended(child) == {"ok": False, "cancelled": True}
    start(child, "failure", "weather", budget={"maxSteps": 1})
    failure = params_of(child.method("stream.error"))
    assert failure["kind"] == SidecarErrorKind.BUDGET_EXHAUSTED
    assert ended(child) == {"ok": False}
    child.ask("system.shutdown")
    assert child.rest()[-1]["method"] == "lifecycle.shutdown"


def test_every_message_of_a_whole_story_is_of_the_type_that_the_spec_has_for_its_method(
    tmp_path: Path,
) -> None:
    (tmp_path / "story_tools.py").write_text(TOOLS, "utf-8")
    with Process("--tools", "story_tools:all_of_them", folder=tmp_path) as child:
        story(child)
    sent = [message for message in child.heard if "method" in message]
    cases = [Case(TYPES[str(one["method"])], str(one["method"]), one["params"]) for one in sent]
    assert [(str(case), case.value) for case in cases if not schema_accepts(case)] == []
    assert {case.name for case in cases} == TYPES.keys(), "the story leaves none out"


def test_pieces_that_only_some_models_send_are_of_the_spec_too() -> None:
    step: JsonObject = {"turnId": "t0", "stepIndex": 0, "sequence": 0}
    result: JsonObject = {"kind": "load-skill-result", "callId": "c", "output": None}
    happened: list[tuple[str, JsonObject]] = [
        ("step.started", {}),
        ("reasoning.appended", {"reasoningDelta": "hm"}),
        ("action.input.appended", {"callId": "c", "inputDelta": "{", "toolName": "t"}),
        ("action.input.appended", {"callId": "c", "inputDelta": "}"}),
        ("step.started", {}),
        ("action.result", {"result": result, "status": "completed"}),
    ]
    meta = EventMeta(at="2026-01-31T09:00:00Z")
    events = [Event(type=kind, data={**step, **data}, meta=meta) for kind, data in happened]
    told = [notice for change in ChatFold().apply_all(events) for notice in notices(change)]
    assert len(told) == 5
    for method, params in told:
        check({"jsonrpc": "2.0", "method": method, "params": {"streamId": "s", **params}})


def test_the_sidecar_lists_its_notifications_with_the_types_of_the_spec() -> None:
    listed = {name: kind.__name__ for name, kind in {**NOTIFICATIONS, **HOST_METHODS}.items()}
    assert listed == TYPES


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"method": "stream.unheard", "params": {}}, "not in the table"),
        ({"method": "host.tool.call", "params": {"id": "x"}}, "not in the table"),
        ({"id": "1", "method": "stream.done", "params": {"streamId": "s", "ok": True}}, "not in the table"),
        ({"method": "stream.done", "params": {"streamId": "s", "ok": True, "okay": 1}}, "okay"),
        (
            {
                "method": "stream.chunk",
                "params": {"streamId": "s", "toolCallDelta": {"id": "c", "argumentsDelta": "", "odd": 1}},
            },
            "odd",
        ),
    ],
    ids=["unknown", "a request without id", "a notification with one", "a field", "a field within"],
)
def test_a_message_that_the_spec_does_not_name_fails_its_test(message: JsonObject, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check({"jsonrpc": "2.0", **message})
