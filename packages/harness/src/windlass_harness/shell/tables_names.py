"""Names that mean something: variables, files, folders, devices, hosts.

Literal data only.
"""

HARMLESS_VARIABLES = frozenset(
    """
    COLUMNS EDITOR EUID GROUPS HOME HOSTNAME HOSTTYPE LANG LANGUAGE LC_ALL LINENO LINES LOGNAME
    MACHTYPE OLDPWD OSTYPE PATH PIPESTATUS PPID PWD RANDOM SECONDS SHELL SHLVL TERM TZ UID USER
    USERNAME VIRTUAL_ENV BASH_VERSION EPOCHSECONDS EPOCHREALTIME FUNCNAME BASHPID VISUAL PAGER CI
    XDG_SESSION_TYPE DISPLAY NODE_ENV GOPATH JAVA_HOME SSH_TTY COLORTERM TERM_PROGRAM PYTHONPATH
    CONDA_DEFAULT_ENV BASH_SOURCE AUTHOR SRANDOM
    """.split()
)
"""Variables that may be printed."""

KNOWN_VALUES = {
    "HOME": "~",
    "PWD": ".",
    "OLDPWD": "..",
    "TMPDIR": "/tmp",
    "IFS": " ",
    "SHELL": "/bin/sh",
    "BASH": "/bin/bash",
    "UID": "1000",
    "EUID": "1000",
    "?": "0",
    "#": "0",
    "$": "1",
    "!": "1",
    "-": "hB",
    "LINENO": "1",
    "RANDOM": "1",
    "SECONDS": "1",
}
"""Variables whose value, or one that stands for it, is known beforehand."""

SECRET_VARIABLE = (
    r"secret|token|passw|passphrase|credential|api_?key|private_?key|access_?key|auth(?!or)|_key$|_pwd$|_pass$"
    r"|_dsn$|cookie|database_url|connection_?string|webhook"
)

INTEGER_VARIABLES = frozenset("HISTCMD LINENO OPTIND RANDOM SECONDS SRANDOM".split())
"""Variables whose value the shell evaluates as a number when they are set."""

HARMLESS_SETTINGS = frozenset(
    """
    LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME LANG LANGUAGE NO_COLOR FORCE_COLOR
    CLICOLOR CLICOLOR_FORCE TZ COLUMNS LINES TERM GREP_COLOR GREP_COLORS LS_COLORS BLOCK_SIZE CI
    GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED
    PYTHONIOENCODING PYTHONUTF8
    """.split()
)
"""Variables that may be set before a read: they change how it looks, not what it does."""

EXECUTING_SETTINGS = tuple(
    """
    BASH_ENV ENV LD_* DYLD_* PATH IFS GIT_* *PAGER LESS LESSOPEN LESSCLOSE LESSEDIT LESSKEY* VISUAL
    *EDITOR BROWSER MANOPT MANROFFOPT MANPATH PYTHON* PERL5* PERLLIB PERLIO* RUBYOPT RUBYLIB
    NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED PROMPT_COMMAND PS0 PS1
    PS2 PS3 PS4 SHELLOPTS BASHOPTS BASH_FUNC_* BASH_LOADABLES_PATH BASH_XTRACEFD RIPGREP_CONFIG_PATH
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS SBT_OPTS ANT_OPTS RUSTC
    RUSTC_* RUSTFLAGS CARGO_* CC CXX CPP LD AR AS MAKEFLAGS MAKEFILES GNUMAKEFLAGS GOFLAGS GOPROXY
    GONOSUMDB GOTOOLCHAIN GOROOT GCC_EXEC_PREFIX COMPILER_PATH *_proxy *_PROXY SSH_ASKPASS
    SSH_AUTH_SOCK SUDO_* KUBECONFIG DOCKER_HOST DOCKER_CONFIG TAR_OPTIONS RSYNC_RSH
    RSYNC_CONNECT_PROG CVS_RSH SVN_SSH HGRCPATH HGEDITOR HGMERGE npm_config_* NPM_CONFIG_* YARN_*
    PIP_* UV_* HOME SHELL COMSPEC XDG_CONFIG_* XDG_DATA_* CURL_HOME WGETRC INPUTRC HISTFILE HISTSIZE
    HISTCONTROL HISTFILESIZE FPATH CDPATH GLOBIGNORE EXECIGNORE GCONV_PATH LOCPATH NLSPATH TERMINFO*
    TERMCAP HOSTALIASES LOCALDOMAIN RES_OPTIONS MALLOC_* GLIBC_TUNABLES LUA_* PHPRC PHP_INI_SCAN_DIR
    OPENSSL_* SSL_CERT_* REQUESTS_CA_BUNDLE GTK_* QT_* GIO_* GST_* TCLLIBPATH AWKPATH AWKLIBPATH R_*
    JULIA_* ERL_* GEM_* BUNDLE_* RBENV_* PYENV_* NVM_* TF_* ANSIBLE_* VAGRANT_* MYSQL_* SYSTEMD_*
    WINDLASS_* VIMINIT EXINIT MYVIMRC NVIM_* VIMRUNTIME VIM EMACSLOADPATH TMUX* SCREENRC FZF_* BAT_*
    DELTA_* DIRENV_* NULLCMD READNULLCMD ZDOTDIR MAILCAPS MAILPATH MAILCAP LYNX_* GROFF_* TEXINPUTS
    TEXMF* MAGIC PSModulePath CLASSPATH AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_ENDPOINT_URL*
    AWS_CA_BUNDLE AWS_CONTAINER_* AWS_WEB_IDENTITY_* CLOUDSDK_* GOOGLE_APPLICATION_CREDENTIALS
    BOTO_CONFIG AZURE_CONFIG_DIR HELM_* NETRC PGPASSFILE PGSERVICEFILE PGSYSCONFDIR PSQLRC GNUPGHOME
    PASSWORD_STORE_* COMPOSER_* HOMEBREW_*_DOMAIN HOMEBREW_*_REMOTE HOMEBREW_*_PATH CONDARC CONDA_EXE
    POETRY_REPOSITORIES_* PRE_COMMIT_HOME TS_NODE_* BUN_INSTALL DENO_DIR XAUTHORITY DBUS_* CCACHE_*
    DISTCC_* SCCACHE_* RUSTUP_*_ROOT RUSTUP_*_SERVER CABAL_* STACK_ROOT OPAM* NIX_* GUILE_* W3M_*
    NMAPDIR GDAL_* MATPLOTLIBRC IPYTHONDIR JUPYTER_* PYTEST_ADDOPTS PYTEST_PLUGINS MYPYPATH PYLINTRC
    DOCKER_CONTEXT DOCKER_CERT_PATH CONTAINER_HOST CONTAINERS_* REGISTRY_AUTH_FILE SSH_SK_PROVIDER
    RSYNC_* LESS* CMAKE_*_LAUNCHER CMAKE_*_COMPILER CMAKE_TOOLCHAIN_FILE PKG_CONFIG* KRB5* COREPACK_*
    ASDF_* MISE_* ELECTRON_* PUPPETEER_EXECUTABLE_PATH CHROME_* DOTNET_STARTUP_HOOKS
    DOTNET_ADDITIONAL_DEPS NUGET_* FACTERLIB GREP_OPTIONS GZIP BZIP* XZ_* ZIPOPT UNZIP ZSTD_* PERL_*
    WINEPREFIX
    """.split()
)
"""Variables that make a program run, load or trust something else."""

SECRET_FILES = tuple(
    """
    .env .env.* *.env .envrc id_rsa id_rsa.* id_dsa id_ecdsa id_ecdsa_* id_ed25519 id_ed25519_*
    *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.kdb *.ppk *.gpg *.age .netrc _netrc .npmrc
    .pypirc .pgpass .my.cnf .mylogin.cnf .git-credentials .htpasswd htpasswd credentials
    credentials.json credentials.yml credentials.yaml credentials.toml credentials.ini
    credentials.csv credentials.db credentials.xml credentials.txt secrets secrets.json secrets.yml
    secrets.yaml secrets.toml secrets.ini secrets.txt secrets.env secrets.xml secret.json secret.yml
    secret.yaml secret.txt secret.key *.secret *.secrets .secret .secrets .*_history .*history
    .lesshst .viminfo .dockercfg shadow shadow- gshadow sudoers master.key token token.txt
    token.json *.token .token tokens.json .vault-token .vault_pass terraform.tfstate
    terraform.tfstate.* *.tfvars wallet.dat *.keychain *.keychain-db key4.db key3.db logins.json
    cookies.sqlite service-account*.json *service-account.json *service_account*.json
    application_default_credentials.json kubeconfig *.kubeconfig password password.txt passwords
    passwords.txt passwords.csv passwords.json passwd.txt .s3cfg .boto rclone.conf auth.json
    .msmtprc .fetchmailrc ssh_host_*_key *_rsa *_ed25519 *_ecdsa krb5.keytab *.keytab
    gha-creds-*.json .credentials.json .pgpass.conf
    """.split()
)
"""File names that hold credentials."""

PUBLIC_FILES = tuple("*.example *.sample *.template *.dist *.pub *.defaults *.tmpl *.md *.rst".split())
"""Endings that say: the file only looks like a secret."""

SECRET_FOLDERS = tuple(
    """
    .ssh .aws .gnupg .azure .kube .docker .password-store .mozilla .secrets secrets Keychains .vault
    .gcloud
    """.split()
)
SECRET_PATHS = tuple(
    """
    .config/gh .config/gcloud .config/google-chrome .config/chromium .config/op .config/hub
    .config/git/credentials .config/rclone .config/doctl .config/heroku .cargo/credentials
    .cargo/credentials.toml .gem/credentials .terraform.d/credentials.tfrc.json
    .local/share/keyrings Library/Keychains etc/ssl/private run/secrets var/run/secrets etc/shadow
    etc/gshadow etc/sudoers etc/sudoers.d etc/security/opasswd etc/krb5.keytab etc/kubernetes
    .m2/settings.xml .gradle/gradle.properties .composer/auth.json .databricks .snowsql
    .bundle/config Application/Chrome .windlass/secrets .git/config .config/Slack var/lib/docker
    var/backups etc/NetworkManager etc/wireguard etc/openvpn etc/letsencrypt
    """.split()
)
"""Folders and files of credentials, wherever they lie below."""

STARTUP_FILES = tuple(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zprofile .zshenv
    .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .envrc .vimrc .exrc
    .gvimrc .emacs .nanorc .gdbinit .lldbinit .gitconfig .gitmodules .npmrc .yarnrc .yarnrc.yml
    .pypirc .condarc .curlrc .wgetrc .screenrc .tmux.conf .Rprofile .irbrc .pryrc .psqlrc .sqliterc
    .mailcap .netrc .xinitrc .xsession .xprofile .xsessionrc .pam_environment authorized_keys
    authorized_keys2 sitecustomize.py usercustomize.py *.pth .pre-commit-config.yaml lefthook.yml
    .lefthook.yml .gitlab-ci.yml Jenkinsfile azure-pipelines.yml .travis.yml .drone.yml
    bitbucket-pipelines.yml *.service *.timer *.desktop crontab *.plist .mcp.json
    """.split()
)
"""Files that something runs or trusts later."""

STARTUP_PATHS = tuple(
    """
    .git .husky .githooks .github/workflows .github/actions .circleci .vscode .idea
    .config/autostart .config/systemd .config/fish .config/nvim Library/LaunchAgents
    Library/LaunchDaemons .devcontainer .local/bin .ssh .direnv .buildkite .claude .cursor .codex
    etc/cron.d etc/cron.daily etc/profile.d etc/init.d etc/systemd etc/ld.so.preload etc/sudoers.d
    etc/rc.local var/spool/cron
    """.split()
)
POLICY_FOLDERS = (".windlass",)
"""Our own policy, journal and approvals."""

DATA_FILES = tuple(
    """
    *.db *.sqlite *.sqlite3 *.db3 *.mdb *.accdb *.rdb *.aof *.dump *.img *.iso *.qcow2 *.vmdk *.vdi
    *.ibd *.frm *.myd *.wal *-wal *.ldb *.bak *.backup *.ova *.snapshot
    """.split()
)
"""Files whose content cannot be made again by a build."""

HARMLESS_DEVICES = frozenset(
    """
    /dev/null /dev/stdin /dev/stdout /dev/stderr /dev/tty /proc/self/fd/0 /proc/self/fd/1
    /proc/self/fd/2
    """.split()
)
ENDLESS_DEVICES = frozenset({"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
NETWORK_DEVICES = ("/dev/tcp/", "/dev/udp/", "/inet/", "/inet4/", "/inet6/")
PROGRAM_FOLDERS = frozenset(
    """
    /bin /usr/bin /sbin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /lib /lib64
    /usr/lib /usr/lib64 /usr/libexec /usr/games
    """.split()
)
"""Folders where a program is what its name says."""

SCRATCH_FOLDERS = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/user/")
LOCAL_HOSTS = tuple(
    """
    localhost *.localhost localhost.* metadata metadata.google.internal *.internal *.local
    *.localdomain host.docker.internal kubernetes kubernetes.default* *.svc *.cluster.local
    instance-data *.nip.io *.sslip.io *.xip.io *.lvh.me lvh.me localtest.me *.localtest.me
    *.home.arpa router gateway *.lan *.intranet *.corp
    """.split()
)
"""Host names that mean this machine, this network or a cloud's control plane."""

CAPTURE_HOSTS = tuple(
    """
    *webhook.site *requestbin* *pipedream.net *ngrok* *burpcollaborator* *oastify* *interact.sh
    *transfer.sh *pastebin* *ix.io *0x0.st *file.io *termbin* *dnslog*
    """.split()
)
"""Hosts that exist to receive other people's data."""
