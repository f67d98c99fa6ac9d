# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""Google ADK behind its own server, `adk api_server`; see benchmarks/http.py.

Choices:
- Sessions are stored as the server does by default: in a SQLite file.
- `--auto_create_session`: one request starts a run and is answered with its events.
- The model is a script behind `BaseLlm`; no network is used.
"""

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types

from benchmarks.peers.task import FINAL, INSTRUCTIONS, TOOL, Script

script = Script()
script.reset(1)


class ScriptedLlm(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[-1]
        answered = last.function_response
        call = await script.answer(answered.id if answered else last.text, len(llm_request.contents))
        if call is None:
            part = types.Part(text=FINAL)
        else:
            part = types.Part(
                function_call=types.FunctionCall(id=call.id, name=TOOL, args=dict(call.arguments))
            )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def lookup(query: str, page: int) -> str:
    """Look up one page of the ledger."""
    return script.lookup(query, page)


root_agent = Agent(name="bench", model=ScriptedLlm(), instruction=INSTRUCTIONS, tools=[lookup])
