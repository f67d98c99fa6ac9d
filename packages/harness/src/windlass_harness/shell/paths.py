"""Path classification: inside the workspace, outside, secret, device, start-up file."""

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from windlass_harness.shell.scene import NAMES, UNKNOWNS, Field, Scene
from windlass_harness.shell.tables_names import (
    DATA_FILES,
    ENDLESS_DEVICES,
    HARMLESS_DEVICES,
    NETWORK_DEVICES,
    POLICY_FOLDERS,
    PUBLIC_FILES,
    SCRATCH_FOLDERS,
    SECRET_FILES,
    SECRET_FOLDERS,
    SECRET_PATHS,
    STARTUP_FILES,
    STARTUP_PATHS,
)
from windlass_protocol.lazy import lazy_pattern

PathKind = Literal["inside", "outside", "harmless", "device", "network", "unknown"]

_DRIVE = lazy_pattern(r"(?:[A-Za-z]:[\\/]|\\\\|%[A-Za-z]+%|\$env:)")
_PROCESS_SECRETS = lazy_pattern(
    r"/proc/(?:[^/]+/)*(?:environ|mem|maps|auxv|kcore|fd/\d+|root|cwd)(?:/|$)|/proc/kcore"
)
_GLOB_CHARS = lazy_pattern(r"[*?\[\]!^]")
_HIDDEN_SAMPLES = (".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh", ".aws", ".bash_history")
_PLAIN_SAMPLES = ("id_rsa", "id_ed25519", "credentials", "secrets", "shadow")
SECRET_SAMPLES = _HIDDEN_SAMPLES + _PLAIN_SAMPLES
"""Names that a pattern for files of credentials would match."""
_GLOB_EVIDENCE_CHARS_MIN = 3
_GLOB_PREFIX_CHARS_MIN = 2


def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Say whether a name matches a pattern (`*` is anything), whatever its case."""
    return _wildcards(patterns, re.IGNORECASE).fullmatch(name) is not None


def matches_exactly(name: str, patterns: tuple[str, ...]) -> bool:
    """Say whether a name matches a pattern (`*` is anything), case and all."""
    return _wildcards(patterns, 0).fullmatch(name) is not None


@lru_cache(maxsize=4096)
def _wildcards(patterns: tuple[str, ...], flags: int) -> re.Pattern[str]:
    choices = "|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns)
    return re.compile(choices, flags | re.DOTALL)


def split_path(path: str) -> list[str]:
    """Return the segments of a path; `.` is dropped and `..` resolved if possible."""
    segments: list[str] = []
    for segment in path.replace("\\", "/").split("/"):
        if segment == ".." and segments and segments[-1] not in ("..", "~"):
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    return segments


def base_name(path: str) -> str:
    """Return the last segment of a path or URL."""
    return path.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]


def is_fetched_path(path: str, scene: Scene) -> bool:
    """Say whether this program fetched the file, or the folder it lies in."""
    return not scene.fetched.isdisjoint(split_path(f"{scene.folder}/{path}"))


def placed(field: Field, scene: Scene) -> Field:
    """Return a relative path with the folder it is taken from in front."""
    if not scene.folder or field.text.startswith(("/", "~", "-")):
        return field
    return Field(f"{scene.folder}/{field.text}", field.raw, field.is_glob, field.is_sure)


def kind_of_path(field: Field, scene: Scene) -> PathKind:
    """Say where a path leads."""
    path = field.text
    if path == "-":
        return "harmless"
    if path.startswith(NETWORK_DEVICES):
        return "network"
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        return _kind_of_absolute(path)
    if not field.is_sure or any(mark in path for mark in UNKNOWNS if mark != NAMES):
        return "unknown"
    if scene.is_outside:
        return "outside"
    ups = sum(1 for segment in split_path(path) if segment == "..")
    return "outside" if ups > scene.folder_depth or (field.is_glob and ".." in path) else "inside"


def _kind_of_absolute(path: str) -> PathKind:
    clean = "/" + "/".join(split_path(path))
    if clean in HARMLESS_DEVICES or re.fullmatch(r"/dev/fd/\d+", clean):
        return "harmless"
    if clean in ENDLESS_DEVICES:
        return "outside"
    if clean.startswith("/dev/") and not clean.startswith(SCRATCH_FOLDERS):
        return "device"
    return "outside"


def is_secret_path(field: Field) -> bool:
    """Say whether a path names a file or folder of credentials."""
    path = field.text
    if _PROCESS_SECRETS.search("/" + "/".join(split_path(path)) if path.startswith("/") else path):
        return True
    segments = split_path(path)
    if not segments:
        return False
    name = segments[-1]
    if field.is_glob and _glob_may_be_secret(segments):
        return True
    if _has_path(segments, SECRET_PATHS) or _has_folder(segments, SECRET_FOLDERS):
        return not matches_any(name, PUBLIC_FILES)
    return matches_any(name, SECRET_FILES) and not matches_any(name, PUBLIC_FILES)


def _has_folder(segments: list[str], folders: tuple[str, ...]) -> bool:
    return any(segment in folders for segment in segments)


def _has_path(segments: list[str], paths: tuple[str, ...]) -> bool:
    joined = "/" + "/".join(segments) + "/"
    return any(f"/{path}/" in joined for path in paths)


def _glob_may_be_secret(segments: list[str]) -> bool:
    for segment in segments:
        if not _GLOB_CHARS.search(segment):
            continue
        evidence = len(re.sub(r"[^A-Za-z0-9]", "", segment))
        prefix = len(_GLOB_CHARS.split(segment)[0])
        samples = _HIDDEN_SAMPLES if segment.startswith((".", "[.", "?")) else ()
        if evidence >= _GLOB_EVIDENCE_CHARS_MIN or prefix >= _GLOB_PREFIX_CHARS_MIN:
            samples += _PLAIN_SAMPLES
        if any(fnmatchcase(sample, segment) for sample in samples):
            return True
    return False


def is_startup_path(field: Field) -> bool:
    """Say whether writing here makes something run, or be trusted, later."""
    segments = split_path(field.text)
    return bool(segments) and (_has_path(segments, STARTUP_PATHS) or matches_any(segments[-1], STARTUP_FILES))


def is_policy_path(field: Field) -> bool:
    """Say whether a path is this runtime's own policy, journal or approvals."""
    return _has_folder(split_path(field.text), POLICY_FOLDERS)


def is_data_path(field: Field) -> bool:
    """Say whether a file looks like data that no build can make again."""
    return matches_any(field.text.rsplit("/", 1)[-1], DATA_FILES)


def is_scratch_path(path: str) -> bool:
    """Return whether a path is in a world-writable folder."""
    return path.startswith(SCRATCH_FOLDERS)
