"""Usage of sessions, runs, turns and models, and the remaining budget."""

import pytest
from tests.harness.views.journal import Journal, at

from windlass_harness.views import UsageState, add_usage, fold_usage
from windlass_harness.views.usage import subtract_usage
from windlass_protocol import BudgetUsage, Usage
from windlass_protocol.limits import INTEGER_MAX

NOW = "2026-01-31T10:00:00Z"


def usage(journal: Journal) -> UsageState:
    return fold_usage(journal.records)


def test_adding_usage_keeps_fields_of_either_part() -> None:
    some_of_it = Usage(input_tokens=1, cost_micros=5)
    assert add_usage(some_of_it, Usage(input_tokens=2, output_tokens=3)) == Usage(
        input_tokens=3, output_tokens=3, cost_micros=5
    )
    assert add_usage(Usage(), Usage()) == Usage()
    every = Usage(
        input_tokens=1,
        output_tokens=2,
        cache_read_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=5,
        cost_micros=6,
    )
    assert add_usage(every, every).model_dump() == {
        key: 2 * value for key, value in every.model_dump().items()
    }


def test_subtracting_usage_keeps_fields_that_the_part_does_not_know() -> None:
    whole = Usage(input_tokens=5, output_tokens=1, cost_micros=7)
    part = Usage(input_tokens=2, output_tokens=3, reasoning_tokens=1)
    assert subtract_usage(whole, part) == Usage(input_tokens=3, output_tokens=0, cost_micros=7)


def test_steps_are_charged_to_session_run_turn_and_model() -> None:
    journal = Journal().begin()
    journal.start(modelId="one").end(usage={"inputTokens": 10, "outputTokens": 1, "costMicros": 5})
    journal.start(1, modelId="two").end(1, usage={"inputTokens": 20, "outputTokens": 2})
    journal.add("run.completed", {"runId": "r1"}).add("run.started", {"runId": "r2", "agentId": "a"})
    journal.turn("more", 1).start(0, 1, modelId="one").end(0, 1, usage={"inputTokens": 40})
    state = usage(journal)
    assert state.session.usage == Usage(input_tokens=70, output_tokens=3, cost_micros=5)
    assert {key: tally.usage.input_tokens for key, tally in state.runs.items()} == {"r1": 30, "r2": 40}
    assert {key: tally.usage.input_tokens for key, tally in state.turns.items()} == {"t0": 30, "t1": 40}
    assert {key: tally.usage.input_tokens for key, tally in state.models.items()} == {"one": 50, "two": 20}
    assert [tally.steps for tally in state.models.values()] == [2, 1]


def test_a_record_that_names_its_run_is_charged_to_it() -> None:
    journal = Journal().begin()
    journal.add(
        "step.completed", {"finishReason": "stop", "usage": {"inputTokens": 3}, **at()}, runId="other"
    )
    assert list(usage(journal).runs) == ["other"]


def test_usage_without_a_run_turn_or_model_counts_for_the_session_only() -> None:
    journal = Journal().add(
        "subagent.completed", {"callId": "c", "subagentName": "s", "output": "x", "usage": {"inputTokens": 3}}
    )
    state = usage(journal)
    assert state.session.delegated.input_tokens == 3
    assert (state.runs, state.turns, state.models) == ({}, {}, {})


def test_money_given_in_dollars_is_counted_in_millionths() -> None:
    journal = Journal().begin().start().end(costUsd=0.07)
    assert usage(journal).session.usage.cost_micros == 70_000
    journal.start(1).end(1, costUsd=9.0, usage={"costMicros": 1})
    assert usage(journal).session.usage.cost_micros == 70_001, "the exact amount wins"


def test_a_step_counts_once_and_the_usage_of_its_failed_attempts_is_added() -> None:
    journal = Journal().begin().start(modelId="m")
    facts = {"code": "E", "attempt": 1, "delayMs": 1, "usage": {"inputTokens": 5}}
    journal.add("step.retrying", {**facts, **at()}).start(attempt=2, modelId="m")
    journal.add("step.failed", {"code": "E", "message": "m", "usage": {"inputTokens": 7}, **at()})
    state = usage(journal)
    assert (state.session.steps, state.session.usage.input_tokens) == (1, 12)
    assert state.models["m"].usage.input_tokens == 12
    journal.start(1).add("step.failed", {"code": "E", "message": "m", **at(1)}).end(1)
    assert usage(journal).session.steps == 2


def test_a_step_of_an_unknown_model_is_charged_to_the_unknown() -> None:
    journal = Journal().begin().end(usage={"inputTokens": 1})
    journal.add("step.failed", {"code": "E", "message": "m", "usage": {"inputTokens": 1}, **at()})
    facts = {"code": "E", "attempt": 1, "delayMs": 1, "usage": {"inputTokens": 1}}
    journal.add("step.retrying", {**facts, **at()})
    assert {key: tally.usage.input_tokens for key, tally in usage(journal).models.items()} == {"unknown": 3}


def test_a_summary_is_charged_to_the_model_that_wrote_it() -> None:
    data = {"modelId": "small", "sequence": 0, "turnId": "t0"}
    journal = Journal().begin().add("compaction.completed", {**data, "usage": {"inputTokens": 9}})
    assert usage(journal).models["small"].usage.input_tokens == 9
    assert usage(journal.add("compaction.completed", data)).session.usage.input_tokens == 9


def test_a_call_counts_when_it_begins_and_once() -> None:
    journal = Journal().begin().answer("a", "b", "c").run("a")
    assert usage(journal).session.tool_calls == 1
    journal.run("a").result("a").result("b").result("c", None, status="rejected")
    assert usage(journal).session.tool_calls == 2
    journal.run("d").add("run.completed", {"runId": "r1"})
    assert usage(journal).session.tool_calls == 3
    journal.result("d")
    assert (usage(journal).session.tool_calls, usage(journal).running) == (3, {}), "late, not another"


def test_an_id_that_another_run_uses_again_is_another_call() -> None:
    journal = Journal().begin().run("a").add("run.cancelled", {"runId": "r1"})
    journal.add("run.started", {"runId": "r2", "agentId": "x"}).run("a").run("a")
    assert {key: tally.tool_calls for key, tally in usage(journal).runs.items()} == {"r1": 1, "r2": 1}


def test_sums_stop_at_the_largest_number() -> None:
    most = {"inputTokens": INTEGER_MAX, "outputTokens": INTEGER_MAX, "costMicros": INTEGER_MAX}
    journal = Journal().begin().start().end(usage=most).start(1).end(1, usage=most)
    journal.add("subagent.completed", {"callId": "c", "subagentName": "s", "output": "x", "usage": most})
    state = usage(journal)
    assert state.session.usage.input_tokens == INTEGER_MAX
    used = state.budget_usage("r1", NOW)
    assert (used.tokens_used, used.cost_micros_used) == (INTEGER_MAX, INTEGER_MAX)


@pytest.mark.parametrize("cost", [1e300, 1e308])
def test_money_beyond_all_measure_is_the_largest_number(cost: float) -> None:
    journal = Journal().begin().start().end(costUsd=cost).start(1).end(1, costUsd=cost)
    assert usage(journal).session.usage.cost_micros == INTEGER_MAX


def test_a_budget_counts_tokens_steps_calls_money_and_time() -> None:
    journal = Journal().begin().start().end(usage={"inputTokens": 10, "outputTokens": 4, "costMicros": 5})
    journal.run("a")
    journal.add(
        "subagent.completed",
        {
            "callId": "c",
            "subagentName": "s",
            "output": "x",
            "usage": {"inputTokens": 100, "outputTokens": 1, "costMicros": 3},
        },
    )
    started = "2026-01-31T09:00:02.000Z"
    state = usage(journal)
    assert state.times["r1"].started_at == started
    assert state.budget_usage("r1", "2026-01-31T09:00:10.500Z") == BudgetUsage(
        tokens_used=115, steps_used=1, tool_calls_used=1, cost_micros_used=8, wall_ms_used=8500
    )
    assert state.session.usage.input_tokens == 10, "the session of the subagent counts its own"


def test_the_time_of_a_run_stops_at_its_first_end() -> None:
    journal = Journal().begin().add("run.completed", {"runId": "r1"}).add("run.failed", FAILED)
    assert usage(journal).budget_usage("r1", NOW).wall_ms_used == 3000


FAILED = {
    "runId": "r1",
    "error": {"code": "conflict", "kind": "timeout", "retry": "retryable", "message": "late"},
}


def test_an_unknown_run_has_no_usage() -> None:
    journal = Journal().add("run.completed", {"runId": "ghost"})
    nothing = BudgetUsage(tokens_used=0, steps_used=0, tool_calls_used=0, cost_micros_used=0, wall_ms_used=0)
    assert usage(journal).budget_usage("ghost", NOW) == nothing
    assert usage(journal).times == {}


def test_a_run_started_twice_keeps_its_first_start() -> None:
    journal = Journal().begin().add("run.started", {"runId": "r1", "agentId": "a"})
    assert usage(journal).times["r1"].started_at == journal.records[1].at


def test_a_clock_that_went_back_costs_no_time() -> None:
    assert usage(Journal().begin()).budget_usage("r1", "2026-01-01T00:00:00Z").wall_ms_used == 0
