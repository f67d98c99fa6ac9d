"""What a tool is told of the call it serves, and how it can tell how far it is."""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from hashlib import sha256

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.tool_limits import PROGRESS_BYTES_MAX, PROGRESS_REPORTS_MAX
from windlass.tool_result import result_value
from windlass.tool_state import SessionValues, ToolState
from windlass_protocol import canonical


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """What a tool is told when the history of a session is about to be compacted."""

    session_id: str
    run_id: str
    """The newest run of the session; it may have ended."""
    _: KW_ONLY
    agent_id: str
    state: SessionValues = field(default_factory=SessionValues, repr=False, compare=False)
    """What the session keeps; it can only be read here."""


class ToolControl:
    """The engine's end of a context: it cancels, and it hears of progress.

    `report` is called in the thread of the event loop in which the control was made, also when the tool runs
    in another thread. Make one for each call.
    """

    def __init__(self, report: Callable[[JsonValue], None] | None = None) -> None:
        self._report = report
        self._reports = 0
        self._loop = _running_loop()
        self._event: asyncio.Event | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Tell the tool to stop; call it in the thread of the event loop."""
        self.is_cancelled = True
        if self._event is not None:
            self._event.set()

    async def cancelled(self) -> None:
        """Return once the call is cancelled."""
        if self._event is None:
            self._event = asyncio.Event()
            if self.is_cancelled:
                self._event.set()
        await self._event.wait()

    def report(self, value: object) -> None:
        """Pass a partial result on; too large ones are replaced and too many are dropped."""
        if self._report is None or self._reports >= PROGRESS_REPORTS_MAX:
            return
        self._reports += 1
        shown: JsonValue = result_value(value)
        size = len(to_json(shown))
        if size > PROGRESS_BYTES_MAX:
            shown = {"$omitted": f"{size:,} bytes, limit {PROGRESS_BYTES_MAX:,}"}
        if self._loop is None or self._loop is _running_loop():
            self._report(shown)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._report, shown)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool serves.

    A parameter of this type gets it, whatever its name, and is not shown to the model. The idempotency key
    is the same in every attempt at one call, also after a crash, and another for every other call: hand it to
    whatever performs the effect. Left out, it is made of the ids.
    """

    session_id: str
    run_id: str
    call_id: str
    _: KW_ONLY
    agent_id: str = ""
    turn_id: str = ""
    step_index: int = 0
    attempt: int = 1
    idempotency_key: str = ""
    timeout_ms: int | None = None
    """The longest time that this attempt may take; None leaves it to the tool."""
    deadline: datetime | None = None
    """When that time is over, by the clock of the runtime."""
    state: ToolState = field(default_factory=ToolState, repr=False, compare=False)
    """What the session keeps: JSON values by key, as at the start of the call. Changes are recorded with the
    result, and dropped if the call fails."""
    control: ToolControl = field(default_factory=ToolControl, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.idempotency_key:
            object.__setattr__(self, "idempotency_key", self._own_key())

    def _own_key(self) -> str:
        return idempotency_key(
            session_id=self.session_id, run_id=self.run_id, step_index=self.step_index, call_id=self.call_id
        )

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more; for tools that are not async."""
        return self.control.is_cancelled

    async def cancelled(self) -> None:
        """Return once nobody waits for the result any more."""
        await self.control.cancelled()

    def progress(self, value: object) -> None:
        """Show a partial result to whoever follows the run; it is not kept."""
        self.control.report(value)


def idempotency_key(*, session_id: str, run_id: str, step_index: int, call_id: str) -> str:
    """Return the key of a call: the model chooses call ids, and may choose one twice."""
    return sha256(canonical([session_id, run_id, step_index, call_id])).hexdigest()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
