"""The tool loop in the decision ledger: choices derived from steps."""

import pytest
from tests.harness.views.journal import ERROR, SPENT, Facts, Journal, at, call, request, some

from windlass_harness.views import DecisionsState, fold_decisions, with_options
from windlass_harness.views.decisions import ANSWER, LINE_CHARS_MAX, TEXT_CHARS_MAX
from windlass_protocol import (
    Decision,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    JsonObject,
    Problem,
    ProblemSeverity,
    ToolSpec,
)

PACKAGE: Facts = {"packageId": "helper@2", "packageFingerprint": "sha256:one"}
NO_REFS: Facts = {"policyRefs": []}
WORDS: Facts = {"sequence": 0, "turnId": "t0"}
MISFIT: Facts = {"schemaId": "s", "errors": [{"path": "/n", "message": "is no number", "code": "type"}]}


def begin(text: str = "Find the tea.", **more: object) -> Journal:
    journal = Journal().add("session.started")
    journal.add("run.started", {"runId": "r1", "agentId": "helper", **PACKAGE, **more})
    return journal.turn(text)


def ledger(journal: Journal) -> DecisionsState:
    return fold_decisions(journal.records)


def run_of(journal: Journal) -> DecisionRun:
    return ledger(journal).runs["r1"]


def only(journal: Journal) -> Decision:
    (decision,) = run_of(journal).decisions
    return decision


def trouble(journal: Journal) -> Problem:
    (problem,) = run_of(journal).problems
    return problem


def failed(journal: Journal, call_id: str, code: str = "timeout", **more: object) -> Journal:
    error = {"code": code, "message": "too late"}
    return journal.result(call_id, None, status="failed", error=error, **more)


def done(journal: Journal) -> Journal:
    return journal.add("run.completed", {"runId": "r1", "output": "done"})


def test_a_call_is_a_choice_with_the_words_of_the_model_and_its_result() -> None:
    journal = begin().start(modelId="m").add("reasoning.completed", {"reasoning": "Tea is a drink.", **at()})
    journal.say("I look for it.").ask("c1")
    journal.end(usage={"inputTokens": 90, "outputTokens": 10, "costMicros": 7}, latencyMs=400)
    decision = only(journal)
    assert (decision.id, decision.node_id, decision.intent) == ("step_0.0", "helper", "call look")
    assert (decision.decision_type, decision.chosen_option_id) == (DecisionType.TOOL_SELECTION, "look")
    assert decision.reasoning == "Tea is a drink.\n\nI look for it."
    assert decision.input_context == {
        "turnId": "t0",
        "stepIndex": 0,
        "modelId": "m",
        "packageFingerprint": "sha256:one",
        "callId": "c1",
    }
    assert decision.options[0].action_params == {"for": "c1"}
    assert decision.outcome is None, "nothing has come of it yet"
    outcome = some(only(journal.run("c1").result("c1", "on the shelf", durationMs=50)).outcome)
    assert (outcome.success, outcome.result, outcome.error) == (True, "on the shelf", None)
    assert (outcome.tokens_used, outcome.latency_ms) == (100, 450)
    assert (outcome.summary, outcome.timestamp) == ("look: on the shelf", journal.records[-1].at)
    assert not run_of(journal).problems


def test_an_answer_is_a_choice_that_is_settled_by_the_end_of_its_run() -> None:
    journal = begin().start().say("On the shelf.").end(usage={"outputTokens": 3}, latencyMs=9)
    decision = only(journal)
    assert (decision.id, decision.decision_type) == ("step_0", DecisionType.TERMINATION)
    assert (decision.chosen_option_id, decision.reasoning) == (ANSWER, "On the shelf.")
    assert decision.outcome is None
    outcome = some(only(done(journal)).outcome)
    assert (outcome.success, outcome.result) == (True, "On the shelf.")
    assert (outcome.tokens_used, outcome.latency_ms) == (3, 9)
    run = run_of(journal)
    assert (run.status, run.duration_ms) == (DecisionRunStatus.COMPLETED, 6_000)
    assert run.narrative == "Run completed successfully. Made 1 decision: 1 succeeded, 0 failed."


def test_an_answer_followed_by_a_message_is_a_successful_decision() -> None:
    journal = (
        begin()
        .answer(text="Here.")
        .add("message.received", {"message": "More!", "delivery": "steer", **WORDS})
    )
    assert some(only(journal.start(1)).outcome).success


@pytest.mark.parametrize(
    ("kind", "data"),
    [("run.cancelled", {}), ("run.budget_exhausted", {"exceeded": ["tokens"], "used": SPENT, "limits": {}})],
)
def test_calls_under_way_when_a_run_ends_early_stay_pending(kind: str, data: Facts) -> None:
    journal = begin().answer("a").add(kind, {"runId": "r1", **data})
    run = run_of(journal)
    assert only(journal).outcome is None
    assert (run.metrics.successful_decisions, run.metrics.failed_decisions) == (0, 0)
    assert not ledger(journal).calls


def test_a_run_has_a_goal_a_version_a_cost_and_a_duration() -> None:
    journal = (
        begin()
        .start()
        .add(
            "step.retrying",
            {**at(), "code": "timeout", "attempt": 1, "delayMs": 5, "usage": {"costMicros": 1}},
        )
    )
    journal.start(attempt=2).say("a").end(usage={"inputTokens": 4, "costMicros": 10})
    journal.add("compaction.completed", {**WORDS, "modelId": "m", "usage": {"costMicros": 100}})
    run = run_of(done(journal))
    assert run.goal_description == "Find the tea."
    assert (run.agent_id, run.package_id, run.package_fingerprint) == ("helper", "helper@2", "sha256:one")
    assert some(run.usage).cost_micros == 111
    assert run.duration_ms == 9_000
    given = run_of(begin(goalId="g", goalDescription="Serve tea."))
    assert (given.goal_id, given.goal_description) == ("g", "Serve tea.")


def test_a_goal_is_the_first_thing_that_was_said_and_nothing_that_came_later() -> None:
    part = {"type": "text", "text": "See the picture."}
    journal = Journal().add("run.started", {"runId": "r1", "agentId": "helper"})
    journal.add("message.received", {"message": "", "context": ["hello"], "delivery": "hook", **WORDS})
    journal.add("message.received", {"message": "", **WORDS})
    assert run_of(journal).goal_description is None
    journal.add("message.received", {"message": "", "parts": [part], **WORDS})
    journal.add("message.received", {"message": "later", **WORDS})
    assert run_of(journal).goal_description == "See the picture."


def test_a_run_that_moved_chooses_under_the_other_version() -> None:
    journal = begin().answer("a").result("a")
    journal.add("session.moved", {"fromFingerprint": "sha256:one", "toFingerprint": "sha256:two"})
    run = run_of(journal.answer("b", step=1))
    assert run.package_fingerprint == "sha256:two"
    found = [some(one.input_context)["packageFingerprint"] for one in run.decisions]
    assert found == ["sha256:one", "sha256:two"]


def test_options_are_the_tools_of_the_version_that_chose() -> None:
    journal = begin().answer("a").result("a").answer(step=1)
    journal.add("decision.recorded", {"decision": {**call("x"), **RECORDED}})
    look = ToolSpec(name="look", description="Look for a thing.", input_schema={})
    mail = ToolSpec(name="mail", input_schema={})
    run = with_options(run_of(journal), {"sha256:one": [look, mail]})
    assert [[option.id for option in one.options] for one in run.decisions] == [
        ["look", "mail", ANSWER],
        [ANSWER, "look", "mail"],
        ["a"],
    ]
    assert run.decisions[1].options[1].description == "Look for a thing."
    assert run.decisions[0].options[0].action_params == {"for": "a"}
    unknown = with_options(run_of(journal), {"sha256:other": [look]})
    assert unknown == run_of(journal)


def test_tools_of_resolvers_are_options_of_the_steps_that_had_them() -> None:
    journal = begin().answer("a").result("a").answer("b", step=1).result("b")
    look, extra = (ToolSpec(name=name, input_schema={}) for name in ("look", "extra"))
    run = with_options(run_of(journal), {"sha256:one": [look]}, lambda step: [extra] if step else [])
    options = [[option.id for option in one.options] for one in run.decisions]
    assert options == [["look", ANSWER], ["look", "extra", ANSWER]]
    no_step = replace_context(run_of(journal))
    assert with_options(no_step, {"sha256:one": [look]}).decisions[0].options[1].id == ANSWER


def replace_context(run: DecisionRun) -> DecisionRun:
    """A run whose decisions name no step."""
    context: JsonObject = {"packageFingerprint": "sha256:one"}
    decisions = tuple(one.model_copy(update={"input_context": context}) for one in run.decisions)
    return run.model_copy(update={"decisions": decisions})


def test_decisions_for_the_same_tool_have_the_same_other_options() -> None:
    journal = begin().answer("a").result("a").answer("b", step=1).result("b")
    look, mail = (ToolSpec(name=name, input_schema={}) for name in ("look", "mail"))
    run = with_options(run_of(journal), {"sha256:one": [look, mail]})
    assert [[option.id for option in one.options] for one in run.decisions] == [["look", "mail", ANSWER]] * 2


RECORDED: Facts = {
    "id": "dec_0",
    "timestamp": "2026-01-31T09:00:00Z",
    "nodeId": "plan",
    "intent": "go on",
    "decisionType": "custom",
    "options": [{"id": "a"}],
    "chosenOptionId": "a",
    "reasoning": "why not",
    "inputContext": {"packageFingerprint": "sha256:one"},
}


# problems


def test_a_call_that_failed_is_a_problem_with_its_code_as_cause() -> None:
    journal = failed(begin().answer("a"), "a", durationMs=7)
    problem, outcome = trouble(journal), some(only(journal).outcome)
    assert (outcome.success, outcome.error, outcome.latency_ms) == (False, "too late", 7)
    assert (problem.severity, problem.root_cause) == (ProblemSeverity.WARNING, "timeout")
    assert (problem.description, problem.decision_id) == ("look: too late", "step_0.0")
    assert problem.id == f"problem_{journal.records[-1].seq}"


@pytest.mark.parametrize(
    ("output", "status", "told", "cause"),
    [
        ("it broke", "completed", "it broke", "completed"),
        ({"why": 1}, "failed", '{"why":1}', "failed"),
    ],
)
def test_a_failed_call_without_an_error_is_described_by_its_output(
    output: object, status: str, told: str, cause: str
) -> None:
    result = {"kind": "tool-result", "callId": "a", "toolName": "look", "output": output, "isError": True}
    journal = begin().answer("a").add("action.result", {"result": result, "status": status, **at()})
    assert some(only(journal).outcome).error == told
    assert trouble(journal).root_cause == cause


def test_a_call_with_an_unknown_outcome_stays_pending_and_is_a_problem() -> None:
    journal = failed(begin().answer("a"), "a", "outcome_unknown")
    assert only(journal).outcome is None
    assert trouble(journal).root_cause == "outcome_unknown"


def test_a_policy_that_stops_the_run_is_a_critical_problem_of_the_choice() -> None:
    decision = {"decision": "interrupt", "code": "rule.stop", "reason": "Not today.", **NO_REFS}
    data: Facts = {"stage": "pre_tool", "decision": decision, "callId": "a", "toolName": "look", **at()}
    journal = begin().answer("a").add("policy.decided", data)
    assert (trouble(journal).severity, trouble(journal).decision_id) == (ProblemSeverity.CRITICAL, "step_0.0")
    journal.add("run.failed", {"runId": "r1", "error": ERROR})
    assert trouble(journal).root_cause == "rule.stop", "it is listed once"
    without = begin().add("policy.decided", {"stage": "run_start", "decision": decision})
    assert trouble(without).decision_id is None
    allowed = {"decision": "allow", "code": "ok", "reason": "", **NO_REFS}
    assert not run_of(begin().add("policy.decided", {**data, "decision": allowed})).problems


def test_a_hook_that_failed_is_a_problem_also_if_the_run_goes_on() -> None:
    error = {"code": "not_allowed", "message": "it may not veto"}
    data: Facts = {"hookId": "guard", "point": "before_tool_call", "status": "rejected", "error": error}
    found = trouble(begin().answer("a").add("hook.failed", {**data, "callId": "a"}))
    assert (found.severity, found.root_cause, found.decision_id) == (
        "warning",
        "hook_not_allowed",
        "step_0.0",
    )
    assert found.description == "hook guard at before_tool_call: it may not veto"
    assert trouble(begin().add("hook.failed", {**data, "point": "run_starting"})).decision_id is None


@pytest.mark.parametrize(
    ("code", "causes"), [("timeout", ["timeout"]), ("interrupted", ["interrupted"]), ("handed_over", [])]
)
def test_a_model_call_that_is_made_again_is_a_minor_problem_unless_nothing_went_wrong(
    code: str, causes: list[str]
) -> None:
    journal = begin().start().say("half an answer").ask("dead")
    journal.add("step.retrying", {**at(), "code": code, "attempt": 1, "delayMs": 5})
    run = run_of(journal.answer("a"))
    assert [problem.root_cause for problem in run.problems] == causes
    assert all(problem.severity is ProblemSeverity.MINOR for problem in run.problems)
    assert [one.chosen_option_id for one in run.decisions] == ["look"], "the other attempt chose nothing"
    assert run.decisions[0].reasoning == "ok"


def test_a_model_call_that_failed_for_good_is_one_critical_problem() -> None:
    journal = (
        begin()
        .start()
        .add("step.failed", {**at(), "code": "timeout", "message": "late", "usage": {"inputTokens": 1}})
    )
    journal.add("run.failed", {"runId": "r1", "error": ERROR})
    assert (trouble(journal).severity, trouble(journal).root_cause) == (ProblemSeverity.CRITICAL, "timeout")
    assert some(run_of(journal).usage).input_tokens == 1


def test_a_run_that_failed_without_a_word_from_its_steps_says_why() -> None:
    journal = begin().answer(text="cut").add("run.failed", {"runId": "r1", "error": ERROR})
    assert (trouble(journal).severity, trouble(journal).description) == (ProblemSeverity.CRITICAL, "late")
    assert some(only(journal).outcome).error == "late"
    recorded = Journal().add("run.started", {"runId": "r1", "agentId": "a"})
    recorded.add("run.failed", {"runId": "r1", "error": ERROR})
    assert not run_of(recorded).problems, "a recorded run has its own problem reports"


@pytest.mark.parametrize("error", [{}, {"error": {**ERROR, "message": "5 of 5 steps"}}])
def test_a_run_that_used_up_its_budget_says_which(error: Facts) -> None:
    data: Facts = {"runId": "r1", "exceeded": ["steps"], "used": SPENT, "limits": {}, **error}
    problem = trouble(begin().add("run.budget_exhausted", data))
    assert (problem.severity, problem.root_cause) == (ProblemSeverity.CRITICAL, "budget_exhausted")
    assert "steps" in problem.description


def test_a_run_that_never_began_is_in_the_ledger_with_its_end() -> None:
    facts: Facts = {"runId": "r1", "agentId": "helper", **PACKAGE}
    journal = Journal().add("run.failed", {"runId": "r1", "error": ERROR, "unstarted": facts})
    assert (run_of(journal).status, trouble(journal).description) == (DecisionRunStatus.FAILED, "late")
    again = run_of(journal.add("run.cancelled", {"runId": "r1", "unstarted": facts}))
    assert again.status is DecisionRunStatus.FAILED


def test_an_answer_that_had_to_be_repaired_is_a_failed_choice_and_a_problem() -> None:
    journal = begin().answer(text="five").add("output.rejected", {"attempt": 1, **MISFIT})
    journal.add("message.received", {"message": "", "context": ["again"], "delivery": "repair", **WORDS})
    problem = trouble(done(journal.answer(text="5", step=1)))
    assert (problem.severity, problem.root_cause) == (ProblemSeverity.WARNING, "output_contract")
    assert "/n: is no number" in problem.description
    assert problem.decision_id == "step_0"
    assert [some(one.outcome).success for one in run_of(journal).decisions] == [False, True]


def test_a_contract_that_no_answer_met_is_a_critical_problem() -> None:
    journal = begin().answer(text="five").add("output.failed", {"attempts": 3, **MISFIT})
    journal.add("run.failed", {"runId": "r1", "error": ERROR})
    assert (trouble(journal).severity, trouble(journal).decision_id) == (ProblemSeverity.CRITICAL, "step_0")
    assert trouble(begin().add("output.failed", {"attempts": 3, **MISFIT})).decision_id is None
    assert "in 3 attempts" in trouble(journal).description


def test_a_contract_is_one_problem_also_when_no_repair_was_allowed() -> None:
    journal = begin().answer(text="five").add("output.failed", {"attempts": 1, **MISFIT})
    failed: Facts = {"code": "structured_output_failure", "message": "It did not fit.", "stepIndex": 0}
    journal.add("step.failed", {**failed, **WORDS})
    assert trouble(journal).description == "The answer did not fit its contract, and no repair was allowed"


def test_an_answer_that_a_hook_sent_back_is_a_failed_choice_and_a_problem() -> None:
    back: Facts = {"message": "", "context": ["You are not done."], "delivery": "repair", **WORDS}
    journal = begin().answer(text="done").add("message.received", back)
    assert (trouble(journal).root_cause, trouble(journal).decision_id) == ("sent_back", "step_0")
    assert some(only(journal).outcome).error == "You are not done."


def test_a_compaction_is_no_choice_and_a_failed_one_a_minor_problem() -> None:
    journal = begin().answer("a").result("a")
    before = run_of(journal).decisions
    journal.add("compaction.completed", {**WORDS, "modelId": "m", "summary": "so far"})
    journal.add("compaction.failed", {**WORDS, "code": "timeout", "message": "late"})
    assert run_of(journal).decisions == before
    assert (trouble(journal).severity, trouble(journal).root_cause) == (ProblemSeverity.MINOR, "timeout")


# crashes, people and subagents


def found(journal: Journal, call_id: str, **more: object) -> Journal:
    data = {"callId": call_id, "effect": "once", "toolName": "look", "idempotencyKey": "k", **more}
    return journal.add("recovery.effect_found", data)


def test_an_interrupted_call_is_a_problem_and_pending_until_it_is_settled() -> None:
    journal = found(begin().answer("a").run("a"), "a")
    assert (trouble(journal).root_cause, only(journal).outcome) == ("interrupted", None)
    retried = journal.add("recovery.effect_settled", {"callId": "a", "choice": "retry"})
    assert only(retried).outcome is None
    assert some(only(journal.result("a")).outcome).success
    skipped = found(begin().answer("a").run("a"), "a")
    skipped.add("recovery.effect_settled", {"callId": "a", "choice": "skip"})
    assert "not run again" in str(some(only(skipped).outcome).error)
    assert not run_of(found(begin(), "nobody's")).problems


def test_a_call_that_never_began_and_goes_to_the_next_owner_is_no_problem() -> None:
    journal = found(begin().answer("a").run("a"), "a", begun=False)
    assert (run_of(journal).problems, only(journal).outcome) == ((), None)


@pytest.mark.parametrize(("outcome", "is_success"), [("answered", True), ("ignored", False)])
def test_a_question_is_settled_by_its_answer(outcome: str, is_success: bool) -> None:
    journal = (
        begin().answer("q").add("input.requested", {"requests": [request("r", "q", kind="question")], **at()})
    )
    assert only(journal).outcome is None
    resolution: Facts = {"requestId": "r", "outcome": outcome, "response": {"requestId": "r", "text": "tea"}}
    journal.add("input.resolved", {"resolutions": [resolution], **at()})
    assert some(only(journal).outcome).success is is_success
    assert [problem.root_cause for problem in run_of(journal).problems] == ([] if is_success else [outcome])


def test_consent_alone_settles_nothing() -> None:
    asked = [request("r", "a", kind="approval"), request("s", "ghost"), request("t", "a")]
    journal = begin().answer("a").add("input.requested", {"requests": asked, **at()})
    approval: Facts = {"outcome": "approved", "kind": "approval"}
    resolutions = [{"requestId": one, **approval} for one in ("r", "s", "t")]
    journal.add("input.resolved", {"resolutions": resolutions, **at()})
    assert only(journal).outcome is None


def test_a_call_with_a_result_is_not_settled_by_a_later_resolution() -> None:
    asked = [request("r", "q", kind="question")]
    journal = begin().answer("q").add("input.requested", {"requests": asked, **at()}).result("q", "known")
    journal.add("input.resolved", {"resolutions": [{"requestId": "r", "outcome": "ignored"}], **at()})
    assert some(only(journal).outcome).result == "known"
    assert not run_of(journal).problems


def test_requests_of_a_subagent_settle_no_call_of_the_caller_and_its_usage_counts() -> None:
    asked: Facts = {"requests": [request("r", "a", kind="question")], "childSessionId": "s1/a", **at()}
    journal = begin().answer("a").add("input.requested", asked)
    journal.add("input.resolved", {"resolutions": [{"requestId": "r", "outcome": "ignored"}], **at()})
    assert only(journal).outcome is None
    journal.add(
        "subagent.completed",
        {"callId": "a", "subagentName": "sub", "output": "x", "usage": {"inputTokens": 5}},
    )
    assert some(run_of(journal).usage).input_tokens == 5


def test_work_that_is_given_to_a_subagent_is_a_delegation() -> None:
    facts: Facts = {"sessionId": "s1", "name": "sub", "toolName": "look", **WORDS}
    journal = begin().answer("a").add("subagent.called", {"callId": "a", "childSessionId": "s1/a", **facts})
    decision = only(journal.add("subagent.called", {"callId": "ghost", "childSessionId": "x", **facts}))
    assert decision.decision_type is DecisionType.DELEGATION
    assert some(decision.input_context)["childSessionId"] == "s1/a"


def test_a_step_belongs_to_the_run_that_it_names() -> None:
    journal = begin().answer("a").add("run.started", {"runId": "r2", "agentId": "helper"})
    journal.add("message.completed", {"message": "one", "finishReason": "stop", **at()}, runId="r1")
    journal.add("message.completed", {"message": "two", "finishReason": "stop", **at()}, runId="r2")
    journal.add("step.completed", {"finishReason": "stop", **at()}, runId="r2")
    journal.add(
        "action.result",
        {
            "result": {"kind": "tool-result", "callId": "a", "toolName": "look", "output": 1},
            "status": "completed",
            **at(),
        },
        runId="r2",
    )
    journal.add("run.completed", {"runId": "r1"})
    runs = ledger(journal).runs
    assert runs["r2"].decisions[0].reasoning == "two"
    assert runs["r1"].decisions[0].outcome is None
    assert runs["r2"].decisions[0].outcome is None, "the end of another run says nothing about it"
    ended = ledger(journal.add("run.completed", {"runId": "r2"})).runs["r2"]
    assert some(ended.decisions[0].outcome).success


def test_a_run_that_has_ended_takes_no_more_steps() -> None:
    journal = done(begin().answer("a").result("a"))
    before = run_of(journal)
    assert run_of(journal.answer("b", step=1).result("b")) == before


# sizes and shapes


def test_long_texts_are_cut_with_a_mark() -> None:
    long = "x" * (TEXT_CHARS_MAX + 1)
    journal = begin(long).start().say(long)
    journal.add(
        "actions.requested",
        {"actions": [{**call("a"), "input": {"text": long}}, {**call("b"), "input": 7}], **at()},
    )
    journal.end().result("a", {"n": long}).result("b", long)
    run = run_of(journal)
    first, second = run.decisions
    assert len(some(run.goal_description)) == len(first.reasoning) == TEXT_CHARS_MAX
    assert first.reasoning.endswith("…")
    for text in (
        some(first.options[0].action_params)["input"],
        *(some(one.outcome).result for one in run.decisions),
    ):
        assert isinstance(text, str)
        assert len(text) == TEXT_CHARS_MAX
        assert text.endswith("…")
    assert len(some(some(second.outcome).summary)) == LINE_CHARS_MAX
    assert second.options[0].action_params == {"input": 7}
    whole = "x" * TEXT_CHARS_MAX
    assert run_of(begin(whole)).goal_description == whole


def test_an_answer_in_parts_gives_reasoning_and_calls() -> None:
    parts: list[Facts] = [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "I look."},
        {"type": "tool-call", "toolCallId": "a", "toolName": "look", "input": {}},
        {"type": "tool-call", "toolCallId": "p", "toolName": "web", "input": {}, "providerExecuted": True},
        {"type": "file", "data": "aGk=", "mediaType": "text/plain"},
    ]
    journal = begin().start().say(None, parts=parts).ask("a", "b").end()
    run = run_of(journal)
    assert [some(one.input_context)["callId"] for one in run.decisions] == ["a", "b"]
    assert run.decisions[0].reasoning == "hm\n\nI look."


def test_a_run_without_an_agent_package_still_lists_its_choices() -> None:
    journal = Journal().begin().answer("a")
    assert only(journal).input_context == {"turnId": "t0", "stepIndex": 0, "callId": "a"}


def test_calls_of_a_program_are_no_choices_and_a_failed_one_is_a_problem_of_its_program() -> None:
    journal = begin().start().say("I write a program.").ask("c1").end()
    journal.run("c1").add("actions.requested", {"actions": [call("c1/1")], "parentCallId": "c1", **at()})
    failed(journal, "c1/1", parentCallId="c1").result("c1")
    decision, problem = only(journal), trouble(journal)
    assert some(decision.outcome).success
    assert problem.decision_id == decision.id
    assert problem.description.startswith("a call in ")
    assert problem.description.endswith("too late")
