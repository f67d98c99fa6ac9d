"""Follow a run on the terminal: its answer as it streams, its tool calls, and its requests.

A run outlives the command. When the command ends first, it prints how to resume the run.
"""

import asyncio
import json
from dataclasses import field
from typing import TYPE_CHECKING, Final, cast

import windlass
import windlass_protocol
from windlass_cli.output import Exit, Terminal
from windlass_protocol.frozen import mutable
from windlass_protocol.generated import records

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass.agent.agent import BatchChoice
    from windlass_cli.backend import Backend, BackendRun, Command
    from windlass_harness.record import Record
    from windlass_harness.views.stream import ChatFold
    from windlass_protocol import Event, InputRequest, InputResolution, RunResult

SHORT_CHARS: Final = 160
_EXITS: Final = {"completed": Exit.DONE, "cancelled": Exit.CANCELLED}

JsonObject = dict[str, "JsonValue"]


@mutable
class RunWatch:
    """Shows the events of a run and asks the user for its requests."""

    terminal: Terminal
    user: str
    is_json: bool = False
    is_asking: bool = True
    _is_open: bool = field(default=False, init=False)
    """Whether the last line of the answer is not ended."""
    _chat: "ChatFold | None" = field(default=None, init=False)

    async def follow(self, run: "BackendRun") -> "RunResult | None":
        """Show a run up to its end; return its result, or None if it waits for a person."""
        async for event in run.events():
            self.show(event)
            if event.type == "run.waiting" and not await self._answer(run):
                return None
        return await run.wait()

    def end(self, result: "RunResult | None", *, run_id: str) -> Exit:
        """Show the result of a run; return the exit code."""
        self.leave()
        if result is None:
            self.terminal.say("The run waits for a person. List the requests: windlass approvals list")
            self.terminal.say(f"Resume it: windlass runs resume {run_id}")
            return Exit.WAITING
        if self.is_json:
            data = cast(JsonObject, json.loads(windlass_protocol.encode(result)))
            self.terminal.line(json.dumps({"type": "result", "result": data}, ensure_ascii=False))
        elif result.status.value != "completed":
            error = result.error
            why = "" if error is None else f": {error.message}"
            self.terminal.say(f"{result.status.value}{why}", "red")
        return _EXITS.get(result.status.value, Exit.FAILED)

    def show(self, event: "Event | Record") -> None:
        """Show one event."""
        if self.is_json:
            self.terminal.line(windlass_protocol.encode(_wire(event)).decode())
        else:
            self._tell(event)

    def _tell(self, event: "Event | Record") -> None:
        from windlass_harness.views import stream  # noqa: PLC0415 - slow to import

        self._chat = self._chat or stream.ChatFold()
        for change in self._chat.apply(event):
            match change:
                case stream.TextDelta(kind="text"):
                    self._piece(change.delta)
                case stream.StepVoided():
                    self.leave()
                case stream.CallRequested():
                    arguments = json.dumps(change.action.input, ensure_ascii=False)
                    self._note(f"→ {change.name}({_short(arguments)})", "cyan")
                case stream.RequestAnswered(ask=ask, resolution=resolution):
                    if change_text := describe_changes(ask.request, resolution):
                        self._note(f"✎ {request_subject(ask.request)}: approved{change_text}", "yellow")
                case stream.CallSettled(result=records.ActionResult() as result):
                    self._result(result)
                case stream.StepRetrying():
                    self._note(f"… {change.message}; retrying", "yellow")
                case stream.SubagentStarted():
                    self._note(f"⇒ {change.name} started", "cyan")
                case stream.Noted(what="compacted"):
                    self._note("… the history was compacted", "dim")
                case stream.Noted():
                    self._note("… resuming after an interruption", "yellow")
                case _:
                    pass

    def _result(self, data: "records.ActionResult") -> None:
        result, name = data.result, None
        if isinstance(result, records.ToolActionResult):
            name = result.tool_name
        elif isinstance(result, records.LoadSkillActionResult):
            name = result.name
        time = "" if data.duration_ms is None else f" {data.duration_ms} ms"
        if data.status is windlass_protocol.ActionStatus.COMPLETED or data.error is None:
            self._note(f"✓ {name or 'tool'}{time}: {_short(_value_text(result.output))}", "green")
        else:
            self._note(f"✗ {name or 'tool'}{time}: {_short(data.error.message)}", "red")

    async def _answer(self, run: "BackendRun") -> bool:
        """Ask for each open request of the run; return whether all are answered."""
        for request in await run.open_requests():
            # An answered request stays listed until the driver of the run takes the answer.
            is_open = not request.is_answered
            if is_open and not (self.is_asking and await self._settle(run, request)):
                return False
        return True

    async def _settle(self, run: "BackendRun", request: "InputRequest") -> bool:
        """Ask until an answer is accepted; return False at the end of the input."""
        while True:
            option, text = await self._choice(request)
            if option is None and text is None:
                return False
            try:
                await run.answer(request.request_id, option, text=text, responder=self.user)
            except windlass.Conflict as error:
                self._note(error.message, "yellow")  # answered elsewhere
            except windlass.AgentError as error:
                self._note(error.message, "yellow")
                continue
            return True

    async def _choice(self, request: "InputRequest") -> tuple[str | None, str | None]:
        """Return the option or the text of an answer; neither at the end of the input."""
        self.leave()
        # Input from before the question is not an answer to it.
        self.terminal.forget()
        self.terminal.say(f"? {request_text(request)}", "bold yellow")
        options = {option.id: option for option in request.options or ()}
        for number, option in enumerate(options.values(), start=1):
            self.terminal.say(f"  {number} {option.id}: {option.label}")
        names, is_open = list(options), not options or request.kind is windlass_protocol.InputKind.QUESTION
        while True:
            line = await self.terminal.ask("> ")
            if line is None:
                return None, None
            word = line.strip()
            if word.isdecimal() and 0 < int(word[:4]) <= len(names):
                return names[int(word[:4]) - 1], None
            begins = [name for name in names if word and name.lower().startswith(word.lower())]
            matches = [word] if word in options else begins
            if len(matches) == 1:
                return matches[0], None
            if word and is_open:
                return None, line
            self.terminal.forget()
            self.terminal.say(f"Type a number or one of: {', '.join(names)}", "dim")

    def _piece(self, text: str) -> None:
        if text:
            self.terminal.write(text)
            self._is_open = not text.endswith("\n")

    def _note(self, text: str, style: str) -> None:
        self.leave()
        self.terminal.say(text, style)

    def leave(self) -> None:
        """End the line of the answer, if it is not ended."""
        if self._is_open:
            self.terminal.write("\n")
            self._is_open = False


async def start_run(
    command: "Command",
    backend: "Backend",
    *,
    agent: str,
    message: str,
    session_id: str | None,
    batch: "BatchChoice | None" = None,
) -> "BackendRun":
    """Start a run; when the command is interrupted, say that the run may have started.

    Raises:
        AgentError: it was refused.
    """
    try:
        return await backend.start(agent, message, session_id=session_id, batch=batch)
    except asyncio.CancelledError:
        command.terminal.say("The run may have started; then it is stored. List the runs: windlass runs list")
        raise


async def follow_run(command: "Command", backend: "Backend", *, watch: RunWatch, run: "BackendRun") -> Exit:
    """Show a run to its end; when the command is interrupted, say how to resume it.

    A run that is queued behind one that waits for a person would wait without end: that one is shown first.
    """
    try:
        ahead = await _run_ahead(backend, run)
        if ahead is not None:
            command.terminal.say(f"Queued behind run {ahead.run_id}, which waits.", "yellow")
            if await watch.follow(ahead) is None:
                return watch.end(None, run_id=ahead.run_id)
        return watch.end(await watch.follow(run), run_id=run.run_id)
    except asyncio.CancelledError:
        watch.leave()
        settings = command.settings
        stored = "PostgreSQL" if settings.address else settings.store
        where = f"It continues at {settings.server}" if settings.server else f"Stored in {stored}"
        command.terminal.say(f"{where}. Resume it: windlass runs resume {run.run_id}")
        raise


async def _run_ahead(backend: "Backend", run: "BackendRun") -> "BackendRun | None":
    """Return the waiting run of the same session that keeps this one from starting."""
    snapshot = await backend.run_snapshot(run.run_id)
    if snapshot.status.value != "pending":
        return None
    page = await backend.sessions.runs(session_id=snapshot.session_id, status="waiting", limit=1)
    return backend.handle(page.items[0].run_id) if page.items else None


def request_text(request: "InputRequest") -> str:
    """Return the text of a request with the whole input of its action."""
    if request.kind is not windlass_protocol.InputKind.RECOVERY:
        return request.prompt  # it contains the arguments
    return f"{request.prompt}\n{json.dumps(request.action.input, indent=2)}"


def request_subject(request: "InputRequest") -> str:
    """Return the name of the tool that a request is about."""
    return getattr(request.action, "tool_name", None) or "the request"


def describe_changes(request: "InputRequest", resolution: "InputResolution") -> str:
    """Return how the arguments that a person approved differ from those of the call; empty if they do not."""
    arguments = None if resolution.response is None else resolution.response.arguments
    if arguments is None or not isinstance(request.action.input, dict):
        return ""
    old = _json_values(cast(JsonObject, request.action.input))
    new = _json_values(arguments)
    changes = [
        f"{_short(name)} {_short(new.get(name, 'left out'))}"
        + (f" instead of {_short(old[name])}" if name in old else "")
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
    return f", with {', '.join(changes)}" if changes else ""


def _json_values(values: JsonObject) -> dict[str, str]:
    return {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}


def _value_text(value: "JsonValue") -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT_CHARS else f"{line[: SHORT_CHARS - 1]}…"


def _wire(event: "Event | Record") -> "Event | JsonObject":
    from windlass_harness.record import Record, to_wire  # noqa: PLC0415 - slow to import

    return to_wire(event) if isinstance(event, Record) else event
