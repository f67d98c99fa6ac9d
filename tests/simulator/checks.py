"""Invariants of a finished simulation: the journal against the world."""

from collections import Counter
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import to_json
from tests.simulator.calls import check_calls, check_requests, objects
from tests.simulator.people import Gone, People, Watcher
from tests.simulator.process import check_family
from tests.simulator.world import Post, World, folded

from windlass.engine.writing.writer import load
from windlass.errors import AgentError
from windlass.ports.journal import Standing
from windlass_harness.loop.notes import HANDED_OVER, INTERRUPTED
from windlass_harness.loop.state import dump_loop, load_loop
from windlass_harness.record import Record, to_wire
from windlass_harness.views import fold_runs
from windlass_harness.views.runs import AFTER_END, RUN_ENDS, run_id_of
from windlass_protocol import EVENT_DATA
from windlass_protocol import Record as WireRecord
from windlass_protocol.generated import records as bodies

Journals = dict[str, tuple[Record, ...]]


async def check(world: World, people: People) -> Journals:
    """Check all invariants, report problems to the world, and return the records of each session."""
    journals: Journals = {}
    for session_id in sorted({plan.session_id for plan in people.scenario.all_runs}):
        records = await world.store.read(session_id, limit=100_000)
        journals[session_id] = records
        _check_stream(world, session_id, records)
        _check_runs(world, records)
        _check_purses(world, records)
        check_calls(world, records)
        check_requests(world, records)
        _check_posts(world, session_id, records)
        await _check_state(world, session_id, records)
        await _check_rest(world, session_id)
    for watcher in people.watchers:
        _check_watcher(world, watcher, journals)
    check_family(world, journals)
    await _check_results(world, people, journals)
    return journals


def _check_stream(world: World, session_id: str, records: Sequence[Record]) -> None:
    """Check the numbers of records, their validity on the wire, and the order of owners."""
    epoch = 0
    for seq, record in enumerate(records, 1):
        where = f"{session_id}/{seq} {record.type}"
        if record.seq != seq:
            world.blame(f"{where} has number {record.seq}")
        if (record.epoch or 0) < epoch:
            world.blame(f"{where} is of epoch {record.epoch}, after {epoch}")
        epoch = record.epoch or 0
        if record.type not in EVENT_DATA:
            world.blame(f"{where} is no type of the wire")
        try:
            WireRecord.model_validate_json(to_json(to_wire(record)), strict=True)
        except ValidationError as error:
            world.blame(f"{where} is not valid: {error.errors()[0]['loc']} {error.errors()[0]['msg']}")


class _Runs:
    """Check that runs of a session do not overlap, that each ends once, and that cancels take effect."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._current: str | None = None
        self._seen: set[str] = set()
        self._is_cancelled = False
        self._is_turn_over = False
        self._withdrawn: str | None = None

    def take(self, record: Record) -> None:
        match record.type:
            case "run.started":
                self._start(record)
            case "run.cancel_requested" if run_id_of(record) == self._current:
                self._is_cancelled = True
            case "run.cancel_requested":
                self._withdrawn = run_id_of(record)
            case "run.cancelled" if "unstarted" in record.data:
                self._withdraw(record)
            case "run.failed" if "unstarted" in record.data:
                pass
            case "turn.completed" | "turn.failed" | "turn.cancelled":
                self._is_turn_over = True
            case kind if kind in RUN_ENDS:
                self._end(record)
            case kind if kind not in AFTER_END and run_id_of(record) not in (None, self._current):
                self._blame(record, "it is not the current run")
            case _:
                pass

    def end(self) -> None:
        if self._current is not None:
            self._world.blame(f"{self._current} has no end")

    def _start(self, record: Record) -> None:
        run_id = run_id_of(record) or ""
        if self._current is not None or run_id in self._seen:
            self._blame(record, f"it started while {self._current} is unfinished, or it started twice")
        self._current = run_id
        self._seen.add(run_id)
        self._is_cancelled = self._is_turn_over = False

    def _withdraw(self, record: Record) -> None:
        """Check a queued run that was cancelled; it never starts."""
        run_id = run_id_of(record) or ""
        if self._current is None or run_id in self._seen or run_id != self._withdrawn:
            self._blame(record, "it was not cancelled, no run is before it, or it had started")
        self._seen.add(run_id)

    def _end(self, record: Record) -> None:
        if self._current != run_id_of(record) or not self._is_turn_over:
            self._blame(record, "it is not the current run, or its turn is unfinished")
        if self._is_cancelled and record.type != "run.cancelled":
            self._blame(record, "it was to be cancelled")
        self._current = None

    def _blame(self, record: Record, problem: str) -> None:
        where = f"{record.session_id}/{record.seq} {record.type} of {run_id_of(record)}"
        self._world.blame(f"{where}: {problem}")


def _check_runs(world: World, records: Sequence[Record]) -> None:
    checks = _Runs(world)
    for record in records:
        checks.take(record)
    checks.end()


def _check_purses(world: World, records: Sequence[Record]) -> None:
    """Check that each model call is paid from its run once: by its cost, or by what was set aside for it."""
    limits: dict[str, int] = {}
    spent: Counter[str] = Counter()
    open_calls: dict[str, int] = {}
    for record in records:
        run_id, body = record.run_id or "", record.body
        match body:
            case bodies.RunStarted(budget=budget) if budget is not None:
                limits[body.run_id] = budget.max_cost_micros or 0
            case bodies.StepStarted(reserved=reserved):
                if run_id in open_calls:
                    world.blame(f"{run_id} sets aside money for a second call")
                cost = 0 if reserved is None else reserved.cost_micros
                if reserved is None or spent[run_id] + cost > limits[run_id]:
                    world.blame(f"{run_id} may spend {spent[run_id]} and {cost} of {limits.get(run_id)}")
                open_calls[run_id] = cost
            case bodies.StepCompleted() | bodies.StepFailed() | bodies.StepRetrying():
                reserved_micros = open_calls.pop(run_id, None)
                if reserved_micros is None and (body.usage is not None or body.price is not None):
                    world.blame(f"{run_id} ends a call for which nothing was set aside")
                usage, is_known = body.usage, body.usage is not None and body.usage.cost_micros is not None
                is_lost = isinstance(body, bodies.StepRetrying) and body.code in (INTERRUPTED, HANDED_OVER)
                if usage is not None and usage.cost_micros is not None:
                    spent[run_id] += usage.cost_micros
                elif is_lost or (body.price is not None and not is_known):
                    spent[run_id] += reserved_micros or 0
            case bodies.SubagentCompleted(usage=usage, settled_micros=settled):
                spent[run_id] += (0 if usage is None else usage.cost_micros or 0) + (settled or 0)
            case _:
                pass
    state = folded(records)
    run = state.session.run
    counted = state.run_notes.budget.cost_micros_used
    if run is not None and counted != spent[run.run_id]:
        world.blame(f"{run.run_id} counts {counted}, and spent {spent[run.run_id]}")
    if (
        run is not None
        and run.result is not None
        and state.run_notes.reserved
        and run.run_id not in open_calls
    ):
        world.blame(f"{run.run_id} has ended, and something stays reserved")


def _check_posts(world: World, session_id: str, records: Sequence[Record]) -> None:
    """Check that every durable item was consumed once, and had an effect."""
    taken: dict[int, int] = {}
    for one in world.taken.get(session_id, []):
        for number in one.consumes:
            if number in taken:
                world.blame(f"item {number} of {session_id} was taken twice")
            taken[number] = one.last_seq
    heard = Counter(_answers(records))
    for post in world.posts:
        if post.session_id != session_id:
            continue
        if post.kind == "answer":
            heard.subtract(_request_ids(post))
        if post.number not in taken:
            world.blame(f"{post.kind} {post.number} of {session_id} was never taken")
        elif post.kind != "answer" and not _has_trace(post, records[: taken[post.number]]):
            world.blame(f"{post.kind} {post.number} of {session_id} left no trace")
    for request_id in sorted(request_id for request_id, left in heard.items() if left < 0):
        world.blame(f"an answer to {request_id} left no trace")


def _request_ids(post: Post) -> list[str]:
    return [str(one["requestId"]) for one in objects(post.body["responses"])]


def _answers(records: Sequence[Record]) -> list[str]:
    """Return the request of every recorded answer, accepted or not."""
    found: list[str] = []
    for record in records:
        if record.type == "approval.candidate":
            found.append(str(record.data["requestId"]))
        elif record.type == "input.resolved":
            resolved = objects(record.data["resolutions"])
            found += [str(one["requestId"]) for one in resolved if one.get("response") is not None]
    return found


def _has_trace(post: Post, records: Sequence[Record]) -> bool:
    run_id = post.body["runId"]
    mine = [record for record in records if run_id_of(record) == run_id]
    if post.kind == "start":
        return any(record.type == "run.started" or "unstarted" in record.data for record in mine)
    return any(record.type in {"run.cancel_requested", *RUN_ENDS} for record in mine)


async def _check_state(world: World, session_id: str, records: Sequence[Record]) -> None:
    """Check that folds from the start, from a snapshot and from the store give one state."""
    whole = folded(records)
    cut = world.below(len(records) + 1)
    middle = load_loop(dump_loop(folded(records[:cut])))
    if middle is None:
        world.blame(f"the snapshot of {session_id} at {cut} cannot be read")
    else:
        middle.apply_all(records[cut:])
        if dump_loop(middle) != dump_loop(whole):
            world.blame(f"{session_id} from its snapshot at {cut} is another state")
    stored = (await load(world.store, world.store, session_id=session_id)).state
    if dump_loop(stored) != dump_loop(whole):
        world.blame(f"{session_id} from the store is another state")


async def _check_rest(world: World, session_id: str) -> None:
    """Check that no owner has the session and that nothing is left to do."""
    row = await world.store.session(session_id)
    if row is not None and (row.standing is not Standing.IDLE or row.owner_id is not None):
        world.blame(f"{session_id} is {row.standing} and belongs to {row.owner_id} at the end")
    if await world.store.pending(session_id):
        world.blame(f"{session_id} has items in its inbox at the end")


def _check_watcher(world: World, watcher: Watcher, journals: Journals) -> None:
    """Check that every subscriber saw every event of its scope, once and in order."""
    records = [record for journal in journals.values() for record in journal]
    match watcher.scope:
        case "all":
            records.sort(key=lambda record: record.position or 0)
        case "session":
            records = [record for record in records if record.session_id == watcher.scope_id]
        case _:
            records = [record for record in records if run_id_of(record) == watcher.scope_id]
    wanted = [(record.session_id, record.seq, record.position or 0) for record in records]
    if watcher.seen != wanted:
        at = next((i for i, (a, b) in enumerate(zip(watcher.seen, wanted, strict=False)) if a != b), None)
        at = min(len(watcher.seen), len(wanted)) if at is None else at
        world.blame(
            f"{watcher.name} saw {len(watcher.seen)} events of {len(wanted)}, another one at {at}: "
            f"{watcher.seen[at : at + 2]}, expected {wanted[at : at + 2]}"
        )


async def _check_results(world: World, people: People, journals: Journals) -> None:
    """Check that the results that users got equal those of the journal."""
    for plan in people.scenario.runs:
        run = fold_runs(journals[plan.session_id]).runs.get(plan.run_id)
        result = None if run is None else run.result
        if result is None or people.results.get(plan.run_id) != result:
            world.blame(f"the result of {plan.run_id} is not that of the journal")
            continue
        try:
            again = await people.via(lambda runtime: runtime.handle(plan.run_id).wait())  # noqa: B023 - it is called before the next turn
        except (AgentError, Gone) as error:
            world.blame(f"the result of {plan.run_id} cannot be read: {error!r}")
            continue
        if again != result:
            world.blame(f"the result of {plan.run_id} is another one when asked again")
        if result.status == "completed" and result.output != plan.output:
            world.blame(f"{plan.run_id} said {result.output!r} in the end")
        if plan.run_id not in people.accepted:
            world.blame(f"{plan.run_id} ended and was never acknowledged")
