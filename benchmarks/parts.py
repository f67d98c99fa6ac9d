"""Cost of the parts: imports, the codec, rules and folds, and the loop."""

import json
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Parser

from benchmarks import loop
from benchmarks.goals import Numbers
from benchmarks.loop import loop_numbers, loop_rows
from benchmarks.measure import FULL, QUICK, Effort, Row, compare, start_up
from benchmarks.samples import event_bytes, journal
from windlass_harness import classify_shell_command, sanitize_for_trace
from windlass_harness.views import fold_chat, fold_session, fold_usage
from windlass_protocol import Event, JsonValue, decode, encode, parse

COMMAND: Final = "grep -rn TODO src/ | sort | uniq -c | sort -rn | head -20"
INTRO: Final = """## The parts

CPU time, the best of interleaved rounds. Times are of one machine and say little; the ratios compare two
pieces of work in the same run."""


def codec_rows(effort: Effort) -> list[Row]:
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
                effort=effort,
            ),
            compare(
                f"decode, {name}",
                lambda raw=raw: decode(Event, raw),
                to="json.loads",
                other=lambda raw=raw: json.loads(raw),
                effort=effort,
            ),
            compare(
                f"encode, {name}",
                lambda e=event: encode(e),
                to="json.dumps",
                other=lambda v=value: json.dumps(v),
                effort=effort,
            ),
        ]
    return rows


def rule_rows(effort: Effort) -> list[Row]:
    value: JsonValue = json.loads(event_bytes(1_000))
    parser = Parser(Language(tree_sitter_bash.language()))
    source = COMMAND.encode()
    return [
        compare(
            "sanitize_for_trace, 1 KB",
            lambda: sanitize_for_trace(value),
            to="json.dumps",
            other=lambda: json.dumps(value),
            effort=effort,
        ),
        compare(
            "classify_shell_command, a pipe of five",
            lambda: classify_shell_command(COMMAND),
            to="tree-sitter parse of it",
            other=lambda: parser.parse(source),
            effort=effort,
        ),
    ]


def fold_rows(effort: Effort) -> list[Row]:
    rows: list[Row] = []
    short, long = journal(10), journal(500)
    for name, fold in (("session", fold_session), ("chat", fold_chat), ("usage", fold_usage)):
        row = compare(
            f"fold {name}, a record of 500 steps",
            lambda f=fold: f(long),
            to="",
            other=lambda f=fold: f(short),
            effort=effort,
        )
        ratio = row.ratio * len(short) / len(long) if row.ratio else None
        rows.append(Row(row.what, row.cost / len(long), row.unit, "a record of 10 steps", ratio))
    return rows


def import_rows(effort: Effort) -> list[Row]:
    pydantic, types = "from pydantic import BaseModel", "from windlass_protocol import Event, decode"
    return [
        start_up(
            "import windlass_protocol",
            "import windlass_protocol",
            to="import pydantic",
            other=pydantic,
            effort=effort,
        ),
        start_up(
            "… and Event and decode",
            "from windlass_protocol import Event, decode",
            to="import pydantic",
            other=pydantic,
            effort=effort,
        ),
        start_up(
            "… and the shell grader",
            f"{types}; from windlass_harness import classify_shell_command",
            to="import pydantic",
            other=pydantic,
            effort=effort,
        ),
    ]


def _ratio(row: Row) -> str:
    return "–" if row.ratio is None else f"{row.ratio:.2f}"


def tell(rows: list[Row]) -> list[Row]:
    """Print lines of the table, and return them."""
    for row in rows:
        print(f"{row.what}: {row.cost:.1f} {row.unit}, {_ratio(row)} x {row.baseline}", flush=True)
    return rows


def report(*, is_quick: bool = False) -> tuple[str, Numbers]:
    """Measure protocol, harness and loop; return the section of RESULTS.md and its numbers."""
    effort = QUICK if is_quick else FULL
    rows: list[Row] = []
    for part in (import_rows, codec_rows, rule_rows, fold_rows):
        rows += tell(part(effort))
    inner = tell(loop_rows(loop.QUICK if is_quick else loop.FULL, effort))
    lines = [
        f"| {row.what} | {row.cost:.1f} {row.unit} | {row.baseline} | {_ratio(row)} |"
        for row in (*rows, *inner)
    ]
    table = "\n".join(("| what | cost | compared to | ratio |", "|---|---:|---|---:|", *lines))
    return f"{INTRO}\n\n{table}\n", loop_numbers(inner)
