"""The Agent Client Protocol: agents in editors, over standard input and output.

`EditorAgent` answers one connection, `Turn` shows one run to the editor, `Updates` translates events, and
`EditorLines` reads and writes the JSON-RPC messages.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal, Protocol, cast

import acp
from acp import schema
from pydantic import JsonValue

import windlass
from windlass import AgentError, RunHandle, RunStatus, parts
from windlass_cli.backend import ENDS, RECORDS_PER_READ, LocalStore
from windlass_harness.record import Record
from windlass_harness.views import stream
from windlass_protocol import (
    CodecError,
    CodecLimits,
    Event,
    InputRequest,
    JsonObject,
    RunResult,
    parse,
)
from windlass_protocol.generated import records
from windlass_sidecar.stdio import Frame, LineReader, Refused

Update = (
    schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.UserMessageChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
)
OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
Id = str | int | None
OUTPUT_CHARS_MAX: Final = 20_000
SESSIONS_PER_PAGE: Final = 50
RUNS_QUEUED_MAX: Final = 200
"""Runs of a session that are searched for the one under way."""
LINE_BYTES_MAX: Final = 16 * 1_048_576
_LIMITS: Final = CodecLimits(message_bytes_max=LINE_BYTES_MAX)
_READ_BYTES: Final = 65_536
_STOPS: Final[dict[RunStatus, schema.StopReason]] = {
    RunStatus.COMPLETED: "end_turn",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.BUDGET_EXHAUSTED: "max_turn_requests",
}
_KINDS: Final[dict[str, OptionKind]] = {
    "approve": "allow_once",
    "approve_session": "allow_always",
    "deny": "reject_once",
}


async def serve(store: LocalStore, agent: str, *, user: str) -> None:
    """Serve an agent to an editor until it disconnects.

    Standard output is kept for the protocol: output of tools goes to standard error.
    """
    original_stdout = sys.stdout
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        reader, writer = await acp.stdio_streams()
    finally:
        sys.stdout = original_stdout
    # The library answers for the methods that EditorAgent does not have.
    mine = EditorAgent(store, agent, user=user)
    try:
        # The library still counts session/resume as unstable.
        lines = EditorLines(reader, writer)
        await acp.run_agent(cast(acp.Agent, mine), lines, use_unstable_protocol=True)
    finally:
        await mine.aclose()


# connections


class EditorAgent:
    """One connection of an editor."""

    def __init__(self, store: LocalStore, agent: str, *, user: str) -> None:
        self._store = store
        self._runtime = store.runtime
        self._agent = agent
        self._user = user
        self._editor: Editor | None = None
        self._new_sessions: set[str] = set()
        """New sessions without a prompt so far: they are not in the store yet."""
        self._turns: list[Turn] = []
        """The runs that are shown."""
        self._foreign_runs: dict[str, asyncio.Task[RunResult]] = {}
        """Runs that another connection started and this one shows."""

    def on_connect(self, conn: object) -> None:
        """Keep the connection to the editor."""
        self._editor = cast(Editor, conn)

    async def initialize(self, protocol_version: int, **_: object) -> schema.InitializeResponse:
        """Return the name, the version and the capabilities of the agent."""
        capabilities = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(), resume=schema.SessionResumeCapabilities()
            ),
        )
        info = schema.Implementation(name="windlass", title=self._agent, version=windlass.__version__)
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=capabilities,
            agent_info=info,
        )

    async def new_session(self, cwd: str, **_: object) -> schema.NewSessionResponse:
        """Return the id of a new session; its first prompt creates it."""
        session_id = f"acp-{parts.new_id()}"
        self._new_sessions.add(session_id)
        return schema.NewSessionResponse(session_id=session_id)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: object
    ) -> schema.ListSessionsResponse:
        """Return the sessions of the store, the newest first; sessions have no folder.

        Raises:
            RequestError: the cursor is invalid.
        """
        try:
            page = await self._runtime.sessions.list(after=cursor, limit=SESSIONS_PER_PAGE)
        except AgentError as error:
            raise acp.RequestError.invalid_params({"cursor": error.message}) from error
        where = cwd or os.getcwd()
        sessions = [
            schema.SessionInfo(
                session_id=session.session_id, cwd=where, title=session.title, updated_at=session.updated_at
            )
            for session in page.items
        ]
        return schema.ListSessionsResponse(sessions=sessions, next_cursor=page.next)

    async def load_session(self, cwd: str, session_id: str, **_: object) -> schema.LoadSessionResponse:
        """Send the history of a session to the editor, and show its run under way.

        Raises:
            RequestError: the session is unknown.
        """
        await self._open(session_id, shows_history=True)
        return schema.LoadSessionResponse()

    async def resume_session(self, cwd: str, session_id: str, **_: object) -> schema.ResumeSessionResponse:
        """Show the run under way of a session; the editor has the history.

        Raises:
            RequestError: the session is unknown.
        """
        await self._open(session_id, shows_history=False)
        return schema.ResumeSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[object], **_: object) -> schema.PromptResponse:
        """Run the agent on a prompt, to the end of the run.

        Raises:
            RequestError: the session is unknown, the prompt has no text, or the run was refused or failed.
        """
        message = "\n\n".join(filter(None, map(_text, prompt)))
        if not message:
            raise acp.RequestError.invalid_params({"prompt": "the prompt contains no text"})
        if session_id not in self._new_sessions:
            await self._check_session(session_id)
        try:
            handle = await self._store.start(self._agent, message, session_id=session_id)
            self._new_sessions.discard(session_id)
            result = await self._follow(handle, session_id, is_new=True)
        except AgentError as error:
            raise acp.RequestError(-32603, error.message, {"code": error.code.value}) from error
        if result.error is not None and result.status is RunStatus.FAILED:
            raise acp.RequestError(-32603, result.error.message, {"code": result.error.code.value})
        return schema.PromptResponse(stop_reason=_STOPS.get(result.status, "refusal"))

    async def cancel(self, session_id: str, **_: object) -> None:
        """Cancel the runs that are shown of a session."""
        for turn in tuple(self._turns):
            if turn.session_id == session_id:
                await turn.handle.cancel(by=self._user)

    async def aclose(self) -> None:
        """Stop showing runs; they stay in the store."""
        tasks = tuple(self._foreign_runs.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_session(self, session_id: str) -> None:
        try:
            await self._runtime.sessions.get(session_id)
        except AgentError as error:
            raise acp.RequestError.resource_not_found(session_id) from error

    async def _open(self, session_id: str, *, shows_history: bool) -> None:
        """Show the run under way of a session, after its history if `shows_history`."""
        await self._check_session(session_id)
        assert self._editor is not None, "the editor connects before it sends requests"
        updates, seq = Updates(), 0
        while records := await self._runtime.sessions.records(session_id, after=seq, limit=RECORDS_PER_READ):
            for record in records:
                history_updates = updates.of(record, with_user_messages=True)
                for update in history_updates if shows_history else ():
                    await self._editor.session_update(session_id, update)
            seq = updates.seq = records[-1].seq
        unfinished = await self._ahead(session_id)
        if unfinished is not None:
            self._take_up(unfinished, session_id, updates=updates)

    async def _ahead(self, session_id: str, before: str | None = None) -> RunHandle | None:
        """Return the oldest unfinished run of a session, of those before `before` if it is given."""
        page = await self._runtime.sessions.runs(session_id=session_id, limit=RUNS_QUEUED_MAX)
        names = [run.run_id for run in page.items if run.status.value not in ENDS]
        ahead = names[names.index(before) + 1 :] if before in names else names
        return self._runtime.handle(ahead[-1]) if ahead else None

    def _take_up(self, handle: RunHandle, session_id: str, *, updates: "Updates | None" = None) -> None:
        """Show a run of another connection, unless it is shown already."""
        run_id = handle.run_id
        if run_id in self._foreign_runs or any(turn.handle.run_id == run_id for turn in self._turns):
            return
        task = self._foreign_runs[run_id] = asyncio.ensure_future(
            self._follow(handle, session_id, updates=updates)
        )
        task.add_done_callback(lambda done: self._forget(run_id, done))

    def _forget(self, run_id: str, task: "asyncio.Task[RunResult]") -> None:
        del self._foreign_runs[run_id]
        if not task.cancelled():
            task.exception()  # the editor disconnected; the run stays in the store

    async def _follow(
        self, handle: RunHandle, session_id: str, *, updates: "Updates | None" = None, is_new: bool = False
    ) -> RunResult:
        assert self._editor is not None, "the editor connects before a run is shown"
        turn = Turn(self._editor, handle, session_id=session_id, user=self._user)
        self._turns.append(turn)
        try:
            # A run ahead of this one may wait for a person: show it, or both wait without end.
            while is_new and (ahead := await self._ahead(session_id, handle.run_id)) is not None:
                self._take_up(ahead, session_id)
                await ahead.wait()
            return await turn.follow(updates or Updates())
        finally:
            self._turns.remove(turn)


def _text(block: object) -> str:
    """Return the text of a block of a prompt, or its address."""
    if isinstance(block, schema.TextContentBlock):
        return block.text
    if isinstance(block, schema.EmbeddedResourceContentBlock):
        resource = block.resource
        return resource.text if isinstance(resource, schema.TextResourceContents) else resource.uri
    if isinstance(block, schema.ResourceContentBlock):
        return block.uri
    return ""


# runs


class Editor(Protocol):
    """The methods of the editor that the agent calls."""

    async def session_update(self, session_id: str, update: Update) -> None:
        """Send an update."""
        ...

    async def request_permission(
        self, *, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse:
        """Ask the user for permission."""
        ...


class Turn:
    """Shows one run to an editor and asks there for its requests."""

    def __init__(self, editor: Editor, handle: RunHandle, *, session_id: str, user: str) -> None:
        self._editor = editor
        self.handle = handle
        self.session_id = session_id
        self._user = user
        self._asking: asyncio.Task[None] | None = None

    async def follow(self, updates: "Updates") -> RunResult:
        """Show the run after the last record of `updates`, up to its end; return its result.

        Events are read while the editor asks, so that an answer or a cancel from elsewhere takes effect.
        """
        if updates.seq is not None:
            self._ask()  # run.waiting may be before this record
        try:
            async for event in self.handle.events(updates.seq):
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
        for request in await self.handle.open_requests():
            if request.is_answered:
                continue
            try:
                await self._ask_one(request)
            except acp.RequestError:  # the editor has no dialog
                await self._tell_how(request)
            except AgentError as error:  # answered elsewhere
                await self._tell(acp.update_agent_thought_text(error.message))
            except ConnectionError:
                return  # the editor disconnected; the run keeps waiting

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
            # The outcome is "cancelled": the user ended the turn.
            await self.handle.cancel(by=self._user)

    async def _tell_how(self, request: InputRequest) -> None:
        """Say how to answer a request that the editor cannot ask."""
        options = "|".join(option.id for option in request.options or ()) or "--text …"
        note = f"{request.prompt} (answer with: windlass approvals answer {request.request_id} {options})"
        await self._tell(acp.update_agent_message_text(note))

    async def _tell(self, update: Update) -> None:
        await self._editor.session_update(self.session_id, update)


# updates


class Updates:
    """Translates events of a session into updates; see `ChatFold`."""

    def __init__(self) -> None:
        self.seq: int | None = None
        """The last record of the history, if it was read."""
        self._chat = stream.ChatFold()

    def of(self, event: Event | Record, *, with_user_messages: bool = False) -> list[Update]:
        """Return the updates for an event; `with_user_messages` includes messages of the user."""
        changes = self._chat.apply(event)
        updates = map(_update, changes)
        return [
            update
            for update in updates
            if update is not None and (with_user_messages or not _is_of_user(update))
        ]


def _is_of_user(update: Update) -> bool:
    return isinstance(update, schema.UserMessageChunk)


def _update(change: stream.Change) -> Update | None:
    match change:
        case stream.MessageReceived():
            return acp.update_user_message_text(change.text)
        case stream.TextDelta(kind="text"):
            return acp.update_agent_message_text(change.delta)
        case stream.TextDelta():
            return acp.update_agent_thought_text(change.delta)
        case stream.CallRequested():
            arguments = change.action.input
            tool_call = acp.start_tool_call(
                change.action.call_id, change.name, kind="other", status="pending", raw_input=arguments
            )
            if change.parent_id is not None:
                tool_call.field_meta = {"windlass": {"parentToolCallId": change.parent_id}}
            return tool_call
        case stream.CallStarted():
            return acp.update_tool_call(change.call_id, status="in_progress")
        case stream.CallSettled(result=records.ActionResult() as data):
            output, error = data.result.output, data.error
            content = output if error is None else error.message
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            return acp.update_tool_call(
                change.call_id,
                status="completed" if error is None else "failed",
                content=[acp.tool_content(acp.text_block(text[:OUTPUT_CHARS_MAX]))],
                raw_output=output,
            )
        case _:
            return None


def options_of(request: InputRequest) -> list[schema.PermissionOption]:
    """Return the options of a request for a permission dialog."""
    return [
        schema.PermissionOption(
            option_id=option.id, name=option.label, kind=_KINDS.get(option.id, "allow_once")
        )
        for option in request.options or ()
    ]


def call_of(request: InputRequest) -> schema.ToolCallUpdate:
    """Return the tool call that a request is about."""
    action = request.action
    return schema.ToolCallUpdate(
        tool_call_id=action.call_id,
        title=request.prompt,
        status="pending",
        raw_input=action.input,
    )


# lines


class EditorLines:
    """JSON-RPC messages, one a line, in both directions.

    A line that is not a message is answered with an error; the connection stays open.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = self._read()

    async def send(self, message: JsonObject) -> None:
        """Send a message."""
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> JsonObject | None:
        """Return the next message; None after the editor has closed the connection."""
        return await anext(self._messages, None)

    async def close(self) -> None:
        """Do nothing: the process owns both streams."""

    async def _read(self) -> AsyncIterator[JsonObject]:
        lines = LineReader(LINE_BYTES_MAX)
        while data := await self._reader.read(_READ_BYTES):
            for frame in lines.feed(data):
                message, request_id = _message(frame)
                if isinstance(message, acp.RequestError):
                    await self.send({"jsonrpc": "2.0", "id": request_id, "error": message.to_error_obj()})
                else:
                    yield message


def _message(frame: Frame) -> tuple[JsonObject | acp.RequestError, Id]:
    """Return the message of a line, or an error, and the id that the answer needs."""
    if isinstance(frame, Refused):
        return acp.RequestError.parse_error({"details": frame.reason}), None
    try:
        message = parse(frame, _LIMITS)
    except CodecError as error:
        return acp.RequestError.parse_error({"details": error.message}), None
    if not isinstance(message, dict):
        return acp.RequestError.invalid_request({"details": "a message must be an object"}), None
    request_id = message.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        return acp.RequestError.invalid_request({"details": "id must be a string or an integer"}), None
    if problem := _problem(message):
        return acp.RequestError.invalid_request({"details": problem}), request_id
    return message, request_id


def _problem(message: JsonObject) -> str:
    """Return why the library cannot handle a message; empty if it can."""
    method: JsonValue = message.get("method")
    if method is not None:
        return "" if isinstance(method, str) else "method must be a string"
    if message.get("error") is not None and not isinstance(message["error"], dict):
        return "error must be an object"
    return (
        "" if message.keys() & {"result", "error"} else "a message must have a method, a result or an error"
    )
