"""Paths that try to leave a workspace, and a workspace with links that lead outside."""

import os
from pathlib import Path

from tests.toolbox.rig import SECRET

NAME = "secret.txt"
UNLISTED = "nobody-lists-this"
"""The name of a file outside that is in no path below."""


def outside_world(tmp: Path) -> tuple[Path, Path]:
    """Make a workspace with links that lead outside, and files outside that must not be reached."""
    root, out = tmp / "root", tmp / "outside"
    for folder in (
        root,
        out,
        out / "deep",
        tmp / "root-evil",
        root / "sub",
        root / "sub" / "in",
        root / "...",
    ):
        folder.mkdir()
    for folder in (tmp, out, out / "deep", tmp / "root-evil"):
        (folder / NAME).write_text(SECRET)
    (out / UNLISTED).write_text(SECRET)
    (root / "kept.txt").write_text("kept\n")
    (root / "sub" / "in" / "kept.txt").write_text("kept below\n")
    links = {
        "file-link": f"../outside/{NAME}",
        "file-link-abs": str(out / NAME),
        "dir-link": "../outside",
        "dir-link-abs": str(out),
        "dot-link": "..",
        "root-link": "/",
        "proc-link": "/proc/self/root",
        "cwd-link": "/proc/self/cwd",
        "fd-link": "/dev/fd/3",
        "self-link": str(root),
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "chain-1": "chain-2",
        "chain-2": "sub/chain-3",
        "sub/chain-3": "../dir-link",
        "sub/in/up": "../../..",
        "sub/in/up-file": f"../../../outside/{NAME}",
        "nested": "sub/in/up",
        "dangling": "../outside/new-file",
        "dangling-abs": str(out / "new-file"),
        "dangling-dir": "../outside/new-folder",
        "dots": "./././../outside",
        "in-and-out": "sub/../../outside",
        "evil": "../root-evil",
        "tilde": "~",
        "\u202e": "../outside",
        "trail.": "../outside",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.link(out / NAME, root / "hard-link")
    os.link(out / NAME, root / "sub" / "hard-link")
    os.mkfifo(root / "fifo")
    return root, out


CLIMBS = [
    *(f"{'../' * depth}outside/{NAME}" for depth in range(1, 9)),
    *(f"sub/{'../' * depth}outside/{NAME}" for depth in range(2, 6)),
    *(f"{'./' * depth}../outside/{NAME}" for depth in range(1, 4)),
    f"..//outside//{NAME}",
    f".././../tmp/{NAME}",
    f"sub/in/../../../{NAME}",
    f"missing/../../{NAME}",
    f"kept.txt/../../{NAME}",
    f"sub/in/up/../outside/{NAME}",
    f".../../../{NAME}",
    "..",
    "../",
    "sub/../..",
    "../root-evil",
    f"../root-evil/{NAME}",
    f"..\\outside\\{NAME}",
    f"sub\\..\\..\\{NAME}",
    f"%2e%2e/outside/{NAME}",
    f"..%2foutside%2f{NAME}",
    f"%252e%252e/{NAME}",
    f"..;/outside/{NAME}",
]
ABSOLUTE = [
    "@OUT/secret.txt",
    "@OUT",
    "/@OUT/secret.txt",
    "//@OUT/secret.txt",
    "@TMP/secret.txt",
    "@TMP/root-evil/secret.txt",
    f"@ROOT-evil/{NAME}",
    f"@ROOT/../outside/{NAME}",
    f"@ROOT/../{NAME}",
    f"@ROOT/dir-link/{NAME}",
    f"@ROOT/self-link/../{NAME}",
    "/",
    "//",
    "/etc/passwd",
    "/etc/hostname",
    "/proc/self/environ",
    "/proc/self/root@OUT/secret.txt",
    f"/proc/self/cwd/../{NAME}",
    "/proc/self/fd/3",
    "/dev/fd/3",
    "/dev/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "/dev/tty",
    "/dev/null",
    "/proc/1/root/etc/passwd",
    "/./@OUT/secret.txt",
    "file://@OUT/secret.txt",
    "file:@OUT/secret.txt",
    "\\\\?\\@OUT/secret.txt",
    "C:\\secret.txt",
    "C:@OUT/secret.txt",
    f"\\\\localhost\\{NAME}",
]
HOMES = [
    "~",
    "~/",
    f"~/{NAME}",
    "~root",
    f"~root/{NAME}",
    f"~/../outside/{NAME}",
    f"tilde/{NAME}",
    "$HOME",
    f"$HOME/{NAME}",
    f"${{HOME}}/{NAME}",
    "$(cat @OUT/secret.txt)",
    "`cat @OUT/secret.txt`",
]
LINKS = [
    "file-link",
    "file-link-abs",
    f"dir-link/{NAME}",
    f"dir-link/deep/{NAME}",
    f"dir-link-abs/{NAME}",
    "dir-link",
    "dir-link-abs",
    f"dot-link/{NAME}",
    f"dot-link/outside/{NAME}",
    "root-link@OUT/secret.txt",
    "root-link/etc/passwd",
    "proc-link@OUT/secret.txt",
    f"cwd-link/{NAME}",
    "fd-link",
    f"self-link/../{NAME}",
    "loop-a",
    "loop-a/x",
    f"chain-1/{NAME}",
    "chain-1",
    f"sub/chain-3/{NAME}",
    f"sub/in/up/{NAME}",
    f"sub/in/up/outside/{NAME}",
    "sub/in/up-file",
    f"nested/{NAME}",
    f"nested/outside/deep/{NAME}",
    "dangling",
    "dangling-abs",
    "dangling-dir/x",
    f"dots/{NAME}",
    f"in-and-out/{NAME}",
    f"evil/{NAME}",
    f"dir-link/../{NAME}",
    f"dir-link/./deep/../{NAME}",
    "dot-link",
    "root-link",
    "nested",
    f"\u202e/{NAME}",
    f"trail./{NAME}",
    "hard-link",
    "sub/hard-link",
    "./hard-link",
    "sub/in/../hard-link",
    "fifo",
    "fifo/x",
]
ODD = [
    f"../outside/{NAME}\0",
    f"\0../outside/{NAME}",
    f"kept.txt\0/../../outside/{NAME}",
    "a" * 5_000,
    "../" * 2_000,
    f"{'a/' * 2_400}x",
    "sub/" * 1_000 + NAME,
    "é" * 200,
    f"\uff0e\uff0e/outside/{NAME}",
    f"\u2025/outside/{NAME}",
    f"..\u2215outside\u2215{NAME}",
    f"\u2024\u2024/outside/{NAME}",
    f"..\uff0foutside\uff0f{NAME}",
    f"e\u0301/../../{NAME}",
    f"\u00e9/../../{NAME}",
    f"DIR-LINK/{NAME}",
    f"Dir-Link/{NAME}",
    f"../OUTSIDE/{NAME}",
    "FILE-LINK",
    f".. /outside/{NAME}",
    f"../outside/{NAME} ",
    f"../outside/{NAME}.",
    f"../outside./{NAME}",
    f"dir-link./{NAME}",
    f"../outside/{NAME}::$DATA",
    f"kept.txt:../../{NAME}",
    f"dir-link:$DATA/{NAME}",
    f" ../outside/{NAME}",
    f"\t../{NAME}",
    f"\n../{NAME}",
    f"\u200b../outside/{NAME}",
    f"\ufeff../outside/{NAME}",
    f"..\u200b/outside/{NAME}",
    f".\u200b./{NAME}",
    f"archive.zip/../../{NAME}",
    f"archive.zip!/../{NAME}",
    "CON",
    "NUL",
    "aux.txt",
    "sub/in/up\u0000",
    f"-rf ../{NAME}",
    f"../outside/{NAME}?x",
    f"../outside/{NAME}#x",
    f"*/../../{NAME}",
    f"[.][.]/{NAME}",
]


def escaping_paths(root: Path, out: Path) -> list[str]:
    """Paths of which none may reach anything outside."""
    places = {"@ROOT": str(root), "@OUT": str(out), "@TMP": str(root.parent)}
    found: list[str] = []
    for path in (*CLIMBS, *ABSOLUTE, *HOMES, *LINKS, *ODD):
        for mark, place in places.items():
            path = path.replace(mark, place)
        found.append(path)
    return found
