"""The version: written into every package by one function, and described in CHANGELOG.md.

python -m tools.release.version 0.2.0
"""

import re
import sys
from pathlib import Path
from typing import Final

from tools.files import ROOT

FORM: Final = re.compile(r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)")
"""Three numbers mean the same to PyPI and to npm; marks of pre-releases do not."""
_HEADING: Final = r"^## \[?v?{version}\]?(?:\s[^\n]*)?\n(?P<text>.*?)(?=^## |\Z)"
_OWN: Final = r"windlass-(?:protocol|harness|runtime|server|sidecar|cli)(?:\[[\w,]+\])?=="
_OWN_NPM: Final = r'"@windlass/\w+": "'


def current_version(root: Path = ROOT) -> str:
    """Return the version of the packages: that of the lowest, which a test compares with all others."""
    text = (root / "packages/protocol/pyproject.toml").read_text("utf-8")
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def set_version(version: str, root: Path = ROOT) -> None:
    """Write a version into all packages, their pins of each other, and the npm lock.

    Raises:
        ValueError: it is not three numbers.
    """
    if not FORM.fullmatch(version):
        raise ValueError(f"{version}: expected three numbers, such as 0.2.0")
    old = re.escape(current_version(root))
    rules: dict[str, tuple[str, ...]] = {
        "packages/*/pyproject.toml": (r'^(version = "){old}"', rf"({_OWN}){{old}}\""),
        "packages/*/src/*/__init__.py": (r'^(__version__ = "){old}"',),
        "package.json": (r'^(  "version": "){old}"',),
        "web/*/package.json": (r'^(  "version": "){old}"', rf"({_OWN_NPM}){{old}}\""),
        # Two places name the workspace itself, and one each of its packages.
        "package-lock.json": (
            rf"({_OWN_NPM}){{old}}\"",
            r'("name": "(?:@windlass/\w+|windlass-workspace)",\n\s+"version": "){old}"',
        ),
    }
    for places, patterns in rules.items():
        for path in root.glob(places):
            text = changed = path.read_text("utf-8")
            for pattern in patterns:
                changed = re.sub(
                    pattern.replace("{old}", old), rf'\g<1>{version}"', changed, flags=re.MULTILINE
                )
            if changed != text:
                path.write_text(changed, "utf-8")


def release_notes(version: str, changelog: str) -> str:
    """Return what CHANGELOG.md says of a version.

    Raises:
        ValueError: it says nothing.
    """
    found = re.search(_HEADING.format(version=re.escape(version)), changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found["text"].strip():
        raise ValueError(
            f"CHANGELOG.md: no text below a heading `## {version}`; write what users will notice"
        )
    return found["text"].strip() + "\n"


if __name__ == "__main__":
    set_version(sys.argv[1])
