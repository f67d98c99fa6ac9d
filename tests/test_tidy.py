"""The budgets of the house style, held over the whole repository.

What is counted:
- a function: its lines that hold code, from `def` on; blank lines, comments and docstrings are free;
- a file: every line;
- parameters: those of public functions and methods of public modules, tests, `self` and `cls` apart;
- comments that silence the type checker: one for each 1,000 lines of Python, taken over all files together.

Generated code is apart. Complexity, print, inline and relative imports, the order of `__all__` are ruff's.
"""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools import tidy, tidy_text
from tools.files import ROOT, ignored_names, repository_files
from tools.tidy import Finding

RATCHET: dict[tuple[str, str], int] = {
    # Callers know it as next_retry_delay_ms(policy, attempt, rng).
    ("positional-parameters", "packages/harness/src/windlass_harness/retry.py::next_retry_delay_ms"): 3,
    # ASGI calls an application with scope, receive and send.
    ("positional-parameters", "packages/server/src/windlass_server/guard.py::Guard.__call__"): 3,
    ("positional-parameters", "packages/server/src/windlass_server/inspector.py::Pages.__call__"): 3,
    ("positional-parameters", "packages/server/src/windlass_server/streams.py::StreamResponse.__call__"): 3,
    # The recorder is called as it is documented elsewhere, and programs that do so exist.
    ("parameters", "packages/runtime/src/windlass/ledger/recorder.py::Runtime.decide"): 8,
    ("parameters", "packages/runtime/src/windlass/ledger/recorder.py::Runtime.record_outcome"): 8,
    ("positional-parameters", "packages/runtime/src/windlass/ledger/recorder.py::Runtime.decide"): 8,
    (
        "positional-parameters",
        "packages/runtime/src/windlass/ledger/recorder.py::Runtime.decide_and_execute",
    ): 5,
    ("positional-parameters", "packages/runtime/src/windlass/ledger/recorder.py::Runtime.end_run"): 3,
    (
        "positional-parameters",
        "packages/runtime/src/windlass/ledger/recorder.py::Runtime.quick_decision",
    ): 4,
    (
        "positional-parameters",
        "packages/runtime/src/windlass/ledger/recorder.py::Runtime.record_outcome",
    ): 8,
    (
        "positional-parameters",
        "packages/runtime/src/windlass/ledger/recorder.py::Runtime.report_problem",
    ): 5,
    ("positional-parameters", "packages/runtime/src/windlass/ledger/recorder.py::Runtime.start_run"): 3,
}
"""What is over a budget today: (rule, place) to the number found, each with its reason in a comment.

It may only shrink. The numbers are exact: whoever improves a place lowers its number or removes its line.
"""

PYTHON_FOLDERS = {"packages", "tools", "tests", "examples", "benchmarks"}


def text_of(path: Path) -> str:
    """The text of a file of the repository; bytes that are not text are left out."""
    return (ROOT / path).read_text(encoding="utf-8", errors="ignore")


def written_by_hand(suffix: str) -> list[Path]:
    """Files of that suffix that people write and budgets are about."""
    return [
        path
        for path in repository_files()
        if path.suffix == suffix and not tidy.is_generated(path) and path.parts[0] in PYTHON_FOLDERS
    ]


def measure() -> list[Finding]:
    """Everything in the repository that is over a budget."""
    findings: list[Finding] = []
    for path in repository_files():
        text = text_of(path)
        findings += tidy_text.check_words(path, text)
        if not tidy.is_generated(path):
            findings += tidy_text.check_comments(path, text)
        if tidy_text.is_script(path):
            findings += tidy_text.check_script(path, text)
            findings += tidy.check_file_lines(path, text)
    for path in written_by_hand(".py"):
        findings += tidy.check_python(path, text_of(path))
    return findings


def complaints(findings: Sequence[Finding], ratchet: Mapping[tuple[str, str], int]) -> list[str]:
    """What a person has to change so that the findings and the ratchet agree exactly."""
    found: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        found[finding.rule, finding.place] += finding.found
    wrong = [str(finding) for finding in findings if (finding.rule, finding.place) not in ratchet]
    for key, allowed in ratchet.items():
        rule, place = key
        if found[key] > allowed:
            wrong.append(f"{place}: {rule}: found {found[key]:,}, the ratchet allows {allowed:,}")
        elif found[key] < allowed:
            better = f"lower it to {found[key]:,}" if found[key] else "remove the entry"
            wrong.append(
                f"{place}: {rule}: the ratchet says {allowed:,} and that is no longer needed: {better}"
            )
    return wrong


def test_no_file_of_the_repository_is_over_a_budget() -> None:
    wrong = complaints(measure(), RATCHET)
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_runtime_package_offers_no_more_names_than_a_table_of_contents_holds() -> None:
    init = Path("packages/runtime/src/windlass/__init__.py")
    names = tidy.public_names(ast.parse(text_of(init)))
    limit = tidy.PUBLIC_NAMES_MAX
    assert len(names) <= limit, f"{init}:1: `import windlass`: found {len(names)} names, limit {limit}"


def test_the_type_checker_is_silenced_at_most_once_for_each_thousand_lines() -> None:
    sources = {path: text_of(path) for path in written_by_hand(".py")}
    lines = sum(len(text.splitlines()) for text in sources.values())
    silenced = [
        f"{path}:{line}" for path, text in sources.items() for line in tidy_text.type_exemptions(text)
    ]
    limit = lines // tidy_text.EXEMPTION_LINES_MIN
    assert len(silenced) <= limit, f"found {len(silenced)}, limit {limit} for {lines:,} lines:\n" + "\n".join(
        silenced
    )


# The checks themselves: each finds what it is for, one past its limit, and nothing at the limit.

MODULE = Path("packages/runtime/src/windlass/part.py")
TEST = Path("tests/runtime/test_part.py")


def rules(path: Path, text: str) -> list[tuple[str, int, int]]:
    """The rule, line and number of everything found in a file."""
    return [(finding.rule, finding.line, finding.found) for finding in tidy.check_python(path, text)]


def test_a_file_that_does_not_parse_is_reported_and_stops_nothing_else() -> None:
    assert rules(MODULE, "x = 1\ndef (") == [("does-not-parse", 2, 1)]
    assert not list(tidy_text.check_comments(MODULE, "def ("))


def function_of(lines: int) -> str:
    return "def work() -> None:\n" + "    act()\n" * (lines - 1)


def test_a_function_may_have_sixty_lines_and_not_one_more() -> None:
    assert rules(MODULE, function_of(60)) == []
    assert rules(MODULE, function_of(61)) == [("function-lines", 1, 61)]


def test_blank_lines_comments_and_docstrings_of_a_function_are_free() -> None:
    free = '    """Say.\n\n    More.\n    """\n\n    # why\n'
    head, _, body = function_of(60).partition("\n")
    assert rules(MODULE, f"{head}\n{free}{body}") == []
    assert rules(MODULE, f"{head}\n{free}{body}    act()\n") == [("function-lines", 1, 61)]


def test_the_lines_of_a_text_that_is_not_a_docstring_count() -> None:
    text = 'def work() -> str:\n    return """\n' + "line\n" * 58 + '"""\n'
    assert rules(MODULE, text) == [("function-lines", 1, 61)]


def test_a_method_and_an_inner_function_are_measured_too() -> None:
    inner = "".join(f"        {line}\n" for line in function_of(61).splitlines())
    text = f"class Thing:\n    def outer(self) -> None:\n{inner}"
    found = tidy.check_python(MODULE, text)
    assert [(finding.name, finding.found) for finding in found] == [
        ("Thing.outer", 62),
        ("Thing.outer.work", 61),
    ]


@pytest.mark.parametrize(("path", "limit"), [(MODULE, 400), (TEST, 800), (Path("web/x/test/a.test.ts"), 800)])
def test_a_file_may_be_as_long_as_its_limit_and_not_one_line_longer(path: Path, limit: int) -> None:
    assert not list(tidy.check_file_lines(path, "x = 1\n" * limit))
    over = list(tidy.check_file_lines(path, "x = 1\n" * (limit + 1)))
    assert [str(finding) for finding in over] == [
        f"{path}:{limit + 1}: file-lines: found {limit + 1:,}, limit {limit:,}"
    ]


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("def act(a, b, *, c, d, e, f): ...", []),
        ("def act(a, b, *, c, d, e, f, g): ...", [("parameters", 1, 7)]),
        ("async def act(a, b, c): ...", [("positional-parameters", 1, 3)]),
        ("def act(a, b, /, c): ...", [("positional-parameters", 1, 3)]),
        ("@overload\ndef act(a, b, c): ...", []),
        ("def _act(a, b, c): ...", []),
        ("class _Own:\n    def act(self, a, b, c): ...", []),
        ("class Own:\n    def act(self, a, b): ...", []),
        ("class Own:\n    def act(self, a, b, c): ...", [("positional-parameters", 2, 3)]),
        ("class Own:\n    def __init__(self, a, b, c): ...", [("positional-parameters", 2, 3)]),
        ("class Own:\n    def __exit__(self, a, b, c): ...", []),
        ("class Own:\n    @staticmethod\n    def act(a, b, c): ...", [("positional-parameters", 3, 3)]),
    ],
)
def test_parameters_are_few_and_named_after_two(signature: str, expected: list[tuple[str, int, int]]) -> None:
    assert rules(MODULE, signature) == expected
    assert rules(TEST, signature) == []
    assert rules(MODULE.with_name("_part.py"), signature) == []


def test_folders_go_two_deep_inside_a_package_and_not_three() -> None:
    assert rules(Path("packages/runtime/src/windlass/a/b/part.py"), "") == []
    assert rules(Path("packages/runtime/src/windlass/a/b/c/part.py"), "") == [("folder-depth", 1, 3)]


def test_the_first_line_of_a_docstring_has_at_most_eighty_characters() -> None:
    assert rules(MODULE, f'"""{"x" * 80}\n\n{"y" * 100}\n"""') == []
    assert rules(MODULE, f'class Own:\n    """{"x" * 81}"""') == [("docstring-first-line", 2, 81)]


@pytest.mark.parametrize(
    ("name", "text", "missing"),
    [
        ("part.py", "def act(): ...", None),
        ("part.py", "__all__ = ['act']\ndef act(): ...\ndef _own(): ...\nfrom windlass.b import B", None),
        (
            "part.py",
            "__all__ = ['act']\nLIMIT = 1\nSIZE: int = 2\nclass Own: ...\ndef act(): ...",
            "LIMIT,Own,SIZE",
        ),
        ("part.py", "__all__ = []\nT = TypeVar('T')", None),
        ("__init__.py", "from windlass.b import B", "B"),
        ("__init__.py", "from windlass.b import B\n__all__ = ['B']", None),
        ("__init__.py", "from windlass_harness import a as A, B\n__all__: list[str] = ['B']", "A"),
        ("__init__.py", "from os import path\n__all__ = []", None),
        ("__init__.py", '"""Nothing yet."""', None),
    ],
)
def test_a_list_of_exports_is_complete(name: str, text: str, missing: str | None) -> None:
    found = [(finding.rule, finding.name) for finding in tidy.check_python(MODULE.with_name(name), text)]
    assert found == ([] if missing is None else [("missing-in-all", missing)])


def test_the_public_names_of_a_module_without_a_list_are_those_without_an_underscore() -> None:
    assert tidy.public_names(ast.parse("from windlass.b import B\ndef act(): ...\n_own = 1")) == ["B", "act"]
    assert tidy.public_names(ast.parse("__all__ = ('B',)\ndef act(): ...")) == ["B"]


@pytest.mark.parametrize(
    ("comment", "is_fine"),
    [
        ("# pyright: ignore[reportX]  # the stubs say otherwise", True),
        ("# type: ignore[arg-type] the stubs are wrong", True),
        ("# pyright: ignore[reportX]", False),
        ("# pyright: ignore  # the stubs say otherwise", False),
        ("# type: ignore", False),
        ("# pyright: basic", False),
        ("# pyright: reportX=false", False),
        ("# noqa: BLE001 - the tool boundary", True),
        ("# noqa: BLE001, S102 - the tool boundary", True),
        ("# noqa: BLE001", False),
        ("# noqa because of reasons", False),
        ("# pragma: no cover - only on Windows", True),
        ("# pragma: no cover", False),
        ("# why this is so", True),
    ],
)
def test_a_comment_that_silences_a_check_names_the_rule_and_the_reason(comment: str, is_fine: bool) -> None:
    found = list(tidy_text.check_comments(MODULE, f"\nx = 1  {comment}\n"))
    assert [finding.line for finding in found] == ([] if is_fine else [2])


def test_every_way_to_silence_the_type_checker_counts() -> None:
    text = "# pyright: basic\nx = 1  # type: ignore[a]\ny = '# type: ignore'\nz = 2  # pyright: ignore[b]\n"
    assert tidy_text.type_exemptions(text) == [1, 2, 4]


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "XX" + "X"])
@pytest.mark.parametrize(
    ("name", "mark"), [("a.py", "#"), ("a.ts", "//"), ("a.toml", "#"), ("Makefile", "#")]
)
def test_work_left_undone_names_its_issue(word: str, name: str, mark: str) -> None:
    text = f"x = 1\ny = 2  {mark} {word}: later\n"
    assert [str(finding) for finding in tidy_text.check_comments(Path(name), text)] == [
        f"{name}:2: unfinished-without-issue: found 1, limit 0"
    ]
    assert not list(tidy_text.check_comments(Path(name), text.replace(word, f"{word}(#12)")))
    assert not list(tidy_text.check_comments(Path(name), f"x = '{word}'\n"))


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("see /wor" + "k/main", "path-of-one-machine"),
        ("see ../sha" + "red/design", "path-of-one-machine"),
        ("--index-url https://mirror.example/pypi/simp" + "le", "registry-address"),
        ("https://registry.npm" + "js.org/zod", "registry-address"),
        ('"resolved": "ht' + 'tps://example.com/zod.tgz"', "registry-address"),
    ],
)
def test_words_of_one_machine_and_addresses_of_registries_are_found_in_any_file(word: str, rule: str) -> None:
    found = list(tidy_text.check_words(Path("docs/page.md"), f"one\n{word}\n"))
    assert [(finding.rule, finding.line) for finding in found] == [(rule, 2)]


@pytest.mark.parametrize(
    "text", ["src/wor" + "k/x", "https://example.com/simp" + "ler", '"resolved": "web/harness"']
)
def test_words_that_only_look_alike_are_left_alone(text: str) -> None:
    assert not list(tidy_text.check_words(Path("a.md"), text))


def test_lock_files_that_hold_addresses_may_not_be_there() -> None:
    assert [finding.rule for finding in tidy_text.check_words(Path("uv.lock"), "")] == ["foreign-lock-file"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("const x: any = 1;", [1]),
        ("const x = y as any;", [1]),
        ("\nconst x: Array<any> = [];", [2]),
        ("function f(a: string | any[]) {}", [1]),
        ("/* one\n: any */\n// : any\nconst x = ': any' + `: any`;\nconst y: unknown = z.any();", []),
        ("const x: anything = many;", []),
        ("// eslint-disable-next-line no-console", [1]),
        ("// eslint-disable-next-line no-console -- a command line tool", []),
        ("// @ts-ignore -- it is wrong", [1]),
        ("// @ts-expect-error -- the test is about wrong types", []),
    ],
)
def test_typescript_has_no_any_and_no_silenced_check_without_a_reason(text: str, lines: list[int]) -> None:
    assert [finding.line for finding in tidy_text.check_script(Path("a.ts"), text)] == lines


OVER = Finding("file-lines", Path("a.py"), 410, 410, 400)


@pytest.mark.parametrize(
    ("ratchet", "complaint"),
    [
        ({}, "a.py:410: file-lines: found 410, limit 400"),
        ({("file-lines", "a.py"): 410}, None),
        ({("file-lines", "a.py"): 405}, "a.py: file-lines: found 410, the ratchet allows 405"),
        ({("file-lines", "a.py"): 420}, "the ratchet says 420 and that is no longer needed: lower it to 410"),
    ],
)
def test_the_ratchet_is_exact(ratchet: dict[tuple[str, str], int], complaint: str | None) -> None:
    wrong = complaints([OVER], ratchet)
    assert (not wrong) if complaint is None else complaint in wrong[0]


def test_a_ratchet_entry_for_what_is_fine_now_has_to_go() -> None:
    assert "remove the entry" in complaints([], {("file-lines", "b.py"): 500})[0]


def test_the_files_of_the_repository_are_those_that_git_would_not_ignore(tmp_path: Path) -> None:
    for name in (".git/config", "kept/a.py", "kept/dist/b.js", "c.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("# made\n\ndist/\n*.pyc\n", encoding="utf-8")
    assert repository_files(tmp_path) == (Path(".gitignore"), Path("kept/a.py"))


@pytest.mark.parametrize("line", ["/build", "a/b", "!kept"])
def test_a_gitignore_line_that_we_cannot_read_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="plain name"):
        ignored_names(line)
