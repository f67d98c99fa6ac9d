"""Hooks, called: each within its time and its rights, every call noted once."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from threading import Lock
from typing import Final, assert_never, cast
from weakref import WeakKeyDictionary

from windlass.engine.answer import elapsed_ms, whole
from windlass.engine.cut import Late, Raised, cut
from windlass.engine.failures import log_failure
from windlass.engine.hook_answers import BadAnswer, applied, check_answer, copied
from windlass.errors import Rejected
from windlass.hooks import (
    AFTER_MODEL_CALL,
    AFTER_TOOL_CALL,
    BEFORE_APPROVAL_REQUEST,
    BEFORE_MODEL_CALL,
    ORDER,
    Hook,
)
from windlass.limits import HOOK_STUCK_THREADS_MAX, HOOK_TIMEOUT_MS
from windlass.ports.clock import Clock
from windlass.ports.host import UNCHANGED, Change, HookAnswer, HookCall, Veto
from windlass.tools.calling import failure_text, in_thread
from windlass_harness.loop.events import Note
from windlass_harness.loop.hooked import (
    AFTER_APPROVAL_DECISION,
    BEFORE_TOOL_CALL,
    RUN_STARTING,
)
from windlass_harness.redact import Redactor
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    HookFailure,
    HookPhase,
    HookSpec,
    HookStatus,
    JsonObject,
    RetryClass,
)

_PHASES: Final = {HookPhase.EARLY: 0, HookPhase.NORMAL: 1, HookPhase.LATE: 2}
_VETO_STOPS: Final = frozenset({RUN_STARTING, BEFORE_MODEL_CALL, AFTER_MODEL_CALL})
"""Where a veto ends the run; elsewhere it refuses a call or an answer."""
_DENIAL_REFUSES: Final = frozenset(
    {BEFORE_TOOL_CALL, AFTER_TOOL_CALL, BEFORE_APPROVAL_REQUEST, AFTER_APPROVAL_DECISION}
)
"""Where a hook that fails with `deny` refuses a call; elsewhere there is only the run to end."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a hook says no to is not done."""

    hook_id: str
    reason: str
    code: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the hooks of a point made of it."""

    call: HookCall
    """With every change in it."""
    notes: tuple[Note, ...] = ()
    context: tuple[str, ...] = ()
    refusal: Refusal | None = None
    stop: ErrorInfo | None = None
    """Why the run has to end; the notes say so too."""

    @property
    def is_changed(self) -> bool:
        """Whether any hook changed something."""
        return any(note.data.get("changed") is True for note in self.notes)


@dataclass(frozen=True, slots=True)
class BoundHook:
    """A hook of a package, and the function of this process behind it."""

    spec: HookSpec
    hook: Hook | None

    @property
    def failure(self) -> HookFailure:
        """What happens when it fails."""
        return self.spec.failure or HookFailure.FAIL_OPEN


@dataclass(frozen=True, slots=True)
class _Failed:
    status: HookStatus
    code: str
    message: str
    error: BaseException | None = None
    """What it raised."""


Check = Callable[[HookCall], object]
"""Raises Rejected if a change does not fit what it changes."""


class Hooks:
    """The hooks of one package, in their order."""

    def __init__(self, hooks: Iterable[BoundHook] = (), *, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._at: dict[str, list[BoundHook]] = {}
        for bound in sorted(hooks, key=_rank):
            self._at.setdefault(bound.spec.point, []).append(bound)

    @property
    def points(self) -> frozenset[str]:
        """Where there are hooks."""
        return frozenset(self._at)

    def guards(self, point: str) -> bool:
        """Whether a hook at a point must not be passed over."""
        return any(bound.failure is not HookFailure.FAIL_OPEN for bound in self._at.get(point, ()))

    async def run(self, call: HookCall, *, clock: Clock, check: Check | None = None) -> Outcome:
        """Call the hooks of a point one after the other, up to the first that says no.

        Raises nothing but cancellation: what becomes of a failure is in the outcome.
        """
        outcome = Outcome(call)
        for bound in self._at.get(call.point, ()):
            outcome = await self._next(bound, outcome, clock, check)
            if outcome.refusal is not None or outcome.stop is not None:
                break
        return outcome

    async def _next(self, bound: BoundHook, before: Outcome, clock: Clock, check: Check | None) -> Outcome:
        """Call one hook, and take its answer into the outcome."""
        started, spec = clock.monotonic(), bound.spec
        answer = await _answer(bound, before.call)
        facts: JsonObject = {
            "hookId": spec.hook_id,
            "point": spec.point,
            "durationMs": elapsed_ms(clock, started),
        }
        if before.call.call_id is not None:
            facts["callId"] = before.call.call_id
        after = answer if isinstance(answer, _Failed) else _taken(before, answer, check)
        if isinstance(after, _Failed):
            # Who waits for what a hook should have done finds out here why it did not.
            told = f"hook {spec.hook_id} at {spec.point} failed, {bound.failure.value}: {after.message}"
            log_failure(told, after.error, redactor=self._redactor)
            return _failed(bound, before, after, facts)
        return _completed(bound, after, answer, facts)


def _rank(bound: BoundHook) -> tuple[int, int, str]:
    spec = bound.spec
    order = ORDER if spec.order is None else spec.order
    return _PHASES[spec.phase or HookPhase.NORMAL], order, spec.hook_id


NO_HOOKS: Final = Hooks()


def _taken(before: Outcome, answer: object, check: Check | None) -> Outcome | _Failed:
    """Make the change that a hook wants, if it is sound."""
    if not isinstance(answer, Change):
        return before
    try:
        call, context = applied(before.call, answer)
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
        return _Failed(HookStatus.FAILED, "missing", "this process has no function for the hook")
    stuck = _STUCK.setdefault(hook, _Stuck())
    if stuck.count >= HOOK_STUCK_THREADS_MAX:
        return _Failed(HookStatus.FAILED, "stuck", f"{stuck.count} earlier calls of it have not ended")
    timeout_ms = spec.timeout_ms or HOOK_TIMEOUT_MS
    thread = _Thread(stuck)
    outcome = await cut(_called(hook, copied(call), thread), timeout_ms / 1_000)
    if isinstance(outcome, Late):
        thread.leave()
        return _Failed(HookStatus.TIMED_OUT, "timeout", f"it did not answer within {timeout_ms:,} ms")
    if isinstance(outcome, Raised):
        return _Failed(HookStatus.FAILED, "raised", failure_text(outcome.error), outcome.error)
    try:
        return check_answer(spec, outcome.value)
    except BadAnswer as error:
        return _Failed(HookStatus.REJECTED, "not_allowed", str(error))
    except Exception as error:  # noqa: BLE001 - the hook boundary: what it returned may be anything
        return _Failed(HookStatus.REJECTED, "not_allowed", failure_text(error))


async def _called(hook: Hook, call: HookCall, thread: "_Thread") -> object:
    if iscoroutinefunction(hook.function):
        return await cast(Awaitable[HookAnswer], hook.function(call))
    returned = await in_thread(partial(thread.run, partial(hook.function, call)))
    return await cast(Awaitable[object], returned) if isawaitable(returned) else returned


def _completed(bound: BoundHook, after: Outcome, answer: object, facts: JsonObject) -> Outcome:
    is_change, is_veto = isinstance(answer, Change), isinstance(answer, Veto)
    status = HookStatus.COMPLETED.value
    data: JsonObject = {**facts, "status": status, "changed": is_change, "vetoed": is_veto}
    if isinstance(answer, Change):
        data |= _kept(after.call, answer)
    if not isinstance(answer, Veto):
        return replace(after, notes=(*after.notes, Note("hook.completed", data)))
    data["reason"] = answer.reason
    if bound.spec.point in _VETO_STOPS:
        return _stopping(after, "hook.completed", data, _denied(bound, answer.reason))
    refusal = Refusal(bound.spec.hook_id, answer.reason, "hook.veto")
    return replace(after, notes=(*after.notes, Note("hook.completed", data)), refusal=refusal)


def _kept(call: HookCall, change: Change) -> JsonObject:
    """What the record of a hook keeps of its change; a result is in that of the call."""
    if change.arguments is not UNCHANGED:
        return {"change": {"arguments": call.arguments}}
    if change.prompt is not UNCHANGED:
        return {"change": {"prompt": call.prompt}}
    if change.context is not UNCHANGED:
        return {"change": {"context": [whole(text) for text in change.context]}}
    return {}


def _failed(bound: BoundHook, before: Outcome, failed: _Failed, facts: JsonObject) -> Outcome:
    failure = bound.failure
    data: JsonObject = {
        **facts,
        "status": failed.status.value,
        "error": {"code": failed.code, "message": failed.message},
        "failure": failure.value,
    }
    reason = f"hook {bound.spec.hook_id} failed: {failed.message}"
    match failure:
        case HookFailure.FAIL_OPEN:
            return replace(before, notes=(*before.notes, Note("hook.failed", data)))
        case HookFailure.DENY if bound.spec.point in _DENIAL_REFUSES:
            refusal = Refusal(bound.spec.hook_id, reason, "hook.failed")
            return replace(before, notes=(*before.notes, Note("hook.failed", data)), refusal=refusal)
        case HookFailure.DENY:
            return _stopping(before, "hook.failed", data, _denied(bound, reason))
        case HookFailure.INTERRUPT_RUN | HookFailure.FAIL_RUN:
            is_final = failure is HookFailure.FAIL_RUN
            error = ErrorInfo(
                code=ErrorCode.DENIED,
                kind=ErrorKind.HOOK_FAILURE,
                retry=RetryClass.NOT_RETRYABLE if is_final else RetryClass.REPAIR_NEEDED,
                message=reason,
            )
            return _stopping(before, "hook.failed", data, error)
        case _:
            assert_never(failure)


def _denied(bound: BoundHook, reason: str) -> ErrorInfo:
    return ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"Hook {bound.spec.hook_id} stopped the run: {reason}",
    )


def _stopping(outcome: Outcome, kind: str, data: JsonObject, error: ErrorInfo) -> Outcome:
    stop: JsonObject = {"stop": error.model_dump(mode="json", by_alias=True)}
    return replace(outcome, notes=(*outcome.notes, Note(kind, {**data, **stop})), stop=error)


# threads that do not come back


@dataclass(slots=True)
class _Stuck:
    """How many calls of a hook nobody waits for any more, and still run in a thread."""

    count: int = 0
    lock: Lock = field(default_factory=Lock)


class _Thread:
    """One call of a hook that is not async."""

    def __init__(self, stuck: _Stuck) -> None:
        self._stuck = stuck
        self._is_running = False
        self._is_left = False

    def run(self, function: Callable[[], object]) -> object:
        """Call the function, in its thread."""
        with self._stuck.lock:
            self._is_running = True
        try:
            return function()
        finally:
            with self._stuck.lock:
                self._is_running = False
                self._stuck.count -= self._is_left

    def leave(self) -> None:
        """Nobody waits for it any more."""
        with self._stuck.lock:
            self._is_left = self._is_running
            self._stuck.count += self._is_left


_STUCK: Final[WeakKeyDictionary[Hook, _Stuck]] = WeakKeyDictionary()
