"""What follows when an answer was held against the output contract."""

from pydantic import JsonValue

from windlass_harness.loop import hooks
from windlass_harness.loop.drafts import Draft
from windlass_harness.loop.events import Moment, OutputChecked
from windlass_harness.loop.rules import OUTPUT_REPAIRS, Rules
from windlass_harness.loop.state import LoopState
from windlass_protocol import JsonObject, OutputError


def checked(state: LoopState, event: OutputChecked, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of a check: the value, a repair, or the end of all repairs."""
    contract, run = state.run_notes.contract, state.run
    assert contract is not None
    assert run is not None
    attempt = state.run_notes.rejections + 1
    facts: JsonObject = {"schemaId": contract.schema_id, "runId": run.run_id}
    if not event.errors:
        hashed: JsonObject = {} if event.hash is None else {"hash": event.hash}
        fits = state.draft("output.validated", {**facts, "attempt": attempt, **hashed}, now=now)
        if event.veto is not None:
            return [fits, *hooks.vetoed(state, event.veto, now=now, rules=rules)]
        return [fits, state.draft("result.completed", {"result": event.value, **state.place()}, now=now)]
    errors: list[JsonValue] = [error.model_dump(mode="json", by_alias=True) for error in event.errors]
    repairs = OUTPUT_REPAIRS if contract.max_repair_attempts is None else contract.max_repair_attempts
    if attempt > repairs:
        return [state.draft("output.failed", {**facts, "attempts": attempt, "errors": errors}, now=now)]
    repair: JsonObject = {
        "message": "",
        "context": [repair_prompt(event.errors)],
        "delivery": "repair",
        **state.turn_place(),
    }
    return [
        state.draft("output.rejected", {**facts, "attempt": attempt, "errors": errors}, now=now),
        state.draft("message.received", repair, now=now),
    ]


def repair_prompt(errors: tuple[OutputError, ...]) -> str:
    """Return what a model is told whose answer does not fit the output contract."""
    lines = "\n".join(f"- {error.path or '/'}: {error.message}" for error in errors)
    return (
        "Your last answer does not fit the required output schema:\n"
        f"{lines}\n"
        "Answer again with one JSON value that fits the schema, and with nothing else."
    )
