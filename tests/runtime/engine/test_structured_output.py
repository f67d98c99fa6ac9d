"""Typed output: constrained decoding with the schema, where the provider supports it."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest
from tests.runtime.runtime_rig import look, play

from windlass import Agent, AgentRuntime
from windlass.engine.model_calls import output as holding
from windlass.engine.model_calls.output import StructuredOutput, strict_schema
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk, ModelFault, ModelRejected
from windlass.testing import ScriptedModel, call, say
from windlass_protocol import JsonObject, OutputContract, RetryClass, SchemaVersion

TRIP: JsonObject = {
    "type": "object",
    "title": "Trip",
    "properties": {"city": {"type": "string", "minLength": 1}, "days": {"type": "integer", "default": 1}},
    "required": ["city"],
}
STRICT: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def refusal(fault: ModelFault = ModelFault.INVALID_REQUEST) -> ModelRejected:
    return ModelRejected("no such schema", fault=fault, retry=RetryClass.NOT_RETRYABLE)


class Server:
    """A model that supports schemas, and records the requested ones."""

    def __init__(self, *answers: Any, beside_tools: bool = False, error: Exception | None = None) -> None:
        self._model = ScriptedModel(answers)
        self.holds_beside_tools = beside_tools
        self.error = error
        self.held: list[JsonObject | None] = []

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.held.append(None)
        return self._model.stream(messages, tools=tools, temperature=temperature)

    def with_output(self, schema: JsonObject) -> LLMProvider:
        return _Strict(self, schema)


class _Strict:
    def __init__(self, server: Server, schema: JsonObject) -> None:
        self._server = server
        self._schema = schema

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        chunks = self._server.stream(messages, tools=tools, temperature=temperature)
        self._server.held[-1] = self._schema
        if self._server.error is not None:
            self._server.held.pop()
            raise self._server.error
        async for chunk in chunks:
            yield chunk


def returned(server: Server, *tools: Any, output: Any = TRIP) -> object:
    async def story() -> object:
        agent = Agent("clerk", model=server, tools=tools)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Plan it.", output=output)
            result = await handle.wait(timeout=300)
            return result.structured_output if result.error is None else result.error.message

    return play(story())


GOOD = '{"city": "Oslo", "days": 2}'


def test_a_run_that_must_return_a_value_holds_the_server_to_its_schema() -> None:
    server = Server(say("nonsense"), say(GOOD))
    assert returned(server) == {"city": "Oslo", "days": 2}
    assert server.held == [STRICT, STRICT], "and what it says is checked all the same"


def test_a_run_without_a_contract_sends_no_schema() -> None:
    server = Server(say("hello"))
    assert returned(server, output=None) is None
    assert server.held == [None]


@pytest.mark.parametrize(("beside", "held"), [(False, [None, None]), (True, [STRICT, STRICT])])
def test_a_model_with_tools_is_held_only_where_it_can_still_call_them(
    beside: bool, held: list[JsonObject | None]
) -> None:
    server = Server(call("look", {"item": "map"}), say(GOOD), beside_tools=beside)
    assert returned(server, look) == {"city": "Oslo", "days": 2}
    assert server.held == held


def test_a_server_that_does_not_take_the_schema_is_asked_in_words_alone() -> None:
    server = Server(say("nonsense"), say(GOOD), error=refusal())
    assert returned(server) == {"city": "Oslo", "days": 2}
    assert server.held == [None, None]


def test_any_other_failure_is_a_failure() -> None:
    assert returned(Server(say(GOOD), error=refusal(ModelFault.AUTH))) == "no such schema"


def test_the_memory_of_refused_schemas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "REFUSED_MAX", 1)
    known = StructuredOutput()

    server = Server(say(GOOD), say(GOOD), error=refusal())
    version = SchemaVersion(major=1, minor=0, patch=0)

    def provider(name: str) -> LLMProvider:
        contract = OutputContract(schema_id=name, schema_version=version, json_schema=TRIP)
        return known.of(server, contract, has_tools=False)

    async def refuse(name: str) -> None:
        async for _ in provider(name).stream([LLMMessage("user", "Hi")]):
            pass

    play(refuse("a"))
    assert provider("a") is server
    play(refuse("b"))
    assert provider("b") is server
    assert provider("a") is not server


def test_a_schema_is_made_strict_all_the_way_down() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}, "maxItems": 3},
            "note": {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]},
            "kind": {"enum": ["a", "b"], "description": "Which."},
        },
        "$defs": {"Stop": {"type": "object", "properties": {"at": {"type": "string", "format": "date"}}}},
    }
    stop: JsonObject = {
        "type": "object",
        "properties": {"at": {"type": "string"}},
        "required": ["at"],
        "additionalProperties": False,
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {
            "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "kind": {"enum": ["a", "b"], "description": "Which."},
        },
        "required": ["stops", "note", "kind"],
        "additionalProperties": False,
        "$defs": {"Stop": stop},
    }


@pytest.mark.parametrize(
    "part",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"deep": {"not": {"type": "string"}}}},
        {"oneOf": [{"type": "string"}]},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array", "items": True},
        {"anyOf": [{"type": "object"}]},
        {"anyOf": 3},
        {"$ref": "https://example.org/s"},
    ],
)
def test_a_schema_that_cannot_be_said_strictly_is_said_in_words_alone(part: Any) -> None:
    assert strict_schema({"type": "object", "properties": {"a": part}}) is None
    assert strict_schema({"type": "object", "properties": {}, "$defs": {"A": part}}) is None


def test_a_value_that_is_no_object_is_asked_for_in_words_alone() -> None:
    assert strict_schema({"type": "integer"}) is None
    assert strict_schema({"type": "object", "properties": {}, "if": {}}) is None
    server = Server(say("5"))
    assert returned(server, output=int) == 5
    assert server.held == [None]
