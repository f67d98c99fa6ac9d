"""The bodies of requests and answers that the wire of the runtime does not have."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from windlass_protocol import (
    BudgetLimits,
    InputRequest,
    InputResponse,
    RunMode,
    RunResult,
    RunSnapshot,
    UserContent,
)
from windlass_server.wire import Maybe, Text, Wire

JsonObject = dict[str, JsonValue]
Words = Annotated[
    UserContent, Field(description="What the user says: a text, or parts.", examples=["How is the weather?"])
]
Contexts = Annotated[tuple[Text, ...], Field(max_length=64, description="Texts before the message.")]
Schema = Annotated[JsonObject, Field(description="A JSON Schema that the output must fit.")]
Name = Annotated[Text, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]


class RunWishes(Wire):
    """What a run may be told beside its message."""

    agent: Annotated[Name | None, Field(description="Which agent; may be left out if it is clear.")] = None
    mode: RunMode | None = None
    output_schema: Schema | None = None
    context: Contexts | None = None
    metadata: Annotated[JsonObject | None, Field(description="JSON to find again in `run.started`.")] = None
    budget: BudgetLimits | None = None


class NewSession(RunWishes):
    """A session to begin, with its first message or without."""

    message: Words | None = None


class NewMessage(RunWishes):
    """Something to say in a session, or answers to what it asks; one of the two."""

    message: Words | None = None
    responses: Annotated[tuple[InputResponse, ...] | None, Field(min_length=1, max_length=64)] = None
    delivery: Annotated[
        Literal["queue", "steer"],
        Field(description="`queue` waits for the run under way; `steer` speaks to it."),
    ] = "queue"


class Cancel(Wire):
    """Why a run should end."""

    reason: Annotated[Text | None, Field(max_length=1_000)] = None


class Answer(Wire):
    """An answer to a request: one of its options, words, or both."""

    option_id: Name | None = None
    text: Annotated[Text | None, Field(max_length=100_000)] = None
    arguments_hash: Annotated[
        Text | None, Field(description="Of the arguments that were shown; another call is then refused.")
    ] = None


class Accepted(Wire):
    """Work that was taken: it is durable, and happens from now on."""

    session_id: str
    run_id: Annotated[Maybe[str], Field(description="The run that it begins, or is answered in.")] = None
    message_id: Annotated[Maybe[str], Field(description="Of words to the run under way.")] = None


class RunView(Wire):
    """A run: where it is, what it waits for, and what came of it."""

    run: RunSnapshot
    result: Annotated[Maybe[RunResult], Field(description="Once it has ended.")] = None
    requests: Annotated[tuple[InputRequest, ...], Field(description="What people are being asked.")] = ()


class ToolView(Wire):
    """A tool that an agent may call."""

    name: str
    description: str
    mode: str
    effect: str
    agents: Annotated[tuple[str, ...], Field(description="Whose it is.")]
    input_schema: JsonObject


class ToolList(Wire):
    """All tools of all agents."""

    tools: tuple[ToolView, ...]


class AgentView(Wire):
    """An agent that runs can be started with."""

    agent_id: str
    description: str
    model: str
    version: Maybe[str] = None
    tools: Annotated[tuple[str, ...], Field(description="Names of its tools.")]
    subagents: tuple[str, ...]


class AgentList(Wire):
    """All agents of the server."""

    agents: tuple[AgentView, ...]


class Health(Wire):
    """Whether the server takes requests."""

    status: Literal["ok", "closing"]
    version: str
