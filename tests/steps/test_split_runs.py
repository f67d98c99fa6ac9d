"""A run may be split over processes at any step: the events are the same."""

from collections.abc import Callable, Iterable
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.protocol.judges import Case, python_accepts, schema_accepts
from tests.steps.steps_rig import Stage, new_session, play

from windlass.errors import Unavailable
from windlass.steps import Grammar, read_session, write_session
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.tools import tool
from windlass.tools.context import ToolContext
from windlass_protocol import (
    ErrorKind,
    InputResponse,
    JsonObject,
    JsonValue,
    RetryClass,
    RunMode,
    StepDone,
    StepInput,
    SubagentActionResult,
    encode,
)

BUSY = Unavailable("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
COLORS: JsonObject = {"prompt": "Which?", "options": [{"id": "red", "label": "Red"}]}
INPUTS_MAX = 12


def always(steps: Iterable[int]) -> bool:
    return True


PARTS = st.sampled_from(
    [
        say("Some words. "),
        say("Thought out.", reasoning="Hm."),
        call("add", {"a": 1, "b": 2}),
        call("add", {"a": "x"}),
        call("nothing", {}),
        call("guarded", {"x": 1}),
        call("guarded", {"x": 2}),
        call("ask_question", COLORS),
        call("ask_question", {"prompt": "Name?"}),
        call("agent", {"message": "Help."}),
        say('{"n": 1}'),
        say('{"n": "one"}'),
        Answer(),
        Answer("half", error=BUSY),
    ]
)


def joined(parts: list[Answer]) -> Answer:
    whole = Answer()
    for part in parts:
        whole += part
    return whole


ANSWERS = st.lists(st.lists(PARTS, min_size=1, max_size=3).map(joined), max_size=6)
REPLIES = st.sampled_from(["approve", "deny", "red", "", "free text", "unknown", "message"])


def reply(stage: Stage, word: str) -> StepInput:
    """Return an input for the pending work of the session."""
    if word == "message":
        return StepInput(message="And then?")
    state = stage.state
    results = tuple(
        SubagentActionResult(
            call_id=action.call_id, subagent_name="agent", output="ok", is_error=word == "deny"
        )
        for action in (state.pending_action_batch.actions if state.pending_action_batch else ())
    )
    answers: list[InputResponse] = []
    for request in stage.requests[:1] if word == "red" else stage.requests:
        options = {option.id for option in request.options or ()}
        if word in options:
            answers.append(InputResponse(request_id=request.request_id, option_id=word))
        elif word == "unknown":
            answers.append(InputResponse(request_id=request.request_id, option_id="unknown"))
        else:
            answers.append(InputResponse(request_id=request.request_id, text=word or None))
    return StepInput(
        input_responses=tuple(answers),
        runtime_action_results=results,
        message=None if stage.requests or results else "Go on.",
    )


async def story(stage: Stage, words: list[str], *, has_schema: bool) -> None:
    given = StepInput(message="Begin.", output_schema=SCHEMA if has_schema else None)
    for word in [*words[:INPUTS_MAX], None]:
        result = await stage.send(given)
        if isinstance(result.next, StepDone) or word is None:
            return
        given = reply(stage, word)


def played(
    answers: list[Answer],
    words: list[str],
    *,
    keeps: Callable[[Iterable[int]], bool],
    mode: RunMode,
    grammar: Grammar,
    has_schema: bool,
) -> Stage:
    stage = Stage(session=new_session(), keeps=keeps)
    script = [*answers, *[say("The end.")] * (INPUTS_MAX + 4)]
    stage.harness(lambda: ScriptedModel(by_history(script)), mode=mode, grammar=grammar)
    play(story(stage, words, has_schema=has_schema), stage)
    return stage


RUNS = {
    "answers": ANSWERS,
    "words": st.lists(REPLIES, max_size=6),
    "mode": st.sampled_from(RunMode),
    "grammar": st.sampled_from(Grammar),
    "has_schema": st.booleans(),
}


@pytest.mark.slow
@settings(max_examples=some(150))
@given(splits=st.sets(st.integers(1, 20)), **RUNS)
def test_any_split_over_processes_gives_the_same_events(
    splits: set[int],
    answers: list[Answer],
    words: list[str],
    mode: RunMode,
    grammar: Grammar,
    has_schema: bool,
) -> None:
    whole, split = (
        played(answers, words, keeps=keeps, mode=mode, grammar=grammar, has_schema=has_schema)
        for keeps in (always, splits.isdisjoint)
    )
    assert [event.model_dump() for event in split.events] == [event.model_dump() for event in whole.events]
    assert write_session(split.session) == write_session(whole.session)


@pytest.mark.slow
@settings(max_examples=some(60))
@given(**RUNS)
def test_every_event_and_every_session_is_one_of_the_wire(
    answers: list[Answer], words: list[str], mode: RunMode, grammar: Grammar, has_schema: bool
) -> None:
    stage = played(answers, words, keeps=always, mode=mode, grammar=grammar, has_schema=has_schema)
    assert stage.events
    for event in stage.events:
        case = Case("Event", event.type, cast(JsonValue, event.model_dump(mode="json")))
        assert schema_accepts(case), event
        assert python_accepts(case), event
    session = cast(JsonValue, stage.session.model_dump(mode="json"))
    assert schema_accepts(Case("HarnessSession", "after", session))
    state = cast(JsonValue, stage.state.model_dump(mode="json"))
    assert schema_accepts(Case("StepState", "after", state))


@settings(max_examples=some(60))
@given(**RUNS)
def test_turns_are_whole_and_calls_have_results(
    answers: list[Answer], words: list[str], mode: RunMode, grammar: Grammar, has_schema: bool
) -> None:
    stage = played(answers, words, keeps=always, mode=mode, grammar=grammar, has_schema=has_schema)
    ends = {"turn.completed", "turn.failed"}
    is_open = False
    for event in stage.events:
        if event.type == "turn.started":
            assert not is_open or (grammar is Grammar.TURN_PER_INPUT and mode is RunMode.TASK)
            is_open = True
        elif event.type in ends:
            assert is_open
            is_open = False
    ids = [event.meta.id for event in stage.events]
    assert len(set(ids)) == len(ids)
    calls: list[str] = []
    for message in stage.session.history:
        parts = () if isinstance(message.content, str) else message.content
        if message.role == "assistant":
            assert not calls, "calls without results"
            calls = [part.tool_call_id for part in parts if part.type == "tool-call"]
        elif message.role == "tool":
            assert [part.tool_call_id for part in parts if part.type == "tool-result"] == calls
            calls = []
        else:
            assert not calls, "a message between calls and results"
    assert not calls


@settings(max_examples=some(60))
@given(**RUNS)
def test_a_session_is_the_same_after_it_was_written_and_read(
    answers: list[Answer], words: list[str], mode: RunMode, grammar: Grammar, has_schema: bool
) -> None:
    stage = played(answers, words, keeps=always, mode=mode, grammar=grammar, has_schema=has_schema)
    again = read_session(write_session(stage.session))
    assert again == stage.session
    assert encode(again) == encode(stage.session)


def test_a_step_that_is_made_again_shows_the_same_and_calls_with_the_same_key() -> None:
    keys: list[str] = []

    @tool(mode="safe_write", effect="idempotent")
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "paid"

    stage = Stage()
    stage.harness(lambda: ScriptedModel(by_history([call("pay"), say("Paid.")])), tools={"pay": pay})

    async def twice() -> None:
        assert stage.step is not None
        first, second = [await stage.step(stage.session, StepInput(message="Pay.")) for _ in range(2)]
        assert write_session(first.session) == write_session(second.session)

    play(twice(), stage)
    half = len(stage.events) // 2
    assert stage.events[:half] == stage.events[half:]
    assert len(keys) == 2
    assert len(set(keys)) == 1
