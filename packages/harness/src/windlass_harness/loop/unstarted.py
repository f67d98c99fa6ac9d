"""Runs that end before they began: the run under way does not notice."""

from typing import Final

from windlass_harness.loop import family
from windlass_harness.loop.drafts import Draft
from windlass_harness.loop.events import CancelAsked, Moment, RunRefused, RunWithdrawn
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import RunState
from windlass_protocol import JsonObject, ParentRun


def facts_of(body: JsonObject) -> JsonObject:
    """Return what the record of a run's beginning says, of what it begins with."""
    return {name: value for name, value in body.items() if name not in _NOT_OF_THE_RUN}


SAID: Final = ("message", "parts", "context", "messageId", "sender")
_NOT_OF_THE_RUN: Final = frozenset({*SAID, "contract", "session", "turnId"})


def ended(state: LoopState, event: RunWithdrawn | RunRefused, *, now: Moment) -> list[Draft]:
    """Return the end of a run that never began: withdrawn, or unable to."""
    run_id, agent_id = str(event.body["runId"]), str(event.body["agentId"])
    if run_id in state.session.run_ids:
        return []
    data: JsonObject = {"runId": run_id, "unstarted": facts_of(event.body)}
    if isinstance(event, RunRefused):
        data["error"] = event.error.model_dump(mode="json", by_alias=True)
        return [_told(event, Draft("run.failed", now.at, data, run_id=run_id, agent_id=agent_id))]
    if event.reason is not None:
        data["reason"] = event.reason
    asked = cancel_facts(run_id, event)
    return [
        Draft("run.cancel_requested", now.at, asked, run_id=run_id, agent_id=agent_id),
        _told(event, Draft("run.cancelled", now.at, data, run_id=run_id, agent_id=agent_id)),
    ]


def _told(event: RunWithdrawn | RunRefused, ended: Draft) -> Draft:
    above = event.body.get("parent")
    if above is None:
        return ended
    run_id, agent_id = str(event.body["runId"]), str(event.body["agentId"])
    parent = ParentRun.model_validate(above)
    run = RunState(run_id, agent_id, parent.session_id, started_at=ended.at, parent=parent)
    return family.told_end(run, ended)


def cancel_facts(run_id: str, event: CancelAsked | RunWithdrawn) -> JsonObject:
    """Return the data of the record that somebody wants a run to end."""
    data: JsonObject = {"runId": run_id}
    if event.by is not None:
        data["by"] = event.by
    if event.reason is not None:
        data["reason"] = event.reason
    return data
