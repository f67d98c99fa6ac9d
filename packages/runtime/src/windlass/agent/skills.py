"""Skills: instructions loaded on demand, from SKILL.md files or code."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import KW_ONLY
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from windlass.errors import Rejected, check_text, kind_of, wrong
from windlass.limits import (
    CLOSE_NAMES_MAX,
    NAME_CHARS_MAX,
    NAMES_SHOWN_MAX,
    SKILL_BYTES_MAX,
    SKILL_DESCRIPTION_CHARS_MAX,
    SKILL_FILE_BYTES_MAX,
    SKILL_FILES_MAX,
    SKILL_LEVELS_MAX,
    SKILLS_MAX,
)
from windlass.tools import Tool, ToolFailed, tool
from windlass_protocol import JsonObject, canonical
from windlass_protocol.codec_errors import printable
from windlass_protocol.frozen import mutable, sealed

if TYPE_CHECKING:
    from collections.abc import Callable

    import yaml


_FENCE: Final = "---"
_READ: Final = ("name", "description")
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_FIRST_LINE: Final = 2
"""The first line of the front matter in the file."""


@sealed
class SkillText:
    """The used parts of a SKILL.md."""

    name: str
    description: str
    body: str


def read_skill_text(text: str, where: str) -> SkillText:
    """Return the name, the description and the body of a SKILL.md; `where` names the file in errors.

    Raises:
        Rejected: there is no front matter, it is not YAML, or it lacks the name or the description.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise wrong(f"{where}: the first line must be {_FENCE}, followed by name and description")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise wrong(f"{where}: the front matter does not end; write {_FENCE} on a line of its own")
    fields = _fields("\n".join(lines[1:end]), where)
    missing = [key for key in _READ if not fields.get(key)]
    if missing:
        raise wrong(f"{where}: the front matter has no {' and no '.join(missing)}")
    return SkillText(fields["name"], fields["description"], "\n".join(lines[end + 1 :]).strip())


def _fields(text: str, where: str) -> dict[str, str]:
    """Return the name and the description; other keys are ignored."""
    import yaml  # noqa: PLC0415 - slow to import

    try:
        compose = cast("Callable[..., yaml.Node | None]", yaml.compose)  # pyright: ignore[reportUnknownMemberType]
        root = compose(text, yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + _FIRST_LINE}: "
        hint = "put a text with a colon or quotes in it into double quotes"
        raise wrong(f"{where}: {line}not YAML: {error.problem}; {hint}") from None
    except (yaml.YAMLError, RecursionError):
        raise wrong(f"{where}: the front matter is not valid YAML") from None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise wrong(f"{where}: line {_FIRST_LINE}: expected `key: text`")
    front_matter: dict[str, str] = {}
    for key, value in root.value:
        line = key.start_mark.line + _FIRST_LINE
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if name in front_matter:
            raise wrong(f"{where}: line {line}: duplicate key {name}")
        if name not in _READ:
            continue
        if not isinstance(value, yaml.ScalarNode) or value.tag != _TEXT_TAG:
            raise wrong(f"{where}: line {line}: {name} is not a string; put it in double quotes")
        front_matter[name] = value.value.strip()
    return front_matter


SKILL_FILE: Final = "SKILL.md"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@sealed
class Skill:
    """Instructions for one kind of task, with their files.

    Raises:
        Rejected: the name, the description or the body cannot be used, or the files lack digests or a folder.
    """

    name: str
    description: str
    _: KW_ONLY
    body: str
    files: tuple[str, ...] = ()
    """Paths of the files inside the folder of the skill."""
    file_digests: tuple[str, ...] = ()
    """The SHA-256 of each file."""
    folder: Path | None = None

    def __post_init__(self) -> None:
        where = f"skill {_check_name(self.name)}"
        check_text(self.description, f"{where}: the description", chars_max=SKILL_DESCRIPTION_CHARS_MAX)
        check_text(self.body, f"{where}: the body", chars_max=SKILL_BYTES_MAX)
        if not self.description.strip():
            raise wrong(f"{where}: the description is empty; say when the model needs the skill")
        if len(self.files) != len(self.file_digests) or (self.files and self.folder is None):
            raise wrong(
                f"{where}: files need their folder and a digest each; found {len(self.files):,} files and "
                f"{len(self.file_digests):,} digests; load_skills(folder) reads them"
            )

    @property
    def hash(self) -> str:
        """`sha256:` and the digest of the whole skill, files included."""
        content: JsonObject = {
            "name": self.name,
            "description": self.description,
            "body": self.body,
            "files": [[path, digest] for path, digest in zip(self.files, self.file_digests, strict=True)],
        }
        return f"sha256:{sha256(canonical(content)).hexdigest()}"

    @property
    def ref(self) -> str:
        """The reference in a package: name and hash."""
        return f"{self.name}@{self.hash}"


def load_skills(folder: str | Path) -> tuple[Skill, ...]:
    """Read the skills of a folder, one in each subfolder, sorted by name.

    Hidden entries, and files beside the subfolders, are ignored.

    Raises:
        Rejected: a skill cannot be used, has a link in it, or is too large; the message says which and why.
    """
    root = Path(folder)
    try:
        folders = [entry for entry in _entries(root) if not entry.is_file(follow_symlinks=False)]
        if len(folders) > SKILLS_MAX:
            raise wrong(f"skills in {root}: found {len(folders):,}, limit {SKILLS_MAX}")
        return tuple(_skill(Path(entry.path)) for entry in folders)
    except OSError as error:
        raise _unreadable(root, error) from None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder by name, without hidden ones."""
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    return sorted(visible, key=lambda entry: entry.name)


def _skill(folder: Path) -> Skill:
    where = f"skill {folder.name}"
    walked = _Files(where)
    hashes = dict(walked.walk(folder, "", level=1))
    if walked.text is None:
        raise wrong(f"{where}: there is no {SKILL_FILE} in {folder}")
    skill_text = read_skill_text(walked.text, f"{where}: {SKILL_FILE}")
    files = tuple(sorted(hashes))
    skill = Skill(
        skill_text.name,
        " ".join(skill_text.description.split()),
        body=skill_text.body,
        files=files,
        file_digests=tuple(hashes[path] for path in files),
        folder=folder.absolute(),
    )
    if skill.name != folder.name:
        raise wrong(f"{where}: the name in {SKILL_FILE} is {skill.name}; give folder and skill the same name")
    return skill


@mutable
class _Files:
    """One walk through the files of a skill."""

    where: str
    text: str | None = None
    count: int = 0
    size: int = 0

    def walk(self, folder: Path, prefix: str, *, level: int) -> Iterator[tuple[str, str]]:
        """Yield the files by their paths inside the skill, with their hashes."""
        if level > SKILL_LEVELS_MAX:
            raise wrong(f"{self.where}: more than {SKILL_LEVELS_MAX} levels of folders")
        if folder.is_symlink():
            raise wrong(
                f"{self.where}: {prefix or folder.name} is a symbolic link; put the folder itself there"
            )
        for entry in _entries(folder):
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from self.walk(Path(entry.path), f"{path}/", level=level + 1)
            elif path == SKILL_FILE:
                self.text = self._text(Path(entry.path))
            else:
                yield path, self._hash(Path(entry.path), path)

    def _text(self, path: Path) -> str:
        content = self._read(path, SKILL_FILE, most=SKILL_BYTES_MAX)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            pass
        raise wrong(f"{self.where}: {SKILL_FILE} is not UTF-8")

    def _hash(self, file: Path, path: str) -> str:
        self.count += 1
        if self.count > SKILL_FILES_MAX:
            raise wrong(f"{self.where}: more than {SKILL_FILES_MAX} files")
        if not path.isprintable():
            raise wrong(f"{self.where}: the name of a file has characters that cannot be displayed")
        content = self._read(file, path, most=SKILL_FILE_BYTES_MAX - self.size)
        self.size += len(content)
        return sha256(content).hexdigest()

    def _read(self, file: Path, path: str, *, most: int) -> bytes:
        try:
            # O_NOFOLLOW and O_NONBLOCK: a link is refused, and a pipe without a writer does not block.
            handle = os.open(file, _FLAGS)
        except OSError as error:
            raise _unreadable(file, error) from None
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise wrong(f"{self.where}: {path} is not a file")
            content = opened.read(most + 1)
        if len(content) > most:
            raise wrong(
                f"{self.where}: {path} is too large: {most:,} bytes are left of the limit for all files"
            )
        return content


def _unreadable(path: Path, error: OSError) -> Rejected:
    if path.is_symlink():
        return wrong(f"{path} is a symbolic link; put the file itself there")
    return wrong(f"{path} cannot be read: {error.strerror or type(error).__name__}")


def _check_name(name: object) -> str:
    """Return a valid name of a skill, such as `fill-forms`."""
    if not isinstance(name, str):
        raise wrong(f"the name of a skill must be a string, found {kind_of(name)}")
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise wrong(
            f"the name of a skill must be lowercase letters and digits with single - between them, at most "
            f"{NAME_CHARS_MAX} characters; found {printable(name, NAME_CHARS_MAX)}"
        )
    return name


_INTRODUCTION: Final = (
    "These are your skills. When a task fits one, call load_skill with its name before you begin, and do as "
    "it says.\n\n"
)


class Skills:
    """Skills by name, their catalogue for the prompt, and the tool that loads them."""

    def __init__(self, *sources: str | Path | Skill) -> None:
        """Take skills, and folders with one skill in each subfolder.

        Raises:
            Rejected: a skill cannot be used, or two have the same name.
        """
        self._skills: dict[str, Skill] = {}
        for source in sources:
            for skill in (source,) if isinstance(source, Skill) else load_skills(source):
                if skill.name in self._skills:
                    raise wrong(f"skills: duplicate name {skill.name}; give each its own name")
                self._skills[skill.name] = skill
        if len(self._skills) > SKILLS_MAX:
            raise wrong(f"skills: found {len(self._skills):,}, limit {SKILLS_MAX}")

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    @property
    def words(self) -> str:
        """The catalogue for the instructions of an agent; empty without skills."""
        if not self._skills:
            return ""
        return _INTRODUCTION + "\n".join(f"- {skill.name}: {skill.description}" for skill in self)

    @property
    def tool(self) -> Tool[..., object]:
        """The tool `load_skill`."""
        return tool(self.load, name="load_skill", mode="read").with_options(is_outbound=False, use="direct")

    async def load(self, skill: str) -> JsonObject:
        """Load the instructions of one of your skills.

        Args:
            skill: The name of the skill, as in the list of your skills.
        """
        loaded_skill = self._skills.get(skill)
        if loaded_skill is None:
            raise ToolFailed(self._unknown(skill))
        loaded: JsonObject = {"skill": loaded_skill.name, "instructions": loaded_skill.body}
        if loaded_skill.files:
            loaded |= {"files": list(loaded_skill.files), "folder": str(loaded_skill.folder)}
        return loaded

    def _unknown(self, name: str) -> str:
        shown_name, names = printable(name, NAME_CHARS_MAX), sorted(self._skills)

        close = get_close_matches(name[:NAME_CHARS_MAX], names, n=CLOSE_NAMES_MAX, cutoff=0.5)
        if close:
            return f"there is no skill {shown_name}; did you mean {', '.join(close)}?"
        more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
        return (
            f"there is no skill {shown_name}; there are {', '.join(names[:NAMES_SHOWN_MAX]) or 'none'}{more}"
        )
