"""Which files belong to the repository."""

from pathlib import Path

import pytest

from tools.files import ignored_names, repository_files


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
