"""The sandbox of a session: opened when it is needed, and its files kept.

The first call that needs it opens it, in whichever process that is. Its state is plain data in that of the
session, recorded with the result of each call that used it. The files of a folder that belongs to the session
are kept in the content store, so that another machine can go on with them.
"""

import asyncio
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from errno import ELOOP
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.agent.attachments import Inline, read_place
from windlass.errors import AgentError, Rejected
from windlass.limits import (
    SANDBOX_FILE_BYTES_MAX,
    SANDBOX_KEPT_BYTES_MAX,
    SANDBOX_KEPT_FILES_MAX,
    SANDBOX_STORED_BYTES_MAX,
)
from windlass.ports.sandbox import Sandbox, SandboxFailed, SandboxPlace
from windlass.ports.store import ContentStore
from windlass.private_files import remove_tree
from windlass_protocol import ContentRef, FilePart, ImagePart, JsonObject, ModelMessage, UserMessage
from windlass_protocol.frozen import frozen

ATTACHMENTS: Final = "attachments"
"""The folder with the files of messages."""
_NAME_CHARS_MAX: Final = 100
_HANDED_OVER: Final = b"windlass file\n"
_CONTENT_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OPEN_FOLDER: Final = _READ | getattr(os, "O_DIRECTORY", 0)
KEPT_LEVELS_MAX: Final = 100
"""Levels of folders below that of a session whose files are kept."""


@frozen
class Attachment:
    """A file of a message."""

    name: str
    place: str
    """Its address, a data URL, or a content id."""
    content: ContentRef | None = None
    """Its bytes, if they are in the content store."""


def attachments_of(messages: Iterable[ModelMessage]) -> Iterator[Attachment]:
    """Return the images and files in the messages of people."""
    for message in messages:
        if not isinstance(message, UserMessage) or isinstance(message.content, str):
            continue
        for part in message.content:
            match part:
                case ImagePart(image=source):
                    media_type = part.media_type or (part.content and part.content.media_type)
                    name = f"image.{(media_type or 'image/bin').partition('/')[2]}"
                    yield Attachment(name, source, part.content)
                case FilePart(data=source):
                    yield Attachment(part.filename or "file", source, part.content)
                case _:
                    pass


class SessionFolder:
    """The sandbox of one session, in this process; see `SessionSandbox`."""

    def __init__(
        self,
        place: SandboxPlace,
        *,
        content: ContentStore,
        recorded: JsonValue,
        family: str,
        messages: Callable[[], Iterable[ModelMessage]] = tuple,
    ) -> None:
        self.place = place
        self._content = content
        self._family = family
        """The root session: files are handed over between sessions of one root."""
        self._messages = messages
        self._recorded = recorded
        session = recorded.get("session") if isinstance(recorded, dict) else None
        self._session: JsonObject = session if isinstance(session, dict) else {}
        stored = self._session.get("stored_bytes")
        self._stored = max(stored, 0) if isinstance(stored, int) else 0
        """Bytes that were put into the content store for this folder, also by other processes."""
        self._own: Sandbox | None = None
        self._used: Sandbox | None = None
        """The sandbox that was opened last and has not been recorded."""
        self._staged: set[str] = set()
        """Names of the attachments that were written."""
        self._seen: set[int] = set()
        """Hashes of the attachments that were looked at."""
        self._kept: dict[str, tuple[tuple[int, ...], str]] = {}
        """Files that are in the content store: their stamps and content ids by path."""
        self._lock = asyncio.Lock()

    async def open(self, folder: Path | None = None) -> Sandbox:
        """Return the sandbox; see `SandboxAccess`."""
        sandbox_place = self.place
        try:
            if folder is not None:
                self._used = await sandbox_place.adapter.open(
                    sandbox_place.spec, key=sandbox_place.key, folder=folder
                )
                return self._used
            async with self._lock:
                if self._own is None:
                    sandbox = await sandbox_place.adapter.open(sandbox_place.spec, key=sandbox_place.key)
                    await self._restore(sandbox.folder)
                    self._own = sandbox
                await self._stage(self._own)
        except Rejected as error:
            raise SandboxFailed(error.message) from None
        self._used = self._own
        return self._own

    async def state(self) -> JsonObject | None:
        """Return the state to be recorded; None if it is recorded already.

        Files that cannot be kept do not fail the call that made them: the state says that they are not kept.
        """
        used, self._used = self._used, None
        if used is None:
            return None
        session: JsonObject = used.snapshot()
        if self._own is not None:
            # Its folder is found by the key, on every machine.
            del session["folder"]
            async with self._lock:
                session |= {"key": self.place.key, **await self._keep(self._own.folder)}
            if self._stored:
                session["stored_bytes"] = self._stored
            if self._staged:
                session["attachments"] = [*sorted(self._staged)]
        made: JsonObject = {"initialized": True, "session": session}
        if made == self._recorded:
            return None
        self._recorded, self._session = made, session
        return made

    # files handed over

    async def send(self, sandbox: Sandbox, path: str) -> str:
        """Put a file into the content store, for the sessions of this family; see `SandboxAccess`."""
        body = await sandbox.read(path)
        if not self._has_room(len(body)):
            raise SandboxFailed(
                f"this session has put too much into the content store: {self._stored:,} bytes, limit "
                f"{SANDBOX_STORED_BYTES_MAX:,}; hand over fewer and smaller files, in a new session"
            )
        head = _HANDED_OVER + self._family.encode() + b"\n"
        ref = await self._content.put(
            head + body, media_type="application/octet-stream", session_id=self._family
        )
        self._stored += len(body)
        return ref.content_id

    async def fetch(self, sandbox: Sandbox, content_id: str, path: str) -> int:
        """Write a file that a session of this family has sent; see `SandboxAccess`."""
        body = b""
        if _CONTENT_ID.fullmatch(content_id):
            with suppress(AgentError):
                body = await self._content.get(_ref(content_id))
        head = _HANDED_OVER + self._family.encode() + b"\n"
        if not body.startswith(head):
            raise SandboxFailed("no file was sent under this id in this family of sessions")
        await sandbox.write(path, body[len(head) :])
        return len(body) - len(head)

    # attachments

    async def _stage(self, sandbox: Sandbox) -> None:
        """Write the files of messages that are not there yet."""
        before = self._session.get("attachments")
        self._staged |= set(cast(list[str], before)) if isinstance(before, list) else set()
        for attachment in attachments_of(self._messages()):
            if hash(attachment.place) in self._seen:
                continue
            self._seen.add(hash(attachment.place))
            raw = await self._read(attachment)
            if raw is None or len(raw) > SANDBOX_FILE_BYTES_MAX:
                continue
            name = f"{sha256(raw).hexdigest()[:8]}-{_plain_name(attachment.name)}"
            if name not in self._staged:
                await sandbox.write(f"{ATTACHMENTS}/{name}", raw)
                self._staged.add(name)

    async def _read(self, attachment: Attachment) -> bytes | None:
        """Return the bytes of an attachment; None if they are elsewhere, or not stored any more."""
        if attachment.content is None:
            content = read_place(attachment.place)
            return content.raw if isinstance(content, Inline) else None
        try:
            return await self._content.get(attachment.content)
        except Rejected:
            return None

    # files kept

    async def _restore(self, folder: Path) -> None:
        """Make the folder as it was recorded, unless this machine has the same or a newer one."""
        revision, files = self._session.get("revision"), self._session.get("files")
        if not isinstance(revision, int) or _revision(folder) >= revision:
            return
        if not isinstance(files, str):
            raise SandboxFailed(
                "the files of this session are on another machine, and they were too many or too large to be "
                f"kept: limits {SANDBOX_KEPT_FILES_MAX:,} files, {SANDBOX_KEPT_BYTES_MAX:,} bytes, and "
                f"{SANDBOX_STORED_BYTES_MAX:,} bytes over all calls"
            )
        try:
            entries = read_list(await self._content.get(_ref(files)))
            bodies, room = dict[str, bytes](), SANDBOX_KEPT_BYTES_MAX
            for entry in entries:
                if entry.mode is not None:
                    if entry.content not in bodies:
                        bodies[entry.content] = await self._content.get(_ref(entry.content))
                    room -= len(bodies[entry.content])
                if room < 0:
                    raise ValueError(f"they have more than {SANDBOX_KEPT_BYTES_MAX:,} bytes")
        except (AgentError, ValueError) as error:
            problem = error.message if isinstance(error, AgentError) else str(error)
            raise SandboxFailed(f"the files of this session cannot be restored: {problem}") from None
        await asyncio.to_thread(_write_all, folder, entries, bodies)
        _set_revision(folder, revision)

    async def _keep(self, folder: Path) -> JsonObject:
        """Put changed files into the content store; return the revision of the folder and its files."""
        revision = max(_revision(folder), cast(int, self._session.get("revision") or 0))
        files: str | None = None
        try:
            changed = await asyncio.to_thread(_read_changed, folder, self._kept)
            stored = await self._load_content_ids()
            bodies = {
                _content_id(file.body): len(file.body) for file in changed or () if file.body is not None
            }
            new = sum(size for content_id, size in bodies.items() if content_id not in stored)
            if changed is not None and self._has_room(new):
                entries: list[JsonValue] = []
                stamps: dict[str, tuple[tuple[int, ...], str]] = {}
                for file in changed:
                    content_id = file.content_id
                    if file.body is not None:
                        content_id = (await self._put(file.body)).content_id
                    if file.stamp is not None:
                        stamps[file.path] = file.stamp, content_id
                    entries.append([file.path, "link" if file.stamp is None else file.mode, content_id])
                self._kept = stamps
                listed = to_json(entries)
                files = (await self._put(listed)).content_id
                self._stored += new + (0 if files == self._session.get("files") else len(listed))
        except (AgentError, ValueError):
            files = None
        if files is None or files != self._session.get("files"):
            revision += 1
        _set_revision(folder, revision)
        return {"revision": revision, "files": files}

    async def _load_content_ids(self) -> set[str]:
        """Return the content ids of the files that were kept last, by this process or another."""
        files = self._session.get("files")
        if self._kept or not isinstance(files, str):
            return {content_id for _, content_id in self._kept.values()}
        return {entry.content for entry in read_list(await self._content.get(_ref(files)))}

    def _has_room(self, size: int) -> bool:
        """Whether so many bytes may still be put into the content store."""
        return self._stored + size <= SANDBOX_STORED_BYTES_MAX

    async def _put(self, body: bytes) -> ContentRef:
        return await self._content.put(body, media_type="application/octet-stream")


@frozen
class _Found:
    """A file or link of a folder."""

    path: str
    mode: int
    stamp: tuple[int, ...] | None
    """Changes with the file; None for a link."""
    content_id: str
    """The known content, or the target of a link."""
    body: bytes | None = None
    """The content, if it is not known."""


def _read_changed(folder: Path, stamps: dict[str, tuple[tuple[int, ...], str]]) -> list[_Found] | None:
    """Return the files and links of a folder; None if they are too many or too large.

    Every name is opened from the handle of its folder, and never through a link. Pipes, sockets and devices
    are left out.
    """
    files: list[_Found] = []
    room = SANDBOX_KEPT_BYTES_MAX
    try:
        top = os.open(folder, _OPEN_FOLDER)
        for path, handle, status in _entries(top, PurePosixPath(), levels=KEPT_LEVELS_MAX):
            if len(files) >= SANDBOX_KEPT_FILES_MAX:
                return None
            # Suppressed: it was removed in the meantime.
            with suppress(FileNotFoundError):
                if stat.S_ISLNK(status.st_mode):
                    target = os.readlink(path.name, dir_fd=handle)
                    f"{path}{target}".encode()  # only names of text are kept
                    files.append(_Found(str(path), 0, None, target))
                    room -= status.st_size
                else:
                    file, size = _read_one(str(path), path.name, handle, stamps.get(str(path)), room=room)
                    files.append(file)
                    room -= size
            if room < 0:
                return None
    except (OSError, UnicodeError):
        return None
    return files


def _entries(
    handle: int, above: PurePosixPath, *, levels: int
) -> Iterator[tuple[PurePosixPath, int, os.stat_result]]:
    """Yield the files and links below an open folder, each with the handle of its folder; close it.

    Raises:
        OSError: there are too many levels or names, or a folder cannot be opened.
    """
    try:
        with os.scandir(handle) as entries:
            names = sorted(entry.name for entry in islice(entries, SANDBOX_KEPT_FILES_MAX + 1))
        if levels == 0 or len(names) > SANDBOX_KEPT_FILES_MAX:
            raise OSError(ELOOP, "too many levels or names in a folder")
        folders: list[str] = []
        for name in names:
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    folders.append(name)
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    yield above / name, handle, status
        for name in folders:
            with suppress(FileNotFoundError):
                below = os.open(name, _OPEN_FOLDER, dir_fd=handle)
                yield from _entries(below, above / name, levels=levels - 1)
    finally:
        os.close(handle)


def _read_one(
    path: str, name: str, parent: int, stamp_and_id: tuple[tuple[int, ...], str] | None, *, room: int
) -> tuple[_Found, int]:
    """Return a file and its size, which is read as far as there is room and one byte more."""
    path.encode("utf-8")
    handle = os.open(name, _READ, dir_fd=parent)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if stamp_and_id is not None and stamp_and_id[0] == stamp:
            return _Found(path, mode, stamp, stamp_and_id[1]), status.st_size
        # A command that still runs may change the size at any time.
        body = file.read(room + 1) if status.st_size <= room else b""
        return _Found(path, mode, stamp, "", body), max(status.st_size, len(body))


@frozen
class KeptFile:
    """A file or link in the list of those that are kept."""

    path: str
    mode: int | None
    """None for a link."""
    content: str
    """The content id, or the target of a link."""


def read_list(listed: bytes) -> list[KeptFile]:
    """Return the files and links of a list.

    It is not trusted: an imported session brings its own. Every path is one inside of the folder, and none
    leads through a file or a link of the list.

    Raises:
        ValueError: it is not such a list.
    """
    raw = from_json(listed)
    if not isinstance(raw, list) or len(cast(list[object], raw)) > SANDBOX_KEPT_FILES_MAX:
        raise ValueError(f"their list is not one of at most {SANDBOX_KEPT_FILES_MAX:,} files")
    entries = [_parse_file(item) for item in cast(list[object], raw)]
    paths = {entry.path for entry in entries}
    above = {str(folder) for entry in entries for folder in PurePosixPath(entry.path).parents}
    if len(paths) < len(entries) or paths & above:
        raise ValueError("their list has a path twice, or one that leads through a file or a link")
    return entries


def _parse_file(item: object) -> KeptFile:
    match item:
        case [str(path), "link", str(content)]:
            mode = None
        case [str(path), int(mode), str(content)]:
            mode &= 0o777
        case _:
            raise ValueError("their list has an entry that is no file and no link")
    parts = PurePosixPath(path).parts
    is_plain = path == "/".join(parts) and ".." not in parts and "\0" not in path + content
    if not is_plain or not 0 < len(parts) <= KEPT_LEVELS_MAX + 1:
        raise ValueError("their list has a path that leads out of the folder, or is not a plain one")
    return KeptFile(path, mode, content)


def _write_all(folder: Path, entries: Iterable[KeptFile], bodies: dict[str, bytes]) -> None:
    """Replace the content of a folder that no command uses."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink()
    # Links last, so that no file is written through one.
    for entry in sorted(entries, key=lambda entry: entry.mode is None):
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode is None:
            target.symlink_to(entry.content)
        else:
            target.write_bytes(bodies[entry.content])
            target.chmod(entry.mode)


def _revision(folder: Path) -> int:
    try:
        return int(_mark(folder).read_text())
    except (OSError, ValueError):
        return 0


def _set_revision(folder: Path, revision: int) -> None:
    _mark(folder).write_text(str(revision))


def _mark(folder: Path) -> Path:
    # Beside the folder: commands cannot change it.
    return folder.with_name(f"{folder.name}.revision")


def _plain_name(name: str) -> str:
    """Return the name of an attachment as that of a file in a folder."""
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = "".join(character if character.isalnum() or character in "._-" else "_" for character in last)
    return plain.lstrip(".")[-_NAME_CHARS_MAX:] or "file"


def _content_id(body: bytes) -> str:
    return f"sha256:{sha256(body).hexdigest()}"


def _ref(content_id: str) -> ContentRef:
    return ContentRef(content_id=content_id, hash=content_id, size_bytes=0)
