"""Checks a release: builds the wheels, installs each in a clean environment, and runs the examples.

    python -m tools.release [FOLDER]

`make release-check` builds the inspector first. Packages of others come from the package index of pip. Each
wheel is checked for its metadata, its licence, its size and its files; the licences of everything that is
installed are checked too. Hints such as `pip install …` in sources and pages must name things that exist.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

from tools.files import ROOT

PACKAGES: Final = ("protocol", "harness", "runtime", "server", "sidecar", "cli")
"""The packages in the order of their tiers."""
NEEDS: Final = {
    "protocol": ("protocol",),
    "harness": ("protocol", "harness"),
    "runtime": ("protocol", "harness", "runtime"),
    "server": ("protocol", "harness", "runtime", "server"),
    "sidecar": ("protocol", "harness", "runtime", "sidecar"),
    "cli": PACKAGES,
}
IMPORTS: Final = {"runtime": "windlass"}
"""Modules that are not called windlass_ and the folder of their package."""
COMMANDS: Final = {
    "server": ("python", "-m", "windlass_server", "--help"),
    "sidecar": ("windlass-sidecar", "--help"),
    "cli": ("windlass", "--version"),
}
SIZE_BYTES_MAX: Final = {
    "protocol": 500_000,
    "harness": 700_000,
    "runtime": 1_500_000,
    "server": 3_000_000,
    "sidecar": 200_000,
    "cli": 300_000,
}
INSPECTOR: Final = "windlass_server/inspector/dist/index.html"
LICENCE: Final = "Apache-2.0"
EXTRAS: Final = "client,code,mcp,web"
"""Extras of the runtime that the examples need."""
RUN_TIMEOUT_S: Final = 600
ALLOWED: Final = re.compile(
    r"\b(?:MIT|0?BSD|Apache|ISC|PSF|Python Software|Mozilla|MPL|Unlicense|Zlib|CNRI|Public Domain)",
    re.IGNORECASE,
)
"""Licences of dependencies that an Apache-licensed program may have."""
LICENCES: Final = """
import importlib.metadata as metadata, json
found = {}
for one in metadata.distributions():
    told = [one.metadata.get("License-Expression"), (one.metadata.get("License") or "")[:80]]
    told += [name for name in one.metadata.get_all("Classifier") or () if name.startswith("License ::")]
    found[one.metadata["Name"]] = " ".join(filter(None, told))
print(json.dumps(found))
"""


class Refused(Exception):
    """The release cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A built wheel."""

    folder: str
    path: Path

    def metadata(self) -> Message:
        """Return its METADATA."""
        with zipfile.ZipFile(self.path) as archive:
            [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
            return Parser().parsestr(archive.read(name).decode())

    def names(self) -> list[str]:
        """Return the paths of its files."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.namelist()


def main() -> None:
    """Check everything; end with 1 and the reasons if something is wrong."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".release"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        check(folder.resolve())
    except Refused as refused:
        sys.exit(f"release-check: {refused}")


def check(folder: Path) -> None:
    """Build, check, install and try the wheels.

    Raises:
        Refused: something is wrong.
    """
    _refuse(wrong_hints(hinting_texts()))
    wheels = {package: build(package, folder / "dist") for package in PACKAGES}
    for wheel in wheels.values():
        _refuse(problems_of(wheel))
        print(f"{wheel.path.name}: {wheel.path.stat().st_size:,} bytes", flush=True)
    for package in PACKAGES:
        python = install(folder / "env" / package, [wheels[needed] for needed in NEEDS[package]])
        module = IMPORTS.get(package, f"windlass_{package}")
        run([str(python), "-I", "-c", f"import {module}; print({module}.__file__)"], folder)
        if package in COMMANDS:
            name, *arguments = COMMANDS[package]
            run([str(python.with_name(name)), *arguments], folder)
        _refuse(foreign_licences(json.loads(run([str(python), "-I", "-c", LICENCES], folder))))
        print(f"{package}: installs alone and runs", flush=True)
    whole = install(folder / "env" / "whole", wheels.values(), extras=EXTRAS, also=("pytest",))
    for example in sorted((ROOT / "examples").glob("*.py")):
        place = folder / "runs" / example.stem
        place.mkdir(parents=True)
        run([str(whole), "-I", "-W", "error", str(example)], place)
        print(f"{example.name}: runs", flush=True)
    run([str(whole.with_name("windlass")), "init", "shop"], folder)
    run([str(whole), "-m", "pytest", "-q", "-W", "error"], folder / "shop")
    print("windlass init: the tests of the project pass", flush=True)


def build(package: str, dist: Path) -> Wheel:
    """Build the wheel of a package."""
    out = dist / package
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(out)]
    run([*command, str(ROOT / "packages" / package)], ROOT)
    [path] = out.glob("*.whl")
    return Wheel(package, path)


def problems_of(wheel: Wheel) -> list[str]:
    """Return what is wrong with the metadata, the licence, the size and the files of a wheel."""
    found, names = wheel.metadata(), wheel.names()
    project = _project(wheel.folder)
    problems: list[str] = []

    def expect(what: str, value: object, expected: object) -> None:
        if value != expected:
            problems.append(f"{wheel.path.name}: {what} is {value!r}, expected {expected!r}")

    expect("Name", found["Name"], project["name"])
    expect("Version", found["Version"], project["version"])
    expect("License-Expression", found["License-Expression"], LICENCE)
    expect("Requires-Python", found["Requires-Python"], ">=3.11")
    expect("Description-Content-Type", found["Description-Content-Type"], "text/markdown")
    if not found["Summary"] or not str(found.get_payload()).strip():
        problems.append(f"{wheel.path.name}: the summary or the README is missing")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        problems.append(f"{wheel.path.name}: LICENSE is missing")
    for line in found.get_all("Requires-Dist") or []:
        if line.startswith("windlass") and f"=={project['version']}" not in line:
            problems.append(f"{wheel.path.name}: {line} is not pinned to {project['version']}")
    if wheel.folder == "server" and INSPECTOR not in names:
        problems.append(f"{wheel.path.name}: the inspector is missing; build it with make inspector")
    size, limit = wheel.path.stat().st_size, SIZE_BYTES_MAX[wheel.folder]
    if size > limit:
        problems.append(f"{wheel.path.name}: {size:,} bytes, limit {limit:,}")
    return problems


def install(folder: Path, wheels: Iterable[Wheel], *, extras: str = "", also: Iterable[str] = ()) -> Path:
    """Install wheels into a new environment; return its Python."""
    uv = str(Path(sys.executable).with_name("uv"))
    run([uv, "venv", "-q", "--python", sys.executable, str(folder)], ROOT)
    python = folder / "bin" / "python"
    wanted = [
        f"{one.path}[{extras}]" if extras and one.folder == "runtime" else str(one.path) for one in wheels
    ]
    run([uv, "pip", "install", "-q", "--python", str(python), *wanted, *also], ROOT)
    run([uv, "pip", "check", "-q", "--python", str(python)], ROOT)
    return python


def foreign_licences(found: dict[str, str]) -> list[str]:
    """Return the distributions whose licence is not allowed, or not known."""
    return [
        f"{name}: the licence is {told or 'not declared'}"
        for name, told in sorted(found.items())
        if not ALLOWED.search(told)
    ]


_HINT: Final = re.compile(r"pip install (?P<words>[^\n`;|&]*)")
_EXTRA_HINT: Final = re.compile(r"install_hint\(\s*['\"](?P<extra>\w+)['\"]\s*\)")
_WORD: Final = re.compile(r"[\w-][\w./*-]*(?:\[[\w,]+\])?")
_OTHERS: Final = frozenset({"agent-client-protocol"})
"""Names on the package index that hints may have."""


def wrong_hints(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return hints that name a package, a path or an extra that does not exist.

    `texts` are pairs of a place and its text.
    """
    extras = {name: _extras(name) for name in PACKAGES}
    problems: list[str] = []
    for place, text in texts:
        problems += [
            f"{place}: packages/runtime has no extra {one['extra']}"
            for one in _EXTRA_HINT.finditer(text)
            if one["extra"] not in extras["runtime"]
        ]
        for hint in _HINT.finditer(text):
            problems += [f"{place}: {problem}" for problem in _wrong_words(hint["words"], extras)]
    return problems


def _wrong_words(words: str, extras: dict[str, set[str]]) -> Iterator[str]:
    if "{" in words:  # the text of `install_hint`, whose callers are checked
        return
    for word in _WORD.findall(words.split(" in a checkout")[0]):
        name, _, inside = word.rstrip("].").partition("[")
        package = name.removeprefix("packages/")
        if name.startswith("packages/"):
            if package not in extras:
                yield f"there is no {name}"
            for extra in filter(None, inside.split(",")):
                if extra not in extras.get(package, set()):
                    yield f"{name} has no extra {extra}"
        elif not (name.startswith("-") or name.endswith((".whl", ".txt")) or name in _OTHERS):
            yield f"pip install {name}: not a package of this checkout, nor one of {', '.join(_OTHERS)}"


def hinting_texts() -> Iterator[tuple[str, str]]:
    """Yield the sources and pages that may tell people what to install, with their paths."""
    kinds = ("README.md", "docs/**/*.md", "packages/*/README.md", "examples/*.py", "packages/*/src/**/*.py")
    for kind in kinds:
        for path in sorted(ROOT.glob(kind)):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _project(package: str) -> dict[str, str]:
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]


def _extras(package: str) -> set[str]:
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    return set(tomllib.loads(text)["project"].get("optional-dependencies", {}))


def run(command: list[str], folder: Path) -> str:
    """Run a program; return its output.

    Raises:
        Refused: it failed.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise Refused(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _refuse(problems: list[str]) -> None:
    if problems:
        raise Refused("\n" + "\n".join(problems))


if __name__ == "__main__":
    main()
