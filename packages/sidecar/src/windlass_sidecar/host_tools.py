"""Tools of the host: the model asks, the sidecar records, the host acts."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal, cast

from pydantic import Field, JsonValue, ValidationError

from windlass import Tool, ToolContext, ToolFailed
from windlass.tools import ToolOptions, json_tool
from windlass.tools.router import ToolRouter
from windlass_protocol import HostToolCall, JsonObject, ToolCall, ToolResult
from windlass_sidecar.errors import RpcError, invalid_params
from windlass_sidecar.params import Params
from windlass_sidecar.rpc import read_params

CALL: Final = "host.tool.call"
"""The request that has the host execute a tool."""
Ask = Callable[[str, JsonObject], Awaitable[JsonValue]]
"""Asks the host for something."""


class HostTool(Params):
    """A tool as the host describes it."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] | None = None
    parameters: dict[str, JsonValue] | None = None
    """Another name of the schema."""
    mode: Literal["read", "safe_write", "destructive", "local", "external"] | None = None
    effect: Literal["read", "idempotent", "once"] | None = None
    approval: Literal["policy", "always", "once", "never"] | None = None
    timeout_ms: Annotated[int | None, Field(gt=0)] = None
    is_outbound: bool | None = None
    reads: list[Literal["untrusted", "private"]] | None = None


class _Function(Params):
    """A tool as OpenAI describes it."""

    function: dict[str, JsonValue]


def tools_of(
    given: list[str | dict[str, JsonValue]] | None, own: ToolRouter, *, ask: Ask, stream_id: str
) -> list[Tool[..., object]]:
    """Return the tools of a stream.

    Those of the sidecar are given by name and those of the host by description; all of the sidecar's when
    none are given.

    Raises:
        RpcError, Rejected: one of them cannot be used.
    """
    if given is None:
        return own.list_tools()
    found: list[Tool[..., object]] = []
    for item in given:
        if isinstance(item, str):
            known = own.get(item)
            if known is None:
                raise invalid_params("tools: the sidecar has no tool of this name; tool.list names them")
            found.append(known)
        else:
            found.append(_host_tool(item, ask=ask, stream_id=stream_id))
    return found


def _host_tool(described: JsonObject, *, ask: Ask, stream_id: str) -> Tool[..., object]:
    if "function" in described and "name" not in described:
        described = {**described, **read_params(_Function, described).function}
    about = read_params(HostTool, described)
    schema = about.input_schema or about.parameters or {"type": "object"}

    async def run(arguments: JsonObject, context: ToolContext) -> ToolResult:
        return await _called(ask, about.name, arguments=arguments, context=context, stream_id=stream_id)

    options = {name: value for name, value in _said(about).items() if value is not None}
    return json_tool(run, schema, **cast(ToolOptions, options))


def _said(about: HostTool) -> dict[str, object]:
    return {
        "name": about.name,
        "description": about.description,
        "mode": about.mode,
        "effect": about.effect,
        "approval": about.approval,
        "timeout_ms": about.timeout_ms,
        "is_outbound": about.is_outbound,
        "reads": about.reads,
        "metadata": {"host": True},
    }


async def _called(
    ask: Ask, name: str, *, arguments: JsonObject, context: ToolContext, stream_id: str
) -> ToolResult:
    params = HostToolCall(
        stream_id=stream_id,
        session_id=context.session_id,
        call=ToolCall(id=context.call_id, name=name, arguments=arguments),
        idempotency_key=context.idempotency_key,
        attempt=context.attempt,
        timeout_ms=context.timeout_ms,
    )
    try:
        answer = await ask(CALL, params.model_dump(mode="json", by_alias=True))
        return ToolResult.model_validate(answer)
    except RpcError as error:
        problem = error.message
    except ValidationError:
        problem = "the host answered with something that is no ToolResult"
    raise ToolFailed(problem)
