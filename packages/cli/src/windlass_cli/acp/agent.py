"""The agent that an editor talks to: sessions and prompts on the durable runtime."""

import asyncio
import os
from collections.abc import Sequence
from typing import Final, cast

import acp
from acp import schema

import windlass
from windlass import Agent, AgentError, AgentRuntime, RunHandle, RunStatus, parts
from windlass_cli.acp.turn import Editor, Turn
from windlass_cli.acp.updates import Updates
from windlass_cli.records import ENDS
from windlass_cli.session import start_here
from windlass_protocol import RunResult

_STOPS: Final[dict[RunStatus, schema.StopReason]] = {
    RunStatus.COMPLETED: "end_turn",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.BUDGET_EXHAUSTED: "max_turn_requests",
}
RECORDS_PER_READ: Final = 500
SESSIONS_PER_PAGE: Final = 50
RUNS_QUEUED_MAX: Final = 200
"""Runs of one session that are looked at for the one under way."""


class EditorAgent:
    """One connection of an editor."""

    def __init__(self, runtime: AgentRuntime, agent: Agent, *, user: str) -> None:
        self._runtime = runtime
        self._agent = agent
        self._user = user
        self._editor: Editor | None = None
        self._named: set[str] = set()
        """Sessions that the editor was given and has said nothing in."""
        self._turns: list[Turn] = []
        """What the editor is waiting for."""
        self._left: dict[str, asyncio.Task[RunResult]] = {}
        """Runs that were left by another connection, and are gone on with."""

    def on_connect(self, conn: object) -> None:
        """Know the editor."""
        self._editor = cast(Editor, conn)

    async def initialize(self, protocol_version: int, **_: object) -> schema.InitializeResponse:
        """Say who this is and what it can do."""
        can = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(), resume=schema.SessionResumeCapabilities()
            ),
        )
        info = schema.Implementation(name="windlass", title=self._agent.name, version=windlass.__version__)
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=can,
            agent_info=info,
        )

    async def new_session(self, cwd: str, **_: object) -> schema.NewSessionResponse:
        """Name a session; it begins with its first prompt."""
        session_id = f"acp-{parts.new_id()}"
        self._named.add(session_id)
        return schema.NewSessionResponse(session_id=session_id)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: object
    ) -> schema.ListSessionsResponse:
        """Return the sessions of the store, the newest first; they belong to no folder.

        Raises:
            RequestError: the cursor is none of ours.
        """
        try:
            page = await self._runtime.sessions.list(after=cursor, limit=SESSIONS_PER_PAGE)
        except AgentError as error:
            raise acp.RequestError.invalid_params({"cursor": error.message}) from error
        where = cwd or os.getcwd()
        found = [
            schema.SessionInfo(
                session_id=one.session_id, cwd=where, title=one.title, updated_at=one.updated_at
            )
            for one in page.items
        ]
        return schema.ListSessionsResponse(sessions=found, next_cursor=page.next)

    async def load_session(self, cwd: str, session_id: str, **_: object) -> schema.LoadSessionResponse:
        """Tell an editor all that was said and done in a session, and go on with it.

        Raises:
            RequestError: there is no such session.
        """
        await self._open(session_id, is_told=True)
        return schema.LoadSessionResponse()

    async def resume_session(self, cwd: str, session_id: str, **_: object) -> schema.ResumeSessionResponse:
        """Go on with a session whose history the editor has.

        Raises:
            RequestError: there is no such session.
        """
        await self._open(session_id, is_told=False)
        return schema.ResumeSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[object], **_: object) -> schema.PromptResponse:
        """Run the agent on what the person said, up to the end of the turn.

        Raises:
            RequestError: there is no such session, nothing in the prompt that can be said, or it was refused.
        """
        words = "\n\n".join(filter(None, map(_text, prompt)))
        if not words:
            raise acp.RequestError.invalid_params({"prompt": "it holds no text"})
        if session_id not in self._named:
            await self._known(session_id)
        try:
            handle = await start_here(self._runtime, self._agent.name, words=words, session_id=session_id)
            self._named.discard(session_id)
            result = await self._follow(handle, session_id, is_new=True)
        except AgentError as error:
            raise acp.RequestError(-32603, error.message, {"code": error.code.value}) from error
        if result.error is not None and result.status is RunStatus.FAILED:
            raise acp.RequestError(-32603, result.error.message, {"code": result.error.code.value})
        return schema.PromptResponse(stop_reason=_STOPS.get(result.status, "refusal"))

    async def cancel(self, session_id: str, **_: object) -> None:
        """End what goes on in a session."""
        for turn in tuple(self._turns):
            if turn.session_id == session_id:
                await turn.handle.cancel(by=self._user)

    async def aclose(self) -> None:
        """Show nothing any more; runs are kept."""
        tasks = tuple(self._left.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _known(self, session_id: str) -> None:
        try:
            await self._runtime.sessions.get(session_id)
        except AgentError as error:
            raise acp.RequestError.resource_not_found(session_id) from error

    async def _open(self, session_id: str, *, is_told: bool) -> None:
        """Go on with a session from its last record, and show those before if need be."""
        await self._known(session_id)
        assert self._editor is not None, "an editor is connected before it asks"
        updates, seq = Updates(with_words=True), 0
        while records := await self._runtime.sessions.records(session_id, after=seq, limit=RECORDS_PER_READ):
            for record in records if is_told else ():
                for update in updates.of(record):
                    await self._editor.session_update(session_id, update)
            seq = records[-1].seq
        left = await self._ahead(session_id)
        if left is not None:
            self._take_up(left, session_id, after=seq)

    async def _ahead(self, session_id: str, before: str | None = None) -> RunHandle | None:
        """Return the run under way in a session, ahead of one or of all to come."""
        page = await self._runtime.sessions.runs(session_id=session_id, limit=RUNS_QUEUED_MAX)
        names = [one.run_id for one in page.items if one.status.value not in ENDS]
        ahead = names[names.index(before) + 1 :] if before in names else names
        return self._runtime.handle(ahead[-1]) if ahead else None

    def _take_up(self, handle: RunHandle, session_id: str, *, after: int | None = None) -> None:
        """Show a run that was left by another connection, if nobody does."""
        run_id = handle.run_id
        if run_id in self._left or any(turn.handle.run_id == run_id for turn in self._turns):
            return
        task = self._left[run_id] = asyncio.ensure_future(self._follow(handle, session_id, after=after))
        task.add_done_callback(lambda done: self._forget(run_id, done))

    def _forget(self, run_id: str, task: "asyncio.Task[RunResult]") -> None:
        del self._left[run_id]
        if not task.cancelled():
            task.exception()  # an editor that is gone: the run is kept, and nobody is here to be told

    async def _follow(
        self, handle: RunHandle, session_id: str, *, after: int | None = None, is_new: bool = False
    ) -> RunResult:
        assert self._editor is not None, "an editor is connected before anything is shown"
        turn = Turn(self._editor, handle, session_id=session_id, user=self._user)
        self._turns.append(turn)
        try:
            # What it waits behind may wait for a person: for ever, if nobody is asked.
            while is_new and (ahead := await self._ahead(session_id, handle.run_id)) is not None:
                self._take_up(ahead, session_id)
                await ahead.wait()
            return await turn.follow(after)
        finally:
            self._turns.remove(turn)


def _text(block: object) -> str:
    """Return the words of a part of a prompt; what has none is named."""
    if isinstance(block, schema.TextContentBlock):
        return block.text
    if isinstance(block, schema.EmbeddedResourceContentBlock):
        resource = block.resource
        return resource.text if isinstance(resource, schema.TextResourceContents) else resource.uri
    if isinstance(block, schema.ResourceContentBlock):
        return block.uri
    return ""
