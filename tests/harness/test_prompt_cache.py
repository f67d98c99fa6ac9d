"""Prompts in the cache of a provider: what changed, and what was paid again."""

import pytest
from tests.harness.loop.stage import Session, run_asked

from windlass_harness.loop.notes import CachedPrompt
from windlass_harness.prompt_cache import PARTS_MAX, PartOfPrompt, compare_prompts, describe_loss
from windlass_harness.record import Record
from windlass_protocol import FinishReason, PromptPart
from windlass_protocol.generated.records import CacheLoss, PromptCache, StepCompleted, Usage

AT = "2026-01-31T09:00:00.000Z"


def tool(name: str, digest: str = "") -> PartOfPrompt:
    return PartOfPrompt(PromptPart.TOOL, f"tool:{digest or name}", name)


def system(digest: str = "s") -> PartOfPrompt:
    return PartOfPrompt(PromptPart.SYSTEM, f"system:{digest}")


def message(digest: str, role: str = "user") -> PartOfPrompt:
    return PartOfPrompt(PromptPart.MESSAGE, f"message:{digest}", role)


PARTS = (tool("read"), tool("write"), system(), message("1"), message("2", "tool"))
BEFORE = CachedPrompt("m", tuple(part.text for part in PARTS), 1_000)


def compare(
    parts: tuple[PartOfPrompt, ...], *, read: int, before: CachedPrompt | None = BEFORE
) -> PromptCache:
    usage = Usage(input_tokens=1_200, cache_read_tokens=read, cache_write_tokens=10)
    cache = compare_prompts(before, parts, usage, model_id="m")
    assert cache is not None
    return cache


def test_the_first_call_records_all_parts_and_the_next_one_only_what_it_adds() -> None:
    first = compare(PARTS, read=0, before=None)
    assert (first.kept, first.loss) == (0, None)
    assert first.added == ["tool:read", "tool:write", "system:s", "message:1", "message:2"]
    assert compare((*PARTS, message("3")), read=1_000) == PromptCache(kept=5, added=["message:3"])


@pytest.mark.parametrize(
    ("parts", "loss"),
    [
        ((*PARTS, message("3")), CacheLoss(tokens=600)),
        ((tool("read"), tool("write", "x"), *PARTS[2:]), ("tool", 1, "write")),
        ((tool("find"), *PARTS), ("tool", 0, "find")),
        ((*PARTS[:2], tool("find"), *PARTS[2:]), ("tool", 2, "find")),
        ((PARTS[0], *PARTS[2:]), ("tool", 1, None)),
        ((*PARTS[:2], system("x"), *PARTS[3:]), ("system", 0, None)),
        ((*PARTS[:2], *PARTS[3:]), ("system", 0, None)),
        ((*PARTS[:4], message("x", "assistant")), ("message", 1, "assistant")),
        (PARTS[:4], ("message", 1, None)),
    ],
)
def test_a_loss_names_the_first_part_that_changed(
    parts: tuple[PartOfPrompt, ...], loss: CacheLoss | tuple[str, int, str | None]
) -> None:
    if isinstance(loss, tuple):
        part, index, name = loss
        loss = CacheLoss(tokens=600, part=PromptPart(part), index=index, name=name)
    assert compare(parts, read=400).loss == loss


def test_no_more_is_lost_than_the_prompt_has() -> None:
    usage = Usage(input_tokens=300, cache_read_tokens=0, cache_write_tokens=300)
    cache = compare_prompts(BEFORE, PARTS[:4], usage, model_id="m")
    assert cache is not None
    assert cache.loss is not None
    assert cache.loss.tokens == 300


def test_another_model_has_another_cache() -> None:
    usage = Usage(input_tokens=1_200, cache_read_tokens=0, cache_write_tokens=1_200)
    cache = compare_prompts(BEFORE, PARTS, usage, model_id="other")
    assert cache is not None
    assert (cache.kept, cache.loss) == (0, None)


def test_without_a_cache_nothing_is_compared() -> None:
    assert compare_prompts(None, PARTS, Usage(input_tokens=1_200), model_id="m") is None
    assert compare_prompts(BEFORE, PARTS, Usage(input_tokens=9), model_id="other") is None
    long = tuple(message(str(at)) for at in range(PARTS_MAX + 1))
    assert compare_prompts(BEFORE, long, Usage(input_tokens=1_200), model_id="m") is None
    assert compare(long[:-1], read=0).added == [part.text for part in long[:-1]]


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (CacheLoss(tokens=4_096), "; the prompt did not change, so the cache expired or was not found"),
        (CacheLoss(tokens=4_096, part=PromptPart.SYSTEM, index=0), ": the system prompt changed"),
        (
            CacheLoss(tokens=4_096, part=PromptPart.TOOL, index=1, name="search"),
            ": the prompt changed at tool definition 2 (search)",
        ),
        (CacheLoss(tokens=4_096, part=PromptPart.MESSAGE), ": the prompt changed at message 1"),
    ],
)
def test_a_loss_is_described_for_people(loss: CacheLoss, reason: str) -> None:
    paid = "paid again for 4,096 tokens that the call before had in the provider's cache"
    assert describe_loss(loss) == paid + reason


def test_the_state_holds_the_prompt_that_is_in_the_cache() -> None:
    session = Session()
    session.tell(run_asked())
    session.turn()
    state = session.state
    for cache, usage, parts in (
        (PromptCache(kept=0, added=["system:a", "message:1"]), Usage(cache_write_tokens=30), 2),
        (PromptCache(kept=1, added=["message:2", "message:3"]), Usage(cache_read_tokens=10), 3),
        (None, Usage(), None),
        (None, None, None),
    ):
        step = StepCompleted(finish_reason=FinishReason.STOP, usage=usage, cache=cache, **state.place(0))
        state.apply(
            Record(
                step.TYPE, AT, step, "r1", "a", "turn_0", 0, 1, session_id="s1", seq=state.seq + 1, epoch=1
            )
        )
        assert (None if state.cached_prompt is None else len(state.cached_prompt.parts)) == parts
