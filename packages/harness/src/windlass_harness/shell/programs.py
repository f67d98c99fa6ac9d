"""The programs of the safe language: for each one, exact option spellings and kinds of operands.

Literal data only, taken from the manual of each program (GNU coreutils, findutils, grep and diffutils;
util-linux; ripgrep; jq; git). An option that writes, runs, connects or waits is not here.

Grammar of an option list:

| entry | accepted words |
|---|---|
| `--all` | this word |
| `+ahl` | `-a`, `-h`, `-l`, and these letters together after one dash, in any order: `-lah` |
| `-n=N`, `--lines=N` | `-n 5`, `-n5`; `--lines 5`, `--lines=5`: the value is required, and of kind N |
| `-U:N`, `--unified:N` | `-U5`; `--unified=5`: the value is optional, so only the attached form is exact |
| `-I@T` | `-I build`: the value is the next word only |
| `-#` | `-5` |

Operands are kinds in order; `*` after the last one repeats it, and without operands there may be none.
"""

from typing import Final

KINDS: Final = {
    "N": r"[0-9]{1,9}",
    "COUNT": r"[-+]?[0-9]{1,9}[bkKMG]?",
    "SMALL": r"[0-9]{1,6}",
    "SECONDS": r"[0-9]{1,2}(?:\.[0-9]{1,3})?s?",
    "CHAR": r"[^\\]|\\[tn0]",
    "LIST": r"[0-9][0-9,-]{0,60}",
    "KEY": r"[0-9]{1,3}(?:\.[0-9]{1,3})?[bdfghiMnRrV]*(?:,[0-9]{1,3}(?:\.[0-9]{1,3})?[bdfghiMnRrV]*)?",
    "NAME": r"[A-Za-z0-9_][A-Za-z0-9_.+-]*",
    "WHEN": r"never|auto|always",
    "SED": r"(?:[0-9]{1,9}|\$)(?:,(?:[0-9]{1,9}|\$))?p",
    "AWK": r"\{ ?print(?: ?\$(?:[0-9]{1,4}|NF)(?:, ?\$(?:[0-9]{1,4}|NF))*)? ?\}",
    "JQ": r"\.|(?:\.[A-Za-z_][A-Za-z0-9_]*|\.?\[[0-9]{0,9}\])(?:\.?\[[0-9]{0,9}\]|\.[A-Za-z_][A-Za-z0-9_]*)*",
    "PRINTF": r"(?:[^%\\]|%[sd%]|\\[nt\\])*",
    "TIME": r"\+(?:[^%]|%[-_0]?[A-Za-z%])*",
    "AGE": r"[-+]?[0-9]{1,9}",
    "SIZE": r"[-+]?[0-9]{1,9}[bcwkMG]?",
    "TYPE": r"[bcdflps](?:,[bcdflps])*",
    "PERM": r"[-/]?[0-7]{3,4}|[-/]?[ugoa]*[+=][rwx]+",
    "RANGE": r"[0-9]{1,9},\+?[0-9]{1,9}",
    "GITDATE": r"[a-z]+(?:-[a-z]+)*(?::[%A-Za-z0-9 :./_-]*)?",
    "PRETTY": r"oneline|short|medium|full|fuller|reference|raw|t?format:(?:[^%]|%(?![-+ ]?[G(]))*"
    r"|(?=[^:]*%)(?:[^%:]|%(?![-+ ]?[G(]))(?:[^%]|%(?![-+ ]?[G(]))*",
    "FILTER": r"[ACDMRTUXBacdmrtuxb]{1,10}",
    "SORT": r"-?[a-z:]{1,40}",
}
"""Kinds of values by their form. More have rules in code: T is any text that does not begin with a dash,
W any text, GLOB a text that does not name a file of credentials, P a path that is read (a pattern of file
names may become several), F a path that stays one, G a path or revision of git."""

PROGRAMS: Final = {
    "arch": ("", ""),
    "base64": ("-d --decode -w=N --wrap=N", "F"),
    "basename": ("", "T T"),
    "cat": (
        "+AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank",
        "P*",
    ),
    "cksum": ("", "P*"),
    "cmp": ("+bls --silent --quiet --verbose --print-bytes -n=N", "P P"),
    "column": ("-t -s=T", "P*"),
    "comm": ("+123 --check-order --nocheck-order", "P P"),
    "cut": (
        "-s --only-delimited --complement -d=CHAR --delimiter=CHAR -f=LIST --fields=LIST -c=LIST"
        " --characters=LIST"
        " -b=LIST --bytes=LIST --output-delimiter=T",
        "P*",
    ),
    "date": ("-u --utc --universal -I -Iseconds -Iminutes -R --rfc-email --iso-8601 -d=T --date=T", "TIME"),
    "df": ("+ahHikmPT --human-readable --total --local --print-type --inodes", "P*"),
    "diff": (
        "+abBdEiNpqrstuwy --brief --recursive --side-by-side --ignore-case --ignore-all-space"
        " --ignore-space-change"
        " --ignore-blank-lines --unified -U=N --unified:N -C=N -W=N --width=N --suppress-common-lines"
        " --minimal"
        " --text --no-dereference --color --color:WHEN",
        "P P",
    ),
    "dirname": ("", "T*"),
    "du": (
        "+abchHkmsSx --all --human-readable --summarize --total --apparent-size --bytes --one-file-system"
        " --inodes"
        " -d=N --max-depth=N",
        "P*",
    ),
    "echo": ("", "W*"),
    "false": ("", ""),
    "file": ("+bih --brief --mime --mime-type --mime-encoding --no-dereference", "P*"),
    "fold": ("+bs -w=N --width=N", "P*"),
    "grep": (
        "+acEFGhHiIlLnoPqrRsvwxyTz --recursive --line-number --ignore-case --no-ignore-case"
        " --files-with-matches"
        " --files-without-match --count --only-matching --invert-match --word-regexp --line-regexp"
        " --no-filename"
        " --with-filename --extended-regexp --fixed-strings --perl-regexp --basic-regexp --quiet --silent"
        " --no-messages --text --color --color:WHEN --colour:WHEN -e=T --regexp=T -A=N -B=N -C=N"
        " --after-context=N --before-context=N --context=N -m=N --max-count=N --include=GLOB --exclude=T"
        " --exclude-dir=T -#",
        "T P*",
    ),
    "groups": ("", ""),
    "head": ("+qvz --quiet --silent --verbose -n=COUNT --lines=COUNT -c=COUNT --bytes=COUNT -#", "P*"),
    "hexdump": ("-C -n=N -s=N", "P*"),
    "hostname": ("", ""),
    "id": ("+gGnruz", ""),
    "jq": (
        "-r -c -M -C -S -s -e -j -a --raw-output --compact-output --sort-keys --slurp --tab --exit-status",
        "JQ P*",
    ),
    "ls": (
        "+aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxX1 --all --almost-all --human-readable --recursive --reverse"
        " --directory"
        " --inode --size --full-time --group-directories-first --numeric-uid-gid --classify --color"
        " --color:WHEN"
        " --sort:NAME --time:NAME --time-style:NAME --format:NAME",
        "P*",
    ),
    "md5sum": ("", "P*"),
    "nl": ("-b=NAME -w=N -s=T", "P*"),
    "nproc": ("--all", ""),
    "od": ("+abcdfiloxsv -A=NAME -t=NAME -N=N -j=N", "P*"),
    "paste": ("-s -d=T --delimiters=T", "P*"),
    "printf": ("", "PRINTF T*"),
    "pwd": ("-L -P", ""),
    "readlink": ("+efmnqsvz --canonicalize", "P*"),
    "realpath": ("+emqsz --canonicalize-existing --canonicalize-missing --no-symlinks", "P*"),
    "rev": ("", "P*"),
    "rg": (
        "+acFHiIlLnNoPqsSUvwx --files --hidden --no-ignore --no-heading --heading --line-number"
        " --no-line-number"
        " --ignore-case --smart-case --case-sensitive --fixed-strings --word-regexp --count --count-matches"
        " --files-with-matches --files-without-match --only-matching --invert-match --multiline --json"
        " --stats"
        " --no-filename --with-filename --column --trim --vimgrep -uu -e=T --regexp=T -g=GLOB --glob=GLOB"
        " --iglob=GLOB"
        " -t=NAME --type=NAME -T=NAME --type-not=NAME -A=N -B=N -C=N --after-context=N --before-context=N"
        " --context=N -m=N --max-count=N --max-depth=N --sort=NAME --color=WHEN",
        "T P*",
    ),
    "sed": ("-n --quiet --silent -s", "SED P*"),
    "seq": ("-w -s=T", "SMALL SMALL SMALL"),
    "sha1sum": ("", "P*"),
    "sha256sum": ("", "P*"),
    "sha512sum": ("", "P*"),
    "sleep": ("", "SECONDS"),
    "sort": (
        "+bcdfghiMnrRsuVz --reverse --unique --numeric-sort --human-numeric-sort --version-sort --ignore-case"
        " --general-numeric-sort --month-sort --stable --check -k=KEY --key=KEY -t=CHAR"
        " --field-separator=CHAR",
        "P*",
    ),
    "stat": ("-L -t --terse -c=T --format=T", "P*"),
    "tail": ("+qvz --quiet --silent --verbose -n=COUNT --lines=COUNT -c=COUNT --bytes=COUNT -#", "P*"),
    "tr": ("+cCdst --delete --squeeze-repeats --complement", "T T"),
    "tree": (
        "+aAdDfFhiNpqrsStUv --dirsfirst --noreport --du --prune --gitignore -L@N -I@GLOB -P@GLOB"
        " --filelimit@N",
        "P*",
    ),
    "true": ("", ""),
    "type": ("+afptP", "NAME*"),
    "uname": ("+amnoprsv", ""),
    "uniq": ("+cdDiuz --count --repeated --unique --ignore-case -f=N -s=N -w=N", "F"),
    "uptime": ("-p -s", ""),
    "wc": ("+clLmw --lines --words --bytes --chars --max-line-length", "P*"),
    "which": ("-a", "NAME*"),
    "whoami": ("", ""),
    "awk": ("-F=T", "AWK P*"),
}
"""Options and operands. `uniq` and `base64` take one path: to `uniq` a second one is the output."""

PATTERN_OPTIONS: Final = {
    "grep": ("-e", "--regexp"),
    "rg": ("-e", "--regexp", "--files"),
    "git grep": ("-e",),
}
"""Options that take the place of the first operand."""

_DIFF: Final = (
    " -p --patch -u -s --no-patch --raw --stat --numstat --shortstat --dirstat --summary --name-only"
    " --name-status"
    " -b -w -R -a -z -M -C --cached --staged --check --color --no-color --color:WHEN --word-diff"
    " --color-words"
    " --word-diff:NAME --minimal --patience --histogram --ignore-all-space --ignore-space-change"
    " --ignore-blank-lines --ignore-space-at-eol --find-renames --no-renames --full-index --abbrev --abbrev:N"
    " --exit-code --quiet --no-ext-diff --no-textconv --no-prefix --relative -W --function-context"
    " -U:N --unified:N --diff-filter:FILTER -S=T -G=T --pickaxe-regex --pickaxe-all --merge-base"
)
_LOG: Final = (
    f"{_DIFF} -# -n=N --max-count:N --skip:N --oneline --graph --all --branches --tags --remotes --decorate"
    " --no-decorate --decorate:NAME --since:T --after:T --until:T --before:T --author:T --committer:T"
    " --grep:T -i -E"
    " -F --all-match --invert-grep --reverse --merges --no-merges --first-parent --abbrev-commit"
    " --no-abbrev-commit"
    " --follow --topo-order --date-order --date:GITDATE --format:PRETTY --pretty --pretty:PRETTY --left-right"
    " --cherry-pick --no-walk --no-notes --full-history --relative-date -m -c --cc"
)
GIT: Final = {
    "blame": (
        "-l -s -w -e -t -f -n -M -C -c --show-name --show-number --show-email --porcelain --line-porcelain"
        " --date:GITDATE --root --no-progress -L=RANGE",
        "G*",
    ),
    "branch": (
        "-a -r -v -vv -av -avv -rv --all --remotes --list --verbose --show-current --no-color --no-column"
        " --sort:SORT",
        "",
    ),
    "cat-file": ("-t -s -e -p", "G"),
    "check-ignore": ("-v --verbose -n --non-matching -q --quiet", "G*"),
    "count-objects": ("-v -H -vH --verbose --human-readable", ""),
    "describe": ("--tags --always --all --long --exact-match --abbrev:N --first-parent", "G*"),
    "diff": (_DIFF, "G*"),
    "grep": (
        "-n -i -l -L -c -w -v -E -F -P -G -I -h -H -q -o -p -W --cached --line-number --ignore-case"
        " --files-with-matches --name-only --count --word-regexp --extended-regexp --fixed-strings --break"
        " --heading"
        " --no-color --all-match --and --or --not -e=T -A=N -B=N -C=N --max-depth=N",
        "T G*",
    ),
    "log": (_LOG, "G*"),
    "ls-files": (
        "-c -d -m -o -i -s -u -z -t -v --cached --deleted --modified --others --ignored --stage --unmerged"
        " --killed"
        " --exclude-standard --error-unmatch --full-name --directory --eol",
        "G*",
    ),
    "ls-tree": ("-r -t -l -d -z --long --name-only --name-status --full-name --full-tree", "G*"),
    "merge-base": ("-a --all --is-ancestor --fork-point --octopus", "G*"),
    "name-rev": ("--name-only --tags --always", "G*"),
    "reflog": (
        "-# -n=N --max-count:N --skip:N --oneline --all --decorate --no-decorate --since:T --until:T --grep:T"
        " --date:GITDATE --format:PRETTY --pretty --pretty:PRETTY --abbrev-commit --no-abbrev-commit"
        " --relative-date",
        "",
    ),
    "remote": ("-v --verbose", ""),
    "rev-list": (
        "-# -n=N --max-count:N --count --all --since:T --until:T --author:T --no-merges --merges"
        " --first-parent"
        " --reverse --oneline --left-right --abbrev-commit --parents",
        "G*",
    ),
    "rev-parse": (
        "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir"
        " --is-inside-work-tree --is-bare-repository --is-shallow-repository --abbrev-ref"
        " --symbolic-full-name"
        " --symbolic --short --short:N --verify -q --quiet --all --branches --tags --remotes",
        "G*",
    ),
    "shortlog": (
        "-s -n -e -c -sn -ns -sne --summary --numbered --email --all --no-merges --since:T --until:T",
        "G*",
    ),
    "show": (_LOG, "G*"),
    "show-ref": ("--heads --tags --branches -d -q --quiet --verify --head --hash --abbrev", "G*"),
    "stash list": ("--oneline --stat", ""),
    "stash show": ("-p --patch --stat --name-only --name-status", ""),
    "status": (
        "-s -b -sb -bs -z --short --branch --porcelain --porcelain:NAME --long --show-stash"
        " --ahead-behind --no-ahead-behind --ignored --ignored:NAME -u -uno -unormal -uall --untracked-files"
        " --untracked-files:NAME --column --no-column --renames --no-renames --ignore-submodules"
        " --ignore-submodules:NAME",
        "G*",
    ),
    "tag": ("-l --list -n --no-column --sort:SORT", ""),
    "version": ("", ""),
    "--version": ("", ""),
    "worktree list": ("--porcelain -v --verbose", ""),
}
"""Subcommands of git that only read, and their options. Those that write given an operand get none."""

GIT_GLOBAL: Final = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
"""Options of git itself, before the subcommand."""

FIND: Final = {
    **dict.fromkeys(
        "-empty -print -print0 -prune -quit -not -a -and -o -or -ls -readable -writable -executable -true"
        " -false"
        " -nouser -nogroup -daystart -mount -xdev -noleaf ! ( )".split(),
        "",
    ),
    **dict.fromkeys(
        "-name -iname -path -ipath -wholename -regex -iregex -lname -ilname -printf".split(), "T"
    ),
    **dict.fromkeys("-maxdepth -mindepth -inum -uid -gid".split(), "N"),
    **dict.fromkeys("-mtime -atime -ctime -mmin -amin -cmin -links".split(), "AGE"),
    **dict.fromkeys("-user -group -regextype".split(), "NAME"),
    "-type": "TYPE",
    "-xtype": "TYPE",
    "-size": "SIZE",
    "-perm": "PERM",
    "-newer": "F",
    "-anewer": "F",
    "-cnewer": "F",
    "-samefile": "F",
}
"""Expressions of find and the kind of their value; what runs, writes or deletes is not here."""

TEST_FILES: Final = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -k -u -g -O -G -N".split())
TEST_TEXTS: Final = frozenset(("-n", "-z"))
TEST_EQUALS: Final = frozenset(("=", "==", "!="))
TEST_NUMBERS: Final = frozenset("-eq -ne -lt -le -gt -ge".split())
"""Operators of `test` and `[`. `-v`, `-R` and `-o` evaluate names; connectives change what words mean."""

CAUTIONS: Final = {
    "safe_write": "cp install ln mkdir mkfifo mktemp mv patch rmdir split tar tee touch unzip zip gzip"
    " gunzip bzip2 xz",
    "unknown/network": "aria2c curl dig ftp git-lfs host http nmap nslookup ping ssh traceroute wget whois",
    "unknown/install": "apk apt apt-get brew conda dnf gem mamba npm pip pip3 pipx pnpm poetry snap uv"
    " yarn yum",
    "unknown/exec": "bash bun cargo cmake composer dash deno docker env eval exec go gradle java just"
    " kotlin ksh lua"
    " make mvn node npx perl php podman pytest python python2 python3 ruby sh source . tox tsx vitest"
    " xargs zsh",
    "unknown/pager": "bat info less man more most",
    "unknown/editor": "ed emacs ex micro nano nvim pico vi vim",
}
"""Why a program that is not in the language is not: shown to people, of no effect on the grade."""

SECRET_FILES: Final = tuple(
    """
    .env .env.* *.env .envrc id_rsa id_rsa.* id_dsa id_ecdsa id_ecdsa_* id_ed25519 id_ed25519_* *.pem *.key
    *.p12
    *.pfx *.jks *.keystore *.kdbx *.kdb *.ppk *.gpg *.age .netrc _netrc .npmrc .pypirc .pgpass .my.cnf
    .mylogin.cnf .git-credentials .htpasswd htpasswd credentials credentials.* secrets secrets.* secret.*
    *.secret
    *.secrets .secret .secrets .*_history .*history .lesshst .viminfo .dockercfg shadow shadow- gshadow
    sudoers
    master.key token token.* *.token .token tokens.json .vault-token .vault_pass terraform.tfstate
    terraform.tfstate.* *.tfvars wallet.dat *.keychain *.keychain-db key4.db key3.db logins.json
    cookies.sqlite
    service-account*.json *service-account.json *service_account*.json application_default_credentials.json
    kubeconfig *.kubeconfig password password.* passwords passwords.* passwd.txt .s3cfg .boto rclone.conf
    auth.json
    .msmtprc .fetchmailrc ssh_host_*_key *_rsa *_ed25519 *_ecdsa *.keytab gha-creds-*.json .credentials.json
    """.split()
)
PUBLIC_FILES: Final = tuple(
    "*.example *.sample *.template *.dist *.pub *.defaults *.tmpl *.md *.rst *.py *.ts".split()
)
"""Endings that say: the file only looks like a secret."""
SECRET_PATHS: Final = tuple(
    """
    .ssh .aws .gnupg .azure .kube .docker .password-store .mozilla .secrets secrets Keychains .vault .gcloud
    .config/gh .config/gcloud .config/google-chrome .config/chromium .config/op .config/hub
    .config/git/credentials .config/rclone .config/doctl .config/heroku .cargo/credentials
    .cargo/credentials.toml .gem/credentials
    .terraform.d/credentials.tfrc.json .local/share/keyrings etc/ssl/private run/secrets etc/shadow
    etc/gshadow etc/sudoers etc/sudoers.d etc/security/opasswd etc/krb5.keytab etc/kubernetes .m2/settings.xml
    .gradle/gradle.properties .composer/auth.json .databricks .snowsql .bundle/config .git/config
    var/lib/docker var/backups etc/NetworkManager etc/wireguard etc/openvpn etc/letsencrypt .windlass/secrets
    """.split()
)
"""Folders and files of credentials, wherever they lie below."""
