"""File effects of a call: the same rule for operands, options and redirections."""

from collections.abc import Sequence

from windlass_harness.shell.options import Arguments, Option, describe, read_arguments
from windlass_harness.shell.paths import (
    is_data_path,
    is_fetched_path,
    is_policy_path,
    is_scratch_path,
    is_secret_path,
    is_startup_path,
    kind_of_path,
    placed,
)
from windlass_harness.shell.scene import COMPUTED, DECODED, FETCHED, UNSET, Call, Field
from windlass_harness.shell.tables_readers import LISTERS
from windlass_protocol.lazy import lazy_pattern

_READ_NOTES = {
    "outside": "unknown/outside",
    "device": "destructive/device",
    "network": "destructive/exfil",
    "unknown": "unknown/dynamic",
}
_WRITE_NOTES = {
    "outside": "destructive/outside",
    "device": "destructive/device",
    "network": "destructive/exfil",
    "unknown": "unknown/dynamic",
    "inside": "safe_write",
}
_RISKY_SIGNS = frozenset("!>~$%")
_IN_PLACE = frozenset({"-i", "--in-place", "--inplace"})
_SETUID = lazy_pattern(r"[0-7]*[2-7][0-7]{3}|[ugoa]*[+=][rwxXt]*s[rwxXt]*")
_WORLD = lazy_pattern(r"0?[0-7]{2}[2367]|0?[0-7]{0,2}777|0?666|[ugoa]*[oa][ugoa]*[+=][rxX]*w.*|\+w")
_URL = lazy_pattern(r"[a-z][a-z0-9+.-]*://")
_REVISION_PATH = lazy_pattern(r"^[^/]*?:(?=.)")


def read_path(call: Call, path: Field) -> None:
    """Report what reading this path means."""
    if not path.text:
        return
    if path.text.startswith("@"):
        # Many programs read further options from such a file.
        call.note("unknown/dynamic", path.raw)
        read_path(call, Field(path.text[1:], path.raw, path.is_glob, path.is_sure))
    if is_secret_path(placed(path, call.scene)) or is_secret_path(_after_revision(path)):
        is_listed = call.name in LISTERS and kind_of_path(path, call.scene) == "inside"
        call.note("unknown/search" if is_listed else "read/secret", path.raw)
    if _URL.match(path.text):
        call.note("unknown/network", path.raw)
    category = _READ_NOTES.get(kind_of_path(path, call.scene))
    if category:
        call.note(category, path.raw)


def _after_revision(path: Field) -> Field:
    # `HEAD:.env` names a file of the repository.
    return Field(_REVISION_PATH.sub("", path.text), path.raw, path.is_glob, path.is_sure)


def write_path(call: Call, path: Field, *, truncates: bool = False) -> None:
    """Report what writing this path means.

    `truncates` says that nothing replaces what was there.
    """
    kind = kind_of_path(path, call.scene)
    if kind == "harmless":
        return
    place = placed(path, call.scene)
    if is_policy_path(place):
        call.note("destructive/policy", path.raw)
    elif is_startup_path(place):
        call.note("destructive/persist", path.raw)
    elif is_secret_path(place) or truncates or (kind == "inside" and is_data_path(path)):
        call.note("destructive", path.raw)
    call.note(_WRITE_NOTES[kind], path.raw)


def note_mode(call: Call, mode: str) -> None:
    """Report permissions that set an id or let everybody write."""
    if any(_SETUID.fullmatch(part) or _WORLD.fullmatch(part) for part in mode.split(",")):
        call.note("destructive/perm", mode)


def run_path(call: Call, path: Field) -> None:
    """Report what running the program text in this file means."""
    read_path(call, path)
    if path.holds(FETCHED) or is_fetched_path(path.text, call.scene):
        call.note("destructive/remote-code", path.raw)
    elif path.holds(DECODED) or is_scratch_path(path.text):
        call.note("destructive/eval", path.raw)
    call.note("unknown/exec", path.raw)


def check_text(call: Call, field: Field) -> None:
    """Report an argument that is not literal, so that it may be an option."""
    if not field.is_sure or field.holds(UNSET, COMPUTED, FETCHED, DECODED):
        call.note("unknown/dynamic", field.raw)


def apply_options(call: Call, options: Sequence[Option]) -> None:
    """Report what the options of a described program do."""
    for option in options:
        value = option.value
        match option.sign:
            case "!":
                call.note("destructive/tool-exec", option.name)
            case "~":
                call.note("safe_write" if option.name in _IN_PLACE else "unknown/option", option.name)
            case "@" if value is not None:
                read_path(call, value)
            case ">" if value is not None:
                write_path(call, value)
            case "$" if value is not None:
                call.engine.run_code(value.text, call.scene.copy())
            case _:
                if value is not None:
                    check_text(call, value)


def read_described(call: Call, text: str) -> Arguments:
    """Sort a call's arguments by a description and report what its options do."""
    description = describe(text)
    arguments = read_arguments(description, call.args)
    apply_options(call, arguments.options)
    for unknown in arguments.unknown:
        call.note("unknown/option", unknown.raw)
    may_be_option = any(arg.is_glob and arg.text[:1] in "*?[" for arg in arguments.operands)
    if may_be_option and _RISKY_SIGNS & set(description.options.values()):
        call.note("unknown/dynamic", "a file name may be read as an option")
    return arguments


def apply_operands(call: Call, operands: Sequence[Field], *, kinds: tuple[str, ...]) -> None:
    """Report what the operands of a described program mean; the last kind repeats."""
    for number, operand in enumerate(operands):
        kind = kinds[min(number, len(kinds) - 1)]
        is_last = number == len(operands) - 1
        match kind:
            case "path":
                read_path(call, operand)
            case "write":
                write_path(call, operand)
                if call.name == "mv" and operand.text == "/dev/null":
                    call.note("destructive", operand.raw)
            case "copy" | "link" if is_last and number:
                write_path(call, operand, truncates=operands[0].text == "/dev/null")
            case "copy":
                read_path(call, operand)
            case "link":
                _link_target(call, operand)
            case "none":
                call.note("unknown/option", operand.raw)
            case _:
                check_text(call, operand)


def _link_target(call: Call, target: Field) -> None:
    if is_secret_path(target):
        call.note("read/secret", target.raw)
    check_text(call, target)
