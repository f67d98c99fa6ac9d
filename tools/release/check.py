"""Installs the artefacts of a release into empty environments and projects, and uses them there.

    python -m tools.release.check [FOLDER]

`make release-check` builds the web packages and the inspector first. Packages of others come from indexes;
ours from a folder that has a distribution of others, called `windlass`, too. Each wheel is checked for its
metadata, its licence, its size and its files, and installed alone; the npm packages are used by Node, Vite
and Next.js, the OpenAPI document of the server is judged, and the licences of all that is installed.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

from tools.files import ROOT
from tools.release.artefacts import (
    Refused,
    build_distributions,
    install_npm,
    npm_tool,
    pack_npm,
    release_tool,
    run,
)
from tools.release.hints import PACKAGES, hinting_texts, wrong_hints
from windlass import Agent
from windlass_server import Settings, Tenants, create_app

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
PROJECTS: Final = {
    "node": ((), ("node", "main.js")),
    "vite": (("react", "react-dom", "vite"), ("npx", "vite", "build")),
    "next": (
        ("react", "react-dom", "next", "typescript", "@types/react", "@types/node"),
        ("npx", "next", "build"),
    ),
}
"""Projects of `projects/`: what they need beside our packages, and the command that proves that they work."""
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
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".release" / "check"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        check(folder.resolve())
    except Refused as refused:
        sys.exit(f"release-check: {refused}")


def check(folder: Path) -> None:
    """Build, check, install and try the wheels and the npm packages.

    Raises:
        Refused: something is wrong.
    """
    _refuse(wrong_hints(hinting_texts()))
    (folder / "dist").mkdir()
    check_npm(folder)
    check_document(folder)
    wheels = {
        package: Wheel(package, path)
        for package, path in zip(PACKAGES, build_distributions(folder), strict=True)
    }
    run([str(release_tool(folder, "twine")), "check", "--strict", *_distributions(folder)], folder)
    for wheel in wheels.values():
        _refuse(problems_of(wheel))
        print(f"{wheel.path.name}: {wheel.path.stat().st_size:,} bytes", flush=True)
    index = folder / "index"
    shutil.copytree(folder / "dist", index, ignore=shutil.ignore_patterns("*.tgz", "*.tar.gz"))
    strangers = [make_stranger(index, version) for version in ("0.1.0", "0.1.1", "99.0.0")]
    for package in PACKAGES:
        python = install(folder / "env" / package, index, [f"windlass-{package}"])
        module = IMPORTS.get(package, f"windlass_{package}")
        run([str(python), "-I", "-c", f"import {module}; print({module}.__file__)"], folder)
        if package in COMMANDS:
            name, *arguments = COMMANDS[package]
            run([str(python.with_name(name)), *arguments], folder)
        installed = json.loads(run([str(python), "-I", "-c", LICENCES], folder))
        _refuse(["a stranger called windlass was installed"] if "windlass" in installed else [])
        _refuse(foreign_licences(installed))
        print(f"{package}: installs alone and runs, beside a stranger in the index", flush=True)
    check_overwritten(folder / "env" / "server" / "bin" / "python", strangers[-1])
    whole = install(
        folder / "env" / "whole",
        index,
        [*(f"windlass-{package}" for package in PACKAGES), f"windlass-runtime[{EXTRAS}]", "pytest"],
    )
    for example in sorted((ROOT / "examples").glob("*.py")):
        place = folder / "runs" / example.stem
        place.mkdir(parents=True)
        run([str(whole), "-I", "-W", "error", str(example)], place)
        print(f"{example.name}: runs", flush=True)
    run([str(whole.with_name("windlass")), "init", "shop"], folder)
    run([str(whole), "-m", "pytest", "-q", "-W", "error"], folder / "shop")
    print("windlass init: the tests of the project pass", flush=True)


def check_overwritten(python: Path, stranger: Path) -> None:
    """Install a stranger over ours, which must be refused in words, and ours again as these words say."""
    uv = str(Path(sys.executable).with_name("uv"))
    run([uv, "pip", "install", "-q", "--no-deps", "--python", str(python), str(stranger)], stranger.parent)
    done = subprocess.run(
        [str(python), "-I", "-c", "import windlass_server"], capture_output=True, text=True, check=False
    )
    if "pip uninstall -y windlass, then: pip install --force-reinstall --no-deps" not in done.stderr:
        raise Refused(f"a stranger over our runtime is not refused in words:\n{done.stderr}")
    run([uv, "pip", "uninstall", "-q", "--python", str(python), "windlass"], stranger.parent)
    again = [
        "--no-index",
        "--find-links",
        str(stranger.parent),
        "--reinstall",
        "--no-deps",
        "windlass-runtime",
    ]
    run([uv, "pip", "install", "-q", "--python", str(python), *again], stranger.parent)
    run([str(python), "-I", "-c", "import windlass_server.app"], stranger.parent)
    print("a stranger over our runtime: refused in words, and mended as they say", flush=True)


def check_npm(folder: Path) -> None:
    """Pack the npm packages, judge them with publint and attw, and use them in empty projects."""
    tarballs = pack_npm(folder)
    for tarball in tarballs:
        run([str(npm_tool("publint")), "--strict", str(tarball)], folder)
        # Packages for `import` alone; a style sheet has no types.
        styles = [name for name in ("preset.css", "scale.css", "styles.css") if "-ui-" in tarball.name]
        left_out = ["--exclude-entrypoints", *styles] if styles else []
        run([str(npm_tool("attw")), str(tarball), "--profile", "esm-only", *left_out], folder)
        print(f"{tarball.name}: {tarball.stat().st_size:,} bytes; publint and attw find nothing", flush=True)
    for name, (others, command) in PROJECTS.items():
        project = folder / "projects" / name
        shutil.copytree(Path(__file__).parent / "projects" / name, project)
        install_npm(project, tarballs, *others)
        run(list(command), project)
        print(f"an empty project of {name}: builds and runs with the packages", flush=True)


def check_document(folder: Path) -> None:
    """Judge the OpenAPI document of the server with redocly and spectral; a warning is a problem, too."""
    app = create_app(Settings(), Tenants(folder / "data", [Agent("clerk", model="demo/guide")]))
    path, rules = folder / "openapi.json", Path(__file__).parent
    path.write_text(json.dumps(app.openapi()), "utf-8")
    redocly = [str(npm_tool("redocly")), "lint", str(path), "--config", str(rules / "redocly.yaml")]
    spectral = [str(npm_tool("spectral")), "lint", str(path), "--ruleset", str(rules / "spectral.yaml")]
    run(redocly, folder)
    run([*spectral, "--fail-severity", "hint"], folder)
    print("openapi.json: redocly and spectral find nothing", flush=True)


def make_stranger(folder: Path, version: str) -> Path:
    """Write a wheel of others that has our import name, our command and any version; return its path."""
    path = folder / f"windlass-{version}-py3-none-any.whl"
    info = f"windlass-{version}.dist-info"
    files = {
        "windlass/__init__.py": f'__version__ = "{version}"\n\n\nclass Agent:\n    """Of others."""\n',
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: windlass\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nwindlass = windlass:Agent\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


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


def install(folder: Path, index: Path, distributions: Iterable[str]) -> Path:
    """Install distributions by name into a new environment, ours from a folder; return its Python."""
    uv = str(Path(sys.executable).with_name("uv"))
    run([uv, "venv", "-q", "--python", sys.executable, str(folder)], ROOT)
    python = folder / "bin" / "python"
    wanted = ["--find-links", str(index), *distributions]
    run([uv, "pip", "install", "-q", "--python", str(python), *wanted], ROOT)
    run([uv, "pip", "check", "-q", "--python", str(python)], ROOT)
    return python


def _distributions(folder: Path) -> list[str]:
    return [str(path) for path in sorted((folder / "dist").iterdir()) if path.name.startswith("windlass_")]


def foreign_licences(found: dict[str, str]) -> list[str]:
    """Return the distributions whose licence is not allowed, or not known."""
    return [
        f"{name}: the licence is {told or 'not declared'}"
        for name, told in sorted(found.items())
        if not ALLOWED.search(told)
    ]


def _project(package: str) -> dict[str, str]:
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]


def _refuse(problems: list[str]) -> None:
    if problems:
        raise Refused("\n" + "\n".join(problems))


if __name__ == "__main__":
    main()
