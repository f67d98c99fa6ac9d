"""The tables that RESULTS.md shows."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers.goals import PROCESS, RAW_FULL, RAW_NORMAL, RAW_READ, US, Goal, goals_of
from benchmarks.peers.results import Line, Results, ratio

INTRO = """## Durable steps beside the peers

A step is one answer of a scripted model in the same process that calls one tool (100 bytes of arguments),
and the tool's result (1 kB); the last answer is a text. Each measurement is a process of its own, each peer
lives in an environment of its own (benchmarks/peers/*.txt), and the settings of each runner are at its top
(benchmarks/peers/*_run.py). Imports, opening and a run of three steps come before the clock. CPU is that of
the whole process with all its threads, the least of up to five interleaved rounds (the slow cells have one
or two): other people may use the machine, so wall time is left out. The raw floor is the same commits, two
a step, with the same bytes in plain sqlite3. The peers' files have synchronous = FULL, so «power» and «raw
FULL» are what they compare to. agent-framework stores nothing; «Windlass (memory)» is the loop to compare it
to, with all its records. Temporal needs a server: its CPU, bytes and memory are added to those of the
worker. Restate is left out: its server is not on PyPI, where the environments come from."""
STEPS_NOTE = """«more» is the cost of one more step between the last two columns: it leaves out what a run
costs once."""
BYTES_NOTE = """Bytes as multiples of the content (arguments, results, texts). «stored» is
the growth of the database with its log emptied; «written» is what the process passed to write(), where
SQLite's log takes whole pages for each commit: the raw floor has that too. With Temporal it holds what worker
and server write to each other as well."""
RESUME_NOTE = """A process is ended in the middle of the model call after 500 steps. Another one, which is
warm from a run on another file, opens the file and goes on until the model is asked again with the whole
history. The server of Temporal is there before: it survives a crash of the worker. «own file» is what plain
sqlite3 needs to read every row of that contender's file; «raw read» is the raw floor's."""
CONCURRENT_NOTE = """200 runs of 20 steps at once in one process; of Google ADK at most four at once, since
with 20 SQLite answers «database is locked» to some."""
PARKED_NOTE = """Growth of resident memory for each session, over the second half of the sessions. Ours wait
for a person's consent in the middle of a run; those of the peers had one tool step and wait for their next
message, which is less."""
IMPORT_NOTE = (
    "CPU of a fresh interpreter, above an empty one; of the peers, the names that an application needs. "
    "`hello` is a complete program: an agent with one tool, and one run."
)

GOALS_NOTE = """Earlier reports had other limits: 3 for process / raw NORMAL, 0.1 and 0.05 beside
LangGraph, 0.1 for many runs at once, and resume and bytes beside the raw read and the content, which no
store with checksums meets.

Why goals are missed:

- **CPU beside the raw floor, LangGraph and agent-framework.** A step builds the prompt, calls model and
  tool each in a task, validates and judges the call, masks secrets, makes and folds six records, encodes
  and commits them twice, and tells the feed. No part of it is above a sixth, and each runs for every step.
  SQLite doubles that with `process` (two transactions of four pages, packing, checksums, checkpoints) and
  adds the syncs, and the thread that waits for them, with `power`. agent-framework keeps no record, judges
  nothing and cannot go on after a crash. No cost grows with the history.
- **Many runs at once** do the same work for each step; a sync is shared by all that wait for it.
- **Bytes written.** A commit writes whole pages: the floor itself writes eleven times the content. An
  append changes one page of records, one of their index, one of the session's row and one of its index;
  the row holds the sealed end of the session, so that a journal with its tail cut off is noticed when it
  is read.
- **Resume** reads, checks, inflates, parses and folds the records of the run that was killed, opens a
  store and claims the session. LangGraph reads one state, which it has written anew with each step: see
  «Bytes»."""


def render(results: Results, names: Sequence[str], *, counts: Sequence[int]) -> str:
    """Return the section of RESULTS.md."""
    parts = [
        INTRO,
        _facts(results),
        "### CPU of a step",
        _steps(results, names, counts),
        STEPS_NOTE + _servers(results, names, counts[-1]),
        "### Bytes",
        _bytes(results, names, counts),
        BYTES_NOTE,
    ]
    if results.concurrent:
        parts += ["### Many runs at once", _concurrent(results, names), CONCURRENT_NOTE]
        parts += ["### Resume", _resume(results, [*names, "raw FULL, decoded"]), RESUME_NOTE]
        parts += ["### Parked sessions", _parked(results), PARKED_NOTE]
    parts += ["### Import", _imports(results), IMPORT_NOTE]
    if results.concurrent:
        parts += ["### Goals", goal_table(goals_of(results)), GOALS_NOTE]
    if problems := results.problems():
        parts += ["### Not measured", "\n".join(f"- {name}: {why}" for name, why in problems.items())]
    return "\n\n".join(parts) + "\n"


def goal_table(goals: Sequence[Goal]) -> str:
    """Return the table of some goals."""
    return table(("goal", "limit", "measured", ""), [goal.cells() for goal in goals])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns; all but the first to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        )
        return "| " + " | ".join((first, *others)) + " |"

    rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":") for i, w in enumerate(widths)) + "|"
    return "\n".join((line(header), rule, *(line(row) for row in rows)))


def _steps(results: Results, names: Sequence[str], counts: Sequence[int]) -> str:
    header = ["ms of CPU a step, at", *map(str, counts), "more"]
    ends = [counts[0], counts[-1]] if len(counts) < 3 else [50, counts[-1]]
    header += [f"x raw at {end}" for end in ends] + [f"peer / ours at {end}" for end in ends]
    rows: list[list[str]] = []
    for name in names:
        cells = [_text(results.cpu_ms(name, count), "{:.3f}") for count in counts]
        cells.append(_text(results.more_ms(name, counts[-2], longer=counts[-1]), "{:.3f}"))
        floor = RAW_NORMAL if name in (RAW_NORMAL, PROCESS) else RAW_FULL
        cells += [_times(results.cpu_ms(name, end), results.cpu_ms(floor, end)) for end in ends]
        cells += [_times(results.cpu_ms(name, end), results.cpu_ms(US, end)) for end in ends]
        rows.append([name, *cells])
    return table(header, rows)


def _servers(results: Results, names: Sequence[str], count: int) -> str:
    """Return sentences about the contenders that need a server."""
    told = ""
    for name in names:
        outcome = results.steps.get((name, count))
        if isinstance(outcome, Line) and outcome["server_cpu_s"]:
            part = outcome["server_cpu_s"] / outcome["cpu_s"]
            told += f" Of {name}, {part:.0%} at {count} is the CPU of the server."
    return told


def _bytes(results: Results, names: Sequence[str], counts: Sequence[int]) -> str:
    shown = (counts[0], 50, counts[-1]) if len(counts) > 2 else counts
    header = ["x content, at", *(f"stored {n}" for n in shown), *(f"written {n}" for n in shown)]
    rows: list[list[str]] = []
    for name in names:
        cells = [name]
        for key in ("stored", "wchar"):
            for count in shown:
                outcome = results.steps.get((name, count))
                number = (
                    ratio(outcome.numbers.get(key), outcome["content"]) if isinstance(outcome, Line) else None
                )
                cells.append(_text(number, "{:.1f}"))
        rows.append(cells)
    return table(header, rows)


def _concurrent(results: Results, names: Sequence[str]) -> str:
    rows: list[list[str]] = []
    for name in names:
        cpu = results.number(results.concurrent, name, key="cpu_s")
        ours, raw = (results.number(results.concurrent, other, key="cpu_s") for other in (US, RAW_FULL))
        each = ratio(cpu, 4000)
        rows.append(
            [
                name,
                _text(cpu, "{:.2f}"),
                _text(each and each * 1e3, "{:.3f}"),
                _times(cpu, raw),
                _times(cpu, ours),
            ]
        )
    return table(("", "s of CPU", "ms a step", "x raw FULL", "peer / ours"), rows)


def _resume(results: Results, names: Sequence[str]) -> str:
    raw = results.number(results.resume, RAW_READ, key="cpu_s")
    ours = results.number(results.resume, US, key="cpu_s")
    rows: list[list[str]] = []
    for name in names:
        if name not in results.resume:
            continue
        cpu = results.number(results.resume, name, key="cpu_s")
        own = results.file_read_s.get(name)
        seen = results.number(results.resume, name, key="history")
        rows.append(
            [
                name,
                _text(cpu and cpu * 1e3, "{:.1f}"),
                _text(seen, "{:.0f}"),
                _times(cpu, raw),
                _text(own and own * 1e3, "{:.1f}"),
                _times(cpu, own),
                _times(cpu, ours),
            ]
        )
    header = ("", "ms of CPU", "messages", "x raw read", "own file, ms", "x own file", "peer / ours")
    return table(header, rows)


def _parked(results: Results) -> str:
    rows: list[list[str]] = []
    for name in results.parked:
        size = results.number(results.parked, name, key="per_session")
        count = results.number(results.parked, name, key="sessions")
        rows.append([name, _text(count, "{:.0f}"), _text(None if size is None else size / 1024, "{:.2f}")])
    return table(("", "sessions", "KiB a session"), rows)


def _imports(results: Results) -> str:
    rows: list[list[str]] = []
    for code in results.imports:
        cpu = results.number(results.imports, code, key="cpu_s")
        rows.append([f"`{code}`", _text(None if cpu is None else cpu * 1e3, "{:.0f}")])
    return table(("", "ms of CPU"), rows)


def _facts(results: Results) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in sorted(results.versions().items()))
    load = " ".join(f"{part:.2f}" for part in os.getloadavg())
    return "\n".join(
        (
            "- command: `make bench`",
            f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load average at the end {load}",
            f"- machine: {os.cpu_count()} x {_processor()}, {platform.system()} {platform.machine()}",
            f"- Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; {versions}",
        )
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.processor()
    )


def _text(number: float | None, form: str) -> str:
    return "–" if number is None else form.format(number)


def _times(part: float | None, whole: float | None) -> str:
    number = ratio(part, whole)
    digits = 2 if number is None or number < 10 else 1 if number < 100 else 0
    return _text(number, f"{{:.{digits}f}}")
