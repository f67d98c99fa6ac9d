"""Safe commands as they are run: the paths that they open, and their text with files of credentials left out.

A grade is about text. The target of a path, and the matches of a pattern, depend on the folder: a runtime
looks at the paths right before it runs the text. A read through a whole folder gets options that leave the
names of credentials out: those of the lists, and those that a runtime saw below the folder.
"""

import re
import shlex
from collections.abc import Iterable
from typing import Final

from windlass_harness.shell import programs
from windlass_harness.shell.classify import classify_shell_command
from windlass_harness.shell.credentials import (
    BACKUP_ENDING,
    BACKUPS,
    LEFT_OUT_FOLDERS,
    LEFT_OUT_WORDS,
    SECRET_FILES,
    SECRET_FOLDERS,
    SECRET_PATHS,
)
from windlass_harness.shell.language import PATCH, Use, folders_after, grammar_of, use_of
from windlass_harness.shell.parser import Simple, Word, parse_literal
from windlass_protocol.frozen import sealed

Edit = tuple[int, int, str]
"""Start and end of a piece of the text, and its replacement."""


@sealed
class ReadPath:
    """A path or a pattern of paths that a command opens, relative to one of the folders it may be in."""

    text: str
    is_pattern: bool
    shows_names_only: bool
    folders: tuple[str, ...]
    is_late: bool = False
    """Whether it is an option or its value after an operand, which some programs take for a file."""


@sealed
class FileRead:
    """A safe command as it is run."""

    command: str
    """The text, with the names of lists for names that are left out."""
    paths: tuple[ReadPath, ...]
    repositories: tuple[str, ...]
    """Folders in which git is run."""
    searches: tuple[ReadPath, ...]
    """Folders that are read through; git reads through all of its files, wherever it is run."""
    from_top: tuple[str, ...]
    """Words of git that name paths from the top of its repository, which may lie above the folder."""

    @property
    def text(self) -> str:
        """The text to run, without the names of credentials that are known before."""
        return self.text_without(())

    def text_without(
        self, names: Iterable[str], *, has_unseen: bool = False, is_below_top: bool = False
    ) -> str:
        """Return the text to run, that also leaves out further names of files.

        With `has_unseen`, there may be others, and patterns leave out what has such words, and more. With
        `is_below_top`, git shows the changes of the folder in which it runs, and of no other.
        """
        # A pattern for the name: what is special to one of the programs becomes a wildcard.
        patterns = [_SPECIAL.sub("*", name) for name in names]
        # Each list stands once before the command, however often it is used: a command line has a limit.
        lists = [
            f"{name}=({' '.join(map(shlex.quote, _list_of(name, patterns, has_unseen=has_unseen)))})\n"
            for name in _LISTS
            if name in self.command
        ]
        if _BELOW in self.command:
            lists.append(f"{_BELOW}=({'--relative' if is_below_top else ''})\n")
        functions = [_GIT_OF_COMMITS] if "git_of_commits" in self.command else []
        return "".join([_SEARCH_PATH, *lists, *functions, self.command])


READS_PATH: Final = "WINDLASS_READS_PATH"
"""The variable with the search path of safe commands, in which no folder of the workspace is."""
_SEARCH_PATH: Final = f"search_path=$PATH PATH=${{{READS_PATH}:-$PATH}}\n"
_WHOLE_PATH: Final = "PATH=$search_path "
"""Before a command that says where a program is, and runs none."""
_ELSEWHERE: Final = "(cd / && "
"""The beginning of a command that is run outside of the folder."""
_BELOW: Final = "below_this_folder"
"""The option that limits git to the folder in which it runs, if the repository begins above the workspace."""
_FROM_FOLDER: Final = re.compile(r"[^:]*:\./.*")
_ENDING: Final = re.compile(r"\*[^*?\[]+")
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LISTS: Final = (
    "left_out_of_grep",
    "left_out_of_rg",
    "left_out_of_diff",
    "left_out_of_git",
)
"""The lists of words that leave the names of credentials out, as they are called in the text."""


def _list_of(name: str, patterns: list[str], *, has_unseen: bool) -> list[str]:
    files, folders = [*SECRET_FILES, *patterns], [*LEFT_OUT_FOLDERS]
    if has_unseen and name != "left_out_of_git":
        files += [*LEFT_OUT_WORDS, *_BACKUPS]
        folders += SECRET_FOLDERS
        folders += [f"{folder}[-_.~]*" for folder in folders]
        if name != "left_out_of_rg":  # Programs that know no pattern for both cases.
            files, folders = [*map(_any_case, files)], [*map(_any_case, folders)]
    match name:
        case "left_out_of_grep":
            return [*(f"--exclude={file}" for file in files), *(f"--exclude-dir={name}" for name in folders)]
        case "left_out_of_rg":
            return [f"--iglob=!{name}" for name in (*files, *folders)]
        case "left_out_of_diff":
            return [*files, *folders]
        case _:
            # Many patterns make git slow; those that are one ending are compared at once, without `glob`.
            endings = [file for file in files if _ENDING.fullmatch(file)]
            below = [f"{folder}/**" for folder in (*folders, *SECRET_FOLDERS)]
            paths = [path for path in SECRET_PATHS if path[0] != "."]
            others = (
                *(file for file in files if file not in endings),
                *(*_BACKUPS, *LEFT_OUT_WORDS, *below, *paths, *(f"{path}/**" for path in paths)),
            )
            return [
                *(f":(top,exclude,icase){ending}" for ending in endings),
                *(f":(top,exclude,icase,glob)**/{other}" for other in others),
            ]


_BACKUPS: Final = (*BACKUPS, *(f"{file}{BACKUP_ENDING}" for file in SECRET_FILES))


def _any_case(pattern: str) -> str:
    """Return a pattern in small letters as one that also matches capital letters."""
    return _LETTER.sub(lambda match: f"[{match[1] or match[0]}{(match[1] or match[0]).upper()}]", pattern)


_LETTER: Final = re.compile(r"\[([^]a-z]*[a-z][^]]*)\]|[a-z]")
_CONTENT: Final = frozenset({"git cat-file", "git diff", "git grep", "git log", "git show"})
"""Subcommands of git that show what is in files, with the right options."""
_GIT_OF_COMMITS: Final = r"""git_of_commits() { # SUBCOMMAND FOLDER COUNT NAMES WORDS
  local folder=./$2 names=("${@:4:$3}") format='%(objecttype)' types copy status name gone=()
  types=$(cd "$folder" && printf '%s^{}\n' "${names[@]}" | git cat-file --batch-check="$format") || return
  case $'\n'$types$'\n' in *$'\n'blob$'\n'* | *$'\n'tree$'\n'*)
    printf '%s\n' 'git: a revision of this command is no commit; name a file as COMMIT:PATH' >&2
    return 128 ;;
  esac
  [ "$1" != grep ] || while IFS= read -r -d '' name; do
    gone+=(":(top,exclude,literal)$name")
  done < <(cd "$folder" && for stage in 1 2 3; do git diff-files -$stage -z --name-only --diff-filter=D; done)
  [ "$1" = diff ] && copy=$(mktemp -d) || { git "${@:4+$3}" "${gone[@]}"; return; }
  (cd "$folder" && cp -p "$(git rev-parse --git-path index)" "$copy/index") 2> /dev/null
  GIT_INDEX_FILE=$copy/index git -c core.splitIndex=false "${@:4+$3}"
  status=$?
  rm "$copy/index" 2> /dev/null
  rmdir "$copy"
  return $status
}
"""
"""Runs git unless one of the names is that of a file or a folder, which would be shown without its path: a
tag may name any object. `git grep` reads no file that is gone, in any stage of a merge: its folder may be a
link, which git would follow. `git diff` gets a copy of the index, because it writes the index anew; in one
piece, since a shared one would lie in `.git`."""
_SUMMARY: Final = re.compile(
    r"--stat|--numstat|--shortstat|--dirstat|--summary|--name-only|--name-status|--raw|-s|--no-patch|--quiet"
)


def read_of(command: str) -> FileRead | None:
    """Return how a command is run if it is safe; None for all others, which run as they are written."""
    if classify_shell_command(command).severity != "safe":
        return None
    folders: tuple[str, ...] = ("",)
    paths: list[ReadPath] = []
    edits: list[Edit] = []
    repositories: list[str] = []
    searches: list[ReadPath] = []
    from_top: list[str] = []
    for simple in parse_literal(command):
        use = use_of(simple, folders)
        names_only = use.program in programs.NAMES_ONLY
        paths += [ReadPath(word.text, word.is_glob, names_only, folders) for word in use.paths]
        paths += [ReadPath(word.text, word.is_glob, names_only, folders, is_late=True) for word in use.late]
        if use.program in programs.VERSIONS:
            start, end = simple.words[0].start, simple.words[-1].end
            edits += [(start, start, _ELSEWHERE), (end, end, ")")]
        elif changes := _edits(simple, use):
            edits += changes
            folder = Word(".", 0, 0, is_glob=False)
            searches += [
                ReadPath(word.text, word.is_glob, names_only, folders)
                for word in ([] if use.program in _CONTENT else use.paths) or [folder]
            ]
        elif use.program in programs.LOCATORS:
            start, end = simple.words[0].start, simple.words[0].end
            edits.append((start, start, _WHOLE_PATH))
            edits += [(start, end, "type -P")] if use.program == "which" else []
        if use.program in _CONTENT:
            from_top += [word.text for word in use.paths if _is_from_top(word.text)]
        if simple.words[0].text == "git":
            repositories += [f"{folder}{'/'.join(_folders(simple))}" for folder in folders]
        folders = folders_after(simple, folders)
    pieces: list[str] = []
    at = 0
    for start, end, piece in sorted(dict.fromkeys(edits), key=lambda edit: edit[:2]):
        # Two changes of one place would eat what comes after it.
        assert start >= at, "the changes of a command overlap"
        pieces += [command[at:start], piece]
        at = end
    text = "".join([*pieces, command[at:]])
    return FileRead(text, tuple(paths), tuple(repositories), tuple(searches), tuple(from_top))


def _is_from_top(word: str) -> bool:
    return ":" in word and _FROM_FOLDER.fullmatch(word) is None


def _folders(simple: Simple) -> list[str]:
    """Return the folders that the options of git name before its subcommand."""
    texts = simple.argv
    return [texts[at + 1] for at in range(1, _subcommand_at(simple)) if texts[at] == "-C"]


def _subcommand_at(simple: Simple) -> int:
    at, texts = 1, simple.argv
    while texts[at].startswith("-") and at + 1 < len(texts):
        at += 2 if texts[at] == "-C" else 1
    return at


def _edits(simple: Simple, use: Use) -> list[Edit]:
    """Return what changes in the text of one command."""
    if use.program in programs.GREPS:
        return _grep(simple)
    if use.program == "rg":
        # A file of names to ignore may be a link, and rg repeats the lines that it cannot read.
        return [_add_options(simple, f"--no-messages --no-ignore-messages {_expansion('left_out_of_rg')}")]
    if use.program == "diff":
        # Two folders are compared file by file, and links in them would be followed. Names come from a file:
        # diff repeats its options before each difference.
        names = f"<(printf '%s\\n' {_expansion('left_out_of_diff')})"
        return [_add_options(simple, f"--no-dereference -X {names}")]
    return _git(simple, use) if use.program in _CONTENT else []


def _grep(simple: Simple) -> list[Edit]:
    options = [word for word in _before_dashes(simple) if word.text.startswith("-")]
    flags = grammar_of("grep").letters
    letters = [word for word in options if flags.issuperset(word.text[1:])]
    through = [word for word in letters if set(word.text) & {"r", "R"}]
    if not through and all(word.text != "--recursive" for word in options):
        return []
    # With -R links in the folder would be followed.
    edits = [(word.start, word.end, word.text.replace("R", "r")) for word in through if "R" in word.text]
    return [*edits, _add_options(simple, _expansion("left_out_of_grep"))]


def _git(simple: Simple, use: Use) -> list[Edit]:
    # To cat-file, words after two dashes are names of objects too; to the others they are paths.
    before = simple.words if use.program == "git cat-file" else _before_dashes(simple)
    texts = [word.text for word in before]
    edits: list[Edit] = []
    if use.program != "git log" and not (use.program == "git cat-file" and "-p" not in texts):
        # HEAD is read where no other revision is named. `git log` shows commits and nothing else.
        names = dict.fromkeys(
            ["HEAD", *(name for word in use.paths if word in before for name in _revisions(word.text))]
        )
        subcommand = use.program.removeprefix("git ")
        values = [subcommand, "/".join(_folders(simple)), str(len(names)), *names]
        start, end = simple.words[0].start, simple.words[0].end
        edits.append((start, end, f"git_of_commits {' '.join(map(shlex.quote, values))}"))
    is_patch = any(PATCH.fullmatch(text) for text in texts)
    is_summary = use.program != "git grep" and any(_SUMMARY.fullmatch(text) for text in texts)
    if use.program == "git cat-file":
        return edits
    if is_patch or (use.program != "git log" and not is_summary):
        if use.program != "git grep":  # It searches below its folder anyway.
            end = simple.words[_subcommand_at(simple)].end
            edits.append((end, end, f" {_expansion(_BELOW)}"))
        end = simple.words[-1].end
        edits.append((end, end, f" {_expansion('left_out_of_git')}"))
    return edits


def _revisions(text: str) -> list[str]:
    """Return the names of objects in a word, as git reads it: a range, or one name, perhaps with a path."""
    left, _, right = text.partition("..")
    names = [_name(part) for part in (text, left, right.removeprefix("."))]
    return [name for name in names if name]


def _name(revision: str) -> str:
    """Return a revision without its mark, its path and the kind of its object."""
    depth = 0
    for at, character in enumerate(revision):
        depth += {"{": 1, "}": -min(depth, 1)}.get(character, 0)
        if character == ":" and not depth:
            revision = revision[:at]
            break
    return revision.removeprefix("^").removesuffix("^{tree}")


def _before_dashes(simple: Simple) -> tuple[Word, ...]:
    texts = [word.text for word in simple.words]
    return simple.words[: texts.index("--")] if "--" in texts else simple.words


def _add_options(simple: Simple, options: str) -> Edit:
    """Return the edit that adds options, after all others: of two that match a name the last one counts."""
    at = _before_dashes(simple)[-1].end
    return (at, at, f" {options}")


def _expansion(name: str) -> str:
    return f'"${{{name}[@]}}"'
