"""`make bench`: measures parts, recorder, HTTP, inspector, durable step and fleet; writes RESULTS.md.

`--quick` runs the loop and the durable step, short, and writes nothing; `--only` runs one of the sections.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import tree_sitter_bash
from tree_sitter import Language, Parser

from benchmarks import loop
from benchmarks.durable_step import FULL, SHORT, measure_all, section
from benchmarks.http import report as http_report
from benchmarks.inspector import report as inspector_report
from benchmarks.loop import loop_rows
from benchmarks.measure import Row, compare, start_up
from benchmarks.recorder import report as recorder_report
from benchmarks.samples import event_bytes, journal
from benchmarks.shared import report as shared_report
from windlass_harness import classify_shell_command, sanitize_for_trace
from windlass_harness.views import fold_chat, fold_session, fold_usage
from windlass_protocol import Event, JsonValue, decode, encode, parse

RESULTS = Path(__file__).with_name("RESULTS.md")
PEERS_BEGIN = "<!-- durable steps: begin -->"
PEERS_END = "<!-- durable steps: end -->"
RECORDER_BEGIN = "<!-- recorder: begin -->"
RECORDER_END = "<!-- recorder: end -->"
HTTP_BEGIN = "<!-- over HTTP: begin -->"
HTTP_END = "<!-- over HTTP: end -->"
PAGES_BEGIN = "<!-- inspector: begin -->"
PAGES_END = "<!-- inspector: end -->"
SHARED_BEGIN = "<!-- on PostgreSQL: begin -->"
SHARED_END = "<!-- on PostgreSQL: end -->"
SECTIONS = {
    RECORDER_BEGIN: RECORDER_END,
    HTTP_BEGIN: HTTP_END,
    PAGES_BEGIN: PAGES_END,
    PEERS_BEGIN: PEERS_END,
    SHARED_BEGIN: SHARED_END,
}
"""First and last lines of the sections, in their order."""
COMMAND = "grep -rn TODO src/ | sort | uniq -c | sort -rn | head -20"
HEADER = """# Measurements

Made by `make bench`: the best of seven interleaved rounds of CPU time. Times are of one machine and say
little; the ratios compare two pieces of work in the same run.

| what | cost | compared to | ratio |
|---|---:|---|---:|
"""


def codec_rows() -> list[Row]:
    rows: list[Row] = []
    for size in (1_000, 100_000):
        raw = event_bytes(size)
        event, value = decode(Event, raw), json.loads(raw)
        name = f"{size // 1000} KB event"
        rows += [
            compare(
                f"parse, {name}",
                lambda raw=raw: parse(raw),
                to="json.loads",
                other=lambda raw=raw: json.loads(raw),
            ),
            compare(
                f"decode, {name}",
                lambda raw=raw: decode(Event, raw),
                to="json.loads",
                other=lambda raw=raw: json.loads(raw),
            ),
            compare(
                f"encode, {name}",
                lambda e=event: encode(e),
                to="json.dumps",
                other=lambda v=value: json.dumps(v),
            ),
        ]
    return rows


def rule_rows() -> list[Row]:
    value: JsonValue = json.loads(event_bytes(1_000))
    parser = Parser(Language(tree_sitter_bash.language()))
    source = COMMAND.encode()
    return [
        compare(
            "sanitize_for_trace, 1 KB",
            lambda: sanitize_for_trace(value),
            to="json.dumps",
            other=lambda: json.dumps(value),
        ),
        compare(
            "classify_shell_command, a pipe of five",
            lambda: classify_shell_command(COMMAND),
            to="tree-sitter parse of it",
            other=lambda: parser.parse(source),
        ),
    ]


def fold_rows() -> list[Row]:
    rows: list[Row] = []
    short, long = journal(10), journal(500)
    for name, fold in (("session", fold_session), ("chat", fold_chat), ("usage", fold_usage)):
        row = compare(
            f"fold {name}, a record of 500 steps",
            lambda f=fold: f(long),
            to="",
            other=lambda f=fold: f(short),
        )
        ratio = row.ratio * len(short) / len(long) if row.ratio else None
        rows.append(Row(row.what, row.cost / len(long), row.unit, "a record of 10 steps", ratio))
    return rows


def import_rows() -> list[Row]:
    pydantic, types = "from pydantic import BaseModel", "from windlass_protocol import Event, decode"
    return [
        start_up(
            "import windlass_protocol", "import windlass_protocol", to="import pydantic", other=pydantic
        ),
        start_up(
            "… and Event and decode",
            "from windlass_protocol import Event, decode",
            to="import pydantic",
            other=pydantic,
        ),
        start_up(
            "… and the shell grader",
            f"{types}; from windlass_harness import classify_shell_command",
            to="import pydantic",
            other=pydantic,
        ),
    ]


def _ratio(row: Row) -> str:
    return "–" if row.ratio is None else f"{row.ratio:.2f}"


def tell(rows: list[Row]) -> list[Row]:
    """Print lines of the table, and return them."""
    for row in rows:
        print(f"{row.what}: {row.cost:.1f} {row.unit}, {_ratio(row)} x {row.baseline}", flush=True)
    return rows


def write_parts() -> list[Row]:
    """Measure protocol, harness and loop, and return the rows; the other sections stay as they are."""
    rows: list[Row] = []
    for part in (import_rows, codec_rows, rule_rows, fold_rows, loop_rows):
        rows += tell(part())
    lines = [f"| {row.what} | {row.cost:.1f} {row.unit} | {row.baseline} | {_ratio(row)} |" for row in rows]
    load = " ".join(f"{part:.2f}" for part in os.getloadavg())
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    facts = f"{machine}; load average at the end {load}."
    _write(HEADER + "\n".join(lines) + f"\n\n{facts}", sections(RESULTS.read_text("utf-8")))
    return rows


def sections(text: str) -> dict[str, str]:
    """Return the sections of the report by their first lines; those that are there."""
    return {
        begin: text.partition(begin)[2].partition(end)[0].strip()
        for begin, end in SECTIONS.items()
        if begin in text
    }


def _write(head: str, found: dict[str, str]) -> None:
    parts = [f"{begin}\n{found[begin]}\n{end}" for begin, end in SECTIONS.items() if begin in found]
    RESULTS.write_text("\n\n".join([head.rstrip(), *parts]) + "\n", "utf-8")


def write_section(begin: str, section_text: str) -> None:
    """Put a section into the report; the others stay as they are."""
    print(section_text)
    text = RESULTS.read_text("utf-8")
    found = sections(text) | {begin: section_text.strip()}
    head = min((text.partition(each)[0] for each in SECTIONS), key=len)
    _write(head, found)


def write_durable_steps(rows: Sequence[Row]) -> None:
    """Measure the durable step beside the raw floor and the peers.

    Some goals are about the parts; their rows are those of the same run, if there are any.
    """
    results = measure_all(FULL)
    results.rows = {row.what: row for row in rows}
    write_section(PEERS_BEGIN, section(results, FULL))


def write_recorder() -> None:
    """Measure the recorder beside a baseline."""
    write_section(RECORDER_BEGIN, recorder_report())


def write_http() -> None:
    """Measure runs over HTTP beside the server of a peer."""
    write_section(HTTP_BEGIN, http_report())


def write_inspector() -> None:
    """Measure the pages of the inspector in a browser."""
    write_section(PAGES_BEGIN, inspector_report())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="the loop and the durable step, short; writes nothing"
    )
    parts = ["parts", "recorder", "http", "inspector", "steps", "shared"]
    parser.add_argument("--only", choices=parts, help="one section alone")
    options = parser.parse_args()
    if options.quick:
        if options.only != "steps":
            tell(loop_rows(loop.SHORT))
        if options.only != "parts":
            print(section(measure_all(SHORT), SHORT))
        return 0
    rows: list[Row] = []
    if options.only in (None, "parts"):
        rows = write_parts()
    if options.only in (None, "recorder"):
        write_recorder()
    if options.only in (None, "http"):
        write_http()
    if options.only in (None, "inspector"):
        write_inspector()
    if options.only in (None, "steps"):
        write_durable_steps(rows)
    if options.only in (None, "shared"):
        write_section(SHARED_BEGIN, shared_report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
