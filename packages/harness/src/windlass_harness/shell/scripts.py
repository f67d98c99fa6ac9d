"""Small programs inside arguments: sed, awk, jq, SQL, and inline interpreter code."""

import re
from functools import lru_cache

from windlass_harness.shell.limits import CODE_CHARS_MAX
from windlass_harness.shell.tables_code import CODE_MARKS, EDITOR_MARKS, SHELL_MARKS, SQL_MARKS
from windlass_protocol.lazy import lazy_pattern

_SED_ADDRESS = lazy_pattern(r"(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)")
_SED_PLAIN = lazy_pattern(r"[pdDPnNgGhHxFz=](?=[\s;}]|$)|[qQlL]\s*\d*(?=[\s;}]|$)|[{}]")
_SED_LABEL = lazy_pattern(r"[:btT]\s*[\w.-]*(?=[\s;}]|$)")
_SED_FLAGS = lazy_pattern(r"[gpiIm0-9M]*")
_SED_TEXT = lazy_pattern(r"[aic](?:\\?\n|\\|\s)[^\n]*(?:\\\n[^\n]*)*|v\s*[\d.]*")
_SED_FILE = lazy_pattern(r"([rRwW])\s*([^\n;}]*)")
_SED_BRACKET = lazy_pattern(r"\^?\]?(?:\[[:.=][^\]]*\]|[^\]\n])*\]")
_SED_SPACE = lazy_pattern(r"[\s;]*(?:#[^\n]*\n?[\s;]*)*")

_AWK_TOKEN = lazy_pattern(r'"(?:[^"\\]|\\.)*\\?(?:"|$)|#[^\n]*|\\\n|[ \t\r]+|/|[^"#/\\ \t\r]+|.', re.DOTALL)
_AWK_REGEX = lazy_pattern(r"/(?:[^/\\\n\[]|\\.)+/")
_AWK_MAYBE_REGEX = lazy_pattern(r'/[^/\n"#]*["#]')
_AWK_BEFORE_REGEX = frozenset("(,!~&|{};=\n")
_AWK_JOINED = lazy_pattern(r"([,{]|&&|\|\||\bdo\b|\belse\b)[ \t]*\n")
_AWK_EXEC = lazy_pattern(r"\bsystem\s*\(|(?<!\|)\|(?!\|)|@|\bextension\s*\(|/inet|\|&")
_AWK_WRITE = lazy_pattern(r"\bprintf?\b[^;}\n]*>")
_AWK_READ = lazy_pattern(r"\bgetline\b|\bclose\s*\(|\bARGV\b|\bFUNCTAB\b|\bSYMTAB\b")
_JQ_SECRET = lazy_pattern(r"\$ENV\b|(?<![.\w\"$])env\b")
_JQ_LOAD = lazy_pattern(r"(?<![.\w\"$])(?:import|include|input_filename|get_search_list|modulemeta)\b")
_YQ_LOAD = lazy_pattern(r"(?<![.\w\"$])(?:load\w*|strenv|envsubst|eval)\b")
_JQ_STRING = lazy_pattern(r'"(?:[^"\\]|\\.)*\\?(?:"|$)', re.DOTALL)

_SQL_STATEMENT = lazy_pattern(
    r"\b(?:(?:drop|truncate|alter)\s+(?:table|database|schema|keyspace|index|user|role|view)|delete\s+from|"
    r"update\s+[\w.]+\s+set|insert\s+into)\b",
    re.IGNORECASE,
)

Effect = tuple[str, str]
"""Effect of an embedded program: a category, or `read`/`write` with a path."""


@lru_cache(maxsize=64)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def _first_mark(text: str, marks: tuple[tuple[str, str], ...], flags: int = 0) -> str:
    short = text[:CODE_CHARS_MAX]
    for category, pattern in marks:
        if _compiled(pattern, flags).search(short):
            return category
    return ""


def mark_in_code(text: str, *, has_backticks: bool) -> str:
    """Return the category of what inline code does beyond computing, or nothing."""
    if has_backticks and "`" in text:
        return "destructive/tool-exec"
    return _first_mark(text, CODE_MARKS) or ("destructive/tool-exec" if gives_shell(text) else "")


def mark_in_editor_commands(text: str) -> str:
    """Return the category of what an editor's or debugger's commands do, or nothing."""
    return _first_mark(text, EDITOR_MARKS)


def mark_in_sql(text: str) -> str:
    """Return the category of what SQL or a database client's command does, or nothing."""
    return _first_mark(text, SQL_MARKS, re.IGNORECASE)


def gives_shell(text: str) -> bool:
    """Return whether text in an argument would open a shell for another host or user."""
    return _compiled(SHELL_MARKS, 0).search(text[:CODE_CHARS_MAX]) is not None


def holds_sql(text: str) -> bool:
    """Say whether text is SQL that destroys or changes data."""
    return _SQL_STATEMENT.search(text[:CODE_CHARS_MAX]) is not None


def sed_effects(script: str) -> list[Effect]:
    """Return what a sed script does beyond printing, as far as it can be read."""
    effects: list[Effect] = []
    position = 0
    while position < len(script):
        start = _after(_SED_SPACE, script, position)
        position = _sed_addresses(script, start)
        if position >= len(script):
            break
        end = _sed_command(script, position, effects)
        if end < 0:
            effects.append(
                ("destructive/tool-exec" if _may_run_sed(script[position:]) else "unknown/inline", script)
            )
            break
        position = end
    return effects


def _may_run_sed(rest: str) -> bool:
    return re.match(r"e|s.*[/|,#@!:][a-zA-Z0-9]*[ew]", rest, re.DOTALL) is not None


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _sed_addresses(script: str, position: int) -> int:
    while position < len(script):
        char = script[position]
        if char in ", !\t":
            position += 1
        elif char == "/" or char == "\\":
            start = position + 1 if char == "/" else position + 2
            end = _section_end(script, start, script[start - 1 : start])
            if end < 0:
                return position
            position = _after(re.compile(r"[IM]*"), script, end)
        else:
            end = _after(_SED_ADDRESS, script, position)
            if end == position:
                return position
            position = end
    return position


def _section_end(script: str, position: int, delimiter: str, *, has_brackets: bool = True) -> int:
    """Return where a section ends; in an expression a bracket may hold its delimiter."""
    while position < len(script):
        char = script[position]
        if char == delimiter:
            return position + 1
        if char == "\\":
            position += 2
        elif char == "[" and has_brackets:
            position = _after(_SED_BRACKET, script, position + 1)
        else:
            position += 1
    return -1


def _sed_command(script: str, position: int, effects: list[Effect]) -> int:
    for pattern in (_SED_PLAIN, _SED_LABEL, _SED_TEXT):
        end = _after(pattern, script, position)
        if end > position:
            return end
    found = _SED_FILE.match(script, position)
    if found:
        effects.append(("read" if found[1] in "rR" else "write", found[2].strip()))
        return found.end()
    if script[position] not in "sy" or position + 1 >= len(script):
        return -1
    delimiter = script[position + 1]
    middle = _section_end(script, position + 2, delimiter, has_brackets=script[position] == "s")
    end = _section_end(script, middle, delimiter, has_brackets=False) if middle >= 0 else -1
    if end < 0 or delimiter in "\n\\" or delimiter.isalnum():
        return -1
    end = _after(_SED_FLAGS, script, end) if script[position] == "s" else end
    if end < len(script) and script[end] in "ew":
        effects.append(
            ("destructive/tool-exec", script) if script[end] == "e" else ("write", script[end + 1 :].strip())
        )
        return len(script)
    return end if _ends_command(script, end) else -1


def _ends_command(script: str, position: int) -> bool:
    return position >= len(script) or script[position] in " \t\n;}#"


def awk_effects(program: str) -> list[Effect]:
    """Return what an awk program does beyond printing what it reads."""
    effects: list[Effect] = []
    if "ENVIRON" in program or "PROCINFO" in program:
        effects.append(("read/secret", program))
    code, is_sure = _awk_code(program)
    if not is_sure:
        effects.append(("unknown/inline", program))
    if _AWK_EXEC.search(code) or "/inet" in program:
        effects.append(("destructive/tool-exec", program))
    if _AWK_WRITE.search(code):
        targets = re.findall(r'>\s*"([^"]*)"', program)
        effects.extend(("write", target) for target in targets or [program])
    if _AWK_READ.search(code):
        effects.append(("unknown/inline", program))
        effects.extend(("read", target) for target in re.findall(r'<\s*"([^"]*)"', program))
    return effects


def _awk_code(program: str) -> tuple[str, bool]:
    """Return a program without its strings and expressions.

    Say whether each was told from code for sure.
    """
    code = last = ""
    position = 0
    is_sure = True
    while position < len(program):
        regex = _AWK_REGEX.match(program, position) if not last or last in _AWK_BEFORE_REGEX else None
        text = " 0 "
        if regex:
            position = regex.end()
        else:
            is_sure = is_sure and not _AWK_MAYBE_REGEX.match(program, position)
            token = _AWK_TOKEN.match(program, position)
            found = token.group() if token else " "
            position += len(found)
            text = {'"': '""', "#": "", "\\": " "}.get(found[0], found)
        code += text
        last = text.rstrip(" \t\r")[-1:] or last
    return _AWK_JOINED.sub(r"\1 ", code), is_sure


def jq_effects(program: str) -> list[Effect]:
    """Return what a jq or yq filter reads besides its input."""
    # In an interpolation or after a comment a quote may open or close a string.
    is_plain = "\\(" not in program and "#" not in program
    code = _JQ_STRING.sub('""', program) if is_plain else program
    if _JQ_SECRET.search(code):
        return [("read/secret", program)]
    if _JQ_LOAD.search(code) or _YQ_LOAD.search(code):
        return [("unknown/inline", program)]
    return []
