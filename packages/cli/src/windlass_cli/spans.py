"""The trace of a run: as a tree, and as a waterfall."""

from typing import TYPE_CHECKING, Final, cast

from rich.text import Text
from rich.tree import Tree

from windlass_cli.shapes import MICROS, lasted, moment, seconds, short
from windlass_cli.terminal import Terminal

if TYPE_CHECKING:
    from windlass.catalog import RunTrace
    from windlass.client import TraceInfo
    from windlass_protocol import TraceSpan

BAR_CHARS: Final = 40
NAME_CHARS: Final = 34


def show_tree(terminal: Terminal, trace: "RunTrace | TraceInfo", *, status: str) -> None:
    """Write what a run did, what lies in what, how long it took and what it cost."""
    first = trace.spans[0]
    tree = Tree(Text(f"{trace.trace.trace_id} {status}, {_took(first)}"))
    places = {first.span_id: tree}
    for span in trace.spans[1:]:
        above = places.get(span.parent_id or "", tree)
        places[span.span_id] = above.add(Text(f"{short(span.name)}  {_took(span)}{_spent(span)}"))
        for event in trace.events:
            if event.span_id == span.span_id and not event.name.startswith("policy.allowed"):
                places[span.span_id].add(Text(short(event.name), style="dim"))
    terminal.out.print(tree)


def show_waterfall(terminal: Terminal, trace: "RunTrace | TraceInfo") -> None:
    """Write the spans of a run beside each other on one line of time."""
    begin = moment(trace.spans[0].start_at)
    ends = [moment(span.end_at or span.start_at) for span in trace.spans]
    whole = max((max(ends) - begin).total_seconds(), 0.001)
    depths: dict[str, int] = {}
    for span in trace.spans:
        depth = depths.get(span.parent_id or "", -1) + 1
        depths[span.span_id] = depth
        start = (moment(span.start_at) - begin).total_seconds()
        end = (moment(span.end_at) - begin).total_seconds() if span.end_at else whole
        left = min(int(start / whole * BAR_CHARS), BAR_CHARS - 1)
        width = max(1, min(round((end - start) / whole * BAR_CHARS), BAR_CHARS - left))
        bar = (" " * left + "█" * width).ljust(BAR_CHARS)
        name = (
            short("  " * depth + span.name, NAME_CHARS)
            if not depth
            else "  " * depth + short(span.name, NAME_CHARS - 2 * depth)
        )
        took = seconds(end - start) if span.end_at else "goes on"
        terminal.out.print(Text(f"{name.ljust(NAME_CHARS)} {bar} {took}{_spent(span)}"))


def _took(span: "TraceSpan") -> str:
    return "goes on" if span.end_at is None else lasted(span.start_at, span.end_at)


def _spent(span: "TraceSpan") -> str:
    attrs = span.attrs or {}
    told: list[str] = []
    if "inputTokens" in attrs or "outputTokens" in attrs:
        told.append(f"{attrs.get('inputTokens', 0)}/{attrs.get('outputTokens', 0)} tokens")
    micros = attrs.get("costMicros")
    if micros is not None:
        told.append(f"${cast(int, micros) / MICROS:.4f}")
    return f"  ({', '.join(told)})" if told else ""
