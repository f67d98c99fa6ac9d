"""Skills in folders: read whole, once, with bounds; nothing outside is followed."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from windlass.definitions import check_text, wrong
from windlass.errors import Rejected
from windlass.skill_text import read_skill_text
from windlass.tool_limits import (
    NAME_CHARS_MAX,
    SKILL_BYTES_MAX,
    SKILL_DESCRIPTION_CHARS_MAX,
    SKILL_FILE_BYTES_MAX,
    SKILL_FILES_MAX,
    SKILL_LEVELS_MAX,
    SKILLS_MAX,
)
from windlass_protocol import JsonObject, canonical
from windlass_protocol.codec_errors import shown

SKILL_FILE: Final = "SKILL.md"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for one kind of task, and the files that go with them."""

    name: str
    description: str
    _: KW_ONLY
    body: str
    hash: str
    """`sha256:` and the digest of all of it, files included."""
    files: tuple[str, ...] = ()
    """Their paths inside the folder of the skill."""
    folder: Path | None = None

    @property
    def ref(self) -> str:
        """What names the skill and its content in a package."""
        return f"{self.name}@{self.hash}"


def load_skills(folder: str | Path) -> tuple[Skill, ...]:
    """Read the skills of a folder: one in each folder in it, sorted by name.

    What begins with a dot is passed over, and so are files beside the folders.

    Raises:
        Rejected: a skill cannot be used, has a link in it, or is too large; the message says which and why.
    """
    root = Path(folder)
    try:
        found = [entry for entry in _entries(root) if not entry.is_file(follow_symlinks=False)]
        if len(found) > SKILLS_MAX:
            raise wrong(f"skills in {root}: found {len(found):,}, limit {SKILLS_MAX}")
        return tuple(_skill(Path(entry.path)) for entry in found)
    except OSError as error:
        raise _unreadable(root, error) from None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, by name; what begins with a dot is passed over."""
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if not entry.name.startswith(".")]
    return sorted(found, key=lambda entry: entry.name)


def _skill(folder: Path) -> Skill:
    where = f"skill {folder.name}"
    files = _Files(where)
    hashes = dict(files.walk(folder, "", level=1))
    if files.text is None:
        raise wrong(f"{where}: there is no {SKILL_FILE} in {folder}")
    told = read_skill_text(files.text, f"{where}: {SKILL_FILE}")
    name = _checked(told.name)
    if name != folder.name:
        raise wrong(f"{where}: its {SKILL_FILE} says that it is called {name}; give both the same name")
    description = check_text(
        " ".join(told.description.split()),
        f"{where}: the description",
        chars_max=SKILL_DESCRIPTION_CHARS_MAX,
    )
    content: JsonObject = {
        "name": name,
        "description": description,
        "body": told.body,
        "files": [[path, digest] for path, digest in sorted(hashes.items())],
    }
    return Skill(
        name,
        description,
        body=told.body,
        files=tuple(sorted(hashes)),
        folder=folder.absolute(),
        hash=f"sha256:{sha256(canonical(content)).hexdigest()}",
    )


@dataclass(slots=True)
class _Files:
    """One walk through the files of a skill."""

    where: str
    text: str | None = None
    count: int = 0
    size: int = 0

    def walk(self, folder: Path, prefix: str, *, level: int) -> Iterator[tuple[str, str]]:
        """Yield the files by their paths inside the skill, with their hashes."""
        if level > SKILL_LEVELS_MAX:
            raise wrong(f"{self.where}: more than {SKILL_LEVELS_MAX} folders inside one another")
        if folder.is_symlink():
            raise wrong(f"{self.where}: {prefix or folder.name} is a link; put the folder itself there")
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
            raise wrong(f"{self.where}: the name of a file has characters that cannot be shown")
        content = self._read(file, path, most=SKILL_FILE_BYTES_MAX - self.size)
        self.size += len(content)
        return sha256(content).hexdigest()

    def _read(self, file: Path, path: str, *, most: int) -> bytes:
        try:
            # A link, or a pipe that nobody writes to, is refused here and not only by its name.
            handle = os.open(file, _FLAGS)
        except OSError as error:
            raise _unreadable(file, error) from None
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise wrong(f"{self.where}: {path} is not a file")
            content = opened.read(most + 1)
        if len(content) > most:
            raise wrong(f"{self.where}: {path} is too large, or all files together; {most:,} bytes were left")
        return content


def _unreadable(path: Path, error: OSError) -> Rejected:
    if path.is_symlink():
        return wrong(f"{path} is a link; put the file itself there")
    return wrong(f"{path} cannot be read: {error.strerror or type(error).__name__}")


def _checked(name: str) -> str:
    """Return the name of a skill, if it is one: `fill-forms`."""
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise wrong(
            f"the name of a skill is lowercase letters and digits with single - between them, at most "
            f"{NAME_CHARS_MAX} characters; found {shown(name, NAME_CHARS_MAX)}"
        )
    return name
