"""Proposals as a view of records, and tapes of runs."""

import pytest
from tests.harness.views.journal import Facts, Journal

from windlass_harness.ledger import ProposalStatus, Tape, call_key, fold_proposals, read_tape
from windlass_harness.ledger.tapes import MadeCall
from windlass_harness.views import Gap
from windlass_protocol import ToolOutputType

PROPOSAL: Facts = {
    "id": "p1", "goalId": "g", "agentId": "clerk", "baseFingerprint": "a", "fingerprint": "b",
    "changes": [], "differences": [], "rationale": "Why not?", "evidence": [],
    "at": "2026-03-14T09:26:53.589Z",
}  # fmt: skip
TALLY: Facts = {"fingerprint": "a", "runs": 0, "succeeded": 0}
CHECK: Facts = {
    "comparison": {"old": TALLY, "new": TALLY, "verdict": "unclear"},
    "replays": [], "fixed": 1, "broken": 0, "diverged": 0,
}  # fmt: skip


def made() -> Journal:
    return Journal().add("proposal.made", {"proposal": PROPOSAL})


def settle(journal: Journal, *, is_accepted: bool, proposal_id: str = "p1") -> Journal:
    return journal.add(
        "proposal.settled", {"proposalId": proposal_id, "isAccepted": is_accepted, "by": "ada"}
    )


def apply(journal: Journal, proposal_id: str = "p1") -> Journal:
    return journal.add("proposal.applied", {"proposalId": proposal_id, "by": "ada", "fingerprint": "b"})


def status(journal: Journal) -> ProposalStatus:
    return fold_proposals(journal.records).proposals["p1"].status


def test_a_proposal_goes_from_open_to_applied() -> None:
    journal = made()
    assert status(journal) is ProposalStatus.OPEN
    journal.add("proposal.checked", {"proposalId": "p1", "check": CHECK})
    assert status(settle(journal, is_accepted=True)) is ProposalStatus.ACCEPTED
    assert status(apply(journal)) is ProposalStatus.APPLIED
    state = fold_proposals(journal.records).proposals["p1"]
    assert state.check is not None
    assert state.settled is not None
    assert state.applied is not None
    assert (state.check.fixed, state.settled.by, state.applied.fingerprint) == (1, "ada", "b")
    assert state.settled_at is not None
    assert state.applied_at is not None


def test_the_newest_decision_counts_until_the_proposal_is_applied() -> None:
    journal = settle(settle(made(), is_accepted=True), is_accepted=False)
    assert status(journal) is ProposalStatus.REFUSED
    assert status(apply(journal)) is ProposalStatus.REFUSED, "what was refused cannot be applied"
    assert status(apply(settle(journal, is_accepted=True))) is ProposalStatus.APPLIED
    assert status(settle(journal, is_accepted=False)) is ProposalStatus.APPLIED


def test_records_about_unknown_proposals_are_left_out() -> None:
    journal = settle(apply(made(), "ghost"), is_accepted=True, proposal_id="ghost")
    journal.add("proposal.checked", {"proposalId": "ghost", "check": CHECK}).add("something.new", {})
    journal.add("proposal.made", {"proposal": {**PROPOSAL, "rationale": "Again."}})
    state = fold_proposals(journal.records)
    assert list(state.proposals) == ["p1"]
    assert state.proposals["p1"].proposal.rationale == "Why not?", "the first of an id stays"


def test_folding_in_pieces_is_folding_at_once() -> None:
    records = apply(settle(made(), is_accepted=True)).records
    state = None
    for record in records:
        state = fold_proposals([record], state)
    assert state == fold_proposals(records)
    with pytest.raises(Gap):
        fold_proposals(records[1:])


ALLOW: Facts = {"decision": "allow", "code": "rule", "reason": "", "policyRefs": []}
PLACE: Facts = {"turnId": "t", "sequence": 0, "stepIndex": 0}


def begun() -> Journal:
    journal = Journal().add("run.started", {"runId": "r1", "agentId": "a"})
    return journal.add("message.received", {"message": "Go.", "context": ["Today."], **PLACE})


def ask(journal: Journal, call_id: str, tool: str, arguments: object) -> Journal:
    action: Facts = {"kind": "tool-call", "callId": call_id, "toolName": tool, "input": arguments}
    return journal.add("actions.requested", {"actions": [action], **PLACE})


def give(journal: Journal, call_id: str, output: object, **more: object) -> Journal:
    result = {"kind": "tool-result", "callId": call_id, "toolName": "look", "output": output}
    return journal.add("action.result", {"result": result, "status": "completed", **PLACE, **more})


def tape(journal: Journal) -> Tape:
    return read_tape(journal.records, "r1")


def test_a_tape_has_the_message_the_call_results_and_the_answer() -> None:
    journal = give(ask(begun(), "c1", "look", {"b": 2, "a": 1}), "c1", "here")
    journal.add("run.completed", {"runId": "r1", "output": "Found."})
    found = tape(journal)
    assert (found.message, found.context, found.output, found.value) == ("Go.", ("Today.",), "Found.", None)
    [one] = found.calls
    assert one.key == call_key("look", {"a": 1, "b": 2}) == 'look {"a":1,"b":2}'
    assert one.output.value == "here"


def test_a_call_that_was_changed_is_known_in_both_forms() -> None:
    journal = ask(begun(), "c1", "look", {"n": 1})
    started: Facts = {"callId": "c1", "toolName": "look", "effect": "read", "idempotencyKey": "k", **PLACE}
    journal.add("action.started", {**started, "arguments": {"n": 2}})
    journal.add("action.started", {**started, "arguments": {"n": 2}}).add("action.started", started)
    assert [one.arguments for one in tape(give(journal, "c1", 5)).calls] == [{"n": 1}, {"n": 2}]


def test_the_calls_that_were_made_are_told_once_each_with_the_first_decision_about_them() -> None:
    journal = ask(ask(begun(), "c1", "look", {"n": 1}), "c2", "wipe", {})
    ask_first: Facts = {"decision": "ask", "code": "rule", "reason": "It costs money.", "policyRefs": []}
    for call_id, decision in (
        ("c1", ask_first),
        ("c1", ALLOW),
        ("c9", ALLOW),
    ):
        decided: Facts = {
            "stage": "pre_tool",
            "decision": decision,
            "callId": call_id,
            "toolName": "look",
            **PLACE,
        }
        journal.add("policy.decided", decided)
    started: Facts = {"callId": "c1", "toolName": "look", "effect": "read", "idempotencyKey": "k", **PLACE}
    journal.add("action.started", {**started, "arguments": {"n": 2}})
    journal.add("step.completed", {"finishReason": "tool-calls", **PLACE})
    found = tape(give(journal, "c1", 5))
    assert found.made == (
        MadeCall("look", {"n": 2}, "ask", ToolOutputType.JSON),
        MadeCall("wipe", {}),
    )
    assert found.steps == 1


def test_a_result_without_a_call_is_left_out() -> None:
    assert tape(give(begun(), "ghost", 5)).calls == ()


def test_the_answer_of_a_person_is_the_result_of_a_question() -> None:
    journal = ask(begun(), "c1", "ask_question", {"prompt": "Which?"})
    action: Facts = {"kind": "tool-call", "callId": "c1", "toolName": "ask_question", "input": {}}
    request = {"requestId": "q1", "prompt": "Which?", "kind": "question", "action": action, "display": "text"}
    journal.add("input.requested", {"requests": [request], **PLACE})
    response = {"requestId": "q1", "text": "The red one."}
    resolved = {"requestId": "q1", "outcome": "answered", "response": response}
    ghost = {"requestId": "q9", "outcome": "answered"}
    journal.add("input.resolved", {"resolutions": [ghost, resolved], **PLACE})
    [one] = tape(journal).calls
    assert one.output.value == {"status": "answered", "text": "The red one."}


def test_the_answer_to_a_question_of_a_subagent_is_not_the_result_of_a_call_with_the_same_id() -> None:
    journal = ask(begun(), "c1", "scout", {})
    action: Facts = {"kind": "tool-call", "callId": "c1", "toolName": "ask_question", "input": {}}
    request = {"requestId": "q1", "prompt": "Which?", "kind": "question", "action": action, "display": "text"}
    child: Facts = {"childSessionId": "s2", "callId": "c1", **PLACE}
    journal.add("input.requested", {"requests": [request], **child})
    resolved = {"requestId": "q1", "outcome": "answered", "response": {"requestId": "q1", "text": "Red."}}
    journal.add("input.resolved", {"resolutions": [resolved], **child})
    [one] = tape(give(journal, "c1", "found")).calls
    assert one.output.value == "found"


def test_an_approval_is_not_the_result_of_its_call() -> None:
    journal = ask(begun(), "c1", "pay", {})
    action: Facts = {"kind": "tool-call", "callId": "c1", "toolName": "pay", "input": {}}
    request = {
        "requestId": "q1",
        "prompt": "Pay?",
        "kind": "approval",
        "action": action,
        "display": "confirmation",
    }
    journal.add("input.requested", {"requests": [request], **PLACE})
    journal.add("input.resolved", {"resolutions": [{"requestId": "q1", "outcome": "approved"}], **PLACE})
    assert tape(journal).calls == ()


def test_later_messages_are_counted_and_repairs_are_not() -> None:
    journal = begun().add("message.received", {"message": "Stop.", "delivery": "steer", **PLACE})
    journal.add("message.received", {"message": "Again.", "delivery": "repair", **PLACE})
    assert (tape(journal).message, tape(journal).later_messages) == ("Go.", 1)


@pytest.mark.parametrize(
    ("end", "output", "value"),
    [
        ({"structuredOutput": {"n": 1}, "output": '{"n": 1}'}, '{"n": 1}', {"n": 1}),
        ({"outputData": {"n": 1}, "narrative": "Done."}, '{"n":1}', {"n": 1}),
        ({"narrative": "Done."}, "Done.", None),
        ({}, "", None),
    ],
)
def test_the_answer_is_text_and_data(end: Facts, output: str, value: object) -> None:
    found = tape(begun().add("run.completed", {"runId": "r1", **end}))
    assert (found.output, found.value) == (output, value)


def test_other_runs_are_not_on_the_tape() -> None:
    journal = begun().add("run.started", {"runId": "r2", "agentId": "a"})
    assert read_tape(journal.records, "r3") == Tape("r3")
