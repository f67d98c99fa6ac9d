"""What must be true of a story when it has ended, read from the journal and the ledger of the world."""

from collections import Counter
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import to_json

from windlass.engine.loading import load
from windlass.errors import AgentError
from windlass.ports.journal import Standing
from windlass.testing.simulator_people import Gone, People, Watcher
from windlass.testing.world import Post, World, folded
from windlass_harness.loop.snapshot import dump_loop, load_loop
from windlass_harness.views import fold_runs
from windlass_harness.views.runs import RUN_ENDS, run_id_of
from windlass_protocol import EVENT_DATA, JsonObject, Record

Journals = dict[str, tuple[Record, ...]]


async def check(world: World, people: People) -> Journals:
    """Check everything; what is wrong is a problem of the world.

    Return the records of each session.
    """
    journals: Journals = {}
    for session_id in sorted({plan.session_id for plan in people.scenario.runs}):
        records = await world.store.read(session_id, limit=100_000)
        journals[session_id] = records
        _check_stream(world, session_id, records)
        _check_runs(world, session_id, records)
        _check_calls(world, records)
        _check_requests(world, records)
        _check_posts(world, session_id, records)
        await _check_state(world, session_id, records)
        await _check_rest(world, session_id)
    for watcher in people.watchers:
        _check_watcher(world, watcher, journals)
    await _check_results(world, people, journals)
    return journals


def _check_stream(world: World, session_id: str, records: Sequence[Record]) -> None:
    """Numbered without a gap, valid by the strict rules of the wire, owners one after another."""
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
            Record.model_validate_json(to_json(record.model_dump(mode="json", by_alias=True)), strict=True)
        except ValidationError as error:
            world.blame(f"{where} is not valid: {error.errors()[0]['loc']} {error.errors()[0]['msg']}")


def _check_runs(world: World, session_id: str, records: Sequence[Record]) -> None:
    """One run at a time; each begins once and ends once, its turn before it.

    A cancel is obeyed.
    """
    current: str | None = None
    seen: set[str] = set()
    is_cancelled = is_turn_over = False
    for record in records:
        run_id = run_id_of(record)
        where = f"{session_id}/{record.seq} {record.type} of {run_id}"
        if record.type == "run.started":
            if current is not None or run_id in seen:
                world.blame(f"{where}: while {current} goes on, or again")
            current = run_id
            seen.add(run_id or "")
            is_cancelled = is_turn_over = False
        elif record.type == "run.cancel_requested":
            is_cancelled = True
        elif record.type in ("turn.completed", "turn.failed", "turn.cancelled"):
            is_turn_over = True
        elif record.type in RUN_ENDS:
            if current != run_id or not is_turn_over:
                world.blame(f"{where}: it is not going on, or its turn is")
            if is_cancelled and record.type != "run.cancelled":
                world.blame(f"{where}: it was to be cancelled")
            current = None
        elif run_id is not None and run_id != current and record.type not in _AFTERTHOUGHTS:
            world.blame(f"{where}: it is not going on")
    if current is not None:
        world.blame(f"{current} has no end")


_AFTERTHOUGHTS = frozenset({"approval.candidate", "hook.completed", "hook.failed"})


def _key(record: Record, call_id: object) -> str:
    return f"{record.run_id}/{record.data.get('stepIndex')}/{call_id}"


def _check_calls(world: World, records: Sequence[Record]) -> None:
    """Effects begin after a yes, are repeated only if they may be, and have one result."""
    verdicts: dict[str, JsonObject] = {}
    yeses: Counter[str] = Counter()
    choices: Counter[str] = Counter()
    results: Counter[str] = Counter()
    starts: Counter[str] = Counter()
    step = 0
    for record in records:
        data = record.data
        match record.type:
            case "step.started":
                step = record.step_index or 0
            case "policy.decided":
                decision = data["decision"]
                assert isinstance(decision, dict)
                verdicts[_key(record, data.get("callId"))] = decision
            case "approval.settled":
                yeses[str(data["requestId"]).rpartition(":")[0]] += data["outcome"] == "approved"
            case "recovery.effect_settled":
                choices[f"{record.run_id}/{step}/{data['callId']}"] += data["choice"] == "retry"
            case "action.started":
                key = _key(record, data["callId"])
                starts[key] += 1
                if results[key]:
                    world.blame(f"{key} was begun after its result")
                if starts[key] == 1:
                    _check_consent(world, key, verdicts.get(key), yeses=yeses, call=record)
                elif data["effect"] == "once" and starts[key] > 1 + choices[key]:
                    world.blame(f"{key} was begun again without anybody's choice")
                if data["idempotencyKey"] != key:
                    world.blame(f"{key} has the idempotency key {data['idempotencyKey']}")
            case "action.result":
                result = data["result"]
                assert isinstance(result, dict)
                key = _key(record, result["callId"])
                results[key] += 1
                _check_result(world, key, record)
            case _:
                pass
    for key, count in results.items():
        if count != 1:
            world.blame(f"{key} has {count} results")
    for key, facts in world.calls.items():
        if facts.effect == "once" and len(facts.begun) > 1 + choices[key] and key in starts:
            world.blame(f"{key} was performed {len(facts.begun)} times, chosen {choices[key]} times")


def _check_consent(
    world: World, key: str, verdict: JsonObject | None, *, yeses: Counter[str], call: Record
) -> None:
    """A call begins after the policy, or a person whom it asked, said yes.

    A yes counts once.
    """
    if verdict is None or verdict["decision"] not in ("allow", "modify"):
        world.blame(f"{key} was begun without a yes of the policy")
    elif verdict["code"] == "approval.granted":
        request = f"approval:{call.run_id}:{call.data.get('stepIndex')}:{call.data['callId']}"
        yeses[request] -= 1
        if yeses[request] < 0:
            world.blame(f"{key} was begun without a yes of a person")


def _check_result(world: World, key: str, record: Record) -> None:
    """What is said to be done was done."""
    result = record.data["result"]
    assert isinstance(result, dict)
    is_supplied = result["output"] == "supplied"
    if record.data["status"] == "completed" and not is_supplied and not world.call(key).is_done:
        world.blame(f"{key} has a result and was never done")


def _check_requests(world: World, records: Sequence[Record]) -> None:
    """A request is settled once, and approved only before it expires, for the arguments it shows."""
    expiries: dict[str, str] = {}
    hashes: dict[str, object] = {}
    settled: Counter[str] = Counter()
    outcomes: dict[str, str] = {}
    for record in records:
        data = record.data
        if record.type == "input.requested":
            requests = data["requests"]
            assert isinstance(requests, list)
            for request in requests:
                assert isinstance(request, dict)
                request_id = str(request["requestId"])
                if request_id in hashes:
                    world.blame(f"{request_id} was asked twice")
                hashes[request_id] = request.get("argumentsHash")
                expiries[request_id] = str(request.get("expiresAt") or "9999")
        elif record.type == "input.resolved":
            outcomes |= _outcomes(world, record)
        elif record.type == "approval.settled":
            request_id = str(data["requestId"])
            settled[request_id] += 1
            if outcomes.get(request_id) != data["outcome"]:
                world.blame(
                    f"{request_id} was {outcomes.get(request_id)} and is settled as {data['outcome']}"
                )
            if data["outcome"] == "approved" and record.at >= expiries.get(request_id, ""):
                world.blame(f"{request_id} was approved at {record.at}, after {expiries.get(request_id)}")
        elif record.type == "action.started" and record.data.get("argumentsHash") is not None:
            request_id = f"approval:{record.run_id}:{data.get('stepIndex')}:{data['callId']}:{1}"
            if hashes.get(request_id, data["argumentsHash"]) != data["argumentsHash"]:
                world.blame(f"{request_id} was given for other arguments than those of the call")
    for request_id, count in settled.items():
        if count != 1:
            world.blame(f"{request_id} was settled {count} times")


def _outcomes(world: World, record: Record) -> dict[str, str]:
    """Return what requests were resolved as: what a person said is what counts."""
    outcomes: dict[str, str] = {}
    resolutions = record.data["resolutions"]
    assert isinstance(resolutions, list)
    for one in resolutions:
        assert isinstance(one, dict)
        response = one.get("response")
        option = response.get("optionId") if isinstance(response, dict) else None
        if (option == "deny") != (one["outcome"] == "denied"):
            world.blame(f"{one['requestId']} was answered {option} and resolved as {one['outcome']}")
        outcomes[str(one["requestId"])] = str(one["outcome"])
    return outcomes


def _check_posts(world: World, session_id: str, records: Sequence[Record]) -> None:
    """Every item that became durable was taken once, and left its traces in the journal."""
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
        if post.number not in taken:
            world.blame(f"{post.kind} {post.number} of {session_id} was never taken")
        elif post.kind == "answer":
            for request_id in _request_ids(post):
                heard[request_id] -= 1
                if heard[request_id] < 0:
                    world.blame(f"answer {post.number} to {request_id} left no trace")
        elif not _has_trace(post, records[: taken[post.number]]):
            world.blame(f"{post.kind} {post.number} of {session_id} left no trace")


def _request_ids(post: Post) -> list[str]:
    responses = post.body["responses"]
    assert isinstance(responses, list)
    return [str(one["requestId"]) for one in responses if isinstance(one, dict)]


def _answers(records: Sequence[Record]) -> list[str]:
    """Return the request of every answer that the journal knows, whether it counted or not."""
    found: list[str] = []
    for record in records:
        if record.type == "approval.candidate":
            found.append(str(record.data["requestId"]))
        elif record.type == "input.resolved":
            resolutions = record.data["resolutions"]
            assert isinstance(resolutions, list)
            for one in resolutions:
                assert isinstance(one, dict)
                if one.get("response") is not None:
                    found.append(str(one["requestId"]))
    return found


def _has_trace(post: Post, records: Sequence[Record]) -> bool:
    run_id = post.body["runId"]
    wanted = {"run.started"} if post.kind == "start" else {"run.cancel_requested", *RUN_ENDS}
    return any(record.type in wanted and run_id_of(record) == run_id for record in records)


async def _check_state(world: World, session_id: str, records: Sequence[Record]) -> None:
    """The state folded anew, from a snapshot in the middle, and from the store are one and the same."""
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
    """Nobody has the session and nothing is left to do for it."""
    row = await world.store.session(session_id)
    if row is not None and (row.standing is not Standing.IDLE or row.owner_id is not None):
        world.blame(f"{session_id} is {row.standing} and belongs to {row.owner_id} at the end")
    if await world.store.pending(session_id):
        world.blame(f"{session_id} has items in its inbox at the end")


def _check_watcher(world: World, watcher: Watcher, journals: Journals) -> None:
    """Every reader saw every event of its scope, once and in order."""
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
    """What people were told of their runs is what the journal says."""
    for plan in people.scenario.runs:
        run = fold_runs(journals[plan.session_id]).runs.get(plan.run_id)
        result = None if run is None else run.result
        if result is None or people.results.get(plan.run_id) != result:
            world.blame(f"the result of {plan.run_id} is not that of the journal")
            continue
        try:
            again = await people.via(lambda runtime: runtime.run_result(plan.run_id))  # noqa: B023
        except (AgentError, Gone) as error:
            world.blame(f"the result of {plan.run_id} cannot be read: {error!r}")
            continue
        if again != result:
            world.blame(f"the result of {plan.run_id} is another one when asked again")
        if result.status == "completed" and result.output != plan.output:
            world.blame(f"{plan.run_id} said {result.output!r} in the end")
        if plan.run_id not in people.accepted:
            world.blame(f"{plan.run_id} ended and was never acknowledged")
