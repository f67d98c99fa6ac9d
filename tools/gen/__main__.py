"""`python -m tools.gen` writes the generated files; `--check` says what differs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.gen.load import load_spec
from tools.gen.python import python_files
from tools.gen.typescript import typescript_files

ROOT = Path(__file__).parents[2]
PYTHON_FOLDER = "packages/protocol/src/windlass_protocol/generated"
TYPESCRIPT_FOLDER = "web/protocol/src/generated"


def generated(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    spec = load_spec(root / "spec")
    targets = {PYTHON_FOLDER: python_files(spec), TYPESCRIPT_FOLDER: typescript_files(spec)}
    return {root / folder / name: text for folder, files in targets.items() for name, text in files.items()}


def drift(files: dict[Path, str]) -> list[Path]:
    """Return the paths that are missing, stale, or not generated any more."""
    wrong = [path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
    extra = [
        path
        for folder in {path.parent for path in files}
        for path in folder.glob("*.*")
        if path.suffix in (".py", ".ts") and path not in files
    ]
    return sorted([*wrong, *extra])


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write what differs, or only name it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.gen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file differs")
    check: bool = parser.parse_args(arguments).check
    files = generated(root)
    stale = drift(files)
    for path in stale:
        if check:
            print(f"differs from spec/: {path.relative_to(root)}; run `make gen`", file=sys.stderr)
        elif path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], "utf-8")
        else:
            path.unlink()
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
