"""The plan of one simulation, drawn from its seed."""

from dataclasses import replace
from typing import Final, Literal, TypeVar

from tests.simulator.world import World

from windlass.testing.stores import FaultRates
from windlass.testing.time import seeded_random
from windlass_protocol.frozen import sealed

Tool = Literal["look", "put", "pay"]
Verdict = Literal["allow", "deny", "ask", "brief", "modify", "defer", "interrupt"]
"""Decisions of the policy; `brief` asks, and the request expires soon."""
Fate = Literal["ok", "slow", "fail", "hang", "stubborn"]
Doom = Literal["crash", "sleep", "close"]
"""How a process ends: a crash, a suspension, or an orderly end."""

T = TypeVar("T")

HELPER: Final = "helper"
"""The subagent of a call; its tag is the id of its run."""
HORIZON_S: Final = 45.0
"""When the faults stop."""
DAY_S: Final = 86_400.0


@sealed
class CallPlan:
    """A call that the model will request."""

    tool: str
    tag: str
    verdict: Verdict
    fate: Fate
    delay_s: float


@sealed
class RunPlan:
    """A run that a user will start."""

    run_id: str
    session_id: str
    steps: tuple[tuple[CallPlan, ...], ...]
    start_s: float
    cancel_s: float | None
    max_steps: int | None
    is_typed: bool
    is_task: bool

    @property
    def output(self) -> str:
        """The final answer of the model."""
        return '{"n": 1}' if self.is_typed else f"done {self.run_id}"


@sealed
class DoomPlan:
    """When and how a process ends, and when its successor starts."""

    kind: Doom
    at_point: int
    """Counted: every call of the store, the model and the tools has two or more points."""
    is_noticed: bool
    """Whether the store learns of the end at once; otherwise the lease has to expire."""
    next_s: float
    back_s: float


@sealed
class Scenario:
    """The scenario of one seed."""

    runs: tuple[RunPlan, ...]
    dooms: tuple[DoomPlan | None, ...]
    """Ends of the first processes, in order; later processes do not end."""
    processes: int
    rates: FaultRates | None
    model_faults: float
    jumps: tuple[tuple[float, float], ...]
    """Times and distances of wall-clock jumps."""
    reconnects: float
    """The probability that a subscriber reconnects after an event."""
    children: tuple[RunPlan, ...] = ()
    """Runs of subagents, which only calls start."""
    outages: tuple[tuple[float, float], ...] = ()
    """Spans in which the provider of the model is away."""
    is_ruled: bool = False
    """Whether rules decide about calls, and allow all of them; otherwise a policy of the host decides."""

    @property
    def all_runs(self) -> tuple[RunPlan, ...]:
        """All runs that there may be."""
        return (*self.runs, *self.children)

    def plan(self, run_id: str) -> RunPlan:
        """Return a run by its id."""
        return next(run for run in self.all_runs if run.run_id == run_id)

    def call(self, tag: str) -> CallPlan:
        """Return a call by its tag."""
        return next(call for run in self.all_runs for step in run.steps for call in step if call.tag == tag)


def draw(world: World, *, has_family: bool = False) -> Scenario:
    """Draw a scenario; with a family, runs delegate work to subagents."""
    sessions = 1 + world.below(2)
    runs = tuple(_run(world, number, sessions) for number in range(1 + world.below(3)))
    dooms = tuple(_doom(world) for _ in range(world.below(4)))
    rate = (0.0, 0.0, 0.02, 0.06)[world.below(4)]
    rates = FaultRates(rate, rate, rate, rate / 2, delay_s=1.0 + world.below(12)) if rate else None
    jumps: list[tuple[float, float]] = []
    if world.chance(0.3):
        sizes = (DAY_S, -DAY_S, 40.0, -40.0, -1.0)
        jumps = [(world.random() * HORIZON_S, sizes[world.below(5)]) for _ in range(1 + world.below(3))]
    children: tuple[RunPlan, ...] = ()
    if has_family:
        families = [_family(world, run) for run in runs]
        runs, children = tuple(run for run, _ in families), tuple(child for _, child in families)
    is_ruled = world.seed % _RULED_EVERY == 1
    if is_ruled:
        runs, children = tuple(_ruled(run) for run in runs), tuple(_ruled(child) for child in children)
    return Scenario(
        runs,
        dooms,
        processes=1 + world.below(2),
        rates=rates,
        model_faults=(0.0, 0.0, 0.15, 0.4)[world.below(4)],
        jumps=tuple(sorted(jumps)),
        reconnects=(0.0, 0.05, 0.3)[world.below(3)],
        children=children,
        outages=_outages(world.seed),
        is_ruled=is_ruled,
    )


_OUTAGES_EVERY: Final = 4
_OUTAGE_S: Final = (5.0, 40.0, 90.0, 400.0)


def _outages(seed: int) -> tuple[tuple[float, float], ...]:
    """Draw the outages of the provider, with numbers of their own: other seeds keep their scenarios."""
    if seed % _OUTAGES_EVERY != 2:
        return ()
    random = seeded_random(seed)
    starts = [random() * HORIZON_S / 2 for _ in range(1 + int(random() * 2))]
    return tuple((start, start + _OUTAGE_S[int(random() * len(_OUTAGE_S))]) for start in starts)


def _run(world: World, number: int, sessions: int) -> RunPlan:
    run_id = f"r{number}"
    steps = tuple(
        tuple(_call(world, f"{run_id}.{step}.{at}") for at in range(1 + world.below(3) // 2 + world.below(2)))
        for step in range(world.below(3))
    )
    return RunPlan(
        run_id,
        f"s{world.below(sessions)}",
        steps,
        start_s=world.random() * 10 if world.chance(0.7) else 0.0,
        cancel_s=world.random() * 20 if world.chance(0.2) else None,
        max_steps=1 + world.below(3) if world.chance(0.1) else None,
        is_typed=world.chance(0.15),
        is_task=world.chance(0.1),
    )


_RULED_EVERY: Final = 3
_RULED_STEPS: Final = ("look", "pay", "pay", "put", "look")


def _ruled(run: RunPlan) -> RunPlan:
    """Return a run with only allowed calls, and with usual steps of one call each at its end."""
    steps = [tuple(replace(call, verdict="allow") for call in step) for step in run.steps]
    for name in _RULED_STEPS:
        steps.append((CallPlan(name, f"{run.run_id}.{len(steps)}.0", "allow", "ok", 0.0),))
    return replace(run, steps=tuple(steps))


def _family(world: World, run: RunPlan) -> tuple[RunPlan, RunPlan]:
    """Make a run delegate work to a subagent in a step, besides the calls of that step."""
    steps = list(run.steps) or [()]
    at = world.below(len(steps))
    call_id = f"c{len(steps[at])}"
    if world.in_programs:
        call_id = f"c0%2F{sum(call.tool != UNKNOWN for call in steps[at])}"
    child_id = f"subagent:{run.run_id}/{at}/{call_id}"
    steps[at] = (*steps[at], CallPlan(HELPER, child_id, "allow", "ok", 0.0))
    work = tuple(
        tuple(_call(world, f"{child_id}.{step}.{one}") for one in range(1 + world.below(2)))
        for step in range(world.below(3))
    )
    child = RunPlan(
        child_id,
        f"session:{child_id}",
        work,
        start_s=0.0,
        cancel_s=None,
        max_steps=None,
        is_typed=False,
        is_task=True,
    )
    return replace(run, steps=tuple(steps)), child


_TOOLS: Final = ("look", "put", "put", "pay", "pay")
_VERDICTS: Final[tuple[tuple[Verdict, int], ...]] = (
    ("allow", 8),
    ("ask", 4),
    ("brief", 1),
    ("modify", 1),
    ("deny", 1),
    ("defer", 1),
    ("interrupt", 1),
)
_FATES: Final[tuple[tuple[Fate, int], ...]] = (
    ("ok", 7),
    ("slow", 4),
    ("fail", 1),
    ("hang", 1),
    ("stubborn", 1),
)


def _one_of(world: World, odds: tuple[tuple[T, int], ...]) -> T:
    at = world.below(sum(weight for _, weight in odds))
    for value, weight in odds:
        at -= weight
        if at < 0:
            return value
    raise AssertionError("a number below the sum of all weights")


UNKNOWN: Final = "nothing"
"""The name of a tool that no agent has."""


def _call(world: World, tag: str) -> CallPlan:
    tool = UNKNOWN if world.chance(0.02) else _TOOLS[world.below(5)]
    verdict: Verdict = _one_of(world, _VERDICTS)
    fate: Fate = _one_of(world, _FATES)
    return CallPlan(tool, tag, verdict, fate, delay_s=world.random() * 8 if fate != "ok" else 0.0)


def _doom(world: World) -> DoomPlan | None:
    if world.chance(0.2):
        return None
    kinds: tuple[Doom, ...] = ("crash", "crash", "crash", "sleep", "close")
    return DoomPlan(
        kinds[world.below(5)],
        at_point=1 + world.below(120 if world.chance(0.6) else 40),
        is_noticed=world.chance(0.6),
        next_s=world.random() * 5,
        back_s=world.random() * 60,
    )
