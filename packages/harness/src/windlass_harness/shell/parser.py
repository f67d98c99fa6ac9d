"""Parser of literal command lines: lists of pipelines of simple commands whose words are plain text.

Everything else that a shell understands (variables, substitutions, assignments, groups, control flow,
functions, braces, tildes, comments, here-documents, background jobs) is refused, never guessed.
"""

import re
from typing import Final

from windlass_harness.shell.model import WORDS_MAX
from windlass_protocol.frozen import frozen, sealed


class NotLiteral(Exception):
    """The text is not a literal command line; `part` is the text where that shows."""

    def __init__(self, part: str) -> None:
        super().__init__("not a literal command line")
        self.part = part


@sealed
class Word:
    """One word: its text without quotes, its place in the source, and whether it is a file name pattern."""

    text: str
    start: int
    end: int
    is_glob: bool


@sealed
class Redirect:
    """One redirection: descriptor, operator and target."""

    descriptor: str
    operator: str
    target: Word

    @property
    def is_quiet(self) -> bool:
        """Whether it only copies a descriptor, or throws text away."""
        if self.operator in (">&", "<&"):
            return self.target.text in ("1", "2")
        return self.target.text == "/dev/null"


@frozen
class Simple:
    """One simple command: its words and redirections."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """The words as the program gets them."""
        return tuple(word.text for word in self.words)


_RESERVED: Final = frozenset(
    "! [[ case coproc do done elif else esac fi for function if in select then time until while".split()
)
_BLANKS: Final = re.compile(r"[ \t]*")
_LINES: Final = re.compile(r"[ \t\n]*")
_OPERATOR: Final = re.compile(r"&&|\|\||;|\||\n")
_OPEN: Final = frozenset(("&&", "||", "|"))
"""Operators that need another command."""
_REDIRECT: Final = re.compile(r"([0-9]*)(>>|>&|<&|>|<)[ \t]*|()(&>>?)[ \t]*")
_PIECE: Final = re.compile(
    r"(?P<plain>[A-Za-z0-9_./,:=+@%^~#*?\[\]!\u0080-\U0010ffff-]+)"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n])*)"'
    r"|\\(?P<escaped>[^\n])"
)
_WORD_END: Final = re.compile(r"[ \t\n;|&]|$")
_ESCAPE: Final = re.compile(r'\\([$`"\\])')
_GLOB: Final = re.compile(r"[*?\[]")
_ACTIVE: Final = re.compile(r"^#|!|(?<![A-Za-z0-9_^~])~")
"""Unquoted characters that begin a comment, an expansion of history or a home folder."""
_EXCLAMATIONS: Final = ("!", "!=")


def parse_literal(text: str) -> tuple[Simple, ...]:
    """Return the simple commands of a command line, in order.

    Raises:
        NotLiteral: a construct beyond literal words, the lists `&&`, `||`, `;`, newline and `|`, and
            redirections.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._left = WORDS_MAX

    def parse(self) -> tuple[Simple, ...]:
        commands: list[Simple] = []
        is_open = True  # Another command is needed.
        while True:
            self._take(_LINES)
            if self._at == len(self._text):
                break
            commands.append(self._simple())
            operator = self._take(_OPERATOR)
            is_open = operator is not None and operator.group() in _OPEN
        if is_open:
            raise self._refusal()
        return tuple(commands)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _refusal(self) -> NotLiteral:
        return NotLiteral(self._text[self._at : self._at + 40])

    def _simple(self) -> Simple:
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._take(_BLANKS)
            if self._at == len(self._text) or _OPERATOR.match(self._text, self._at):
                break
            redirect = self._take(_REDIRECT)
            if redirect is not None:
                descriptor, operator = redirect.group(1) or "", redirect.group(2) or redirect.group(4)
                redirects.append(Redirect(descriptor, operator, self._word()))
            elif redirects:
                # Parsers differ on words after a redirection.
                raise self._refusal()
            else:
                words.append(self._word())
        if not words:
            raise self._refusal()
        first = words[0]
        raw = self._text[first.start : first.end]
        if "=" in raw or raw in _RESERVED or first.is_glob:
            raise NotLiteral(raw)
        return Simple(tuple(words), tuple(redirects))

    def _word(self) -> Word:
        self._left -= 1
        start = self._at
        parts: list[str] = []
        is_glob = False
        while (piece := _PIECE.match(self._text, self._at)) is not None:
            plain = piece.group("plain")
            if plain is not None:
                self._check_plain(plain, is_first=self._at == start)
                is_glob = is_glob or _GLOB.search(plain) is not None
            parts.append(_text_of(piece))
            self._at = piece.end()
        if self._at == start or self._left < 0 or _WORD_END.match(self._text, self._at) is None:
            raise self._refusal()
        return Word("".join(parts), start, self._at, is_glob and self._text[start : self._at] != "[")

    def _check_plain(self, plain: str, *, is_first: bool) -> None:
        if plain in _EXCLAMATIONS and is_first:
            return
        if active := _ACTIVE.search(plain if is_first else f"x{plain}"):
            raise NotLiteral(plain[active.start() :] or plain)
        # A tilde after a quoted piece is plain for bash; refused, because nothing needs it.
        if not is_first and plain.startswith("~"):
            raise NotLiteral(plain)


def _text_of(piece: re.Match[str]) -> str:
    if (double := piece.group("double")) is not None:
        return _ESCAPE.sub(r"\1", double)
    return piece.group("plain") or piece.group("single") or piece.group("escaped") or ""


def literal_commands(commands: tuple[Simple, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command; nothing if a pattern or redirection makes them uncertain."""
    for command in commands:
        if any(word.is_glob for word in command.words):
            return ()
        if not all(redirect.is_quiet for redirect in command.redirects):
            return ()
    return tuple(command.argv for command in commands)
