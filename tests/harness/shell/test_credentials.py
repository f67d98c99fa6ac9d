"""Which names are those of credentials: by list, by their words, and in spite of endings of backups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.shell import classify_shell_command
from windlass_harness.shell.credentials import LEFT_OUT_WORDS, SECRET_FILES, is_listed, is_secret

SECRET = """
.env~ .env.bak .env.1 .env.2024-01-02 .env.20240102_1530 .env.gz .env-copy ..env.swp .#.env #.env# ._.env .ENV
.npmrc.bak id_rsa_work id_rsa~ id_rsa.old id_ed25519.tar.gz .id_rsa.swp server.pem.bak backup-id_rsa
kubeconfig.yaml kubeconfig-prod kube_config.json aws_credentials creds.json prod-creds.yml apikeys.json
apiKey.json API_KEYS.txt api-key serviceAccountKey.json service-account-1.json gcp-key.json acme-key.json
keys.json private_key private_key_2.json private-key.pem.txt deploy_key ssh_key sshkey.txt access_token
refresh_token.txt accessTokens.json github_token .github_token tokens.json token secret secrets.yml
secretkey.txt secret_key_base.txt client_secret_123.json my-secrets.yaml.enc db_password.txt dbPassword.txt
Passwords.csv passwd.bak .smbcredentials .databrickscfg .sentryclirc .rclone.conf .yarnrc.yml .pip/pip.conf
pip.conf msal_token_cache.json .gemini/oauth_creds.json oauth.json oauth2.ini .claude.json .codex/auth.json
keystore.properties htpasswd.old jwt.txt seed_phrase.txt backup-codes.txt /proc/self/environ /proc/1/environ
.bash_history .python_history ConsoleHost_history.txt .ssh/config .AWS/config .config/gh/hosts.yml
.mozilla/firefox/x/places.sqlite .config/google-chrome/Default/History credentials/prod.json
src/private_keys/a.txt .ssh.bak/config .aws-old/x .kube~/a.yml .config.bak/gh/x secrets-backup/a.txt
old_credentials.2024-01-02/a.json src/secret_files/a.txt *token*.json .git .git/. ./.git/HEAD sub//.git
.GIT/x.md .git/hooks/pre-commit.sample
.git/logs/refs/heads/fix.md .envrc.local .bashrc .profile.bak .gitconfig .auth/user.json storageState.json
x.har
.scw/config.yaml .config/scw/config.yaml kaggle.json env.php config.inc.php otp.txt gh_pat.txt
connection_string.txt
DATABASE_URL webhook_url.txt krb5cc_0 .continue/config.json .hex/hex.config claude_desktop_config.json
conf/dbpass.txt conf/db_pass conf/pass.yml user-pass.txt vaultpass.txt dbPass.json smtp_pass.2 mysqlpass.cnf
pass_word.txt auth_header.txt bearer.txt pat.txt slack_webhook.txt discord-webhooks.json login.json
session.json sessions.json google-services.json GoogleService-Info.plist wallet.txt seed.txt dsn.txt hmac.txt
env.txt
""".split()
READABLE = """
tokenizer.py token.ts src/token.go secrets.md PasswordField.tsx get_token.sh rotate-secrets.sh
password-icon.svg credentials.py secrets.tf tokenizer.json tokenizer_config.json .env.example
.env.sample.bak id_rsa.pub monkey.json keyboard.json hotkeys.yml keymap.toml keyvalue.json public_key.txt
primary_key.csv secretary.txt passwordless.txt author.json foo-author.json auth.yaml
src/auth/config.json token-service/package.json secret-santa/x.json dist-old/config/a.json
design-tokens/colors.json compass.yaml bypass.txt by-pass.txt passenger.json pass_rate.py pass_rate.csv
first_pass.txt multi-pass.log boarding-pass.pdf dbpass.py Pass.pm secrets.rb tokens.py session.py
sessions.yml login.html wallet.svg env.py seeds.txt seed.rb webhook.json google.json
profile.json otp.py webhook-url.md har.json patterns.txt .continue/rules.md environment.yml history.txt
app.log.1.gz notes.bak data.csv.2024-01-02 src HEAD .
""".split()


@pytest.mark.promise("S2")
@pytest.mark.parametrize("name", SECRET)
def test_a_name_of_credentials_is_not_safe_to_read(name: str) -> None:
    assert is_secret(name)
    assert classify_shell_command(f"cat '{name}'").severity == "dangerous"
    assert classify_shell_command(f"head -3 < '{name}'").severity == "dangerous"


@pytest.mark.parametrize("name", READABLE)
def test_source_prose_and_ordinary_names_stay_readable(name: str) -> None:
    assert not is_secret(name)
    assert classify_shell_command(f"cat '{name}'").severity == "safe"


@pytest.mark.parametrize("command", ["ls src/tokens", "wc -l src/oauth/*.py", "find credentials-api -type f"])
def test_programs_that_show_names_alone_may_name_a_folder_of_such_words(command: str) -> None:
    assert classify_shell_command(command).severity == "safe"


@pytest.mark.parametrize(
    ("command", "severity"),
    [
        ("ls .git", "safe"),
        ("du -sh .git", "safe"),
        ("[ -d .git ]", "safe"),
        ("test ! -e .git", "safe"),
        ("git -C sub status", "safe"),
        ("grep -rh '' .git/.", "dangerous"),
        ("grep -r x sub/.git", "dangerous"),
        ("rg x ./.git", "dangerous"),
        ("diff -r .git/. src", "dangerous"),
        ("cd sub && head -3 .git", "dangerous"),
        ("test -f .git/x.md", "dangerous"),
    ],
)
def test_the_folder_of_git_is_seen_and_not_shown(command: str, severity: str) -> None:
    assert classify_shell_command(command).severity == severity


@pytest.mark.parametrize(
    ("command", "severity"),
    [
        ("git log feature/oauth-token", "safe"),
        ("git diff main..fix-password-reset", "safe"),
        ("git blame access_token", "dangerous"),
        ("git diff -- apikeys.json", "dangerous"),
        ("git show HEAD:deploy_key", "dangerous"),
    ],
)
def test_a_word_of_git_may_be_a_branch_unless_it_shows_a_file(command: str, severity: str) -> None:
    assert classify_shell_command(command).severity == severity


@given(
    st.sampled_from(SECRET[12:60]),
    st.sampled_from("~ .bak .old .orig .save .swp .1 -copy .2023-11-05 .gz".split()),
)
def test_a_backup_of_credentials_is_credentials(name: str, ending: str) -> None:
    assert is_secret(f"{name}{ending}")
    assert is_secret(f"deep/below/{name.upper()}{ending}") or "." not in name


@pytest.mark.parametrize("name", [".env", "id_rsa", "docs/server.pem", ".npmrc", "src/.netrc"])
@pytest.mark.parametrize(
    "ending", [".txt", ".local", ",v", ":Zone.Identifier", "_", "2", "v2", "_v3", "-final"]
)
def test_a_copy_of_credentials_with_any_ending_is_credentials(name: str, ending: str) -> None:
    assert is_secret(f"{name}{ending}")
    assert not is_secret(f"{name}{ending}.md")


def test_a_name_that_begins_with_a_plain_word_is_no_copy() -> None:
    assert not any(map(is_secret, ["shadow-map.json", "environ-table.csv", "auth.token.ts", "x.key.svg"]))


@given(st.text(max_size=300))
def test_any_text_has_an_answer(name: str) -> None:
    assert is_listed(name) <= is_secret(name)


def test_words_of_a_name_may_have_a_blank_between() -> None:
    assert is_secret("pass word.txt")
    assert is_secret("db pass.txt")


def test_a_list_is_in_small_letters_and_says_each_name_once() -> None:
    assert [name for name in SECRET_FILES if name != name.lower()] == []
    assert len(set(SECRET_FILES)) == len(SECRET_FILES)
    assert len(set(LEFT_OUT_WORDS)) == len(LEFT_OUT_WORDS)


def test_a_backup_of_backups_is_credentials() -> None:
    assert is_secret(".netrc" + ".bak" * 60)
    assert not is_secret("notes" + ".bak" * 60)
