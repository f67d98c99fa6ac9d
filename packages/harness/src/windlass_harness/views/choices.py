"""The choices of the loop, told as decisions: what a model did with a step.

Each call that the model asks for is a decision, and so is an answer without calls. What the model call used,
its tokens and its time, counts for the first decision of its step, so that sums over a run are right. Long
texts are cut with a marker: the journal has them whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.views.usage import NO_USAGE
from windlass_protocol import (
    ActionResultData,
    ActionStatus,
    AssistantPart,
    Decision,
    DecisionRun,
    DecisionType,
    JsonObject,
    Option,
    Outcome,
    Problem,
    ProblemSeverity,
    ReasoningPart,
    Record,
    StepCompletedData,
    TextPart,
    ToolCallPart,
    ToolSpec,
)

TEXT_CHARS_MAX: Final = 2_000
"""What a decision keeps of a text, of arguments and of a result."""
LINE_CHARS_MAX: Final = 160
"""What is told of them in one line."""
ANSWER: Final = "final answer"
"""The option to call nothing; no tool can be called so."""
_STEP: Final = "step_"
_TOOL_CALL: Final = "tool_call"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that the model asked for."""

    call_id: str
    tool_name: str
    input: JsonValue


@dataclass(frozen=True, slots=True)
class Words:
    """An answer of the model while its records arrive."""

    run_id: str
    model_id: str | None = None
    reasoning: str = ""
    text: str = ""
    calls: tuple[Asked, ...] = ()

    def with_parts(self, parts: Iterable[AssistantPart]) -> "Words":
        """Return the answer with what comes next of it; a call that is there is not added."""
        words = self
        for part in parts:
            match part:
                case TextPart():
                    words = replace(words, text=cut(words.text + part.text))
                case ReasoningPart():
                    words = replace(words, reasoning=cut(words.reasoning + part.text))
                case ToolCallPart() if not part.provider_executed:
                    words = words.with_call(part)
                case _:
                    pass
        return words

    def with_call(self, part: ToolCallPart) -> "Words":
        """Return the answer with another call."""
        if any(call.call_id == part.tool_call_id for call in self.calls):
            return self
        asked = Asked(part.tool_call_id, part.tool_name, short(part.input))
        return replace(self, calls=(*self.calls, asked))


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision of the loop without an outcome, and what its model call used."""

    run_id: str
    decision_id: str
    what: str
    """The tool, or `ANSWER`."""
    tokens: int = 0
    latency_ms: int = 0
    text: str = ""
    """The words of an answer."""


def choices(
    words: Words, data: StepCompletedData, *, run: DecisionRun, at: str
) -> list[tuple[str | None, Decision, Pending]]:
    """Return the decisions of a step with the ids of their calls; an answer has none."""
    usage = data.usage or NO_USAGE
    spent = (usage.input_tokens or 0) + (usage.output_tokens or 0), data.latency_ms or 0
    context: JsonObject = {"turnId": data.turn_id, "stepIndex": data.step_index}
    if words.model_id is not None:
        context["modelId"] = words.model_id
    if run.package_fingerprint is not None:
        context["packageFingerprint"] = run.package_fingerprint
    step, node = f"{_STEP}{data.step_index}", run.agent_id or "unknown"
    if not words.calls:
        decision = Decision(
            id=step,
            timestamp=at,
            node_id=node,
            intent="answer",
            decision_type=DecisionType.TERMINATION,
            options=(Option(id=ANSWER, description=line(words.text), action_type="generate"),),
            chosen_option_id=ANSWER,
            reasoning=words.reasoning or words.text,
            input_context=context,
        )
        return [(None, decision, Pending(words.run_id, step, ANSWER, *spent, text=words.text))]
    made: list[tuple[str | None, Decision, Pending]] = []
    for number, call in enumerate(words.calls):
        decision_id = f"{step}.{number}"
        decision = _call_decision(words, call, decision_id=decision_id, node=node, at=at)
        decision = decision.model_copy(update={"input_context": {**context, "callId": call.call_id}})
        used = spent if number == 0 else (0, 0)
        made.append((call.call_id, decision, Pending(words.run_id, decision_id, call.tool_name, *used)))
    return made


def _call_decision(words: Words, call: Asked, *, decision_id: str, node: str, at: str) -> Decision:
    params: JsonObject = call.input if isinstance(call.input, dict) else {"input": call.input}
    told = line(to_json(call.input).decode())
    return Decision(
        id=decision_id,
        timestamp=at,
        node_id=node,
        intent=f"call {call.tool_name}",
        decision_type=DecisionType.TOOL_SELECTION,
        options=(Option(id=call.tool_name, description=told, action_type=_TOOL_CALL, action_params=params),),
        chosen_option_id=call.tool_name,
        reasoning="\n\n".join(part for part in (words.reasoning, words.text) if part),
    )


def with_options(run: DecisionRun, offered: Mapping[str, Iterable[ToolSpec]]) -> DecisionRun:
    """Return a run whose choices of the loop say what else the model could have done.

    `offered` has the tools of each version of the agent, by its fingerprint. A choice under another version
    keeps the one option that it took.
    """
    menus = {
        found: (
            *(
                Option(id=tool.name, description=line(tool.description or ""), action_type=_TOOL_CALL)
                for tool in tools
            ),
            Option(id=ANSWER, description="Answer without a call.", action_type="generate"),
        )
        for found, tools in offered.items()
    }
    decisions = tuple(_among(decision, menus) for decision in run.decisions)
    return run.model_copy(update={"decisions": decisions})


def _among(decision: Decision, menus: Mapping[str, tuple[Option, ...]]) -> Decision:
    menu = menus.get(str((decision.input_context or {}).get("packageFingerprint")))
    if menu is None or not decision.id.startswith(_STEP):
        return decision
    taken = decision.options[0]
    others = tuple(option for option in menu if option.id != taken.id)
    return decision.model_copy(update={"options": (taken, *others)})


def outcome(pending: Pending, *, at: str, result: JsonValue = None, error: str | None = None) -> Outcome:
    """Return what came of a decision: it failed if there is an error."""
    facts: dict[str, object] = {"success": error is None, "timestamp": at}
    if error is None:
        told = result if isinstance(result, str) else to_json(result).decode()
        facts |= {"result": short(result), "summary": line(f"{pending.what}: {told}")}
    else:
        facts |= {"error": cut(error), "summary": line(f"{pending.what}: {error}")}
    return Outcome.model_validate(
        {**facts, "tokens_used": pending.tokens, "latency_ms": pending.latency_ms}, by_name=True
    )


def with_time(pending: Pending, took_ms: int) -> Pending:
    """Return a choice whose action took so long, besides its model call."""
    return replace(pending, latency_ms=pending.latency_ms + took_ms)


def result_error(data: ActionResultData) -> tuple[str, str] | None:
    """Return the code and the words of a result that is a failure or a refusal."""
    if data.status is ActionStatus.COMPLETED and not data.result.is_error:
        return None
    if data.error is not None:
        return data.error.code, data.error.message
    told = data.result.output
    return data.status.value, told if isinstance(told, str) else to_json(told).decode()


def problem(
    record: Record,
    severity: ProblemSeverity,
    *,
    told: str,
    cause: str,
    decision_id: str | None = None,
) -> Problem:
    """Return a problem that a record tells of; its cause is a stable code."""
    found = Problem(
        id=f"problem_{record.seq}",
        severity=severity,
        description=cut(told),
        timestamp=record.at,
        root_cause=cause,
    )
    return found if decision_id is None else found.model_copy(update={"decision_id": decision_id})


def cut(text: str, limit: int = TEXT_CHARS_MAX) -> str:
    """Return a text, or its beginning with a mark if it is longer than may be."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def line(text: str) -> str:
    """Return the beginning of a text in one line."""
    return cut(" ".join(text[: 4 * LINE_CHARS_MAX].split()), LINE_CHARS_MAX)


def short(value: JsonValue) -> JsonValue:
    """Return a value, or the beginning of its JSON if that is longer than may be."""
    text = value if isinstance(value, str) else to_json(value).decode()
    return value if len(text) <= TEXT_CHARS_MAX else cut(text)
