"""How a safe command is run: the paths that it opens, and the names that it leaves out."""

import re
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.shell import classify_shell_command
from windlass_harness.shell.credentials import have_common_name, may_reach_secret
from windlass_harness.shell.reads import FileRead, read_of

BELOW = '"${below_this_folder[@]}"'
LEFT_OUT = '"${left_out_of_git[@]}"'


def text_of(command: str) -> str:
    """The text that runs, without the lists before it."""
    read = read_of(command)
    assert read is not None
    return read.text.rpartition("\n")[2]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ls -R src", "ls -R src"),
        ("grep x a.txt", "grep x a.txt"),
        ("grep -rn x src", 'grep -rn x src "${left_out_of_grep[@]}"'),
        ("grep --recursive x src 2>/dev/null | head", None),
        ("grep -Rn x", 'grep -rn x "${left_out_of_grep[@]}"'),
        ("grep -e -r a.txt", None),
        ("grep -eERROR a.txt", "grep -eERROR a.txt"),
        ("grep -Re'READ' src", None),
        ("grep -R -eREAD src", 'grep -r -eREAD src "${left_out_of_grep[@]}"'),
        ("egrep -r --include='*' x -- src", "egrep -r --include='*' x \"${left_out_of_grep[@]}\" -- src"),
        ("rg -g '*' x", "rg -g '*' x --no-messages --no-ignore-messages \"${left_out_of_rg[@]}\""),
        (
            "diff src docs",
            "diff src docs --no-dereference -X <(printf '%s\\n' \"${left_out_of_diff[@]}\")",
        ),
        ("python -V 2>&1 | head", "(cd / && python -V) 2>&1 | head"),
        ("gcc --version && node -v < a", "(cd / && gcc --version) && (cd / && node -v) < a"),
        ("git status", "git status"),
        ("git log -3", "git log -3"),
        (
            "git log -p -3 > /dev/null",
            'git log "${below_this_folder[@]}" -p -3 "${left_out_of_git[@]}" > /dev/null',
        ),
        ("git log --follow -- a.txt", "git log --follow -- a.txt"),
        ("git log -p --follow -- a.txt", None),
        ("git show --follow -- a.txt", None),
        ("git diff --stat", "git_of_commits diff '' 1 HEAD diff --stat"),
        (
            "git diff --stat -p",
            f"git_of_commits diff '' 1 HEAD diff {BELOW} --stat -p {LEFT_OUT}",
        ),
        (
            "git diff HEAD -- src",
            f"git_of_commits diff '' 1 HEAD diff {BELOW} HEAD -- src {LEFT_OUT}",
        ),
        (
            "git -C src -C b show abc123",
            f"git_of_commits show src/b 4 HEAD src b abc123 -C src -C b show {BELOW} abc123 {LEFT_OUT}",
        ),
        ("git show --stat -- abc123", "git_of_commits show '' 1 HEAD show --stat -- abc123"),
        (
            "git diff --stat a..b",
            "git_of_commits diff '' 4 HEAD a..b a b diff --stat a..b",
        ),
        (
            "git diff --stat '^x...v1^{tree}'",
            "git_of_commits diff '' 4 HEAD x...v1 x v1 diff --stat '^x...v1^{tree}'",
        ),
        ("git cat-file -t abc123", "git cat-file -t abc123"),
        ("git cat-file -p :a.txt", "git_of_commits cat-file '' 1 HEAD cat-file -p :a.txt"),
        ("git cat-file -p v1:a.txt", "git_of_commits cat-file '' 2 HEAD v1 cat-file -p v1:a.txt"),
        ("git cat-file -p -- v1", "git_of_commits cat-file '' 2 HEAD v1 cat-file -p -- v1"),
        (
            "git show -s 'v1@{10:00..}:a.txt'",
            "git_of_commits show '' 4 HEAD 'v1@{10:00..}' 'v1@{10:00' '}' show -s 'v1@{10:00..}:a.txt'",
        ),
        ("git grep -n x", "git_of_commits grep '' 1 HEAD grep -n x \"${left_out_of_git[@]}\""),
        (
            "git grep --name-only x",
            "git_of_commits grep '' 1 HEAD grep --name-only x \"${left_out_of_git[@]}\"",
        ),
        (
            "git log --oneline -S x",
            'git log "${below_this_folder[@]}" --oneline -S x "${left_out_of_git[@]}"',
        ),
        (
            "git log --oneline -Gx --stat",
            'git log "${below_this_folder[@]}" --oneline -Gx --stat "${left_out_of_git[@]}"',
        ),
        ("git log --follow -S x -- a.txt", None),
        ("which -a python | head -1", "PATH=$search_path type -P -a python | head -1"),
        ("type ls; command -v git", "PATH=$search_path type ls; PATH=$search_path command -v git"),
        ("git show --all", None),
        ("git show --tags -s", None),
    ],
)
def test_a_read_through_a_folder_or_a_history_leaves_names_out(command: str, text: str | None) -> None:
    assert classify_shell_command(command).severity == (
        "safe" if text or "recursive" in command else "caution"
    )
    if text is not None:
        assert text_of(command) == text


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git show HEAD:a.txt; cat a:b", ("HEAD:a.txt",)),
        ("git diff -- :/a.txt", (":/a.txt",)),
        ("git grep x HEAD: -- a.txt", ("HEAD:",)),
        ("git cat-file -p :a", (":a",)),
        ("git show HEAD:./a.txt", ()),
        ("git show 'HEAD@{10:00}:./a.txt'", ("HEAD@{10:00}:./a.txt",)),
        ("git blame -- a:b; git log --format='%h: %s'", ()),
    ],
)
def test_a_read_says_which_words_of_git_name_paths_from_its_top(command: str, words: tuple[str, ...]) -> None:
    read = read_of(command)
    assert read is not None
    assert read.from_top == words


def test_each_list_stands_once_before_the_command() -> None:
    read = read_of("git diff; git show; grep -r x .; git diff")
    assert read is not None
    assert read.text.count("left_out_of_git=(") == read.text.count("left_out_of_grep=(") == 1
    assert "--exclude=id_rsa" in read.text
    assert "--exclude-dir=.ssh" in read.text
    assert "'**/id_rsa'" not in read.text
    assert "':(top,exclude,icase,glob)**/id_rsa'" in read.text
    assert "left_out_of_rg" not in read.text


def test_names_become_patterns() -> None:
    read = read_of("grep -r x .")
    assert read is not None
    assert "'--exclude=a*b*x*.token'" in read.text_without(["a b'[x].token"])


def test_patterns_of_words_in_any_case_stand_for_names_that_were_not_seen() -> None:
    read = read_of("grep -r x .; rg x")
    assert read is not None
    text = read.text_without([], has_unseen=True)
    assert "'--exclude=*[tT][oO][kK][eE][nN]*.[tT][oxOX]*'" in text
    assert "'--iglob=!*token*.t[ox]*'" in text


def test_a_group_without_letters_is_the_same_in_any_case() -> None:
    read = read_of("grep -r x .")
    assert read is not None
    folders = re.findall(r"--exclude-dir=([^']*)", read.text_without([], has_unseen=True))
    assert "*[sS][eE][cC][rR][eE][tT]" in folders
    assert "*[sS][eE][cC][rR][eE][tT][-_.~]*" in folders


def test_a_command_that_is_not_safe_has_no_read() -> None:
    assert read_of("rm x") is None
    assert read_of("grep -r x . > y") is None


def test_the_paths_are_those_of_operands_and_redirections_in_each_folder_of_the_command() -> None:
    read = read_of("cat a.txt 'b c' < d; cd src && wc -l *.py; grep -e x y; test -f z; rev -")
    assert isinstance(read, FileRead)
    seen = [(path.text, path.is_pattern, path.shows_names_only, path.folders) for path in read.paths]
    both = ("", "src/")
    assert seen == [
        ("d", False, False, ("",)),
        ("a.txt", False, False, ("",)),
        ("b c", False, False, ("",)),
        ("src", False, True, ("",)),
        ("*.py", True, False, both),
        ("y", False, False, both),
        ("z", False, False, both),
        ("-", False, False, both),
    ]


@pytest.mark.parametrize(
    ("command", "folders"),
    [
        ("ls", ()),
        ("git status", ("",)),
        ("git --version", ("",)),
        ("cd src; git status; cd a && git -C b log", ("", "src/", "b", "src/b", "a/b", "src/a/b")),
        ("git -P -C src log | grep x; git -C a -C b diff", ("src", "a/b")),
    ],
)
def test_a_read_says_in_which_folders_git_runs(command: str, folders: tuple[str, ...]) -> None:
    read = read_of(command)
    assert read is not None
    assert read.repositories == folders


@pytest.mark.parametrize(
    "name",
    [
        "src",
        "*.md",
        "docs/*.py",
        "*/*.ts",
        "*.log",
        "data/*.csv",
        "*/*.yml",
        "src/*.html",
        "a*b.cfgx",
        "requirements*.txt",
        "reqs/requirements-*.txt",
    ],
)
def test_a_pattern_of_ordinary_names_reaches_no_secret(name: str) -> None:
    assert not may_reach_secret(name.split("/"))


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "i*",
        "src/*",
        "*.json",
        "*.txt",
        "re*.txt",
        "secrets*.txt",
        "tokens-*.json",
        "req*s*.json",
        "s*/x",
        "[ij]d_rsa",
        "ID_*",
        "?d_rsa",
        "*.p?m",
        "a" * 256 + "*",
    ],
)
def test_a_pattern_that_may_match_a_secret_reaches_it(name: str) -> None:
    assert may_reach_secret(name.split("/"))


NAMES = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
PATTERNS = st.text("ab*?", max_size=5)


@given(PATTERNS, PATTERNS)
def test_patterns_overlap_if_a_name_matches_both(one: str, other: str) -> None:
    together = [name for name in NAMES if fnmatchcase(name, one) and fnmatchcase(name, other)]
    if together:
        assert have_common_name(one, other)
    # A name that both match is no longer than both patterns together.
    elif len(one) + len(other) < 5:
        assert not have_common_name(one, other)


def test_brackets_count_as_any_character() -> None:
    assert have_common_name("[x]a", "ba")
    assert have_common_name("a[]]", "ab")
    assert not have_common_name("[x]a", "a")
