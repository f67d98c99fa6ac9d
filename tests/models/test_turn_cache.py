"""Cached conversion of messages to API turns: equal to a fresh conversion."""

import asyncio
import gc
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.models.wire import OPENAI, WIRES, Reply, Wire, serving

from windlass import Agent, AgentRuntime, LLMProvider, tool
from windlass.errors import Rejected
from windlass.models import ModelSettings, PromptedTools, bedrock, google, responses
from windlass.models.anthropic import anthropic_messages, anthropic_turns
from windlass.models.messages import TurnCache
from windlass.models.openai import openai_messages, openai_turns
from windlass.models.prompted import take_words, write_prompt
from windlass.ports.model import LLMMessage
from windlass_protocol import ToolCall

pytestmark = pytest.mark.uncounted

Convert = Callable[[Sequence[LLMMessage]], Sequence[object]]
MAKERS: dict[str, Callable[[], Convert]] = {
    "openai": lambda: _with(openai_messages, openai_turns("reasoning_content")),
    "anthropic": lambda: _with(anthropic_messages, anthropic_turns("m", ModelSettings())),
    "responses": lambda: TurnCache(partial(responses.take, "m")).of,
    "google": lambda: TurnCache(partial(google.take, "gemini-3-pro")).of,
    "bedrock": lambda: TurnCache(partial(bedrock.take, "m")).of,
    "prompted": lambda: _prompted(TurnCache(take_words)),
}


def _with(convert: Callable[..., Sequence[object]], turns: object) -> Convert:
    return lambda messages: convert(messages, turns)


def _prompted(turns: TurnCache[LLMMessage]) -> Convert:
    return lambda messages: write_prompt(messages, [], turns=turns)


CALLS = (ToolCall(id="c1", name="look", arguments={"at": "x"}),)
MESSAGES = st.one_of(
    st.builds(LLMMessage, st.just("system"), st.sampled_from(["", "Be kind.", "Be short."])),
    st.builds(LLMMessage, st.just("user"), st.sampled_from(["", "Hi.", "Well?"])),
    st.builds(
        LLMMessage,
        st.just("assistant"),
        st.sampled_from(["", "Yes."]),
        tool_calls=st.sampled_from([(), CALLS]),
        reasoning=st.sampled_from([None, "Hm."]),
    ),
    st.builds(
        LLMMessage,
        st.just("tool"),
        st.sampled_from(["", "found"]),
        tool_call_id=st.just("c1"),
        is_error=st.booleans(),
    ),
)
EDITS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 3), st.lists(MESSAGES, max_size=4)), min_size=1, max_size=12
)
"""Edits of the messages: position, number removed, and replacements; a far position means the end."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=some(150))
@given(begin=MESSAGES, edits=EDITS)
def test_after_any_edit_the_cached_turns_equal_those_of_a_new_provider(
    name: str, begin: LLMMessage, edits: list[tuple[int, int, list[LLMMessage]]]
) -> None:
    convert, messages = MAKERS[name](), [begin]
    for at, gone, come in edits:
        messages[at : at + gone] = come
        assert convert(messages) == MAKERS[name]()(messages)


def test_a_conversation_is_forgotten_with_its_first_message() -> None:
    turns = openai_turns(None)
    messages, other = (
        [LLMMessage("user", "Hi."), LLMMessage("assistant", "Yes?")],
        [LLMMessage("user", "Hi.")],
    )
    turns.of(messages)
    turns.of(other)
    assert turns.count == 2
    messages.clear()
    gc.collect()
    assert turns.count == 1


def test_a_message_that_is_refused_leaves_nothing_behind() -> None:
    convert = MAKERS["openai"]()
    said = [LLMMessage(role, "Hi.") for role in ("user", "assistant", "user", "assistant")]
    bad = LLMMessage("user", parts=({"type": "image", "image": "file:///etc/hosts"},))
    before = convert(said)
    with pytest.raises(Rejected):
        convert([*said[:2], LLMMessage("user", "See."), LLMMessage("assistant", "Where?"), bad])
    assert convert(said) == before


def test_a_caller_may_change_the_list_that_it_gets() -> None:
    turns, said = anthropic_turns("m", ModelSettings()), [LLMMessage("user", "Hi.")]
    turns.of(said).clear()
    assert len(turns.of(said)) == 1


OURS = {"windlass", "windlass_harness", "windlass_protocol"}


@contextmanager
def counting() -> Generator[Callable[[], int]]:
    """Count the calls of functions and builtins that modules of Windlass make."""
    calls = 0

    def on_call(frame: FrameType, what: str, argument: object) -> None:
        nonlocal calls
        if what in ("call", "c_call"):
            module: str = frame.f_globals.get("__name__", "")
            calls += module.partition(".")[0] in OURS

    sys.setprofile(on_call)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


STEPS, EARLY, LATE = 70, slice(6, 16), slice(55, 65)


def as_it_is(provider: LLMProvider) -> LLMProvider:
    return provider


def work_of_steps(wire: Wire, wrap: Callable[[LLMProvider], LLMProvider]) -> list[int]:
    """The number of Python calls in each step of a run with one tool call a step."""
    marks: list[int] = []

    async def main() -> None:
        with counting() as calls:

            @tool(mode="read")
            async def look(at: str) -> str:
                marks.append(calls())
                return "found"

            if wrap is PromptedTools:
                step = '{"tool": "look", "args": {"at": "x"}}'
                replies = [Reply(wire.text([step]))] * STEPS + [Reply(wire.text(['{"final": "Done."}']))]
            else:
                asks = [wire.calls([(f"c{number}", "look", ['{"at": "x"}'])]) for number in range(STEPS)]
                replies = [*map(Reply, asks), Reply(wire.text(["Done."]))]
            async with serving(*replies) as server:
                provider = wire.make(server.url, ModelSettings())
                agent = Agent("a", model=wrap(provider), tools=[look], instructions="Look.")
                async with AgentRuntime.in_memory([agent]) as runtime:
                    result = await (await runtime.start_run(agent, "Hi")).wait(timeout=600)
                await provider.aclose()
        assert result.output == "Done."
        assert len(server.asked[-1].body[wire.said]) > STEPS

    asyncio.run(main())
    return [after - before for before, after in pairwise(marks)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wire", "wrap"),
    [*((wire, as_it_is) for wire in WIRES.values()), (OPENAI, PromptedTools)],
    ids=[*WIRES, "prompted"],
)
def test_a_step_does_as_much_in_a_long_conversation_as_in_a_short_one(
    wire: Wire, wrap: Callable[[LLMProvider], LLMProvider]
) -> None:
    work = work_of_steps(wire, wrap)
    # What arrives in one read of the socket varies, and with it a few calls. Work that grew with the
    # conversation would add at least one call for each message.
    early, late = min(work[EARLY]), min(work[LATE])
    assert late - early < LATE.start - EARLY.start, work
