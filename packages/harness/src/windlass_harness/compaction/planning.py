"""What to trim, what to summarise and what must stay.

The rules, in the order in which they are tried:

1. Eviction. Long results of older calls lose their middle. If that makes enough room, nothing is summarised.
2. Summary. Older messages give way to one summary, written by one model call. It replaces the summary before
   it, which is handed to that call; summaries never nest.
3. What stays word for word: system messages, the last thing a person said, earlier words of people as far as
   they are short, and the newest messages of the window, as many as fit. If not even the newest ones fit,
   their results are shortened too. A call is never parted from its result.

A compaction aims well below the threshold, so that it pays for a while, and one that cannot get below the
threshold asks for a model call only if it frees a good part: a history that cannot be helped does not cost a
call at each step.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from windlass_harness.compaction.shape import (
    clip_tokens,
    compact,
    is_replaced,
    lasting,
    long_results,
    safe_cuts,
    summary_message,
    summary_of,
    trim,
)
from windlass_harness.compaction.tokens import Estimate, estimate_tokens, input_tokens
from windlass_harness.origin import Origin, is_real_user, mark
from windlass_protocol import CompactionCompletedData, CompactionConfig, ModelMessage
from windlass_protocol.limits import INTEGER_MAX

SUMMARY_CHARS_MIN: Final = 280
SUMMARY_TOKENS_MAX: Final = 4_096
RESULT_CHARS_MIN: Final = 200
RESULT_CHARS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What one compaction does to one history.

    `tokens_after` is the most that the result fills by the same estimate as `tokens_before`. If `fits` is
    False the result is still over the threshold, and compacting again will not help: end the run clearly.
    The messages from `kept_from` on stay; a plan without a summary shortens results before it alone.
    """

    tokens_before: int
    tokens_after: int
    fits: bool
    trimmed_call_ids: frozenset[str] = frozenset()
    result_chars_max: int = 0
    kept_from: int = 0
    pinned: tuple[ModelMessage, ...] = ()
    previous_summary: str | None = None
    summary_tokens_max: int = 0
    request_tokens_max: int = 0
    estimate: Estimate = estimate_tokens

    @property
    def needs_summary(self) -> bool:
        """Whether a model has to summarise the messages before `kept_from`."""
        return self.summary_tokens_max > 0

    @property
    def is_empty(self) -> bool:
        """Whether the history stays as it is."""
        return not self.needs_summary and not self.trimmed_call_ids


def plan(
    messages: Sequence[ModelMessage],
    config: CompactionConfig,
    *,
    overhead_tokens: int = 0,
    on_compaction: Sequence[ModelMessage] = (),
    summary_window_tokens: int | None = None,
    estimate: Estimate = estimate_tokens,
) -> CompactionPlan:
    """Plan the compaction of a history; an empty plan if it is not needed.

    `overhead_tokens` is what a call reads apart from the history: instructions and tools. `on_compaction`
    messages, such as a todo list, are put after the summary and replace those of the last compaction; they
    hold no calls. `summary_window_tokens` bounds the request for a summary when its model reads less.
    """
    before = input_tokens(messages, config, overhead_tokens=overhead_tokens, estimate=estimate)
    if before <= config.threshold:
        return CompactionPlan(tokens_before=before, tokens_after=before, fits=True, estimate=estimate)
    scene = _scene(messages, config, before=before, overhead_tokens=overhead_tokens, estimate=estimate)
    if summary_window_tokens is not None:
        scene = replace(scene, request_tokens_max=min(scene.request_tokens_max, summary_window_tokens))
    scene = replace(scene, extras=tuple(mark(message, Origin.PINNED) for message in on_compaction))
    trimmed = _plan_trim(scene)
    if trimmed.tokens_after <= scene.target:
        return trimmed
    summarised = _plan_summary(scene)
    if summarised is None or (trimmed.fits and not summarised.fits):
        return trimmed
    return summarised


def plan_eviction(
    messages: Sequence[ModelMessage],
    config: CompactionConfig,
    *,
    overhead_tokens: int = 0,
    estimate: Estimate = estimate_tokens,
) -> CompactionPlan:
    """Plan what can be done without a model; an empty plan if nothing can."""
    before = input_tokens(messages, config, overhead_tokens=overhead_tokens, estimate=estimate)
    return _plan_trim(
        _scene(messages, config, before=before, overhead_tokens=overhead_tokens, estimate=estimate)
    )


def apply(
    plan: CompactionPlan, messages: Sequence[ModelMessage], *, summary: str | None = None
) -> tuple[ModelMessage, ...]:
    """Return the history after the planned compaction.

    Raises:
        ValueError: the plan needs a summary and there is none.
    """
    return compact(
        messages,
        summary=fit_summary(plan, summary),
        kept_from=plan.kept_from,
        pinned=plan.pinned,
        trimmed_call_ids=plan.trimmed_call_ids,
        result_chars_max=plan.result_chars_max,
    )


def fit_summary(plan: CompactionPlan, summary: str | None) -> str | None:
    """Return the summary as long as the plan has room for; None if it needs none.

    Raises:
        ValueError: the plan needs a summary and there is none.
    """
    if not plan.needs_summary:
        return None
    if summary is None or not summary.strip():
        raise ValueError("the plan needs a summary, found none; ask the model again or leave the history")
    return clip_tokens(
        summary.strip(),
        plan.summary_tokens_max,
        measure=lambda text: plan.estimate(summary_message(text)),
    )


def completed_data(
    plan: CompactionPlan, summary: str | None, *, model_id: str, sequence: int, turn_id: str
) -> CompactionCompletedData:
    """Return what to journal, so that a fold of the records repeats `apply`.

    Raises:
        ValueError: the plan needs a summary and there is none.
    """
    fitted = fit_summary(plan, summary)
    # The plan has room for the longest summary; the one that was written may be shorter.
    spared = 0 if fitted is None else plan.summary_tokens_max - plan.estimate(summary_message(fitted))
    return CompactionCompletedData(
        model_id=model_id,
        sequence=sequence,
        turn_id=turn_id,
        summary=fitted,
        kept_from=plan.kept_from,
        trimmed_call_ids=tuple(sorted(plan.trimmed_call_ids)),
        result_chars_max=plan.result_chars_max,
        pinned=plan.pinned,
        input_tokens_before=min(plan.tokens_before, INTEGER_MAX),
        input_tokens_after=min(plan.tokens_after - max(spared, 0), INTEGER_MAX),
    )


@dataclass(frozen=True, slots=True)
class _Scene:
    """A history that is too long, and what is known about it."""

    messages: Sequence[ModelMessage]
    threshold: int
    before: int
    fixed: int
    request_tokens_max: int  # for the call that writes the summary, its answer included
    starts: tuple[int, ...]  # safe places where the newest part may begin, the longest part first
    people: tuple[int, ...]  # where people speak
    extras: tuple[ModelMessage, ...]
    previous_summary: str | None
    estimate: Estimate

    @property
    def target(self) -> int:
        """Where a compaction should end, so that the next one is not due at once."""
        return self.threshold * 3 // 4

    @property
    def result_chars_max(self) -> int:
        return min(RESULT_CHARS_MAX, max(RESULT_CHARS_MIN, self.threshold // 8))

    @property
    def summary_tokens_max(self) -> int:
        """The most that the message with the summary fills, by the caller's estimate."""
        texts = ("", "x" * SUMMARY_CHARS_MIN)
        least = max(self.estimate(summary_message(text)) for text in texts)
        return max(least, min(SUMMARY_TOKENS_MAX, self.request_tokens_max // 4))

    def total(self, messages: Iterable[ModelMessage]) -> int:
        return sum(map(self.estimate, messages))

    def pinned_before(self, start: int) -> tuple[ModelMessage, ...]:
        """What people said before `start` and stays: the last words, short earlier ones."""
        left = self.threshold // 8
        pinned: list[ModelMessage] = []
        for index in reversed(self.people[: bisect_left(self.people, start)]):
            left -= self.estimate(self.messages[index])
            if left < 0 and index != self.people[-1]:
                break
            pinned.append(self.messages[index])
        return (*reversed(pinned), *self.extras)


def _scene(
    messages: Sequence[ModelMessage],
    config: CompactionConfig,
    *,
    before: int,
    overhead_tokens: int,
    estimate: Estimate,
) -> _Scene:
    # What the provider counts beyond our estimate stays after the compaction, as far as we know.
    fixed = max(overhead_tokens, before - sum(map(estimate, messages)))
    summaries = [text for message in messages if (text := summary_of(message)) is not None]
    return _Scene(
        messages=messages,
        threshold=config.threshold,
        before=before,
        fixed=fixed,
        request_tokens_max=max(config.threshold - fixed, 0),
        starts=_window_starts(messages, config.recent_window_size),
        people=tuple(index for index, message in enumerate(messages) if is_real_user(message)),
        extras=(),
        previous_summary=summaries[-1] if summaries else None,
        estimate=estimate,
    )


def _window_starts(messages: Sequence[ModelMessage], window: int) -> tuple[int, ...]:
    cuts = safe_cuts(messages)
    earliest = max(0, len(messages) - window)
    while not cuts[earliest]:
        earliest -= 1  # the history may always be cut before its first message
    return tuple(index for index in range(earliest, len(cuts)) if cuts[index])


def _plan_trim(scene: _Scene) -> CompactionPlan:
    start = scene.starts[0]
    older, window = scene.messages[:start], scene.messages[start:]
    call_ids = long_results(older, scene.result_chars_max)
    shortened = trim(older, call_ids, result_chars_max=scene.result_chars_max)
    after = scene.fixed + scene.total(shortened) + scene.total(window)
    if after >= scene.before:
        call_ids, after, start = frozenset[str](), scene.before, 0
    return CompactionPlan(
        tokens_before=scene.before,
        tokens_after=after,
        fits=after <= scene.threshold,
        trimmed_call_ids=call_ids,
        result_chars_max=scene.result_chars_max,
        kept_from=start,
        estimate=scene.estimate,
    )


def _plan_summary(scene: _Scene) -> CompactionPlan | None:
    """Return the best plan with a summary; None if no such plan is worth a model call."""
    options = list(_summaries(scene))
    for limit in (scene.target, scene.threshold):
        for option in options:
            if option.tokens_after <= limit:
                return option
    best = min(options, key=lambda option: option.tokens_after, default=None)
    if best is None or scene.before - best.tokens_after < max(1, scene.threshold // 10):
        return None
    return best


def _summaries(scene: _Scene) -> Iterator[CompactionPlan]:
    """Plans with a summary, best first: whole results, short ones, nothing kept."""
    end = len(scene.messages)
    kept = [start for start in scene.starts if 0 < start < end]
    whole = _tokens_from(scene, scene.messages)
    for start in kept:
        yield _summary(scene, start, kept_tokens=whole[start])
    call_ids = long_results(scene.messages[scene.starts[0] :], scene.result_chars_max)
    shortened = _tokens_from(scene, trim(scene.messages, call_ids, result_chars_max=scene.result_chars_max))
    for start in kept:
        yield replace(_summary(scene, start, kept_tokens=shortened[start]), trimmed_call_ids=call_ids)
    if scene.starts[-1] == end:
        yield _summary(scene, end, kept_tokens=0)


def _summary(scene: _Scene, start: int, *, kept_tokens: int) -> CompactionPlan:
    pinned = scene.pinned_before(start)
    stays = (*lasting(scene.messages[:start]), *pinned)
    after = scene.fixed + scene.summary_tokens_max + scene.total(stays) + kept_tokens
    return CompactionPlan(
        tokens_before=scene.before,
        tokens_after=after,
        fits=after <= scene.threshold,
        result_chars_max=scene.result_chars_max,
        kept_from=start,
        pinned=pinned,
        previous_summary=scene.previous_summary,
        summary_tokens_max=scene.summary_tokens_max,
        request_tokens_max=scene.request_tokens_max,
        estimate=scene.estimate,
    )


def _tokens_from(scene: _Scene, messages: Sequence[ModelMessage]) -> list[int]:
    """For each index, the estimate of what survives a summary from there on."""
    sizes = (0 if is_replaced(message) else scene.estimate(message) for message in reversed(messages))
    return list(accumulate(sizes, initial=0))[::-1]
