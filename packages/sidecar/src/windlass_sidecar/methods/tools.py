"""`tool.*`: the tools of the sidecar, called by the host itself."""

from typing import Final

from pydantic import JsonValue

from windlass import ToolCall
from windlass_protocol import JsonObject
from windlass_sidecar.app import App
from windlass_sidecar.params import Name, NoParams, Params
from windlass_sidecar.rpc import Method, method


class ToolInvoke(Params):
    """A call, and whether a person consents to it."""

    name: Name
    arguments: dict[str, JsonValue] | None = None
    id: Name | None = None
    consent_granted: bool | None = None


async def list_tools(app: App, params: NoParams) -> JsonValue:
    """Describe all tools."""
    return [tool.spec.model_dump(mode="json", by_alias=True) for tool in app.tools.list_tools()]


async def invoke(app: App, params: ToolInvoke) -> JsonValue:
    """Call a tool; a failure is a result too, consent that is missing is an error."""
    arguments: JsonObject = params.arguments or {}
    call = ToolCall(id=params.id or app.new_id(), name=params.name, arguments=arguments)
    result = await app.tools.dispatch(call, consent_granted=params.consent_granted or False)
    return result.model_dump(mode="json", by_alias=True)


METHODS: Final[tuple[Method[App], ...]] = (
    method("tool.list", NoParams, run=list_tools),
    method("tool.invoke", ToolInvoke, run=invoke),
)
