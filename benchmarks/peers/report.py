"""The tables that RESULTS.md shows."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.peers.results import US, Line, Results, cpu_ms, ratio

INTRO = """## Durable steps beside the peers

A step is one answer of a scripted model in the same process that calls one tool (100 bytes of arguments),
and the tool's result (1 kB); the last answer is a text. Each measurement is a process of its own, each peer
lives in an environment of its own (benchmarks/peers/*.txt), and the settings of each runner are at its top
(benchmarks/peers/*_run.py). Imports, opening and a run of three steps come before the clock. CPU is that of
the whole process with all its threads, the least of up to five interleaved rounds (the slow cells have one
or two): other people may use the machine, so wall time is left out. The peers' files have synchronous =
FULL, so «power» is what they compare to. Temporal needs a server: its CPU, bytes and memory are added to
those of the worker. Restate is left out: its server is not on PyPI, where the environments come from."""
SOURCES_NOTE = """Steps whose tool returns source code, the standard library of Python, in a run of {steps};
and, of ours alone, 60 kB of rows as JSON: a step with them needs {rows} ms."""
BYTES_NOTE = """Bytes as multiples of the content (arguments, results, texts). «stored» is
the growth of the database with its log emptied; «written» is what the process passed to write(), where
SQLite's log takes whole pages for each commit. With Temporal it holds what worker and server write to each
other as well."""
RESUME_NOTE = """A process is ended in the middle of the model call after {steps} steps. Another one, which is
warm from a run on another file, opens the file and goes on until the model is asked again with the whole
history. The server of Temporal is there before: it survives a crash of the worker. LangGraph reads one state,
which it has written anew with each step: see «Bytes»."""
CONCURRENT_NOTE = """{runs} runs of {steps} steps at once in one process; of Google ADK at most four at once,
since with 20 SQLite answers «database is locked» to some."""
PARKED_NOTE = """Growth of resident memory for each session, over the second half of the sessions. Ours wait
for a person's consent in the middle of a run; those of the peers had one tool step and wait for their next
message, which is less."""
IMPORT_NOTE = (
    "CPU of a fresh interpreter, above an empty one; of the peers, the names that an application needs. "
    "`hello` is a complete program: an agent with one tool, and one run."
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What was run: the counts that the tables and their notes name."""

    names: Sequence[str]
    counts: Sequence[int]
    sources: Sequence[int]
    source_steps: int
    runs: int
    run_steps: int
    resume_steps: int


def render(results: Results, shape: Shape) -> str:
    """Return the section of RESULTS.md."""
    names, counts = shape.names, shape.counts
    rows_ms = _text(cpu_ms(results.rows), "{:.2f}")
    parts = [
        INTRO,
        _facts(results),
        "### CPU of a step",
        _steps(results, names, counts),
        _servers(results, names, counts[-1]),
        "### Large results",
        _sources(results, names, shape.sources),
        SOURCES_NOTE.format(steps=shape.source_steps, rows=rows_ms),
        "### Bytes",
        _bytes(results, names, counts),
        BYTES_NOTE,
        "### Many runs at once",
        _concurrent(results, names, shape.runs * shape.run_steps),
        CONCURRENT_NOTE.format(runs=shape.runs, steps=shape.run_steps),
        "### Resume",
        _resume(results, names),
        RESUME_NOTE.format(steps=shape.resume_steps),
        "### Parked sessions",
        _parked(results),
        PARKED_NOTE,
        "### Import",
        _imports(results),
        IMPORT_NOTE,
    ]
    if problems := results.problems():
        parts += ["### Not measured", "\n".join(f"- {name}: {why}" for name, why in problems.items())]
    return "\n\n".join(part for part in parts if part) + "\n"


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
    ends = [counts[1], counts[-1]]
    header = ["ms of CPU a step, at", *map(str, counts), *(f"peer / ours at {end}" for end in ends)]
    rows: list[list[str]] = []
    for name in names:
        cells = [_text(results.cpu_ms(name, count), "{:.3f}") for count in counts]
        cells += [_times(results.cpu_ms(name, end), results.cpu_ms(US, end)) for end in ends]
        rows.append([name, *cells])
    return table(header, rows)


def _servers(results: Results, names: Sequence[str], count: int) -> str:
    """Return sentences about the contenders that need a server."""
    sentences: list[str] = []
    for name in names:
        outcome = results.steps.get((name, count))
        if isinstance(outcome, Line) and outcome["server_cpu_s"]:
            part = outcome["server_cpu_s"] / outcome["cpu_s"]
            sentences.append(f"Of {name}, {part:.0%} at {count} is the CPU of the server.")
    return " ".join(sentences)


def _sources(results: Results, names: Sequence[str], sizes: Sequence[int]) -> str:
    header = ["ms of CPU a step, with", *(f"{size // 1_000} kB" for size in sizes)]
    header += [f"peer / ours, {size // 1_000} kB" for size in sizes]
    rows: list[list[str]] = []
    for name in names:
        costs = [cpu_ms(results.sources.get((name, size))) for size in sizes]
        ours = [cpu_ms(results.sources.get((US, size))) for size in sizes]
        if any(cost is not None for cost in costs):
            ratios = [_times(cost, our) for cost, our in zip(costs, ours, strict=True)]
            rows.append([name, *(_text(cost, "{:.2f}") for cost in costs), *ratios])
    return table(header, rows)


def _bytes(results: Results, names: Sequence[str], counts: Sequence[int]) -> str:
    shown = (counts[0], counts[1], counts[-1])
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


def _concurrent(results: Results, names: Sequence[str], steps: int) -> str:
    rows: list[list[str]] = []
    ours = results.number(results.concurrent, US, key="cpu_s")
    for name in names:
        cpu = results.number(results.concurrent, name, key="cpu_s")
        each = ratio(cpu, steps)
        rows.append([name, _text(cpu, "{:.2f}"), _text(each and each * 1e3, "{:.3f}"), _times(cpu, ours)])
    return table(("", "s of CPU", "ms a step", "peer / ours"), rows)


def _resume(results: Results, names: Sequence[str]) -> str:
    ours = results.number(results.resume, US, key="cpu_s")
    rows: list[list[str]] = []
    for name in names:
        if name not in results.resume:
            continue
        cpu = results.number(results.resume, name, key="cpu_s")
        messages = results.number(results.resume, name, key="history")
        rows.append([name, _text(cpu and cpu * 1e3, "{:.1f}"), _text(messages, "{:.0f}"), _times(cpu, ours)])
    return table(("", "ms of CPU", "messages", "peer / ours"), rows)


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
    return f"SQLite {sqlite3.sqlite_version}; {versions}."


def _text(number: float | None, form: str) -> str:
    return "–" if number is None else form.format(number)


def _times(part: float | None, whole: float | None) -> str:
    number = ratio(part, whole)
    digits = 2 if number is None or number < 10 else 1 if number < 100 else 0
    return _text(number, f"{{:.{digits}f}}")
