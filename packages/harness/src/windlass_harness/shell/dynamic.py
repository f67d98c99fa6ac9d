"""Computed command words: graded by their possible values, never safe."""

from fnmatch import fnmatchcase
from functools import lru_cache

from windlass_harness.shell.commands import check_arguments, grade_suffixes
from windlass_harness.shell.scene import (
    COMPUTED,
    DECODED,
    FETCHED,
    NAMES,
    SECRET,
    UNKNOWNS,
    UNSET,
    Call,
    Field,
)
from windlass_harness.shell.tables_names import HARMLESS_VARIABLES
from windlass_harness.shell.tables_programs import DANGEROUS
from windlass_harness.shell.tables_runners import INTERPRETERS, SHELLS
from windlass_protocol.lazy import lazy_pattern

_DANGEROUS_ARGUMENT = lazy_pattern(
    r"-[a-zA-Z]*(?:rf|fr|Rf|fR)[a-zA-Z]*|--no-preserve-root|--recursive|of=.*|-delete|-exec(?:dir)?|/s|/q|-9|-KILL|--force"
)
_CODE_OPTION = lazy_pattern(r"-[a-z]*[ce]")
_PARAMETER = lazy_pattern(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_VALUES_MAX = 8
_GLOB_CHARS_MAX = 64


def grade_dynamic(call: Call, head: Field) -> str:
    """Grade a call whose command word is not literal; return what it may print."""
    call.note("unknown/dynamic", head.raw)
    if head.holds(FETCHED):
        call.note("destructive/remote-code", head.raw)
    if head.holds(DECODED, SECRET):
        call.note("destructive/indirect", head.raw)
    if head.is_sure and not head.text.strip(COMPUTED) and not _is_named_program(head):
        call.note("destructive/eval", head.raw)
    if any(_DANGEROUS_ARGUMENT.fullmatch(text) for text in call.texts):
        call.note("destructive/indirect")
    if head.is_glob and _may_be_dangerous(head.text):
        call.note("destructive/indirect", head.raw)
    for value in _candidates(call, head):
        if call.engine.is_dangerous((*value, *call.args), call.scene):
            call.note("destructive/indirect")
    _grade_code_argument(call)
    check_arguments(call)
    # An empty variable vanishes, and then the next word is the command.
    grade_suffixes(call)
    return COMPUTED


def _candidates(call: Call, head: Field) -> list[list[Field]]:
    found: list[list[Field]] = []
    if not any(mark in head.text for mark in UNKNOWNS) and not head.is_glob:
        found.append([Field(head.text, head.raw)])
    for name in _PARAMETER.findall(head.raw):
        for value in call.scene.history.get(name, ())[:_VALUES_MAX]:
            text = head.text.replace(UNSET, value.text).replace(COMPUTED, value.text)
            found.append([Field(word, head.raw) for word in text.split()])
    stripped = head.text.strip(UNSET + COMPUTED + NAMES)
    if stripped and stripped != head.text:
        found.append([Field(stripped, head.raw)])
    return [words for words in found if words and words[0].is_known]


def _is_named_program(head: Field) -> bool:
    names = _PARAMETER.findall(head.raw)
    return bool(names) and all(name in HARMLESS_VARIABLES for name in names)


def _may_be_dangerous(pattern: str) -> bool:
    name = pattern.rsplit("/", 1)[-1] or pattern
    if len(name) > _GLOB_CHARS_MAX:
        return True
    return any(fnmatchcase(candidate, name) for candidate in _risky_names())


@lru_cache(maxsize=1)
def _risky_names() -> tuple[str, ...]:
    names = {name for group in DANGEROUS.values() for name in group.split() if "*" not in name}
    return tuple(
        names
        | SHELLS
        | set(INTERPRETERS)
        | {"curl", "wget", "find", "xargs", "env", "eval", "chmod", "chown"}
    )


def _grade_code_argument(call: Call) -> None:
    for option, value in zip(call.args, call.args[1:], strict=False):
        if _CODE_OPTION.fullmatch(option.text) and call.engine.is_dangerous_code(value.text, call.scene):
            call.note("destructive/indirect", value.raw)
