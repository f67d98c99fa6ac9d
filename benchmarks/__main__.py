"""`make bench`: measures every section, and writes them and the goals to RESULTS.md.

`--quick` runs every section once and short, without the peers, and writes nothing: its numbers say nothing,
but each measurement has run. `--only` runs one section; the goals belong to one run, and are written by a run
of all. A section that fails is named, the others go on, and the exit code is 1. A missed goal is no failure.
"""

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import durable_step, heavy, http, inspector, parts, recorder, shared, streams
from benchmarks.goals import GOALS, Numbers, goal_table

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
INTRO: Final = """# Measurements

Made by `make bench`. CPU is that of whole processes, and ratios compare two pieces of work in the same run:
they hold on other machines better than times do."""
GOALS_INTRO: Final = """## Goals

All are measured in one run; the sections below say how. «when set» is the number when the goal was set. A
number without a limit is reported."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report."""

    name: str
    title: str
    """The name in the lines that mark it in RESULTS.md."""
    full: Callable[[], tuple[str, Numbers]]
    quick: Callable[[], tuple[str, Numbers]]


SECTIONS: Final = (
    Section("parts", "parts", parts.report, lambda: parts.report(is_quick=True)),
    Section("recorder", "recorder", recorder.report, lambda: recorder.report(recorder.QUICK)),
    Section("http", "over HTTP", http.report, lambda: http.report(http.QUICK)),
    Section("streams", "streams", streams.report, lambda: streams.report(streams.QUICK)),
    Section("heavy", "large contents", heavy.report, lambda: heavy.report(heavy.QUICK)),
    Section("inspector", "inspector", inspector.report, lambda: inspector.report(inspector.QUICK)),
    Section(
        "steps",
        "durable steps",
        lambda: durable_step.report(durable_step.FULL),
        lambda: durable_step.report(durable_step.QUICK),
    ),
    Section("shared", "on PostgreSQL", shared.report, lambda: shared.report(shared.QUICK)),
)
GOALS_TITLE: Final = "goals"


@dataclass(slots=True)
class Outcome:
    """What the sections of a run brought."""

    texts: dict[str, str]
    """By the title of the section."""
    numbers: Numbers
    failed: list[str]


def run(sections: Sequence[Section], *, is_quick: bool, keep: Callable[[str, str], None]) -> Outcome:
    """Measure sections, and hand each to `keep` when it is there; one that fails does not end the run."""
    outcome = Outcome({}, {}, [])
    for section in sections:
        print(f"== {section.name}", flush=True)
        before = os.getloadavg()
        try:
            text, numbers = (section.quick if is_quick else section.full)()
        except Exception:  # noqa: BLE001 - it is shown, and fails the run once the others are measured
            traceback.print_exc()
            outcome.failed.append(section.name)
            continue
        outcome.texts[section.title] = f"{text.strip()}\n\n{facts(before)}"
        outcome.numbers |= numbers
        keep(section.title, outcome.texts[section.title])
    return outcome


def facts(before: tuple[float, float, float]) -> str:
    """Return when, where and at which load something was measured that ends now."""
    loads = [" ".join(f"{part:.1f}" for part in load) for load in (before, os.getloadavg())]
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {os.cpu_count()} x {_processor()}, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}; "
        f"load average {loads[0]} before, {loads[1]} after."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def goals_text(numbers: Mapping[str, float], before: tuple[float, float, float]) -> str:
    """Return the section of the goals."""
    return f"{GOALS_INTRO}\n\n{goal_table(GOALS, numbers)}\n\n{facts(before)}"


def texts_of(report: str) -> dict[str, str]:
    """Return the sections of a report by their titles; those that are there."""
    texts: dict[str, str] = {}
    for title in (GOALS_TITLE, *(section.title for section in SECTIONS)):
        _, begin, rest = report.partition(f"<!-- {title}: begin -->\n")
        if begin:
            texts[title] = rest.partition(f"<!-- {title}: end -->")[0].strip()
    return texts


def write(title: str, text: str) -> None:
    """Put a section into the report; the others stay as they are."""
    print(text, flush=True)
    texts = texts_of(RESULTS.read_text("utf-8")) | {title: text}
    blocks = [
        f"<!-- {each}: begin -->\n{texts[each]}\n<!-- {each}: end -->"
        for each in (GOALS_TITLE, *(section.title for section in SECTIONS))
        if each in texts
    ]
    RESULTS.write_text("\n\n".join([INTRO, *blocks]) + "\n", "utf-8")


def show(title: str, text: str) -> None:
    """Print a section, and write nothing."""
    print(text, flush=True)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="every measurement once and short; writes nothing"
    )
    parser.add_argument("--only", choices=[section.name for section in SECTIONS], help="one section alone")
    options = parser.parse_args()
    before = os.getloadavg()
    keep = show if options.quick else write
    sections = [section for section in SECTIONS if options.only in (None, section.name)]
    outcome = run(sections, is_quick=options.quick, keep=keep)
    is_whole = options.only is None
    (keep if is_whole else show)(GOALS_TITLE, goals_text(outcome.numbers, before))
    if outcome.failed:
        print(f"failed: {', '.join(outcome.failed)}", file=sys.stderr)
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
