"""Measurements, by contender."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

US = "Windlass, power"
PROCESS = "Windlass, process"
MEMORY = "Windlass (memory)"
PEER = "LangGraph"
NAMES = "from windlass import Agent, AgentRuntime, tool"


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


def read_line(text: str) -> Line:
    """Read the line that a runner printed."""
    raw: dict[str, object] = json.loads(text)
    numbers = {name: float(value) for name, value in raw.items() if isinstance(value, int | float)}
    versions = cast("dict[str, object]", raw.get("versions") or {})
    return Line(numbers, {name: str(version) for name, version in versions.items()})


@dataclass(slots=True)
class Results:
    """Every outcome of one run of the whole thing."""

    steps: dict[tuple[str, int], Outcome] = field(default_factory=dict[tuple[str, int], Outcome])
    concurrent: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    resume: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    parked: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    imports: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    calls: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    sources: dict[tuple[str, int], Outcome] = field(default_factory=dict[tuple[str, int], Outcome])
    """Steps with source code as results, by contender and size."""
    rows: Outcome = Problem("never ran")
    """Steps with structured rows as results."""

    def cpu_ms(self, name: str, count: int) -> float | None:
        """Return the CPU of a step in milliseconds."""
        return cpu_ms(self.steps.get((name, count)))

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
        steps += [(f"{name}, {size} of source", outcome) for (name, size), outcome in self.sources.items()]
        steps.append(("steps with rows", self.rows))
        for scenario in ("concurrent", "resume", "parked", "imports", "calls"):
            table: Mapping[str, Outcome] = getattr(self, scenario)
            steps += [(f"{name}, {scenario}", outcome) for name, outcome in table.items()]
        for what, outcome in steps:
            if isinstance(outcome, Problem):
                found[what] = outcome.why
        return found


def keep_best(cells: dict[tuple[str, int], Outcome], cell: tuple[str, int], outcome: Outcome) -> None:
    """Keep the round with the least CPU; a failure stays only while nothing better comes."""
    before = cells.get(cell)
    if isinstance(outcome, Problem) and before is not None:
        return
    if isinstance(outcome, Line) and isinstance(before, Line) and before["cpu_s"] <= outcome["cpu_s"]:
        return
    cells[cell] = outcome


def cpu_ms(outcome: Outcome | None) -> float | None:
    """Return the CPU of a step in milliseconds."""
    return outcome.per_step("cpu_s") * 1e3 if isinstance(outcome, Line) else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """Divide, if there are two numbers to divide."""
    return None if part is None or not whole else part / whole
