"""Words: quotes, escapes, expansions and substitutions, as bash reads them."""

import re
from collections.abc import Callable
from dataclasses import field

from windlass_harness.shell.limits import NESTING_MAX
from windlass_harness.shell.tree import (
    Arithmetic,
    ArrayLiteral,
    Budget,
    Parameter,
    Part,
    Redirect,
    Script,
    ShellSyntaxError,
    Substitution,
    Text,
    TooMuchWork,
    Word,
)
from windlass_protocol.frozen import mutable
from windlass_protocol.lazy import lazy_pattern

META = " \t\n;&|<>()"
ASSIGNMENT = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")

_PLAIN = lazy_pattern(r"[^ \t\n;&|<>()\\'\"$`]+")
_BLANK = lazy_pattern(r"(?:[ \t]|\\\n)+")
_COMMENT = lazy_pattern(r"#[^\n]*")
_QUOTED_PLAIN = lazy_pattern(r"[^\\\"$`]+")
_BRACED_PLAIN = lazy_pattern(r"[^\\'\"$`}]+")
_SUBSCRIPT_PLAIN = lazy_pattern(r"[^\\'\"$`\]]+")
_ARITHMETIC_PLAIN = lazy_pattern(r"[^\\'\"$`()]+")
_BODY_PLAIN = lazy_pattern(r"[^\\$`]+")
_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!_-]")
_BRACED_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_OPERATOR = lazy_pattern(r":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?|@[A-Za-z]?|\*|:")
_ANSI = lazy_pattern(
    r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ECHO = lazy_pattern(_ANSI.pattern.replace("([0-7]{1,3})", "(0[0-7]{0,3}|[0-7]{1,3})"), re.DOTALL)
_UNICODE_MAX = 0x10FFFF
_BYTE_BITS = 0xFF


@mutable
class Source:
    """A cursor over program text; `parse` reads a nested script up to its `)`."""

    text: str
    budget: Budget
    parse: Callable[["Source"], Script]
    pos: int = 0
    depth: int = 0
    heredocs: list[tuple[Redirect, bool]] = field(default_factory=list[tuple[Redirect, bool]])

    def peek(self, length: int = 1) -> str:
        """Return the next characters without moving."""
        return self.text[self.pos : self.pos + length]

    def take(self, pattern: re.Pattern[str]) -> str:
        """Move past a match at the cursor and return it, or return nothing."""
        found = pattern.match(self.text, self.pos)
        if found is None:
            return ""
        self.pos = found.end()
        return found.group()

    def expect(self, text: str) -> None:
        """Move past `text`.

        Raises:
            ShellSyntaxError: something else is there.
        """
        if not self.text.startswith(text, self.pos):
            raise ShellSyntaxError(f"expected {text}")
        self.pos += len(text)

    def enter(self) -> None:
        """Go one level down; the caller comes back up by `leave`."""
        self.budget.spend()
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise TooMuchWork

    def leave(self) -> None:
        """Come back up one level."""
        self.depth -= 1


def skip_blank(source: Source) -> None:
    """Move past blanks, joined lines and a comment."""
    source.take(_BLANK)
    before = source.text[source.pos - 1] if source.pos else "\n"
    if source.peek() == "#" and before in META:
        source.take(_COMMENT)


def read_word(source: Source) -> Word:
    """Read one word; it ends at an unquoted blank or operator."""
    start = source.pos
    parts: list[Part] = []
    while source.pos < len(source.text):
        char = source.peek()
        if char in "<>" and source.peek(2)[1:] == "(":
            parts.append(_process_substitution(source))
        elif char == "(" and _is_array_start(source.text[start : source.pos]):
            parts.append(_array(source))
        elif char in META:
            break
        else:
            _read_part(source, parts, _PLAIN, quoted=False)
    if source.pos == start:
        raise ShellSyntaxError("expected a word")
    source.budget.spend()
    return Word(tuple(parts), source.text[start : source.pos])


def _read_parts(source: Source, closing: str, plain: re.Pattern[str], *, quoted: bool) -> tuple[Part, ...]:
    parts: list[Part] = []
    while source.peek() != closing:
        if source.pos >= len(source.text):
            raise ShellSyntaxError(f"expected {closing}")
        _read_part(source, parts, plain, quoted=quoted)
    source.pos += 1
    return tuple(parts)


def read_arithmetic(source: Source, closing: str) -> Arithmetic:
    """Read an expression up to `closing`, minding its parentheses."""
    source.enter()
    parts: list[Part] = []
    open_count = 0
    while open_count or not source.text.startswith(closing, source.pos):
        char = source.peek()
        if not char or (char == ")" and not open_count):
            raise ShellSyntaxError(f"expected {closing}")
        if char in "()":
            source.budget.spend()
            open_count += 1 if char == "(" else -1
            parts.append(Text(char, quoted=True))
            source.pos += 1
        else:
            _read_part(source, parts, _ARITHMETIC_PLAIN if closing == "))" else _SUBSCRIPT_PLAIN, quoted=True)
    source.pos += len(closing)
    source.leave()
    return Arithmetic(tuple(parts))


def read_condition(source: Source) -> tuple[Word, ...]:
    """Read the words of `[[ … ]]`, after `[[`; operators are words here."""
    words: list[Word] = []
    while True:
        while source.peek() in ("\n", " ", "\t") or source.peek(2) == "\\\n":
            source.pos += 1
        if re.compile(r"\]\](?![^ \t\n;&|<>()])").match(source.text, source.pos):
            source.pos += 2
            return tuple(words)
        operator = source.take(re.compile(r"&&|\|\||[|&;()<>]"))
        if operator:
            words.append(Word((Text(operator, quoted=True),), operator))
            source.budget.spend()
        else:
            words.append(read_word(source))


def read_heredocs(source: Source) -> None:
    """Give each here-document that was announced on this line its body."""
    pending, source.heredocs = source.heredocs, []
    for redirect, strips_tabs in pending:
        quoted = any(not isinstance(part, Text) or part.quoted for part in redirect.target.parts)
        end = "".join(part.text for part in redirect.target.parts if isinstance(part, Text))
        lines: list[str] = []
        while (line := _heredoc_line(source, quoted=quoted, strips_tabs=strips_tabs)) != end:
            if source.pos >= len(source.text):
                raise ShellSyntaxError("a here-document has no end")
            lines.append(line + "\n")
        redirect.body = _heredoc_word(source, "".join(lines), quoted=quoted)


def _heredoc_line(source: Source, *, quoted: bool, strips_tabs: bool) -> str:
    """Take one line; unless the end is quoted, a backslash joins the next."""
    line = ""
    while True:
        stop = source.text.find("\n", source.pos)
        line += source.text[source.pos : stop if stop >= 0 else len(source.text)]
        source.pos = stop + 1 if stop >= 0 else len(source.text)
        is_joined = not quoted and stop >= 0 and (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if not is_joined:
            return line.lstrip("\t") if strips_tabs else line
        line = line[:-1]


def _heredoc_word(source: Source, text: str, *, quoted: bool) -> Word:
    if quoted:
        return Word((Text(text, quoted=True),), text)
    return read_text(Source(text, source.budget, source.parse, depth=source.depth))


def read_text(source: Source) -> Word:
    """Read all text as one word, like a here-document: quotes are plain text."""
    parts: list[Part] = []
    while source.pos < len(source.text):
        _read_part(source, parts, _BODY_PLAIN, quoted=True)
    return Word(tuple(parts), source.text)


def _read_part(source: Source, parts: list[Part], plain: re.Pattern[str], *, quoted: bool) -> None:
    char = source.peek()
    source.budget.spend()
    if char == "\\":
        _escape(source, parts, quoted=quoted)
    elif char == "'" and not quoted:
        end = source.text.find("'", source.pos + 1)
        if end < 0:
            raise ShellSyntaxError("expected '")
        parts.append(Text(source.text[source.pos + 1 : end], quoted=True))
        source.pos = end + 1
    elif char == '"' and plain is not _BODY_PLAIN:
        source.pos += 1
        inner = _read_parts(source, '"', _QUOTED_PLAIN, quoted=True)
        parts.extend(inner or (Text("", quoted=True),))
    elif char == "`":
        parts.append(_backticks(source, quoted=quoted))
    elif char == "$":
        _dollar(source, parts, quoted=quoted)
    else:
        parts.append(Text(source.take(plain) or _one(source), quoted))


def _one(source: Source) -> str:
    source.pos += 1
    return source.text[source.pos - 1]


def _escape(source: Source, parts: list[Part], *, quoted: bool) -> None:
    escaped = source.peek(2)[1:]
    source.pos += 1 + len(escaped)
    if escaped == "\n":
        return
    if quoted and escaped not in ("$", "`", '"', "\\"):
        escaped = "\\" + escaped
    parts.append(Text(escaped or "\\", quoted=True))


def _backticks(source: Source, *, quoted: bool) -> Substitution:
    found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(source.text, source.pos)
    if found is None:
        raise ShellSyntaxError("expected `")
    source.enter()
    text = re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", found.group(1))
    inner = Source(text, source.budget, source.parse, depth=source.depth)
    script = source.parse(inner)
    if inner.pos < len(text):
        raise ShellSyntaxError("unexpected )")
    source.pos = found.end()
    source.leave()
    return Substitution(script, "output", quoted)


def _process_substitution(source: Source) -> Substitution:
    kind = "input-file" if source.peek() == "<" else "output-file"
    source.pos += 2
    return Substitution(_nested(source, ")"), kind, quoted=True)


def _nested(source: Source, closing: str) -> Script:
    source.enter()
    script = source.parse(source)
    source.expect(closing)
    source.leave()
    return script


def _is_array_start(text: str) -> bool:
    return ASSIGNMENT.fullmatch(text) is not None


def _array(source: Source) -> ArrayLiteral:
    source.pos += 1
    words: list[Word] = []
    while True:
        skip_blank(source)
        if source.peek() == "\n":
            source.pos += 1
        elif source.peek() == ")":
            source.pos += 1
            return ArrayLiteral(tuple(words))
        else:
            words.append(read_word(source))


def _dollar(source: Source, parts: list[Part], *, quoted: bool) -> None:
    two = source.peek(2)
    if two == "$(":
        parts.append(_parenthesis(source, quoted=quoted))
    elif two == "${":
        parts.append(_braced(source, quoted=quoted))
    elif two == "$[":
        source.pos += 2
        parts.append(read_arithmetic(source, "]"))
    elif two == "$'" and not quoted:
        _ansi(source, parts)
    elif source.peek(3) == "$\\\n":
        # The shell joins the lines first, and then the dollar may begin anything.
        raise ShellSyntaxError("a line ends after a dollar")
    else:
        source.pos += 1
        name = source.take(_NAME)
        if name:
            parts.append(Parameter(name, "", (), "", (), quoted))
        elif quoted or two != '$"':
            parts.append(Text("$", quoted=True))


def _parenthesis(source: Source, *, quoted: bool) -> Part:
    start, depth = source.pos, source.depth
    if source.peek(3) == "$((":
        source.pos += 3
        try:
            return read_arithmetic(source, "))")
        except ShellSyntaxError:
            # `$((cmd); cmd)` is a command substitution that begins with a subshell.
            source.pos, source.depth = start, depth
    source.pos += 2
    return Substitution(_nested(source, ")"), "output", quoted)


def _braced(source: Source, *, quoted: bool) -> Part:
    source.pos += 2
    if source.peek() in (" ", "\t", "\n", "|"):
        source.pos += 1
        return Substitution(_nested(source, "}"), "output", quoted)
    source.enter()
    prefix = source.take(re.compile(r"[!#](?=[A-Za-z0-9_@*])"))
    name = source.take(_BRACED_NAME)
    if not name:
        raise ShellSyntaxError("bad parameter expansion")
    subscript: tuple[Part, ...] = ()
    if source.peek() == "[":
        source.pos += 1
        subscript = read_arithmetic(source, "]").parts
    operator = source.take(_OPERATOR)
    argument = _read_parts(source, "}", _BRACED_PLAIN, quoted=quoted)
    if argument and not operator:
        raise ShellSyntaxError("bad parameter expansion")
    source.leave()
    return Parameter(name, prefix, subscript, operator, argument, quoted)


def _ansi(source: Source, parts: list[Part]) -> None:
    found = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(source.text, source.pos)
    if found is None:
        raise ShellSyntaxError("expected '")
    if "\\x{" in found.group(1):
        raise ShellSyntaxError("an escape that shells read in different ways")
    source.pos = found.end()
    parts.append(Text(decode_escapes(found.group(1)), quoted=True))


def decode_escapes(text: str, *, is_echo: bool = False) -> str:
    """Resolve the backslash escapes of `$'…'` and `printf`, or of `echo -e` and `%b`."""
    return (_ECHO if is_echo else _ANSI).sub(_decode_escape, text)


def _decode_escape(found: re.Match[str]) -> str:
    hexadecimal, octal, short, long, control, letter = found.groups()
    if letter is not None:
        return _ANSI_LETTERS.get(letter, letter)
    if control is not None:
        return chr(ord(control[0]) & 31)
    code = int(octal, 8) & _BYTE_BITS if octal else int(hexadecimal or short or long, 16)
    return chr(code) if code <= _UNICODE_MAX else "\ufffd"
