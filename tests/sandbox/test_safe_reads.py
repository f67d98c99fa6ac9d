"""Safe reads of git in a sandbox show no credentials of the folder, whatever its repository names."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.sandbox.rig import attack, require_bwrap

from windlass.toolbox.shell import text_to_run

pytestmark = [
    pytest.mark.promise("S2"),
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git"),
]
WAYS = {
    "a note": "git log -1",
    "a replacement": "git show HEAD:a.txt",
    "a text conversion": "git blame a.txt",
    "an external program of diff": "git diff",
    "a filter": "git diff",
    "a file of revisions to ignore": "git blame HEAD -- a.txt",
}
"""Ways to show another file, and the command that shows it."""
SETTINGS = {
    "a text conversion": '[diff "x"]\ntextconv = "cat .env; true"\n',
    "an external program of diff": '[diff]\nexternal = "cat .env; true"\n',
    "a filter": '[filter "x"]\nclean = cat .env\n',
    "a file of revisions to ignore": "[blame]\nignoreRevsFile = .env\n",
}


def git(folder: Path, *arguments: str) -> str:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("way", WAYS)
def test_a_safe_read_of_git_shows_no_credentials_by_what_a_repository_names(way: str, tmp_path: Path) -> None:
    require_bwrap()
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-qb", "main")
    for name, text in ((".env", "CANARY\nx\n"), (".gitattributes", "*.txt diff=x filter=x\n")):
        (folder / name).write_text(text)
    for word in ("one", "two"):
        (folder / "a.txt").write_text(f"{word}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", word)
    (folder / "a.txt").write_text("three\n")
    secret = git(folder, "rev-parse", "HEAD:.env")
    match way:
        case "a note":
            git(folder, "notes", "add", "-C", secret)
        case "a replacement":
            git(folder, "replace", git(folder, "rev-parse", "HEAD:a.txt"), secret)
        case _:
            with (folder / ".git" / "config").open("a") as settings:
                settings.write(SETTINGS[way])

    raw = attack(WAYS[way], folder).output
    safe = attack(text_to_run(WAYS[way], folder), folder).output
    assert "CANARY" in raw, "git itself does not show it"
    assert "CANARY" not in safe
    assert safe, "nothing is shown"
