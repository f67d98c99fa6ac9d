"""Criteria: what a run has to do to reach a goal."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from math import isfinite
from typing import Final, TypeGuard, cast, get_args

from pydantic import JsonValue

from windlass.definitions import check_text, kind_of, meant, wrong
from windlass.json_schema import schema_problem
from windlass.ports.model import LLMProvider
from windlass_harness.ledger.goals import Attempt, Measure
from windlass_protocol import JsonObject

NAME_CHARS_MAX: Final = 128
CRITERIA_MAX: Final = 100
"""Criteria and constraints of a goal, each."""
QUESTION_CHARS_MAX: Final = 20_000
DESCRIPTION_CHARS_MAX: Final = 20_000

Ruling = bool | float | tuple[float, str]
"""What a function says of a run: whether, how well from 0 to 1, or how well and why."""
CheckFunction = Callable[[Attempt], Ruling | Awaitable[Ruling]]


@dataclass(frozen=True, slots=True)
class Exact:
    """The answer is exactly this: a text without outer space, or data."""

    expected: JsonValue
    _: KW_ONLY
    name: str = "exact"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_criterion(self)


@dataclass(frozen=True, slots=True)
class Contains:
    """The answer contains all of these texts; some of them are a part of the score."""

    texts: Sequence[str] | str
    _: KW_ONLY
    is_case_sensitive: bool = False
    name: str = "contains"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_criterion(self)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The texts."""
        return (self.texts,) if isinstance(self.texts, str) else tuple(self.texts)


@dataclass(frozen=True, slots=True)
class FitsSchema:
    """The answer is data that fits a JSON Schema; an answer of text is read as JSON."""

    json_schema: JsonObject
    _: KW_ONLY
    name: str = "schema"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_criterion(self)


@dataclass(frozen=True, slots=True)
class Limit:
    """The run uses no more than this."""

    measure: Measure
    most: float
    _: KW_ONLY
    name: str = "limit"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_criterion(self)


@dataclass(frozen=True, slots=True)
class Check:
    """A function says whether, or how well; it may be async. One that fails says no."""

    function: CheckFunction
    _: KW_ONLY
    name: str = "check"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_criterion(self)


@dataclass(frozen=True, slots=True)
class Judge:
    """A model says how well, from 0 to 1; it sees the goal, the task and the answer."""

    question: str
    model: str | LLMProvider
    _: KW_ONLY
    pass_score: float = 0.7
    """From this on the criterion is met."""
    name: str = "judge"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_criterion(self)


Criterion = Exact | Contains | FitsSchema | Limit | Check | Judge
_KINDS: Final = (Exact, Contains, FitsSchema, Limit, Check, Judge)


@dataclass(frozen=True, slots=True)
class Goal:
    """What runs are for, and how one knows that a run got there.

    A run reaches its goal if it completes, keeps every constraint, and the weighted mean of its criteria is
    at least `pass_score`. Runs are found by their `goal_id`.

    Raises:
        Rejected: a part cannot be used; the message says which and what to write.
    """

    goal_id: str
    description: str = ""
    _: KW_ONLY
    criteria: Sequence[Criterion] = ()
    constraints: Sequence[Criterion] = ()
    pass_score: float = 1.0

    def __post_init__(self) -> None:
        check_text(self.goal_id, "goal_id", chars_max=NAME_CHARS_MAX)
        if not self.goal_id:
            raise wrong("a goal has a goal_id, the one that its runs are started with")
        where = f"goal {self.goal_id}"
        check_text(self.description, f"{where}: the description", chars_max=DESCRIPTION_CHARS_MAX)
        for name in ("criteria", "constraints"):
            object.__setattr__(self, name, _criteria(getattr(self, name), f"{where}: {name}"))
        _check_share(self.pass_score, f"{where}: pass_score")


def _criteria(given: object, where: str) -> tuple[Criterion, ...]:
    if isinstance(given, _KINDS):
        kind = type(given).__name__
        raise wrong(f"{where} is a list: write [{kind}(…)], also for a single one")
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong(f"{where} is a list, found {kind_of(given)}")
    items = tuple(cast(Iterable[object], given))
    if len(items) > CRITERIA_MAX:
        raise wrong(f"{where}: found {len(items):,}, limit {CRITERIA_MAX}")
    for item in items:
        if not isinstance(item, _KINDS):
            known = ", ".join(kind.__name__ for kind in _KINDS)
            raise wrong(f"{where} are made of {known}; found {kind_of(item)}")
    return cast(tuple[Criterion, ...], items)


def _check_criterion(item: Criterion) -> None:
    """Refuse a criterion that could not rule, where it is written."""
    kind = type(item).__name__
    check_text(item.name, f"{kind}: the name", chars_max=NAME_CHARS_MAX)
    if not _is_number(item.weight) or item.weight <= 0:
        raise wrong(f"{kind}: the weight of {item.name} is a number above 0, found {item.weight!r}")
    problem = _problem(item)
    if problem is not None:
        raise wrong(f"{kind}: {problem}")


def _problem(item: Criterion) -> str | None:
    match item:
        case FitsSchema():
            return schema_problem(item.json_schema)
        case Contains():
            return _texts_problem(item.texts)
        case Check():
            return _function_problem(item.function)
        case Judge():
            check_text(item.question, "Judge: the question", chars_max=QUESTION_CHARS_MAX)
            _check_share(item.pass_score, "Judge: pass_score")
            return _model_problem(item.model)
        case Limit():
            return _limit_problem(item.measure, item.most)
        case Exact():
            return None


def _texts_problem(texts: object) -> str | None:
    items = (texts,) if isinstance(texts, str) else texts
    is_list = isinstance(items, Sequence) and bool(cast(Sequence[object], items))
    if is_list and all(isinstance(one, str) and one for one in cast(Sequence[object], items)):
        return None
    return f"it takes a text or a list of texts that the answer must contain, found {kind_of(texts)}"


def _function_problem(function: object) -> str | None:
    if not callable(function):
        return f"it takes a function, such as lambda attempt: attempt.output, found {kind_of(function)}"
    try:
        signature(function).bind(None)
    except TypeError:
        return "the function takes one argument, the attempt: lambda attempt: …, def check(attempt): …"
    except ValueError:  # nobody knows what it takes
        return None
    return None


def _model_problem(model: object) -> str | None:
    is_name = isinstance(model, str) and "/" in model
    if is_name or (not isinstance(model, str) and callable(getattr(model, "stream", None))):
        return None
    found = repr(model) if isinstance(model, str) else kind_of(model)
    return f'the model is a name such as "openai/gpt-5", or a provider; found {found}'


def _limit_problem(measure: object, most: object) -> str | None:
    known = get_args(Measure)
    if measure not in known:
        found = repr(measure) if isinstance(measure, str) else kind_of(measure)
        return f"the measure is one of {', '.join(known)}; found {found}{meant([str(measure)], known)}"
    return None if _is_number(most) else f"most is a number, found {kind_of(most)}"


def _check_share(value: object, what: str) -> None:
    if not _is_number(value) or not 0 <= value <= 1:
        raise wrong(f"{what} is a number from 0 to 1, found {value!r}")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
