"""Tools of a JSON Schema, for whoever has a schema and no typed function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Unpack, cast

from pydantic_core import from_json

from windlass.definitions import wrong
from windlass.json_schema import schema_faults, schema_problem
from windlass.tool_context import ToolContext
from windlass.tool_schema import ArgumentShape, Unfit
from windlass.tool_signature import Signature
from windlass.tools import Tool, ToolOptions, tool
from windlass_protocol import ApprovalRule, JsonObject

JsonFunction = Callable[[JsonObject, ToolContext], Awaitable[object]]
"""Takes the arguments as the model wrote them, and the context of the call."""

_SIGNATURE: Final = Signature((), "context", is_async=True)


@dataclass(frozen=True)
class JsonShape(ArgumentShape):
    """Arguments that fit a schema and stay JSON."""

    given: JsonObject

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments; do not change it."""
        return self.given

    def validate(self, raw: bytes) -> dict[str, object]:
        """Return the arguments as the one value that the function takes.

        Raises:
            Unfit: they do not fit.
        """
        value = cast(JsonObject, from_json(raw))
        problems = schema_faults(self.given, value)
        if problems:
            raise Unfit(problems)
        return {"arguments": value}


def json_tool(
    function: JsonFunction, schema: JsonObject, **options: Unpack[ToolOptions]
) -> Tool[..., object]:
    """Make a tool of a JSON Schema (2020-12) and a function that takes JSON.

    The schema comes from anybody: one that could fetch, or never end, is refused.

    Raises:
        Rejected: the schema or an option cannot be used; the message says why.
    """

    async def call(arguments: JsonObject, context: ToolContext) -> object:
        return await function(arguments, context)

    name = options.setdefault("name", getattr(function, "__name__", "tool"))
    router = options.pop("router", None)
    problem = arguments_problem(schema)
    if problem is not None:
        raise wrong(f"tool {name}: its schema cannot be used: {problem}")
    made = cast("Tool[..., object]", tool(call, **options))
    made = replace(made, shape=JsonShape(made.name, _SIGNATURE, {}, schema))
    return made if router is None else router.register(made)


def answered_by(original: Tool[..., object], function: JsonFunction) -> Tool[..., object]:
    """Return a tool that looks and is judged as another, with another function.

    The function takes JSON. Nothing of the other one is ever called, and no person or subagent answers for
    it. Where a function of the other one says which calls need consent, all of them do.
    """

    async def call(arguments: JsonObject, context: ToolContext) -> object:
        return await function(arguments, context)

    return replace(
        original,
        function=call,
        shape=JsonShape(original.name, _SIGNATURE, {}, original.input_schema),
        is_question=False,
        delegates=None,
        on_compaction=None,
        approval=original.approval if isinstance(original.approval, ApprovalRule) else ApprovalRule.ALWAYS,
    )


def arguments_problem(schema: JsonObject) -> str | None:
    """Say why a schema cannot be that of arguments; None if it can."""
    if schema.get("type") != "object":
        return 'arguments are an object: write "type": "object" at the top'
    return schema_problem(schema)
