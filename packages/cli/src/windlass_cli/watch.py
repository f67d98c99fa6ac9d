"""A run on the terminal: its words as they come, its tools, and what it asks."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import windlass
import windlass_protocol
from windlass_cli.problems import Exit
from windlass_cli.terminal import Terminal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass_cli.session import PlacedRun
    from windlass_protocol import Event, InputRequest, Record, RunResult

SHORT_CHARS: Final = 160
_EXITS: Final = {"completed": Exit.DONE, "cancelled": Exit.CANCELLED}

JsonObject = dict[str, "JsonValue"]


@dataclass(slots=True)
class Watch:
    """Shows the events of a run, and asks whoever sits there."""

    terminal: Terminal
    user: str
    is_json: bool = False
    is_asking: bool = True
    _is_open: bool = field(default=False, init=False)
    """Whether a line of the answer has begun."""
    _streamed: set[tuple[object, object]] = field(default_factory=set[tuple[object, object]], init=False)

    async def follow(self, handle: "PlacedRun") -> "RunResult | None":
        """Show a run up to its end; return its result, None if it waits for somebody."""
        async for event in handle.events():
            self.show(event)
            if event.type == "run.waiting" and not await self._answer(handle):
                return None
        return await handle.wait()

    def end(self, result: "RunResult | None", *, run_id: str) -> Exit:
        """Tell how it ended; return the exit code."""
        self.leave()
        if result is None:
            self.terminal.say("It waits for a person. See what it asks: windlass approvals list")
            self.terminal.say(f"Go on with it: windlass runs resume {run_id}")
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
        """Show one thing that happened."""
        if self.is_json:
            self.terminal.line(windlass_protocol.encode(event).decode())
        else:
            self._tell(event)

    def _tell(self, event: "Event | Record") -> None:
        data, kind = event.data, event.type
        step = (data.get("turnId"), data.get("stepIndex"))
        match kind:
            case "message.appended":
                self._streamed.add(step)
                self._piece(str(data.get("messageDelta", "")))
            case "message.completed" if step not in self._streamed:
                self._piece(str(data.get("message") or ""))
            case "actions.requested":
                for action in _objects(data.get("actions")):
                    arguments = json.dumps(action.get("input", {}), ensure_ascii=False)
                    self._note(
                        f"→ {action.get('toolName') or action.get('name')}({_short(arguments)})", "cyan"
                    )
            case "action.result":
                self._result(data)
            case "step.retrying":
                self._note(f"… {data.get('message')}; trying again", "yellow")
            case "subagent.called":
                self._note(f"⇒ {data.get('name')} begins", "cyan")
            case "compaction.completed":
                self._note("… the history was shortened", "dim")
            case "recovery.started":
                self._note("… going on after an interruption", "yellow")
            case _:
                pass

    def _result(self, data: JsonObject) -> None:
        result = data.get("result")
        known = result if isinstance(result, dict) else {}
        name, took = known.get("toolName") or known.get("name") or "tool", data.get("durationMs")
        time = f" {took} ms" if took is not None else ""
        error = data.get("error")
        if data.get("status") == "completed" or error is None:
            self._note(f"✓ {name}{time}: {_short(_words(known.get('output')))}", "green")
        else:
            message = error.get("message") if isinstance(error, dict) else error
            self._note(f"✗ {name}{time}: {_short(str(message))}", "red")

    async def _answer(self, handle: "PlacedRun") -> bool:
        """Ask for everything that the run waits for; tell whether all of it is answered."""
        for request in await handle.requests():
            # One whose answer waits for a process that takes it is no question any more.
            is_open = not request.is_answered
            if is_open and not (self.is_asking and await self._settle(handle, request)):
                return False
        return True

    async def _settle(self, handle: "PlacedRun", request: "InputRequest") -> bool:
        """Ask until there is an answer that counts; tell whether there is one."""
        while True:
            option, text = await self._choice(request)
            if option is None and text is None:
                return False
            try:
                await handle.answer(request.request_id, option, text=text, responder=self.user)
            except windlass.Conflict as error:
                self._note(error.message, "yellow")  # somebody else was faster
            except windlass.AgentError as error:
                self._note(error.message, "yellow")
                continue
            return True

    async def _choice(self, request: "InputRequest") -> tuple[str | None, str | None]:
        """Return the option and the words of an answer; neither at the end of the input."""
        self.leave()
        # Whoever typed it had not seen the question.
        self.terminal.forget()
        self.terminal.say(f"? {asked(request)}", "bold yellow")
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
            self.terminal.say(f"Type a number, or one of: {', '.join(names)}", "dim")

    def _piece(self, text: str) -> None:
        if text:
            self.terminal.write(text)
            self._is_open = not text.endswith("\n")

    def _note(self, text: str, style: str) -> None:
        self.leave()
        self.terminal.say(text, style)

    def leave(self) -> None:
        """End the line that has begun."""
        if self._is_open:
            self.terminal.write("\n")
            self._is_open = False


def asked(request: "InputRequest") -> str:
    """Return what a person is asked, with all of what is to be done."""
    if request.kind is not windlass_protocol.InputKind.RECOVERY:
        return request.prompt  # it has the arguments in it
    return f"{request.prompt}\n{json.dumps(request.action.input, indent=2)}"


def _objects(value: "JsonValue") -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _words(value: "JsonValue") -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT_CHARS else f"{line[: SHORT_CHARS - 1]}…"
