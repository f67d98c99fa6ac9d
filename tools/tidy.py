"""Limits that ruff cannot hold: the length of a function, the public names of a package, and vague names.

`python -m tools.tidy` lists every violation and fails if there is one. The other walls of the repository are
ruff's (print, blind excepts), pyright's (types) and import-linter's (import contracts).
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.files import ROOT, repository_files

FUNCTION_LINES_MAX = 80
PUBLIC_NAMES_MAX = 40
WITHOUT_NAMES_MAX = {"windlass_protocol"}
"""Packages without a limit of names: the schemas of the wire define those of the protocol."""

VAGUE_NAMES_MAX: Mapping[str, Mapping[str, int]] = {
    "harness": {
        "asked": 19,
        "found": 50,
        "given": 12,
        "kept": 10,
        "known": 24,
        "named": 9,
        "one": 110,
        "place": 23,
        "said": 4,
        "told": 41,
        "wanted": 1,
        "words": 38,
    },
    "protocol": {"given": 3},
    "runtime": {
        "asked": 17,
        "found": 114,
        "given": 37,
        "kept": 17,
        "known": 54,
        "named": 10,
        "one": 138,
        "place": 62,
        "said": 29,
        "told": 36,
        "wanted": 37,
        "words": 20,
    },
    "server": {
        "asked": 3,
        "found": 26,
        "given": 19,
        "known": 2,
        "one": 30,
        "place": 5,
        "told": 2,
        "wanted": 21,
        "words": 1,
    },
}
"""How often the functions of a package may bind a vague local name. Lower a number, never raise it."""

_VAGUE_NAMES = {
    "asked",
    "found",
    "given",
    "kept",
    "known",
    "named",
    "one",
    "place",
    "said",
    "told",
    "wanted",
    "words",
}
_FOLDERS = {"packages", "tools", "tests", "examples", "benchmarks"}
_BRANCHING = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match, ast.FunctionDef)
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def violations(path: Path, text: str) -> Iterator[str]:
    """Describe what is over a limit in one Python file of the repository."""
    tree = ast.parse(text)
    code = _code_lines(text, tree)
    for name, function in _functions(tree):
        lines = len(code & _lines_of(function) - _free_lines(function))
        if lines > FUNCTION_LINES_MAX:
            yield f"{path}:{function.lineno}: {name}: {lines} lines of code, limit {FUNCTION_LINES_MAX}"
    is_package = path.name == "__init__.py" and path.parts[0] == "packages"
    if is_package and path.parent.name not in WITHOUT_NAMES_MAX:
        names = _offered_names(tree)
        if len(names) > PUBLIC_NAMES_MAX:
            yield f"{path}:1: {len(names)} public names, limit {PUBLIC_NAMES_MAX}"


def vague_names(text: str) -> Counter[str]:
    """Count where functions bind a vague name: parameters, assignments and loops."""
    bindings: set[tuple[str, int, int]] = set()
    for _, function in _functions(ast.parse(text)):
        for node in ast.walk(function):
            match node:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) if name in _VAGUE_NAMES:
                    bindings.add((name, node.lineno, node.col_offset))
                case _:
                    pass
    return Counter(name for name, _, _ in bindings)


def vague_name_violations(package: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Describe the vague names that a package binds more often than its stored numbers allow."""
    for name, count in sorted(counts.items()):
        limit = VAGUE_NAMES_MAX.get(package, {}).get(name, 0)
        if count > limit:
            yield f"packages/{package}: local name {name}: {count} times, limit {limit}; name the thing"


def _functions(
    tree: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function with its dotted name, methods and inner functions included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        is_scope = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _functions(node, f"{prefix}{node.name}." if is_scope else prefix)


def _lines_of(node: ast.stmt | ast.expr) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    """Return the lines that hold code: not blank, not only a comment, not a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as docstring):
                lines -= _lines_of(docstring)
            case _:
                pass
    return lines


def _free_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """Return the lines of tables and of flat `match` statements, which do not count."""
    lines: set[int] = set()
    for node in ast.walk(function):
        match node:
            case ast.Dict() | ast.List() | ast.Tuple() | ast.Set():
                lines |= _lines_of(node)
            case ast.Match(cases=cases) if not any(
                isinstance(inner, _BRANCHING) for case in cases for inner in ast.walk(case)
            ):
                lines |= _lines_of(node)
            case _:
                pass
    return lines


def _offered_names(tree: ast.Module) -> list[str]:
    """Return `__all__` of a package, or the public names that it defines or imports from Windlass.

    A lazy package imports the names of `_HOMES` on first use.
    """
    names: list[str] = []
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                return [str(name) for name in ast.literal_eval(value)]
            case ast.Assign(targets=[ast.Name(id="_HOMES")], value=value):
                names += [name for home in ast.literal_eval(value).values() for name in home]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=targets):
                names += [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
            case ast.ImportFrom(module=str() as module, names=aliases) if module.startswith("windlass"):
                names += [alias.asname or alias.name for alias in aliases]
            case _:
                pass
    return [name for name in names if not name.startswith("_")]


def main() -> int:
    """Check every Python file that people write; return the exit status."""
    problems: list[str] = []
    vague: dict[str, Counter[str]] = {}
    for path in repository_files():
        if path.suffix != ".py" or path.parts[0] not in _FOLDERS or "generated" in path.parts:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        problems += violations(path, text)
        if path.parts[0] == "packages" and path.parts[2] == "src":
            vague.setdefault(path.parts[1], Counter()).update(vague_names(text))
    for package, counts in vague.items():
        problems += vague_name_violations(package, counts)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
