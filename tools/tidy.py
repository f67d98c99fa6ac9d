"""Limits that ruff cannot hold: the length of a function, the public names of a package, and names.

`python -m tools.tidy` lists every violation and fails if there is one. The other walls of the repository are
ruff's (print, blind excepts), pyright's (types) and import-linter's (import contracts).
"""

import ast
import io
import re
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
    "harness": {"place": 1, "words": 12},
    "runtime": {"given": 1, "known": 1, "named": 1, "place": 23, "words": 5},
}
"""How often the functions of a package may bind a vague local name. Lower a number, never raise it."""

REPEATED_CLASSES_MAX = 3
"""How many names of public classes the packages may use for more than one class. Lower it, never raise it."""
PARTICIPLE_FUNCTIONS_MAX = 63
"""How many functions may be named by a participle, alone or with one noun. Lower it, never raise it."""

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
_PARTICIPLE = re.compile(
    r"_?(asked|begun|brought|drawn|found|given|gone|held|kept|known|left|lost|made|meant|met|named|said|seen|sent"
    r"|shown|spent|taken|told|wanted|written|(?!exceed|proceed|indeed)[a-z]{3,}ed)(_[a-z]+)?"
)
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
    long = [found for found in _functions(tree) if len(_lines_of(found[1])) > FUNCTION_LINES_MAX]
    code = _code_lines(text, tree) if long else set[int]()
    for name, function in long:
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


def public_classes(text: str) -> set[str]:
    """Return the names of the public classes of a module."""
    nodes = ast.walk(ast.parse(text))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}


def participle_functions(text: str) -> list[str]:
    """Return the functions that are named by a participle, without properties and handlers."""
    return [
        name
        for name, function in _functions(ast.parse(text))
        if _PARTICIPLE.fullmatch(function.name)
        and not any(
            re.search(r"property|\.on\(", ast.unparse(decorator)) for decorator in function.decorator_list
        )
    ]


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
    classes: Counter[str] = Counter()
    participles: list[str] = []
    for path in repository_files():
        if path.suffix != ".py" or path.parts[0] not in _FOLDERS or "generated" in path.parts:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        problems += violations(path, text)
        if path.parts[0] == "packages" and path.parts[2] == "src":
            vague.setdefault(path.parts[1], Counter()).update(vague_names(text))
            classes.update(public_classes(text))
            participles += participle_functions(text)
    for package, counts in vague.items():
        problems += vague_name_violations(package, counts)
    repeated = sorted(name for name, count in classes.items() if count > 1)
    if len(repeated) > REPEATED_CLASSES_MAX:
        problems.append(
            f"{len(repeated)} class names are used twice, limit {REPEATED_CLASSES_MAX}: {repeated}"
        )
    if len(participles) > PARTICIPLE_FUNCTIONS_MAX:
        problems.append(
            f"{len(participles)} functions named by a participle, limit {PARTICIPLE_FUNCTIONS_MAX}: use verbs"
        )
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
