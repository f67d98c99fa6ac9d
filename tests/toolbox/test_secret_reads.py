"""Commands that are graded safe show no credentials, and nothing outside of the folder, when bash runs them.

A file with an ordinary name may hold a secret too: no name says so, and redaction is the net there.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from tests.depth import some
from tests.harness.shell.corpus import rows
from tests.harness.shell.safe_runs import safe_commands
from tests.toolbox.rig import Failed, play, tool_of, use

from windlass.ports.sandbox import NO_VARIABLES
from windlass.sandboxes.none import HostSandbox
from windlass.toolbox import Workspace, shell
from windlass.toolbox.limits import PATTERN_NAMES_MAX
from windlass.toolbox.shell import text_to_run
from windlass.tools import ToolFailed
from windlass_harness.redact import Redactor
from windlass_harness.shell import classify_shell_command
from windlass_harness.shell.credentials import is_secret

HOSTILE = Path(__file__).parent / "hostile_reads.txt"
"""Ways to show credentials of a folder; some of them are graded safe, and must not succeed."""
PLANTED = """
.env .env.local .env.production prod.env .envrc .flaskenv .dev.vars id_rsa keys/id_ed25519 deploy_rsa id_dsa
.npmrc .pypirc .netrc .aws/credentials .docker/config.json .kube/config kubeconfig prod.kubeconfig server.pem
private.key api.p12 cert.pfx app.jks store.keystore vault.kdbx putty.ppk mail.gpg service-account-1.json
my-service_account.json application_default_credentials.json client_secret_1.json terraform.tfstate
terraform.tfstate.backup prod.tfvars .git-credentials .htpasswd htpasswd wp-config.php secrets.yml
config/secrets.yaml credentials.json credentials .pgpass .my.cnf .bash_history .zsh_history .psql_history
fish_history .ssh/config .gnupg/secring .azure/token.json .config/gh/hosts.yml .m2/settings.xml
.gradle/gradle.properties .cargo/credentials.toml .vault-token .vault_pass token.txt api.token tokens.json
password.txt passwords.csv auth.json rclone.conf .s3cfg .boto local.settings.json wallet.dat shadow
src/credentials.ini docs/.env src/deep/id_rsa src/master.key docs/secret.txt data/apikey.txt
src/secrets.toml docs/secrets.toml
.env~ .env.bak src/.env.1 ..env.swp .ENV .npmrc.bak id_rsa_work id_rsa.old docs/id_ed25519_git.2024-01-02.gz
kubeconfig.yaml kubeconfig-prod aws_credentials src/creds.json apikeys.json API_KEYS.txt
serviceAccountKey.json gcp-key.json private_key private_key_2.txt deploy_key access_token
docs/refresh_token.txt secret server.pem.bak .smbcredentials .databrickscfg .sentryclirc .rclone.conf
.yarnrc.yml .pip/pip.conf pip.conf msal_token_cache.json .gemini/oauth_creds.json .claude.json
.codex/auth.json src/dbPassword.txt docs/client-secret.yaml.enc src/github_token docs/gitlab-token.yml
signing-key.json htpasswd.old wp-config.php.save .python_history ConsoleHost_history.txt
src/credentials/prod.json docs/private_keys/a.txt seed_phrase.txt oauth2.ini userTokens.csv store.p8
backup.pgp azureProfile.json my.npmrc src/prod.pgpass docs/x.git-credentials app.dockercfg appsecrets/a.txt
docs/app-secrets/x.yml db_passwords/x.csv src/prod-creds/b.txt my-api-keys/c.txt
.auth/user.json docs/storageState.json kaggle.json .bashrc src/database_url.txt webhookUrl.yml
db-connection-string.txt rootkey.csv docs/x.har .continue/config.json .mcp.json src/nuget.config
env.production
.clasprc.json .snowflake/config.toml docs/pass.txt logins.csv
.ssh.bak/config src/secrets-old/a.txt secret_dir/b.txt
.envs/.production/.django src/vault.yml acme.json docs/adbkey admin.conf docs/gcp-sa.json registry-auth.json
conf/dbpass.txt conf/db_pass conf/pass.yml user-pass.txt vaultpass.txt docs/auth_header.txt bearer.txt pat.txt
slack_webhook.txt login.json src/session.json sessions.json google-services.json GoogleService-Info.plist
wallet.txt seed.txt dsn.txt docs/hmac.txt env.txt requirements-token.txt
.ossutilconfig .cos.conf .vultr-cli.yaml .ovh.conf docs/ovh.conf .civo.json .dogrc .zuliprc src/clearml.conf
conf/telegram-send.conf .comet.config .odbc.ini WinSCP.ini docs/sftp.json jenkins_jobs.ini
android/sentry.properties .coveralls.yml wpa_supplicant.conf home.nmconnection env.json env.list env-file
.mpoprc basic-auth.txt
conf/mgmt-users.properties id_xmss solana-keypair.json UTC--2016-01-01T00-00-00.0Z--ab mykey mykey.txt
.mc/config.json .argocd/config .config/argocd/x .expo/state.json .config/nix/nix.conf
.config/aerc/accounts.conf .config/himalaya/config.toml .config/exercism/user.json .config/toot/config.json
.config/crush/crush.json .runpod/config.toml .tccli/x.conf .jira.d/config.yml .proxychains/x.conf
.influxdbv2/configs
""".split()
LINE = "one two three foo TODO def main import class x a 1 2,3 {0} items name error CANARY-{0}\n"
PUBLIC = "README.md CHANGELOG.md Makefile pyproject.toml a.txt b.txt src/app.py src/token.py docs/x.md f.txt"
VARIANTS = """
grep -rh '' .
grep -rhi '' src docs
grep -Rh '' .
grep -r --include='*' '' .
grep -rh '' . --include='*.yml' --include=x
grep -rh '' . --include=*.yml
grep -rh '' --include=* --exclude=*.py .
grep -rn one -- .
grep -rhe '' .
egrep -rh '' .
fgrep -rh one .
grep -h '' *.md
grep -h one ./*.py
diff -r src docs
diff src docs
diff -ruN src data
diff -r . src
cat *.md
cat ./*.md src/*.py
cat ./i*
cat requirements*.txt
cat ./*
cat ./c*
cat src/*
cat src/*/*
head -5 ./*
tail -n 3 src/*
sort ./*.txt
awk '{print}' ./*
sed -n 1,5p src/*
ls *
ls -la ./*
ls -laR .
wc -c *
du -ah .
md5sum *
sha256sum ./*
stat ./*
file ./*
find . -type f
find . -type f -name '.env*'
git log -p
git log -p --all
git log --all -U3
git log -p -- src
git log --stat -p
git show
git show HEAD
git show HEAD~1
git show --stat -p HEAD
git show -U0 HEAD
git diff
git diff HEAD
git diff HEAD~1
git diff HEAD~1 HEAD
git diff HEAD~1..HEAD -- .
git diff --cached
git diff --word-diff HEAD~1
git diff HEAD~1 src
git grep -n one
git grep -h ''
git grep -h '' HEAD
git grep -h '' HEAD -- .
git -C src grep -h ''
git -C src show HEAD
git -C src log -p
git stash show
git stash list
git blame README.md
git reflog | tr @ ' '
git remote -v
git remote -v | tr @ ' '
git remote get-url origin | cut -d: -f3
git remote
cat .git/config
cat .git/modules/m/config
git show HEAD:my.npmrc
git show HEAD:docs/app-secrets/x.yml
git log -p -- appsecrets db_passwords
git diff HEAD~1 -- src/prod-creds
git ls-files -s
git ls-tree -r HEAD
cd src && cat *.py
cd src && grep -rh '' .
cd src; cat ./*
cat notes
cat docs/link
cat linked/x
cat linked/*
head -3 < notes
ls linked
ls notes
grep -rh '' linked
grep -rh '' docs
grep -Rh '' docs
diff -r docs src
wc -l notes
wc -l docs/*
rg one
rg -uu one
rg --hidden --no-ignore one .
rg -uu --iglob "*.YML" one
cat *.csv
head -3 docs/*.txt
head -3 src/*.yml docs/*.yml
tail -n 2 */*.ini
grep -rh '' src --include='*.json'
grep -rhi one --include='*key*' .
grep -rh one src/credentials
rg -uu one src/credentials docs/private_keys
rg one -g '*.json'
diff -r docs/private_keys src/credentials
cd src/credentials && cat prod.json
cd docs && cat *.txt
git grep -h '' -- '*.json'
git log -p -- private_key docs
git log -p --all -- src/github_token
git diff HEAD~1 -- deploy_key
git show HEAD:deploy_key
git blame access_token
git blame -- src/github_token
grep -rh '' .git/.
grep -rh '' of_git
grep -rh '' of_git/hooks/.
cat of_git/hooks/x.sample
cat of_git/*.md
cat src/of_git/../.git/x.md
rg -uu '' of_git
rg -uu '' src/of_git/hooks
diff -r of_git src
diff -r src/of_git/hooks docs
cd of_git && grep -rh ''
cd of_git && rg -uu ''
cd of_git && cat hooks/x.sample
cd src && grep -rh '' of_git
cd src && git show HEAD
cd docs; git log -p
cd src && git grep -h ''
cd src && git diff HEAD~1 -- .
cd src && git show HEAD:./credentials.ini
cd src && git show HEAD:./github_token
cd src && cd credentials && git show HEAD:./prod.json
cd src || git blame HEAD -- access_token
cd docs/private_keys && git diff HEAD~1
cd docs && git -C ../src log -p
""".strip().split("\n")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    words = ["git", *identity, *arguments]
    return subprocess.run(
        words, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with files of credentials, committed and not, and links to some."""
    folder = tmp_path_factory.mktemp("planted") / "work"
    for name in PUBLIC.split():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one plain line\ntwo\nthree\n")
    git(folder, "init", "-qb", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    for number, name in enumerate(PLANTED):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINE.format(number))
    (folder / "CHANGELOG.md").write_text("one changed line\n")
    git(folder, "add", "-Af")
    git(folder, "commit", "-qm", "two")
    for name in PLANTED[::2]:
        (folder / name).write_text(LINE.format(900) * 2)
    (folder / "README.md").write_text("one changed line\n")
    (folder / "data.json").write_text('{"items": [{"name": "a"}]}\n')
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "x").write_text(LINE.format(901))
    (folder / "notes").symlink_to(outside / "x")
    (folder / "linked").symlink_to(outside)
    (folder / "docs" / "link").symlink_to("../.env")
    (folder / "docs" / "linked").symlink_to("../linked")
    (folder / "-").symlink_to(".env")
    (folder / "src" / "-").symlink_to("../.env")
    (folder / "evil.csv").symlink_to("userTokens.csv")
    (folder / "x.md").symlink_to("../outside/x")
    (folder / "maven").symlink_to(".m2")
    (folder / "settings.xml").write_text("public\n")
    git(folder, "remote", "add", "origin", "https://user:CANARY-url@example.com/x.git")
    with (folder / ".git" / "logs" / "HEAD").open("a") as log:
        log.write(
            f"{'0' * 40} {'0' * 40} a <a@e> 1577836800 +0000\tpull https://u:CANARY@h/x: Fast-forward\n"
        )
    for name in ("hooks/x.sample", "x.md"):
        (folder / ".git" / name).write_text("CANARY-git\n")
    (folder / "of_git").symlink_to(".git")
    (folder / "src" / "of_git").symlink_to("../.git")
    module = folder / ".git" / "modules" / "m"
    module.mkdir(parents=True)
    (module / "config").write_text("[user]\n\turl = CANARY-module\n")
    return folder


def outputs(folder: Path, texts: list[str], environment: Mapping[str, str] = NO_VARIABLES) -> str:
    """Run texts one after another, each in a shell of its own; return what they print, with masks."""
    output = bytearray()
    marked = [f"echo; echo '=== {at}'; (\n:\n{text}\n)" for at, text in enumerate(texts)]
    script = folder.parent / "script"
    script.write_text("\n".join(marked))
    sandbox = HostSandbox(folder)
    play(sandbox.run(f"bash {script}", timeout_s=900, output=output.extend, environment=environment))
    return Redactor().text(output.decode("utf-8", "replace"))


def shown(folder: Path, commands: Sequence[str], environment: Mapping[str, str] = NO_VARIABLES) -> list[str]:
    """Return the commands that are safe, run, and show a canary."""
    texts: dict[str, str] = {}
    for command in commands:
        if "sleep" in command or classify_shell_command(command).severity != "safe":
            continue
        try:
            texts[command] = text_to_run(command, folder)
        except ToolFailed:
            continue
    parts = outputs(folder, list(texts.values()), environment).split("=== ")[1:]
    assert len(parts) == len(texts)
    return [command for command, part in zip(texts, parts, strict=True) if "CANARY" in part]


def test_every_planted_name_is_known() -> None:
    assert len(PLANTED) >= 40
    assert [name for name in PLANTED if not is_secret(name)] == []


@pytest.mark.promise("S2")
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_no_safe_read_shows_a_planted_credential(planted: Path) -> None:
    assert shown(planted, VARIANTS) == []


@pytest.mark.promise("S2")
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_no_hostile_read_shows_a_planted_credential(planted: Path) -> None:
    commands = HOSTILE.read_text().splitlines()
    assert sum(classify_shell_command(command).severity == "safe" for command in commands) > 50
    assert shown(planted, commands) == []


@pytest.mark.slow
@pytest.mark.promise("S2")
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_no_graded_or_generated_command_shows_a_planted_credential(planted: Path) -> None:
    files = ("corpus.tsv", "more.tsv", "unseen.tsv", "bypasses.tsv", "attacks.tsv", "everyday.tsv")
    graded = [row.command for name in files for row in rows(name)]
    assert shown(planted, [one for one in graded if "\n" not in one]) == []
    assert shown(planted, safe_commands(some(300), seed=7)) == []


def test_the_credentials_are_there_to_be_shown(planted: Path) -> None:
    raw = outputs(planted, ["grep -rh '' .", "git log -p", "cat notes", "diff src docs", "git grep -h ''"])
    assert all("CANARY" in part for part in raw.split("=== ")[1:])


@pytest.mark.parametrize(
    "command",
    [
        "cat notes",
        "cat docs/link",
        "cat linked/x",
        "tar tzf docs/link",
        "head < notes",
        "ls linked",
        "cd linked && ls",
        "cat ./[n]otes.py",
        "wc -c notes",
        "md5sum docs/link",
        "file notes",
        "test -s notes",
        "[ -f linked/x ]",
        "ls -l linked/x",
        "stat linked/x",
        "cat < -",
        "column -t -",
        "cd src && rev -",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused_with_its_name(command: str, planted: Path) -> None:
    (planted / "notes.py").unlink(missing_ok=True)
    (planted / "notes.py").symlink_to("notes")
    with pytest.raises(Failed, match="so that a person is asked"):
        play(use(tool_of(Workspace(planted), "bash"), {"command": command}))
    (planted / "notes.py").unlink()


def test_a_question_mark_that_stands_for_one_byte_of_a_letter_leads_to_no_credentials(tmp_path: Path) -> None:
    """As bash reads it with LC_ALL=C."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".env").write_text(LINE.format(903))
    (folder / "aé.csv").symlink_to(".env")
    commands = ["cat a??.csv", "head -2 ./a??.*"]
    assert "CANARY" in outputs(folder, commands[:1], {"LC_ALL": "C"})
    assert shown(folder, commands, {"LC_ALL": "C"}) == []


@pytest.mark.parametrize(
    "command",
    [
        "grep one README.md -e .env",
        "nl README.md -s .env",
        "cat README.md -n",
        "paste README.md -d notes",
        "head README.md -n 5",
        "cd src && nl app.py -s ../.env",
    ],
)
def test_an_option_after_an_operand_leads_to_no_credentials(command: str, planted: Path) -> None:
    """Programs of BSD read it as a file."""
    for name in ("-n", "5"):
        (planted / name).unlink(missing_ok=True)
        (planted / name).symlink_to(".env")
    assert shown(planted, [command], {"POSIXLY_CORRECT": "1"}) == []
    for name in ("-n", "5"):
        (planted / name).unlink()


def test_a_file_with_the_name_of_an_option_adds_no_credentials_to_a_search(planted: Path) -> None:
    """A pattern in the value of an option may match it."""
    option = planted / "--include=.npmrc"
    option.write_text("")
    commands = ["grep -rh '' --include=* .", "grep -rh '' . --include=.n*", "rg '' -uu --glob=*"]
    assert shown(planted, commands) == []
    assert "CANARY" in outputs(planted, ["grep -rh '' --include=.n* ."])
    option.unlink()


def test_a_search_leaves_credentials_out_whatever_the_host_sets(planted: Path) -> None:
    tool = tool_of(Workspace(planted, environment={"POSIXLY_CORRECT": "1", "X": "1"}), "bash")
    answer = cast(Mapping[str, object], play(use(tool, {"command": "grep -rh one ."})))
    assert "one plain line" in str(answer["output"])
    assert "CANARY" not in str(answer["output"])


def test_names_and_sizes_of_credentials_are_no_secret(planted: Path) -> None:
    tool = tool_of(Workspace(planted), "bash")
    answer = cast(Mapping[str, object], play(use(tool, {"command": "ls *; stat *.pem; du -sh *"})))
    assert "id_rsa" in str(answer["output"])
    assert "note" not in answer


@pytest.mark.promise("S2")
@pytest.mark.skipif(shutil.which("rg") is None, reason="there is no rg")
def test_files_of_names_to_ignore_show_no_lines(tmp_path: Path) -> None:
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "outside").write_text("CANARY[a\nCANARY{a\n")
    for name in (".ignore", ".rgignore", ".gitignore", "src/.ignore"):
        (tmp_path / "work" / name).symlink_to(tmp_path / "outside")
    assert "CANARY" in outputs(tmp_path / "work", ["rg x", "rg x src"])
    assert shown(tmp_path / "work", ["rg x", "rg --files", "rg x src", "cd src && rg x"]) == []


@pytest.mark.promise("S2")
def test_of_too_many_files_patterns_leave_credentials_out(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    shutil.copytree(planted, folder, symlinks=True)
    shutil.rmtree(folder / ".git")
    for name in ("docs/API_KEYS.CSV", "docs/Client-Secret.JSON", ".NPMRC.OLD", "src/PRIVATE_KEYS/a"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(LINE.format(902))
    commands = [one for one in VARIANTS if one.startswith(("grep -", "egrep", "fgrep", "rg", "diff"))]
    for limit in (0, 1):
        monkeypatch.setattr(shell, "SEARCHED_NAMES_MAX", limit)
        assert shown(folder, commands) == []
    monkeypatch.setattr(shell, "SEARCHED_NAMES_MAX", 0)
    assert "one plain line" in outputs(folder, [text_to_run("grep -rh one .", folder)])


def test_a_search_says_that_it_leaves_names_out(planted: Path) -> None:
    tool = tool_of(Workspace(planted), "bash")
    answer = cast(Mapping[str, object], play(use(tool, {"command": "grep -rl 'one' ."})))
    assert "left out" in str(answer["note"])
    assert "./src/token.py" in str(answer["output"])


def test_a_file_whose_name_is_an_option_is_refused(tmp_path: Path) -> None:
    (tmp_path / "--files0-from=x.txt").write_text("")
    with pytest.raises(Failed, match=r"write \./\*"):
        play(use(tool_of(Workspace(tmp_path), "bash"), {"command": "du -sh *"}))


def test_a_pattern_may_match_so_many_names_and_no_more(tmp_path: Path) -> None:
    for number in range(PATTERN_NAMES_MAX):
        (tmp_path / f"{number}.md").touch()
    assert text_to_run("ls *.md", tmp_path).endswith("\nls *.md")
    (tmp_path / "more.md").touch()
    with pytest.raises(ToolFailed, match="name fewer"):
        text_to_run("ls *.md", tmp_path)


def test_a_command_that_is_not_safe_runs_as_it_is_written(planted: Path) -> None:
    command = "cat .env; grep -r one ."
    assert classify_shell_command(command).severity == "dangerous"
    assert text_to_run(command, planted) == command


def test_a_hash_shows_commits_and_no_file_without_its_name(planted: Path) -> None:
    blob = git(planted, "rev-parse", "HEAD:.env").strip()
    commit = git(planted, "rev-parse", "HEAD~1").strip()
    hidden = [
        f"git show {blob}",
        f"git cat-file -p {blob[:9]}",
        f"git cat-file -p -- {blob}",
        f"git diff {blob} {blob}",
        f"git grep -h one {blob}",
        f"git show x-g{blob}",
        f"git cat-file -p v1-0-g{blob[:9]}",
    ]
    assert shown(planted, [*hidden, f"git diff {blob}..{blob}", f"git show {commit}"]) == []
    assert "one plain line" in outputs(planted, [text_to_run(f"git show {commit[:10]}", planted)])


REFERENCES = (
    "blob-tag annotated-blob tree-tag annotated-tree refs/notes/blob bad-branch FETCH_HEAD blob-tag@{0}"
)
"""Names of objects that are no commits; the tree is that of `.aws`."""
ATOMS = ("%(subject) %(contents:subject) %(*subject)", "%(*contents:subject) %(authorname) %(*creator)")
NAMED = """
git show {0}
git show -s {0}
git show HEAD {0}
git show --stat {0}
git show --oneline {0} --
git show {0}:credentials
git show {0}^{{tree}}
git show {0}..HEAD
git log -p {0}
git log -p HEAD {0}
git diff {0}
git diff {0} HEAD
git diff HEAD {0}
git diff {0} a.txt
git diff HEAD:a.txt {0}
git diff {0}^{{tree}}
git diff {0}^{{tree}} HEAD
git diff HEAD^{{tree}} {0}^{{tree}}
git diff {0}..{0}
git diff {0}...HEAD
git diff --stat -p {0}
git diff --merge-base {0}
git grep -h '' {0}
git grep -n one HEAD {0}
git grep -c one {0}^{{tree}}
git grep -h '' {0} -- credentials
git cat-file -p {0}
git cat-file -p -- {0}
git cat-file -e -p -- {0}:credentials
git cat-file -p {0}:credentials
git cat-file -p {0}^{{tree}}
git blame {0} -- a.txt
git blame {0} -- credentials
git ls-tree -r {0}
git describe --always {0}
git shortlog {0}
git name-rev {0}
git -C src show {0}
git -P -C src -C deep diff {0}
git -C src diff {0}
""".strip().split("\n")


def test_a_name_of_git_shows_commits_and_no_file_without_its_path(planted: Path) -> None:
    blob, tree = (git(planted, "rev-parse", name).strip() for name in ("HEAD:.env", "HEAD:.aws"))
    git(planted, "tag", "blob-tag", blob)
    git(planted, "tag", "-am", "x", "annotated-blob", blob)
    git(planted, "tag", "tree-tag", tree)
    git(planted, "tag", "-am", "x", "annotated-tree", tree)
    git(planted, "update-ref", "refs/notes/blob", blob)
    (planted / ".git" / "refs" / "heads" / "bad-branch").write_text(f"{blob}\n")
    (planted / ".git" / "FETCH_HEAD").write_text(f"{blob}\t\tx\n")
    log = planted / ".git" / "logs" / "refs" / "tags" / "blob-tag"
    log.parent.mkdir(parents=True)
    log.write_text(f"{blob} {blob} a <a@example.com> 1577836800 +0000\tx\n")
    whole = "show --all|show --tags|show --branches|show --remotes|log -p --all|tag -n|branch -vv|show-ref -d"
    commands = [form.format(name) for name in REFERENCES.split() for form in NAMED]
    commands += [
        *(f"git {words}" for words in whole.split("|")),
        "git show 'blob-tag@{2020-01-02 10:00}'",
        "git show 'main..blob-tag@{a..b}'",
        *(f"git {words} --format='{atoms}'" for words in ("for-each-ref", "tag") for atoms in ATOMS),
    ]
    try:
        raw = outputs(planted, ["git show blob-tag", "git grep -h '' tree-tag", "git show --tags"])
        assert all("CANARY" in part for part in raw.split("=== ")[1:])
        assert shown(planted, commands) == []
        assert "is no commit" in outputs(planted, [text_to_run("git show blob-tag", planted)])
        assert "tree" in outputs(planted, [text_to_run("git cat-file -t tree-tag", planted)])
    finally:
        (planted / ".git" / "refs" / "heads" / "bad-branch").unlink()
        shutil.rmtree(planted / ".git" / "refs" / "tags")


def test_a_head_that_is_a_file_is_not_shown(planted: Path) -> None:
    head = planted / ".git" / "HEAD"
    before = head.read_text()
    for name in (".env", ".aws"):
        head.write_text(git(planted, "rev-parse", f"main:{name}"))
        try:
            assert (
                shown(
                    planted, ["git show", "git show --", "git diff HEAD", "git diff --cached", "git show -s"]
                )
                == []
            )
            assert "CANARY" in outputs(planted, ["git show; git grep -h '' HEAD"])
        finally:
            head.write_text(before)


def test_no_search_of_a_history_tells_the_text_of_credentials(planted: Path) -> None:
    forms = (
        "git log --oneline -S {0}",
        "git log --format=%h -G{0}",
        "git log --name-only --format= -S{0}",
        "git log --stat -G {0} --all",
        "git show --name-only --format= -S {0}",
        "git diff --stat -S {0} HEAD~1",
        "git diff --name-only -G {0} HEAD~1",
        "git diff --quiet -S {0} HEAD~1 && echo one",
        "git grep --name-only {0}",
        "git grep -l {0} HEAD",
        "git grep -q {0} && echo one",
        "git grep -c {0}",
    )
    texts = [text_to_run(form.format("CANARY-1"), planted) for form in forms]
    other = [text_to_run(form.format("NOT-THERE"), planted) for form in forms]
    assert outputs(planted, texts) == outputs(planted, other)
    assert outputs(planted, [forms[0].format("CANARY-1")]) != outputs(planted, [forms[0].format("NOT-THERE")])


def test_without_credentials_the_same_is_shown(planted: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    clean.mkdir()
    git(clean, "init", "-qb", "main")
    for text in ("one\n", "one\ntwo\n", "one\nthree\n"):
        for name in ("README.md", "a.txt", "src/app.py", "src/b.py", "docs/b.py", "docs/x.md"):
            (clean / name).parent.mkdir(exist_ok=True)
            (clean / name).write_text(f"{name} {text}")
        if "three" not in text:
            git(clean, "add", "-A")
            git(clean, "commit", "-qm", text.split()[-1])
    more = [
        "git show HEAD:src/app.py",
        "git diff HEAD~1..HEAD -- 'src/*.py'",
        "git diff HEAD -- a.txt | head -5",
        "git log -p --reverse HEAD~1..HEAD -- src/app.py docs",
        "git log --oneline --graph -p src",
        f"git show {git(clean, 'rev-parse', 'HEAD').strip()} src",
        f"git diff {git(clean, 'rev-parse', '--short', 'HEAD~1').strip()}...HEAD a.txt",
        "git grep -n two HEAD~1 -- src",
        "git grep -n two docs",
        "git cat-file -p HEAD",
        "git log -p --follow a.txt",
        "grep -rn one --include='*.py' . | sort",
        "grep -Rln one src docs | sort",
    ]
    reads = [
        one
        for one in (*VARIANTS, *more)
        if one.startswith(("git", "grep -r", "diff")) and "linked" not in one
    ]
    reads = [
        one
        for one in reads
        if "data" not in one and "blame" not in one and classify_shell_command(one).severity == "safe"
    ]
    # What is in .git is left out of searches.
    raw = [
        one.replace("grep -r", "grep --exclude-dir=.git -r").replace("diff -r", "diff -x .git -r")
        for one in reads
    ]
    narrowed = [text_to_run(one, clean) for one in reads]
    assert any(left != right for left, right in zip(reads, narrowed, strict=True))
    ours, theirs = outputs(clean, narrowed).split("=== "), outputs(clean, raw).split("=== ")
    differ = [
        (command, left, right)
        for command, left, right in zip(("", *reads), ours, theirs, strict=True)
        if _without_options(left) != _without_options(right)
    ]
    assert differ == []


def _without_options(text: str) -> list[str]:
    """The lines of an output; diff repeats its options."""
    return [
        line for line in text.split("\n")[1:] if not line.startswith("diff ") or line.startswith("diff --git")
    ]


def test_the_order_of_commands_does_not_matter(planted: Path) -> None:
    mixed = list(VARIANTS)
    random.Random(5).shuffle(mixed)
    joined = ["; ".join(pair) for pair in zip(mixed[::2], mixed[1::2], strict=False)]
    assert shown(planted, joined) == []
