"""`python -m tools.gen` writes the generated files; `--check` says what differs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.gen.load import load_spec
from tools.gen.pages import page_files
from tools.gen.python import python_files
from tools.gen.records import record_files
from tools.gen.typescript import typescript_files
from tools.gen.write import settle

ROOT = Path(__file__).parents[2]
PYTHON_FOLDER = "packages/protocol/src/windlass_protocol/generated"
TYPESCRIPT_FOLDER = "web/protocol/src/generated"
PAGES_FOLDER = "docs"


def generated(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    spec = load_spec(root / "spec")
    targets = {
        PYTHON_FOLDER: {**python_files(spec), **record_files(spec)},
        TYPESCRIPT_FOLDER: typescript_files(spec),
        PAGES_FOLDER: page_files(root / "spec"),
    }
    return {root / folder / name: text for folder, files in targets.items() for name, text in files.items()}


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write what differs, or only name it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.gen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file differs")
    return settle(generated(root), root=root, is_check=parser.parse_args(arguments).check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
