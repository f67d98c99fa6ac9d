"""Makes everything that a release has, and publishes nothing.

    python -m tools.release.artefacts VERSION [FOLDER] [--repository URL]

Wheels and sdists, npm tarballs, the sidecar as a folder, the image as a context with locked requirements,
lists of what is inside (SBOM), release notes and checksums. `make release VERSION=…` builds the web packages
and the inspector first.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.files import ROOT
from tools.release.hints import PACKAGES
from tools.release.stage import NPM, stage_npm, stage_python
from tools.release.version import release_notes, set_version

RUN_TIMEOUT_S: Final = 900
INSPECTOR_STAGE: Final = re.compile(r"^FROM \$\{NODE\} AS inspector\n.*?(?=^FROM )", re.MULTILINE | re.DOTALL)


class Refused(Exception):
    """The release cannot be made; the message says why."""


def main() -> None:
    """Make a release; end with 1 and the reason if it cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / ".release")
    parser.add_argument(
        "--repository", default="", help="https://… of the repository, for links and metadata"
    )
    options = parser.parse_args()
    try:
        release(options.version, options.folder.resolve(), options.repository.removesuffix("/"))
    except (Refused, ValueError) as refused:
        sys.exit(f"release: {refused}")


def release(version: str, folder: Path, repository: str) -> None:
    """Make all files of a release in `folder/dist`.

    Raises:
        Refused: a program failed, or an artefact is not whole.
        ValueError: the version or the changelog is not fit for a release.
    """
    notes = release_notes(version, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    set_version(version)
    shutil.rmtree(folder, ignore_errors=True)
    dist = folder / "dist"
    dist.mkdir(parents=True)
    (dist / "RELEASE_NOTES.md").write_text(notes, "utf-8")
    build_distributions(folder, repository, version)
    pack_npm(folder, repository, version)
    bundle_sidecar(folder, version)
    context = image_context(folder, version)
    list_contents(folder, context, version)
    names = write_checksums(dist)
    print("\n".join(names), flush=True)


def build_distributions(folder: Path, repository: str = "", version: str = "") -> list[Path]:
    """Build the sdist of each package and the wheel from its sdist, as others would; return the wheels."""
    dist = folder / "dist"
    for package in PACKAGES:
        staged = stage_python(package, folder / "stage", repository, version)
        run([sys.executable, "-m", "build", "-q", "--no-isolation", "-o", str(dist), str(staged)], ROOT)
    return [next(dist.glob(f"windlass_{package}-*.whl")) for package in PACKAGES]


def pack_npm(folder: Path, repository: str = "", version: str = "") -> list[Path]:
    """Pack the built npm packages with the settings of the repository; return the tarballs.

    Raises:
        Refused: a tarball has no code, or files that belong to the build.
    """
    tarballs: list[Path] = []
    for package in NPM:
        staged = stage_npm(package, folder / "stage", repository, version)
        out = run(["npm", "pack", "--json", "--pack-destination", str(folder / "dist")], staged)
        tarball = folder / "dist" / json.loads(out)[0]["filename"]
        if problems := tarball_problems(tarball):
            raise Refused("\n".join(problems))
        tarballs.append(tarball)
    return tarballs


def tarball_problems(tarball: Path) -> list[str]:
    """Return what is wrong with the files of an npm tarball: each export and its types must be inside."""
    with tarfile.open(tarball) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
        source = archive.extractfile("package/package.json")
        assert source is not None
        manifest = json.load(source)
        maps = {
            name: json.load(file)
            for name in names
            if name.endswith(".map") and (file := archive.extractfile(f"package/{name}"))
        }
    targets = {
        path.removeprefix("./")
        for target in manifest["exports"].values()
        for path in ([target] if isinstance(target, str) else target.values())
    }
    problems = [f"{path} is missing; build before you pack" for path in sorted(targets - names)]
    problems += [f"{name} is missing" for name in ("LICENSE", "README.md") if name not in names]
    problems += [f"{name} is for the build alone" for name in sorted(names) if name.endswith(".tsbuildinfo")]
    problems += [f"{name} has no sources" for name, map_ in maps.items() if not map_.get("sourcesContent")]
    wanted = ("description", "license", "author", "keywords", "engines", "publishConfig")
    problems += [f"package.json has no {field}" for field in wanted if field not in manifest]
    return [f"{tarball.name}: {problem}" for problem in problems]


def bundle_sidecar(folder: Path, version: str) -> Path:
    """Make and try the sidecar as one folder for this system; return the archive."""
    run([sys.executable, "-m", "tools.bundle", str(folder / "bundle")], ROOT)
    system = f"{platform.system().lower()}-{platform.machine()}"
    return _archive(
        folder / "bundle" / "dist" / "windlass-sidecar",
        folder / "dist" / f"windlass-sidecar-{version}-{system}.tar.gz",
    )


def image_context(folder: Path, version: str) -> Path:
    """Make the folder that an image is built from, of wheels and locked requirements; return it.

    Its files are those of the repository, without the stage of the image that builds the inspector.
    """
    context = folder / "image"
    (context / "wheels").mkdir(parents=True)
    for wheel in (folder / "dist").glob("*.whl"):
        shutil.copy(wheel, context / "wheels")
    for name in ("deploy/install.sh", "deploy/agents.py", "requirements/image.txt"):
        (context / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, context / name)
    (context / "Dockerfile").write_text(
        context_dockerfile((ROOT / "deploy/Dockerfile").read_text("utf-8")), "utf-8"
    )
    _archive(context, folder / "dist" / f"windlass-image-{version}.tar.gz")
    return context


def context_dockerfile(text: str) -> str:
    """Return the Dockerfile of a context that has wheels: nothing is built."""
    text = re.sub(r"^ARG NODE=.*\n", "", INSPECTOR_STAGE.sub("", text), flags=re.MULTILINE)
    text = text.replace("COPY --from=inspector /src .", "COPY . .")
    text = re.sub(r"\A(?:#.*\n)+", "# docker build -t windlass .\n", text)
    if "NODE" in text or "inspector" in text:
        raise Refused("deploy/Dockerfile: the stage of the inspector could not be taken out")
    return text


def list_contents(folder: Path, context: Path, version: str) -> None:
    """Install the image's environment and the npm packages; write what is inside as CycloneDX."""
    dist = folder / "dist"
    environment = folder / "env" / "image"
    environment.parent.mkdir(exist_ok=True)
    run(["sh", "deploy/install.sh", str(environment)], context)
    cyclonedx = release_tool(folder, "cyclonedx-py")
    out = dist / f"windlass-{version}-python.cdx.json"
    manifest = str(folder / "stage/packages/cli/pyproject.toml")
    command = [str(cyclonedx), "environment", "--of", "JSON", "--sv", "1.6", "--output-reproducible"]
    run([*command, "--pyproject", manifest, "-o", str(out), str(environment / "bin/python")], folder)
    project = folder / "npm"
    install_npm(project, sorted(dist.glob("*.tgz")))
    out = dist / f"windlass-{version}-npm.cdx.json"
    command = [str(npm_tool("cyclonedx-npm")), "--of", "JSON", "--sv", "1.6", "--output-reproducible"]
    run([*command, "--omit", "dev", "--ignore-npm-errors", "-o", str(out)], project)
    for path in dist.glob("*.cdx.json"):
        _without_places(path)


def _without_places(path: Path) -> None:
    """Take out where this machine got the packages from: mirrors and folders say nothing to others."""
    document = json.loads(path.read_text("utf-8"))
    for part in document.get("components", []):
        links = part.pop("externalReferences", [])
        kept = [
            link for link in links if link["type"] in {"website", "vcs", "issue-tracker", "documentation"}
        ]
        if kept:
            part["externalReferences"] = kept
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def install_npm(project: Path, tarballs: Iterable[Path], *others: str) -> None:
    """Install tarballs, and packages of others, into a project that is empty or has a `package.json`."""
    project.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / ".npmrc", project)
    if not (project / "package.json").exists():
        manifest = {"name": "empty", "version": "0.0.0", "private": True, "type": "module"}
        (project / "package.json").write_text(json.dumps(manifest), "utf-8")
    run(["npm", "install", *map(str, tarballs), *others], project)


def release_tool(folder: Path, name: str) -> Path:
    """Return a program of `requirements/release.txt`, which has an environment of its own."""
    environment = folder / "env" / "tools"
    if not environment.exists():
        run([sys.executable, "-m", "venv", str(environment)], ROOT)
        pip = [str(environment / "bin/pip"), "install", "-q", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", str(ROOT / "requirements/release.txt")], ROOT)
    return environment / "bin" / name


def npm_tool(name: str) -> Path:
    """Return a program of `tools/release/package.json`; all are installed if it is missing."""
    place = Path(__file__).parent
    program = place / "node_modules" / ".bin" / name
    if not program.exists():
        run(["npm", "ci"], place)
    return program


def write_checksums(dist: Path) -> list[str]:
    """Write SHA256SUMS of all files; return its lines."""
    paths = sorted(path for path in dist.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in paths]
    (dist / "SHA256SUMS").write_text("\n".join(lines) + "\n", "utf-8")
    return lines


def _archive(folder: Path, target: Path) -> Path:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, target.name.removesuffix(".tar.gz"))
    return target


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
        env={**os.environ, "NEXT_TELEMETRY_DISABLED": "1"},
        check=False,
    )
    if done.returncode:
        raise Refused(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
