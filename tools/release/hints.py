"""What texts tell people to install: distributions and extras that exist, and never one called `windlass`."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from tools.files import ROOT

PACKAGES: Final = ("protocol", "harness", "runtime", "server", "sidecar", "cli")
"""The packages in the order of their tiers; their distributions are called windlass- and this."""
_HINT: Final = re.compile(r"pip install (?P<words>[^\n`;|&#]*)")
_EXTRA_HINT: Final = re.compile(r"install_hint\(\s*['\"](?P<extra>\w+)['\"]\s*\)")
_EXTRAS: Final = re.compile(r"(?<![\w-])(?P<name>windlass(?:-\w+)?)\[(?P<extras>[\w,]+)\]")
"""A distribution with extras, wherever a text names it."""
_WORD: Final = re.compile(r"[\w-][\w./*-]*(?:\[[\w,]+\])?")


def wrong_hints(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return hints that name a distribution, a path or an extra that does not exist.

    `texts` are pairs of a place and its text.
    """
    extras = {f"windlass-{name}": _extras(name) for name in PACKAGES}
    problems: list[str] = []
    for place, text in texts:
        found = [("windlass-runtime", one["extra"]) for one in _EXTRA_HINT.finditer(text)]
        for one in _EXTRAS.finditer(text):
            found += [(one["name"], extra) for extra in one["extras"].split(",")]
        problems += [
            f"{place}: {name} has no extra {extra}"
            for name, extra in found
            if extra not in extras.get(name, set())
        ]
        for hint in _HINT.finditer(text):
            problems += [f"{place}: {problem}" for problem in _wrong_words(hint["words"], extras.keys())]
    return problems


def _wrong_words(words: str, distributions: Collection[str]) -> Iterator[str]:
    if "{" in words:  # the texts of `install_hint` and `check_origin`
        return
    for word in _WORD.findall(words):
        name = word.rstrip("].").partition("[")[0]
        if name.startswith("packages/"):
            if name.removeprefix("packages/") not in PACKAGES:
                yield f"there is no {name}"
        elif name.startswith("windlass"):
            if name not in distributions:
                yield f"pip install {name}: not a distribution of ours: {', '.join(distributions)}"
        elif not name.startswith("-") and not name.endswith((".whl", ".txt")) and name != "dist":
            yield f"pip install {name}: not a distribution of ours: {', '.join(distributions)}"


def hinting_texts() -> Iterator[tuple[str, str]]:
    """Yield the sources and pages that may tell people what to install, with their paths."""
    kinds = ("README.md", "docs/**/*.md", "packages/*/README.md", "examples/*.py", "packages/*/src/**/*.py")
    for kind in kinds:
        for path in sorted(ROOT.glob(kind)):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _extras(package: str) -> set[str]:
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    return set(tomllib.loads(text)["project"].get("optional-dependencies", {}))
