"""One run in an editor: shown as it goes, and asked about there."""

import asyncio
from typing import Protocol

import acp
from acp import schema

from windlass import AgentError, RunHandle
from windlass_cli.acp.updates import Update, Updates, call_of, options_of
from windlass_protocol import InputRequest, RunResult


class Editor(Protocol):
    """What the agent asks of the editor."""

    async def session_update(self, session_id: str, update: Update) -> None:
        """Tell what happens."""
        ...

    async def request_permission(
        self, *, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse:
        """Ask the person in front of it."""
        ...


class Turn:
    """Shows a run to an editor, from a record on if it has seen what was before."""

    def __init__(self, editor: Editor, handle: RunHandle, *, session_id: str, user: str) -> None:
        self._editor = editor
        self.handle = handle
        self.session_id = session_id
        self._user = user
        self._asking: asyncio.Task[None] | None = None

    async def follow(self, after: int | None = None) -> RunResult:
        """Show the run up to its end; return what came of it.

        Whoever else answers what it asks, or ends it, is heard while the editor asks.
        """
        updates = Updates()
        if after is not None:
            self._ask()  # the record that says so is behind us
        try:
            async for event in self.handle.events(after):
                for update in updates.of(event):
                    await self._tell(update)
                if event.type == "run.waiting":
                    self._ask()
            return await self.handle.wait()
        finally:
            self._ask_no_more()

    def _ask(self) -> None:
        self._ask_no_more()
        self._asking = asyncio.ensure_future(self._ask_all())

    def _ask_no_more(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask_all(self) -> None:
        for request in await self.handle.requests():
            if request.is_answered:
                continue
            try:
                await self._ask_one(request)
            except acp.RequestError:  # it cannot ask
                await self._tell_how(request)
            except AgentError as error:  # somebody else was faster
                await self._tell(acp.update_agent_thought_text(error.message))
            except ConnectionError:
                return  # the editor is gone; the run waits

    async def _ask_one(self, request: InputRequest) -> None:
        options = options_of(request)
        if not options:
            await self._tell_how(request)
            return
        answer = await self._editor.request_permission(
            session_id=self.session_id, tool_call=call_of(request), options=options
        )
        outcome = answer.outcome
        if isinstance(outcome, schema.AllowedOutcome):
            await self.handle.answer(request.request_id, outcome.option_id, responder=self._user)
        else:
            # An editor says so when the person has ended the turn.
            await self.handle.cancel(by=self._user)

    async def _tell_how(self, request: InputRequest) -> None:
        """Say how a question is answered that the editor has no words for."""
        options = "|".join(option.id for option in request.options or ()) or "--text …"
        note = f"{request.prompt} (answer with: windlass approvals answer {request.request_id} {options})"
        await self._tell(acp.update_agent_message_text(note))

    async def _tell(self, update: Update) -> None:
        await self._editor.session_update(self.session_id, update)
