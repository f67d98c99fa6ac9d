"""Options of a command, read by a small description of what each one means.

A description has three sections split by `|`: short options, long options, operands. An option may end with
a sign: `=` takes text, `@` takes a path that is read, `>` takes a path that is written, `$` takes shell code,
`%` takes program text, `?` takes text only when it is attached, `!` makes the program run or load something,
`~` is known but more than a read; a plain flag has no sign (`abc` are three flags; `abc=` are two, and one
that takes text).

Operands: `path`, `text`, `write`, `copy` (the last one is written), `link` (likewise, the others are names),
`command` (the rest is a command), `code` (the rest is shell code), `none`; the last kind repeats.
"""

from dataclasses import field
from functools import lru_cache

from windlass_harness.shell.scene import Field
from windlass_protocol.frozen import mutable, sealed
from windlass_protocol.lazy import lazy_pattern

_SIGNS = "=@>$%?!~"
_WITH_VALUE = ("=", "@", ">", "$", "%")
_SHORT = lazy_pattern(r"([^ ])([=@>$%?!~]?)")


@sealed
class Description:
    """The options of a program by name, each with its sign, and its operand kinds."""

    options: dict[str, str]
    operands: tuple[str, ...]


@sealed
class Option:
    """One option that was given: its name, its sign, and its value."""

    name: str
    sign: str
    value: Field | None


@mutable
class Arguments:
    """The arguments of one call, sorted."""

    options: list[Option] = field(default_factory=list[Option])
    unknown: list[Field] = field(default_factory=list[Field])
    operands: list[Field] = field(default_factory=list[Field])


@lru_cache(maxsize=2048)
def describe(text: str) -> Description:
    """Read a description; see the module's docstring for its form."""
    short, long, operands = (section.split() for section in text.split("|"))
    options: dict[str, str] = {}
    for letter, sign in _SHORT.findall(" ".join(short)):
        options[f"-{letter}"] = sign
    for name in long:
        sign = name[-1] if name[-1] in _SIGNS else ""
        dashed = name if name.startswith("-") else f"--{name}"
        options[dashed.removesuffix(sign)] = sign
    return Description(options, tuple(operands))


def read_arguments(description: Description, args: tuple[Field, ...]) -> Arguments:
    """Sort arguments into options and operands.

    A program that takes a command gets its operands word for word from the first one on.
    """
    found = Arguments()
    stops_early = "command" in description.operands or "code" in description.operands
    position = 0
    while position < len(args):
        arg = args[position]
        position += 1
        if arg.text == "--":
            found.operands.extend(args[position:])
            break
        if not arg.text.startswith("-") or arg.text == "-":
            if stops_early:
                found.operands.extend(args[position - 1 :])
                break
            found.operands.append(arg)
            continue
        position = _read_option(description, args, position, found)
    return found


def _read_option(description: Description, args: tuple[Field, ...], position: int, found: Arguments) -> int:
    arg = args[position - 1]
    name, equals, value = arg.text.partition("=")
    sign = description.options.get(name)
    if sign is not None and (arg.text.startswith("--") or len(name) > 2):
        if equals:
            found.options.append(Option(name, sign, _part_of(arg, value)))
            return position
        return _take_value(Option(name, sign, None), args, position, found)
    if arg.text.startswith("--"):
        return _read_unknown(description, arg, name, position, found)
    return _read_cluster(description, args, position, found)


def _part_of(arg: Field, text: str) -> Field:
    return Field(text, arg.raw, arg.is_glob, arg.is_sure)


def _take_value(option: Option, args: tuple[Field, ...], position: int, found: Arguments) -> int:
    takes_next = option.sign in _WITH_VALUE or (option.sign == "!" and position < len(args))
    if takes_next and position < len(args):
        found.options.append(Option(option.name, option.sign, args[position]))
        return position + 1
    found.options.append(option)
    return position


def _read_unknown(description: Description, arg: Field, name: str, position: int, found: Arguments) -> int:
    # Long options may be cut short: what could be a running option is taken for one.
    for known, sign in description.options.items():
        if sign == "!" and known.startswith(name) and len(name) > len("--x"):
            found.options.append(Option(known, sign, arg))
            return position
    found.unknown.append(arg)
    return position


def _read_cluster(description: Description, args: tuple[Field, ...], position: int, found: Arguments) -> int:
    arg = args[position - 1]
    letters = arg.text[1:]
    for number, letter in enumerate(letters):
        sign = description.options.get(f"-{letter}")
        if sign is None:
            found.unknown.append(arg)
            return position
        rest = letters[number + 1 :]
        if sign == "?" or (sign in (*_WITH_VALUE, "!") and rest):
            found.options.append(Option(f"-{letter}", sign, _part_of(arg, rest.removeprefix("="))))
            return position
        if sign in (*_WITH_VALUE, "!"):
            return _take_value(Option(f"-{letter}", sign, None), args, position, found)
        found.options.append(Option(f"-{letter}", sign, None))
    return position
