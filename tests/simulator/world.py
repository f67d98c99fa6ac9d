"""The simulated world: effects that happened and records that became durable.

The runtime's own state is not used. The store is observed from inside, tools and the model belong to the
world, and every contradiction is a problem.
"""

import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from windlass.adapters.journals.memory import MemoryStore
from windlass.ports.inbox import NewRun, Posted
from windlass.ports.journal import Appended, Batch, Claim
from windlass.testing.time import FakeClock, SeededRandom, seeded_random
from windlass.tools.context import ToolContext
from windlass_harness.loop.events import Draft
from windlass_harness.loop.state import LoopState, dump_loop
from windlass_harness.record import Record
from windlass_harness.times import elapsed_ms
from windlass_protocol import Event, JsonObject
from windlass_protocol.frozen import mutable, sealed

TRACE_LINES_MAX: Final = 60
_COMMIT_S_MAX: Final = 35.0
_ROUNDING_S: Final = 0.002
"""Records have milliseconds; times are truncated to them."""
PROBLEMS_MAX: Final = 8
_SUBAGENT: Final = "subagent:"


@mutable
class CallFacts:
    """The facts about one call, by its idempotency key."""

    effect: str = ""
    intents: int = 0
    """Durable records that it is about to begin."""
    begun: list[int] = field(default_factory=list[int])
    """The attempts that had an effect."""
    is_done: bool = False
    """The tool completed at least once."""
    results: int = 0
    retries: int = 0
    """The number of times a person chose to run it again."""


@mutable
class RunFacts:
    """The facts about one run."""

    steps: int = 0
    """Durable records that the model is about to be asked."""
    asks: int = 0
    answers: int = 0
    ends: int = 0
    is_hopeless: bool = False
    """The newest failure of the model was not retryable."""
    pause: "Timer | None" = None
    """Before the model is asked again."""


@sealed
class Timer:
    """A wait, by the monotonic clock."""

    since_s: float
    wait_s: float
    jumps: int
    """The number of jumps of the wall clock until then."""


@sealed
class Post:
    """An item that became durable in an inbox."""

    number: int
    session_id: str
    kind: str
    body: JsonObject


@sealed
class Taken:
    """An append that consumed items, and the number of the last record at that moment."""

    consumes: tuple[int, ...]
    last_seq: int


class World:
    """Randomness, time, the ledger of effects, and the problems that were found."""

    def __init__(self, seed: int, *, in_programs: bool = False) -> None:
        self.seed = seed
        self.in_programs = in_programs
        """Whether the model makes its calls in programs."""
        self.random: SeededRandom = seeded_random(seed)
        self.clock = FakeClock()
        self.store = WitnessedStore(self)
        self.problems: list[str] = []
        self._jumped_s = -_COMMIT_S_MAX
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.calls: dict[str, CallFacts] = {}
        self.runs: dict[str, RunFacts] = {}
        self.drafts: dict[str, list[Draft]] = {}
        """All durable records, by session."""
        self.posts: list[Post] = []
        self.taken: dict[str, list[Taken]] = {}
        self.owners: dict[tuple[str, int], str] = {}
        """The owner of each epoch of a session."""
        self.expiries: dict[str, Timer] = {}
        """Of requests that expire."""
        self.jumps = 0
        self.deferred: set[str] = set()
        """Calls that a policy has deferred before."""

    # chance

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def below(self, count: int) -> int:
        """Return a number from 0 (included) to `count` (excluded)."""
        return int(self.random() * count)

    # trace and problems

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.clock.monotonic():8.2f} {text}")

    def blame(self, text: str) -> None:
        """Add a problem."""
        self.note(f"PROBLEM {text}")
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(text)

    def call(self, key: str) -> CallFacts:
        """Return the facts of a call."""
        return self.calls.setdefault(key, CallFacts())

    def run(self, run_id: str) -> RunFacts:
        """Return the facts of a run."""
        return self.runs.setdefault(run_id, RunFacts())

    @property
    def changes(self) -> int:
        """A number that is another one after anything was written."""
        return len(self.posts) + sum(len(drafts) for drafts in self.drafts.values())

    def jump(self, seconds: float) -> None:
        """Move the wall clock."""
        self.note(f"the wall clock jumps by {seconds} s")
        self.jumps += 1
        self._jumped_s = self.clock.monotonic()
        self.clock.jump(seconds)

    def timer(self, at: str, wait_ms: int) -> Timer:
        """Return a timer that started at a recent wall-clock time."""
        ago_s = self.clock.now().timestamp() - datetime.fromisoformat(at).timestamp()
        now_s = self.clock.monotonic()
        # A jump between the creation of a record and its commit makes the timer useless.
        is_useful = 0 <= ago_s < _COMMIT_S_MAX <= now_s - self._jumped_s
        return Timer(now_s - ago_s, wait_ms / 1_000, self.jumps if is_useful else -1)

    def check_timer(self, timer: Timer | None, what: str) -> None:
        """Check that a wait was not too short, unless the wall clock jumped meanwhile."""
        if timer is None or timer.jumps != self.jumps:
            return
        waited_s = self.clock.monotonic() - timer.since_s
        if waited_s < timer.wait_s - _ROUNDING_S:
            self.blame(f"{what} after {waited_s:.3f} s, not after {timer.wait_s:.3f} s")

    # effects

    def ask(self, run_id: str, step: int, *, is_late: bool) -> None:
        """Note a model call for a step."""
        facts = self.run(run_id)
        facts.asks += 1
        facts.is_hopeless = False
        self.note(f"model is asked for step {step} of {run_id}")
        if facts.asks > facts.steps:
            self.blame(f"the model of {run_id} was asked without a durable intent")
        if facts.answers > step and not is_late:
            self.blame(f"the model of {run_id} was asked for step {step} again after its answer was durable")

    def begin(self, context: ToolContext, tag: str, *, effect: str, is_late: bool) -> None:
        """Note the start of an effect; `is_late` if its process was suspended at some time."""
        key, attempt = context.idempotency_key, context.attempt
        facts = self.call(key)
        self.note(f"effect {key} attempt {attempt} ({tag}) begins")
        if attempt > facts.intents:
            self.blame(f"effect {key} attempt {attempt} began without a durable intent")
        if attempt in facts.begun:
            self.blame(f"effect {key} attempt {attempt} was performed twice")
        if facts.results and not is_late:
            self.blame(f"effect {key} was performed again after its result was durable")
        facts.effect = effect
        facts.begun.append(attempt)

    def finish(self, key: str) -> None:
        """Note that a tool completed."""
        self.call(key).is_done = True
        self.note(f"effect {key} is done")

    # subscribers

    def show(self, event: Event, who: str) -> None:
        """Check an event that a subscriber got: its record must be durable and equal."""
        drafts = self.drafts.get(event.session_id or "", [])
        seq = event.seq or 0
        if seq > len(drafts):
            self.blame(f"{who} was shown {event.type} {event.session_id}/{seq} before it was durable")
            return
        durable = drafts[seq - 1]
        if (durable.type, durable.data) != (event.type, event.data):
            self.blame(f"{who} was shown {event.type} {event.session_id}/{seq}, durable is {durable.type}")

    # the store

    def appended(self, batch: Batch, appended: Appended) -> None:
        """Check a batch that became durable."""
        session_id = batch.claim.session_id
        known = self.drafts.setdefault(session_id, [])
        if batch.drafts and appended.first_seq != len(known) + 1:
            self.blame(f"{session_id} grew from {len(known)} to {appended.first_seq}")
        known += batch.drafts
        if batch.consumes:
            self.taken.setdefault(session_id, []).append(Taken(batch.consumes, len(known)))
        for draft in batch.drafts:
            self.note(f"{session_id} e{batch.claim.epoch} {draft.type}")
            self._follow(draft)

    def _follow(self, draft: Draft) -> None:
        data, run_id = draft.data, draft.run_id or ""
        match draft.type:
            case "step.started":
                facts = self.run(run_id)
                facts.steps += 1
                self.check_timer(facts.pause, f"the model of {run_id} is asked again")
                facts.pause = None
            case "step.retrying":
                delay = data["delayMs"]
                if self.run(run_id).is_hopeless and data["code"] != "interrupted":
                    self.blame(f"the model of {run_id} is tried again after it failed for good")
                self.run(run_id).pause = self.timer(draft.at, delay if isinstance(delay, int) else 0)
            case "input.requested":
                self._expect(data["requests"], draft.at)
            case "approval.settled" if data["outcome"] == "expired":
                self.check_timer(self.expiries.get(str(data["requestId"])), f"{data['requestId']} expires")
            case "step.completed":
                self.run(run_id).answers += 1
            case "action.started":
                facts = self.call(str(data["idempotencyKey"]))
                facts.intents += 1
            case "action.result":
                result = data["result"]
                assert isinstance(result, dict)
                self.call(f"{run_id}/{data['stepIndex']}/{result['callId']}").results += 1
            case "run.completed" | "run.failed" | "run.cancelled" | "run.budget_exhausted":
                self._end(str(data["runId"]), is_completed=draft.type == "run.completed")
            case _:
                pass

    def _end(self, run_id: str, *, is_completed: bool) -> None:
        """Note the end of a run; the run of a subagent is the work of its calling call."""
        self.run(run_id).ends += 1
        if run_id.startswith(_SUBAGENT):
            key = run_id.removeprefix(_SUBAGENT).replace("%2F", "/")
            self.call(key).is_done = is_completed

    def _expect(self, requests: JsonValue, at: str) -> None:
        """Note when requests expire."""
        for request in requests if isinstance(requests, list) else ():
            if isinstance(request, dict) and isinstance(request.get("expiresAt"), str):
                wait_ms = elapsed_ms(at, str(request["expiresAt"]))
                self.expiries[str(request["requestId"])] = self.timer(at, wait_ms)


class WitnessedStore(MemoryStore):
    """The store of a simulation; the world observes every durable write."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        """Become the owner of a session."""
        claim = await super().claim(session_id, owner_id, now_ms=now_ms)
        other = self._world.owners.setdefault((session_id, claim.epoch), owner_id)
        self._world.note(f"{owner_id} claims {session_id} as epoch {claim.epoch}")
        if other != owner_id:
            self._world.blame(f"{owner_id} and {other} both got epoch {claim.epoch} of {session_id}")
        return claim

    async def append(self, batch: Batch) -> Appended:
        """Write a batch."""
        appended = await super().append(batch)
        self._world.appended(batch, appended)
        return appended

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        """Keep an item."""
        posted = await super().post(session_id, kind=kind, key=key, body=body, run=run)
        if posted.is_new:
            self._world.posts.append(Post(posted.number, session_id, kind, body))
            self._world.note(f"{session_id} gets {kind} {posted.number}")
        return posted

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        """Check a snapshot: it must equal the fold of the records."""
        records = [one for one in await self.read(session_id, limit=seq) if one.seq <= seq]
        if dump_loop(folded(records)) != zlib.decompress(state):
            self._world.blame(f"the snapshot of {session_id} at {seq} is not what its records say")
        await super().save(session_id, seq, state=state)


def folded(records: Iterable[Record]) -> LoopState:
    """Fold records one by one, as a driver does; `apply_all` must come to the same state."""
    state = LoopState()
    for record in records:
        state.apply(record)
    return state
