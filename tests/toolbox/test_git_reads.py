"""Reads of git that are graded safe run no program that a repository names, whatever its settings."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from tests.depth import some_of
from tests.harness.shell.corpus import rows
from tests.harness.shell.safe_runs import VALUES
from tests.toolbox.rig import play, tool_of, use

from windlass.sandboxes.none import HostSandbox
from windlass.toolbox import Workspace
from windlass.toolbox.shell import text_to_run
from windlass_harness.shell import classify_shell_command, programs

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

PROGRAM = "$RUN"
"""Stands for a program that leaves a mark; `$FILE` stands for a file outside of the repository."""
SETTINGS = {
    # what `git help --config` lists that names a program
    "alias": '[alias] status = "!$RUN"\nlog = "!$RUN"',
    "alternate refs": "[core] alternateRefsCommand = $RUN",
    "ask for a password": "[core] askPass = $RUN",
    "browser": '[browser "x"] cmd = $RUN\n[web] browser = x\n[help] browser = x',
    "credentials": "[credential] helper = $RUN",
    "diff driver": '[diff "x"] command = $RUN',
    "diff tool": '[diff] tool = x\nguitool = x\n[difftool "x"] cmd = $RUN',
    "editor": "[core] editor = $RUN\n[sequence] editor = $RUN",
    "external diff": "[diff] external = $RUN",
    "filter": '[filter "x"] clean = $RUN\nsmudge = $RUN',
    "filter like LFS": '[filter "x"] process = $RUN\nclean = $RUN\nrequired = true',
    "monitor": "[core] fsmonitor = $RUN",
    "hooks": "[core] hooksPath = $BIN",
    "hooks of settings": '[hook "x"] command = $RUN\nevent = post-index-change',
    "interactive": "[interactive] diffFilter = $RUN",
    "man": '[man] viewer = x\n[man "x"] cmd = $RUN',
    "merge driver": '[merge "x"] driver = $RUN\nname = x\n[merge] default = x\n[log] diffMerges = remerge',
    "merge tool": '[merge] tool = x\n[mergetool "x"] cmd = $RUN',
    "pager": "[core] pager = $RUN\n[pager] log = $RUN\ndiff = $RUN\nbranch = $RUN\nstatus = $RUN",
    "proxy": "[core] gitProxy = $RUN",
    "signatures in log": "[gpg] program = $RUN\n[log] showSignature = true",
    "signatures in a format": "[gpg] program = $RUN\n[format] pretty = %G? %s",
    "signatures in a named format": "[gpg] program = $RUN\n[pretty] x = %G? %s\n[format] pretty = x",
    "signatures of other kinds": '[gpg "openpgp"] program = $RUN\n[gpg "ssh"] program = $RUN\n'
    'defaultKeyCommand = $RUN\n[gpg "x509"] program = $RUN\n[format] pretty = %GG %s',
    "sorted by signatures": "[gpg] program = $RUN\n[branch] sort = signature:grade\n[tag] sort = signature",
    "ssh": "[core] sshCommand = $RUN",
    "stash shown as a patch": '[stash] showPatch = true\n[diff "x"] textconv = $RUN\n[diff] external = $RUN',
    "submodule in a diff": "[diff] submodule = diff",
    "submodule in a log": "[diff] submodule = log",
    "submodule in a status": "[status] submoduleSummary = true\n[submodule] recurse = true",
    "submodule looked at": "[diff] ignoreSubmodules = none\n[submodule] recurse = true",
    "submodule looked at by its name": '[submodule "sub"] ignore = none\nupdate = !$RUN',
    "text conversion": '[diff "x"] textconv = $RUN\ncachetextconv = true',
    "trailer": '[trailer "x"] command = $RUN\ncmd = $RUN',
    "upload": "[uploadpack] packObjectsHook = $RUN\n[receive] procReceiveRefs = x",
    # settings that lead to others
    "an included file": "[include] path = more\n",
    "an included file if": '[includeIf "gitdir:**"] path = more\n',
    "settings of a work tree": "[extensions] worktreeConfig = true",
    # objects that are missing, and a remote that promises them
    "partial clone over ssh": "[extensions] partialClone = origin\n[core] sshCommand = $RUN\n"
    '[remote "origin"] promisor = true\nurl = ssh://host/x\npartialCloneFilter = blob:none',
    "partial clone of a folder": "[extensions] partialClone = origin\n"
    '[remote "origin"] promisor = true\nurl = $FILE\nuploadpack = $RUN',
    "partial clone by a helper": "[extensions] partialClone = origin\n[protocol] allow = always\n"
    '[remote "origin"] promisor = true\nurl = ext::$RUN',
    "partial clone by a named helper": "[extensions] partialClone = origin\n[protocol] allow = always\n"
    '[remote "origin"] promisor = true\nvcs = ext\nurl = $RUN\nreceivepack = $RUN',
    "partial clone over git": "[extensions] partialClone = origin\n[core] gitProxy = $RUN\n"
    '[remote "origin"] promisor = true\nurl = git://host/x',
}
SHOWN = {
    "revisions to ignore": "[blame] ignoreRevsFile = $FILE",
    "names of people": "[mailmap] file = $FILE\n[log] mailmap = true",
    "ignored files": "[core] excludesFile = $FILE",
    "order of files": "[diff] orderFile = $FILE",
}
"""Settings that name a file, which git reads wherever it is."""
INCLUDED = """
[filter "x"]
clean = $RUN
[diff "x"]
textconv = $RUN
[diff]
external = $RUN
[core]
fsmonitor = $RUN
"""
POWERLESS = {
    # They name programs of commands that are not in the language, or of a terminal.
    *("alias", "alternate refs", "ask for a password", "browser", "credentials", "diff tool", "editor"),
    *("hooks", "interactive", "man", "merge tool", "pager", "proxy", "ssh", "trailer", "upload"),
    "hooks of settings",
}
SINCE = {"sorted by signatures": (2, 43)}
"""Versions of git that first run the program of a setting."""
CORE = """
git status
git status --porcelain -uall
git diff
git diff --cached --stat
git diff HEAD~1
git diff --word-diff HEAD~1 -- a.txt
git log
git log -p -3
git log -m -p
git log --stat --all
git log --oneline --graph --all
git log -S two
git show
git show HEAD
git show -m merged
git show --cc merged
git show v1
git show HEAD:a.txt
git blame a.txt
git blame -L 1,2 a.txt
git grep -n one
git grep -n one HEAD
git ls-files -m
git ls-files -o --exclude-standard
git ls-tree -r HEAD
git cat-file -p HEAD:a.txt
git name-rev HEAD
git stash list
git stash show
git shortlog -sne HEAD
git describe --tags --always
git branch -avv
git tag -n
git rev-list --all --count
git rev-parse HEAD
git check-ignore -v a.txt
git remote
git worktree list
git -C sub status
git -C sub diff
""".strip().split("\n")


def forms() -> Iterator[str]:
    """Every subcommand of the language with each of its options, and with an operand."""
    for name, (options, operands) in programs.GIT.items():
        for entry in ("", *options.split()):
            option, mark, kind = (
                re.split("([=:@])", entry)[:3] if re.search("[=:@]", entry) else (entry, "", "")
            )
            glue = "" if mark == ":" and not option.startswith("--") else "=" if mark == ":" else " "
            word = f"{option}{glue}'{VALUES.get(kind, 'x')}'" if mark else option.replace("-#", "-2")
            for operand in ("", " HEAD") if operands else ("",):
                yield f"git {name} {word}{operand}".replace("  ", " ").strip()


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    words = ["git", *identity, *arguments]
    done = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def signed(folder: Path) -> None:
    """Give the last commit something that looks like a signature."""
    text = git(folder, "cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    (folder / "commit").write_text(text)
    made = git(folder, "hash-object", "-t", "commit", "-w", "commit").strip()
    (folder / "commit").unlink()
    git(folder, "reset", "-q", "--soft", made)


def make_repository(folder: Path) -> None:
    """Make a repository with attributes, a conflict, a stash, a signature, a replacement and a submodule."""
    folder.mkdir()
    git(folder, "init", "-qb", "main")
    (folder / ".gitattributes").write_text("*.txt diff=x filter=x merge=x\n")
    _commit(folder, "one\ntwo\n")
    git(folder, "checkout", "-qb", "side")
    _commit(folder, "one\nside\n")
    git(folder, "checkout", "-q", "main")
    _commit(folder, "one\nmain\n")
    try:
        git(folder, "merge", "-q", "side")
    except subprocess.CalledProcessError:
        _commit(folder, "one\nboth\n")
    git(folder, "tag", "merged")
    git(folder, "tag", "-a", "-m", "v1", "v1")
    child = folder.with_name("child")
    child.mkdir()
    git(child, "init", "-qb", "main")
    (child / ".gitattributes").write_text("*.txt diff=x filter=x\n")
    _commit(child, "one\n")
    git(folder, "submodule", "--quiet", "add", str(child), "sub")
    for word in ("replaced", "replacing", "last"):
        _commit(folder, f"one\n{word}\n")
    signed(folder)
    (folder / "a.txt").write_text("one\nstashed\n")
    git(folder, "stash", "-q")
    git(folder, "replace", "HEAD~2", "HEAD~1")
    (folder / "a.txt").write_text("one\nchanged\n")
    (folder / "sub" / "a.txt").write_text("one\nchanged\n")


def _commit(folder: Path, text: str) -> None:
    (folder / "a.txt").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", text.split()[-1])


def plant(folder: Path, setting: str) -> Path:
    """Write a setting into a repository and its submodule; return the file that its program makes."""
    bin_folder, ran = folder.with_name("bin"), folder.with_name("ran")
    bin_folder.mkdir(exist_ok=True)
    hooks = "post-index-change fsmonitor-watchman reference-transaction pre-auto-gc post-checkout".split()
    for name in ("run", *hooks):
        (bin_folder / name).write_text(f'#!/bin/sh\necho $0 "$@" >> {ran}\nexit 1\n')
        (bin_folder / name).chmod(0o755)
    outside = folder.with_name("outside")
    outside.write_text("CANARY <canary@example.com> <a@example.com>\nCANARY-LINE\na.txt\n")
    text = f"\n{setting}\n"
    for mark, path in (("$RUN", bin_folder / "run"), ("$BIN", bin_folder), ("$FILE", outside)):
        text = text.replace(mark, str(path))
    more = INCLUDED.replace("$RUN", str(bin_folder / "run"))
    below = folder / ".git" / "modules" / "sub"
    for place in (folder / ".git", below):
        with (place / "config").open("a") as file:
            file.write(f"{text}{more}" if place == below and "submodule" in setting.lower() else text)
        (place / "more").write_text(more)
        if "worktreeConfig" in setting:
            old = (place / "config.worktree").read_text() if (place / "config.worktree").exists() else ""
            (place / "config.worktree").write_text(old + more)
    if "partialClone" in setting:
        # The blob of the first commit is missing.
        blob = git(folder, "rev-parse", "merged~1:a.txt").strip()
        git(folder, "config", "core.repositoryFormatVersion", "1")
        (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return ran


def read(folder: Path, commands: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """Run commands with the tool, one after another; return all that they print."""
    tool = tool_of(Workspace(folder, environment=environment), "bash")
    batches = [commands[at : at + BATCH] for at in range(0, len(commands), BATCH)]
    # The job in the background keeps the whole from being one safe command, which may print less.
    texts = ["".join(f"{command};\n" for command in batch) for batch in batches]
    if environment == PLAIN:
        texts = [f'git() {{ {shutil.which("git")} "$@"; }}\n{text}' for text in texts]
    return "".join(str(play(use(tool, {"command": f"{text}true &", "timeout_s": 60}))) for text in texts)


BATCH = 100
PLAIN = {
    "GIT_CONFIG_COUNT": "",
    "GIT_NO_LAZY_FETCH": "0",
}
"""Variables that take the protection away; so does a function that runs git itself."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git") / "repository"
    make_repository(folder)
    return folder.parent


def safe_git_commands() -> list[str]:
    """Return the commands of the corpora that are safe and use git."""
    files = ("corpus.tsv", "more.tsv", "unseen.tsv", "bypasses.tsv", "attacks.tsv", "everyday.tsv")
    commands = [*CORE, *(row.command for name in files for row in rows(name))]
    return [
        command
        for command in dict.fromkeys(commands)
        if "git" in command.split()
        and "sleep" not in command
        and classify_shell_command(command).severity == "safe"
    ]


def test_no_safe_read_writes_the_index(repository: Path, tmp_path: Path) -> None:
    folder = copied(repository, tmp_path)
    index = folder / ".git" / "index"
    # Its content is as it was, which git writes into the index.
    git(folder, "checkout", "-q", "--", "a.txt")
    os.utime(folder / "a.txt", (1_577_836_800, 1_577_836_800))
    commands = ["true", *safe_git_commands()]
    assert len(commands) > 200
    stamp = f"stat -c %Y-%i {index}; cksum < {index}; ls -A .git"
    (folder.parent / "script").write_text(
        "\n".join(
            f"(\n{text_to_run(command, folder)}\n) > /dev/null 2>&1; {stamp}; echo ==="
            for command in commands
        )
    )
    output = bytearray()
    play(HostSandbox(folder).run(f"bash {folder.parent / 'script'}", timeout_s=900, output=output.extend))
    stamps = output.decode().split("===\n")[:-1]
    assert len(stamps) == len(commands)
    assert [command for command, text in zip(commands, stamps, strict=True) if text != stamps[0]] == []
    before = index.read_bytes()
    git(folder, "diff")
    assert index.read_bytes() != before, "git itself does not write it"


def test_an_index_in_parts_is_not_written(repository: Path, tmp_path: Path) -> None:
    folder = copied(repository, tmp_path)
    git(folder, "checkout", "-q", "--", "a.txt")
    git(folder, "config", "core.splitIndex", "true")
    git(folder, "update-index", "--split-index")
    os.utime(folder / "a.txt", (1_577_836_800, 1_577_836_800))

    def parts() -> list[tuple[str, bytes]]:
        return [(path.name, path.read_bytes()) for path in sorted((folder / ".git").glob("*index*"))]

    before = parts()
    assert len(before) > 1
    tool = tool_of(Workspace(folder), "bash")
    for command in ("git diff --stat", "git diff HEAD", "git -C sub diff", "git status"):
        play(use(tool, {"command": command}))
    assert parts() == before
    git(folder, "diff")
    assert parts() != before, "git itself does not write it"


def test_a_file_that_was_only_touched_is_no_difference(repository: Path, tmp_path: Path) -> None:
    folder = copied(repository, tmp_path)
    git(folder, "checkout", "-q", "--", "a.txt")
    os.utime(folder / "a.txt", (1_577_836_800, 1_577_836_800))
    tool = tool_of(Workspace(folder), "bash")
    for words in ("", "--name-only", "--raw", "HEAD --name-status", "--exit-code"):
        answer = cast(Mapping[str, object], play(use(tool, {"command": f"git diff {words}"})))
        assert "a.txt" not in str(answer["output"]), words
        assert answer["exit_code"] == 0
    (folder / "new").mkdir()
    git(folder / "new", "init", "-q")
    assert play(use(tool, {"command": "git -C new diff --stat"})) == {"exit_code": 0, "output": ""}


def copied(repository: Path, folder: Path) -> Path:
    shutil.copytree(repository, folder / "copy", symlinks=True)
    return folder / "copy" / "repository"


def test_the_forms_that_are_tried_are_safe() -> None:
    assert [one for one in CORE if classify_shell_command(one).severity != "safe"] == []


@pytest.mark.promise("S2")
@pytest.mark.parametrize("kind", SETTINGS)
def test_no_safe_read_runs_the_program_of_a_setting(kind: str, repository: Path, tmp_path: Path) -> None:
    folder = copied(repository, tmp_path)
    ran = plant(folder, SETTINGS[kind])
    output = read(folder, CORE)
    assert not ran.exists(), ran.read_text()
    assert "one" in output, output
    read(folder, CORE, PLAIN)
    version = tuple(map(int, re.findall(r"\d+", git(folder, "--version"))[:2]))
    is_powerless = kind in POWERLESS or version < SINCE.get(kind, (0,))
    assert ran.exists() != is_powerless, "whether git runs it by itself is not as it was"


@pytest.mark.promise("S2")
@pytest.mark.parametrize("kind", SHOWN)
def test_no_safe_read_shows_a_file_that_a_setting_names(kind: str, repository: Path, tmp_path: Path) -> None:
    folder = copied(repository, tmp_path)
    plant(folder, SHOWN[kind])
    assert "CANARY" not in read(folder, CORE).upper().replace("CANARY-LINE/", "")


@pytest.mark.slow
@pytest.mark.promise("S2")
def test_no_form_of_the_language_runs_a_program_of_all_settings_together(
    repository: Path, tmp_path: Path
) -> None:
    folder = copied(repository, tmp_path)
    together = [
        SETTINGS[kind] for kind in SETTINGS if "partial" not in kind and "pretty" not in SETTINGS[kind]
    ]
    ran = plant(folder, "\n".join(together))
    safe = [one for one in dict.fromkeys(forms()) if classify_shell_command(one).severity == "safe"]
    assert len(safe) > 500
    read(folder, list(some_of(safe)))
    assert not ran.exists(), ran.read_text()
