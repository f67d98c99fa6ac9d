"""The race: files are swapped for links while tools walk through them.

    python -m tests.toolbox.swaps 10000

It prints one line of JSON and exits with 1 if anything got out.
"""

import ctypes
import json
import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock, Thread

from tests.toolbox.rig import SECRET

from windlass.toolbox.folder import Folder
from windlass.toolbox.read import Window, read_excerpt
from windlass.toolbox.search import query_of, search
from windlass.toolbox.write import FileDraft, write
from windlass.tools import ToolFailed

HONEST = "honest"
AT_FDCWD = -100
RENAME_EXCHANGE = 2
_LIBC = ctypes.CDLL(None, use_errno=True)
CAN_EXCHANGE = hasattr(_LIBC, "renameat2")


def swaps(tmp: Path, *, count: int) -> dict[str, int]:
    """Swap a folder and a file for links, `count` times or more, under running tools."""
    root, out = tmp / "root", tmp / "outside"
    for folder in (root / "folder", out):
        folder.mkdir(parents=True)
    (root / "folder" / "file.txt").write_text(HONEST)
    (root / "plain.txt").write_text(HONEST)
    (out / "file.txt").write_text(SECRET)
    (root / "link").symlink_to("../outside")
    (root / "file-link").symlink_to("../outside/file.txt")
    done, swapped = Event(), [0]
    swapper = Thread(target=_swap, args=(root, done, swapped))
    swapper.start()
    told = {"swaps": 0, "reads": 0, "refused": 0, "escapes": 0}
    try:
        while swapped[0] < count:
            _look(Folder(root), told)
    finally:
        done.set()
        swapper.join()
    told["swaps"] = swapped[0]
    told["escapes"] += sorted(path.name for path in out.iterdir()) != ["file.txt"]
    told["escapes"] += (out / "file.txt").read_text() != SECRET
    return told


def _swap(root: Path, done: Event, swapped: list[int]) -> None:
    while not done.is_set():
        for real, link in (("folder", "link"), ("plain.txt", "file-link")):
            exchange(root / real, root / link)
            swapped[0] += 1


def exchange(first: Path, second: Path) -> None:
    """Let two things change their names, at one moment."""
    result = _LIBC.renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE)
    if result:
        raise OSError(ctypes.get_errno(), "renameat2")


def _look(folder: Folder, told: dict[str, int]) -> None:
    attempts = (
        lambda: read_excerpt(folder, "folder/file.txt", window=Window(1, 9), is_cancelled=lambda: False).text,
        lambda: read_excerpt(folder, "plain.txt", window=Window(1, 9), is_cancelled=lambda: False).text,
        lambda: search(folder, ".", query=query_of("."), is_cancelled=lambda: False),
        lambda: _write(folder, "folder/new.txt"),
        lambda: _write(folder, "plain.txt"),
    )
    for attempt in attempts:
        try:
            words = attempt()
        except ToolFailed:
            told["refused"] += 1
            continue
        told["escapes"] += SECRET in words
        told["reads"] += HONEST in words


def _write(folder: Folder, path: str) -> str:
    seen = sha256(HONEST.encode()).hexdigest()
    return write(folder, path, draft=FileDraft(HONEST.encode() * 2, path, seen, "swap"), lock=Lock()).text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        outcome = swaps(Path(place), count=int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.exit(1 if outcome["escapes"] else 0)
