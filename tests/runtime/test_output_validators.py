"""Validators of an output: those of its type, and functions of the agent; their words repair the answer."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, Union, cast

import pydantic.dataclasses
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from tests.runtime.runtime_rig import model_of, play
from typing_extensions import TypedDict

from windlass import Agent, AgentRuntime, Rejected, RunInfo
from windlass.agent.output import OutputContext, adapter_of, parse_output
from windlass.limits import OUTPUT_VALIDATORS_MAX
from windlass.testing import FakeClock, ScriptedModel, by_history, call, run_in_fake_time, say
from windlass_protocol import ErrorKind, Event, RunStatus


class Slot(BaseModel):
    """A time of a meeting."""

    begin: int
    end: int

    @field_validator("begin")
    @classmethod
    def _begins_in_office_hours(cls, begin: int) -> int:
        if not 9 <= begin <= 17:
            raise ValueError("the office opens at 9 and closes at 17")
        return begin

    @model_validator(mode="after")
    def _ends_after_its_begin(self) -> Self:
        if self.end <= self.begin:
            raise ValueError("the end must be after the begin")
        return self


@dataclass
class Deps:
    """What the validators need."""

    taken: set[int]


EARLY, BACKWARDS, GOOD = '{"begin": 3, "end": 4}', '{"begin": 12, "end": 11}', '{"begin": 12, "end": 13}'


def errors_of(events: list[Event], kind: str = "output.rejected") -> list[list[tuple[str, str, str]]]:
    return [
        [(one["path"], one["code"], one["message"]) for one in cast(Any, event.data["errors"])]
        for event in events
        if event.type == kind
    ]


async def ran(agent: Agent[Any, Any], **options: Any) -> tuple[Any, list[Event]]:
    async with AgentRuntime.in_memory([agent]) as runtime:
        run = await runtime.start_run(agent, "When?", **options)
        result = await run.wait()
        return result, [event async for event in run.events()]


# Validators of the type


def test_the_words_of_a_validator_go_to_the_model_which_answers_again() -> None:
    async def story() -> None:
        model = ScriptedModel([say(EARLY), say(BACKWARDS), say(GOOD)])
        result, events = await ran(Agent("desk", model=model, output=Slot))
        assert result.output == Slot(begin=12, end=13)
        assert errors_of(events) == [
            [("/begin", "validator", "the office opens at 9 and closes at 17")],
            [("", "validator", "the end must be after the begin")],
        ]
        assert "- /begin: the office opens at 9 and closes at 17" in model.requests[1].messages[-1].content
        assert "- /: the end must be after the begin" in model.requests[2].messages[-1].content

    play(story())


def test_a_run_whose_answers_are_all_refused_fails_with_the_last_words() -> None:
    async def story() -> None:
        result, events = await ran(Agent("desk", model=model_of(EARLY, EARLY, BACKWARDS), output=Slot))
        assert result.status is RunStatus.FAILED
        assert result.error.kind is ErrorKind.STRUCTURED_OUTPUT_FAILURE
        assert "/: the end must be after the begin" in result.error.message
        assert [event.data["attempts"] for event in events if event.type == "output.failed"] == [3]
        with pytest.raises(Rejected, match="the end must be after the begin"):
            _ = result.output

    play(story())


@pydantic.dataclasses.dataclass
class Point:
    """A dataclass with a validator."""

    x: int

    @field_validator("x")
    @classmethod
    def _is_even(cls, x: int) -> int:
        assert x % 2 == 0, "x must be even"
        return x


def is_even(x: int) -> int:
    if x % 2:
        raise ValueError("must be even")
    return x


Even = Annotated[int, AfterValidator(is_even)]


class Row(TypedDict):
    """A typed dictionary with a checked field."""

    x: Even


@pytest.mark.parametrize(
    ("kind", "wrong", "right", "error", "output"),
    [
        (Point, '{"x": 1}', '{"x": 2}', ("/x", "x must be even"), Point(2)),
        (Row, '{"x": 1}', '{"x": 2}', ("/x", "must be even"), {"x": 2}),
        (list[Even], "[2, 1]", "[2, 4]", ("/1", "must be even"), [2, 4]),
    ],
)
def test_dataclasses_typed_dictionaries_and_lists_are_checked_too(
    kind: Any, wrong: str, right: str, error: tuple[str, str], output: object
) -> None:
    async def story() -> None:
        result, events = await ran(Agent("desk", model=model_of(wrong, right), output=kind))
        assert result.output == output
        assert [(path, words) for ((path, _, words),) in errors_of(events)] == [error]

    play(story())


def test_a_type_that_only_the_start_names_is_checked_too() -> None:
    async def story() -> None:
        plain: Agent = Agent("desk", model=model_of(EARLY, GOOD, EARLY, GOOD, EARLY, GOOD))
        async with AgentRuntime.in_memory([plain]) as runtime:
            typed = await runtime.run_typed(plain, "When?", Slot)
            assert typed.output == Slot(begin=12, end=13)
            run = await runtime.start_run(plain, "When?", output=Slot)
            assert json.loads((await run.wait()).output) == {"begin": 12, "end": 13}
            many = await runtime.fan_out({"a": (plain, "When?")}, job_id="j", output=Slot)
            assert many["a"].structured_output == {"begin": 12, "end": 13}
            await runtime.aclose()
            assert runtime.core.ports.deps.outputs == {}

    play(story())


def test_a_validator_that_breaks_fails_the_run_and_names_itself_without_the_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(BaseModel):
        word: str

        @field_validator("word")
        @classmethod
        def _looks_up(cls, word: str) -> str:
            return dict[str, str]()[word]

    async def story() -> None:
        result, _ = await ran(Agent("desk", model=model_of('{"word": "hidden"}'), output=Broken))
        assert result.status is RunStatus.FAILED
        assert result.error.kind is ErrorKind.EXTENSION_FAILURE
        assert result.error.message == "type Broken failed (KeyError)"

    play(story())
    assert "_looks_up" in caplog.text


def test_fake_time_waits_for_validators_that_run_in_threads() -> None:
    async def story() -> None:
        result, _ = await ran(Agent("desk", model=model_of(GOOD), output=Slot, output_validators=[keep]))
        assert result.output == Slot(begin=12, end=13)

    for _ in range(20):
        run_in_fake_time(story(), clock=FakeClock())


def test_a_validator_that_does_not_end_fails_the_run() -> None:
    async def story() -> None:
        async def hang(_: OutputContext, slot: Slot) -> Slot:
            await asyncio.Event().wait()
            return slot

        agent = Agent("desk", model=model_of(GOOD), output=Slot, output_validators=[hang])
        result, _ = await ran(agent)
        assert result.error.message == "output validator hang took over 30,000 ms"

    run_in_fake_time(story(), clock=FakeClock())


# Functions of the agent


def is_free(ctx: OutputContext[Deps], slot: Slot) -> Slot:
    if slot.begin in ctx.deps.taken:
        raise ValueError(f"{slot.begin} is taken")
    return slot


async def is_free_later(ctx: OutputContext[Deps], slot: Slot) -> Slot:
    await asyncio.sleep(0)
    return is_free(ctx, slot)


@pytest.mark.parametrize("validator", [is_free, is_free_later])
def test_a_function_with_dependencies_checks_the_output(validator: Callable[..., Any]) -> None:
    async def story() -> None:
        model = model_of(GOOD, '{"begin": 14, "end": 15}')
        agent = Agent("desk", model=model, deps=Deps, output=Slot, output_validators=[validator])
        result, events = await ran(agent, deps=Deps({12}))
        assert result.output == Slot(begin=14, end=15)
        assert errors_of(events) == [[("", "validator", "12 is taken")]]

    play(story())


def test_a_function_sees_the_run_and_each_attempt() -> None:
    async def story() -> None:
        seen: list[OutputContext] = []

        def look(ctx: OutputContext, slot: Slot) -> Slot:
            seen.append(ctx)
            if ctx.attempt < 3:
                raise ValueError
            return slot

        agent = Agent("desk", model=model_of(GOOD, GOOD, GOOD), output=Slot, output_validators=[look])
        await ran(agent, run_id="r1", session_id="s1", owner="ann", metadata={"plan": "gold"})
        assert [one.attempt for one in seen] == [1, 2, 3]
        last = seen[-1]
        assert (last.run_id, last.session_id, last.agent_id) == ("r1", "s1", "desk")
        assert (last.owner, last.metadata, last.deps) == ("ann", {"plan": "gold"}, None)

    play(story())


def test_functions_are_called_in_order_and_their_change_is_the_recorded_output() -> None:
    class Note(BaseModel):
        words: str = Field(alias="Words")

    async def story() -> None:
        def trim(_: OutputContext, note: Note) -> Note:
            return Note(Words=note.words.strip())

        def shout(_: OutputContext, note: Note) -> Note:
            return Note(Words=note.words.upper())

        model = model_of('{"Words": " hi "}')
        result, events = await ran(Agent("a", model=model, output=Note, output_validators=[trim, shout]))
        assert result.output.words == "HI"
        assert result.structured_output == {"Words": "HI"}
        (completed,) = [event for event in events if event.type == "result.completed"]
        assert completed.data["result"] == {"Words": "HI"}

    play(story())


def test_an_output_that_a_function_changes_in_place_is_recorded_as_it_leaves_it() -> None:
    class Note(BaseModel):
        words: list[str]
        place: str = "here"

    async def story() -> None:
        def add(_: OutputContext, note: Note) -> Note:
            note.words.append("two")
            return note

        def look(_: OutputContext, note: Note) -> Note:
            return note

        def rename(_: OutputContext, value: Any) -> Any:
            value["words"] = ["three"]
            return value

        async def outcome(output: Any, validator: Callable[..., Any]) -> Any:
            agent = Agent(
                "a", model=model_of('{"words": ["one"]}'), output=output, output_validators=[validator]
            )
            result, events = await ran(agent)
            (completed,) = [event for event in events if event.type == "result.completed"]
            assert completed.data["result"] == result.structured_output
            return result.structured_output

        assert await outcome(Note, add) == {"words": ["one", "two"], "place": "here"}
        assert await outcome(Note, look) == {"words": ["one"]}
        schema = {"type": "object", "properties": {"words": {"type": "array"}}}
        assert await outcome(schema, rename) == {"words": ["three"]}

    play(story())


def test_json_that_a_function_changes_in_place_must_fit_the_schema() -> None:
    async def story() -> None:
        def spoil(_: OutputContext, value: Any) -> Any:
            value["n"] = "many"
            return value

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        result, _ = await ran(
            Agent("a", model=model_of('{"n": 1}'), output=schema, output_validators=[spoil])
        )
        assert result.status is RunStatus.FAILED
        assert (
            result.error.message
            == "an output validator of JSON returned an output that misses the schema, at /n"
        )

    play(story())


def test_functions_check_json_of_a_schema_too() -> None:
    async def story() -> None:
        def is_small(_: OutputContext, value: Any) -> Any:
            if value["n"] > 9:
                raise ValueError("n must be small")
            return value

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        agent = Agent(
            "a", model=model_of('{"n": 10}', '{"n": 3}'), output=schema, output_validators=[is_small]
        )
        result, events = await ran(agent)
        assert result.structured_output == {"n": 3}
        assert errors_of(events) == [[("", "validator", "n must be small")]]

    play(story())


def nothing(_: OutputContext, slot: Slot) -> Any:
    return None


def other(_: OutputContext, slot: Slot) -> Any:
    return Slot.model_construct(begin=3, end=4)


def text(_: OutputContext, slot: Slot) -> Any:
    return object()


def keep(_: OutputContext, slot: Slot) -> Slot:
    return slot


def without_context(slot: Slot) -> Slot:
    return slot


def raises(_: OutputContext, slot: Slot) -> Slot:
    raise KeyError("hidden")


def spoils(_: OutputContext, slot: Slot) -> Slot:
    slot.end = cast("int", "late")
    return slot


async def cancels(_: OutputContext, slot: Slot) -> Slot:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task
    return slot


def is_cancelled(_: OutputContext, slot: Slot) -> Slot:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("validator", "words"),
    [
        (nothing, "output validator nothing returned None: it must return the output"),
        (other, "an output validator of Slot returned Slot, which Slot cannot read again"),
        (text, "an output validator of Slot returned object, which Slot cannot read again"),
        (raises, "output validator raises failed (KeyError)"),
        (spoils, "an output validator of Slot returned Slot, which Slot cannot read again"),
        (cancels, "output validator cancels failed (CancelledError)"),
        (is_cancelled, "output validator is_cancelled failed (CancelledError)"),
    ],
)
def test_a_function_that_breaks_fails_the_run(validator: Callable[..., Any], words: str) -> None:
    async def story() -> None:
        result, events = await ran(
            Agent("a", model=model_of(GOOD), output=Slot, output_validators=[validator])
        )
        assert result.status is RunStatus.FAILED
        assert (result.error.kind, result.error.message) == (ErrorKind.EXTENSION_FAILURE, words)
        assert errors_of(events) == []

    play(story())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output_validators": [keep]}, "output_validators check an output; write Agent(…, output=Type)"),
        ({"output": Slot, "output_validators": keep}, "output_validators must be a list of functions"),
        (
            {"output": Slot, "output_validators": [without_context]},
            "output validator without_context must take two parameters, an OutputContext and the output",
        ),
        ({"output": Slot, "output_validators": [Slot]}, "must be functions of an OutputContext and the"),
        (
            {"output": Slot, "output_validators": [is_free]},
            "output validator is_free takes OutputContext[Deps], and the agent has no dependencies",
        ),
        (
            {"output": Slot, "output_validators": [is_free_later], "deps": int},
            "is_free_later takes OutputContext[Deps], and the dependencies of the agent are int",
        ),
        (
            {"output": Slot, "output_validators": [keep] * (OUTPUT_VALIDATORS_MAX + 1)},
            "output_validators: found 17, limit 16",
        ),
    ],
)
def test_validators_that_cannot_be_used_are_refused_where_they_are_declared(options: Any, words: str) -> None:
    with pytest.raises(Rejected) as caught:
        Agent("a", model="demo/x", **options)
    assert words in caught.value.message
    most = [keep] * OUTPUT_VALIDATORS_MAX
    assert len(Agent("a", model="demo/x", output=Slot, output_validators=most).output_validators) == 16


def test_a_subagent_repairs_its_own_output() -> None:
    async def story() -> None:
        clerk = Agent("clerk", model=model_of(EARLY, GOOD), output=Slot)
        boss = ScriptedModel(by_history([call("clerk", {"message": "When?"}), say("done")]))
        result, _ = await ran(Agent("boss", model=boss, subagents=[clerk]))
        assert result.output == "done"
        assert '"begin":12' in str(boss.requests[-1].messages[-1].content)

    play(story())


def test_another_contract_of_the_start_is_checked_by_its_own_schema_alone() -> None:
    async def story() -> None:
        agent = Agent("a", model=model_of("[1]"), output=Slot, output_validators=[raises])
        result, _ = await ran(agent, output={"type": "array"})
        assert result.structured_output == [1]

    play(story())


# Durability

PROGRAM = """
import asyncio, os, signal, sys
from pydantic import AfterValidator, BaseModel, field_validator
from windlass import Agent, AgentRuntime, RunInfo
from windlass.agent.output import OutputContext, adapter_of, parse_output
from windlass.testing import ScriptedModel, by_history, say

class Slot(BaseModel):
    begin: int
    @field_validator("begin")
    @classmethod
    def check(cls, begin: int) -> int:
        if begin < 9:
            raise ValueError("too early")
        return begin

class Deps:
    pass

def validator(ctx: OutputContext[Deps], slot: Slot) -> Slot:
    assert isinstance(ctx.deps, Deps)
    if ctx.attempt == 2 and not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return slot

def make(run: RunInfo) -> Deps:
    return Deps()

model = ScriptedModel(by_history([say('{"begin": 3}'), say('{"begin": 10}')]))
desk = Agent("desk", model=model, deps=make, output=Slot, output_validators=[validator])

async def main() -> None:
    async with AgentRuntime.open("app.db", agents=[desk]) as runtime:
        run = await runtime.start_run(desk, "When?", run_id="r1")
        types = [event.type async for event in run.events()]
        print((await run.wait()).output, types.count("output.rejected"))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_dies_in_a_validator_repairs_once_and_checks_the_answer_again(tmp_path: Path) -> None:
    def start() -> tuple[int, str]:
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr[-2_000:] * (done.returncode > 0)

    assert start() == (-9, "")
    assert start() == (0, "begin=10 1\n")
    assert start() == (0, "begin=10 1\n")


def test_an_output_that_changed_code_refuses_is_an_error_that_says_so(tmp_path: Path) -> None:
    class Strict(BaseModel):
        begin: int
        end: int

        @field_validator("begin")
        @classmethod
        def _refuses(cls, begin: int) -> int:
            raise ValueError("never")

    class Raising(Strict):
        @field_validator("end")
        @classmethod
        def _breaks(cls, end: int) -> int:
            raise KeyError(end)

    async def story() -> None:
        agent = Agent("desk", model=model_of(GOOD), output=Slot)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            assert (await (await runtime.start_run(agent, "When?", run_id="r1")).wait()).output.end == 13
        for kind in (Strict, Raising):
            changed = Agent("desk", model=model_of(GOOD), output=kind)
            async with AgentRuntime.open(tmp_path / "a.db", agents=[changed]) as runtime:
                result = await (await runtime.start_run(changed, "When?", run_id="r1")).wait()
                assert result.structured_output == {"begin": 12, "end": 13}
                with pytest.raises(Rejected, match="the type has changed since the run ended") as caught:
                    _ = result.output
                assert not isinstance(caught.value.__context__, ValidationError)

    play(story())


def test_a_factory_makes_the_dependencies_of_validators() -> None:
    async def story() -> None:
        def make(_: RunInfo) -> Deps:
            return Deps({12})

        model = model_of(GOOD, '{"begin": 14, "end": 15}')
        agent = Agent("desk", model=model, deps=make, output=Slot, output_validators=[is_free])
        result, _ = await ran(agent)
        assert result.output.begin == 14

    play(story())


class Near(BaseModel):
    city: str


class Far(BaseModel):
    city: str


def test_types_that_are_equal_are_read_in_their_own_order_and_what_reads_a_type_is_kept() -> None:
    first, second = Union[Near, Far], Union[Far, Near]  # noqa: UP007 - these two are equal
    assert first == second
    value: JsonValue = {"city": "Ulm"}
    assert [type(parse_output(kind, value)) for kind in (first, second, first)] == [Near, Far, Near]
    assert adapter_of(first) is adapter_of(first)
