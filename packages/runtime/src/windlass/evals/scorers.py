"""Scorers: the criteria of goals, and evaluators of pydantic-evals, with their names in files.

A file names a scorer as pydantic-evals does: `Name`, `Name: argument` or `Name: {option: value}`. Names that
pydantic-evals has too mean the same here and need no package; its other evaluators are loaded from it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import FunctionType
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, TypeGuard, cast, runtime_checkable

from pydantic import JsonValue, TypeAdapter
from typing_extensions import TypeIs

from windlass.errors import AgentError, Rejected, install_hint, is_for_us, kind_of, near_names, wrong
from windlass.ledger.goals import (
    EXPECTED,
    KINDS,
    AskJudge,
    Calls,
    Check,
    Contains,
    Criterion,
    Exact,
    FitsSchema,
    Judge,
    Limit,
    Matches,
    Near,
    PolicyOutcome,
    verdict_of,
)
from windlass.loading import load
from windlass_harness.ledger.goals import Attempt, CriterionVerdict, measure_run, run_tokens
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from pydantic_evals.evaluators import EvaluatorContext

PURPOSE: Final = "The answer is right and useful."
"""The goal that a judge is given."""
SCORER_S: Final = 600.0
"""How long a function or an evaluator may take for one answer, seconds."""
_LATE: Final = f"no verdict within {SCORER_S:g} seconds"
SCORE_MAX: Final = 1e15
"""The size of a number of an evaluator; sums of larger ones mean nothing."""
_JSON: Final = TypeAdapter[JsonValue](JsonValue)


@runtime_checkable
class Evaluator(Protocol):
    """An evaluator of pydantic-evals."""

    def evaluate_async(self, ctx: EvaluatorContext) -> object:
        """Evaluate an answer."""
        ...

    def get_default_evaluation_name(self) -> str:
        """Return the name of its result."""
        ...

    def as_spec(self) -> object:
        """Return it as a file names it."""
        ...


Scorer = Criterion | Evaluator
"""Scores a run: a criterion of a goal, or a function."""


def _is_criterion(value: object) -> TypeIs[Criterion]:
    return isinstance(value, KINDS)


def _is_scorer(value: object) -> TypeGuard[Scorer]:
    return _is_criterion(value) or (isinstance(value, Evaluator) and not isinstance(value, type))


def check_scorers(value: object, where: str) -> tuple[Scorer, ...]:
    """Return scorers as a tuple.

    Raises:
        Rejected: one of them is not a scorer.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise wrong(f"{where} must be a list of scorers, found {kind_of(value)}")
    scorers: list[Scorer] = []
    for item in cast("Sequence[object]", value):
        if not _is_scorer(item):
            kinds = ", ".join(kind.__name__ for kind in KINDS)
            raise wrong(
                f"{where} must be {kinds}, or evaluators of pydantic-evals; found {kind_of(item)}. "
                "Write Check(function) for a function of your own"
            )
        scorers.append(item)
    return tuple(scorers)


@sealed
class Scored:
    """A verdict of a scorer; an evaluator of pydantic-evals may give several."""

    verdict: CriterionVerdict
    is_counted: bool = True
    """Whether it decides if the case passes: a number or a label of pydantic-evals does not."""


async def score_with(
    scorer: Scorer, attempt: Attempt, *, case: str, inputs: JsonValue, ask: AskJudge
) -> list[Scored]:
    """Return what a scorer says about an attempt at a case; nothing if the case has no expected answer."""
    # A judgement is a run, with limits of its own.
    limit_s = None if isinstance(scorer, Judge) else SCORER_S
    if not _is_criterion(scorer):
        name = scorer.get_default_evaluation_name()
        try:
            async with asyncio.timeout(limit_s):
                return await _evaluate(scorer, attempt, case=case, inputs=inputs)
        except TimeoutError:
            return [Scored(CriterionVerdict(name, 0.0, _LATE))]
    try:
        async with asyncio.timeout(limit_s):
            verdict = await verdict_of(scorer, attempt, purpose=PURPOSE, ask_judge=ask)
    except TimeoutError:
        verdict = CriterionVerdict(scorer.name, 0.0, _LATE, scorer.weight)
    except AgentError as error:
        # The judgement is a run that has ended: the next attempt at the experiment would find it again.
        verdict = CriterionVerdict(scorer.name, 0.0, f"no verdict: {error.message}", scorer.weight)
    return [] if verdict is None else [Scored(verdict)]


async def _evaluate(evaluator: Evaluator, attempt: Attempt, *, case: str, inputs: JsonValue) -> list[Scored]:
    from pydantic_evals.evaluators import EvaluatorContext  # noqa: PLC0415 - an extra
    from pydantic_evals.otel import SpanTree  # noqa: PLC0415 - an extra

    context = EvaluatorContext[JsonValue, JsonValue, JsonObject](
        name=case,
        inputs=inputs,
        metadata=attempt.metadata,
        expected_output=attempt.expected,
        output=attempt.output if attempt.value is None else attempt.value,
        duration=(attempt.run.duration_ms or 0) / 1_000,
        _span_tree=SpanTree(),
        attributes={"tools": [call.tool for call in attempt.made]},
        metrics={
            "steps": attempt.steps,
            "tokens": run_tokens(attempt.run) or 0,
            "cost": measure_run(attempt, "cost_micros") / 1_000_000,
        },
    )
    name = evaluator.get_default_evaluation_name()
    try:
        outcome: object = evaluator.evaluate_async(context)
        if inspect.isawaitable(outcome):
            outcome = await outcome
    except BaseException as error:  # code of others: any exception counts as failed
        if is_for_us(error):
            raise
        return [Scored(CriterionVerdict(name, 0.0, f"the evaluator failed with {type(error).__name__}"))]
    many = cast("Mapping[str, object]", outcome) if isinstance(outcome, Mapping) else {name: outcome}
    return [_score_outcome(str(key), value) for key, value in many.items()]


def _score_outcome(name: str, outcome: object) -> Scored:
    """Return a result of pydantic-evals: a bool decides, a number is a measure, a text is a label."""
    value = _storable(getattr(outcome, "value", outcome))
    name, why = str(_storable(name)), str(_storable(getattr(outcome, "reason", None) or ""))
    if isinstance(value, bool):
        return Scored(CriterionVerdict(name, float(value), why))
    if isinstance(value, int | float) and abs(value) <= SCORE_MAX:
        return Scored(CriterionVerdict(name, float(value), why), is_counted=False)
    if isinstance(value, str):
        return Scored(CriterionVerdict(name, 1.0, f"{value}: {why}" if why else value), is_counted=False)
    return Scored(
        CriterionVerdict(name, 0.0, f"the evaluator gave {kind_of(value)}: expected a bool, number or text")
    )


def _storable(value: object) -> object:
    """Return a text that can be stored: half characters are replaced."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


# files


class _Common(TypedDict, total=False):
    """The options that all scorers have."""

    name: str
    weight: float


_RENAMED: Final = {"evaluation_name": "name"}


def _exact(options: Mapping[str, JsonValue]) -> Criterion:
    return Exact(options["value"], **_options(options, "value"))


def _exact_expected(options: Mapping[str, JsonValue]) -> Criterion:
    return Exact(**_options(options))


def _contains(options: Mapping[str, JsonValue]) -> Criterion:
    texts = cast("list[str] | str", options["value"]) if "value" in options else EXPECTED
    is_exact = bool(options.get("case_sensitive", True))
    return Contains(
        texts,
        is_case_sensitive=is_exact,
        **_options(options, "value", "case_sensitive", "as_strings"),
    )


def _duration(options: Mapping[str, JsonValue]) -> Criterion:
    seconds = options["seconds"]
    if not isinstance(seconds, int | float):
        raise wrong("seconds must be a number")
    return Limit("duration_ms", seconds * 1_000, **_options(options, "seconds"))


def _judge(fields: Mapping[str, JsonValue]) -> Criterion:
    model, ignored = fields.get("model"), ("include_input", "include_expected_output")
    if not isinstance(model, str):
        raise wrong('name the model, such as model: "openai/gpt-5"')
    # pydantic-evals separates the provider by a colon.
    route = model if "/" in model else model.replace(":", "/", 1)
    share = cast("float", fields.get("pass_score", 0.7))
    options = _options(fields, "rubric", "model", "pass_score", *ignored)
    return Judge(cast("str", fields["rubric"]), route, pass_score=share, **options)


def _function(options: Mapping[str, JsonValue]) -> Criterion:
    location = str(options["function"])
    [function, *more] = load(location, FunctionType, folder=str(options["folder"]))
    if more:
        raise wrong(f"write module:function or file.py:function, found {location}")
    return Check(function, **_options(options, "function", "folder"))


def _own(kind: type[Criterion]) -> Callable[[Mapping[str, JsonValue]], Criterion]:
    names = [option.name for option in fields(kind)]

    def make(options: Mapping[str, JsonValue]) -> Criterion:
        unknown = options.keys() - set(names)
        if unknown:
            raise wrong(f"unknown option {', '.join(sorted(unknown))}; it takes {', '.join(names)}")
        return cast("Callable[..., Criterion]", kind)(**options)

    return make


_READ: Final[Mapping[str, tuple[str, Callable[[Mapping[str, JsonValue]], Criterion]]]] = {
    "EqualsExpected": ("evaluation_name", _exact_expected),
    "Equals": ("value", _exact),
    "Contains": ("value", _contains),
    "MaxDuration": ("seconds", _duration),
    "LLMJudge": ("rubric", _judge),
    "Matches": ("pattern", _own(Matches)),
    "Near": ("expected", _own(Near)),
    "FitsSchema": ("json_schema", _own(FitsSchema)),
    "Limit": ("measure", _own(Limit)),
    "Calls": ("expected", _own(Calls)),
    "PolicyOutcome": ("decisions", _own(PolicyOutcome)),
    "Check": ("function", _function),
}
"""How a scorer is read, and the option that a single argument means."""
_SINGLE: Final = frozenset({"FitsSchema", "PolicyOutcome"})
"""Scorers with an object as their only argument."""


def _options(options: Mapping[str, JsonValue], *own: str) -> _Common:
    """Return the options that all scorers have.

    Raises:
        Rejected: another option is there.
    """
    common = {_RENAMED.get(key, key): value for key, value in options.items() if key not in own}
    unknown = common.keys() - _Common.__annotations__.keys()
    if unknown:
        raise wrong(f"unknown option {', '.join(sorted(unknown))}")
    return cast("_Common", {key: value for key, value in common.items() if value is not None})


def read_scorer(spec: JsonValue, where: str, *, folder: str, custom: Sequence[type] = ()) -> Scorer:
    """Return a scorer that a file names; `custom` are evaluator classes of pydantic-evals.

    Functions of a `Check` are searched in `folder` first.

    Raises:
        Rejected: it is unknown or its options do not fit.
    """
    name, arguments = _parts(spec, where)
    reader = _READ.get(name)
    if reader is None or name in {kind.__name__ for kind in custom}:
        return _load_evaluator(spec, name, where=where, custom=custom)
    first, make = reader
    if name in _SINGLE and isinstance(arguments, dict) and first not in arguments:
        arguments = [arguments]
    options = {first: arguments[0]} if isinstance(arguments, list) else arguments
    try:
        return make({**options, "folder": folder} if name == "Check" else options)
    except KeyError as missing:
        raise wrong(f"{where}: {name} needs {missing.args[0]}") from None
    except TypeError:
        raise wrong(f"{where}: the options of {name} do not fit") from None
    except Rejected as error:
        raise wrong(f"{where}: {name}: {error.message}") from None


def _parts(spec: JsonValue, where: str) -> tuple[str, list[JsonValue] | JsonObject]:
    """Return the name of a scorer, and its only argument in a list or its options."""
    if isinstance(spec, str):
        return spec, {}
    if isinstance(spec, dict) and spec.keys() == {"name", "arguments"}:
        name, arguments = str(spec["name"]), spec["arguments"]
        if arguments is None:
            return name, {}
        return name, arguments if isinstance(arguments, dict) else cast("list[JsonValue]", arguments)[:1]
    if isinstance(spec, dict) and len(spec) == 1:
        [(name, arguments)] = spec.items()
        return name, arguments if isinstance(arguments, dict) else [arguments]
    raise wrong(f"{where}: a scorer is Name, Name: argument or Name: {{option: value}}")


def _load_evaluator(spec: JsonValue, name: str, *, where: str, custom: Sequence[type]) -> Scorer:
    unknown = f"{where}: unknown scorer {name}; known are {', '.join(_READ)}"
    try:
        from pydantic_evals import Dataset, evaluators  # noqa: PLC0415 - an extra
    except ImportError:
        raise wrong(f"{unknown}, and with pydantic-evals its evaluators: {install_hint('evals')}") from None
    names = (*_READ, *evaluators.__all__)
    if name not in names and not custom:  # a custom class may have another name in files
        raise wrong(f"{unknown}, and the evaluators of pydantic-evals{near_names([name], names)}")
    case: JsonObject = {"name": "case", "inputs": "", "evaluators": [spec]}
    try:
        dataset = Dataset[JsonValue, JsonValue, JsonValue].from_dict(
            {"name": "cases", "cases": [case]}, custom_evaluator_types=custom
        )
    except Exception as error:  # noqa: BLE001 - whatever pydantic-evals says about its own file
        many = cast("Sequence[object]", getattr(error, "exceptions", (error,)))
        raise wrong(f"{where}: {name} cannot be loaded: {str(many[0]).splitlines()[0]}") from None
    return dataset.cases[0].evaluators[0]


def write_scorer(scorer: Scorer) -> JsonValue:
    """Return a scorer as a file names it."""
    if not _is_criterion(scorer):
        spec = scorer.as_spec()
        dumped = TypeAdapter[object](type(spec)).dump_python(
            spec, mode="json", context={"use_short_form": True}
        )
        return _JSON.validate_python(dumped)
    name, options = _spec_parts(scorer)
    return {name: options} if options else name


def _spec_parts(scorer: Criterion) -> tuple[str, JsonObject]:
    values = {option.name: getattr(scorer, option.name) for option in fields(scorer)}
    options = {
        option.name: values[option.name]
        for option in fields(scorer)
        if values[option.name] not in (option.default, EXPECTED)
    }
    kind = type(scorer).__name__
    match scorer:
        case Exact():
            kind = "EqualsExpected" if scorer.expected is EXPECTED else "Equals"
            options = _rename_options(options, expected="value", name="evaluation_name")
        case Contains():
            options = _rename_options(options, texts="value", is_case_sensitive="case_sensitive")
            # The defaults differ.
            options["case_sensitive"] = scorer.is_case_sensitive
        case Limit(measure="duration_ms"):
            del options["measure"], options["most"]
            kind, options = "MaxDuration", {**options, "seconds": scorer.most / 1_000}
        case Judge():
            kind = "LLMJudge"
            options = _rename_options(options, question="rubric") | {"model": model_name(scorer.model)}
        case Check():
            function = scorer.function
            location = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', '?')}"
            options = {**options, "function": location}
        case _:
            pass
    return kind, cast("JsonObject", _JSON.validate_python(_plain(options)))


def _rename_options(options: Mapping[str, object], **names: str) -> dict[str, object]:
    return {names.get(name, name): value for name, value in options.items()}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    return value


def model_name(model: object) -> str:
    """Return the name of a model, or that of the route and model of a provider."""
    if isinstance(model, str):
        return model
    return f"{getattr(model, 'route_id', None) or 'custom'}/{getattr(model, 'model_id', None) or 'model'}"
