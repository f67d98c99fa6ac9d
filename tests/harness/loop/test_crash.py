"""A crash after every single record of a run.

Nothing done is done again, and the run ends all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from pydantic import JsonValue
from tests.harness.loop.stage import (
    CONTRACT,
    ENDS,
    JsonObject,
    Person,
    Session,
    World,
    approves,
    bad,
    call,
    calls,
    error,
    failure,
    interrupt,
    long_call,
    run_asked,
    says,
)

from windlass_harness.loop.events import OutputChecked, RunRequested
from windlass_harness.loop.rules import DEFAULT_COMPACTION, CompactionRule, Rules
from windlass_harness.record import Record
from windlass_harness.retry import RetryPolicy
from windlass_protocol import InputResponse, RetryClass


@dataclass(frozen=True)
class Scene:
    """A run, and the world in which it happens."""

    world: Callable[[], World]
    asked: RunRequested
    end: str = "completed"
    compaction: CompactionRule = DEFAULT_COMPACTION


SMALL = CompactionRule(1_500, 6, 1_500)
SOFT = CompactionRule(1_500, 6)
LONG = [*([long_call(number)] for number in range(8)), [says()]]
ALL_THREE = calls(call("look"), call("put", n=1), call("send", n=2))
SCENES = {
    "one answer": Scene(lambda: World([[says()]]), run_asked()),
    "a task": Scene(lambda: World([[says()]]), run_asked(mode="task")),
    "calls of every kind": Scene(lambda: World([[ALL_THREE], [says()]]), run_asked()),
    "calls done in the other order": Scene(
        lambda: World([[ALL_THREE], [calls(call("send"))], [says()]], is_last_first=True), run_asked()
    ),
    "refusals": Scene(
        lambda: World([[calls(call("none"), call("banned"), call("send"))], [says()]]), run_asked()
    ),
    "approvals": Scene(
        lambda: World([[calls(call("pay", n=1), call("pay", "c-2", n=2), call("look"))], [says()]]),
        run_asked(),
    ),
    "a changed call": Scene(lambda: World([[calls(call("safer", n=1))], [says()]]), run_asked()),
    "a call put off": Scene(lambda: World([[calls(call("later"), call("send"))], [says()]]), run_asked()),
    "a run that is stopped": Scene(
        lambda: World([[calls(call("stop"), call("send"))]]), run_asked(), "failed"
    ),
    "retries": Scene(
        lambda: World([[failure(after=40_000), calls(call("send"))], [failure(), says()]]), run_asked()
    ),
    "a model that gives up": Scene(
        lambda: World([[calls(call("send"))], [failure(RetryClass.NOT_RETRYABLE)]]), run_asked(), "failed"
    ),
    "output repaired": Scene(
        lambda: World([[says("x")], [says("{}")]], [bad(), OutputChecked({})]), run_asked(contract=CONTRACT)
    ),
    "output never right": Scene(
        lambda: World([[says("x")]] * 3, [bad()] * 4),
        run_asked(contract={**CONTRACT, "maxRepairAttempts": 2}),
        "failed",
    ),
    "budget": Scene(
        lambda: World([[calls(call("send"))], [says()]]),
        run_asked(budget={"maxSteps": 1}),
        "budget_exhausted",
    ),
    "compactions": Scene(lambda: World(LONG), run_asked(), compaction=SMALL),
    "a compaction that is tried again": Scene(
        lambda: World(LONG, compactions=[error(), error()]), run_asked(), compaction=SMALL
    ),
    "a compaction without a model": Scene(
        lambda: World(LONG, compactions=[error(RetryClass.NOT_RETRYABLE)]), run_asked(), compaction=SOFT
    ),
    "a history that does not fit": Scene(
        lambda: World(LONG), run_asked(message="x" * 4_000), "failed", CompactionRule(100, limit=100)
    ),
    "subagents": Scene(
        lambda: World(
            [[calls(call("child"), call("child", "c-2"), call("send"))], [calls(call("child"))], [says()]]
        ),
        run_asked(),
    ),
    "an empty answer": Scene(lambda: World([[calls(call("send"))], [says("")]]), run_asked()),
}


PATIENT = Rules(retry=RetryPolicy(max_attempts=5))
"""Every new world fails anew."""


def whole(scene: Scene) -> Session:
    return scene.world().drive(Session(rules=replace(PATIENT, compaction=scene.compaction)), scene.asked)


def went_on(scene: Scene, before: Session, cut: int, person: Person = approves) -> tuple[Session, World]:
    """The session after a crash behind its record number `cut`, driven to its end."""
    world = scene.world()
    world.person = person
    after = interrupt(before, cut)
    if "run.started" not in after.types:
        after.tell(scene.asked)
    return world.drive(after), world


def cuts(session: Session) -> list[int]:
    """After every record; but the opening of a run is one append, all or nothing."""
    opening = session.types.index("message.received") + 1 + session.types.count("output.requested")
    return [0, *range(opening, len(session.records) + 1)]


@cache
def recoveries(name: str) -> list[tuple[list[Record], Session, World]]:
    """For a crash after every record: the records before it, and the session and the world at the end."""
    before = whole(SCENES[name])
    return [(before.records[:cut], *went_on(SCENES[name], before, cut)) for cut in cuts(before)]


@pytest.mark.parametrize(
    "name", ["compactions", "a compaction that is tried again", "a compaction without a model"]
)
def test_the_scenes_about_compaction_have_some(name: str) -> None:
    session = whole(SCENES[name])
    assert session.types.count("compaction.completed") >= 1
    assert session.types.count("compaction.requested") >= session.types.count("compaction.completed")


def key(data: JsonObject, call_id: object) -> str:
    """The key of a call: models reuse call ids in later steps."""
    return f"r1/{data['stepIndex']}/{call_id}"


def started(records: list[Record]) -> dict[str, Record]:
    return {str(one.data["idempotencyKey"]): one for one in records if one.type == "action.started"}


def finished(records: list[Record]) -> set[str]:
    results = [one.data for one in records if one.type == "action.result"]
    return {key(data, dict_of(data["result"])["callId"]) for data in results}


def parked(session: Session) -> set[str]:
    """The calls that people were asked about after an interruption."""
    return {
        key(data, dict_of(dict_of(one)["action"])["callId"])
        for data in session.all("input.requested")
        for one in list_of(data["requests"])
        if dict_of(one).get("kind") == "recovery"
    }


def list_of(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def dict_of(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("name", SCENES)
def test_a_run_without_a_crash_ends_as_it_should(name: str) -> None:
    session = whole(SCENES[name])
    assert session.end == SCENES[name].end
    assert session.state.run is None


@pytest.mark.parametrize("name", SCENES)
def test_a_run_ends_in_one_terminal_record_wherever_it_was_interrupted(name: str) -> None:
    for records, after, _ in recoveries(name):
        ends = [kind for kind in after.types if kind in ENDS]
        assert len(ends) == 1, (len(records), after.types)
        assert after.end == SCENES[name].end, (len(records), after.types)
        turn_ends = [at for at, kind in enumerate(after.types) if kind in TURN_ENDS]
        assert turn_ends, len(records)
        assert max(turn_ends) < after.types.index(ends[0]), "the turn ends before its run"


TURN_ENDS = ("turn.completed", "turn.failed", "turn.cancelled")


@pytest.mark.parametrize("name", SCENES)
def test_an_effect_that_is_finished_is_never_repeated(name: str) -> None:
    for records, _, world in recoveries(name):
        assert finished(records).isdisjoint(world.ledger), len(records)
        assert len(world.ledger) == len(set(world.ledger)), "nor twice after the crash"


@pytest.mark.parametrize("name", SCENES)
def test_an_interrupted_effect_is_repeated_under_its_key_or_parked(name: str) -> None:
    for records, after, world in recoveries(name):
        if any(one.type in (*TURN_ENDS, *ENDS) for one in records):
            break
        open_calls = {one: started(records)[one] for one in started(records).keys() - finished(records)}
        once = {one for one, record in open_calls.items() if record.data["effect"] == "once"}
        assert parked(after) == once, len(records)
        assert open_calls.keys() <= set(world.ledger), len(records)


@pytest.mark.parametrize("name", ["calls of every kind", "approvals", "retries", "a changed call"])
def test_a_once_call_is_not_repeated_unless_a_person_says_so(name: str) -> None:
    def skips(world: World, request_id: str) -> InputResponse:
        choice = "skip" if request_id.startswith("recovery") else "approve"
        return InputResponse(request_id=request_id, option_id=choice)

    before = whole(SCENES[name])
    for cut in cuts(before):
        records = before.records[:cut]
        once = {one for one, record in started(records).items() if record.data["effect"] == "once"}
        after, world = went_on(SCENES[name], before, cut, skips)
        assert after.end == "completed"
        assert once.isdisjoint(world.ledger), cut


@pytest.mark.parametrize("name", ["calls of every kind", "approvals", "calls done in the other order"])
def test_an_interrupted_once_call_waits_until_a_person_decides(name: str) -> None:
    before = whole(SCENES[name])
    for cut in cuts(before):
        records = before.records[:cut]
        open_once = {
            one for one, record in started(records).items() if record.data["effect"] == "once"
        } - finished(records)

        def only_approves(world: World, request_id: str) -> InputResponse | None:
            return None if request_id.startswith("recovery") else approves(world, request_id)

        after, world = went_on(SCENES[name], before, cut, only_approves)
        assert (after.end is None) == bool(open_once), cut
        assert open_once.isdisjoint(world.ledger), cut


@pytest.mark.parametrize("name", ["calls of every kind", "retries", "output repaired", "approvals"])
def test_a_run_survives_a_second_crash_during_recovery(name: str) -> None:
    scene = SCENES[name]
    before = whole(scene)
    for cut in cuts(before)[1::3]:
        first, _ = went_on(scene, before, cut)
        for again in range(cut + 1, len(first.records) + 1, 2):
            world = scene.world()
            after = world.drive(interrupt(first, again, epoch=3))
            assert after.end == scene.end, (cut, again, after.types)
            assert finished(first.records[:again]).isdisjoint(world.ledger), (cut, again)
