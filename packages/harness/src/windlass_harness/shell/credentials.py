"""Names of files of credentials: one list, and one rule for the names that no list can hold.

A name is that of credentials if a list has it, or if its words say so: `prod_credentials.json`,
`serviceAccountKey.json`, `deploy_key`. Endings of backups (`.env~`, `id_rsa.old`, `server.pem.2024-01-02.gz`)
do not change the meaning of a name. Source code and prose (`tokenizer.py`, `secrets.md`) stay readable.

The lists are literal data, compared with the signatures of file names of shhgit and gitrob and with the
documentation of each tool.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Final

SECRET_FILES: Final = tuple(
    f"*{name}" if name.startswith(".") else name
    for name in """
    .env .env.* .env-* .env_* .envrc .flaskenv .dev.vars id_rsa id_rsa.* id_rsa[-_]* id_dsa
    id_dsa[-_]* id_ecdsa id_ecdsa[-_]* id_ed25519 id_ed25519[-_]* *[-_]rsa *[-_]dsa *[-_]ecdsa
    *[-_]ed25519 ssh_host_*_key *.pem *.key *.priv *.p12 *.p8 *.pk8 *.pkcs12 *.pkcs8 *.pfx *.keypair
    *.ovpn *.jks *.jceks *.bks *.keystore *.truststore *.kdbx *.kdb *.ppk *.gpg *.pgp *.age *.agekey
    *.asc *.psafe3 *.agilekeychain *.1pux *.keychain *.keychain-db *.keyring *.kwallet *.keytab *.rdp
    *.rdg *.tblk *.mobileprovision *.publishsettings *.cscfg *.azureauth *.bek *.fve *.session *.secret
    *.secrets *.token *.tokens *.credentials *.creds *.password *.passwd *.kubeconfig *.tfstate
    *.tfstate.* *.tfvars *.tfvars.json .netrc _netrc .authinfo .npmrc .yarnrc .yarnrc.yml .pypirc pypirc
    pip.conf pip.ini .condarc .gemrc .pgpass pgpass.conf .pg_service.conf .my.cnf .mylogin.cnf
    .git-credentials .htpasswd htpasswd proftpdpasswd .*_history .*history fish_history
    consolehost_history.txt .lesshst .viminfo .histfile .dockercfg .dockerconfigjson shadow shadow-
    gshadow sudoers opasswd master.key .vault-token .vault_pass* vault_pass* vault-pass* .terraformrc
    terraform.rc .tugboat wallet.dat wallet.json key4.db key3.db logins.json signons.sqlite cookies
    cookies.* login?data* local?state web?data *firebase-adminsdk*.json local.settings.json
    sftp-config.json .ftpconfig .remote-sync.json wp-config.php localsettings.php parameters.yml .s3cfg
    .boto .rclone.conf rclone.conf .databrickscfg .sentryclirc .snowsqlrc .netlifyrc ngrok.yml
    .smbcredentials .smbpasswd .msmtprc .fetchmailrc .esmtprc .muttrc .mailrc .offlineimaprc .getmailrc
    .mbsyncrc .twurlrc .gitrobrc .hgrc .arcrc .rhosts .curlrc .wgetrc .claude.json .aider.conf.yml
    auth.json auth.toml filezilla.xml recentservers.xml sitemanager.xml robomongo.json
    *dbeaver-data-sources.xml webservers.xml heroku.json tailscaled.state wg[0-9].conf azureprofile.json
    .erlang.cookie .xauthority .iceauthority environ gha-creds-*.json .clasprc.json nuget.config .mcp.json
    mcp.json .bunfig.toml .slackcat settings-security.xml unattend.xml connectionstrings.config .transifexrc
    .dropbox_uploader docker-config.json pgpass pg_service.conf .rediscli_auth .google_authenticator .htdigest
    .modal.toml ngrok.yaml cqlshrc signing.properties env.prod* env.local* env.staging* dotenv auth.txt
    pass.txt login.txt logins.* cookiejar cookiejar.* cookie.txt .envrc.* env.php .renviron .dbshell *.pat
    storage_state.json storagestate.json rootkey.csv kaggle.json claude_desktop_config.json .wakatime.cfg
    .passwd-s3fs cwallet.sso tomcat-users.xml nslcd.conf config.inc.php settings.local.php .cvspass .p4tickets
    .gitconfig .bashrc .bash_profile .zshrc .zshenv .zprofile .profile autounattend.xml unattended.xml
    sysprep.inf sysprep.xml preseed.cfg ntds.dit *.ccache krb5cc_* *.kirbi *.pvk *.snk *.jwk jwk.json *.har
    *.remmina *.kwl .saml2aws .okta_aws_login_config .exoscale.toml .boto.cfg .lftprc .cadaverrc .neomuttrc
    bitwarden_export* lastpass*.csv .slack-term auth-user-pass regcred.json
    vault.yml vault.yaml vault.json ansible-vault.* acme.json adbkey keyfile talosconfig k3s.yaml rke2.yaml
    admin.conf adc.json pw.txt sa.json *[-_]sa.json *[-_]auth.json *.auth *.pass .sgptrc .openai .anthropic
    rsa.txt *[-_]rsa.txt rsa[-_]private* bearer.txt pat.txt login.json session.json sessions.json
    google-services.json googleservice-info.plist wallet.txt seed.txt dsn.txt hmac.txt env.txt pass.yml
    pass.yaml pass.json
    .ossutilconfig .cos.conf .vultr-cli.yaml .ovh.conf ovh.conf .civo.json .hcloud.toml .dogrc .zuliprc
    zuliprc telegram-send.conf .comet.config clearml.conf trains.conf .odbc.ini odbc.ini .pgservice.conf
    winscp.ini
    sftp.json ftpsync.settings jenkins_jobs.ini sentry.properties .coveralls.yml wpa_supplicant.conf
    *.nmconnection wireguard.conf env.json env.list envfile env-file .mpoprc .isyncrc .htusers
    basic[-_]auth.txt mgmt-users.properties application-users.properties id_xmss id_ed448
    *[-_]keypair.json utc--* seed.json
    """.split()
)
"""Names of files; wildcards as in a shell, small letters for both. One that begins with a dot is an ending,
too: `my.npmrc`."""
PUBLIC_FILES: Final = tuple(
    """
    *.example *.sample *.template *.dist *.pub *.defaults *.tmpl *.md *.rst *.py *.pyi *.ts *.tsx *.js *.jsx
    *.mjs *.cjs *.go *.rs *.java *.kt *.c *.h *.cc *.cpp *.hpp *.cs *.rb *.swift *.scala *.css *.scss *.html
    *.vue *.svelte
    """.split()
)
"""Endings that say: the file only looks like a secret."""
_SOURCE: Final = frozenset(
    """
    adoc astro bash bat bats class clj coffee cts cxx dart diff el elm erl ex exs f90 feature fish fs
    gif gql gradle graphql groovy hbs hcl hh hs htm hxx ico ipynb j2 jar jinja jl jpeg jpg kts less lock
    lua m map markdown mdx mk ml mm mts nim nix org patch php pl pm png po pod proto ps1 puml pyc r rego
    rkt s sass sh snap sol svg tex tf tla v vim wat webp xsd xsl zig zsh
    """.split()
)
"""Further endings of source code, prose and pictures: the words of such a name say nothing."""
SECRET_PATHS: Final = tuple(
    """
    .ssh .aws .gnupg .azure .kube .docker .password-store .mozilla .secrets secrets Keychains .vault .gcloud
    .config/gh .config/gcloud .config/google-chrome .config/chromium .config/op .config/hub
    .config/git/credentials .config/rclone .config/doctl .config/heroku .cargo/credentials
    .cargo/credentials.toml .gem/credentials
    .vnc .svn/auth .subversion/auth .config/fish
    .terraform.d/credentials.tfrc.json .local/share/keyrings etc/ssl/private run/secrets etc/shadow
    etc/gshadow etc/sudoers etc/sudoers.d etc/security/opasswd etc/krb5.keytab etc/kubernetes .m2/settings.xml
    .gradle/gradle.properties .composer/auth.json .databricks .snowsql .bundle/config .git/config
    var/lib/docker var/backups etc/NetworkManager etc/wireguard etc/openvpn etc/letsencrypt .windlass/secrets
    .config/glab-cli .config/hcloud .config/stripe .config/ngrok .config/containers/auth.json .config/composer
    .config/configstore .config/solana .config/BraveSoftware .config/microsoft-edge .config/vivaldi
    .config/opera .config/Bitwarden .config/1Password .config/filezilla .config/github-copilot .config/sops
    .config/pip .config/kaggle .config/fly .fly .oci .aliyun .bluemix .kaggle .huggingface
    .cache/huggingface/token .pulumi .chef .thunderbird .purple .irssi .electrum .bitcoin .cloudflared .ngrok2
    .step .jfrog .minikube .filezilla .local/share/kwalletd .local/share/Bitwarden .idea/webservers.xml
    .vscode/sftp.json .recon-ng/keys.db .psql .dbeaver Google/Chrome Firefox/Profiles .config/helm
    .config/msmtp .config/.wrangler .config/neonctl .config/turso .snowflake .railway .doppler .stripe
    .gsutil .dbt/profiles.yml .nuget/NuGet .mutt .auth .scw .config/scw .linode-cli .config/linode-cli .okta
    .tsh .hex/hex.config .mix/hex.config .subversion/servers .bzr/authentication.conf .lein/profiles.clj
    .codeium .continue/config.json .continue/config.yaml .gemini/settings.json .jupyter/runtime .putty
    .remmina .config/remmina .config/lftp .config/weechat .weechat .znc .config/wandb .config/lastpass
    .config/yt-dlp .envs .android/adbkey .talos .copilot .ibmcloud .config/tea .config/amp .local/share/amp
    .local/share/opencode .config/shell_gpt .config/io.datasette.llm .config/goose
    .mc/config.json .argocd .config/argocd .expo/state.json .config/nix/nix.conf
    .config/cachix .config/aerc .config/himalaya .config/exercism .config/pnpm/rc .config/toot
    .config/crush .config/netlify .config/render .runpod .qcloudcli .tccli .bcecli .influxdbv2 .jira.d
    .proxychains
    """.split()
)
"""Folders and files of credentials, wherever they lie below."""

_NAME_CHARS_MAX: Final = 255
_BACKUP: Final = re.compile(
    r"(?i)(?:[~#]|\.~?[0-9]{1,14}~?|[-_. ]v?[0-9]{4}[-_.]?[0-9]{2}[-_.]?[0-9]{2}(?:[-_.t]?[0-9]{2,6})?"
    r"|[-_. ]\(?(?:copy|backups?|bak|bkp|old|orig|original|saved?|prev|previous|te?mp|sw[nop]|rej|dpkg-[a-z]+"
    r"|ucf-[a-z]+|rpm[a-z]+|gz|bz2|xz|zst|lz4|zip|tar|tgz|7z|enc|encrypted|b64|base64|part|partial|disabled"
    r"|deleted|[0-9]{1,3})\)?)$"
)
"""An ending that says: another file of that name, perhaps packed."""
_CUT: Final = re.compile(r"(?!^)(?=[^A-Za-z0-9])|(?<=[A-Za-z_])(?=v?[0-9]{1,4}$)")
"""Where a name may begin that was added to another one."""
_PREFIX: Final = re.compile(r"(?i)^(?:copy|backup|bak|old)(?:[-_ ]of)?[-_ ]+(?=.)")
_HIDDEN: Final = re.compile(r"^(?:\.#|\._|[.#_])(?=.)")
"""The beginnings of names that editors and systems give to copies."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OWNERS: Final = (
    "private|priv|deploy|api|access|secret|ssh|gpg|pgp|rsa|dsa|ecdsa|ec|signing|sign|encryption|crypto|aes|hmac"
    "|jwt|master|root|admin|service|account|host|server|client|ssl|tls|gcp|gcs|gcloud|google|aws|azure|github"
    "|gitlab|stripe|openai|anthropic|sendgrid|twilio|firebase|license|session|auth|bot|prod|production|staging|my"
)
_SAYS: Final = re.compile(
    r"(?<![a-z0-9])(?:"
    r"[a-z]*(?:secrets?|credentials?|creds|passwords?|passwds?|passphrases?|apikeys?|tokens?)"
    r"(?:keys?|files?|stores?|caches?|data|db|lists?)?"
    r"|cred|pwds?|o-?auth(?:-?[0-9])?|jwts?|kube-?configs?|t?otp|(?:gh|git-?hub|git-?lab|azure)-?pat"
    r"|conn(?:ection)?-?str(?:ing)?s?|(?:db|database|redis|mongo(?:db)?|postgres|amqp)-?ur[il]s?"
    r"|web-?hook-?urls?|(?:slack|discord|teams)-?web-?hooks?|auth-?headers?|pass-words?"
    r"|(?:key|trust)-?stores?|key-?(?:rings?|chains?|tabs?)"
    r"|ht-?passwds?|service-?accounts?(?:-?keys?)?|mnemonics?|seed-?phrases?|(?:recovery|backup)-?codes?"
    rf"|(?:{_OWNERS})-?keys?(?:-?(?:files?|pairs?))?"
    r")(?![a-z0-9])"
)
"""Words, joined by dashes, that name credentials."""
_KEY_OR_PASS: Final = re.compile(
    r"(?:.*-)?(?:(?<!public-)(?<!primary-)(?<!foreign-)(?<!sort-)keys?"
    r"|(?<!by-)(?<!com-)(?<!first-)(?<!second-)(?<!last-)(?<!single-)(?<!one-)(?<!two-)(?<!multi-)(?<!test-)"
    r"(?<!low-)(?<!high-)(?<!band-)(?<!all-)(?<!must-)(?<!should-)(?<!run-)(?<!boarding-)pass"
    r"|(?:db|user|vault|smtp|mail|admin|root|redis|proxy|mysql|pg|ssh|ftp)pass)(?:-[0-9]+)?"
)
"""A name that ends in a key, or a password, of any owner; `pass` may be that of a compiler or of a test."""
_FOLDER: Final = re.compile(
    r"(?:.*-)?(?:[a-z]*(?:secrets?|credentials?|passwords?|passwds?)|creds"
    r"|(?:private|api|ssh|deploy|access)-?keys?|(?:access|auth|api|refresh)-?tokens?|service-?accounts?"
    r"|key-?stores?|kube-?configs?)(?:-(?:dirs?|director(?:y|ies)|files?|folders?|data))?"
)
"""Words of a folder that is for credentials: the last ones, since `token-service` holds a program."""
_GLOB: Final = re.compile(r"[*?\[]")
_ONE_ENDING: Final = re.compile(r"\*\.[^.*?\[]+")
_BRACKETS: Final = re.compile(r"\[[!^]?\]?[^\]]*\]")
_ENDING: Final = re.compile(r".*\.(?!(?:json|txt)$)[A-Za-z0-9]{1,12}|requirements[-_.]?\*\.txt")
"""An ending that few files of credentials have, or names of lists of packages."""
_GLOB_EVIDENCE_CHARS_MIN: Final = 2
_SECRET_SAMPLES: Final = tuple(
    ".env .env.local .npmrc .netrc id_rsa id_ed25519 credentials secrets shadow server.pem"
    " private.key".split()
)
_SECRET_ENDINGS: Final = tuple(name[2:] for name in SECRET_FILES if name.startswith("*."))
"""Endings of names of files of credentials, such as `pem`."""
_IN_SECRET_PATH: Final = re.compile(
    rf"/(?:{'|'.join(map(re.escape, SECRET_PATHS))})/|[^/]\.git/config/|/\.git/[^/]".lower()
)
"""What lies in `.git` may have addresses with a token: of remotes, of submodules, of what was pulled."""

LEFT_OUT_FOLDERS: Final = tuple(
    dict.fromkeys(path.partition("/")[0] for path in SECRET_PATHS if path.startswith(".") or "/" not in path)
)
"""Names of folders that a search through a folder leaves out."""
_STEMS: Final = (
    "secret credential cred passwd password token api?key apikey private?key privatekey service?account"
    " serviceaccount serviceaccountkey [-_]key oauth kubeconfig keystore database?url webhook?url"
    " connection?string [-_bghlnprt]pass pass?word [kds][-_]webhook auth?header".split()
)
_DATA: Final = (
    "json* [xy][aml]* t[ox]* c[fos][gnv]* [ei]n* prope* d[bou]* dat* [bl]i* sq* log* out* pdf*".split()
)
LEFT_OUT_WORDS: Final = tuple(
    f"*{stem}{tail}" for stem in _STEMS for tail in ("", "s", *(f"*.{data}" for data in _DATA))
)
"""Patterns of what words say, for git: the names in a history are not at hand."""
BACKUPS: Final = ("*~", "*.sw[nop]")
BACKUP_ENDING: Final = ".[bos0-9]*"
"""Names of backups, and the ending of others, for git: `.bak`, `.old`, `.orig`, `.1`, `.save`."""
SECRET_FOLDERS: Final = tuple(
    f"*{stem}{tail}"
    for stem in (
        "secret credential password passwd cred private*key api*key ssh*key deploy*key access*key"
        " access*token auth*token api*token refresh*token service*account key*store kube*config".split()
    )
    for tail in ("", "s")
)
"""Names of folders that are for credentials, for git."""


def is_secret(path: str) -> bool:
    """Say whether a path, or a pattern of file names, may name a file of credentials."""
    if "/.git/" in f"/{path.lower()}/":
        # Of any name: that of a branch, `fix.md`, is the name of a log with addresses.
        return True
    name = path.rpartition("/")[2].lower()
    # Most files of a project are source code: this is fast.
    if _is_any(name, PUBLIC_FILES) and _BACKUP.search(name) is None:
        return False
    return is_listed(path) or _has_words(_segments(path))


def is_listed(path: str) -> bool:
    """Say whether a list has the name of a file, of a backup of it, or of a folder that it lies in.

    Words are not looked at: a name without an ending may be that of a folder of source code.
    """
    segments = _segments(path)
    if not segments:
        return False
    names = [name.lower() for name in _names(segments[-1])]
    if _is_any(names[-1], PUBLIC_FILES):
        return False
    # Some file systems make no difference between capital and small letters.
    above = (_names(folder)[-1] for folder in segments[:-1])
    joined = f"/{'/'.join((*above, segments[-1])).lower()}/"
    if _IN_SECRET_PATH.search(joined):
        return True
    shown = [_HIDDEN.sub("", name) for name in names]
    if any(_is_any(name, SECRET_FILES) for name in (*names, *shown)):
        return True
    if not is_source(names[0]) and any(_is_any(name, SECRET_FILES) for name in _originals(names[0])):
        return True
    return _GLOB.search(names[0]) is not None and _may_match_listed(names[0])


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment not in ("", ".")]


def _names(name: str) -> list[str]:
    """Return a name, and what remains of it without the endings of backups: the shortest last."""
    names = [_PREFIX.sub("", name[-_NAME_CHARS_MAX:])]
    while (shorter := _BACKUP.sub("", names[-1])) not in ("", names[-1]):
        names.append(shorter)
    return names


def _originals(name: str) -> Iterator[str]:
    """Yield what a name may be a copy of, with any ending: `.npmrc.local`, `id_rsa,v`, `.env2`.

    Not plain words: `shadow-map.json` is no copy of `shadow`.
    """
    for cut in _CUT.finditer(name):
        original = name[: cut.start()]
        if not original.isalpha():
            yield original


def _has_words(segments: Sequence[str]) -> bool:
    """Say whether the words of a name, or of a folder above it, are those of credentials."""
    if not segments:
        return False
    name = _names(segments[-1])[-1]
    if is_source(name):
        return False
    stem = name.rpartition(".")[0]
    if (
        _SAYS.search(_words(segments[-1]))
        or _SAYS.search(_words(name))
        or _KEY_OR_PASS.fullmatch(_words(stem or name))
    ):
        return True
    return any(_FOLDER.fullmatch(_words(_names(folder)[-1])) for folder in segments[:-1])


def is_source(name: str) -> bool:
    """Say whether the ending of a name is that of source code, prose or a picture."""
    stem, _, ending = name.rpartition(".")
    return bool(stem) and (ending.lower() in _SOURCE or _is_any(name.lower(), PUBLIC_FILES))


def _words(name: str) -> str:
    return "-".join(_WORD.findall(name)).lower()


def _may_match_listed(name: str) -> bool:
    """Say whether a pattern of names is made for a listed one."""
    stem, _, ending = name.rpartition(".")
    if stem and _GLOB.search(ending) and any(map(str.isalnum, ending)):
        return any(fnmatchcase(secret, ending) for secret in _SECRET_ENDINGS)
    evidence = sum(character.isalnum() for character in name)
    return (name.startswith(".") or evidence >= _GLOB_EVIDENCE_CHARS_MIN) and any(
        fnmatchcase(sample, name) for sample in _SECRET_SAMPLES
    )


def may_reach_secret(segments: Sequence[str]) -> bool:
    """Return whether a pattern, by its segments, is too wide: any name may match, also that of a secret.

    One with an ending, such as `*.csv`, may match a secret too: its matches are looked at before it is run.
    """
    if _ENDING.fullmatch(segments[-1]):
        return False
    # A wildcard matches no dot at the beginning of a name, so hidden ones are out of reach.
    return any(
        len(segment) > _NAME_CHARS_MAX
        or any(have_common_name(segment.lower(), name) for name in _VISIBLE_SECRETS)
        for segment in segments
        if _GLOB.search(segment)
    )


_VISIBLE_SECRETS: Final = tuple(
    dict.fromkeys(
        name.lower() for name in (*SECRET_FILES, *LEFT_OUT_FOLDERS, *LEFT_OUT_WORDS) if name[0] != "."
    )
)


def have_common_name(left: str, right: str) -> bool:
    """Return whether two patterns of file names match a name in common; brackets count as any character."""
    left, right = _BRACKETS.sub("?", left), _BRACKETS.sub("?", right)
    # Row by row: whether the first characters of `left` and of `right` can match the same text.
    row = [True]
    for character in right:
        row.append(row[-1] and character == "*")
    for mine in left:
        above, row = row, [row[0] and mine == "*"]
        for at, theirs in enumerate(right, 1):
            if mine == "*" or theirs == "*":
                row.append(above[at] or row[-1] or above[at - 1])
            else:
                row.append(above[at - 1] and (mine == theirs or "?" in (mine, theirs)))
    return row[-1]


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name, in small letters, is one of the patterns."""
    names, endings, others = _compile_patterns(patterns)
    _, dot, ending = name.rpartition(".")
    return name in names or (bool(dot) and ending in endings) or others.fullmatch(name) is not None


@lru_cache(maxsize=8)
def _compile_patterns(patterns: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str], re.Pattern[str]]:
    """Return patterns as plain names, as endings, and as one expression: most are compared at once."""
    names = frozenset(pattern for pattern in patterns if _GLOB.search(pattern) is None)
    endings = frozenset(pattern[2:] for pattern in patterns if _ONE_ENDING.fullmatch(pattern))
    others = [
        translate(pattern)
        for pattern in patterns
        if pattern not in names and not _ONE_ENDING.fullmatch(pattern)
    ]
    return names, endings, re.compile("|".join(others) or "(?!)")
