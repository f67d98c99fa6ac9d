"""`python -m tools.gen` writes the generated files; `--check` says what differs."""

import argparse
import sys
from pathlib import Path

from tools.gen.model import load_spec
from tools.gen.python import python_files
from tools.gen.typescript import typescript_files

ROOT = Path(__file__).parents[2]


def generated() -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    spec = load_spec(ROOT / "spec")
    targets = {
        ROOT / "packages/protocol/src/windlass_protocol/generated": python_files(spec),
        ROOT / "web/protocol/src/generated": typescript_files(spec),
    }
    return {folder / name: text for folder, files in targets.items() for name, text in files.items()}


def drift(files: dict[Path, str]) -> list[str]:
    """Return the paths that are missing, stale, or not generated any more."""
    wrong = [path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
    extra = [
        path
        for folder in {path.parent for path in files}
        for path in folder.glob("*.*")
        if path.suffix in (".py", ".ts") and path not in files
    ]
    return sorted(str(path.relative_to(ROOT)) for path in [*wrong, *extra])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file differs")
    files = generated()
    if parser.parse_args().check:
        stale = drift(files)
        for path in stale:
            print(f"differs from spec/: {path}; run `make gen`", file=sys.stderr)
        return 1 if stale else 0
    for path in [ROOT / name for name in drift(files)]:
        if path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], "utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
