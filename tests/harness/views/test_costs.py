"""Where the money of a run went."""

from windlass_harness.views.costs import (
    ChildRun,
    ResultCost,
    RunCosts,
    ToolCost,
    cache_share,
    fold_costs,
    fold_session_costs,
)
from windlass_protocol import JsonObject, JsonValue, Usage

PLACE: JsonObject = {"sequence": 0, "stepIndex": 0, "turnId": "t"}


def started(model: str | None = "m") -> tuple[str, JsonObject]:
    more: JsonObject = {} if model is None else {"modelId": model}
    return "step.started", {**PLACE, **more}


def completed(
    tokens: int = 100, *, priced: bool = True, usage: JsonObject | None = None
) -> tuple[str, JsonObject]:
    parts: list[JsonValue] = [
        {"unit": "input_tokens", "count": 1, "micros": 60},
        {"unit": "cache_read_tokens", "count": 1, "micros": 40},
        {"unit": "output_tokens", "count": 1, "micros": 900},
    ]
    price: JsonObject = {"source": "table", "parts": parts} if priced else {"source": "none"}
    used: JsonObject = {"inputTokens": tokens, "cacheReadTokens": 25, "costMicros": 1_000}
    body: JsonObject = {"finishReason": "stop", "usage": used if usage is None else usage, "price": price}
    return "step.completed", {**PLACE, **body}


def result(call_id: str, output: JsonValue, tool: str = "look") -> tuple[str, JsonObject]:
    told: JsonObject = {"kind": "tool-result", "callId": call_id, "toolName": tool, "output": output}
    return "action.result", {**PLACE, "result": told, "status": "completed"}


def asked(call_id: str, parent: str | None = None) -> tuple[str, JsonObject]:
    action: JsonObject = {"kind": "tool-call", "callId": call_id, "toolName": "look", "input": {}}
    more: JsonObject = {} if parent is None else {"parentCallId": parent}
    return "actions.requested", {**PLACE, "actions": [action], **more}


def test_costs_are_known_by_step_and_model() -> None:
    costs = fold_costs([started(), completed(), started("n"), completed(), started("m"), completed(usage={})])
    assert [(step.model_id, step.usage.cost_micros) for step in costs.steps] == [
        ("m", 1_000),
        ("n", 1_000),
        ("m", None),
    ]
    assert {name: usage.cost_micros for name, usage in costs.models.items()} == {"m": 1_000, "n": 1_000}


def test_a_result_costs_in_each_later_prompt_its_part_of_the_tokens() -> None:
    """38 letters are 10 tokens as JSON: a tenth of a prompt of 100 tokens that cost 100."""
    costs = fold_costs(
        [
            started(),
            completed(),
            asked("a"),
            result("a", "x" * 38),
            completed(),
            completed(),
            completed(priced=False),
        ]
    )
    assert costs.tools == {"look": ToolCost(calls=1, result_tokens=10, prompt_tokens=30, cost_micros=20)}
    assert costs.results == [ResultCost("a", "look", 10, prompts=3, cost_micros=20)]


def test_a_step_names_the_tokens_that_it_paid_for_again() -> None:
    kind, body = completed()
    again: JsonObject = {"kept": 0, "added": [], "loss": {"tokens": 7, "part": "system"}}
    costs = fold_costs([started(), (kind, body), (kind, {**body, "cache": again})])
    losses = [None if step.loss is None else step.loss.tokens for step in costs.steps]
    assert losses == [None, 7]


def test_a_result_costs_no_more_than_its_prompt() -> None:
    costs = fold_costs([asked("a"), result("a", "x" * 398), completed(50), completed(0)])
    assert costs.tools["look"].cost_micros == 100


def test_what_a_program_calls_is_in_no_prompt() -> None:
    costs = fold_costs([asked("a"), asked("b", parent="a"), result("b", "x" * 38), completed()])
    assert costs.tools == {}


def test_results_before_a_compaction_cost_no_more() -> None:
    summary: JsonObject = {"modelId": "s", "sequence": 0, "turnId": "t", "usage": {"costMicros": 7}}
    costs = fold_costs([asked("a"), result("a", "x" * 38), ("compaction.completed", summary), completed()])
    assert costs.tools["look"].cost_micros == 0
    assert costs.models["s"].cost_micros == 7


def test_failed_calls_and_subagents_count() -> None:
    failed: JsonObject = {**PLACE, "code": "x", "message": "y", "usage": {"costMicros": 3}}
    report: JsonObject = {"callId": "c", "subagentName": "helper", "output": "", "usage": {"costMicros": 5}}
    costs = fold_costs(
        [
            started(None),
            ("step.failed", failed),
            ("step.retrying", {**failed, "attempt": 1, "delayMs": 0, "usage": {"costMicros": 4}}),
            ("step.failed", {**PLACE, "code": "x", "message": "y"}),
            ("subagent.completed", {**PLACE, **report}),
            (
                "subagent.completed",
                {**PLACE, **{name: value for name, value in report.items() if name != "usage"}},
            ),
            ("run.completed", {"runId": "r"}),
        ]
    )
    assert {name: usage.cost_micros for name, usage in costs.models.items()} == {"unknown": 7}
    assert {name: usage.cost_micros for name, usage in costs.agents.items()} == {"helper": 5}


def test_costs_of_runs_are_added() -> None:
    report: JsonObject = {"callId": "c", "subagentName": "helper", "output": "", "usage": {"costMicros": 5}}
    one = [
        asked("a"),
        result("a", "x" * 38),
        started(),
        completed(),
        ("subagent.completed", {**PLACE, **report}),
    ]
    total = RunCosts()
    total.add(fold_costs(one))
    total.add(fold_costs(one))
    assert len(total.steps) == 2
    assert total.models["m"].cost_micros == 2_000
    assert total.agents["helper"].cost_micros == 10
    assert total.tools == {"look": ToolCost(calls=2, result_tokens=20, prompt_tokens=20, cost_micros=20)}


def test_the_cached_share_is_that_of_the_input() -> None:
    assert cache_share(Usage(input_tokens=100, cache_read_tokens=25)) == 0.25
    assert cache_share(Usage(input_tokens=100)) == 0
    assert cache_share(Usage(output_tokens=1)) is None


def test_a_result_of_an_earlier_run_costs_in_the_prompts_of_a_later_one() -> None:
    records = [asked("a"), result("a", "x" * 398), completed(200)]
    later = [completed(200), completed(200)]
    items = [("r1", *record) for record in records] + [("r2", *record) for record in later]
    runs = fold_session_costs([(None, "session.started", {}), *items])
    assert runs.keys() == {"r1", "r2"}
    assert runs["r1"].results == [ResultCost("a", "look", 100, prompts=1, cost_micros=50)]
    assert runs["r2"].results == [ResultCost("a", "look", 100, prompts=2, cost_micros=100)]
    assert runs["r2"].tools == {"look": ToolCost(0, 0, prompt_tokens=200, cost_micros=100)}


def test_a_model_has_one_name_whether_it_is_the_first_one_or_a_fallback() -> None:
    """Records have the first model of a run by its id, and the others by provider and model."""
    first: JsonObject = {"runId": "r", "agentId": "a", "routeId": "openai", "modelId": "gpt-4o"}
    costs = fold_costs(
        [
            ("run.started", first),
            started("gpt-4o"),
            completed(),
            started("openai/gpt-4o"),
            completed(),
            started("azure/gpt-4o"),
            completed(),
        ]
    )
    assert {name: usage.cost_micros for name, usage in costs.models.items()} == {
        "openai/gpt-4o": 2_000,
        "azure/gpt-4o": 1_000,
    }
    without_route = fold_costs([("run.started", {"runId": "r", "agentId": "a"}), started("m"), completed()])
    assert [*without_route.models] == ["m"]


def test_the_runs_of_subagents_are_known() -> None:
    called: JsonObject = {
        **PLACE,
        "callId": "c",
        "childSessionId": "s2",
        "sessionId": "s1",
        "name": "helper",
        "toolName": "helper",
    }
    costs = fold_costs([("subagent.called", {**called, "childRunId": "r2"}), ("subagent.called", called)])
    assert costs.children == [ChildRun("s2", "r2")]
