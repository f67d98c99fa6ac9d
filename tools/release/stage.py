"""The packages as they are published: copies whose READMEs and metadata need no repository around them."""

import json
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Final

from tools.files import ROOT

NPM: Final = ("protocol", "harness", "ui")
"""The folders of `web/` that are published."""
_LINK: Final = re.compile(r"\[(?P<text>[^\]\[]+)\]\((?!https?:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_IGNORED: Final = shutil.ignore_patterns("__pycache__", "node_modules", "*.egg-info", ".tsbuildinfo")


def stage_python(package: str, folder: Path, repository: str, version: str) -> Path:
    """Copy a package; return its folder."""
    staged = _copy(f"packages/{package}", folder, repository, version)
    path = staged / "pyproject.toml"
    text = path.read_text("utf-8")
    if repository:
        urls = {
            "Homepage": repository,
            "Documentation": f"{repository}/tree/v{version}/docs",
            "Changelog": f"{repository}/blob/v{version}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
        table = "".join(f"{name} = {json.dumps(url)}\n" for name, url in urls.items())
        # A table of its own, before the first that follows [project].
        text = re.sub(r"^(?=\[tool\.hatch)", f"[project.urls]\n{table}\n", text, count=1, flags=re.MULTILINE)
    path.write_text(text, "utf-8")
    return staged


def stage_npm(package: str, folder: Path, repository: str, version: str) -> Path:
    """Copy a built package; return its folder."""
    staged = _copy(f"web/{package}", folder, repository, version)
    path = staged / "package.json"
    manifest = json.loads(path.read_text("utf-8"))
    if repository:
        manifest["homepage"] = repository
        manifest["bugs"] = f"{repository}/issues"
        url = f"git+{repository}.git"
        manifest["repository"] = {"type": "git", "url": url, "directory": f"web/{package}"}
    path.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    # The settings of the repository hold here too: no script of a package runs.
    shutil.copy(ROOT / ".npmrc", staged)
    return staged


def portable(text: str, place: str, repository: str, version: str) -> str:
    """Return a README of `place` with links that work anywhere, or plain text if no repository is given."""

    def replace(link: re.Match[str]) -> str:
        if not repository:
            return link["text"]
        target = _normal(PurePosixPath(place, link["path"]))
        return f"[{link['text']}]({repository}/blob/v{version}/{target}{link['anchor'] or ''})"

    return _LINK.sub(replace, text)


def _copy(place: str, folder: Path, repository: str, version: str) -> Path:
    staged = folder / place
    shutil.copytree(ROOT / place, staged, ignore=_IGNORED)
    readme = staged / "README.md"
    readme.write_text(portable(readme.read_text("utf-8"), place, repository, version), "utf-8")
    return staged


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
