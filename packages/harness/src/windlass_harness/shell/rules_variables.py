"""Builtins that set variables."""

import re
from dataclasses import replace

from windlass_harness.shell.arithmetic import evaluate_name, evaluate_number, grade_setting
from windlass_harness.shell.lexer import decode_escapes
from windlass_harness.shell.scene import COMPUTED, UNKNOWNS, UNSET, Call, Field
from windlass_harness.shell.settings import set_variable
from windlass_protocol.lazy import lazy_pattern

_FORMAT = lazy_pattern(r"%(?:%|([-+ #0]*[0-9*]*(?:\.[0-9*]+)?)(\([^)]*\)T|[a-zA-Z]))")
_DIGITS = lazy_pattern(r"[0-9]+")
_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_PLAINLY = lazy_pattern(r"-[rs]+")
_READ_LIST = lazy_pattern(r"^-[A-Za-z]*?a(?=.)")
"""The option that takes the name of a list, with the name attached."""
_ROUNDS_MAX = 16


def printf(call: Call) -> str:
    """Print by a format, or set a variable."""
    args = list(call.args)
    variable = ""
    if args and args[0].text.startswith("-v"):
        is_attached = args[0].text != "-v"
        variable = args[0].text[2:] if is_attached else "".join(arg.text for arg in args[1:2])
        evaluate_name(variable, call.scene, engine=call.engine)
        args = args[1:] if is_attached else args[2:]
    for arg in args:
        if arg.holds(UNSET):
            call.note("unknown/dynamic", arg.raw)
    output = _format([arg.text for arg in args if arg.text != "--"])
    if variable:
        name, bracket, _ = variable.partition("[")
        set_variable(call, name, value=(Field(output, call.raw, is_sure=not bracket),))
        return ""
    return output


def _format(texts: list[str]) -> str:
    if not texts:
        return ""
    form, values = decode_escapes(texts[0]), texts[1:]
    pending = iter(values)

    def fill(found: re.Match[str]) -> str:
        if found[2] is None:
            return "%"
        value = next(pending, "")
        if found[2] == "b":
            value = decode_escapes(value, is_echo=True)
        is_plain = not found[1] and (
            found[2] in "sb" or (found[2] in "diu" and _DIGITS.fullmatch(value) is not None)
        )
        return value if is_plain or not value else COMPUTED

    count = max(1, len([1 for found in _FORMAT.finditer(form) if found[2]]))
    rounds = max(1, -(-len(values) // count))
    printed = "".join(_FORMAT.sub(fill, form) for _ in range(min(rounds, _ROUNDS_MAX)))
    return printed if rounds <= _ROUNDS_MAX else printed + COMPUTED


def declare(call: Call) -> str:
    """Declare variables; with nothing to declare, print them."""
    names = [arg for arg in call.args if not arg.text.startswith(("-", "+"))]
    options = "".join(text for text in call.texts if text.startswith("-"))
    if not names or "p" in options:
        if "f" not in options and "F" not in options:
            call.note("read/secret")
        return COMPUTED
    for arg in names:
        _declare_one(call, arg, options)
    return ""


def _declare_one(call: Call, arg: Field, options: str) -> None:
    name, equals, value = arg.text.partition("=")
    evaluate_name(name, call.scene, engine=call.engine)
    variable = name.partition("[")[0].removesuffix("+")
    if "n" in options:
        call.note("unknown/redefine", arg.raw)
        call.scene.references[name] = value
        return
    if "i" in options:
        call.scene.integers.add(variable)
    is_list = value.startswith("(") or "a" in options or "A" in options
    if is_list:
        # The parenthesis of a list is expanded even if it was quoted.
        call.engine.evaluate_text(value, call.scene)
        if any(mark in value for mark in UNKNOWNS):
            call.note("unknown/dynamic", arg.raw)
    if call.name == "export" or "x" in options:
        grade_setting(call, variable, is_prefix=True)
    if equals:
        set_variable(call, variable, value=(Field(value, arg.raw, is_sure=arg.is_sure and not is_list),))


def unset(call: Call) -> str:
    """Forget variables; a subscript is evaluated."""
    for arg in call.args:
        evaluate_name(arg.text, call.scene, engine=call.engine)
        if arg.text == "PATH" or arg.text.startswith("HIST"):
            # Without PATH, programs are looked for in the working folder.
            grade_setting(call, arg.text, is_prefix=False)
        call.scene.values.pop(arg.text, None)
        call.scene.functions.pop(arg.text, None)
    return ""


def let(call: Call) -> str:
    """Evaluate arithmetic."""
    for arg in call.args:
        evaluate_number(arg.text, call.scene, engine=call.engine)
    return ""


def read(call: Call) -> str:
    """Read input into variables."""
    stdin = call.scene.stdin or COMPUTED
    value = Field(stdin.strip() if not any(mark in stdin for mark in UNKNOWNS) else COMPUTED, call.raw)
    if call.name == "mapfile" or any(
        text.startswith("-") and not _READ_PLAINLY.fullmatch(text) for text in call.texts
    ):
        # An option says which part of the input it is.
        value = replace(value, is_sure=False)
    for text in call.texts:
        name = _READ_LIST.sub("", text)
        evaluate_name(name, call.scene, engine=call.engine)
        if _NAME.fullmatch(name):
            set_variable(call, name, value=(value,))
    if call.name == "mapfile" and any(re.match(r"-[A-Za-z]*C", text) for text in call.texts):
        call.note("destructive/eval")
    return ""


def set_by_shell(call: Call) -> str:
    """getopts and wait: the shell sets the variables that are named."""
    for arg in call.args:
        evaluate_name(arg.text, call.scene, engine=call.engine)
        if _NAME.fullmatch(arg.text):
            set_variable(call, arg.text, value=(Field(COMPUTED, arg.raw, is_sure=False),))
    return ""


def shift(call: Call) -> str:
    """Drop the first positional parameters."""
    texts = call.texts or ["1"]
    positional = call.scene.positional
    is_known = positional is not None and re.fullmatch(r"[0-9]{1,4}", texts[0]) is not None
    call.scene.positional = positional[int(texts[0]) :] if positional is not None and is_known else None
    return ""


VARIABLES = {
    "printf": printf,
    "export": declare,
    "declare": declare,
    "readonly": declare,
    "unset": unset,
    "let": let,
    "read": read,
    "mapfile": read,
    "getopts": set_by_shell,
    "wait": set_by_shell,
    "shift": shift,
}
