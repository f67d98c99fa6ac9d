"""Where the money of a run went: by step, model, agent, and tool.

A result of a tool is paid for again with each later prompt that has it. Its tokens are estimated, and its
part of the cost of a prompt is its part of the tokens. After a compaction, results before it do not count.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from windlass_harness.compaction import estimate_tokens
from windlass_harness.views.payloads import (
    first_model_name,
    is_limit_ask,
    model_name,
    result_name,
    usage_model,
)
from windlass_harness.views.usage import NO_USAGE, add_usage
from windlass_protocol import CacheLoss, JsonObject, Price, Usage
from windlass_protocol.bodies import data_of, read_body
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records

_INPUTS: Final = ("input_", "cache_")
"""How the names of the parts of a prompt begin."""
UNKNOWN: Final = "unknown"


@frozen
class StepCost:
    """A model call."""

    step_index: int
    model_id: str
    usage: Usage
    price: Price | None
    loss: CacheLoss | None = None
    """What it paid for again, because it was in the cache no more."""


@mutable
class ResultCost:
    """What a result of a tool costs in later prompts."""

    call_id: str
    tool_name: str
    tokens: int
    """Its tokens, as estimated."""
    prompts: int = 0
    """The prompts that had it: so often its tokens were paid for."""
    cost_micros: int = 0


@mutable
class ToolCost:
    """What the results of a tool cost in later prompts."""

    calls: int = 0
    result_tokens: int = 0
    """Tokens of its results, as estimated."""
    prompt_tokens: int = 0
    """The same tokens, counted with each prompt that had them."""
    cost_micros: int = 0


@frozen
class ChildRun:
    """The run of a subagent: what its models used is in its own session."""

    session_id: str
    run_id: str


@mutable
class RunCosts:
    """The costs of a run, as far as its records say."""

    steps: list[StepCost] = field(default_factory=list[StepCost])
    models: dict[str, Usage] = field(default_factory=dict[str, Usage])
    agents: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """What subagents used, by their names."""
    results: list[ResultCost] = field(default_factory=list[ResultCost])
    tools: dict[str, ToolCost] = field(default_factory=dict[str, ToolCost])
    children: list[ChildRun] = field(default_factory=list[ChildRun])

    def add(self, other: "RunCosts") -> None:
        """Add the costs of another run."""
        self.steps += other.steps
        self.results += other.results
        self.children += other.children
        for mine, theirs in ((self.models, other.models), (self.agents, other.agents)):
            for name, usage in theirs.items():
                mine[name] = add_usage(mine.get(name, NO_USAGE), usage)
        for name, cost in other.tools.items():
            tool = self.tools.setdefault(name, ToolCost())
            tool.calls += cost.calls
            tool.result_tokens += cost.result_tokens
            tool.prompt_tokens += cost.prompt_tokens
            tool.cost_micros += cost.cost_micros


def fold_costs(items: Iterable[tuple[str, JsonObject]]) -> RunCosts:
    """Return the costs of a run from the types and data of its records, in their order."""
    fold = _Fold()
    for kind, data in items:
        fold.take(kind, data)
    return fold.costs


def fold_session_costs(items: Iterable[tuple[str | None, str, JsonObject]]) -> dict[str, RunCosts]:
    """Return the costs of the runs of a session from the run ids, types and data of its records, in order.

    A result costs in the prompts of later runs, too; that is a cost of those runs, without a call.
    """
    fold, runs = _Fold(), dict[str, RunCosts]()
    for run_id, kind, data in items:
        fold.costs = runs.setdefault(run_id, RunCosts()) if run_id is not None else RunCosts()
        fold.take(kind, data)
    return runs


def cache_share(usage: Usage) -> float | None:
    """Return which share of the input came from a cache; None without an input."""
    return (usage.cache_read_tokens or 0) / usage.input_tokens if usage.input_tokens else None


class _Fold:
    def __init__(self) -> None:
        self.costs = RunCosts()
        self._first: tuple[str, str] | None = None
        """The first model of the run: its name in records, and as agents name it."""
        self._model_id = UNKNOWN
        self._inner: set[str] = set()
        """Calls of programs, whose results the model does not see."""
        self._results: list[ResultCost] = []
        """The results in the prompt."""
        self._paid: dict[tuple[int, str], ResultCost] = {}
        """What results cost, by the costs of a run and the call."""

    def take(self, kind: str, data: JsonObject) -> None:
        match kind:
            case "run.started":
                started = read_body(records.RunStarted, data)
                if started.route_id is not None and started.model_id is not None:
                    route = started.route_id, started.model_id
                    self._first = first_model_name(*route), model_name(*route)
            case "step.started":
                self._model_id = self._name(read_body(records.StepStarted, data).model_id or UNKNOWN)
            case "actions.requested":
                body = read_body(records.ActionsRequested, data)
                if body.parent_call_id is not None:
                    self._inner.update(action.call_id for action in body.actions)
            case "action.result":
                self._result(read_body(records.ActionResult, data))
            case "step.completed":
                body = read_body(records.StepCompleted, data)
                self._step(body)
            case "step.failed" | "step.retrying" | "compaction.completed" | "compaction.failed":
                self._other(kind, data)
            case "subagent.called":
                called = read_body(records.SubagentCalled, data)
                if called.child_run_id is not None:
                    self.costs.children.append(ChildRun(called.child_session_id, called.child_run_id))
            case "subagent.completed":
                report = read_body(records.SubagentCompleted, data)
                usage = usage_model(report.usage) or NO_USAGE
                name = report.subagent_name
                self.costs.agents[name] = add_usage(self.costs.agents.get(name, NO_USAGE), usage)
            case _:
                pass

    def _step(self, body: records.StepCompleted) -> None:
        used, loss = usage_model(body.usage) or NO_USAGE, None if body.cache is None else body.cache.loss
        step = StepCost(
            body.step_index,
            self._model_id,
            used,
            None if body.price is None else Price.model_validate(data_of(body.price)),
            None if loss is None else CacheLoss.model_validate(data_of(loss)),
        )
        self.costs.steps.append(step)
        self._charge(self._model_id, used)
        prompt_micros = _prompt_micros(body.price)
        for result in self._results:
            micros = 0
            if prompt_micros is not None and used.input_tokens:
                micros = prompt_micros * min(result.tokens, used.input_tokens) // used.input_tokens
            paid = self._paid_in_run(result)
            paid.prompts += 1
            paid.cost_micros += micros
            tool = self.costs.tools.setdefault(result.tool_name, ToolCost())
            tool.prompt_tokens += result.tokens
            tool.cost_micros += micros

    def _paid_in_run(self, result: ResultCost) -> ResultCost:
        """Return what a result costs in this run: it may be of an earlier run of the session."""
        key = id(self.costs), result.call_id
        if key not in self._paid:
            self._paid[key] = ResultCost(result.call_id, result.tool_name, result.tokens)
            self.costs.results.append(self._paid[key])
        return self._paid[key]

    def _other(self, kind: str, data: JsonObject) -> None:
        """A call whose answer is no step: it failed, or wrote a summary."""
        model_id = data.get("modelId")
        usage = data.get("usage")
        if isinstance(usage, dict):
            name = self._name(model_id) if isinstance(model_id, str) else self._model_id
            self._charge(name, Usage.model_validate(usage))
        if kind == "compaction.completed":
            self._results.clear()

    def _result(self, body: records.ActionResult) -> None:
        if body.result.call_id in self._inner or is_limit_ask(body.result.call_id):
            return
        name, tokens = result_name(body.result), estimate_tokens(body.result.output)
        tool = self.costs.tools.setdefault(name, ToolCost())
        tool.calls += 1
        tool.result_tokens += tokens
        result = ResultCost(body.result.call_id, name, tokens)
        self._results.append(result)
        self._paid_in_run(result)

    def _name(self, model_id: str) -> str:
        """Return the name of a model: records name the first of a run differently."""
        return self._first[1] if self._first is not None and self._first[0] == model_id else model_id

    def _charge(self, model_id: str, usage: Usage) -> None:
        self.costs.models[model_id] = add_usage(self.costs.models.get(model_id, NO_USAGE), usage)


def _prompt_micros(price: records.Price | None) -> int | None:
    """Return what the prompt of a call cost; None if its parts are not known."""
    if price is None or price.parts is None:
        return None
    return sum(part.micros for part in price.parts if part.unit.startswith(_INPUTS))
