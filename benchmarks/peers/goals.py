"""The goals: limits of ratios, times and counts that were measured in one run."""

from dataclasses import dataclass

from benchmarks.peers.results import Results, ratio

US = "Windlass, power"
PROCESS = "Windlass, process"
MEMORY = "Windlass (memory)"
WAITING = "Windlass, waiting for consent"
RAW_FULL = "raw FULL"
RAW_NORMAL = "raw NORMAL"
RAW_READ = RAW_FULL
PEER = "LangGraph"
MEMORY_PEER = "agent-framework (memory)"
DURABLE_PEERS = (
    "LangGraph",
    "LangGraph, delta",
    "OpenAI Agents",
    "Google ADK",
    "pydantic-ai + DBOS",
    "pydantic-ai + Temporal",
)
SHORT, MIDDLE, LATE, LONG = 10, 50, 200, 500
NAMES = "from windlass import Agent, AgentRuntime, tool"
DELTA = "a delta, readers: 100"


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit, and the number that was measured."""

    what: str
    limit: float
    measured: float | None
    is_minimum: bool = False
    """Whether the number must be at least the limit; otherwise at most."""

    def cells(self) -> list[str]:
        """Return the row of the table: what, limit, measured, and whether it is met."""
        limit = f"{'≥' if self.is_minimum else '≤'} {self.limit:g}"
        if self.measured is None:
            return [self.what, limit, "–", "not measured"]
        is_met = self.measured >= self.limit if self.is_minimum else self.measured <= self.limit
        number = f"{self.measured:.0f}" if self.measured >= 100 else f"{self.measured:.3g}"
        return [self.what, limit, number, "met" if is_met else "missed"]


def goals_of(results: Results) -> list[Goal]:
    """Return the goals of the durable steps."""
    return [*_step_goals(results), *_other_goals(results)]


def _step_goals(results: Results) -> list[Goal]:
    goals: list[Goal] = []
    for ours, peer, what, limits in (
        (MEMORY, MEMORY_PEER, "in memory / agent-framework", {MIDDLE: 1, LONG: 0.4}),
        (US, PEER, "power / LangGraph", {MIDDLE: 0.15, LONG: 0.06}),
        (US, RAW_FULL, "power / raw FULL", {MIDDLE: 3, LONG: 3}),
        (PROCESS, RAW_NORMAL, "process / raw NORMAL", {MIDDLE: 10, LONG: 10}),
    ):
        for count, limit in limits.items():
            measured = ratio(results.cpu_ms(ours, count), results.cpu_ms(peer, count))
            goals.append(Goal(f"{what}, CPU a step at {count}", limit, measured))
    early, late = (
        results.more_ms(US, shorter, longer=longer) for shorter, longer in ((SHORT, MIDDLE), (LATE, LONG))
    )
    flat = ratio(results.cpu_ms(US, LONG), results.cpu_ms(US, SHORT))
    return [
        *goals,
        Goal(f"CPU a step at {LONG} / at {SHORT}", 1.1, flat),
        Goal(f"one more step at {LATE} to {LONG} / at {SHORT} to {MIDDLE}", 1.1, ratio(late, early)),
    ]


def _other_goals(results: Results) -> list[Goal]:
    of = results.number
    long = {name: results.steps[name, LONG] for name in (US, RAW_FULL) if (name, LONG) in results.steps}
    stored, written = (of(long, US, key=key) for key in ("stored", "wchar"))
    at_once = [of(results.concurrent, peer, key="cpu_s") for peer in DURABLE_PEERS]
    best = min((number for number in at_once if number is not None), default=None)
    resumed, resumed_by_peer = (of(results.resume, name, key="cpu_s") for name in (US, PEER))
    parked = of(results.parked, WAITING, key="per_session")
    names = of(results.imports, NAMES, key="cpu_s")
    delta = results.rows.get(DELTA)
    return [
        Goal(
            "200 x 20 at once / best durable peer", 0.12, ratio(of(results.concurrent, US, key="cpu_s"), best)
        ),
        Goal(f"resume of {LONG} steps / LangGraph", 0.9, ratio(resumed, resumed_by_peer)),
        Goal(f"ms of CPU, {NAMES}", 150, names and names * 1e3),
        Goal(f"bytes written / raw FULL at {LONG}", 1.3, ratio(written, of(long, RAW_FULL, key="wchar"))),
        Goal(f"bytes stored / content at {LONG}", 2, ratio(stored, of(long, US, key="content"))),
        Goal("KiB a parked session", 2, None if parked is None else parked / 1024),
        Goal("calls of Python functions a step", 450, of(results.calls, MEMORY, key="calls_a_step")),
        Goal("a delta to 100 readers / as many asyncio queues", 2, delta and delta.ratio),
    ]
