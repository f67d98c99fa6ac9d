"""What people install: our wheels beside a distribution of others called `windlass`; npm tarballs with code.

`make release-check` does the same with package indexes, and with projects of Vite and Next.js. Here packages
of others are wheels that hold metadata alone, so that pip resolves ours without a network.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.files import ROOT
from tools.release.artefacts import pack_npm, tarball_problems
from tools.release.check import Wheel, make_stranger
from tools.release.hints import PACKAGES
from tools.release.stage import NPM

STRANGERS: Final = ("0.1.0", "0.1.1", "99.0.0")
TIMEOUT_S: Final = 300
# Settings of this machine could name an index.
ENVIRONMENT: Final = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
    "PIP_CONFIG_FILE": os.devnull,
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=ENVIRONMENT
    )


def build(package: str, folder: Path) -> None:
    place = str(ROOT / "packages" / package)
    done = run(sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", str(folder), place)
    assert done.returncode == 0, done.stderr


def others(requirements: Iterable[str]) -> dict[str, str]:
    """The installed distributions of others that the requirements name, and theirs: names and versions."""
    todo = [Requirement(line) for line in requirements]
    done: set[tuple[str, frozenset[str]]] = set()
    versions: dict[str, str] = {}
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        key = name, frozenset(requirement.extras)
        extras = [*requirement.extras, ""]
        if name.startswith("windlass") or key in done:
            continue
        done.add(key)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of an extra that nobody asks for here
            continue
        versions[name] = distribution.version
        for line in distribution.requires or ():
            needed = Requirement(line)
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(needed)
    return versions


def write_empty_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel of that name without files; its extras are those that anybody asks for."""
    stem = f"{name.replace('-', '_')}-{version}"
    extras = "".join(f"Provides-Extra: {extra}\n" for extra in ("asyncio", "binary", "crypto", "http-server"))
    files = {
        "METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{extras}",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for part, text in files.items():
            archive.writestr(f"{stem}.dist-info/{part}", text)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip takes as its index: our wheels, strangers, and all that ours need."""
    folder = tmp_path_factory.mktemp("index")
    with ThreadPoolExecutor(2) as builders:
        list(builders.map(build, PACKAGES, [folder] * len(PACKAGES)))
    wheels = [Wheel("", path) for path in folder.glob("*.whl")]
    lines = [line for wheel in wheels for line in wheel.metadata().get_all("Requires-Dist") or ()]
    for name, version in others(line.partition(";")[0] for line in lines).items():
        write_empty_wheel(folder, name, version)
    for version in STRANGERS:
        make_stranger(folder, version)
    return folder


@pytest.fixture(scope="module")
def site(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip installed the command by its name, and all that it needs."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-index", "--find-links", str(index), "--target", str(folder), "--no-compile"]
    done = run(sys.executable, "-m", "pip", "install", "-q", *options, "windlass-cli")
    assert done.returncode == 0, done.stderr
    return folder


def import_from(site: Path, module: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import {module}"
    return run(sys.executable, "-I", "-S", "-B", "-c", code)


def test_a_stranger_called_windlass_in_the_index_changes_nothing(site: Path) -> None:
    installed = {one.name for one in metadata.distributions(path=[str(site)])}
    assert {name for name in installed if name.startswith("windlass")} == {
        f"windlass-{name}" for name in PACKAGES
    }
    ours = ROOT / "packages/runtime/src/windlass/__init__.py"
    assert (site / "windlass/__init__.py").read_bytes() == ours.read_bytes()


def test_the_index_has_the_stranger_for_whoever_asks_for_it(index: Path, tmp_path: Path) -> None:
    options = ["--no-index", "--find-links", str(index), "--target", str(tmp_path), "--no-compile"]
    assert run(sys.executable, "-m", "pip", "install", "-q", *options, "windlass").returncode == 0
    assert [one.version for one in metadata.distributions(path=[str(tmp_path)])] == ["99.0.0"]


IMPORTERS: Final = ("windlass_server", "windlass_sidecar", "windlass_cli")


@pytest.mark.parametrize("module", IMPORTERS)
def test_a_stranger_over_our_runtime_is_refused_in_words(site: Path, index: Path, module: str) -> None:
    ours = site / "windlass/__init__.py"
    kept = ours.read_bytes()
    assert import_from(site, module).returncode == 0
    try:
        with zipfile.ZipFile(index / "windlass-99.0.0-py3-none-any.whl") as stranger:
            stranger.extract("windlass/__init__.py", site)
        words = import_from(site, module).stderr
        assert (
            f"ImportError: the package windlass in {site / 'windlass'} is not that of windlass-runtime"
            in words
        )
        assert (
            "pip uninstall -y windlass, then: pip install --force-reinstall --no-deps windlass-runtime=="
            in words
        )
        # What `pip uninstall windlass` leaves behind: a folder without its first file.
        ours.unlink()
        assert "or was removed with files of ours" in import_from(site, module).stderr
    finally:
        ours.write_bytes(kept)


@pytest.mark.node
def test_npm_packs_all_code_with_the_settings_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    tarballs = pack_npm(tmp_path)  # refuses one that is not whole
    assert len(tarballs) == len(NPM)
    for package, tarball in zip(NPM, tarballs, strict=True):
        sources = [path for path in (ROOT / "web" / package / "src").rglob("*.ts*") if path.suffix != ".d.ts"]
        with_code = files_of(tarball)
        for source in sources:
            place = source.relative_to(ROOT / "web" / package / "src").with_suffix("").as_posix()
            assert {f"dist/{place}.js", f"dist/{place}.d.ts"} <= with_code, tarball.name


@pytest.mark.node
def test_components_are_for_clients_where_a_server_renders() -> None:
    first = (ROOT / "web/ui/dist/index.js").read_text("utf-8").splitlines()[0]
    assert first == '"use client";'


@pytest.mark.node
def test_a_tarball_without_code_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "package"
    place.mkdir()
    (place / "package.json").write_bytes((ROOT / "web/protocol/package.json").read_bytes())
    (place / "dist").mkdir()
    (place / "dist/.tsbuildinfo.tsbuildinfo").write_text("{}", "utf-8")
    done = subprocess.run(["npm", "pack", "-s"], cwd=place, capture_output=True, text=True, check=True)
    problems = "\n".join(tarball_problems(place / done.stdout.strip()))
    assert "dist/index.js is missing; build before you pack" in problems
    assert "LICENSE is missing" in problems
    assert "is for the build alone" in problems


def files_of(tarball: Path) -> set[str]:
    with tarfile.open(tarball) as archive:
        return {name.removeprefix("package/") for name in archive.getnames()}
