"""Single commands: resolved to a program, graded by its table or its own rule."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from windlass_harness.shell.effects import apply_operands, note_mode, read_described, write_path
from windlass_harness.shell.families import FAMILIES, grade_family
from windlass_harness.shell.options import describe
from windlass_harness.shell.paths import (
    is_fetched_path,
    is_policy_path,
    is_scratch_path,
    is_secret_path,
    kind_of_path,
    matches_exactly,
    split_path,
)
from windlass_harness.shell.scene import (
    COMPUTED,
    DECODED,
    FETCHED,
    NAMES,
    SECRET,
    UNKNOWNS,
    Call,
    Field,
    field_of,
)
from windlass_harness.shell.scripts import gives_shell, holds_sql
from windlass_harness.shell.tables_code import ESCAPE_MARKS
from windlass_harness.shell.tables_names import PROGRAM_FOLDERS
from windlass_harness.shell.tables_programs import (
    CAUTIOUS,
    DANGEROUS,
    DESTRUCTIVE_VERBS,
    EXEC_OPTIONS,
    WRITERS,
)
from windlass_harness.shell.tables_readers import (
    ALIASES,
    DECODERS,
    METADATA_READERS,
    NUMBER_PRINTERS,
    PASSING_FILTERS,
    READERS,
    SEARCHERS,
    SHORT_VERSION_PROGRAMS,
    TRANSFORMERS,
    VERSION_OPTIONS,
    VERSION_PROGRAMS,
    WIDE_SEARCHERS,
)
from windlass_harness.shell.tables_runners import INTERPRETERS, PLAIN_WRAPPERS, SHELL_BY_DEFAULT, WRAPPERS
from windlass_protocol.lazy import lazy_pattern

Rule = Callable[[Call], str]

_VERSIONED = lazy_pattern(r"([A-Za-z][A-Za-z+_]*?)-?[0-9][0-9.]*")
_ESCAPE = lazy_pattern(ESCAPE_MARKS)
_ENVIRONMENT = lazy_pattern(r"env:|\$env:", re.IGNORECASE)
_REMOTE_SOURCE = lazy_pattern(r"(?:git\+)?[a-z]+://")
_OUTPUT_OPTION = lazy_pattern(
    r"-[oOwWdC]|--?(?:out|log|dump|save|export|write|dest|target|record|report|trace|profile|pid)[a-z-]*"
)
_RECURSIVE = lazy_pattern(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive|--dereference-recursive")
_SECRET_SEARCH = lazy_pattern(
    r"passw(?:or)?d|secret|api[_-]?key|private[ _-]key|access[_-]?key|credential|\bAKIA",
    re.IGNORECASE,
)
_BUILDS = ("unknown/exec", "unknown/install")
_VERB_WORDS_MAX = 3
_INPUT_LINES_MAX = 50
_SUFFIXES_MAX = 12
_AMBIGUOUS = frozenset(
    """
    init format start open net reg sc at batch op pass import mount stop age mail mc screen expect
    trash wipe del rd halt security tc wg sg super su please eject kill finger reboot shutdown init
    vault tor import nc cmd history env test fish code less more
    """.split()
)
"""Names that are also common subcommands: at the end of an unknown program's words they prove nothing."""


def program_name(head: str) -> tuple[str, bool]:
    """Return the program's name, and whether it is found where programs are installed."""
    if "/" not in head and "\\" not in head:
        return _canonical(head), True
    segments = split_path(head)
    if not segments:
        return head, False
    name = _canonical(segments[-1].removesuffix(".exe"))
    folder = "/" + "/".join(segments[:-1])
    return name, head.startswith("/") and (folder in PROGRAM_FOLDERS or "/lib/" in folder + "/")


def _canonical(name: str) -> str:
    if name in _known_names():
        return ALIASES.get(name, name)
    found = _VERSIONED.fullmatch(name)
    if found and found[1] in _known_names():
        return ALIASES.get(found[1], found[1])
    if re.match(r"ld-(?:linux|musl).*\.so|ld\.so|ld64\.so", name):
        return "ld.so"
    lower = name.lower().removesuffix(".exe")
    return lower if lower in _windows_names() else name


@lru_cache(maxsize=1)
def _known_names() -> frozenset[str]:
    tables: tuple[Mapping[str, object], ...] = (ALIASES, READERS, WRITERS, WRAPPERS, INTERPRETERS, FAMILIES)
    return frozenset(name for table in tables for name in table)


@lru_cache(maxsize=1)
def _windows_names() -> frozenset[str]:
    return frozenset(DANGEROUS["destructive/windows"].split())


@lru_cache(maxsize=1)
def _dangers() -> dict[str, str]:
    return {name: category for category, names in reversed(DANGEROUS.items()) for name in names.split()}


@lru_cache(maxsize=512)
def _danger_of(name: str) -> str:
    for pattern, category in _dangers().items():
        if "*" in pattern and matches_exactly(name, (pattern,)):
            return category
    return _dangers().get(name, "")


@lru_cache(maxsize=1)
def _cautious() -> dict[str, str]:
    return {name: category for category, names in reversed(CAUTIOUS.items()) for name in names.split()}


def is_dangerous_name(name: str) -> bool:
    """Say whether a program of this name is dangerous whatever its arguments are."""
    return _danger_of(name) != ""


def grade_call(call: Call, rules: Mapping[str, Rule]) -> str:
    """Grade one call and return what it may print."""
    name, is_installed = program_name(call.name)
    if name not in ("test", "[[") and any(arg.holds(SECRET) for arg in call.args):
        call.note("read/secret")
    if not is_installed:
        return _grade_file(call, name)
    named = call.with_args(name, call.args)
    if _is_version_request(named):
        return COMPUTED
    if _cautious().get(name) in _BUILDS and is_fetched_path("", call.scene):
        call.note("destructive/remote-code")
    return rules[name](named) if name in rules else _grade_by_table(named)


def _grade_file(call: Call, name: str) -> str:
    is_foreign = is_scratch_path(call.name) or is_fetched_path(call.name, call.scene)
    category = "destructive/remote-code" if is_foreign else "unknown/exec"
    call.note(category, call.name)
    if name in FAMILIES:
        grade_family(call.with_args(name, call.args))
    is_local = call.name.startswith((".", "node_modules")) and split_path(call.name)[:1] != [".."]
    if is_dangerous_name(name) and not is_local:
        call.note(_danger_of(name))
    if name in INTERPRETERS and call.engine.is_dangerous((field_of(name), *call.args), call.scene):
        call.note("destructive/wrapper")
    check_arguments(call)
    return COMPUTED


def _grade_by_table(call: Call) -> str:
    name = call.name
    danger = _danger_of(name)
    if danger:
        call.note(danger)
        grade_suffixes(call)
        return COMPUTED
    is_dangerous = grade_family(call) if name in FAMILIES else False
    if name in WRAPPERS:
        return grade_wrapper(call, WRAPPERS[name])
    if name in READERS and not is_dangerous:
        return grade_reader(call, READERS[name])
    if name in WRITERS:
        return grade_writer(call, WRITERS[name])
    return _grade_cautious(call)


def _is_version_request(call: Call) -> bool:
    if call.name not in VERSION_PROGRAMS or len(call.args) != 1:
        return False
    text = call.args[0].text
    return text in VERSION_OPTIONS or (text in ("-v", "version") and call.name in SHORT_VERSION_PROGRAMS)


def grade_reader(call: Call, description: str) -> str:
    """Grade a program that reads; what its table does not know is more than that."""
    arguments = read_described(call, description)
    kinds = describe(description).operands
    if (
        "path" in kinds
        and "text" in kinds
        and any(option.name in _PATTERN_OPTIONS for option in arguments.options)
    ):
        kinds = ("path",)
    apply_operands(call, arguments.operands, kinds=kinds)
    note_secret_search(call)
    for option in arguments.options:
        if call.name in SEARCHERS and option.name in _FILE_OPTIONS and option.value:
            _note_searched_files(call, option.value)
    if call.name not in METADATA_READERS and any(_is_everything(operand) for operand in arguments.operands):
        call.note("unknown/search")
    has_files = "path" in kinds and len(arguments.operands) > len(kinds) - 1
    if call.name in SEARCHERS and not has_files and any(map(is_secret_path, arguments.operands)):
        return SECRET
    return printed_by(call.name, call.scene.stdin, has_files=has_files)


def note_secret_search(call: Call) -> None:
    """Report a hunt for credentials through many files."""
    searches_all = call.name in WIDE_SEARCHERS or any(_RECURSIVE.fullmatch(text) for text in call.texts)
    if call.name in SEARCHERS and searches_all and any(_SECRET_SEARCH.search(text) for text in call.texts):
        call.note("unknown/search")


def _note_searched_files(call: Call, files: Field) -> None:
    """A pattern that names files of credentials has them searched, hidden or not."""
    is_left_out = files.text.startswith("!")
    if not is_left_out and is_secret_path(Field(files.text.rstrip("$"), files.raw, is_glob=True)):
        call.note("unknown/search" if "--files" in call.texts else "read/secret", files.raw)


def _is_everything(path: Field) -> bool:
    """A bare wildcard may name any file, secrets included."""
    return path.is_glob and re.search(r"[A-Za-z0-9]", path.text.rsplit("/", 1)[-1]) is None


_MODE_OPTIONS = frozenset({"-m", "--mode"})
_FILE_OPTIONS = frozenset({"-g", "--glob", "--iglob", "--include", "-G"})
_PATTERN_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--files"})


def printed_by(name: str, stdin: str | None, *, has_files: bool) -> str:
    """Return what a reading program prints, as far as it matters to what follows."""
    if name in NUMBER_PRINTERS and not has_files:
        return "1\n"
    if name in DECODERS:
        return DECODED
    if stdin is None or (has_files and stdin == ""):
        return COMPUTED
    if name in PASSING_FILTERS and not has_files:
        return stdin
    if name in TRANSFORMERS:
        return FETCHED if FETCHED in stdin else DECODED
    return COMPUTED


def grade_writer(call: Call, description: str) -> str:
    """Grade a program that writes the files it is told of."""
    arguments = read_described(call, description)
    apply_operands(call, arguments.operands, kinds=describe(description).operands)
    for option in arguments.options:
        if option.name in _MODE_OPTIONS and option.value:
            note_mode(call, option.value.text)
    call.note("safe_write")
    return call.scene.stdin or COMPUTED if call.name in PASSING_FILTERS else COMPUTED


def grade_wrapper(call: Call, description: str) -> str:
    """Grade a program that runs the command in its arguments."""
    if call.name not in PLAIN_WRAPPERS:
        call.note("unknown/program")
    arguments = read_described(call, description)
    kinds = describe(description).operands
    skipped = 0
    while kinds[skipped] in ("text", "write"):
        if kinds[skipped] == "write" and skipped < len(arguments.operands):
            write_path(call, arguments.operands[skipped])
        skipped += 1
        if skipped == len(kinds):
            if not any(option.sign == "$" for option in arguments.options):
                call.note("destructive/shell")
            return COMPUTED
    rest = arguments.operands[skipped:]
    if arguments.unknown:
        grade_suffixes(call)
    if not rest:
        call.note("destructive/shell" if call.name in SHELL_BY_DEFAULT else "unknown/option")
        return COMPUTED
    if kinds[skipped] == "code":
        call.note("unknown/endless")
        return call.engine.run_code(" ".join(field.text for field in rest), call.scene.copy())
    return call.engine.run_words(rest, call.scene)


def _grade_cautious(call: Call) -> str:
    category = _cautious().get(call.name, "unknown/program")
    call.note(category)
    options = tuple(EXEC_OPTIONS.get(call.name, "").split())
    for arg in call.args:
        if options and (
            matches_exactly(arg.text, options) or matches_exactly(arg.text.partition("=")[0], options)
        ):
            call.note("destructive/tool-exec", arg.raw)
    check_arguments(call)
    if category in ("unknown/exec", "unknown/program"):
        _check_verbs(call)
        _check_input(call)
    if category in ("unknown/network", "unknown/program") or call.texts[:1] in (["exec"], ["run"]):
        grade_suffixes(call)
    if category == "unknown/network":
        _check_sent(call)
        return FETCHED
    return COMPUTED


def _check_verbs(call: Call) -> None:
    """Report a subcommand or target that says what it does: delete, drop, publish."""
    words = [text for text in call.texts if not text.startswith("-")]
    for word in words[:_VERB_WORDS_MAX]:
        if any(part in DESTRUCTIVE_VERBS for part in re.split(r"[-:_.]", word)) and "/" not in word:
            call.note("destructive/data", word)


def _check_input(call: Call) -> None:
    """Look for an escape to a shell, or a secret's name, in the input."""
    for line in (call.scene.stdin or "").split("\n")[:_INPUT_LINES_MAX]:
        if _ESCAPE.match(line.strip()):
            call.note("destructive/tool-exec", line)
        elif is_secret_path(field_of(line.strip())):
            call.note("read/secret", line)


def _check_sent(call: Call) -> None:
    if any(arg.holds(COMPUTED, NAMES, DECODED, SECRET) for arg in call.args):
        call.note("destructive/exfil")


def check_arguments(call: Call) -> None:
    """Look for a shell or a dangerous command inside the arguments of any program."""
    call.engine.spend(4 * len(call.args))
    for number, arg in enumerate(call.args):
        _check_path(call, arg, call.args[number - 1].text if number else "")
        value = arg.text.partition("=")[2] if arg.text.startswith("-") else arg.text
        if holds_sql(value):
            call.note("destructive/data", arg.raw)
        code = value.strip().lstrip("!|:@+")
        runs = gives_shell(arg.text) or _ESCAPE.match(value.strip()) is not None
        if runs or (" " in value.strip() and call.engine.is_dangerous_code(code, call.scene)):
            call.note("destructive/tool-exec", arg.raw)
    has_url = any(_REMOTE_SOURCE.match(text) for text in call.texts)
    if has_url and any(kind_of_path(arg, call.scene) == "outside" for arg in call.args):
        call.note("destructive/outside")


def _check_path(call: Call, arg: Field, before: str) -> None:
    name, equals, attached = arg.text.partition("=")
    value = Field(attached, arg.raw) if equals and name.startswith("-") else arg
    option = name if equals and name.startswith("-") else before
    if is_secret_path(value) or is_secret_path(Field(arg.raw, arg.raw)) or _ENVIRONMENT.match(value.text):
        call.note("read/secret", arg.raw)
    if is_policy_path(value):
        call.note("destructive/policy", arg.raw)
    if kind_of_path(value, call.scene) == "device":
        call.note("destructive/device", arg.raw)
    if _REMOTE_SOURCE.match(value.text) and _cautious().get(call.name) == "unknown/install":
        call.note("destructive/remote-code", arg.raw)
    if is_scratch_path(value.text) and _cautious().get(call.name) in (
        "unknown/exec",
        "unknown/install",
        None,
    ):
        call.note("destructive/eval", arg.raw)
    if _OUTPUT_OPTION.fullmatch(option) and kind_of_path(value, call.scene) in ("outside", "device"):
        call.note("destructive/outside", arg.raw)


def grade_suffixes(call: Call) -> None:
    """Try every tail of the words as a command: an unknown program may run it."""
    if call.scene.is_trial:
        # The trial that led here tries every tail itself.
        return
    for number in range(min(len(call.args), _SUFFIXES_MAX)):
        tail = call.args[number:]
        text = tail[0].text
        if (
            text.startswith("-")
            or (len(tail) == 1 and text in _AMBIGUOUS)
            or any(mark in text for mark in UNKNOWNS)
        ):
            continue
        if call.engine.is_dangerous(tail, call.scene):
            call.note("destructive/wrapper", " ".join(field.text for field in tail))
            return
