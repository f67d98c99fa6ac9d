"""The terminal and the editor show the whole answer, also when the end of its stream was missed."""

from io import StringIO

from acp import schema

from windlass_cli.acp import Update, Updates
from windlass_cli.follow import RunWatch
from windlass_cli.output import Terminal
from windlass_protocol import Event

PLACE = {"turnId": "t0", "stepIndex": 0, "sequence": 0}
CALL = {"kind": "load-skill", "callId": "c", "input": "pdf"}
SKILL = {"kind": "load-skill-result", "callId": "c", "output": "read", "name": "pdf"}
CHILD = {"kind": "subagent-result", "callId": "d", "output": "read", "subagentName": "helper"}


def event(kind: str, **data: object) -> Event:
    facts = {"type": kind, "data": {**PLACE, **data}, "meta": {"at": "2026-01-31T09:00:00Z"}}
    return Event.model_validate(facts)


START, HALF = event("step.started"), event("message.appended", messageDelta="Hel")
WHOLE = event("message.completed", message="Hello", finishReason="stop")


def shown(*events: Event) -> tuple[str, str]:
    """What standard output and standard error show."""
    out, err = StringIO(), StringIO()
    watch = RunWatch(Terminal(out, err, source=StringIO()), "ann")
    for one in events:
        watch.show(one)
    watch.leave()
    return out.getvalue(), err.getvalue()


def updates(*events: Event) -> list[Update]:
    made = Updates()
    return [update for one in events for update in made.of(one)]


def said(found: list[Update]) -> list[str]:
    chunks = [one.content for one in found if isinstance(one, schema.AgentMessageChunk)]
    return [one.text for one in chunks if isinstance(one, schema.TextContentBlock)]


def test_the_terminal_shows_the_end_of_an_answer_that_did_not_come_live() -> None:
    assert shown(START, HALF, WHOLE) == ("Hello\n", "")
    assert shown(START, WHOLE) == ("Hello\n", "")


def test_the_terminal_begins_a_new_line_for_an_answer_that_is_tried_again() -> None:
    assert shown(START, HALF, START, WHOLE) == ("Hel\nHello\n", "")
    retrying = event("step.retrying", code="E", attempt=1, delayMs=1, message="it broke")
    assert shown(START, HALF, retrying, START, WHOLE) == ("Hel\nHello\n", "… it broke; retrying\n")


def test_the_terminal_names_skills_and_their_results() -> None:
    asked = event("actions.requested", actions=[CALL])
    got = event("action.result", result=SKILL, status="completed", durationMs=3)
    child = event("action.result", result=CHILD, status="completed")
    error = {"code": "E", "message": "it broke"}
    failed = event("action.result", result=SKILL, status="failed", error=error)
    assert shown(START, asked, got, child, failed)[1].splitlines() == [
        '→ load_skill("pdf")',
        "✓ pdf 3 ms: read",
        "✓ tool: read",
        "✗ pdf: it broke",
    ]


def test_an_editor_gets_the_end_of_an_answer_that_did_not_come_live() -> None:
    assert said(updates(START, HALF, WHOLE)) == ["Hel", "lo"]
    assert said(updates(START, WHOLE)) == ["Hello"]


def test_an_editor_that_was_told_of_a_call_is_not_told_again_when_it_starts() -> None:
    facts = {"callId": "c", "toolName": "load_skill", "effect": "once", "idempotencyKey": "k"}
    found = updates(START, event("actions.requested", actions=[CALL]), event("action.started", **facts))
    assert [type(one) for one in found] == [schema.ToolCallStart, schema.ToolCallProgress]
