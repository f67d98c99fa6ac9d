"""`python -m tools.twins` writes the tables TypeScript takes from Python."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import cast

from tools.gen.model import SpecError
from tools.gen.write import settle
from windlass_harness import shell

ROOT = Path(__file__).parents[1]
FOLDER = "web/harness/src/generated"

HEADER = """// Generated from the tables of windlass_harness by `make gen`. Do not edit.
/** Limits and tables whose originals are in {modules}. */
"""


def table_files() -> dict[str, str]:
    """Return the text of every generated table file by its name."""
    found = sorted(module.name for module in iter_modules(shell.__path__))
    tables = [f"shell.{name}" for name in found if name == "limits" or name.startswith("tables")]
    return {"policy-tables.ts": _tables(["policy_programs"]), "shell-tables.ts": _tables(tables)}


def _tables(modules: Sequence[str]) -> str:
    constants: dict[str, object] = {}
    for module in modules:
        names = vars(import_module(f"windlass_harness.{module}"))
        constants |= {name: value for name, value in names.items() if name.isupper() and name[0] != "_"}
    lines = [f"export const {name} = {literal(value)};\n" for name, value in constants.items()]
    return HEADER.format(modules=", ".join(modules)) + "\n" + "".join(lines)


def literal(value: object) -> str:
    """Return plain data as TypeScript: maps, sets, arrays and scalars."""
    match value:
        case str() | bool() | int() | float() | None:
            return json.dumps(value)
        case Mapping():
            pairs = cast(Mapping[object, object], value).items()
            return f"new Map([\n{_items(f'[{literal(k)}, {literal(v)}]' for k, v in pairs)}])"
        case frozenset():
            return f"new Set([\n{_items(sorted(literal(item) for item in cast(frozenset[object], value)))}])"
        case tuple():
            return f"[{', '.join(literal(item) for item in cast(tuple[object, ...], value))}]"
        case _:
            raise SpecError(f"a table holds {type(value).__name__}, expected plain data")


def _items(items: Iterable[str]) -> str:
    return "".join(f"  {item},\n" for item in items)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the tables, or only name them if they differ, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.twins", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file differs")
    files = {root / FOLDER / name: text for name, text in table_files().items()}
    return settle(files, root=root, is_check=parser.parse_args(arguments).check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
