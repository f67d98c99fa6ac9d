"""Measurements, by contender."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from benchmarks.measure import Row


@dataclass(frozen=True, slots=True)
class Line:
    """The output of one runner: numbers by name."""

    numbers: Mapping[str, float]
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]

    def per_step(self, name: str) -> float:
        return self.numbers[name] / (self.numbers["runs"] * self.numbers["steps"])


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no number: it failed, or it is left out."""

    why: str


Outcome = Line | Problem


def read_line(text: str) -> Outcome:
    """Read the line that a runner printed."""
    raw: dict[str, object] = json.loads(text)
    if "skipped" in raw:
        return Problem(f"left out: {raw['skipped']}")
    numbers = {name: float(value) for name, value in raw.items() if isinstance(value, int | float)}
    versions = cast("dict[str, object]", raw.get("versions") or {})
    return Line(numbers, {name: str(version) for name, version in versions.items()})


@dataclass(slots=True)
class Results:
    """Every outcome of one run of the whole thing."""

    steps: dict[tuple[str, int], Outcome] = field(default_factory=dict[tuple[str, int], Outcome])
    concurrent: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    resume: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    file_read_s: dict[str, float] = field(default_factory=dict[str, float])
    parked: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    imports: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    calls: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    rows: Mapping[str, Row] = field(default_factory=dict[str, Row])
    """Rows of the other sections of the same run, by name; some goals are about them."""

    def keep_best(self, name: str, count: int, *, outcome: Outcome) -> None:
        """Keep the round with the least CPU.

        A failure stays only while nothing better comes.
        """
        before = self.steps.get((name, count))
        if isinstance(outcome, Problem) and before is not None:
            return
        if isinstance(outcome, Line) and isinstance(before, Line) and before["cpu_s"] <= outcome["cpu_s"]:
            return
        self.steps[name, count] = outcome

    def cpu_ms(self, name: str, count: int) -> float | None:
        """Return the CPU of a step in milliseconds."""
        outcome = self.steps.get((name, count))
        return outcome.per_step("cpu_s") * 1e3 if isinstance(outcome, Line) else None

    def more_ms(self, name: str, shorter: int, *, longer: int) -> float | None:
        """Return the CPU of one more step between two lengths.

        It leaves out what a run costs once.
        """
        few, many = self.steps.get((name, shorter)), self.steps.get((name, longer))
        if not isinstance(few, Line) or not isinstance(many, Line):
            return None
        return (many["cpu_s"] - few["cpu_s"]) / (longer - shorter) * 1e3

    def number(self, table: Mapping[str, Outcome], name: str, *, key: str) -> float | None:
        """Return one number of one contender, if there is one."""
        outcome = table.get(name)
        return outcome[key] if isinstance(outcome, Line) else None

    def versions(self) -> dict[str, str]:
        """Return the versions of everything that ran."""
        found: dict[str, str] = {}
        for outcome in self.steps.values():
            if isinstance(outcome, Line):
                found.update(outcome.versions)
        return found

    def problems(self) -> dict[str, str]:
        """Return what went wrong, by what was to be measured."""
        found: dict[str, str] = {}
        steps = [(f"{name}, {count} steps", outcome) for (name, count), outcome in self.steps.items()]
        for scenario in ("concurrent", "resume", "parked", "imports", "calls"):
            table: Mapping[str, Outcome] = getattr(self, scenario)
            steps += [(f"{name}, {scenario}", outcome) for name, outcome in table.items()]
        for what, outcome in steps:
            if isinstance(outcome, Problem):
                found[what] = outcome.why
        return found


def ratio(part: float | None, whole: float | None) -> float | None:
    """Divide, if there are two numbers to divide."""
    return None if part is None or not whole else part / whole
