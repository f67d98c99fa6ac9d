"""find: a walk over folders whose actions can delete, write or run."""

import re
from fnmatch import fnmatchcase
from itertools import pairwise

from windlass_harness.shell.effects import check_text, read_path, write_path
from windlass_harness.shell.paths import SECRET_SAMPLES, is_secret_path
from windlass_harness.shell.scene import COMPUTED, NAMES, SECRET, Call, Field, field_of
from windlass_harness.shell.tables_tools import FIND_TESTS


def find(call: Call) -> str:
    """Walk folders; some actions delete, write or run."""
    position = 0
    texts = call.texts
    while position < len(texts) and re.fullmatch(r"-[HLP]|-O\d|-D", texts[position]):
        position += 1
    roots = position
    while position < len(texts) and not texts[position].startswith(("-", "(", "!", ",")):
        read_path(call, call.args[position])
        if call.args[position].is_glob and texts[position][:1] in "*?[":
            call.note("unknown/dynamic", "a file name may be read as an option")
        position += 1
    is_outside = any(text.startswith(("/", "~", "..")) for text in texts[roots:position])
    has_secret = False
    runs = False
    is_filtered = _is_filtered(texts)
    while position < len(texts):
        name = texts[position]
        position += 1
        if name in _FIND_RUNS:
            position = _find_exec(call, position)
            runs = True
            continue
        sign = FIND_TESTS.get(name)
        value = call.args[position] if position < len(texts) and sign in ("=", "@", ">") else None
        has_secret = has_secret or (value is not None and name in _FIND_NAMES and _finds_secrets(value))
        _find_test(call, name, sign, value)
        position += 1 if value is not None else 0
    if has_secret:
        call.note("read/secret" if runs or is_outside else "unknown/search")
    if runs and not is_filtered:
        call.note("unknown/dynamic")
    return SECRET if has_secret else COMPUTED


_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_CHOICES = frozenset({"-o", "-or", ","})
_FIND_DENIALS = frozenset({"!", "-not"})
_FIND_NAMES = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename"})


def _is_filtered(texts: list[str]) -> bool:
    """Say whether a name is asked for that no file of credentials has."""
    denied = [after for text, after in pairwise(texts) if text in _FIND_DENIALS]
    if "(" in denied or any(text in _FIND_CHOICES for text in texts):
        return False
    patterns = [
        pattern
        for before, name, pattern in zip(["", *texts], texts, texts[1:], strict=False)
        if name in _FIND_NAMES and before not in _FIND_DENIALS
    ]
    return bool(patterns) and not any(map(_matches_secret, patterns))


def _matches_secret(pattern: str) -> bool:
    # Unlike the shell's, the patterns of find match a leading dot too.
    return any(fnmatchcase(f"./{sample}", f"*{pattern.lower()}") for sample in SECRET_SAMPLES)


def _finds_secrets(pattern: Field) -> bool:
    return is_secret_path(pattern) or is_secret_path(field_of(pattern.text.rstrip("*")))


def _find_test(call: Call, name: str, sign: str | None, value: Field | None) -> None:
    if sign is None:
        call.note("unknown/option", name)
    elif sign == "!":
        call.note("destructive", name)
    elif value is not None and sign == "@":
        read_path(call, value)
    elif value is not None and sign == ">":
        write_path(call, value)
        call.note("destructive/tool-exec", name)
    elif value is not None:
        check_text(call, value)


def _find_exec(call: Call, position: int) -> int:
    texts = call.texts
    end = position
    while end < len(texts) and texts[end] not in (";", "+"):
        end += 1
    words = [Field(text.replace("{}", f"./{NAMES}"), text) for text in texts[position:end]]
    if words:
        if words[0].holds(NAMES):
            call.note("destructive/tool-exec", words[0].raw)
        inner = call.scene.copy()
        inner.stdin = None
        call.engine.run_words(words, inner)
    return end + 1
