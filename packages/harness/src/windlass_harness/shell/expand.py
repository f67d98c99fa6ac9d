"""Expansion of words into fields, as far as their values are known."""

import re
from dataclasses import replace
from typing import Literal, assert_never

from windlass_harness.shell.arithmetic import evaluate_number
from windlass_harness.shell.limits import BRACE_FIELDS_MAX, VALUE_CHARS_MAX
from windlass_harness.shell.scene import BREAK, COMPUTED, SECRET, UNKNOWNS, UNSET, Call, Engine, Field, Scene
from windlass_harness.shell.settings import set_variable
from windlass_harness.shell.tables_names import HARMLESS_VARIABLES, KNOWN_VALUES, SECRET_VARIABLE
from windlass_harness.shell.tree import (
    Arithmetic,
    ArrayLiteral,
    Parameter,
    Part,
    Substitution,
    Text,
    TooMuchWork,
    Word,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.lazy import lazy_pattern

_SECRET_VARIABLE = lazy_pattern(SECRET_VARIABLE, re.IGNORECASE)
_GLOB = lazy_pattern(r"[*?]|\[[^\]]+\]")
_SEQUENCE = lazy_pattern(
    r"(?:(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})|([A-Za-z])\.\.([A-Za-z]))(?:\.\.-?[0-9]{1,6})?"
)
_WIDE_SEQUENCE = lazy_pattern(r"-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?")
_PATTERN = lazy_pattern(r"[*?\[\\]")
_SLICE = lazy_pattern(r" ?(-?[0-9]{1,4})(?::(-?[0-9]{1,4}))?")
_FIRST_OPAQUE = 0xE000
_OPAQUE_MAX = 0x1800
_FIRST_PIPE = 63


@sealed
class _Piece:
    text: str
    kind: Literal["plain", "quoted", "expanded"]
    is_sure: bool = True


def expand_word(word: Word, scene: Scene, *, engine: Engine) -> list[Field]:
    """Expand one word into the fields it becomes; grades what expansion runs."""
    pieces: list[_Piece] = []
    for part in word.parts:
        engine.spend()
        pieces.extend(_pieces(part, scene, engine))
    fields: list[Field] = []
    for variant in _brace_variants(pieces):
        fields.extend(_split(variant, word.raw))
    engine.spend(len(fields))
    return fields


def expand_joined(word: Word, scene: Scene, *, engine: Engine) -> Field:
    """Expand a word that stays one field: an assignment, a here-document, a case word."""
    pieces = [piece for part in word.parts for piece in _pieces(part, scene, engine)]
    text = _bounded("".join(piece.text.replace(BREAK, " ") for piece in pieces))
    has_glob = any(piece.kind == "plain" and _GLOB.search(piece.text) for piece in pieces)
    return Field(text, word.raw, has_glob, all(piece.is_sure for piece in pieces))


def _bounded(text: str) -> str:
    if len(text) > VALUE_CHARS_MAX:
        raise TooMuchWork
    return text


def is_secret_variable(name: str) -> bool:
    """Say whether a variable's name says that its value is a secret."""
    return name not in HARMLESS_VARIABLES and _SECRET_VARIABLE.search(name) is not None


def _pieces(part: Part, scene: Scene, engine: Engine) -> list[_Piece]:
    match part:
        case Text():
            return [_Piece(part.text, "quoted" if part.quoted else "plain")]
        case Arithmetic():
            engine.arithmetic(part, scene)
            return [_Piece("0", "quoted")]
        case ArrayLiteral():
            fields = [found for word in part.words for found in expand_word(word, scene, engine=engine)]
            return [_Piece(BREAK.join(found.text for found in fields), "quoted")]
        case Substitution():
            return [_substitution(part, scene, engine)]
        case Parameter():
            return _parameter(part, scene, engine)
        case _:
            assert_never(part)


def _substitution(part: Substitution, scene: Scene, engine: Engine) -> _Piece:
    inner = scene.copy()
    inner.stdin = None
    output = engine.run_script(part.script, inner)
    if part.kind == "output":
        return _Piece(output.rstrip("\n"), "quoted" if part.quoted else "expanded")
    # The word becomes the name of a pipe; keep what flows through it for those who read code from files.
    marks = "".join(sorted({char for char in output if char in UNKNOWNS[3:]}))
    name = f"/dev/fd/{_FIRST_PIPE + len(scene.pipes)}{marks}"
    scene.pipes[name] = output
    return _Piece(name, "quoted")


def _parameter(part: Parameter, scene: Scene, engine: Engine) -> list[_Piece]:
    kind = "quoted" if part.quoted else "expanded"
    if part.subscript and _subscript(part) not in ("@", "*"):
        engine.arithmetic(Arithmetic(part.subscript), scene)
    if part.prefix == "#":
        return [_Piece("1", "quoted")]
    value = _lookup(part, scene)
    if part.operator in _DEFAULTS:
        return _default(part, value, scene, engine)
    argument = [piece for inner in part.argument for piece in _pieces(inner, scene, engine)]
    if value is None:
        return [_Piece(_unknown(part), kind, is_sure=False)]
    if part.operator == "@P":
        engine.evaluate_text(value.text, scene)
    text = value.text
    if part.operator:
        transformed = _transformed(part, text, "".join(piece.text for piece in argument))
        if part.operator == ":":
            evaluate_number("".join(piece.text for piece in argument), scene, engine=engine)
        if transformed is None:
            return [_Piece(COMPUTED, kind, is_sure=False)]
        text = transformed
    return [_Piece(text, kind, value.is_sure)] if text or part.quoted else []


_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+"})


def _subscript(part: Parameter) -> str:
    return "".join(inner.text for inner in part.subscript if isinstance(inner, Text))


def _unknown(part: Parameter) -> str:
    if part.prefix == "!":
        return UNSET
    if part.name in HARMLESS_VARIABLES:
        return COMPUTED
    return SECRET if is_secret_variable(part.name) else UNSET


def _lookup(part: Parameter, scene: Scene) -> Field | None:
    if part.name in ("@", "*") or part.name.isdigit():
        return _positional(part.name, scene)
    values = scene.values.get(scene.references.get(part.name, part.name))
    if part.prefix == "!" and values:
        values = scene.values.get(values[0].text)
    if values is None:
        known = KNOWN_VALUES.get(part.name) if not part.prefix else None
        return None if known is None else Field(known, "")
    subscript = _subscript(part)
    if subscript in ("@", "*"):
        return _joined(values)
    is_index = re.fullmatch(r"[0-9]{1,4}", subscript) is not None or not part.subscript
    index = int(subscript) if is_index and subscript else 0
    missing = Field("", "") if all(v.is_sure for v in values) else Field(COMPUTED, "", is_sure=False)
    value = values[index] if index < len(values) else missing
    return value if is_index else replace(value, is_sure=False)


def _joined(values: tuple[Field, ...]) -> Field:
    return Field(
        BREAK.join(value.text for value in values), "", is_sure=all(value.is_sure for value in values)
    )


def _positional(name: str, scene: Scene) -> Field | None:
    if name == "0":
        return scene.values.get("0", (Field("bash", "$0"),))[0]
    if scene.positional is None:
        return None
    if name in ("@", "*"):
        return _joined(scene.positional)
    index = int(name) - 1
    return scene.positional[index] if index < len(scene.positional) else Field("", "")


def _default(part: Parameter, value: Field | None, scene: Scene, engine: Engine) -> list[_Piece]:
    kind = "quoted" if part.quoted else "expanded"
    wants_argument = part.operator.endswith("+")
    is_set = value is not None and (value.text != "" or ":" not in part.operator)
    if value is not None and is_set != wants_argument:
        return [_Piece(value.text if not wants_argument else "", kind, value.is_sure)]
    argument = [piece for inner in part.argument for piece in _pieces(inner, scene, engine)]
    sure = value is not None
    pieces = [
        replace(piece, kind=kind if piece.kind == "plain" else piece.kind, is_sure=sure) for piece in argument
    ]
    if part.operator.endswith("="):
        value = Field("".join(piece.text for piece in pieces), "", is_sure=sure)
        set_variable(Call(part.name, (), scene, engine, f"${{{part.name}=}}"), part.name, value=(value,))
    if not sure and is_secret_variable(part.name) and not wants_argument:
        return [_Piece(SECRET, kind, is_sure=False)]
    return pieces or [_Piece("", kind, is_sure=sure)]


def _transformed(part: Parameter, text: str, argument: str) -> str | None:
    """Return what an operator makes of a value; None if that is not certain."""
    operator = part.operator
    if operator in ("?", ":?") or any(char in text for char in UNKNOWNS):
        return text
    is_list = part.name in ("@", "*") or _subscript(part) in ("@", "*")
    if is_list or any(char in argument for char in UNKNOWNS) or _PATTERN.search(argument):
        return None
    plain, _, replacement = argument.partition("/")
    match operator:
        case "^" | "^^" | "," | ",," if not argument:
            return _recased(text, operator)
        case "//" if plain:
            return text.replace(plain, replacement)
        case "/" if plain:
            return text.replace(plain, replacement, 1)
        case "#" | "##":
            return text.removeprefix(argument)
        case "%" | "%%":
            return text.removesuffix(argument)
        case ":":
            return _sliced(text, argument)
        case _:
            return None


def _recased(text: str, operator: str) -> str:
    first, rest = (text, "") if len(operator) > 1 else (text[:1], text[1:])
    return (first.upper() if operator[0] == "^" else first.lower()) + rest


def _sliced(text: str, argument: str) -> str | None:
    found = _SLICE.fullmatch(argument)
    if found is None:
        return None
    start, length = int(found[1]), found[2]
    rest = text[start:] if start < len(text) else ""
    return rest if length is None else rest[: int(length)]


def _split(pieces: list[_Piece], raw: str) -> list[Field]:
    fields: list[list[_Piece]] = [[]]
    for piece in pieces:
        chunks = re.split(r"[ \t\n\x1f]+" if piece.kind == "expanded" else BREAK, piece.text)
        for number, chunk in enumerate(chunks):
            if number:
                fields.append([])
            if chunk or piece.kind == "quoted":
                fields[-1].append(replace(piece, text=chunk))
    return [_field(found, raw) for found in fields if found]


def _field(pieces: list[_Piece], raw: str) -> Field:
    text = _bounded("".join(piece.text for piece in pieces))
    has_glob = any(piece.kind != "quoted" and _GLOB.search(piece.text) for piece in pieces)
    return Field(text, raw, has_glob, all(piece.is_sure for piece in pieces))


def _brace_variants(pieces: list[_Piece]) -> list[list[_Piece]]:
    if not any(piece.kind == "plain" and "{" in piece.text for piece in pieces) or len(pieces) > _OPAQUE_MAX:
        return [pieces]
    # Braces may span several parts, so expand a template in which every other part is one character.
    template = "".join(
        piece.text if piece.kind == "plain" else chr(_FIRST_OPAQUE + number)
        for number, piece in enumerate(pieces)
    )
    variants = _expand_braces(template) if template.count("{") <= BRACE_FIELDS_MAX else []
    if not 0 < len(variants) <= BRACE_FIELDS_MAX:
        return [[_Piece(UNSET, "quoted", is_sure=False)]]
    return [_from_template(variant, pieces) for variant in variants]


def _from_template(template: str, pieces: list[_Piece]) -> list[_Piece]:
    found: list[_Piece] = []
    for char in template:
        number = ord(char) - _FIRST_OPAQUE
        found.append(pieces[number] if 0 <= number < len(pieces) else _Piece(char, "plain"))
    return found


def _expand_braces(text: str) -> list[str]:
    for start in (number for number, char in enumerate(text) if char == "{"):
        end, commas = _matching_brace(text, start)
        if end < 0:
            continue
        inner = text[start + 1 : end]
        choices = _choices(inner, [comma - start - 1 for comma in commas])
        if not choices:
            continue
        tails = _expand_braces(text[end + 1 :])
        heads = [variant for choice in choices for variant in _expand_braces(choice)]
        return [text[:start] + head + tail for head in heads for tail in tails][: BRACE_FIELDS_MAX + 1]
    return [text]


def _matching_brace(text: str, start: int) -> tuple[int, list[int]]:
    depth = 0
    commas: list[int] = []
    for number in range(start, len(text)):
        char = text[number]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                return number, commas
        elif char == "," and depth == 1:
            commas.append(number)
    return -1, commas


def _choices(inner: str, commas: list[int]) -> list[str]:
    if commas:
        edges = [-1, *commas, len(inner)]
        return [inner[edges[number] + 1 : edges[number + 1]] for number in range(len(edges) - 1)]
    found = _SEQUENCE.fullmatch(inner)
    if found is None:
        return [""] * (BRACE_FIELDS_MAX + 1) if _WIDE_SEQUENCE.fullmatch(inner) else []
    first, last = (found[1], found[2]) if found[1] else (str(ord(found[3])), str(ord(found[4])))
    low, high = int(first), int(last)
    step = 1 if high >= low else -1
    numbers = range(low, high + step, step)[: BRACE_FIELDS_MAX + 1]
    return [str(number) if found[1] else chr(number) for number in numbers]
