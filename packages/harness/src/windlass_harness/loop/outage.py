"""Outages of a provider: when a failed call is tried again, and the records of a run that waits for that.

A short pause is spent awake. During a longer one the run waits: a row in the store, without a task. A message
to the run, a cancel or the end of its time budget ends the wait early.
"""

from hashlib import sha256
from typing import Final

from windlass_harness.loop import failures
from windlass_harness.loop.events import Draft, Moment
from windlass_harness.loop.notes import (
    BATCH,
    HELD,
    PROVIDER,
    CallNotes,
    CompactionNotes,
    Interruption,
    RunNotes,
)
from windlass_harness.loop.rules import AWAKE_MS_MAX, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.retry import RETRY_AFTER_MS_MAX, next_retry_delay_ms, should_retry
from windlass_harness.times import stamp_of
from windlass_protocol import ErrorInfo
from windlass_protocol.generated import records

ISOLATED_INTERRUPTIONS_MAX: Final = 3
"""Interruptions after which an effect is not repeated by itself, if no other suspect was at work at last."""
SHARED_INTERRUPTIONS_MAX: Final = 12
"""Interruptions after which an effect is not repeated by itself, also if others were always at work."""
_CRASH_DELAY_MS: Final = 1_000
_CRASH_DELAY_MS_MAX: Final = 600_000
_LOST_DELAY_MS_MAX: Final = 7_000
"""Before the spread, which makes it ten seconds at most."""
_CRASHED: Final = (
    "The process ended {times} times while this run and others were at work, so the run is continued after a "
    "pause. Find out what ends the process: memory, a provider or a tool that crashes."
)
_LOST: Final = (
    "The run was taken from its process {times} times, because the process stood still or was cut off, so it "
    "is continued after a pause. Give the processes more CPU, or look at the network."
)


def after_crash(
    state: LoopState, notes: RunNotes | CompactionNotes | CallNotes
) -> tuple[bool | None, int, str]:
    """Return whether an effect was interrupted with others, the pause before it is repeated, and the reason.

    An effect that was alone is repeated at once, because its attempts are limited. One that was interrupted
    together with others may be innocent: it is repeated more often, with growing pauses that differ from run
    to run, so that the guilty one is alone sooner or later. So is one whose process lost the session and went
    on. The pause is not needed where no other suspect is driven.
    """
    run_notes, run = state.run_notes, state.session.run
    lost = sum(past.has_lived for past in notes.interruptions) + run_notes.has_lived
    if not run_notes.was_shared and not lost:
        return None, 0, ""
    times = sum(past.is_shared or past.has_lived for past in notes.interruptions) + 1
    spread = sha256(f"{run and run.run_id}/{times}".encode()).digest()[0] / 255 + 0.5
    is_pausing = times > 1 and run_notes.isolated_epoch != state.epoch
    most_ms = _CRASH_DELAY_MS_MAX if run_notes.was_shared else _LOST_DELAY_MS_MAX
    delay_ms = min(_CRASH_DELAY_MS * 2 ** min(times - 2, 20), most_ms) if is_pausing else 0
    reason = _LOST.format(times=lost) if lost else _CRASHED.format(times=times)
    return run_notes.was_shared or None, int(delay_ms * spread), reason


def crashes(state: LoopState) -> tuple[Interruption, ...]:
    """Return the interruptions of effects that are open now, but for those that a process survived."""
    notes = [state.note(call.call_id) for call in state.session.history.open_calls()]
    effects = (state.run_notes, state.compacting, *notes)
    return tuple(past for effect in effects for past in effect.interruptions if not past.has_lived)


def times_ended(state: LoopState, notes: RunNotes | CompactionNotes | CallNotes, *, rules: Rules) -> int:
    """Return how often the process ended during an effect, if that is too often; 0 if not.

    An effect that was alone, or the only suspect, is likely what ends its process.
    """
    run_notes = state.run_notes
    ended = [past for past in notes.interruptions if not past.has_lived]
    if not run_notes.was_shared and not run_notes.was_isolated:
        ended = [past for past in ended if not past.is_shared]
        times_max = rules.interruptions_max
    else:
        times_max = ISOLATED_INTERRUPTIONS_MAX if run_notes.was_isolated else SHARED_INTERRUPTIONS_MAX
    times = len(ended) + (not run_notes.has_lived)
    return times if times >= times_max else 0


def retry_delay_ms(
    notes: RunNotes | CompactionNotes, error: ErrorInfo, chance: float, *, now: Moment, rules: Rules
) -> int | None:
    """Return the pause before the next attempt of a failed call; None if there is none.

    The attempts of the retry policy are always made. An outage is retried for `Rules.retry_for_ms`, the last
    time at its end, unless the provider asks for a longer pause than that.
    """
    attempt, asked_ms = notes.failures + 1, error.retry_after_ms
    if isinstance(notes, RunNotes) and rules.fallbacks:
        attempt = notes.model_failures + 1
    delay_ms = next_retry_delay_ms(rules.retry, attempt, lambda: chance, retry_after_ms=asked_ms)
    if should_retry(rules.retry, attempt, retry_class=error.retry):
        return delay_ms
    left_ms = rules.retry_for_ms - notes.retrying_ms(now.at)
    if not failures.is_outage(error) or left_ms <= 0 or min(asked_ms or 0, RETRY_AFTER_MS_MAX) > left_ms:
        return None
    return min(delay_ms, left_ms)


def next_model(state: LoopState, error: ErrorInfo, *, rules: Rules) -> str | None:
    """Return the model that is called after a failure, if it is another one.

    A model that is away gets the attempts of the retry policy, unless it asks for a pause in which the run
    would be parked. After the last model the first one is next.
    """
    run, notes = state.run, state.run_notes
    if run is None or run.first_model is None or not rules.fallbacks:
        return None
    is_last = notes.model_failures + 1 >= rules.retry.max_attempts
    is_away = failures.is_outage(error) and (is_last or (error.retry_after_ms or 0) > AWAKE_MS_MAX)
    if not is_away and not failures.is_refusal_of_account(error):
        return None
    models = (run.first_model, *rules.fallbacks)
    current = state.model_id
    return models[(models.index(current) + 1) % len(models) if current in models else 0]


def fallback_delay_ms(
    state: LoopState, error: ErrorInfo, chance: float, *, model_id: str, now: Moment, rules: Rules
) -> int | None:
    """Return the pause before another model is called; None if none is.

    There is none between two models. After the last one the outage is waited for, if any model is away.
    """
    notes = state.run_notes
    if model_id in rules.fallbacks:
        return 0
    left_ms = rules.retry_for_ms - notes.retrying_ms(now.at)
    if not (failures.is_outage(error) or notes.was_away) or left_ms <= 0:
        return None
    return min(next_retry_delay_ms(rules.retry, notes.failures + 1, lambda: chance), left_ms)


def waiting(state: LoopState, delay_ms: int, reason: str, *, now: Moment, on: str = PROVIDER) -> list[Draft]:
    """Return the records of a run that waits for its next attempt; none if the pause is spent awake."""
    if state.run is None or delay_ms <= AWAKE_MS_MAX:
        return []
    return _wait(state, stamp_of(now.ms + delay_ms), reason, now=now, on=on)


def waiting_for_batch(state: LoopState, reason: str, *, now: Moment) -> list[Draft]:
    """Return the records of a run that waits for its answer in a batch."""
    return _wait(state, None, reason, now=now, on=BATCH)


def _wait(state: LoopState, until: str | None, reason: str, *, now: Moment, on: str) -> list[Draft]:
    run = state.run
    assert run is not None, "only a run waits"
    usage = state.run_notes.known_usage
    return [
        state.draft(records.TurnWaiting(on=on, **state.turn_place), now=now),
        state.draft(
            records.RunWaiting(run_id=run.run_id, on=on, until=until, reason=reason, usage=usage), now=now
        ),
    ]


def wake_ms(state: LoopState, now: Moment) -> int | None:
    """Return the time of the next attempt, or of the end of the time budget; None if it has come."""
    notes = state.run_notes
    waits = (notes, state.compacting) if notes.waits_on in HELD else (notes,)
    pauses = [wait.pause for wait in waits if wait.is_retry and wait.pause is not None]
    ends = [pause.until_ms for pause in pauses if now.is_in(pause)]
    if not ends or state.exceeding(now):
        return None
    if notes.limits.max_wall_ms is not None:
        ends.append(now.ms + notes.limits.max_wall_ms - state.wall_ms(now) + 1)
    return min(ends)
