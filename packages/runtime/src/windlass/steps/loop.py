"""The step: what waited is settled, the model is asked, its calls are made."""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from windlass.engine.judge import settled
from windlass.engine.prompt import to_llm
from windlass.engine.results import BUG, model_error
from windlass.ports.model import LLMMessage, LLMProvider
from windlass.steps.asking import Prompt, ask_model
from windlass.steps.compacting import compact_history
from windlass.steps.concluding import conclude, fail_step
from windlass.steps.contract import StepFn, StepResult, ToolLoopHarnessConfig
from windlass.steps.harness import Harness, prepare
from windlass.steps.output import check_schema, output_tool
from windlass.steps.resuming import Resumed, resume
from windlass.steps.run import StepRun, at, at_turn, dump
from windlass_harness.compaction import Origin, estimate_tokens, mark
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    HarnessSession,
    JsonObject,
    ModelMessage,
    RetryClass,
    StepInput,
    StepPlace,
    SystemMessage,
    TextPart,
    UserContent,
    UserMessage,
)

MODEL_CALL_FAILED: Final = "MODEL_CALL_FAILED"


def create_tool_loop_harness(config: ToolLoopHarnessConfig) -> StepFn:
    """Return the step function of a configuration.

    Raises:
        Rejected: the configuration cannot be used; the message says what to write.
    """
    harness = prepare(config)

    async def step(session: HarnessSession, step_input: StepInput | None = None, /) -> StepResult:
        return await _step(harness, session, step_input=step_input or StepInput(), again=step)

    return step


async def _step(
    harness: Harness, session: HarnessSession, *, step_input: StepInput, again: StepFn
) -> StepResult:
    if step_input.output_schema is not None:
        check_schema(step_input.output_schema)
    run = StepRun(harness, session)
    resumed = await resume(run, step_input)
    if resumed.is_waiting:
        return StepResult(None, run.saved())
    await _begin(run, resumed)
    if not run.state.is_turn_open:
        return StepResult(None, run.saved())
    return await _think(run, resumed, again)


async def _begin(run: StepRun, resumed: Resumed) -> None:
    """Open a turn if the input asks for one, and put the input into the history."""
    given, was_open = resumed.given, run.state.is_turn_open
    if given.output_schema is not None:
        run.session = run.session.model_copy(update={"output_schema": given.output_schema})
        run.change(output_attempts=None)
    if not was_open and (given.message is not None or resumed.is_answered):
        await _open_turn(run)
    delivery = "queue" if resumed.is_queued else "steer" if was_open else None
    if given.message is not None:
        await run.emit("message.received", _received(run, given.message, delivery=delivery))
    run.say(*(mark(UserMessage(content=text), Origin.CONTEXT) for text in given.context or ()))
    if given.message is not None:
        run.say(UserMessage(content=given.message))


async def _open_turn(run: StepRun) -> None:
    last = run.state.place
    sequence = 0 if last is None else last.sequence + 1
    place = StepPlace(sequence=sequence, step_index=0, turn_id=f"turn_{sequence}")
    run.change(place=place, is_turn_open=True, turn_usage=None, output_attempts=None)
    if last is None:
        identity = run.harness.config.runtime_identity
        await run.emit("session.started", {} if identity is None else {"runtime": dump(identity)})
    await run.emit("turn.started", at_turn(place))


def _received(run: StepRun, message: UserContent, *, delivery: str | None) -> JsonObject:
    data: JsonObject = at_turn(run.place)
    if isinstance(message, str):
        data["message"] = message
    else:
        data["message"] = "".join(part.text for part in message if isinstance(part, TextPart))
        parts: list[JsonValue] = [dump(part) for part in message]
        data["parts"] = parts
    if delivery is not None:
        data["delivery"] = delivery
    return data


async def _think(run: StepRun, resumed: Resumed, again: StepFn) -> StepResult:
    config, agent = run.harness.config, run.session.agent
    try:
        provider = await settled(config.resolve_model(agent.model_reference))
    except Exception as error:  # noqa: BLE001 - the host's code: a model that cannot be had is a failed step
        return await _model_failed(run, model_error(error, config.redactor))
    tools = _tools(run)
    await compact_history(run, overhead_tokens=estimate_tokens([agent.system, *tools]))
    started: JsonObject = {"modelId": agent.model_reference.id, **at(run.place)}
    await run.emit("step.started", started, messages=run.session.history)
    for shown in resumed.late:
        await run.emit(shown.type, {**shown.data, **at(run.place)})
    answer = await ask_model(run, _prompt(run, provider, tools))
    if isinstance(answer, ErrorInfo):
        return await _model_failed(run, answer)
    _note_size(run, answer.usage)
    return await conclude(run, answer, again=again)


def _tools(run: StepRun) -> tuple[JsonObject, ...]:
    schema = run.session.output_schema
    return (*run.harness.definitions, *(() if schema is None else (output_tool(schema),)))


def _prompt(run: StepRun, provider: LLMProvider, tools: tuple[JsonObject, ...]) -> Prompt:
    agent, history = run.session.agent, run.session.history
    rules = [one for one in history if isinstance(one, SystemMessage)]
    rest = [one for one in history if not isinstance(one, SystemMessage)]
    system = [LLMMessage("system", agent.system)] if agent.system else []
    temperature = (agent.model_reference.options or {}).get("temperature")
    return Prompt(
        provider,
        [*system, *_converted(rules), *_converted(rest)],
        tools=tools,
        temperature=temperature if isinstance(temperature, int | float) else None,
    )


def _converted(messages: Sequence[ModelMessage]) -> list[LLMMessage]:
    return [one for message in messages for one in to_llm(message)]


def _note_size(run: StepRun, usage: JsonObject | None) -> None:
    """Remember what the provider counted, so that the next step need not guess."""
    tokens = (usage or {}).get("inputTokens")
    known = {
        "last_known_input_tokens": tokens if isinstance(tokens, int) else None,
        "last_known_prompt_message_count": len(run.session.history) if isinstance(tokens, int) else None,
    }
    config = run.session.compaction.model_copy(update=known)
    run.session = run.session.model_copy(update={"compaction": config})


async def _model_failed(run: StepRun, error: ErrorInfo) -> StepResult:
    is_refused = error.code is ErrorCode.REJECTED and error.retry is RetryClass.NOT_RETRYABLE
    # Whoever mends a slip of a provider can go on with the conversation.
    is_terminal = is_refused and (error.details or {}).get("fault") != BUG
    return await fail_step(run, MODEL_CALL_FAILED, message=error.message, is_terminal=is_terminal)
