"""What `make quick` runs: the checks that a change since their last success can have turned red.

`python -m tools.quick read` reads the repository once; `… types` then asks pyright, and
`… tests PATH… -- OPTION…` pytest, each only for the files that a change reaches. A success stores what every
file was, and the next run compares. Without a stored success, and where it is not known what a changed file
reaches, everything runs.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypedDict, cast

from tools.files import ROOT, repository_files

STORE: Final = Path(sys.prefix) / ".quick"
"""In the environment: what passed on one interpreter says nothing of another."""
_BIN: Final = Path(sys.executable).parent
_SUFFIXES: Final = (".py", ".pyi")
_TYPED: Final = ("packages/", "tests/", "tools/", "examples/", "benchmarks/")
_TYPE_SETTINGS: Final = {"pyrightconfig.json", "pyproject.toml", "requirements/dev.txt"}
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_PAGES: Final = ".md"
_NO_TESTS: Final = 5
"""The status of pytest where every test of the files is left out."""


class Facts(TypedDict):
    """A file for others: all of it, its face without the bodies of functions, and what it imports."""

    digest: str
    face: str
    uses: list[str]


Snapshot = Mapping[str, Facts]
"""Each file of the repository, by its path."""


class Change(NamedTuple):
    """What is new since a success: files that are there, and names whose users may notice."""

    files: frozenset[str]
    names: frozenset[str]


def facts_of(path: str, content: bytes) -> Facts:
    """Read a file. One that is not Python, or has an error, is its own face."""
    digest = sha256(content).hexdigest()
    if not path.endswith(_SUFFIXES):
        return Facts(digest=digest, face=digest, uses=[])
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return Facts(digest=digest, face=digest, uses=[])
    hidden = {line for node in nodes for line in _hidden_lines(node)}
    lines = [line for number, line in enumerate(content.splitlines(), 1) if number not in hidden]
    return Facts(digest=digest, face=sha256(b"\n".join(lines)).hexdigest(), uses=sorted(set(_uses(nodes))))


def _hidden_lines(node: ast.AST) -> range:
    """The body of a function that has no part in a type: its own is written, and it sets no attribute."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.returns is None:
        return range(0)
    shows = any(
        isinstance(inner, ast.Global)
        or (isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store))
        for inner in ast.walk(node)
    )
    begin = node.body[0].lineno
    if shows or begin <= (node.returns.end_lineno or begin):
        return range(0)
    return range(begin, (node.end_lineno or begin) + 1)


def _uses(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The modules and names that a file imports, those named in its strings, and whether it reads pages."""
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str() as module, names=aliases):
                yield module
                yield from (f"{module}.{alias.name}" for alias in aliases)
            case ast.Constant(value=str() as text):
                yield from _DOTTED.findall(text)
                if _PAGES in text:
                    yield _PAGES
            case _:
                pass


def module_of(path: str) -> str:
    """The name under which a Python file is imported; every page has the same."""
    if path.endswith(_PAGES):
        return _PAGES
    parts = Path(path).with_suffix("").parts
    if parts[0] == "packages":
        parts = parts[3:]
    return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)


def users(files: Snapshot, names: Collection[str]) -> frozenset[str]:
    """The files that import one of the names, or import one that does."""
    importers: dict[str, list[str]] = {}
    for path, facts in files.items():
        for name in facts["uses"]:
            importers.setdefault(name, []).append(path)
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        for path in importers.pop(waiting.pop(), ()):
            reached.add(path)
            waiting.append(module_of(path))
    return frozenset(reached)


def changed(before: Snapshot, now: Snapshot, part: Literal["digest", "face"]) -> Change:
    """Compare with a success; users notice a change of this part."""
    files = frozenset(path for path, facts in now.items() if _part(before, path, "digest") != facts["digest"])
    noticed = {path for path in files if _part(before, path, part) != now[path][part]}
    return Change(files, frozenset(map(module_of, noticed | (before.keys() - now.keys()))))


def _part(files: Snapshot, path: str, part: Literal["digest", "face"]) -> str | None:
    return files[path][part] if path in files else None


def files_to_type(before: Snapshot, now: Snapshot) -> Collection[str] | None:
    """The files that pyright must look at, or None for all."""
    files, names = changed(before, now, "face")
    if not before or files & _TYPE_SETTINGS:
        return None
    reached = files | users(now, names - {_PAGES})
    return {path for path in reached if path.startswith(_TYPED) and path.endswith(_SUFFIXES)}


def files_to_test(before: Snapshot, now: Snapshot, modules: Collection[str]) -> Collection[str] | None:
    """Those of the test modules that a change reaches, or None for all."""
    files, names = changed(before, now, "digest")
    if not before or not all(
        path.endswith((*_SUFFIXES, _PAGES)) for path in files | (before.keys() - now.keys())
    ):
        return None
    reached = files | users(now, names)
    folders = {Path(path).parent for path in reached if path.endswith("/conftest.py")}
    return {path for path in modules if path in reached or folders.intersection(Path(path).parents)}


def _read() -> int:
    """Store what every file is now. A file that is as it was is not parsed again."""
    before = _stored("now")
    now: dict[str, Facts] = {}
    for path in map(Path.as_posix, repository_files()):
        content = (ROOT / path).read_bytes()
        is_same = _part(before, path, "digest") == sha256(content).hexdigest()
        now[path] = before[path] if is_same else facts_of(path, content)
    _store("now", now)
    return 0


def _types() -> int:
    before, now = _stored("types"), _stored("now")
    files = files_to_type(before, now)
    command = [str(_BIN / "pyright"), *sorted(files or ())]
    return _run("types", now, command, files)


def _tests(paths: Sequence[str], options: Sequence[str]) -> int:
    name = paths[0].replace("/", "-")
    before, now = _stored(name), _stored("now")
    ignored = tuple(option.removeprefix("--ignore=") for option in options if option.startswith("--ignore="))
    modules = {
        path
        for path in now
        if Path(path).match("test_*.py")
        and path.startswith(tuple(f"{folder}/" for folder in paths))
        and not any(path == place or path.startswith(f"{place}/") for place in ignored)
    }
    files = files_to_test(before, now, modules)
    command = [str(_BIN / "pytest"), *options, *(paths if files is None else sorted(files))]
    return _run(name, now, command, files)


def _run(name: str, now: Snapshot, command: Sequence[str], files: Collection[str] | None) -> int:
    """Run a check of these files, or of all, and remember a success."""
    subject = "all files" if files is None else f"{len(files)} files that a change reaches"
    print(f"{Path(command[0]).name}: {subject}", flush=True)
    status = subprocess.run(command, cwd=ROOT, check=False).returncode if files is None or files else 0
    if status == _NO_TESTS and files is not None:
        status = 0
    if status == 0:
        _store(name, now)
    return status


def _stored(name: str) -> Snapshot:
    try:
        return cast("Snapshot", json.loads((STORE / f"{name}.json").read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _store(name: str, files: Snapshot) -> None:
    STORE.mkdir(exist_ok=True)
    (STORE / f"{name}.json").write_text(json.dumps(files), "utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run one check; return its exit status."""
    match arguments:
        case ["read"]:
            return _read()
        case ["types"]:
            return _types()
        case ["tests", *words] if "--" in words:
            end = words.index("--")
            return _tests(words[:end], words[end + 1 :])
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
