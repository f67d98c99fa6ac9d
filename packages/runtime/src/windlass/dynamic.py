"""Dynamic parts of an agent: instructions, tools and skills resolved at run time.

Instructions, tools and skills that a function of the host gives: for the session, for the turn, or at each
step.
"""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from windlass.errors import check_name, check_text, check_whole, kind_of, wrong
from windlass.limits import INSTRUCTIONS_CHARS_MAX, RESOLVER_TIMEOUT_MS, RESOLVER_TIMEOUT_MS_MAX
from windlass.tools.context import SessionValues
from windlass_protocol import ResolverPart, ResolverScope, ResolverSpec, SourceRef

INSTRUCTIONS: Final = "instructions"
"""What the resolver of instructions is called that has no name of its own."""


@dataclass(frozen=True, slots=True)
class DynamicContext:
    """What a resolver is told of the run it resolves for."""

    session_id: str
    run_id: str
    _: KW_ONLY
    agent_id: str
    input: str = ""
    """The newest words of a person in the session, as text."""
    step_index: int | None = None
    """The step, for what is resolved at each step; None before the first."""
    can_ask: bool = True
    """Whether people can be asked questions."""
    source: SourceRef | None = None
    """Where the run comes from."""
    state: SessionValues = field(default_factory=SessionValues, repr=False)
    """What the session keeps, to be read."""


Resolver = Callable[[DynamicContext], object | Awaitable[object]]
"""Gives a text for instructions; a tool, skill, or list of them otherwise; None for nothing.

It may be async; if not, it runs in a thread. It is called again after a restart, so it should depend on
nothing but its context and what is durable.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Dynamic:
    """A part of an agent that a function gives when it is needed."""

    resolver: Resolver
    _: KW_ONLY
    name: str
    scope: ResolverScope = ResolverScope.TURN
    timeout_ms: int = RESOLVER_TIMEOUT_MS
    fails_open: bool = False

    def __repr__(self) -> str:
        return f"Dynamic({self.name!r}, at={self.scope.value!r})"


@dataclass(frozen=True, slots=True)
class Placed:
    """A dynamic part in its place in an agent."""

    part: ResolverPart
    dynamic: Dynamic

    @property
    def spec(self) -> ResolverSpec:
        """It as data."""
        return ResolverSpec(name=self.dynamic.name, part=self.part, scope=self.dynamic.scope)


def dynamic(
    resolver: Resolver,
    *,
    at: ResolverScope | str = ResolverScope.TURN,
    name: str | None = None,
    timeout_ms: int = RESOLVER_TIMEOUT_MS,
    fails_open: bool = False,
) -> Dynamic:
    """Return a part of an agent that a function gives, see Resolver.

    `at` says when it is asked and how long its answer holds: session, turn or step. One that raises or takes
    over `timeout_ms` fails the run, unless it fails open: then it has given nothing.

    Raises:
        Rejected: an option cannot be used; the message says what to write.
    """
    if not callable(resolver) or isinstance(resolver, type):
        raise wrong(f"a resolver is a function, found {kind_of(resolver)}")
    known = name if name is not None else getattr(resolver, "__name__", type(resolver).__name__)
    where = f"resolver {check_name(known, 'a resolver')}"
    if at not in tuple(ResolverScope):
        raise wrong(f"{where}: at is one of {', '.join(ResolverScope)}; found {at!r}")
    if type(fails_open) is not bool:
        raise wrong(f"{where}: fails_open is True or False, found {kind_of(fails_open)}")
    limit = check_whole(timeout_ms, f"{where}: timeout_ms", most=RESOLVER_TIMEOUT_MS_MAX)
    return Dynamic(resolver, name=known, scope=ResolverScope(at), timeout_ms=limit, fails_open=fails_open)


def words_of(instructions: object, where: str) -> str | Dynamic:
    """Return instructions as a text or as what gives one."""
    if isinstance(instructions, Dynamic):
        return instructions
    if callable(instructions) and not isinstance(instructions, type):
        return dynamic(instructions, name=INSTRUCTIONS)
    return check_text(instructions, f"{where}: instructions", chars_max=INSTRUCTIONS_CHARS_MAX)
