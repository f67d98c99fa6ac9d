"""The shape of a parsed program: words made of parts, commands made of words."""

from __future__ import annotations

from typing import Literal

from windlass_protocol.frozen import mutable, sealed


class ShellSyntaxError(Exception):
    """The text is not a shell program that this parser understands."""


class TooMuchWork(Exception):
    """A limit on nesting or work was reached."""


@mutable
class Budget:
    """A counter instead of a clock: grading the same text always costs the same."""

    left: int

    def spend(self, units: int = 1) -> None:
        """Use up some work.

        Raises:
            TooMuchWork: nothing is left.
        """
        self.left -= units
        if self.left < 0:
            raise TooMuchWork


@sealed
class Text:
    """Plain text; `quoted` text is never split, globbed or brace-expanded."""

    text: str
    quoted: bool


@sealed
class Parameter:
    """`$name` or `${name…}`; `operator` and `argument` are what follows the name."""

    name: str
    prefix: str
    subscript: tuple[Part, ...]
    operator: str
    argument: tuple[Part, ...]
    quoted: bool


@sealed
class Substitution:
    """`$(…)`, backticks, `<(…)` or `>(…)`."""

    script: Script
    kind: Literal["output", "input-file", "output-file"]
    quoted: bool


@sealed
class Arithmetic:
    """`$((…))`, `((…))`, or the inside of a subscript."""

    parts: tuple[Part, ...]


@sealed
class ArrayLiteral:
    """The parenthesis of `name=(…)`."""

    words: tuple[Word, ...]


Part = Text | Parameter | Substitution | Arithmetic | ArrayLiteral


@sealed
class Word:
    """One shell word: its parts, and the text as it was written."""

    parts: tuple[Part, ...]
    raw: str


@mutable
class Redirect:
    """One redirection; a here-document gets its `body` once its lines are read."""

    operator: str
    descriptor: str
    target: Word
    body: Word | None = None


@sealed
class Simple:
    """A simple command: assignments, words, redirections."""

    assigns: tuple[Word, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    raw: str


CompoundKind = Literal[
    "subshell", "group", "if", "loop", "for", "case", "function", "arithmetic", "condition", "coproc"
]


@sealed
class Compound:
    """A compound command; `name` is the loop variable or the function's name."""

    kind: CompoundKind
    name: str
    words: tuple[Word, ...]
    bodies: tuple[Script, ...]
    redirects: tuple[Redirect, ...]
    raw: str


@sealed
class Pipeline:
    """Commands joined by `|`."""

    commands: tuple[Simple | Compound, ...]


@sealed
class Item:
    """A pipeline and the operator that ends it (`;`, `&`, `&&`, `||`, or nothing)."""

    pipeline: Pipeline
    operator: str


@sealed
class Script:
    """A list of pipelines."""

    items: tuple[Item, ...]
