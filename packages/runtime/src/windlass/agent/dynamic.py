"""Dynamic parts of an agent: instructions, tools and skills resolved at run time.

A function of the host application gives them: once for the session, once for each turn, or at each step.
"""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Final

from windlass.errors import check_name, check_text, check_whole, kind_of, wrong
from windlass.limits import INSTRUCTIONS_CHARS_MAX, RESOLVER_TIMEOUT_MS, RESOLVER_TIMEOUT_MS_MAX
from windlass.tools.context import SessionValues
from windlass_protocol import ResolverPart, ResolverScope
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import packages

if TYPE_CHECKING:
    from windlass_protocol import SourceRef
    from windlass_protocol.generated.values import ResolverScopeValue

INSTRUCTIONS: Final = "instructions"
"""The default name of a resolver of instructions."""


def join_instructions(instructions: str | None, addition: str, part: ResolverPart) -> str | None:
    """Return the instructions of an agent with what a resolver adds; None if there are none.

    Instructions of a resolver come first: before the catalogue of skills, which is behind the agent's own.
    """
    texts = [instructions or "", addition]
    if part is ResolverPart.INSTRUCTIONS:
        texts.reverse()
    return "\n\n".join(filter(None, texts)) or None


@sealed
class DynamicContext:
    """The run that a resolver resolves for."""

    session_id: str
    run_id: str
    _: KW_ONLY
    agent_id: str
    input: str = ""
    """The newest message of a person in the session, as text."""
    step_index: int | None = None
    """The current step for a resolver with scope step; None before the first step."""
    can_ask: bool = True
    """Whether people can be asked questions."""
    source: "SourceRef | None" = None
    """The source of the run."""
    state: SessionValues = field(default_factory=SessionValues, repr=False)
    """The state of the session, read-only."""


Resolver = Callable[[DynamicContext], object | Awaitable[object]]
"""Returns a string for instructions; a tool, a skill, or a list of them otherwise; None for nothing.

It may be async; a synchronous function runs in a thread. It is called again after a restart, so it should
depend on nothing but its context and durable data.
"""


@sealed(eq=False)
class Dynamic:
    """A part of an agent that a function resolves at run time."""

    resolver: Resolver
    _: KW_ONLY
    name: str
    scope: ResolverScope = ResolverScope.TURN
    timeout_ms: int = RESOLVER_TIMEOUT_MS
    fails_open: bool = False

    def __repr__(self) -> str:
        return f"Dynamic({self.name!r}, at={self.scope.value!r})"


@sealed
class Placed:
    """A dynamic part with its place in an agent: instructions, tools or skills."""

    part: ResolverPart
    dynamic: Dynamic

    @property
    def spec(self) -> "packages.ResolverSpec":
        """The part as wire data."""
        return packages.ResolverSpec(name=self.dynamic.name, part=self.part, scope=self.dynamic.scope)


def dynamic(
    resolver: Resolver,
    *,
    at: "ResolverScope | ResolverScopeValue" = ResolverScope.TURN,
    name: str | None = None,
    timeout_ms: int = RESOLVER_TIMEOUT_MS,
    fails_open: bool = False,
) -> Dynamic:
    """Return a part of an agent that a function resolves; see Resolver.

    `at` is the scope: the function is called once per session, once per turn or at each step. A function that
    raises or exceeds `timeout_ms` fails the run. With `fails_open`, it counts as having returned None.

    Raises:
        Rejected: an option is not valid; the message names the expected value.
    """
    if not callable(resolver) or isinstance(resolver, type):
        raise wrong(f"a resolver must be a function, found {kind_of(resolver)}")
    resolver_name = name if name is not None else getattr(resolver, "__name__", type(resolver).__name__)
    where = f"resolver {check_name(resolver_name, 'a resolver')}"
    if at not in tuple(ResolverScope):
        raise wrong(f"{where}: at must be one of {', '.join(ResolverScope)}; found {at!r}")
    if type(fails_open) is not bool:
        raise wrong(f"{where}: fails_open must be True or False, found {kind_of(fails_open)}")
    limit = check_whole(timeout_ms, f"{where}: timeout_ms", most=RESOLVER_TIMEOUT_MS_MAX)
    return Dynamic(
        resolver, name=resolver_name, scope=ResolverScope(at), timeout_ms=limit, fails_open=fails_open
    )


def words_of(instructions: object, where: str) -> str | Dynamic:
    """Return instructions as a string or as a dynamic part; a plain function becomes a dynamic part."""
    if isinstance(instructions, Dynamic):
        return instructions
    if callable(instructions) and not isinstance(instructions, type):
        return dynamic(instructions, name=INSTRUCTIONS)
    if not isinstance(instructions, str):
        raise wrong(f"{where}: instructions must be a string or a function, found {kind_of(instructions)}")
    return check_text(instructions, f"{where}: instructions", chars_max=INSTRUCTIONS_CHARS_MAX)
