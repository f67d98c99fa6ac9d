"""State of the walk over a program: fields, variables, working folder, input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Protocol

from windlass_harness.shell.tree import Arithmetic, Compound, Script
from windlass_protocol.frozen import mutable, sealed

# Text that is not known stands as one character that no input can hold (they are replaced on entry).
UNSET = "\x00"
"""The value of a variable that this program did not set."""
COMPUTED = "\x01"
"""Output of a command that was itself graded."""
NAMES = "\x02"
"""File names below the working folder."""
FETCHED = "\x03"
"""Text that came over the network."""
DECODED = "\x04"
"""Text that was assembled or decoded, so that its meaning was hidden."""
SECRET = "\x05"
"""Value of a variable with a name that indicates a secret."""
BREAK = "\x1f"
"""The gap between two elements of an array."""

UNKNOWNS = (UNSET, COMPUTED, NAMES, FETCHED, DECODED, SECRET)


@sealed
class Field:
    """One argument after expansion; unknown stretches are marker characters."""

    text: str
    raw: str
    is_glob: bool = False
    is_sure: bool = True

    def holds(self, *markers: str) -> bool:
        """Say whether any of these unknowns is part of the text."""
        return any(marker in self.text for marker in markers)

    @property
    def is_known(self) -> bool:
        """True when the text is exactly what the program will get."""
        return self.is_sure and not self.is_glob and not self.holds(*UNKNOWNS)


def field_of(text: str) -> Field:
    """Make a field of text that is known."""
    return Field(text, text)


@mutable
class Scene:
    """The state of the shell at one point of the program."""

    values: dict[str, tuple[Field, ...]] = field(default_factory=dict[str, tuple[Field, ...]])
    history: dict[str, list[Field]] = field(default_factory=dict[str, list[Field]])
    functions: dict[str, Compound] = field(default_factory=dict[str, Compound])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    positional: tuple[Field, ...] | None = None
    calls: tuple[str, ...] = ()
    fetched: set[str] = field(default_factory=set[str])
    pipes: dict[str, str] = field(default_factory=dict[str, str])
    references: dict[str, str] = field(default_factory=dict[str, str])
    integers: set[str] = field(default_factory=set[str])
    folder: str = ""
    folder_depth: int = 0
    is_outside: bool = False
    expands_aliases: bool = False
    stdin: str | None = None
    depth: int = 0
    calls_deep: int = 0
    is_trial: bool = False

    def copy(self) -> Scene:
        """Return a scene for a subshell: what it changes stays there."""
        return replace(
            self, values=dict(self.values), functions=dict(self.functions), aliases=dict(self.aliases)
        )

    def assign(self, name: str, value: tuple[Field, ...]) -> None:
        """Set a variable, and remember every value it ever had."""
        name = self.references.get(name, name)
        self.values[name] = value
        self.history.setdefault(name, []).extend(value)


@sealed
class Call:
    """One command to grade: its name, its arguments, and where it runs."""

    name: str
    args: tuple[Field, ...]
    scene: Scene
    engine: Engine
    raw: str

    @property
    def texts(self) -> list[str]:
        """The arguments as text."""
        return [arg.text for arg in self.args]

    def note(self, category: str, part: str = "") -> None:
        """Report a finding about this call."""
        self.engine.note(category, part or self.raw)

    def with_args(self, name: str, args: Sequence[Field]) -> Call:
        """Return the same call with another name and other arguments."""
        return replace(self, name=name, args=tuple(args))


class Engine(Protocol):
    """The part of the grader that rules of single commands use."""

    def note(self, category: str, part: str) -> None:
        """Report a finding; the category decides how bad it is."""
        ...

    def spend(self, units: int = 1) -> None:
        """Use up work; raises TooMuchWork when none is left."""
        ...

    def run_code(self, text: str, scene: Scene) -> str:
        """Grade text that a shell will run; return what it may print."""
        ...

    def run_script(self, script: Script, scene: Scene) -> str:
        """Grade a parsed program; return what it may print."""
        ...

    def run_words(self, fields: Sequence[Field], scene: Scene) -> str:
        """Grade a command given as its words; return what it may print."""
        ...

    def is_dangerous(self, fields: Sequence[Field], scene: Scene) -> bool:
        """Say whether these words, as a command, are dangerous; reports nothing."""
        ...

    def is_dangerous_code(self, text: str, scene: Scene) -> bool:
        """Say whether this text, as a program, is dangerous; reports nothing."""
        ...

    def arithmetic(self, expression: Arithmetic, scene: Scene) -> None:
        """Grade what an arithmetic expression runs."""
        ...

    def evaluate_text(self, text: str, scene: Scene) -> None:
        """Grade the expansions of text that is expanded a second time."""
        ...
