"""The budgets of the house style, measured on the syntax tree of Python files.

Each function takes a path relative to the repository and its text, and returns what is over a budget. What
ruff enforces (complexity, print, inline and relative imports, the order of `__all__`) is not repeated here.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 800
PARAMETERS_MAX = 6
POSITIONAL_PARAMETERS_MAX = 2
FOLDER_DEPTH_MAX = 2
PUBLIC_NAMES_MAX = 40
DOCSTRING_FIRST_LINE_CHARS_MAX = 80

Function = ast.FunctionDef | ast.AsyncFunctionDef
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One place over one budget.

    `name` is what is over it, such as a function, or empty for the whole file; `line` is for the reader only,
    so that a ratchet entry does not move with the lines above it.
    """

    rule: str
    path: Path
    line: int
    found: int
    limit: int
    name: str = ""

    @property
    def place(self) -> str:
        """The address that a ratchet entry names."""
        return f"{self.path.as_posix()}::{self.name}" if self.name else self.path.as_posix()

    def __str__(self) -> str:
        what = f"{self.name}: {self.rule}" if self.name else self.rule
        return f"{self.path.as_posix()}:{self.line}: {what}: found {self.found:,}, limit {self.limit:,}"


def is_test(path: Path) -> bool:
    """Whether the file is a test, and not something that ships or builds."""
    return "tests" in path.parts or "test" in path.parts or ".test." in path.name


def is_private(path: Path) -> bool:
    """Whether the module says by an underscore that nobody outside may use it."""
    return any(part.startswith("_") and not part.startswith("__") for part in path.parts)


def is_generated(path: Path) -> bool:
    """Whether the file was written by `make gen`, which no budget is about."""
    return "generated" in path.parts


def check_python(path: Path, text: str) -> list[Finding]:
    """Everything in one Python file that is over a budget."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [Finding("does-not-parse", path, error.lineno or 1, 1, 0)]
    findings = [
        *check_file_lines(path, text),
        *_function_lines(path, text, tree),
        *_docstrings(path, tree),
        *_folder_depth(path),
    ]
    if not is_test(path) and not is_private(path):
        findings += _parameters(path, tree)
    if path.parts[0] == "packages":
        findings += _exports(path, tree)
    return findings


def check_file_lines(path: Path, text: str) -> Iterator[Finding]:
    """The whole file, every line of it, against its budget."""
    limit = TEST_FILE_LINES_MAX if is_test(path) else FILE_LINES_MAX
    lines = len(text.splitlines())
    if lines > limit:
        yield Finding("file-lines", path, lines, lines, limit)


def comments(text: str) -> list[tuple[int, str]]:
    """The comments of a Python file with their lines; none if it does not parse."""
    try:
        tokens = _tokens(text)
    except (SyntaxError, tokenize.TokenError):
        return []
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def public_names(tree: ast.Module) -> list[str]:
    """What `from module import *` would give: `__all__`, else every public name."""
    listed = _listed_names(tree)
    return _defined_names(tree, with_imports=True) if listed is None else listed


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its dotted name, methods and inner functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        is_scope = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _functions(node, f"{prefix}{node.name}." if is_scope else prefix)


def _docstring(node: ast.AST) -> ast.Constant | None:
    """The docstring's own node, whose lines do not count as code."""
    if (
        not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        or not node.body
    ):
        return None
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str()) as constant):
            return constant
        case _:
            return None


def _lines_of(node: ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    """The lines that hold code: not blank, not only a comment, not a docstring."""
    lines: set[int] = set()
    for token in _tokens(text):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        docstring = _docstring(node)
        if docstring is not None:
            lines.difference_update(_lines_of(docstring))
    return lines


def _function_lines(path: Path, text: str, tree: ast.Module) -> Iterator[Finding]:
    code = _code_lines(text, tree)
    for name, function in _functions(tree):
        lines = sum(function.lineno <= line <= (function.end_lineno or 0) for line in code)
        if lines > FUNCTION_LINES_MAX:
            yield Finding("function-lines", path, function.lineno, lines, FUNCTION_LINES_MAX, name)


def _docstrings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        docstring = _docstring(node)
        if docstring is None:
            continue
        characters = len(str(docstring.value).strip().partition("\n")[0])
        if characters > DOCSTRING_FIRST_LINE_CHARS_MAX:
            name = getattr(node, "name", "module")
            limit = DOCSTRING_FIRST_LINE_CHARS_MAX
            yield Finding("docstring-first-line", path, docstring.lineno, characters, limit, name)


def _folder_depth(path: Path) -> Iterator[Finding]:
    match path.parts:
        case ("packages", _, "src", _, *folders, _) if len(folders) > FOLDER_DEPTH_MAX:
            yield Finding("folder-depth", path, 1, len(folders), FOLDER_DEPTH_MAX)
        case _:
            pass


def _parameters(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Public functions and methods: how many parameters, how many without a name."""
    for name, function, is_method in _public_functions(tree):
        arguments = function.args
        positional = len(arguments.posonlyargs) + len(arguments.args) - is_method
        total = positional + len(arguments.kwonlyargs)
        if total > PARAMETERS_MAX:
            yield Finding("parameters", path, function.lineno, total, PARAMETERS_MAX, name)
        if positional > POSITIONAL_PARAMETERS_MAX:
            limit = POSITIONAL_PARAMETERS_MAX
            yield Finding("positional-parameters", path, function.lineno, positional, limit, name)


def _public_functions(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, Function, bool]]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield from _public_functions(node, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_called_by_name(name):
                decorators = {item.id for item in node.decorator_list if isinstance(item, ast.Name)}
                if "overload" not in decorators:  # the function itself follows, and counts once
                    yield f"{prefix}{name}", node, bool(prefix) and "staticmethod" not in decorators
            case _:
                pass


def _is_called_by_name(name: str) -> bool:
    """Other dunder methods have the parameters that the language gives them."""
    return not name.startswith("_") or name in {"__init__", "__call__"}


def _exports(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Public names that a module defines, or a package takes up, outside `__all__`."""
    listed = _listed_names(tree)
    is_package = path.name == "__init__.py"
    defined = _defined_names(tree, with_imports=is_package)
    if listed is None and not (is_package and defined):
        return
    missing = sorted(set(defined) - set(listed or ()))
    if missing:
        yield Finding("missing-in-all", path, 1, len(missing), 0, ",".join(missing))


def _listed_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                return [str(name) for name in ast.literal_eval(value)]
            case _:
                pass
    return None


def _defined_names(tree: ast.Module, *, with_imports: bool) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "TypeVarTuple"))):
                pass  # a variable of the type checker, which nobody imports
            case ast.Assign(targets=targets):
                names += [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
            case ast.ImportFrom(module=str() as module, names=aliases) if with_imports and _is_ours(module):
                names += [alias.asname or alias.name for alias in aliases]
            case _:
                pass
    return [name for name in names if not name.startswith("_")]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0].partition("_")[0] == "windlass"
