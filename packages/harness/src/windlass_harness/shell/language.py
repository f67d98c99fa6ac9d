"""The safe language: which simple commands are proven to be local reads.

A command is in the language if its program is in `programs`, every one of its words is an option spelled as
listed there or an operand of the listed kind, and its redirections lose nothing. Nothing else is safe.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from windlass_harness.shell import programs
from windlass_harness.shell.credentials import SECRET_PATHS, is_listed, is_secret, is_source, may_reach_secret
from windlass_harness.shell.parser import Redirect, Simple, Word
from windlass_protocol.frozen import frozen

Finding = tuple[str, str]
"""A category and the offending text."""


class Outside(Exception):
    """A command is not in the language: `category` says why, `part` is the offending text."""

    def __init__(self, category: str, part: str) -> None:
        super().__init__(category)
        self.category = category
        self.part = part


@frozen
class ProgramGrammar:
    """The options and operands of one program, read from its entry in `programs`."""

    flags: frozenset[str]
    letters: frozenset[str]
    values: dict[str, str]
    attached: dict[str, str]
    separate: dict[str, str]
    has_number: bool
    operands: tuple[str, ...]
    repeats: bool


@frozen
class Use:
    """The program of a command, and the paths among its words."""

    program: str
    paths: list[Word]
    late: list[Word]
    """Options after an operand, and their values: to a program that takes none there, names of files."""


_GLOB: Final = re.compile(r"[*?\[]")
_OBJECT: Final = re.compile(r"\^\{(?!tree\}|commit\})")
"""A revision of git that may be the content of any file."""
_TREE_HASH: Final = re.compile(r"[0-9a-fA-F]{4,64}:")
"""A path below a hash, which may be that of a folder of credentials."""
_ENDING: Final = re.compile(r"(?<!\.)\.[A-Za-z0-9]+$")
PATCH: Final = re.compile(
    r"-p|-u|-U.*|--patch|--unified.*|--word-diff.*|--color-words.*|-W|--function-context|-c|--cc|-m|--check"
    r"|-[SG].*"
)
"""Options of git that show what is in files, or tell whether a text is in them."""
_JQ_PART: Final = re.compile(rf"{programs.JQ_TEXT}|\.\.|\.?[A-Za-z_][A-Za-z0-9_]*|\S")
"""Texts, names and signs of a program of jq."""
_ABOUT: Final = ("--help", "--version")
_COLONS_MAX: Final = 4
_WILDCARDS_MAX: Final = 4
_PATTERNS_MAX: Final = 20
_NUMBER_OPTION: Final = re.compile(r"-[0-9]{1,9}")
_SECRET_BEGINNINGS: Final = tuple(
    f"/{path[: match.start()].lower()}"
    for path in SECRET_PATHS
    if path[0] == "."
    for match in re.finditer("/", path)
)
"""Folders above those of credentials, such as `/.config`."""
_CAUTIONS: Final = {name: category for category, names in programs.CAUTIONS.items() for name in names.split()}


def problem_of(command: Simple, folders: Sequence[str]) -> Finding | None:
    """Say why a command is not in the language; None if it is.

    `folders` are those in which it may run, each with a slash at its end: what git shows depends on it.
    """
    try:
        use_of(command, folders)
    except Outside as found:
        return (found.category, found.part)
    return None


def folders_after(command: Simple, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders in which the commands after this one may run: whether `cd` is done is not known."""
    texts = command.argv
    if texts[0] != "cd" or len(texts) == 1:
        return folders
    return folders + tuple(f"{folder}{texts[1]}/" for folder in folders)


def use_of(command: Simple, folders: Sequence[str]) -> Use:
    """Return the program and the paths of a command that is in the language.

    Raises:
        Outside: it is not.
    """
    use = Use(command.words[0].text, [], [])
    if sum(word.is_glob for word in command.words) > _PATTERNS_MAX:
        raise Outside("unknown/pattern", use.program)
    for redirect in command.redirects:
        _check_redirect(redirect, use)
    return _check_program(command, use, folders)


def _check_redirect(redirect: Redirect, use: Use) -> None:
    match (redirect.descriptor, redirect.operator):
        case ("2", ">&") if redirect.target.text == "1":
            return
        case ("" | "1" | "2", ">" | ">>") | ("", "&>") if redirect.target.text == "/dev/null":
            return
        case ("" | "0", "<"):
            _check_path(redirect.target, "F", use)
        case _:
            raise Outside("unknown/redirect", f"{redirect.operator} {redirect.target.text}")


def _check_program(command: Simple, use: Use, folders: Sequence[str]) -> Use:
    name, words = use.program, command.words[1:]
    if len(name) != command.words[0].end - command.words[0].start:
        raise Outside("unknown/parse", name)
    longer = f"{name} {words[0].text}" if words else name
    match name:
        case "[" if words and words[-1].text == "]":
            _check_test(words[:-1], use)
        case "test":
            _check_test(words, use)
        case "find":
            _check_find(words, use)
        case "cd":
            _check_cd(words, use)
        case "git":
            return _check_git(words, use, folders)
        case _ if len(words) == 1 and words[0].text in programs.VERSIONS.get(name, ()):
            pass
        case _ if len(words) == 1 and name in programs.PROGRAMS and words[0].text in _ABOUT:
            pass
        case _ if longer in programs.PROGRAMS and words:
            _check_words(grammar_of(longer), words[1:], Use(longer, use.paths, use.late))
        case _ if name in programs.PROGRAMS:
            _check_words(grammar_of(name), words, use)
        case _:
            raise Outside(_CAUTIONS.get(name, "unknown/program"), name)
    return use


@lru_cache(maxsize=256)
def grammar_of(name: str) -> ProgramGrammar:
    is_git = name.startswith("git ")
    options, operands = programs.GIT[name[4:]] if is_git else programs.PROGRAMS[name]
    flags: set[str] = set()
    letters = ""
    values: dict[str, str] = {}
    attached: dict[str, str] = {}
    separate: dict[str, str] = {}
    for entry in options.split():
        if entry.startswith("+"):
            letters += entry[1:]
        elif "=" in entry:
            option, _, kind = entry.partition("=")
            values[option] = kind
        elif ":" in entry:
            option, _, kind = entry.partition(":")
            attached[option] = kind
        elif "@" in entry:
            option, _, kind = entry.partition("@")
            separate[option] = kind
        else:
            flags.add(entry)
    kinds = tuple(kind.rstrip("*") for kind in operands.split())
    return ProgramGrammar(
        frozenset(flags),
        frozenset(letters),
        values,
        attached,
        values | separate,
        "-#" in flags,
        kinds,
        operands.endswith("*"),
    )


def _check_words(grammar: ProgramGrammar, words: Sequence[Word], use: Use) -> None:
    operands: list[Word] = []
    used: set[str] = set()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        text = word.text
        if operands and use.program in programs.OPTIONS_FIRST:
            raise Outside("unknown/option", text)
        if operands and use.program == "awk" and text.startswith("-") and text != "-":
            # A file: there are no options after the program.
            raise Outside("unknown/option", text)
        if text == "--":
            operands.extend(words[at:])
            break
        if not text.startswith("-") or text == "-" or grammar.operands[:1] == ("W",):
            operands.append(word)
            continue
        option, value = _split_option(grammar, text)
        kind = (grammar.values | grammar.attached)[option] if value is not None else ""
        if word.is_glob and not (text.startswith("--") and kind in ("T", "GLOB")):
            # What matches `--include=*.py` is the same option with another text.
            raise Outside("unknown/option", text)
        used.add(option)
        late = words[at - 1 : at + (value is None and option in grammar.separate)]
        use.late.extend(late if operands else ())
        if value is not None:
            _check_kind(value, kind, text)
        elif option in grammar.separate:
            if at == len(words):
                raise Outside("unknown/option", text)
            _check_value(words[at], grammar.separate[option], use)
            at += 1
    if use.program == "diff":
        _check_diff(operands, use)
    kinds = grammar.operands
    if not used.isdisjoint(programs.PATTERN_OPTIONS.get(use.program, ())):
        kinds = kinds[1:]
    _check_operands(operands, kinds, use, repeats=grammar.repeats)


def _check_diff(operands: Sequence[Word], use: Use) -> None:
    """Add the files that are read in a folder beside a file: those that have the same name."""
    places = [word for word in operands if word.text not in ("-", "/dev/null")]
    for folder in places:
        for file in places:
            path = f"{folder.text}/{file.text.rpartition('/')[2]}"
            if is_secret(path):
                raise Outside("read/secret", path)
            use.paths.append(Word(path, folder.start, folder.end, folder.is_glob or file.is_glob))


def _split_option(grammar: ProgramGrammar, text: str) -> tuple[str, str | None]:
    """Return the option of a word, and the value in the same word if there is one."""
    if text in grammar.flags or text in grammar.separate:
        return text, None
    if text.startswith("--"):
        option, equals, value = text.partition("=")
        if equals and (option in grammar.values or option in grammar.attached):
            return option, value
    elif grammar.letters.issuperset(text[1:]) or (grammar.has_number and _NUMBER_OPTION.fullmatch(text)):
        return text, None
    elif text[:2] in grammar.values or text[:2] in grammar.attached:
        return text[:2], text[2:]
    raise Outside("unknown/option", text)


def _check_operands(operands: Sequence[Word], kinds: tuple[str, ...], use: Use, *, repeats: bool) -> None:
    for index, operand in enumerate(operands):
        if index < len(kinds):
            _check_value(operand, kinds[index], use)
        elif repeats and kinds:
            _check_value(operand, kinds[-1], use)
        else:
            raise Outside("unknown/option", operand.text)


def _check_value(word: Word, kind: str, use: Use) -> None:
    if kind in ("P", "F", "G"):
        _check_path(word, kind, use)
    elif kind in ("ARCHIVE", "PACKED"):
        _check_kind(word.text, kind, word.text)
        _check_path(word, "F", use)
    elif word.is_glob:
        raise Outside("unknown/option", word.text)
    else:
        _check_kind(word.text, kind, word.text)


def _check_kind(value: str, kind: str, part: str) -> None:
    if kind == "GLOB" and not value.startswith("!") and is_secret(value):
        raise Outside("read/secret", part)
    if kind in ("T", "GLOB"):
        is_fit = not value.startswith("-")
    else:
        is_fit = kind == "W" or re.fullmatch(programs.KINDS[kind], value) is not None
        is_fit = is_fit and not (kind == "JQ" and _has_call(value))
    if not is_fit:
        raise Outside("unknown/option", part)


def _has_call(program: str) -> bool:
    """Say whether a name of a program of jq is neither a listed function nor the key of an object.

    Functions show what the program is not given: `{a: env}`, and the error of `.[env:]`, the environment.
    """
    brackets: list[str] = []
    before = ""
    for match in _JQ_PART.finditer(program):
        part = match.group()
        is_key = brackets[-1:] == ["{"] and before in ("{", ",")
        if part in "[({" or (part == "if" and not is_key):
            brackets.append(part)
        elif part in "])}" or (part == "end" and not is_key):
            del brackets[-1:]
        elif (part[0].isalpha() or part[0] == "_") and not is_key and part not in programs.JQ_WORDS:
            return True
        before = part
    return False


def _check_path(word: Word, kind: str, use: Use) -> None:
    """Refuse a path that leaves the folder, that may name a secret, or that may become an option."""
    text = word.text
    segments = text.split("/")
    if _names_secret(text, kind, use.program) or (kind == "G" and ":" in text and _shows_secret(text)):
        raise Outside("read/secret", text)
    if text == "/dev/null":
        return
    if text == "-" and kind != "G":
        # Standard input; to a redirection and to some programs the name of a file.
        use.paths.append(word)
        return
    if text.startswith(("/", "~")) or ".." in segments or ":.." in text:
        raise Outside("unknown/outside", text)
    if not text or text.startswith(("-", "+", ":(")) or "=" in text or (kind == "G" and _OBJECT.search(text)):
        raise Outside("unknown/option", text)
    if use.program == "strings" and text.startswith("@"):
        # A file of further arguments.
        raise Outside("unknown/option", text)
    if word.is_glob:
        _check_pattern(text, kind, use.program)
    use.paths.append(word)


def _names_secret(text: str, kind: str, program: str) -> bool:
    """Say whether a path may name credentials; one of words alone may be a folder, or a branch of git."""
    is_branch = kind == "G" and program != "git blame" and _ENDING.search(text) is None
    return is_listed(text) if is_branch or program in programs.NAMES_ONLY else is_secret(text)


def _shows_secret(text: str) -> bool:
    """Say whether `REVISION:PATH` of git may show credentials: a tree shows paths without their beginning."""
    if text.count(":") > _COLONS_MAX:
        return True
    # A path may have a colon too.
    paths = [text[at + 1 :] for at, character in enumerate(text) if character == ":"]
    if _TREE_HASH.match(text) and not is_source(text):
        return True
    return any(map(is_secret, paths)) or any(map(_begins_secret, paths))


def _begins_secret(path: str) -> bool:
    """Say whether a path may be that of a folder in which the rest of a path of credentials is."""
    joined = f"/{'/'.join(segment for segment in path.lower().split('/') if segment not in ('', '.'))}"
    return joined.endswith(_SECRET_BEGINNINGS)


def _check_pattern(text: str, kind: str, program: str) -> None:
    """Refuse a pattern of file names that may become an option, or reach a secret that is then shown."""
    if kind == "F" or (_GLOB.match(text) and not (text[0] == "*" and program in programs.HARMLESS)):
        raise Outside("unknown/pattern", text)
    segments = text.split("/")
    if len(_GLOB.findall(text)) > _WILDCARDS_MAX:
        raise Outside("unknown/pattern", text)
    if any(segment.startswith(".") and _GLOB.search(segment) for segment in segments):
        raise Outside("unknown/outside", text)
    if program not in programs.NAMES_ONLY and may_reach_secret(segments):
        raise Outside("unknown/pattern", text)


def _check_git(words: Sequence[Word], use: Use, folders: Sequence[str]) -> Use:
    at, folder = 0, ""
    while at < len(words) and (words[at].text in programs.GIT_GLOBAL or words[at].text == "-C"):
        if words[at].text == "-C":
            at += 1
            folder += f"{words[at].text}/" if at < len(words) else ""
            if at == len(words):
                raise Outside("unknown/git", "git")
            _check_cd(words[at : at + 1], Use("git -C", use.paths, use.late))
        at += 1
    texts = [word.text for word in words[at : at + 2]]
    for count in (2, 1):
        name = f"git {' '.join(texts[:count])}"
        if len(texts) >= count and name[4:] in programs.GIT:
            git_use = Use(name, use.paths, [])
            _check_words(grammar_of(name), words[at + count :], git_use)
            _check_follow(words[at + count :], git_use)
            for prefix in filter(None, (f"{base}{folder}" for base in folders)):
                if any(is_secret(f"{prefix}{word.text.rpartition(':')[2]}") for word in words[at + count :]):
                    raise Outside("read/secret", prefix)
            return git_use
    raise Outside("unknown/git", " ".join(texts) or "git")


def _check_follow(words: Sequence[Word], use: Use) -> None:
    """Refuse patches of a followed path: it may be a folder, and git then takes no names to leave out."""
    texts = [word.text for word in words]
    if "--follow" in texts and (use.program != "git log" or any(map(PATCH.fullmatch, texts))):
        raise Outside("unknown/option", "--follow")


def _check_cd(words: Sequence[Word], use: Use) -> None:
    """Accept one folder below this one; what lies in a hidden one is known by its whole path only."""
    if len(words) != 1 or words[0].text == "-" or "/." in f"/{words[0].text.removeprefix('./')}":
        raise Outside("unknown/outside", " ".join(word.text for word in words))
    _check_path(words[0], "F", use)


def _check_find(words: Sequence[Word], use: Use) -> None:
    at = 0
    while at < len(words) and not words[at].text.startswith(("-", "(", "!", ",")):
        _check_path(words[at], "P", use)
        at += 1
    while at < len(words):
        word = words[at]
        kind = programs.FIND.get(word.text)
        if kind is None or word.is_glob:
            raise Outside("unknown/option", word.text)
        at += 1
        if kind:
            if at == len(words):
                raise Outside("unknown/option", word.text)
            _check_value(words[at], kind, use)
            at += 1


def _check_test(words: Sequence[Word], use: Use) -> None:
    """Accept one test of a file, perhaps negated."""
    texts = [word.text for word in words]
    if len(texts) - (texts[:1] == ["!"]) != 2 or texts[-2] not in programs.TEST_FILES:
        raise Outside("unknown/option", " ".join(texts))
    if texts[-1] != ".git":  # Whether there is a repository is no secret.
        _check_path(words[-1], "F", use)
