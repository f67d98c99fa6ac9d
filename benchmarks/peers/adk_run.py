# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""Google ADK with its sessions in a SQLite file.

Choices:
- `Runner(app=App(...), session_service=...)` and `run_async`, as its page on the runtime says.
- Sessions are in a `SqliteSessionService`, the default of `adk web` and `adk api_server`. Each event is
  committed before the next step. The service opens the file anew for each event and leaves journal mode and
  synchronous at SQLite's defaults, DELETE and FULL. `DatabaseSessionService` on the same file takes twice the
  CPU.
- `ResumabilityConfig(is_resumable=True)`, its documented setting for runs that can be resumed; it costs
  nothing above the noise. Resume is `run_async(invocation_id=...)` with that of the last stored event.
- At most four runs are in progress at once: with 20, SQLite answers "database is locked" to some of them.
- The limit of 500 model calls a run is raised, which is a setting of the run.
- The model is a script behind `BaseLlm`; no network is used.
- `root_agent` is the same agent for runs of one step, which benchmarks/http.py serves with `adk api_server`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import Agent, RunConfig
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner as AdkRunner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from benchmarks.peers.task import FINAL, INSTRUCTIONS, TOOL, Call, Runner, Script, arguments, main

APP, USER = "bench", "ann"
RUNS_AT_ONCE = 4
UNLIMITED = RunConfig(max_llm_calls=10_000)


class ScriptedLlm(BaseLlm):
    model: str = "scripted"
    script: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        last = contents[-1].parts[-1]
        answered = last.function_response
        call = await self.script.answer(answered.id if answered else last.text, len(contents))
        yield LlmResponse(content=types.Content(role="model", parts=[_part(call)]))


def _part(call: Call | None) -> types.Part:
    if call is None:
        return types.Part(text=FINAL)
    return types.Part(function_call=types.FunctionCall(id=call.id, name=TOOL, args=call.arguments))


def agent_of(script: Script) -> Agent:
    """Return the agent that does the task."""

    async def lookup(query: str, page: int) -> str:
        """Look up one page of the ledger."""
        return script.lookup(query, page)

    return Agent(name="bench", model=ScriptedLlm(script=script), instruction=INSTRUCTIONS, tools=[lookup])


def _one_step() -> Script:
    script = Script()
    script.reset(1)
    return script


root_agent = agent_of(_one_step())


class GoogleAdk(Runner):
    name = "adk"
    packages = ("google-adk",)

    async def open(self, folder: Path, script: Script) -> None:
        self._script, self._gate = script, asyncio.Semaphore(RUNS_AT_ONCE)
        self._sessions = SqliteSessionService(str(folder / "bench.db"))
        resumable = ResumabilityConfig(is_resumable=True)
        app = App(name=APP, root_agent=agent_of(script), resumability_config=resumable)
        self._runner = AdkRunner(app=app, session_service=self._sessions)

    async def run(self, session: str) -> str:
        prompt = types.Content(role="user", parts=[types.Part(text=self._script.prompt(session))])
        async with self._gate:
            await self._sessions.create_session(app_name=APP, user_id=USER, session_id=session)
            return await self._last_text(session, new_message=prompt)

    async def resume(self, session: str) -> None:
        stored = await self._sessions.get_session(app_name=APP, user_id=USER, session_id=session)
        await self._last_text(session, invocation_id=stored.events[-1].invocation_id)

    async def close(self) -> None:
        await self._sessions.close()

    async def _last_text(self, session: str, **asked: Any) -> str:
        text = ""
        async for event in self._runner.run_async(
            user_id=USER, session_id=session, run_config=UNLIMITED, **asked
        ):
            if event.content and event.content.parts:
                text = event.content.parts[-1].text or text
        return text


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(GoogleAdk(), arguments())
