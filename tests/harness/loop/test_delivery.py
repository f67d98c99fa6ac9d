"""DeliveryStates: at most once for each key, and unknown after an interruption."""

from typing import Any

from tests.harness.loop.stage import Session, run_asked, says

from windlass_harness.loop.delivery import INTERRUPTED, errands, join_ids
from windlass_harness.loop.events import (
    CancelRequested,
    Deliver,
    DeliverySettled,
    Effect,
    OutputChecked,
    is_errand,
)
from windlass_harness.loop.rules import AFTER_RUN_TERMINAL, Dedupe, Rules, SinkRule
from windlass_harness.loop.state import dump_loop, load_loop
from windlass_harness.views.runs import DeliveryStates
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, JsonObject, RetryClass
from windlass_protocol.limits import ID_CHARS_MAX

BOX = SinkRule("box")
ERROR = ErrorInfo(
    code=ErrorCode.UNAVAILABLE, kind=ErrorKind.TIMEOUT, retry=RetryClass.RETRYABLE, message="nothing happened"
)


class Errands(Session):
    """A session of which errands are done too."""

    def left(self) -> list[Effect]:
        """Write records and return the remaining deliveries of ended runs."""
        plan = errands(self.state, frozenset(self.under_way), now=self.now, rules=self.rules)
        assert errands(self.state, frozenset(self.under_way), now=self.now, rules=self.rules) == plan
        self._write(plan.drafts)
        for effect in plan.effects:
            assert is_errand(effect)
            self.under_way[effect.key] = effect
        return list(plan.effects)

    def settle(self, effect: Effect, **outcome: Any) -> list[str]:
        assert isinstance(effect, Deliver)
        return self.done(effect, DeliverySettled(effect.delivery_id, **outcome))

    def stages(self) -> dict[str, str]:
        return {one.delivery_id: one.stage.value for one in self.state.deliveries.by_id.values()}


def completed(
    *sinks: SinkRule, run_id: str = "r1", text: str = "done", one: Errands | None = None
) -> Errands:
    one = one or Errands(rules=Rules(sinks=sinks))
    one.tell(run_asked(run_id))
    (effect,) = one.turn()
    one.done(effect, says(text))
    assert one.turn() == []
    assert one.end == "completed"
    return one


def test_a_delivery_is_intended_with_the_end_of_its_run_and_made_once() -> None:
    one = completed(BOX)
    (effect,) = one.left()
    assert isinstance(effect, Deliver)
    assert (effect.sink_id, effect.kind, effect.run.run_id) == ("box", "final_message", "r1")
    intended = one.data("delivery.intended")
    assert intended == {
        "deliveryId": "r1/box",
        "sinkId": "box",
        "dedupeKey": "r1/box",
        "runId": "r1",
        "kind": "final_message",
    }
    assert one.left() == []
    assert one.settle(effect, receipt={"id": 7}) == ["delivery.completed"]
    assert one.data("delivery.completed")["receipt"] == {"id": 7}
    assert one.left() == []
    assert one.tell(DeliverySettled("r1/box")) == []
    assert one.stages() == {"r1/box": "completed"}


def test_a_delivery_that_a_crash_interrupted_is_unknown_and_not_made_again() -> None:
    one = completed(BOX)
    one.left()
    after = Errands(one.records, epoch=2, rules=one.rules)
    assert after.left() == []
    assert after.data("delivery.unknown") == {"deliveryId": "r1/box", "sinkId": "box", "reason": INTERRUPTED}
    assert after.records[-1].run_id == "r1"
    assert after.left() == []
    assert after.stages() == {"r1/box": "unknown"}
    assert after.tell(DeliverySettled("r1/box")) == []


def test_a_failure_says_why_and_gives_the_key_back() -> None:
    one = completed(SinkRule("box", Dedupe.SESSION))
    (effect,) = one.left()
    assert one.settle(effect, error=ERROR) == ["delivery.failed"]
    assert one.stages() == {"r1/box": "failed"}
    completed(run_id="r2", one=one)
    assert len(one.left()) == 1


def test_an_unknown_outcome_keeps_the_key() -> None:
    one = completed(SinkRule("box", Dedupe.SESSION))
    (effect,) = one.left()
    assert one.settle(effect, reason="it hung") == ["delivery.unknown"]
    assert one.data("delivery.unknown")["reason"] == "it hung"
    completed(run_id="r2", one=one)
    assert one.left() == []
    assert one.stages() == {"r1/box": "unknown", "r2/box": "deduped"}


def test_a_sink_takes_the_same_output_once_if_that_is_its_rule() -> None:
    one = completed(SinkRule("box", Dedupe.OUTPUT))
    (effect,) = one.left()
    one.settle(effect)
    completed(run_id="r2", text="other", one=one)
    (effect,) = one.left()
    one.settle(effect)
    completed(run_id="r3", text="done", one=one)
    assert one.left() == []
    assert one.stages()["r3/box"] == "deduped"


def test_a_typed_output_is_known_by_its_value_and_not_by_its_words() -> None:
    contract: JsonObject = {
        "schemaId": "n",
        "schemaVersion": {"major": 1, "minor": 0, "patch": 0},
        "schema": {"type": "object"},
    }
    one = Errands(rules=Rules(sinks=(SinkRule("box", Dedupe.OUTPUT),)))
    for run_id, text in (("r1", '{"a": 1}'), ("r2", '{ "a":1 }')):
        one.tell(run_asked(run_id, contract=contract))
        (effect,) = one.turn()
        one.done(effect, says(text))
        (check,) = one.turn()
        one.done(check, OutputChecked({"a": 1}))
        one.turn()
        for effect in one.left():
            assert isinstance(effect, Deliver)
            assert effect.kind == "final_validated_output"
            one.settle(effect)
    assert one.stages() == {"r1/box": "completed", "r2/box": "deduped"}


def test_sinks_with_one_key_in_one_run_are_two_sinks() -> None:
    one = completed(BOX, SinkRule("mail"))
    assert len(one.left()) == 2


def test_only_a_run_that_completed_delivers() -> None:
    one = Errands(rules=Rules(sinks=(BOX,)))
    one.tell(run_asked())
    one.tell(CancelRequested("r1"))
    assert one.turn() == []
    assert one.end == "cancelled"
    assert one.left() == []


def test_a_run_under_way_has_nothing_left_to_do() -> None:
    one = Errands(rules=Rules(sinks=(BOX,), hook_points=frozenset({AFTER_RUN_TERMINAL})))
    one.tell(run_asked())
    assert one.left() == []


def test_deliveries_survive_in_a_snapshot() -> None:
    one = completed(BOX)
    one.left()
    restored = load_loop(dump_loop(one.state))
    assert restored is not None
    assert restored.deliveries == one.state.deliveries


def test_a_completed_delivery_without_an_intent_changes_nothing() -> None:
    one = completed()
    one.write("delivery.completed", {"deliveryId": "d", "sinkId": "box"})
    assert one.stages() == {}


def test_no_two_names_make_one_key() -> None:
    assert join_ids("a/b", "c") != join_ids("a", "b/c")
    assert join_ids("a%2Fb", "c") != join_ids("a/b", "c")
    assert join_ids("r" * (ID_CHARS_MAX - 2), "b") == "r" * (ID_CHARS_MAX - 2) + "/b"
    long = join_ids("r" * (ID_CHARS_MAX - 1), "b")
    assert long.startswith("sha256:")
    assert long != join_ids("r" * ID_CHARS_MAX, "b")


def test_records_about_other_things_are_no_deliveries() -> None:
    one = completed()
    deliveries = DeliveryStates()
    for record in one.records:
        deliveries.apply(record)
    assert deliveries == DeliveryStates()
