"""Criteria: what a run has to do to reach a goal."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from typing import Final, TypeGuard, cast

from pydantic import JsonValue

from windlass.definitions import check_text, kind_of, wrong
from windlass.output_schema import schema_problem
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


@dataclass(frozen=True, slots=True)
class Contains:
    """The answer contains all of these texts; some of them are a part of the score."""

    texts: Sequence[str] | str
    _: KW_ONLY
    is_case_sensitive: bool = False
    name: str = "contains"
    weight: float = 1.0

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


@dataclass(frozen=True, slots=True)
class Limit:
    """The run uses no more than this."""

    measure: Measure
    most: float
    _: KW_ONLY
    name: str = "limit"
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """A function says whether, or how well; it may be async. One that fails says no."""

    function: CheckFunction
    _: KW_ONLY
    name: str = "check"
    weight: float = 1.0


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
            items = tuple(getattr(self, name))
            if len(items) > CRITERIA_MAX:
                raise wrong(f"{where}: {name}: found {len(items):,}, limit {CRITERIA_MAX}")
            for item in items:
                _check_criterion(item, f"{where}: {name}")
            object.__setattr__(self, name, items)
        _check_share(self.pass_score, f"{where}: pass_score")


def _check_criterion(item: object, where: str) -> None:
    if not isinstance(item, _KINDS):
        known = ", ".join(kind.__name__ for kind in _KINDS)
        raise wrong(f"{where} are made of {known}; found {kind_of(item)}")
    check_text(item.name, f"{where}: the name", chars_max=NAME_CHARS_MAX)
    if not _is_number(item.weight) or item.weight <= 0:
        raise wrong(f"{where}: the weight of {item.name} is a number above 0, found {item.weight!r}")
    match item:
        case FitsSchema():
            problem = schema_problem(item.json_schema)
        case Contains():
            texts = cast(tuple[object, ...], item.wanted)
            is_good = bool(texts) and all(isinstance(one, str) and one for one in texts)
            problem = None if is_good else "Contains takes a text or a list of texts"
        case Check():
            problem = (
                None if callable(item.function) else f"Check takes a function, found {kind_of(item.function)}"
            )
        case Judge():
            check_text(item.question, f"{where}: the question", chars_max=QUESTION_CHARS_MAX)
            _check_share(item.pass_score, f"{where}: pass_score")
            problem = None
        case Limit():
            problem = None if _is_number(item.most) else f"most is a number, found {kind_of(item.most)}"
        case Exact():
            problem = None
    if problem is not None:
        raise wrong(f"{where}: {item.name}: {problem}")


def _check_share(value: object, what: str) -> None:
    if not _is_number(value) or not 0 <= value <= 1:
        raise wrong(f"{what} is a number from 0 to 1, found {value!r}")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
