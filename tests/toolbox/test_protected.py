"""Files that make other programs run code: the list, and links that lead to them."""

from pathlib import Path

import pytest
from tests.toolbox.rig import Failed, play, text, tool_of

from windlass.toolbox import Workspace
from windlass.toolbox.protected import is_protected
from windlass_protocol import ApprovalRule

PROTECTED = [
    *(".git/hooks/pre-commit", ".gitconfig", ".gitattributes", ".gitmodules", ".github/workflows/ci.yml"),
    *(
        ".npmrc",
        ".envrc",
        ".vscode/tasks.json",
        "conftest.py",
        "sitecustomize.py",
        "windlass.toml",
        "Makefile",
    ),
    *("package.json", "deep/er/package.json", "GNUmakefile", "makefile.local", "rules.mk", "evil.pth"),
    *(".bashrc", ".zshenv", ".config/git/config", ".ssh/config", "vite.config.ts", ".husky/pre-commit"),
    *("node_modules/left-pad/index.js", ".venv/lib/x.py", "a/__pycache__/b.pyc", "Dockerfile.dev", ".env"),
    # as a case-insensitive or lenient file system reads them
    *("MAKEFILE", "Package.JSON", ".VSCode/tasks.json", "conftest.py.", "makefile ", "conftest.py:stream"),
    *("con\u200dftest.py", "\uff2dakefile", ".N\u200cPMRC", "./sub/../Makefile", "sub/./.envrc"),
]
FREE = [
    *("notes.md", "src/main.py", "test_it.py", "data/package.json.txt", "makefiles/a.txt", "build/out.txt"),
    *("git/readme", "my.gitconfig.md", "env", "docs/vscode.md", "config/a.json", "", "workspace/a.txt"),
]


def needs_consent(workspace: Workspace, path: str) -> bool:
    return tool_of(workspace, "write_file").approval_for({"path": path}) is ApprovalRule.ALWAYS


@pytest.mark.promise("S2")
def test_paths_of_files_that_make_other_programs_run_code_need_consent(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert [path for path in PROTECTED if not needs_consent(workspace, path)] == []
    assert [path for path in PROTECTED if not needs_consent(workspace, f"{tmp_path}/{path}")] == []
    assert [path for path in FREE if needs_consent(workspace, path)] == []
    # The folders above the workspace do not count.
    (tmp_path / ".config").mkdir()
    assert not needs_consent(Workspace(tmp_path / ".config"), "notes.md")
    assert not is_protected([])


@pytest.mark.promise("S2")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_no_link_leads_to_such_a_file_without_consent(kind: str, tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "tasks.json").write_text("old")
    if kind == "file":
        (tmp_path / "notes.json").symlink_to(".vscode/tasks.json")
    else:
        (tmp_path / "docs").symlink_to(".vscode")
    path = "notes.json" if kind == "file" else "docs/tasks.json"
    workspace = Workspace(tmp_path)
    assert not needs_consent(workspace, path)

    async def story() -> str:
        await text(tool_of(workspace, "read_file"), path=path)
        with pytest.raises(Failed, match="makes other programs run code; write it by that name") as caught:
            await text(tool_of(workspace, "write_file"), path=path, content="new")
        # By its name it is written, after the consent.
        await text(tool_of(workspace, "read_file"), path=".vscode/tasks.json")
        await text(tool_of(workspace, "write_file"), path=".vscode/tasks.json", content="new")
        return str(caught.value)

    assert ".vscode/tasks.json" in play(story())
    assert (tmp_path / ".vscode" / "tasks.json").read_text() == "new"
