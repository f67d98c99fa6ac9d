"""The grammar of bash: from program text to a tree of commands."""

from windlass_harness.shell.lexer import (
    ASSIGNMENT,
    META,
    Source,
    read_arithmetic,
    read_condition,
    read_heredocs,
    read_word,
    skip_blank,
)
from windlass_harness.shell.tree import (
    Budget,
    Compound,
    CompoundKind,
    Item,
    Pipeline,
    Redirect,
    Script,
    ShellSyntaxError,
    Simple,
    Text,
    Word,
)
from windlass_protocol.lazy import lazy_pattern

RESERVED = frozenset(
    """
    if then elif else fi while until do done for select case esac in function time coproc { } ! [[ ]]
    """.split()
)

_BODY_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_RESERVED_WORD = lazy_pattern(r"(?:[a-z]+|\[\[|[{}!])(?![^ \t\n;&|<>()])")
_REDIRECT = lazy_pattern(r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-?|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
_REDIRECT_BOTH = lazy_pattern(r"&>>?")
_LIST_OPERATOR = lazy_pattern(r"&&|\|\||;(?!;|&)|&(?!>)")
_PIPE = lazy_pattern(r"\|&|\|(?!\|)")
_TIME_OPTION = lazy_pattern(r"-p(?=[ \t])(?:[ \t]+--(?=[ \t]))?")
_CASE_END = lazy_pattern(r";;&|;;|;&")
_FUNCTION_PARENS = lazy_pattern(r"[ \t]*\([ \t]*\)")
_COPROC_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*[ \t]+(?=[{(]|(?:while|until|for|if|case|select)[ \t])")
_FOR_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*(?![^ \t\n;])")


def parse_program(text: str, budget: Budget, *, depth: int = 0) -> Script:
    """Parse a whole program.

    Raises:
        ShellSyntaxError: the text is not a program this grammar knows.
        TooMuchWork: the budget or the nesting limit ran out.
    """
    source = Source(text, budget, parse_list, depth=depth)
    script = parse_list(source)
    if source.pos < len(text) or source.heredocs:
        raise ShellSyntaxError("text is left over")
    return script


def parse_list(source: Source) -> Script:
    """Parse pipelines up to a `)`, a word that ends a body, or the end of the text."""
    items: list[Item] = []
    while True:
        _skip_lines(source)
        if source.peek() in ("", ")", ";") or _reserved(source) in _BODY_ENDS:
            return Script(tuple(items))
        pipeline = _pipeline(source)
        skip_blank(source)
        operator = source.take(_LIST_OPERATOR)
        items.append(Item(pipeline, operator))
        if operator in ("&&", "||"):
            _skip_lines(source)
            if not source.peek() or source.peek() in ");&|":
                raise ShellSyntaxError("a command is missing")
        elif (
            not operator and source.peek() not in ("\n", ")", ";", "") and _reserved(source) not in _BODY_ENDS
        ):
            raise ShellSyntaxError("expected an operator")


def _skip_lines(source: Source) -> None:
    skip_blank(source)
    while source.peek() == "\n":
        source.pos += 1
        if source.heredocs:
            read_heredocs(source)
        skip_blank(source)


def _reserved(source: Source) -> str:
    found = _RESERVED_WORD.match(source.text, source.pos)
    return found.group() if found and found.group() in RESERVED else ""


def _pipeline(source: Source) -> Pipeline:
    while True:
        skip_blank(source)
        prefix = _reserved(source)
        if prefix not in ("!", "time"):
            break
        source.pos += len(prefix)
        skip_blank(source)
        if prefix == "time":
            source.take(_TIME_OPTION)
            skip_blank(source)
        if not source.peek() or source.peek() in ";&|)\n":
            return Pipeline(())
    commands: list[Simple | Compound] = [_command(source)]
    skip_blank(source)
    while source.take(_PIPE):
        _skip_lines(source)
        commands.append(_command(source))
        skip_blank(source)
    return Pipeline(tuple(commands))


def _command(source: Source) -> Simple | Compound:
    source.enter()
    start = source.pos
    word = _reserved(source)
    if word in _COMPOUNDS:
        source.pos += len(word)
        command = _COMPOUNDS[word](source, start)
    elif source.peek() == "(":
        command = _parenthesis(source, start)
    elif word and word not in ("in", "time", "!"):
        raise ShellSyntaxError(f"unexpected {word}")
    else:
        command = _simple(source, start)
    source.leave()
    return command


def _finish(
    source: Source,
    start: int,
    kind: CompoundKind,
    bodies: tuple[Script, ...],
    words: tuple[Word, ...] = (),
    name: str = "",
) -> Compound:
    redirects: list[Redirect] = []
    skip_blank(source)
    while _take_redirect(source, redirects):
        skip_blank(source)
    return Compound(kind, name, words, bodies, tuple(redirects), source.text[start : source.pos])


def _parenthesis(source: Source, start: int) -> Compound:
    if source.peek(2) == "((":
        depth = source.depth
        source.pos += 2
        try:
            parts = read_arithmetic(source, "))").parts
            return _finish(source, start, "arithmetic", (), (Word(parts, source.text[start : source.pos]),))
        except ShellSyntaxError:
            # `((cmd); cmd)` is two subshells, not arithmetic.
            source.pos, source.depth = start, depth
    source.pos += 1
    body = parse_list(source)
    source.expect(")")
    return _finish(source, start, "subshell", (_filled(body),))


def _filled(script: Script) -> Script:
    if not script.items:
        raise ShellSyntaxError("a command is missing")
    return script


def _group(source: Source, start: int) -> Compound:
    body = parse_list(source)
    _word(source, "}")
    return _finish(source, start, "group", (_filled(body),))


def _word(source: Source, expected: str) -> None:
    if _reserved(source) != expected:
        raise ShellSyntaxError(f"expected {expected}")
    source.pos += len(expected)


def _if(source: Source, start: int) -> Compound:
    bodies = [_filled(parse_list(source))]
    _word(source, "then")
    bodies.append(_filled(parse_list(source)))
    while _reserved(source) == "elif":
        source.pos += len("elif")
        bodies.append(_filled(parse_list(source)))
        _word(source, "then")
        bodies.append(_filled(parse_list(source)))
    if _reserved(source) == "else":
        source.pos += len("else")
        bodies.append(_filled(parse_list(source)))
    _word(source, "fi")
    return _finish(source, start, "if", tuple(bodies))


def _while(source: Source, start: int) -> Compound:
    condition = _filled(parse_list(source))
    return _finish(source, start, "loop", (condition, _do(source)))


def _do(source: Source) -> Script:
    _word(source, "do")
    body = _filled(parse_list(source))
    _word(source, "done")
    return body


def _for(source: Source, start: int) -> Compound:
    skip_blank(source)
    if source.peek(2) == "((":
        source.pos += 2
        head = (Word(read_arithmetic(source, "))").parts, "(("),)
        _skip_separator(source)
        body = (_body(source),)
        return _finish(source, start, "for", body, head)
    name = source.take(_FOR_NAME)
    if not name:
        raise ShellSyntaxError("a loop needs a name")
    _skip_lines(source)
    words: list[Word] = [Word((), '"$@"')]
    if _reserved(source) == "in":
        source.pos += len("in")
        words = _loop_words(source)
    _skip_separator(source)
    return _finish(source, start, "for", (_body(source),), tuple(words), name)


def _loop_words(source: Source) -> list[Word]:
    words: list[Word] = []
    skip_blank(source)
    while source.peek() and source.peek() not in "\n;":
        words.append(read_word(source))
        skip_blank(source)
    return words


def _skip_separator(source: Source) -> None:
    skip_blank(source)
    if source.peek() == ";":
        source.pos += 1
    _skip_lines(source)


def _body(source: Source) -> Script:
    if _reserved(source) == "{":
        source.pos += 1
        body = _filled(parse_list(source))
        _word(source, "}")
        return body
    return _do(source)


def _case(source: Source, start: int) -> Compound:
    skip_blank(source)
    words = [read_word(source)]
    _skip_lines(source)
    _word(source, "in")
    bodies: list[Script] = []
    _skip_lines(source)
    while _reserved(source) != "esac":
        words.extend(_case_patterns(source))
        bodies.append(parse_list(source))
        if not source.take(_CASE_END) and _reserved(source) != "esac":
            raise ShellSyntaxError("expected ;; or esac")
        _skip_lines(source)
    source.pos += len("esac")
    return _finish(source, start, "case", tuple(bodies), tuple(words))


def _case_patterns(source: Source) -> list[Word]:
    if source.peek() == "(":
        source.pos += 1
    words: list[Word] = []
    while True:
        skip_blank(source)
        words.append(read_word(source))
        skip_blank(source)
        if source.peek() == ")":
            source.pos += 1
            return words
        source.expect("|")


def _function(source: Source, start: int) -> Compound:
    skip_blank(source)
    name = read_word(source).raw
    source.take(_FUNCTION_PARENS)
    return _function_body(source, start, name)


def _function_body(source: Source, start: int, name: str) -> Compound:
    _skip_lines(source)
    body = _command(source)
    if isinstance(body, Simple):
        raise ShellSyntaxError("a function needs a compound command")
    script = Script((Item(Pipeline((body,)), ""),))
    return Compound("function", name, (), (script,), (), source.text[start : source.pos])


def _coproc(source: Source, start: int) -> Compound:
    skip_blank(source)
    source.take(_COPROC_NAME)
    script = Script((Item(Pipeline((_command(source),)), ""),))
    return Compound("coproc", "", (), (script,), (), source.text[start : source.pos])


def _condition(source: Source, start: int) -> Compound:
    return _finish(source, start, "condition", (), read_condition(source))


def _simple(source: Source, start: int) -> Simple | Compound:
    assigns: list[Word] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    end = start
    while True:
        skip_blank(source)
        if _take_redirect(source, redirects):
            end = source.pos
            continue
        if source.peek() == "(" and len(words) == 1 and not assigns and not redirects:
            if not source.take(_FUNCTION_PARENS):
                raise ShellSyntaxError("unexpected (")
            return _function_body(source, start, words[0].raw)
        if not source.peek() or (source.peek() in META and source.peek(2) not in ("<(", ">(")):
            break
        word = read_word(source)
        is_assign = not words and ASSIGNMENT.match(word.raw) is not None
        (assigns if is_assign else words).append(word)
        end = source.pos
    if not assigns and not words and not redirects:
        raise ShellSyntaxError("a command is missing")
    return Simple(tuple(assigns), tuple(words), tuple(redirects), source.text[start:end])


def _take_redirect(source: Source, redirects: list[Redirect]) -> bool:
    found = _REDIRECT.match(source.text, source.pos)
    operator = found.group(2) if found else source.take(_REDIRECT_BOTH)
    if found:
        source.pos = found.end()
    if not operator:
        return False
    skip_blank(source)
    target = read_word(source)
    redirect = Redirect(operator, (found.group(1) or "") if found else "", target)
    redirects.append(redirect)
    if operator in ("<<", "<<-"):
        if any(not isinstance(part, Text) for part in target.parts):
            raise ShellSyntaxError("a here-document ends at a plain word")
        source.heredocs.append((redirect, operator == "<<-"))
    return True


_COMPOUNDS = {
    "{": _group,
    "if": _if,
    "while": _while,
    "until": _while,
    "for": _for,
    "select": _for,
    "case": _case,
    "function": _function,
    "coproc": _coproc,
    "[[": _condition,
}
