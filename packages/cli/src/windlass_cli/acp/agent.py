"""The agent that an editor talks to: sessions and prompts on the durable runtime."""

from collections.abc import Sequence
from typing import Final, Protocol, cast

import acp
from acp import schema

import windlass
from windlass import Agent, AgentError, AgentRuntime, RunHandle, RunStatus, parts
from windlass_cli.acp.updates import Update, Updates, call_of, options_of, told_before
from windlass_cli.settings import OWNER
from windlass_protocol import InputKind, InputRequest

_STOPS: Final[dict[RunStatus, schema.StopReason]] = {
    RunStatus.COMPLETED: "end_turn",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.BUDGET_EXHAUSTED: "max_turn_requests",
    RunStatus.FAILED: "refusal",
}


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


class EditorAgent:
    """One connection of an editor."""

    def __init__(self, runtime: AgentRuntime, agent: Agent, *, user: str) -> None:
        self._runtime = runtime
        self._agent = agent
        self._user = user
        self._editor: Editor | None = None
        self._runs: dict[str, RunHandle] = {}
        """The run under way in each session."""

    def on_connect(self, conn: object) -> None:
        """Know the editor."""
        self._editor = cast(Editor, conn)

    async def initialize(self, protocol_version: int, **_: object) -> schema.InitializeResponse:
        """Say who this is and what it can do."""
        can = schema.AgentCapabilities(
            load_session=True, prompt_capabilities=schema.PromptCapabilities(embedded_context=True)
        )
        info = schema.Implementation(name="windlass", title=self._agent.name, version=windlass.__version__)
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=can,
            agent_info=info,
        )

    async def new_session(self, cwd: str, **_: object) -> schema.NewSessionResponse:
        """Name a session; it begins with its first prompt."""
        return schema.NewSessionResponse(session_id=f"acp-{parts.new_id()}")

    async def load_session(self, cwd: str, session_id: str, **_: object) -> schema.LoadSessionResponse:
        """Tell an editor everything that was said in a session.

        Raises:
            RequestError: there is no such session.
        """
        after: str | None = None
        while True:
            try:
                page = await self._runtime.sessions.history(session_id, after=after, limit=200)
            except AgentError as error:
                raise acp.RequestError.resource_not_found(session_id) from error
            for message in page.items:
                for update in told_before(message):
                    await self._tell(session_id, update)
            if page.next is None:
                return schema.LoadSessionResponse()
            after = page.next

    async def prompt(self, session_id: str, prompt: Sequence[object], **_: object) -> schema.PromptResponse:
        """Run the agent on what the person said, up to the end of the turn.

        Raises:
            RequestError: there is nothing in the prompt that can be said, or it was refused.
        """
        words = "\n\n".join(filter(None, map(_text, prompt)))
        if not words:
            raise acp.RequestError.invalid_params({"prompt": "it holds no text"})
        try:
            handle = await self._runtime.start(self._agent.name, words, session_id=session_id, owner=OWNER)
            self._runs[session_id] = handle
            await self._show(session_id, handle)
            result = await handle.wait()
        except AgentError as error:
            raise acp.RequestError(-32603, error.message, {"code": error.code.value}) from error
        finally:
            self._runs.pop(session_id, None)
        if result.error is not None and result.status is RunStatus.FAILED:
            raise acp.RequestError(-32603, result.error.message, {"code": result.error.code.value})
        return schema.PromptResponse(stop_reason=_STOPS.get(result.status, "end_turn"))

    async def cancel(self, session_id: str, **_: object) -> None:
        """End what goes on in a session."""
        handle = self._runs.get(session_id)
        if handle is not None:
            await handle.cancel(by=self._user)

    async def _show(self, session_id: str, handle: RunHandle) -> None:
        updates = Updates()
        async for event in handle.events():
            for update in updates.of(event):
                await self._tell(session_id, update)
            if event.type == "run.waiting":
                for request in await handle.requests():
                    await self._ask(session_id, handle, request)

    async def _ask(self, session_id: str, handle: RunHandle, request: InputRequest) -> None:
        """Ask the person; a question that needs words is left for `windlass approvals`."""
        assert self._editor is not None, "an editor is connected before anything is asked"
        options = options_of(request)
        if not options:
            note = f"{request.prompt} (answer with: windlass approvals answer {request.request_id} --text …)"
            await self._tell(session_id, acp.update_agent_message_text(note))
            return
        answer = await self._editor.request_permission(
            session_id=session_id, tool_call=call_of(request), options=options
        )
        outcome = answer.outcome
        if isinstance(outcome, schema.AllowedOutcome):
            choice = outcome.option_id
        elif request.kind is InputKind.APPROVAL:
            choice = "deny"
        else:
            return
        try:
            await handle.answer(request.request_id, choice, responder=self._user)
        except AgentError as error:  # somebody else was faster
            await self._tell(session_id, acp.update_agent_thought_text(error.message))

    async def _tell(self, session_id: str, update: Update) -> None:
        assert self._editor is not None, "an editor is connected before anything is told"
        await self._editor.session_update(session_id, update)


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
