"""Safe commands as they are run: the paths that they open, and their text with files of credentials left out.

A grade is about text. The target of a path, and the matches of a pattern, depend on the folder: a runtime
looks at the paths right before it runs the text. A read through a whole folder cannot be listed; it gets
options that leave the names of credentials out.
"""

import shlex
from typing import Final

from windlass_harness.shell import programs
from windlass_harness.shell.classify import classify_shell_command
from windlass_harness.shell.language import PATCH, Use, grammar_of, use_of
from windlass_harness.shell.parser import Simple, Word, parse_literal
from windlass_protocol.frozen import sealed
from windlass_protocol.lazy import lazy_pattern

Edit = tuple[int, int, str]
"""Start and end of a piece of the text, and its replacement."""


@sealed
class ReadPath:
    """A path or a pattern of paths that a command opens, relative to one of the folders it may be in."""

    text: str
    is_pattern: bool
    shows_names_only: bool
    folders: tuple[str, ...]


@sealed
class Read:
    """A safe command as it is run."""

    text: str
    paths: tuple[ReadPath, ...]
    repositories: tuple[str, ...]
    """Folders in which git is run."""


_FILES: Final = programs.LEFT_OUT_FILES
_FOLDERS: Final = programs.LEFT_OUT_FOLDERS
_LISTS: Final = {
    "left_out_of_grep": [
        *(f"--exclude={name}" for name in _FILES),
        *(f"--exclude-dir={name}" for name in _FOLDERS),
    ],
    "left_out_of_rg": [f"--iglob=!{name}" for name in (*_FILES, *_FOLDERS)],
    "left_out_of_diff": [*_FILES, *_FOLDERS],
    "left_out_of_git": [
        f":(top,exclude,icase,glob)**/{name}" for name in (*_FILES, *(f"{name}/**" for name in _FOLDERS))
    ],
}
"""The words that leave the names of credentials out, by the name of their list in the text."""
_GREPS: Final = frozenset({"grep", "egrep", "fgrep"})
_HASH: Final = lazy_pattern(r"\^?(?:.*-g)?[0-9a-fA-F]{4,64}")
"""The hash of an object, also as `git describe` writes it."""
_RANGE: Final = lazy_pattern(r"(\.{2,3})")
_CONTENT: Final = frozenset({"git cat-file", "git diff", "git grep", "git log", "git show"})
"""Subcommands of git that show what is in files, with the right options."""
_SUMMARY: Final = lazy_pattern(
    r"--stat|--numstat|--shortstat|--dirstat|--summary|--name-only|--name-status|--raw|-s|--no-patch|--quiet"
)


def read_of(command: str) -> Read | None:
    """Return how a command is run if it is safe; None for all others, which run as they are written."""
    if classify_shell_command(command).severity != "safe":
        return None
    folders: tuple[str, ...] = ("",)
    paths: list[ReadPath] = []
    edits: list[Edit] = []
    repositories: list[str] = []
    for simple in parse_literal(command):
        use = use_of(simple, is_moved=False)
        names_only = use.program in programs.NAMES_ONLY
        paths += [ReadPath(word.text, word.is_glob, names_only, folders) for word in use.paths]
        edits += _edits(simple, use)
        if simple.words[0].text == "git":
            repositories.append("/".join(_folders(simple)))
        if use.program == "cd":
            folders += tuple(f"{folder}{use.paths[0].text}/" for folder in folders)
    text = command
    for start, end, piece in sorted(edits, reverse=True):
        text = f"{text[:start]}{piece}{text[end:]}"
    # Each list of names stands once before the command, however often it is used: a command line has a limit.
    lists = [
        f"{name}=({' '.join(map(shlex.quote, words))})\n" for name, words in _LISTS.items() if name in text
    ]
    return Read("".join([*lists, text]), tuple(paths), tuple(repositories))


def _folders(simple: Simple) -> list[str]:
    """Return the folders that the options of git name before its subcommand."""
    texts = [word.text for word in simple.words[1:]]
    folders: list[str] = []
    while texts[0].startswith("-"):
        if texts.pop(0) == "-C":
            folders.append(texts.pop(0))
        if not texts:
            break
    return folders


def _edits(simple: Simple, use: Use) -> list[Edit]:
    """Return what changes in the text of one command."""
    if use.program in _GREPS:
        return _grep(simple)
    if use.program == "rg":
        return [_add_options(simple, _expansion("left_out_of_rg"))]
    if use.program == "diff":
        # Two folders are compared file by file, and links in them would be followed. Names come from a file:
        # diff repeats its options before each difference.
        names = f"<(printf '%s\\n' {_expansion('left_out_of_diff')})"
        return [_add_options(simple, f"--no-dereference -X {names}")]
    return _git(simple, use) if use.program in _CONTENT else []


def _grep(simple: Simple) -> list[Edit]:
    words = [word for word in _before_dashes(simple) if word.text.startswith("-")]
    flags = grammar_of("grep").letters
    letters = [word for word in words if flags.issuperset(word.text[1:])]
    through = [word for word in letters if set(word.text) & {"r", "R"}]
    if not through and all(word.text != "--recursive" for word in words):
        return []
    # With -R links in the folder would be followed.
    edits = [(word.start, word.end, word.text.replace("R", "r")) for word in through if "R" in word.text]
    return [*edits, _add_options(simple, _expansion("left_out_of_grep"))]


def _git(simple: Simple, use: Use) -> list[Edit]:
    before = _before_dashes(simple)
    texts = [word.text for word in before]
    edits: list[Edit] = []
    for word in use.paths:
        # The hash of a commit: that of a file would show it without its name.
        parts = [f"{part}^{{commit}}" if _HASH.fullmatch(part) else part for part in _RANGE.split(word.text)]
        if word in before and "".join(parts) != word.text:
            edits.append((word.start, word.end, shlex.quote("".join(parts))))
    is_patch = any(PATCH.fullmatch(text) for text in texts)
    is_summary = any(_SUMMARY.fullmatch(text) for text in texts)
    if use.program == "git cat-file":
        return edits
    if is_patch or (use.program != "git log" and not is_summary):
        end = simple.words[-1].end
        edits.append((end, end, f" {_expansion('left_out_of_git')}"))
    return edits


def _before_dashes(simple: Simple) -> tuple[Word, ...]:
    texts = [word.text for word in simple.words]
    return simple.words[: texts.index("--")] if "--" in texts else simple.words


def _add_options(simple: Simple, options: str) -> Edit:
    """Return the edit that adds options, after all others: of two that match a name the last one counts."""
    at = _before_dashes(simple)[-1].end
    return (at, at, f" {options}")


def _expansion(name: str) -> str:
    return f'"${{{name}[@]}}"'
