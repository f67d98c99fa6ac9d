# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""Microsoft agent-framework, in memory.

Nothing is durable: it shows what a loop costs that writes nothing.

Choices:
- `Agent` with a chat client of our own that has the layer which calls functions, as the clients of the
  package have it (middleware and telemetry layers are left out: cheaper).
- `create_session()` with the provider that it gets by itself, `InMemoryHistoryProvider`.
- The limit of 40 model calls is raised, which is a setting of the client.
- There is nothing to resume. For the parked sessions the session objects are kept: they are all that there
  is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from benchmarks.peers.task import (
    FINAL,
    INSTRUCTIONS,
    TOOL,
    TOOL_DESCRIPTION,
    Call,
    Runner,
    Script,
    arguments,
    main,
)

MAX_MODEL_CALLS = 10_000


class ScriptedClient(FunctionInvocationLayer, BaseChatClient):
    def __init__(self, script: Script) -> None:
        super().__init__(function_invocation_configuration={"max_iterations": MAX_MODEL_CALLS})
        self._script = script

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> ChatResponse:
        last = messages[-1].contents[-1]
        call = await self._script.answer(last.call_id or last.text, len(messages))
        return ChatResponse(messages=[Message(role="assistant", contents=[_content(call)])])


class AgentFramework(Runner):
    name = "agent-framework"
    packages = ("agent-framework-core",)

    async def open(self, folder: Path, script: Script) -> None:
        @tool(name=TOOL, description=TOOL_DESCRIPTION)
        async def lookup(query: str, page: int) -> str:
            return script.lookup(query, page)

        self._script = script
        self._sessions: list[Any] = []
        self._agent = Agent(ScriptedClient(script), INSTRUCTIONS, tools=[lookup])

    async def run(self, session: str) -> str:
        kept = self._agent.create_session(session_id=session)
        self._sessions.append(kept)
        return (await self._agent.run(self._script.prompt(session), session=kept)).text

    async def resume(self, session: str) -> None:
        raise NotImplementedError("nothing is stored")

    async def close(self) -> None:
        pass


def _content(call: Call | None) -> Content:
    if call is None:
        return Content.from_text(FINAL)
    return Content.from_function_call(call.id, TOOL, arguments=call.arguments_json)


if __name__ == "__main__":
    main(AgentFramework(), arguments())
