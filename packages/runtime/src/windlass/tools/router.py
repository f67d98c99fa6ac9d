"""ToolRouter: tools by name, for callers that dispatch calls themselves.

The runtime calls tools with journal, policy and approvals. A router has no journal and asks no person: it
applies the default policy, and its caller grants consent.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from difflib import get_close_matches
from typing import Final, ParamSpec, Unpack, cast
from weakref import WeakKeyDictionary

from typing_extensions import TypeVar

from windlass.errors import Denied, Rejected, is_told_to_end, kind_of, wrong
from windlass.limits import CLOSE_NAMES_MAX, NAME_CHARS_MAX, NAMES_SHOWN_MAX
from windlass.refusals import bad_request, check_flag
from windlass.tools import SHELL_PARAMETER, AnyTool, Tool, ToolOptions, tool
from windlass.tools.calling import Arguments, failure, read_arguments, run_tool
from windlass.tools.context import ToolContext
from windlass_harness.policy import CallFacts, PolicySet, Taint, decide, decide_tool_mode
from windlass_protocol import (
    ApprovalRule,
    AskDecision,
    CausalIds,
    ErrorKind,
    JsonObject,
    RetryClass,
    ToolCall,
    ToolResult,
)
from windlass_protocol.codec_errors import printable

P = ParamSpec("P")
R = TypeVar("R")
DepsT = TypeVar("DepsT", default=object)

CLOSENESS_MIN: Final = 0.5
ASKED_BY_DEFAULT: Final = frozenset({"policy.consent_needed", "policy.undeclared_mode"})
"""Codes of decisions that a tool with the approval `never` needs no consent for."""
_CONSENT_RULES: Final = frozenset({ApprovalRule.ALWAYS, ApprovalRule.ONCE})
_DEFAULT_POLICY: Final = PolicySet()

_Gates = WeakKeyDictionary[Tool[..., object], asyncio.Semaphore]


class ToolGates:
    """Limits concurrent calls per tool.

    The limit belongs to the tool object, because two tools may have the same name.
    """

    def __init__(self) -> None:
        # A semaphore belongs to one event loop, and a program may run several loops in turn.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, _Gates] = WeakKeyDictionary()

    def of(self, item: Tool[..., object]) -> asyncio.Semaphore | None:
        """Return the gate of a tool; None if any number of calls may run at the same time."""
        if item.concurrency is None:
            return None
        gates = self._gates.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
        return gates.setdefault(item, asyncio.Semaphore(item.concurrency))


class ToolRouter:
    """Registers tools by name, and dispatches calls to them."""

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._tools: dict[str, Tool[..., object]] = {}
        self._gates = ToolGates()
        for item in tools:
            self.register(item)

    def register(
        self, item: Tool[P, R, DepsT] | Callable[P, R], **options: Unpack[ToolOptions]
    ) -> Tool[P, R, DepsT]:
        """Add a tool, or make one of a function with these options.

        Raises:
            Rejected: the name is taken, or the tool or its schema cannot be made.
        """
        new_tool = _as_tool(item, options)
        if new_tool.name in self._tools:
            raise wrong(f"duplicate tool {new_tool.name}; give this one another name")
        # Build the schema now, so that an unusable type fails here and not in a call.
        _ = new_tool.definition
        self._tools[new_tool.name] = cast("Tool[..., object]", new_tool)
        return new_tool

    def unregister(self, name: str) -> None:
        """Remove a tool; an unknown name is ignored."""
        self._tools.pop(name, None)

    def get(self, name: str) -> Tool[..., object] | None:
        """Return the tool of exactly this name."""
        return self._tools.get(name)

    def list_tools(self) -> list[Tool[..., object]]:
        """Return all tools in the order of registration."""
        return list(self._tools.values())

    def describe(self) -> list[JsonObject]:
        """Return the tools as a model and a user interface need them: name, description, inputSchema, mode.

        A mode that is not declared is guessed from the name, as `decide_tool_mode` does.
        """
        return [
            {**item.definition, "mode": decide_tool_mode(item.name, item.mode).value}
            for item in self._tools.values()
        ]

    async def dispatch(
        self, call: ToolCall, *, consent_granted: bool = False, context: ToolContext | None = None
    ) -> ToolResult:
        """Execute a call and return its result; a failure is a result too.

        An unknown tool, invalid arguments and an exception of the tool give a result with `success` false and
        `needsFollowup` true, for the model to react to.

        Raises:
            Denied: the call needs consent, and `consent_granted` is False. A call needs consent if the
                default policy asks for it: the mode is local, destructive or external or is not declared, or
                a shell command is more than a read. `approval="never"` waives consent for the mode, not for
                shell commands. With `approval="always"` or `approval="once"` every call needs consent.
            Rejected: an argument of `dispatch` has the wrong type.
        """
        _check(call, consent_granted, context)
        item = self._tools.get(call.name)
        if item is None:
            return unknown_tool(call.name, self._tools)
        try:
            arguments = await read_arguments(item, call.arguments)
        except Rejected as error:
            return failure(error.message)
        if not consent_granted and _needs_consent(item, arguments):
            raise _no_consent(item, call)
        try:
            async with self._gates.of(item) or nullcontext():
                run = await run_tool(
                    item, arguments.values, context=_direct(call) if context is None else context
                )
        except asyncio.CancelledError:
            if is_told_to_end():
                raise
            return failure(f"{item.name} cancelled itself; its outcome is unknown")
        return run.result


def unknown_tool(name: str, tool_names: Iterable[str]) -> ToolResult:
    """Return the result of a call of an unknown tool, with similar names.

    A similar tool is never called instead.
    """
    names = sorted(tool_names)
    quoted = printable(name, NAME_CHARS_MAX)
    close = get_close_matches(name[:NAME_CHARS_MAX], names, n=CLOSE_NAMES_MAX, cutoff=CLOSENESS_MIN)
    if close:
        return failure(f"there is no tool {quoted}; did you mean {', '.join(close)}?")
    if not names:
        return failure(f"there is no tool {quoted}, and no other either")
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return failure(f"there is no tool {quoted}; there are {', '.join(names[:NAMES_SHOWN_MAX])}{more}")


def _as_tool(item: Tool[P, R, DepsT] | Callable[P, R], options: ToolOptions) -> Tool[P, R, DepsT]:
    if not isinstance(item, Tool):
        return tool(item, **options)
    if options:
        raise wrong(f"the tool {item.name} exists already: give the options where it is created")
    return cast("Tool[P, R, DepsT]", item)


def call_facts(
    item: Tool[..., object], arguments: Arguments, *, taint: frozenset[Taint] = frozenset()
) -> CallFacts:
    """Return the facts of a call for a policy; shell commands are graded."""
    outbound, json_arguments = item.is_outbound, arguments.json
    if not item.is_shell:
        return CallFacts(item.name, item.mode, taint=taint, is_outbound=outbound, arguments=json_arguments)

    from windlass_harness.shell import classify_shell_command  # noqa: PLC0415 - few agents have a shell

    verdict = classify_shell_command(str(json_arguments.get(SHELL_PARAMETER, "")))
    return CallFacts(
        item.name,
        item.mode,
        shell=verdict.severity,
        commands=verdict.commands,
        taint=taint,
        is_outbound=outbound,
        arguments=json_arguments,
    )


def _check(call: object, consent_granted: object, context: object) -> None:
    if not isinstance(call, ToolCall):
        raise bad_request(f"dispatch takes a ToolCall, found {kind_of(call)}")
    check_flag(consent_granted, "consent_granted")
    if context is not None and not isinstance(context, ToolContext):
        raise bad_request(f"context must be a ToolContext or None, found {kind_of(context)}")


def _needs_consent(item: Tool[..., object], arguments: Arguments) -> bool:
    rule = item.approval_for(arguments.json)
    if rule in _CONSENT_RULES:
        return True
    decision = decide(_DEFAULT_POLICY, call_facts(item, arguments), is_attended=True)
    if not isinstance(decision, AskDecision):
        return False
    return rule is not ApprovalRule.NEVER or decision.code not in ASKED_BY_DEFAULT


def _no_consent(item: Tool[..., object], call: ToolCall) -> Denied:
    return Denied(
        f"the tool {item.name} needs a person's consent; ask for it, then dispatch with consent_granted=True",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=CausalIds(call_id=call.id) if call.id else None,
    )


def _direct(call: ToolCall) -> ToolContext:
    return ToolContext("direct", "direct", call.id)
