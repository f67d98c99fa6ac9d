"""Subagents: calls that run in a child session, their budgets, requests and reports.

The start item of the child is in one append with the record of the call, and the child's report with the end
of its run. So neither can be lost or repeated by a crash, and a waiting subagent call needs no recovery.
"""

from collections.abc import Set
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.budget import Budget, BudgetState, share
from windlass_harness.loop.events import (
    ChildSaid,
    Delegation,
    Draft,
    Moment,
    joined,
    within_limit,
)
from windlass_harness.loop.notes import Child, objects_in
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Post
from windlass_harness.views.history import Call, CallStage
from windlass_harness.views.runs import RunState
from windlass_protocol import InputOutcome, JsonObject
from windlass_protocol.limits import ID_CHARS_MAX

ASK: Final = "child_asks"
"""Item kind: a subagent requests input."""
SETTLE: Final = "child_settles"
"""Item kind: a request of a subagent was settled."""
REPORT: Final = "child_ended"
"""Item kind: a subagent ended."""
START: Final = "start"
"""Item kind: starts a run. It waits while an earlier run of the session waits."""
CANCEL: Final = "cancel"
"""Item kind: cancels a run."""
DEPTH: Final = "subagent_depth"
COUNT: Final = "subagent_count"
BUDGET: Final = "subagent_budget"
_SESSION: Final = "session:"
_SUBAGENT: Final = "subagent:"
"""Prefix of the run ids of all subagents, and of no other runs."""
_CANCELLED: Final = "The run that called it has ended."
_NOTHING_USED: Final = BudgetState()
_LIMITS: Final = (
    ("maxTokens", "max_tokens"),
    ("maxSteps", "max_steps"),
    ("maxToolCalls", "max_tool_calls"),
    ("maxCostMicros", "max_cost_micros"),
    ("maxWallMs", "max_wall_ms"),
)
_NEEDED: Final = ("max_tokens", "max_steps", "max_wall_ms")
"""Budgets that a subagent cannot start without a share of."""


def child_of(run: RunState, call: Call, *, name: str) -> Child:
    """Return the child session and run of a call; deterministic."""
    place = joined(run.run_id, str(call.step_index), call.call_id)
    run_id = _SUBAGENT + within_limit(place, most=ID_CHARS_MAX - len(_SESSION + _SUBAGENT))
    return Child(name, _SESSION + run_id, run_id)


def is_childs(name: str) -> bool:
    """Whether an id has the form of a subagent's run or session."""
    return name.removeprefix(_SESSION).startswith(_SUBAGENT)


# calling


def limit_passed(
    state: LoopState, delegation: Delegation, *, now: Moment, rules: Rules
) -> tuple[str, str] | None:
    """Return the code and message of an exceeded subagent limit; None if there is none."""
    depth, most = _depth(state.run), rules.subagent_depth_max
    if depth > most:
        return DEPTH, f"Subagents may be {most} levels deep, and this would be level {depth}. Do it yourself."
    if state.run_notes.children >= rules.subagent_calls_max:
        most = rules.subagent_calls_max
        return COUNT, f"This run has called {most} subagents, and may call no more. Do it yourself."
    left = _share(state, delegation, now)
    if any(getattr(left, name) == 0 for name in _NEEDED):
        return BUDGET, "Too little is left of the budget of this run to share it with a subagent."
    return None


def called(
    state: LoopState, call: Call, *, delegation: Delegation, now: Moment, rules: Rules
) -> Draft | tuple[str, str]:
    """Return the record of a subagent call, with the child's start item; or a refusal."""
    refusal = limit_passed(state, delegation, now=now, rules=rules)
    if refusal is not None:
        return refusal
    run = state.run
    assert run is not None, "only a run calls"
    child = child_of(run, call, name=delegation.name)
    facts: JsonObject = {
        "callId": call.call_id,
        "childSessionId": child.session_id,
        "childRunId": child.run_id,
        "sessionId": run.session_id,
        "name": child.name,
        "toolName": call.tool_name,
        "depth": _depth(run),
        **state.turn_place(),
    }
    body = _start(state, call, child=child, delegation=delegation, now=now)
    post = Post(child.session_id, START, within_limit(f"{START}:{child.run_id}"), body)
    return replace(state.draft("subagent.called", facts, now=now), posts=(post,))


def _start(state: LoopState, call: Call, *, child: Child, delegation: Delegation, now: Moment) -> JsonObject:
    run, turn = state.run, state.session.turn
    assert run is not None
    assert turn is not None
    above = run.parent
    root = run.session_id if above is None else above.root_session_id
    agents: list[JsonValue] = [*(() if above is None else above.agents or ()), run.agent_id]
    invocation: JsonObject = {
        "kind": "subagent",
        "parentCallId": call.call_id,
        "parentSessionId": run.session_id,
        "parentTurnId": turn.turn_id,
        "name": child.name,
    }
    given = delegation.body.get("parent")
    parent: JsonObject = {
        **(given if isinstance(given, dict) else {}),
        "sessionId": run.session_id,
        "runId": run.run_id,
        "callId": call.call_id,
        "rootSessionId": root,
        "depth": _depth(run),
        "agents": agents,
    }
    opening = delegation.body.get("session")
    session: JsonObject = {**opening} if isinstance(opening, dict) else {}
    session |= {"invocation": invocation, "rootSessionId": root}
    if state.session.taint:
        # The task may quote content that this session has read.
        session["taint"] = [*sorted(state.session.taint)]
    body: JsonObject = {**delegation.body, "runId": child.run_id, "parent": parent, "session": session}
    if run.owner is not None:
        body["owner"] = run.owner
    budget = _least(body.get("budget"), _share(state, delegation, now))
    return {**body, "budget": budget} if budget else body


def _depth(run: RunState | None) -> int:
    """Return the depth of a child of the run."""
    return 1 if run is None or run.parent is None else run.parent.depth + 1


def _share(state: LoopState, delegation: Delegation, now: Moment) -> Budget:
    """Return the child's share of the remaining budget; open calls of the step are deducted first."""
    notes = state.run_notes
    unbegun = sum(call.stage is CallStage.REQUESTED for call in state.session.history.open_calls())
    used = replace(
        notes.spent,
        tool_calls_used=notes.budget.tool_calls_used + unbegun,
        wall_ms_used=state.wall_ms(now),
    )
    return share(used, notes.limits, parts=delegation.parts)


def _least(own: JsonValue, left: Budget) -> JsonObject:
    limits: JsonObject = {}
    given = own if isinstance(own, dict) else {}
    for wire, name in _LIMITS:
        found = [one for one in (given.get(wire), getattr(left, name)) if isinstance(one, int)]
        if found:
            limits[wire] = min(found)
    return limits


# reports of children


def said(state: LoopState, event: ChildSaid, *, now: Moment) -> list[Draft]:
    """Return the records of a message from a subagent; none if its call is not open."""
    run, call_id = state.run, str(event.body.get("callId"))
    note = state.note(call_id)
    is_ours = run is not None and run.run_id == event.body.get("runId")
    is_child = note.child is not None and note.child.run_id == event.body.get("childRunId")
    if not (is_ours and is_child) or note.report is not None or state.call(call_id) is None:
        return []
    if event.kind == ASK:
        return _asked(state, call_id, event.body, now)
    if event.kind == SETTLE:
        return _settled(state, call_id, objects_in(event.body, "resolutions"), now)
    return _ended(state, call_id, event.body, now)


def _asked(state: LoopState, call_id: str, body: JsonObject, now: Moment) -> list[Draft]:
    requests, session_id = body.get("requests"), body.get("sessionId")
    if not requests:
        return []
    facts: JsonObject = {"requests": requests, "callId": call_id, "childSessionId": session_id}
    asked = state.draft("input.requested", {**facts, **state.place()}, now=now)
    return [told_asked(state, asked, session_id=str(session_id))]


def _settled(state: LoopState, call_id: str, resolutions: list[JsonObject], now: Moment) -> list[Draft]:
    drafts: list[Draft] = []
    for resolution in resolutions:
        asked = state.session.family.proxied.get(str(resolution["requestId"]))
        if asked is not None and asked.call_id == call_id:
            facts: JsonObject = {"callId": call_id, "childSessionId": asked.session_id}
            data: JsonObject = {"resolutions": [resolution], **facts, **state.place()}
            drafts.append(told_settled(state, state.draft("input.resolved", data, now=now)))
    return drafts


def withdrawn(state: LoopState, now: Moment) -> list[Draft]:
    """Return the records that close the requests of all subagents."""
    asked = state.session.family.proxied.values()
    call_ids = dict.fromkeys(one.call_id for one in asked)
    return [draft for call_id in call_ids for draft in _withdrawn(state, call_id, now)]


def _withdrawn(state: LoopState, call_id: str, now: Moment) -> list[Draft]:
    left: list[JsonObject] = [
        {"requestId": request_id, "outcome": InputOutcome.CANCELLED.value}
        for request_id, asked in state.session.family.proxied.items()
        if asked.call_id == call_id
    ]
    return _settled(state, call_id, left, now)


def _ended(state: LoopState, call_id: str, body: JsonObject, now: Moment) -> list[Draft]:
    child = state.note(call_id).child
    assert child is not None, "only a child that was called has ended"
    facts: JsonObject = {
        "callId": call_id,
        "subagentName": child.name,
        "childSessionId": child.session_id,
        "childRunId": child.run_id,
        **{name: body[name] for name in _REPORTED if body.get(name) is not None},
    }
    completed = state.draft("subagent.completed", {"output": "", **facts}, now=now)
    return [*_withdrawn(state, call_id, now), completed]


_REPORTED: Final = (
    "output",
    "isError",
    "isStructured",
    "status",
    "error",
    "usage",
    "steps",
    "toolCalls",
    "taint",
)


# reports to the parent run


def told_asked(state: LoopState, asked: Draft, *, session_id: str) -> Draft:
    """Return the draft of a request, with an item for the parent run."""
    requests = objects_in(asked.data, "requests")
    facts: JsonObject = {"requests": [*requests], "sessionId": session_id}
    return _told(state.run, asked, kind=ASK, name=str(requests[0]["requestId"]), facts=facts)


def told_settled(state: LoopState, resolved: Draft) -> Draft:
    """Return the draft of a settled request, with an item for the parent run."""
    resolutions = objects_in(resolved.data, "resolutions")
    facts: JsonObject = {"resolutions": [*resolutions]}
    return _told(state.run, resolved, kind=SETTLE, name=str(resolutions[0]["requestId"]), facts=facts)


def told_end(
    run: RunState, ended: Draft, *, used: BudgetState = _NOTHING_USED, taint: Set[str] = frozenset()
) -> Draft:
    """Return the end of a run, with a report for the parent run."""
    data, status = ended.data, ended.type.removeprefix("run.")
    facts: JsonObject = {"status": status, "steps": used.steps_used, "toolCalls": used.tool_calls_used}
    if data.get("usage") is not None:
        facts["usage"] = data["usage"]
    if taint:
        facts["taint"] = [*sorted(taint)]
    if "structuredOutput" in data:
        facts |= {"output": to_json(data["structuredOutput"]).decode(), "isStructured": True}
    elif ended.type == "run.completed":
        facts["output"] = data["output"]
    else:
        error = data.get("error")
        message = error["message"] if isinstance(error, dict) else _ENDED[status]
        facts |= {"output": message, "isError": True}
        facts["error"] = {"code": f"subagent_{status}", "message": message}
    return _told(run, ended, kind=REPORT, name="", facts=facts)


_ENDED: Final = {
    "cancelled": "The subagent was cancelled before it was done.",
    "failed": "The subagent failed.",
}


def _told(run: RunState | None, draft: Draft, *, kind: str, name: str, facts: JsonObject) -> Draft:
    if run is None or run.parent is None:
        return draft
    above = run.parent
    body: JsonObject = {"runId": above.run_id, "callId": above.call_id, "childRunId": run.run_id, **facts}
    post = Post(above.session_id, kind, within_limit(f"{kind}:{run.run_id}:{name}"), body)
    return replace(draft, posts=(*draft.posts, post))


def cancelled(state: LoopState, ended: Draft) -> Draft:
    """Return the end of a run, with cancel items for its subagents."""
    posts = tuple(
        Post(child.session_id, CANCEL, within_limit(f"{CANCEL}:{child.run_id}"), _wish(child))
        for call in state.session.history.open_calls()
        if (child := state.note(call.call_id).child) is not None and state.note(call.call_id).report is None
    )
    return replace(ended, posts=(*ended.posts, *posts)) if posts else ended


def _wish(child: Child) -> JsonObject:
    return {"runId": child.run_id, "reason": _CANCELLED}


def result_of(state: LoopState, call: Call, *, output: JsonValue) -> JsonObject:
    """Return the wire form of a result: of a tool, or of a subagent."""
    child = state.note(call.call_id).child
    if child is None:
        return {
            "kind": "tool-result",
            "callId": call.call_id,
            "toolName": call.tool_name,
            "output": output,
        }
    return {
        "kind": "subagent-result",
        "callId": call.call_id,
        "subagentName": child.name,
        "output": output,
    }
