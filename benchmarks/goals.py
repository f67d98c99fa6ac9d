"""The goals: limits of numbers that are measured in one run, and numbers that are only reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.report import table

Numbers = dict[str, float]
"""Measured numbers by the name of their goal."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit of a number."""

    name: str
    what: str
    limit: float | None
    """None: the number is reported, and neither met nor missed."""
    before: str = "–"
    """The number when the goal was set."""
    is_minimum: bool = False
    """Whether the number must be at least the limit; otherwise at most."""
    needs_peers: bool = False
    """Whether it is a ratio to a peer, which a quick run does not measure."""

    def cells(self, number: float | None) -> list[str]:
        """Return the row of the table: what, then, limit, measured, and whether it is met."""
        limit = "–" if self.limit is None else f"{'≥' if self.is_minimum else '≤'} {self.limit:g}"
        if number is None:
            return [self.what, self.before, limit, "–", "not measured"]
        text = f"{number:.0f}" if number >= 100 else f"{number:.3g}"
        return [self.what, self.before, limit, text, self._verdict(number)]

    def _verdict(self, number: float) -> str:
        if self.limit is None:
            return "reported"
        is_met = number >= self.limit if self.is_minimum else number <= self.limit
        return "met" if is_met else "missed"


GOALS: Final = (
    Goal("http_step_ms", "server CPU of a typical HTTP step, ms", 8, "18.4"),
    Goal(
        "streaming_sessions",
        "sessions that stream 50 tokens a second in one process, p99 below 150 ms",
        400,
        "190",
        is_minimum=True,
    ),
    Goal("token_us", "CPU of a token to one reader, µs", 55, "113"),
    Goal("token_ratio", "… / bare Starlette SSE", None, "2.3"),
    Goal("token_bytes", "bytes of a token to one reader", 150, "421"),
    Goal("source_10_ms", "step with 10 kB of source code, power, ms", 1.5, "4.4"),
    Goal("source_60_ms", "step with 60 kB of source code, power, ms", 3, "29"),
    Goal("source_300_ms", "step with 300 kB of source code, power, ms", 10, "86"),
    Goal("source_10_ratio", "… 10 kB / best durable peer", 1, needs_peers=True),
    Goal("source_60_ratio", "… 60 kB / best durable peer", 1, needs_peers=True),
    Goal("source_300_ratio", "… 300 kB / best durable peer", 1, needs_peers=True),
    Goal("rows_60_ms", "step with 60 kB of structured rows, power, ms", 4, "14.6"),
    Goal("stall_ms", "longest stall of the event loop by a result, an image or a resume, ms", 10, "36–130"),
    Goal("image_ms", "CPU before the model is asked, for each MB of an image, ms", 15, "144"),
    Goal("image_mb", "largest image that is accepted, MB", 20, "0.78", is_minimum=True),
    Goal("held_tokens", "tokens of prose held back by masking", 0, "1"),
    Goal("hook_ms", "a hook, ms", 0.1, "0.28"),
    Goal("sync_tool_ms", "a sync tool, ms more than an async one", 0.08, "0.15"),
    Goal("parallel_call", "each of five parallel calls / a step", 0.3, "0.6"),
    Goal(
        "program_ms", "a program of code mode with 20 calls in turn, without its interpreter, ms", 8, "22–26"
    ),
    Goal("worker_s", "cold start of a worker, s of CPU until its first run asks the model", 0.5, "0.8"),
    Goal("memory_us", "one step in memory, µs", None),
    Goal("process_us", "one durable step on SQLite, process, µs", None),
    Goal("power_us", "one durable step on SQLite, power, µs", None),
    Goal("calls", "calls of Python functions a step", None),
    Goal("resume_ms", "resume of 500 steps, ms", None),
    Goal("growth", "CPU a step at 500 / at 10", 1.1),
    Goal("stored", "bytes stored / content at 500", 2),
    Goal("parked_kib", "KiB a parked session", 2),
    Goal("power_ratio", "power / LangGraph, CPU a step at 50", 0.25, needs_peers=True),
)


def goal_table(goals: Sequence[Goal], numbers: Mapping[str, float]) -> str:
    """Return the table of some goals."""
    header = ("goal", "when set", "limit", "measured", "")
    return table(header, [goal.cells(numbers.get(goal.name)) for goal in goals])
