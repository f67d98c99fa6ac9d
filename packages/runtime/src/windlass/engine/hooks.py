"""Hooks: called in order with a timeout, checked against their rights, each call recorded once.

Event hooks are called in the same way, but observe: their failures are logged and not recorded.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from threading import Lock
from typing import Final, assert_never, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import JsonValue

from windlass.agent.hooks import (
    AFTER_MODEL_CALL,
    AFTER_TOOL_CALL,
    BEFORE_APPROVAL_REQUEST,
    BEFORE_MODEL_CALL,
    ORDER,
    POINTS,
    EventHook,
    Hook,
)
from windlass.engine.deadline import Raised, Returned, TimedOut, run_with_deadline
from windlass.engine.model_calls.model_call import elapsed_ms, whole
from windlass.engine.writing.masking import log_failure
from windlass.engine.writing.writer import SessionWriter
from windlass.errors import Rejected, kind_of
from windlass.limits import (
    ARGUMENT_BYTES_MAX,
    EVENT_HOOKS_CLOSE_S,
    EVENT_HOOKS_PENDING_MAX,
    HOOK_CONTEXT_CHARS_MAX,
    HOOK_CONTEXT_TEXTS_MAX,
    HOOK_STUCK_THREADS_MAX,
    HOOK_TIMEOUT_MS,
    HOOK_WORDS_CHARS_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.ports.clock import Clock, begin_task
from windlass.ports.host import UNCHANGED, Change, HookCall, Veto
from windlass.ports.model import LLMMessage
from windlass.tools.calling import failure_text, in_thread
from windlass.tools.context import copy_json, copy_of
from windlass_harness import views
from windlass_harness.loop.rules import AFTER_APPROVAL_DECISION, BEFORE_TOOL_CALL, RUN_STARTING
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    CodecError,
    CodecLimits,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    Event,
    HookFailure,
    HookPhase,
    HookRight,
    HookSpec,
    HookStatus,
    JsonObject,
    RetryClass,
    canonical,
    parse,
)
from windlass_protocol.bodies import Body
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records
from windlass_protocol.limits import FREE_LEVELS_MAX

_ARGUMENTS: Final = CodecLimits(message_bytes_max=ARGUMENT_BYTES_MAX, depth_max=FREE_LEVELS_MAX)
_RESULT: Final = CodecLimits(message_bytes_max=TOOL_OUTPUT_CHARS_MAX, depth_max=FREE_LEVELS_MAX)


class BadAnswer(Exception):
    """The answer of a hook is invalid or exceeds its rights; none of it is applied."""


def check_hook_answer(spec: HookSpec, answer: object) -> Change | Veto | None:
    """Return the answer of a hook, checked against its rights.

    Raises:
        BadAnswer: it is not an answer, or the hook has no right to it.
    """
    right, point = spec.right or HookRight.OBSERVE, POINTS[spec.point]
    if answer is None:
        return None
    if isinstance(answer, Veto):
        if right is not HookRight.VETO:
            raise BadAnswer(f"it vetoed, and its right is {right.value}")
        if not isinstance(cast(object, answer.reason), str):
            raise BadAnswer(f"the reason of its veto is a text, found {kind_of(answer.reason)}")
        return Veto(whole(answer.reason[:HOOK_WORDS_CHARS_MAX]))
    if not isinstance(answer, Change):
        raise BadAnswer(f"it returned {kind_of(answer)}; a hook returns None, a Change or a Veto")
    changed = [field.name for field in fields(answer) if getattr(answer, field.name) is not UNCHANGED]
    if not changed:
        return None
    if right is not HookRight.MUTATE:
        raise BadAnswer(f"it changed {', '.join(changed)}, and its right is {right.value}")
    if changed != [point.owns]:
        raise BadAnswer(f"it changed {', '.join(changed)}; at {spec.point} only {point.owns} can be changed")
    return answer


def apply_change(call: HookCall, change: Change) -> tuple[HookCall, tuple[str, ...]]:
    """Return the call with the change applied, and the context that the change adds.

    Raises:
        BadAnswer: the change is invalid or too large.
    """
    try:
        if change.arguments is not UNCHANGED:
            return replace(call, arguments=_arguments(change.arguments)), ()
        if change.prompt is not UNCHANGED:
            return replace(call, prompt=_words(change.prompt, "prompt", HOOK_WORDS_CHARS_MAX)), ()
        if change.context is not UNCHANGED:
            return call, _context(change.context)
        return _result(call, cast(JsonValue, change.result)), ()
    except CodecError as error:
        problem = error.message
    raise BadAnswer(f"its change is not valid JSON: {problem}")


def _arguments(value: object) -> dict[str, JsonValue]:
    if not isinstance(value, Mapping):
        raise BadAnswer(f"arguments are parameters by name, found {kind_of(value)}")
    plain = dict(cast(Mapping[str, JsonValue], value))
    return cast(dict[str, JsonValue], parse(canonical(plain, _ARGUMENTS), _ARGUMENTS))


def _result(call: HookCall, value: JsonValue) -> HookCall:
    if call.error is not None:
        raise BadAnswer("it changed the result of a call that has none, because it failed")
    return replace(call, result=parse(canonical(value, _RESULT), _RESULT))


def _context(value: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise BadAnswer(f"context is a list of texts, found {kind_of(value)}")
    texts = tuple(cast(Sequence[object], value))
    if len(texts) > HOOK_CONTEXT_TEXTS_MAX:
        raise BadAnswer(f"too many texts: {len(texts)}, limit {HOOK_CONTEXT_TEXTS_MAX}")
    context = tuple(_words(text, "context", HOOK_CONTEXT_CHARS_MAX) for text in texts)
    if sum(map(len, context)) > HOOK_CONTEXT_CHARS_MAX:
        raise BadAnswer(f"context too large: over the limit of {HOOK_CONTEXT_CHARS_MAX:,} characters")
    return context


def _words(text: object, what: str, chars_max: int) -> str:
    if not isinstance(text, str):
        raise BadAnswer(f"{what} is text, found {kind_of(text)}")
    if len(text) > chars_max:
        raise BadAnswer(f"{what} too large: {len(text):,} characters, limit {chars_max:,}")
    return whole(text)


def copy_call(call: HookCall) -> HookCall:
    """Return a deep copy of the mutable parts of a call."""
    return replace(
        call,
        arguments=None if call.arguments is None else copy_of(call.arguments),
        result=copy_json(call.result),
        value=copy_json(call.value),
        messages=tuple(_message(message) for message in call.messages),
        asked=tuple(replace(request, input=copy_json(request.input)) for request in call.asked),
    )


def _message(message: LLMMessage) -> LLMMessage:
    if not message.tool_calls and not message.parts and message.provider_options is None:
        return message
    calls = tuple(
        tool_call.model_copy(update={"arguments": copy_of(tool_call.arguments)})
        for tool_call in message.tool_calls
    )
    options = None if message.provider_options is None else copy_of(message.provider_options)
    parts = tuple(copy_of(part) for part in message.parts)
    return replace(message, tool_calls=calls, parts=parts, provider_options=options)


_PHASES: Final = {HookPhase.EARLY: 0, HookPhase.NORMAL: 1, HookPhase.LATE: 2}
_VETO_STOPS: Final = frozenset({RUN_STARTING, BEFORE_MODEL_CALL, AFTER_MODEL_CALL})
"""Points where a veto ends the run; elsewhere it refuses a call or an answer."""
_DENIAL_REFUSES: Final = frozenset(
    {BEFORE_TOOL_CALL, AFTER_TOOL_CALL, BEFORE_APPROVAL_REQUEST, AFTER_APPROVAL_DECISION}
)
"""Points where a failed hook with `deny` refuses a call; elsewhere it ends the run."""


@frozen
class HookDenial:
    """A hook's denial."""

    hook_id: str
    reason: str
    code: str


@frozen
class HookOutcome:
    """Result of all hooks of a point."""

    call: HookCall
    """The call with every change applied."""
    notes: tuple[Body, ...] = ()
    context: tuple[str, ...] = ()
    refusal: HookDenial | None = None
    stop: ErrorInfo | None = None
    """Why the run must end; also recorded in the notes."""

    @property
    def is_changed(self) -> bool:
        """Whether any hook changed something."""
        return any(isinstance(note, records.HookCompleted) and note.changed is True for note in self.notes)


@frozen
class BoundHook:
    """A hook of a package and its function in this process."""

    spec: HookSpec
    hook: Hook | None

    @property
    def failure(self) -> HookFailure:
        """What a failure of the hook causes."""
        return self.spec.failure or HookFailure.FAIL_OPEN


@frozen
class _Failed:
    status: HookStatus
    code: str
    message: str
    error: BaseException | None = None
    """The exception that the hook raised."""


Check = Callable[[HookCall], object]
"""Raises Rejected if the changed call is invalid."""


class Hooks:
    """The hooks of one package, in call order."""

    def __init__(self, hooks: Iterable[BoundHook] = (), *, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._at: dict[str, list[BoundHook]] = {}
        for bound in sorted(hooks, key=_rank):
            self._at.setdefault(bound.spec.point, []).append(bound)
        self.points: Final = frozenset(self._at)
        """Points that have hooks."""

    def guards(self, point: str) -> bool:
        """Whether a point has a hook that does not fail open."""
        return any(bound.failure is not HookFailure.FAIL_OPEN for bound in self._at.get(point, ()))

    async def run(self, call: HookCall, *, clock: Clock, check: Check | None = None) -> HookOutcome:
        """Call the hooks of a point in order, until one refuses.

        Raises nothing but cancellation: failures are part of the outcome.
        """
        outcome = HookOutcome(call)
        for bound in self._at.get(call.point, ()):
            outcome = await self._next(bound, outcome, clock, check)
            if outcome.refusal is not None or outcome.stop is not None:
                break
        return outcome

    async def _next(
        self, bound: BoundHook, before: HookOutcome, clock: Clock, check: Check | None
    ) -> HookOutcome:
        """Call one hook and merge its answer into the outcome."""
        started, spec = clock.monotonic(), bound.spec
        answer = await _answer(bound, before.call)
        took_ms = elapsed_ms(clock, started)
        after = answer if isinstance(answer, _Failed) else _apply_answer(before, answer, check)
        if isinstance(after, _Failed):
            # Logged too: the author of the hook looks for the cause in the log.
            message = f"hook {spec.hook_id} at {spec.point} failed, {bound.failure.value}: {after.message}"
            log_failure(message, after.error, redactor=self._redactor)
            return _failure_outcome(bound, before, after, took_ms)
        return _success_outcome(bound, after, answer, took_ms)


def _rank(bound: BoundHook) -> tuple[int, int, str]:
    spec = bound.spec
    order = ORDER if spec.order is None else spec.order
    return _PHASES[spec.phase or HookPhase.NORMAL], order, spec.hook_id


NO_HOOKS: Final = Hooks()


def _apply_answer(before: HookOutcome, answer: object, check: Check | None) -> HookOutcome | _Failed:
    """Apply the change of a hook, if it is valid."""
    if not isinstance(answer, Change):
        return before
    try:
        call, context = apply_change(before.call, answer)
        if check is not None:
            check(call)
    except BadAnswer as error:
        return _Failed(HookStatus.REJECTED, "bad_change", str(error))
    except Rejected as error:
        return _Failed(HookStatus.REJECTED, "bad_change", error.message)
    except Exception as error:  # noqa: BLE001 - the hook boundary: what it returned may be anything
        return _Failed(HookStatus.REJECTED, "bad_change", failure_text(error))
    return replace(before, call=call, context=(*before.context, *context))


async def _answer(bound: BoundHook, call: HookCall) -> Change | Veto | _Failed | None:
    spec, hook = bound.spec, bound.hook
    if hook is None:
        return _Failed(HookStatus.FAILED, "missing", "this process does not have the hook")
    function = partial(hook.function, copy_call(call))
    outcome = await _call_hook(hook, function, spec.timeout_ms or HOOK_TIMEOUT_MS)
    if isinstance(outcome, _Failed):
        return outcome
    try:
        return check_hook_answer(spec, outcome.value)
    except BadAnswer as error:
        return _Failed(HookStatus.REJECTED, "not_allowed", str(error))
    except Exception as error:  # noqa: BLE001 - the hook boundary: what it returned may be anything
        return _Failed(HookStatus.REJECTED, "not_allowed", failure_text(error))


async def _call_hook(
    hook: Hook | EventHook, function: Callable[[], object], timeout_ms: int
) -> Returned[object] | _Failed:
    """Call the function of a hook, bound to its argument."""
    stuck = _STUCK.setdefault(hook, _Stuck())
    if stuck.count >= HOOK_STUCK_THREADS_MAX:
        return _Failed(HookStatus.FAILED, "stuck", f"{stuck.count} earlier calls of it have not ended")
    thread = _Thread(stuck)
    is_async = iscoroutinefunction(hook.function)
    outcome = await run_with_deadline(_call_function(function, thread, is_async=is_async), timeout_ms / 1_000)
    if isinstance(outcome, TimedOut):
        thread.leave()
        return _Failed(HookStatus.TIMED_OUT, "timeout", f"it did not answer within {timeout_ms:,} ms")
    if isinstance(outcome, Raised):
        return _Failed(HookStatus.FAILED, "raised", failure_text(outcome.error), outcome.error)
    return outcome


async def _call_function(function: Callable[[], object], thread: "_Thread", *, is_async: bool) -> object:
    if is_async:
        return await cast(Awaitable[object], function())
    returned = await in_thread(partial(thread.run, function))
    return await cast(Awaitable[object], returned) if isawaitable(returned) else returned


async def call_event_hooks(hooks: Iterable[EventHook], event: Event, *, redactor: Redactor) -> None:
    """Call the event hooks that want an event, one after the other, each with a copy.

    Raises nothing but cancellation: failures are logged.
    """
    for hook in hooks:
        if not hook.wants(event.type):
            continue
        copy = event.model_copy(update={"data": copy_of(event.data)})
        result = await _call_hook(hook, partial(hook.function, copy), hook.timeout_ms)
        if isinstance(result, _Failed):
            problem, error = result.message, result.error
        elif result.value is not None:
            problem = f"it returned {kind_of(result.value)}; an event hook observes and returns None"
            error = None
        else:
            continue
        where = f"event hook {hook.hook_id} failed at {event.type}, session {event.session_id}"
        log_failure(f"{where}: {problem}", error, redactor=redactor)


def _success_outcome(bound: BoundHook, after: HookOutcome, answer: object, took_ms: int) -> HookOutcome:
    stop = refusal = None
    if isinstance(answer, Veto) and bound.spec.point in _VETO_STOPS:
        stop = _denial(bound, answer.reason)
    elif isinstance(answer, Veto):
        refusal = HookDenial(bound.spec.hook_id, answer.reason, "hook.veto")
    note = records.HookCompleted(
        hook_id=bound.spec.hook_id,
        point=bound.spec.point,
        status=HookStatus.COMPLETED,
        changed=isinstance(answer, Change),
        vetoed=isinstance(answer, Veto),
        reason=answer.reason if isinstance(answer, Veto) else None,
        duration_ms=took_ms,
        call_id=after.call.call_id,
        stop=stop,
        change=_change_data(after.call, answer) if isinstance(answer, Change) else None,
    )
    return replace(
        after, notes=(*after.notes, note), stop=stop or after.stop, refusal=refusal or after.refusal
    )


def _change_data(call: HookCall, change: Change) -> JsonObject | None:
    """Return what the record keeps of a change; a changed result is in the record of the call."""
    if change.arguments is not UNCHANGED:
        return {"arguments": call.arguments}
    if change.prompt is not UNCHANGED:
        return {"prompt": call.prompt}
    if change.context is not UNCHANGED:
        return {"context": [whole(text) for text in change.context]}
    return None


def _failure_outcome(bound: BoundHook, before: HookOutcome, failed: _Failed, took_ms: int) -> HookOutcome:
    failure, stop, refusal = bound.failure, None, None
    reason = f"hook {bound.spec.hook_id} failed: {failed.message}"
    match failure:
        case HookFailure.FAIL_OPEN:
            pass
        case HookFailure.DENY if bound.spec.point in _DENIAL_REFUSES:
            refusal = HookDenial(bound.spec.hook_id, reason, "hook.failed")
        case HookFailure.DENY:
            stop = _denial(bound, reason)
        case HookFailure.INTERRUPT_RUN | HookFailure.FAIL_RUN:
            is_final = failure is HookFailure.FAIL_RUN
            stop = ErrorInfo(
                code=ErrorCode.DENIED,
                kind=ErrorKind.HOOK_FAILURE,
                retry=RetryClass.NOT_RETRYABLE if is_final else RetryClass.REPAIR_NEEDED,
                message=reason,
            )
        case _:
            assert_never(failure)
    note = records.HookFailed(
        hook_id=bound.spec.hook_id,
        point=bound.spec.point,
        status=failed.status,
        error=records.ActionError(code=failed.code, message=failed.message),
        failure=failure.value,
        duration_ms=took_ms,
        call_id=before.call.call_id,
        stop=stop,
    )
    return replace(
        before, notes=(*before.notes, note), stop=stop or before.stop, refusal=refusal or before.refusal
    )


def _denial(bound: BoundHook, reason: str) -> ErrorInfo:
    return ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"Hook {bound.spec.hook_id} stopped the run: {reason}",
    )


# threads that do not return


@mutable
class _Stuck:
    """Number of abandoned calls of a hook that still run in a thread."""

    count: int = 0
    lock: Lock = field(default_factory=Lock)


class _Thread:
    """One call of a synchronous hook."""

    def __init__(self, stuck: _Stuck) -> None:
        self._stuck = stuck
        self._is_running = False
        self._is_left = False

    def run(self, function: Callable[[], object]) -> object:
        """Call the function, in its thread, unless the call was abandoned before that."""
        with self._stuck.lock:
            if self._is_left:
                return None
            self._is_running = True
        try:
            return function()
        finally:
            with self._stuck.lock:
                self._is_running = False
                self._stuck.count -= self._is_left

    def leave(self) -> None:
        """Abandon the call."""
        with self._stuck.lock:
            self._is_left = True
            self._stuck.count += self._is_running


_STUCK: Final[WeakKeyDictionary[Hook | EventHook, _Stuck]] = WeakKeyDictionary()


# event hooks of a session: its durable events, passed in the order of the journal

_RUNS_MAX: Final = 64
"""Newest runs of a session that its later records are assigned to; a delivery may end after further runs."""
FindEventHooks = Callable[[str], Sequence[EventHook]]
"""Returns the event hooks of an agent of this process, by agent id."""


class EventHooks:
    """The event hooks of the agents that this process drives.

    Sessions without event hooks are not observed. The run of a session does not wait for its hooks, unless
    `EVENT_HOOKS_PENDING_MAX` events are pending.
    """

    def __init__(self, hooks_of: FindEventHooks, redactor: Redactor) -> None:
        self._hooks_of = hooks_of
        self._redactor = redactor
        self._sessions: WeakValueDictionary[str, SessionEvents] = WeakValueDictionary()
        """Sessions that are driven or have pending events: the next drive of one continues its order."""
        self._tasks: set[asyncio.Task[None]] = set()

    def observe(self, writer: SessionWriter, run: RunState) -> None:
        """Pass the events of a session from now on: this run is driven."""
        events = self._sessions.get(writer.session_id)
        if events is None:
            if not self._hooks_of(run.agent_id):
                return
            events = SessionEvents(self._hooks_of, self._redactor, tasks=self._tasks)
            self._sessions[writer.session_id] = events
        events.follow(run)
        writer.observe(events)

    async def aclose(self) -> None:
        """Wait until all pending events are passed, for `EVENT_HOOKS_CLOSE_S` at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=EVENT_HOOKS_CLOSE_S)
        left = sum(events.drop() for events in [*self._sessions.values()])
        if left:
            message = f"{left} events did not reach their event hooks before the runtime was closed"
            log_failure(message, None, redactor=self._redactor)
        if self._tasks:
            await asyncio.wait(self._tasks)


class SessionEvents:
    """Passes the events of one session to event hooks, one after the other; see `Observer`."""

    def __init__(
        self, hooks_of: FindEventHooks, redactor: Redactor, *, tasks: set[asyncio.Task[None]]
    ) -> None:
        self._hooks_of = hooks_of
        self._redactor = redactor
        self._tasks = tasks
        """Tasks that pass events, of all sessions."""
        self._agent_by_run: dict[str, str] = {}
        """Agents of the newest runs, by run id."""
        self._newest_agent_id = ""
        self._pending: deque[tuple[Record, Sequence[EventHook]]] = deque()
        self._room: asyncio.Event | None = None
        """Set when there is room; None while nothing waits for room."""
        self._task: asyncio.Task[None] | None = None

    def follow(self, run: RunState) -> None:
        """Note the agent of a run.

        A record without an agent id goes to the agent of its run; a record without a run id, to the agent of
        the newest run.
        """
        while len(self._agent_by_run) >= _RUNS_MAX:
            del self._agent_by_run[next(iter(self._agent_by_run))]
        self._agent_by_run[run.run_id] = self._newest_agent_id = run.agent_id

    async def make_room(self) -> None:
        """Return when fewer than `EVENT_HOOKS_PENDING_MAX` events are pending."""
        while self._task is not None and len(self._pending) >= EVENT_HOOKS_PENDING_MAX:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def take(self, records: Sequence[Record]) -> None:
        """Pass durable records to the hooks that want them, after all that are pending."""
        for record in records:
            hooks = self._hooks_of(record.agent_id or self._agent_of(record.run_id))
            if any(hook.wants(record.type) for hook in hooks):
                self._pending.append((record, hooks))
        if self._pending and self._task is None:
            self._task = begin_task(self._tasks, self._pass(), name="windlass event hooks")

    def _agent_of(self, run_id: str | None) -> str:
        return self._newest_agent_id if run_id is None else self._agent_by_run.get(run_id, "")

    async def _pass(self) -> None:
        try:
            while self._pending:
                record, hooks = self._pending.popleft()
                self._give_room()
                try:
                    event = views.to_event(record)
                except ValueError as error:
                    message = f"{record.type}, record {record.seq} of {record.session_id}, is no valid event"
                    log_failure(message, error, redactor=self._redactor)
                    continue
                await call_event_hooks(hooks, event, redactor=self._redactor)
        finally:
            self._task = None
            self._give_room()

    def drop(self) -> int:
        """Drop the pending events and cancel the hook that runs; return the number of these events."""
        left = len(self._pending)
        self._pending.clear()
        if self._task is not None:
            self._task.cancel()
            left += 1
        return left

    def _give_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None
