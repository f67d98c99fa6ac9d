"""Session state for the next step and for recovery."""

import pytest
from tests.harness.views.journal import Facts, Journal, at, request, some

from windlass_harness.views import (
    CallStage,
    SessionState,
    SessionStatus,
    TurnState,
    TurnStatus,
    Wait,
    fold_session,
)
from windlass_harness.views.family import ChildSession
from windlass_harness.views.fold import dump_state, load_state
from windlass_harness.views.listing import RECORDS_OF_STEPS
from windlass_harness.views.session import SANDBOX_KEY, WITHOUT_STEPS, SessionDraft
from windlass_protocol import EffectClass, JsonObject, ResolverScope, RunStatus, SandboxState, SessionAgent

AGENT: Facts = {"modelReference": {"id": "acme/one"}, "system": "Help.", "tools": []}
TURN = {"sequence": 0, "turnId": "t0"}


def state(journal: Journal) -> SessionState:
    return fold_session(journal.records)


def test_a_session_is_configured_by_its_first_record() -> None:
    journal = Journal().add(
        "session.started",
        {
            "agent": AGENT,
            "compaction": {"threshold": 500, "recentWindowSize": 3},
            "outputSchema": {"type": "object"},
            "rootSessionId": "top",
        },
    )
    session = state(journal).session
    assert session.session_id == "s1"
    assert session.agent == SessionAgent.model_validate(AGENT)
    assert (session.compaction.threshold, session.compaction.recent_window_size) == (500, 3)
    assert session.output_schema == {"type": "object"}
    assert session.root_session_id == "top"
    assert session.state is None


def test_a_session_without_records_or_agent_is_still_a_session() -> None:
    session = SessionState().session
    assert (session.session_id, session.history, session.continuation_token) == ("new", (), "")
    assert session.agent.model_reference.id == "unknown"
    assert (session.compaction.threshold, session.compaction.recent_window_size) == (100_000, 10)
    assert state(Journal().begin()).session.agent.system == ""


def test_a_fork_goes_on_with_the_messages_that_a_playground_changed() -> None:
    journal = Journal().begin()
    origin = {"predecessor": "s0", "predecessorSeq": 2}
    assert len(state(journal.add("session.forked", origin)).session.history) == 1, "that of its records"
    said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Yes?"}]
    journal.add("session.forked", {**origin, "messages": said})
    assert [one.content for one in state(journal).session.history] == ["Hello.", "Yes?"]


def test_a_session_that_moved_has_the_agent_it_moved_to() -> None:
    journal = Journal().add("session.started", {"agent": AGENT})
    moved = {"fromFingerprint": "a", "toFingerprint": "b"}
    assert some(state(journal.add("session.moved", moved)).agent).system == "Help."
    journal.add("session.moved", {**moved, "agent": {**AGENT, "system": "Help more."}})
    assert state(journal).session.agent.system == "Help more."


def test_authored_state_is_set_and_removed_by_key() -> None:
    journal = Journal().add("session.state_changed", {"set": {"a": 1, "b": [2]}})
    journal.add("session.state_changed", {"removed": ["a", "never"], "set": {"c": None}})
    assert state(journal).session.state == {"b": [2], "c": None}


def test_the_state_of_the_sandbox_is_a_field_of_its_own() -> None:
    sandbox: JsonObject = {"initialized": True, "session": {"adapter": "none"}}
    journal = Journal().add("session.state_changed", {"set": {SANDBOX_KEY: sandbox, "a": 1}})
    session = state(journal).session
    assert session.sandbox_state == SandboxState(initialized=True, session={"adapter": "none"})
    assert session.state == {"a": 1}
    journal.add("session.state_changed", {"set": {SANDBOX_KEY: {"initialized": "perhaps"}}, "removed": ["a"]})
    assert (state(journal).session.sandbox_state, state(journal).session.state) == (None, None)


def test_the_last_value_of_a_resolver_is_kept_by_agent_and_name() -> None:
    def given(name: str, digit: str) -> JsonObject:
        ref: JsonObject = {"contentId": digit, "hash": f"sha256:{digit * 64}", "sizeBytes": 1}
        return {"resolver": name, "part": "tools", "scope": "turn", "contentRef": ref}

    journal = Journal().add("run.started", {"runId": "r1", "agentId": "a"})
    journal.add("agent.resolved", given("x", "1")).add("agent.resolved", given("y", "2"))
    journal.add("agent.resolved", given("x", "3"))
    known = state(journal).resolved
    assert {key.partition("/")[2]: one.content.content_id for key, one in known.items()} == {
        "x": "3",
        "y": "2",
    }
    assert {one.scope for one in known.values()} == {ResolverScope.TURN}
    kept = load_state(SessionState, dump_state(state(journal)))
    assert kept is not None
    assert kept.resolved == known


def test_the_last_schema_asked_for_wins_and_stays() -> None:
    journal = Journal().add("session.started", {"outputSchema": {"title": "first"}})
    version = {"major": 1, "minor": 0, "patch": 0}
    contract = {"schemaId": "x", "schemaVersion": version, "schema": {"title": "second"}}
    journal.add("output.requested", {"contract": contract})
    assert state(journal).session.output_schema == {"title": "second"}
    journal.add("run.started", {"runId": "r2", "agentId": "a"})
    assert state(journal).session.output_schema == {"title": "second"}


def test_the_token_count_of_the_provider_is_kept_with_the_length_of_its_prompt() -> None:
    journal = Journal().begin().start(promptMessageCount=7).end(usage={"inputTokens": 120, "outputTokens": 5})
    config = state(journal).session.compaction
    assert (config.last_known_input_tokens, config.last_known_prompt_message_count) == (120, 7)
    journal.start(1).end(1)
    config = state(journal).session.compaction
    assert config.last_known_input_tokens == 120, "a step without usage changes nothing"


def test_a_prompt_of_unknown_length_is_the_history() -> None:
    journal = Journal().begin().answer("a").result("a").start(1).end(1, usage={"inputTokens": 9})
    config = state(journal).session.compaction
    assert (config.last_known_input_tokens, config.last_known_prompt_message_count) == (9, 3)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("context.cleared", {}),
        ("compaction.completed", {"modelId": "m", "summary": "s", "keptFrom": 1, **TURN}),
    ],
)
def test_a_history_that_was_replaced_was_never_counted(kind: str, data: dict[str, object]) -> None:
    journal = Journal().begin().answer().end(usage={"inputTokens": 120}).add(kind, data)
    config = state(journal).session.compaction
    assert (config.last_known_input_tokens, config.last_known_prompt_message_count) == (None, None)
    journal.end(usage={"inputTokens": 5})
    assert state(journal).session.compaction.last_known_input_tokens is None


def test_calls_are_requested_then_started_then_finished() -> None:
    journal = Journal().begin().answer("a", "b", "c").run("a").run("b").result("b")
    folded = state(journal)
    assert [(one.call_id, one.stage) for one in folded.calls] == [
        ("a", CallStage.STARTED),
        ("b", CallStage.FINISHED),
        ("c", CallStage.REQUESTED),
    ]
    (interrupted,) = folded.interrupted
    assert (interrupted.call_id, interrupted.tool_name, interrupted.input) == ("a", "look", {"for": "a"})
    assert (interrupted.effect, interrupted.idempotency_key) == (EffectClass.ONCE, "k-a")
    assert (interrupted.turn_id, interrupted.step_index) == ("t0", 0)
    assert some(folded.calls[1].output).value == "found"


def test_arguments_that_a_policy_changed_are_kept_beside_the_input() -> None:
    started = {
        "callId": "a",
        "toolName": "look",
        "effect": "read",
        "idempotencyKey": "k",
        "arguments": {"n": 1},
    }
    journal = Journal().begin().answer("a").add("action.started", {**started, **at()})
    (one,) = state(journal).calls
    assert (one.input, one.arguments) == ({"for": "a"}, {"n": 1})


def test_results_of_unknown_calls_are_ignored() -> None:
    journal = Journal().begin().result("ghost")
    assert state(journal).calls == ()
    assert len(state(journal).session.history) == 1


def test_a_model_call_without_an_answer_shows() -> None:
    journal = Journal().begin().start()
    assert state(journal).is_answering
    assert not state(journal.say("x").ask("a").end()).is_answering


def test_a_step_of_no_turn_is_a_step_of_the_session() -> None:
    found = state(Journal().add("session.started").start())
    assert (found.turn, found.is_answering) == (None, True)


def test_a_turn_has_its_step_and_attempt() -> None:
    journal = Journal().begin()
    assert state(journal).turn == TurnState("t0", 0)
    journal.start(0).start(0, attempt=2)
    assert state(journal).turn == TurnState("t0", 0, step_index=0, attempt=2)
    journal.say("x").end().start(1)
    assert state(journal).turn == TurnState("t0", 0, step_index=1, attempt=1)


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("turn.waiting", {"on": "input"}, TurnStatus.WAITING),
        ("turn.completed", {}, TurnStatus.COMPLETED),
        ("turn.failed", {"code": "E", "message": "m"}, TurnStatus.FAILED),
        ("turn.cancelled", {}, TurnStatus.CANCELLED),
    ],
)
def test_records_set_the_status_of_a_turn(kind: str, data: dict[str, object], status: TurnStatus) -> None:
    assert some(state(Journal().begin().add(kind, {**TURN, **data})).turn).status is status
    assert state(Journal().add(kind, {**TURN, **data})).turn is None


def test_the_run_is_the_newest_one() -> None:
    journal = Journal().begin()
    assert some(state(journal).run).run_id == "r1"
    journal.add("run.completed", {"runId": "r1", "output": "done"})
    run = some(state(journal).run)
    assert (run.status, some(run.result).output) == (RunStatus.COMPLETED, "done")
    journal.add("run.started", {"runId": "r2", "agentId": "a"}).add(
        "run.waiting", {"runId": "r1", "on": "input"}
    )
    run = some(state(journal).run)
    assert (run.run_id, run.status) == ("r2", RunStatus.RUNNING)


def test_a_cancel_request_shows_and_does_not_end_a_wait() -> None:
    journal = Journal().begin().add("run.waiting", {"runId": "r1", "on": "input"})
    journal.add("run.cancel_requested", {"runId": "r1"})
    folded = state(journal)
    assert some(folded.run).is_cancel_requested
    assert folded.waiting == Wait("input")


def test_a_wait_has_its_kind_deadline_and_requests() -> None:
    journal = Journal().begin().answer("q").add("turn.waiting", {"on": "input", **TURN})
    journal.add(
        "run.waiting", {"runId": "r1", "on": "input", "requestIds": ["x"], "until": "2026-02-01T00:00:00Z"}
    )
    journal.add("session.waiting", {"wait": "recovery", "continuationToken": "secret"})
    folded = state(journal)
    assert folded.waiting == Wait("recovery", "2026-02-01T00:00:00Z", ("x",))
    assert folded.status is SessionStatus.WAITING
    assert folded.session.continuation_token == "secret"
    journal.add("session.waiting", {"wait": "timer"})
    assert state(journal).session.continuation_token == "secret"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("run.resumed", {"runId": "r1", "reason": "input"}),
        ("run.started", {"runId": "r2", "agentId": "a"}),
        ("turn.started", {"sequence": 1, "turnId": "t1"}),
        ("step.started", at(1)),
        ("run.cancelled", {"runId": "r1"}),
        ("session.completed", {}),
    ],
)
def test_a_wait_ends_when_work_goes_on_or_ends(kind: str, data: dict[str, object]) -> None:
    journal = Journal().begin().add("run.waiting", {"runId": "r1", "on": "input"}).add(kind, data)
    assert state(journal).waiting is None


def test_open_requests_are_the_unsettled_ones() -> None:
    requests = [request(f"q{number}", f"c{number}", kind="approval") for number in range(3)]
    journal = (
        Journal().begin().answer("c0", "c1", "c2").add("input.requested", {"requests": requests, **at()})
    )
    assert [one.request_id for one in state(journal).requests] == ["q0", "q1", "q2"]
    journal.add("input.resolved", {"resolutions": [{"requestId": "q1", "outcome": "approved"}], **at()})
    journal.add("approval.settled", {"requestId": "q2", "outcome": "denied"})
    assert [one.request_id for one in state(journal).requests] == ["q0"]
    journal.add("run.cancelled", {"runId": "r1"})
    assert state(journal).requests == ()


def test_a_request_about_a_call_that_has_its_result_is_no_longer_open() -> None:
    requests = [request("q0", "a", kind="approval"), request("q1", "b", kind="approval")]
    journal = Journal().begin().answer("a", "b").add("input.requested", {"requests": requests, **at()})
    journal.result("a", None, status="rejected")
    assert [one.request_id for one in state(journal).requests] == ["q1"]


def test_the_epoch_is_the_highest_seen() -> None:
    journal = Journal().add("session.started", {}, epoch=3).add("recovery.started", {"epoch": 4}, epoch=4)
    journal.add("something.new", {}, epoch=2).add("something.new", {})
    assert state(journal).epoch == 4
    assert state(journal.add("recovery.started", {"epoch": 9})).epoch == 9


def test_the_epoch_comes_from_records_of_ownership_only() -> None:
    journal = Journal().begin()
    journal.add("app.note", {"epoch": 99}).add(
        "message.received", {"message": "x", "epoch": 98, "sequence": 0, "turnId": "t0"}
    )
    assert state(journal).epoch == 0
    for epoch, kind in enumerate(("run.resumed", "recovery.started", "recovery.completed"), 1):
        journal.add(kind, {"runId": "r1", "reason": "takeover", "epoch": epoch})
        assert state(journal).epoch == epoch


def test_a_run_starts_once() -> None:
    journal = Journal().begin().add("run.completed", {"runId": "r1", "output": "done"})
    journal.add("session.waiting", {"wait": "timer"})
    again = {"runId": "r1", "agentId": "helper"}
    before = state(journal)
    after = state(journal.add("run.started", again))
    assert (after.run, after.status, after.waiting) == (before.run, before.status, before.waiting)
    journal.add("run.started", {"runId": "r2", "agentId": "a"}).add("run.started", again)
    assert some(state(journal).run).run_id == "r2"


def test_the_end_of_another_run_or_turn_ends_no_wait_and_no_request() -> None:
    journal = Journal().begin().turn("more", 1).answer("sub", turn=1)
    journal.add("input.requested", {"requests": [request("r", "q")], "childSessionId": "s2", **at(0, 1)})
    journal.add("run.waiting", {"runId": "r1", "on": "input"})
    journal.add("run.cancelled", {"runId": "other"}).add("turn.cancelled", TURN)
    folded = state(journal)
    assert folded.waiting == Wait("input")
    assert [one.request.request_id for one in folded.proxied] == ["r"]
    journal.add("turn.cancelled", {"sequence": 1, "turnId": "t1"})
    assert (state(journal).waiting, state(journal).requests) == (None, ())


def test_requests_of_an_ended_subagent_are_closed() -> None:
    journal = Journal().begin().answer("sub")
    called = {"callId": "sub", "childSessionId": "s2", "sessionId": "s", "name": "n", "toolName": "n", **TURN}
    journal.add("subagent.called", {**called, "childRunId": "r2"})
    for name, call_id in (("r", "sub"), ("q", "other")):
        asked = {"requests": [request(name, "x")], "childSessionId": "s2", "callId": call_id}
        journal.add("input.requested", {**asked, **at()})
    ended = {"callId": "sub", "subagentName": "n", "output": "x"}
    journal.add("subagent.completed", {**ended, "childSessionId": "s2", "status": "failed"})
    journal.add("subagent.completed", {**ended, "callId": "elsewhere"})
    folded = state(journal)
    assert [one.request.request_id for one in folded.proxied] == ["q"]
    assert folded.children == (ChildSession("s2", "n", "sub", "r2", RunStatus.FAILED),)


@pytest.mark.parametrize(("ended", "left"), [("r1", "s"), ("r2", "r")])
def test_a_request_of_ended_work_ends_though_other_work_goes_on(ended: str, left: str) -> None:
    journal = Journal().begin().answer("a").add("input.requested", {"requests": [request("r", "a")], **at()})
    journal.add("run.started", {"runId": "r2", "agentId": "x"}).turn("more", 1).answer("b", turn=1)
    journal.add("input.requested", {"requests": [request("s", "b")], **at(0, 1)})
    journal.add("run.cancelled", {"runId": ended})
    assert [one.request_id for one in state(journal).requests] == [left]


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("session.completed", {}, SessionStatus.COMPLETED),
        ("session.failed", {"code": "E", "message": "m"}, SessionStatus.FAILED),
        ("session.waiting", {"wait": "next-user-message"}, SessionStatus.WAITING),
    ],
)
def test_records_set_the_status_of_a_session(
    kind: str, data: dict[str, object], status: SessionStatus
) -> None:
    assert SessionState().status is SessionStatus.NEW
    journal = Journal().begin()
    assert state(journal).status is SessionStatus.RUNNING
    assert state(journal.add(kind, data)).status is status
    assert state(journal.add("turn.started", {"sequence": 1, "turnId": "t1"})).status is SessionStatus.RUNNING


def test_a_session_continues_at_a_record_after_those_that_are_left_out() -> None:
    records = Journal().begin().answer("c0").run("c0").add("session.state_changed", {"set": {"a": 1}}).records
    draft = SessionDraft(SessionState())
    for record in (records[0], records[-1]):
        draft.skip_to(record)
        draft.apply(record)
    assert (draft.seq, draft.authored) == (len(records), {"a": 1})


def test_a_session_without_steps_misses_no_record_that_only_steps_have() -> None:
    """An append of step records is no milestone; of `action.result`, the open requests of the append tell."""
    assert {"action.result"} == WITHOUT_STEPS & RECORDS_OF_STEPS
