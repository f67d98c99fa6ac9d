"""Destructive patterns: what makes a command dangerous rather than unknown.

This is a deny-list, so it proves nothing: a command that it misses is still `caution`, and a person is asked.
It reads literal commands by their words, and any other text roughly, with its quotes taken away.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from windlass_harness.policy import FAMILIES, RUNNERS
from windlass_harness.shell.language import Finding, is_secret
from windlass_harness.shell.parser import Simple

REST_CHARS_MAX: Final = 2_000
"""Characters of one command's words that are searched: the time of a search grows with their square."""

NAMES: Final = {
    "destructive": "rm unlink shred srm truncate dd wipe trash trash-put",
    "destructive/device": "wipefs fdisk sfdisk gdisk parted mount umount losetup swapoff swapon blkdiscard"
    " pvremove"
    " lvremove vgremove cryptsetup mdadm e2label tune2fs hdparm mkswap zpool resize2fs debugfs diskutil"
    " btrfs dmsetup"
    " flashrom fwupdmgr efibootmgr kexec dracut mknod",
    "destructive/priv": "sudo su doas pkexec runas gsudo dzdo sudoedit run0 sg newgrp capsh",
    "destructive/perm": "chown chgrp useradd userdel usermod adduser deluser groupadd groupdel groupmod"
    " passwd chpasswd"
    " chsh chfn visudo vipw setfacl setcap chattr iptables ip6tables nft ufw firewall-cmd ifconfig route"
    " sysctl"
    " hostnamectl timedatectl arp tc setenforce update-grub grub-install modprobe insmod rmmod"
    " networksetup spctl"
    " hwclock nmcli loadkeys",
    "destructive/process": "kill killall pkill shutdown reboot halt poweroff init telinit fuser gcore",
    "destructive/persist": "at batch anacron launchctl systemd-run",
    "destructive/exfil": "sftp ftp nc ncat netcat socat telnet mail mailx sendmail mutt tftp rclone lftp"
    " psftp pscp"
    " whois wall write wormhole ssh-copy-id ab finger rlogin smbclient azcopy s3cmd restic",
    "destructive/shell": "tmux screen sash tmate ash csh ssh-agent",
    "destructive/windows": "del rd format reg vssadmin bcdedit schtasks taskkill certutil cmd powershell"
    " pwsh diskpart"
    " remove-item ri invoke-expression iex set-executionpolicy stop-process stop-service start-process"
    " robocopy icacls"
    " takeown cipher sc bitsadmin mshta rundll32 regsvr32 wmic clear-content set-content clear-eventlog"
    " wscript cscript"
    " restart-computer stop-computer register-scheduledtask unregister-scheduledtask format-volume"
    " new-service",
    "destructive/data": "dropdb dropuser mongorestore pg_restore tmutil",
    "destructive/tool-exec": "osascript jrunscript jjs facter run-parts xdotool distcc expect slsh cobc"
    " gtester bpftrace"
    " sshfs ansible-pull",
    "read/secret": "printenv history pbpaste ssh-add secret-tool screencapture keyctl op",
}
"""Programs that are dangerous whatever they are told, by category."""

_SHELL: Final = r"(?:ba|da|z|k|mk|c|tc|a|fi)?sh"
_AWAY: Final = r"(?:/(?!dev/null|dev/std|tmp/)|~|\.\.(?:/|$| )|\$\{?HOME)"
_PRIVATE: Final = (
    r"(?:localhost|127\.|0\.0\.0\.0|0177|10\.\d|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\."
    r"|100\.100\.|168\.63\."
    r"|\[|0x[0-9a-f]{6}|\d{8,10}\b|metadata|kubernetes|[\w.-]{1,80}\.(?:internal|local|svc|localhost"
    r"|nip\.io)\b)"
)
_WORST: Final = r"(?:rm|dd|shred|sudo|mkfs|kill|reboot|shutdown)"
_GIT: Final = r"^(?:-C \S+ |--[\w-]+ )*"
_CLOUD: Final = (
    "kubectl oc helm nomad consul etcdctl virsh vagrant VBoxManage vboxmanage heroku fly flyctl eb cdk"
    " pulumi terraform"
    " terragrunt tofu serverless sls aws gcloud az gsutil doctl firebase vercel netlify wrangler redis-cli"
    " mongod rails"
    " rake kafka-topics.sh packer argocd lxc minikube kind pm2 supervisorctl loginctl vault rabbitmqctl bq"
    " alembic prisma"
    " flyway liquibase mysqladmin airflow manage.py artisan apachectl curator_cli"
)
WORDS: Final = (
    ("env set export declare typeset", r"^(?:-[xp]+)?$", "read/secret"),
    ("ps", r"^a?u?x?e|\beww?\b", "read/secret"),
    ("gpg gpg2", r"--export-secret|--decrypt|--delete", "read/secret"),
    ("gh", r"\bauth token", "read/secret"),
    (
        "aws gcloud az npm terraform vault",
        r"\bsecret|\bconfigure|print-access-token|_authToken|get-parameter|state pull",
        "read/secret",
    ),
    ("jq", r"\benv\b(?![\"'])|\$ENV|--rawfile|--slurpfile", "read/secret"),
    ("find fd", r"-delete\b", "destructive"),
    ("zip tar 7z bsdtar", r"--remove-files|-sdel|^-\w*m\w* ", "destructive"),
    ("cp tee install", r"/dev/null", "destructive"),
    ("cp mv tee install ln", r"/dev/(?!null)", "destructive/device"),
    ("sort", r"--compress-program", "destructive/tool-exec"),
    ("rg", r"--pre\b|--hostname-bin", "destructive/tool-exec"),
    (
        "tar bsdtar gtar",
        r"--to-command|--checkpoint-action|--use-c|--rsh-command|--info-script|--new-volume-script"
        r"|(?:^| )-\w*[IF] ?\S|-C ?/|--(?:directory|one-top-level)[= ]/|\w*P\w* |--absolute-names",
        "destructive/tool-exec",
    ),
    ("unzip 7z 7za unsquashfs cpio", r"-d ?/|-o/|-d ?\.\.|-D ?/|(?:^| )-:", "destructive/tool-exec"),
    ("zip", r"-TT|--unzip-command", "destructive/tool-exec"),
    (
        "sed gsed",
        r"s([/|#,@]).{0,60}\1.{0,60}\1\w{0,5}e|(?:^|[ ;0-9$'\"])e(?: \w|$)|w ?/|(?:^| )w \w",
        "destructive/tool-exec",
    ),
    (
        "awk gawk mawk nawk",
        r"system ?\(|\| ?[\"\w]|/inet/|-i ?inplace|print[^;}]{0,200}> ?[\"/\w]|@load|ENVIRON",
        "destructive/tool-exec",
    ),
    ("man git bat batcat ag", r"^(?:.{0,200} )?(?:-P ?\S|--pager)", "destructive/tool-exec"),
    ("less", r"^\+.?!", "destructive/tool-exec"),
    (
        "ssh scp sftp rsync mosh",
        r"(?i:proxycommand|localcommand|knownhostscommand)|(?:^| )-e |--rsh",
        "destructive/tool-exec",
    ),
    ("ssh-keygen", r"-D ", "destructive/tool-exec"),
    ("gcc cc c89 c99 g++ clang", r"-wrapper", "destructive/tool-exec"),
    ("git", _GIT + r"apply .{0,200}--unsafe-paths", "destructive/tool-exec"),
    ("python python3 pypy", r"^-m ?(?:timeit|pdb|pty|code|cProfile|runpy)", "destructive/tool-exec"),
    (
        "vim vi nvim view ex ed emacs nano rview",
        r"!|^-\w*c |^\+|--eval|--cmd|-s /|-S ",
        "destructive/tool-exec",
    ),
    ("make", r"--eval|SHELL=", "destructive/tool-exec"),
    (
        "latex pdflatex xelatex lualatex tex pdftex",
        r"(?<!no-)shell-escape|write18|directlua|/etc/",
        "destructive/tool-exec",
    ),
    ("ansible", r"-[ma] ", "destructive/tool-exec"),
    ("csplit split", r"--filter", "destructive/tool-exec"),
    (
        "openvpn certbot dnsmasq dhclient nginx rtorrent tshark",
        r"-sf |--up |hook|script|-c |execute",
        "destructive/tool-exec",
    ),
    ("rpm rpmquery sqlmap gdb lldb exiftool gimp", r"--eval|-ex |system\(|batch", "destructive/tool-exec"),
    ("alias", rf"=.{{0,40}}\b{_WORST}\b", "destructive"),
    ("enable hash bind", r"-f|-p|-x", "destructive/env-exec"),
    ("printf read mapfile wait getopts", r"-\w*[vap] ?(?:PATH|\S*\[)|\bPATH\b", "destructive/env-exec"),
    (
        "unset test [ [[ let declare",
        r"\[.{0,200}\$\(|\[.{0,200}`|-v .{0,200}\[|\bHISTFILE",
        "destructive/eval",
    ),
    ("fc compgen", r"^$|-s|-C|-W", "destructive/eval"),
    ("rsync", r"--delete|--remove-source", "destructive"),
    ("scp rsync", r"\S+:\S*$", "destructive/exfil"),
    ("ssh", r"^\S+ .{0,200}(?:>|\brm\b)", "destructive/exfil"),
    ("date", r"-s\b|--se|(?:^| )[0-9]{8,}", "destructive/perm"),
    ("hostname", r"^[^-]", "destructive/perm"),
    ("ip", r"\b(?:add|del|delete|set|flush|netns|replace)\b", "destructive/perm"),
    (
        "chmod",
        r"\b[0-7]?[0-7]?[0-7]?[2367]\b|\b[2467][0-7]{3}\b|[+=]\w*s|[oa]\+?\w*w|-R |\.git",
        "destructive/perm",
    ),
    ("install mkdir", r"-m ?(?:[2467][0-7]{3}|777)", "destructive/perm"),
    ("crontab", r"^(?!-l$)", "destructive/persist"),
    (
        "systemctl service initctl",
        r"\b(?:stop|start|restart|enable|disable|mask|kill|reload|isolate|poweroff|reboot)\b|/",
        "destructive/process",
    ),
    (
        "docker podman nerdctl docker-compose",
        r"\b(?:rm|rmi|prune|kill|stop|reset|down|swarm|volume|exec)\b",
        "destructive/data",
    ),
    ("docker podman skopeo", r"\b(?:push|login|copy)\b", "destructive/publish"),
    (
        "docker podman",
        r"--privileged|(?:^| )-v |--volume|--mount|--net=host|--restart|\$",
        "destructive/priv",
    ),
    (
        _CLOUD,
        r"(?i:\b(?:\w*delete\w*|destroy\w*|remove\w*|rm|rb|drop\w*|prune|uninstall|apply|deploy|patch"
        r"|drain|exec|cp|"
        r"port-forward|create\S*|put\S*|update\S*|del|undefine|reset|stop\w*|terminate\w*|kill\S*|purge"
        r"|flush\w*|config set|set|"
        r"shutdown|sync|upload|push|unregistervm|rollback|downgrade|clean|migrate:fresh|decommission"
        r"|dropAll)\b|--(?:prod|shutdown|delete)\b)",
        "destructive/data",
    ),
    (
        "psql mysql mariadb sqlite3 sqlite sqlcmd mongo mongosh cqlsh duckdb snowsql",
        r"(?i:\b(?:drop (?:table|database|schema|keyspace|"
        r"user)|delete from|truncate |update \w+ set|alter |grant |revoke |copy |dropdatabase|deletemany"
        r"|deleteone|remove\(|program)|"
        r"\\!|\.(?:shell|system|output|import|load|read|once)\b|pg_read|lo_import|pg_shadow|load_extension"
        r"|writefile)",
        "destructive/data",
    ),
    ("git", _GIT + r"push .{0,200}(?:--force|-f\b|--mirror|--delete|--prune| [+:]\S)", "destructive/git"),
    ("git", _GIT + r"push .{0,200}(?:://|@)", "destructive/exfil"),
    ("git", _GIT + r"(?:push\b|send-email)", "destructive/publish"),
    ("hg svn p4 jj", r"^(?:git )?(?:push|strip|revert|commit|submit|purge)", "destructive/publish"),
    (
        "git",
        _GIT + r"(?:clean .{0,200}-\w*[fdxX]|reset .{0,200}--(?:hard|merge|keep)|checkout (?:.{0,200} )?(?:--"
        r"|-f|\.)(?: |$)|restore\b"
        r"|branch .{0,200}(?:-[DdMf]\b|--delete)|tag .{0,200}-[df]\b|stash (?:drop|clear)|update-ref"
        r"|reflog (?:expire|delete)|prune\b"
        r"|filter-branch|filter-repo|rm\b|worktree remove|switch .{0,200}(?:-f|--discard|-C)|update-index)",
        "destructive/git",
    ),
    (
        "git",
        r"^(?:.{0,200} )?(?:-c ?\S+=|--config-env|--exec-path|--git-dir|--work-tree|--upload-pack"
        r"|--receive-pack|--ext-diff"
        r"|--textconv|--open-files-in-pager|-O\S|--template|ext::|-u \./|--contents)|--output=/|"
        + _GIT
        + r"(?:submodule (?:add|.{0,80}"
        r"foreach)|bisect run|config (?:--(?:global|system|local|add|unset)|\S+\.\S+ \S)|mergetool"
        r"|difftool|archive .{0,200}(?:-o|--output|--remote)"
        r"|credential|rebase .{0,200}-x|worktree add \.\.|bundle create /|clone file:)",
        "destructive/git-exec",
    ),
    (
        "gh hub glab",
        r"\b(?:release|delete|transfer|archive|secret|ssh-key|gpg-key|merge|close)\b|-X|--method| -f ",
        "destructive/publish",
    ),
    (
        "npm yarn pnpm cargo gem twine poetry pip uv flit hatch lerna mvn gradle gradlew setup.py vsce"
        " composer dotnet nuget goreleaser",
        r"\b"
        r"(?:publish|unpublish|upload|push|deprecate|owner|yank|dist-tag|deploy)\b",
        "destructive/publish",
    ),
    ("npm yarn pnpm cargo", r"\b(?:config (?:set|list)|token|adduser|login|dlx)\b", "destructive/persist"),
    (
        "pip pip3 npm pnpm yarn gem pipx cargo deno rpm yum dnf apt apt-get easy_install cpan",
        r"(?:^| )-i |--index-url|--extra-index|--trusted|"
        r"--registry|https?://|git\+|--allow-un|/tmp/|\./\S+\.(?:deb|rpm)|setopt",
        "destructive/remote-code",
    ),
    ("go", r"\b(?:run|install|get) \S+@", "destructive/remote-code"),
    ("npx bunx", r"-p |--package|https?:", "destructive/remote-code"),
    ("bash sh zsh dash ksh", r"^(?:-[ilp]+)?$|-i\b", "destructive/shell"),
    ("busybox", r"^(?:sh|ash|nc|telnet|wget .{0,200}--post)", "destructive/shell"),
    (
        "nice setarch taskset stdbuf flock chroot unshare nsenter torify multitime setlock softlimit watch"
        " task genie start-stop-daemon cowsay",
        rf"\b{_SHELL}\b",
        "destructive/shell",
    ),
    (
        "curl wget http https xh",
        r"(?:^| )-(?:d|F|T|K|x|n|u) ?|-X ?(?!GET)|--data|--form|--upload-file|--request|--config|--proxy"
        r"|--post-|"
        r"--json|--user\b|--body-|--method|@|file:|gopher:|dict:|\$\(|`|\$\w",
        "destructive/exfil",
    ),
    ("curl wget", rf"-[oO] ?{_AWAY}|-P ?{_AWAY}", "destructive/outside"),
    ("curl wget", r"--unix-socket|--abstract-unix|--resolve|--connect-to", "read/ssrf"),
    ("curl wget http https git", rf"(?i:(?:^|[ /@='\"]){_PRIVATE})", "read/ssrf"),
    ("ping dig host nslookup", r"[$`]", "destructive/exfil"),
    ("openssl", rf"s_client|-out {_AWAY}|base64 -in", "destructive/exfil"),
    ("xargs parallel", rf"\b{_SHELL}\b|\benv\b", "destructive/eval"),
    (
        "rpm dpkg apt apt-get yum dnf brew snap apk pacman zypper",
        r"(?:^| )-[erPi] |--purge|\b(?:remove|purge|autoremove|uninstall|erase|"
        r"localinstall|changelog)\b|--root|--dangerous",
        "destructive",
    ),
    ("windlass", r"\b(?:approve|answer|grant|allow|policy)\b", "destructive/policy"),
    (
        "xxd sort yq tee shuf iconv csplit uniq lwp-download nmap patch",
        rf"(?:^| |-o ?|-O ?|=){_AWAY}",
        "destructive/outside",
    ),
    (
        "touch mkdir cp mv rsync install rmdir ln",
        rf"(?:^| )(?:{_AWAY}(?!\S+ \S+$)|/tmp/)",
        "destructive/outside",
    ),
    ("perl ruby sed", rf"(?:^| )-\w*i\S* .{{0,200}} {_AWAY}", "destructive/outside"),
)
"""Programs, a pattern to find in the rest of their words, and the category."""

_INTERPRETER: Final = (
    r"\b(?:python[\d.]*|pypy\d?|perl|ruby|node|nodejs|deno|bun|php|lua\w*|R|Rscript|julia|groovy|scala"
    r"|tclsh|wish|irb|"
    r"jshell|elixir|erl|guile|racket|sbcl|octave|ghci|swift|emacs|vim|nvim|dc|gdb|osascript)\b"
)
_CODE: Final = (
    r"\b(?:system|popen\d?|exec\w*|spawn\w*|fork|subprocess|child_process|shell_exec|passthru|proc_open"
    r"|Kernel|os\.\w+|shutil|"
    r"rmtree|unlink\w*|rmdir\w*|remove\w*|rename\w*|truncate\w*|writeFile\w*|write_text|write_bytes"
    r"|appendFile\w*|"
    r"file_put_contents|file_get_contents|fopen|fwrite|fsockopen|socket|Socket|TCPSocket|urllib\w*"
    r"|requests|httpx|LWP|Net::\w+|fetch|"
    r"eval|compile|__import__|importlib|pickle|marshal|base64|b64decode|atob|fromCharCode|pack|unpack"
    r"|getattr|globals|environ\w*|"
    r"getenv|ENV|pty|ctypes|syscall|dlopen|kill|chmod|chown|symlink\w*|open3|qx|FileUtils|IO\.\w+"
    r"|File\.\w+|Deno\.\w+|Bun\.\w+|"
    r"process\.env|io\.open|import\s+os|from\s+os|readfile|phpinfo|term|/etc/shadow)\b"
    r"|`[^`\n]{1,200}`|open\s*\([^)\n]{0,200}['\"][rbt]*[wax+]|\$_(?:ENV|SERVER)|%x|!\s*/?\w*sh\b"
    r"|require\s*\(?['\"](?:node:)?(?:fs|http|net)"
    r"|(?:source|load|include)\s*\(?['\"]https?:"
)
_SETTINGS: Final = (
    r"BASH_ENV|ENV|LD_\w+|DYLD_\w+|PATH|IFS(?!= )|GIT_(?!OPTIONAL_LOCKS|TERMINAL_PROMPT)\w+|\w*PAGER|LESS\w*"
    r"|VISUAL|\w*EDITOR|BROWSER|"
    r"PYTHON(?!DONTWRITE|UNBUFF|IOENC|UTF8)\w+|PERL\w+|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH|EXTRA\w*"
    r"|TLS\w*)|PROMPT_COMMAND|PS[0-4]|"
    r"SHELLOPTS|BASHOPTS|BASH_FUNC_\w*|RIPGREP_CONFIG_PATH|_?JAVA_\w+|RUSTC\w*|RUSTFLAGS|CARGO_\w+|CC|CXX"
    r"|MAKEFLAGS|GOFLAGS|GOPROXY|"
    r"\w*_proxy|\w*_PROXY|SSH_ASKPASS|SUDO_\w+|KUBECONFIG|DOCKER_HOST|TAR_OPTIONS|RSYNC_RSH|(?:npm_config"
    r"|NPM_CONFIG|PIP|UV)_\w+|HOME|"
    r"SHELL|XDG_\w+|CURL_HOME|WGETRC|INPUTRC|GCONV_PATH|GLIBC_TUNABLES|LUA_\w+|PHPRC|OPENSSL_\w+|AWKPATH"
    r"|WINDLASS_\w+|VIMINIT|EXINIT|"
    r"MANOPT|CDPATH|GLOBIGNORE|HISTFILE|GREP_OPTIONS|MAGIC|CLASSPATH|AWS_\w+|PSQLRC|GNUPGHOME|PYTEST_\w+"
    r"|HOSTALIASES|TERMINFO\w*|LOCPATH"
)
_KEPT: Final = (
    r"\.git/|\.husky|\.githooks|\.github/|\.vscode|\.idea|\.devcontainer|autostart|LaunchAgents"
    r"|LaunchDaemons|\.bashrc|\.bash_profile|"
    r"\.profile|\.zsh|\.ssh/|authorized_keys|/etc/cron|/etc/profile|/etc/init|/etc/systemd|\.gitconfig"
    r"|\.npmrc|\.envrc|\.vimrc|\.config/|"
    r"sitecustomize|\.pth\b|\.service\b|\.mcp\.json|\.claude|\.cursor|\.local/bin|spool/cron|\.gitmodules"
    r"|\.inputrc"
)
_FETCH: Final = r"\b(?:curl|wget|fetch|lwp-\w{1,20}|aria2c)\b"
_RUN: Final = rf"(?:{_SHELL}|python\d?|perl|ruby|node|php)"
TEXTS: Final = (
    (
        "destructive",
        rf"(?:(?:\$\(|`)(?:which|echo|command -v|printf) |\w=['\"]|\bset -- )['\"]?{_WORST}\b"
        rf"|/bin/r(?:\[m\]|\?|m\*)|ld-linux\S{{0,40}} \S{{0,40}}\b{_WORST}\b",
    ),
    (
        "destructive/shell",
        rf"/dev/(?:tcp|udp)/|\bsh -i\b|/inet/|EXEC:|-e\s{{0,9}}/bin/{_SHELL}\b"
        rf"|\n\s{{0,9}}:?!\s{{0,9}}/?(?:bin/)?\w{{0,9}}sh\b"
        r"|mkfifo\b[^\n]{0,300}\bnc\b|pty\.spawn|\n\s{0,9}(?:exec|shell)\b[^\n]{0,80}sh\b",
    ),
    ("destructive/process", r"(\w{1,20}|:)\s{0,9}\(\s{0,9}\)\s{0,9}\{\s{0,9}\1\s{0,9}\|"),
    (
        "destructive/remote-code",
        rf"{_FETCH}[^;\n]{{0,120}}\|[^;\n]{{0,60}}\b(?:{_RUN}|xargs|env|sudo|source|while)\b"
        rf"|(?:\b(?:{_RUN}|source|eval|make|vim)\b|(?:^|[;&|]\s{{0,9}})\.)[^;|\n]{{0,200}}(?:<\(|\$\("
        rf"|`)[^)]{{0,100}}{_FETCH}|^\s{{0,9}}\$\({_FETCH}"
        rf"|(?:{_FETCH}|\bgit clone\b)[^\n]{{0,120}}(?:;|&&|\n)[^\n]{{0,80}}(?:\b{_RUN}\s|\./|\bmake\b)",
    ),
    (
        "destructive/eval",
        rf"\|&?\s{{0,9}}(?:sudo\s+|env\s+|xargs\s+(?:-\S+\s+){{0,5}})?(?:/\w+){{0,4}}/?{_RUN}\b(?![.\w])"
        rf"|\b{_SHELL}\b[^;|&\n]{{0,200}}<"
        rf"|\b(?:{_SHELL}|eval|source)\b[^;|\n]{{0,200}}(?:\$\(|`|\bbase64\b)|(?:^|[;&]\s{{0,9}})(?:\."
        rf"|source)\s{{1,9}}<\(|\bwhile read[^\n]{{0,60}}\bdo \$",
    ),
    (
        "destructive/env-exec",
        rf"(?:^|[\s;&|(`'\"{{])(?:{_SETTINGS})(?:\[\w*\])?(?:\+?=|}}<)|(?:\bfor|\bselect"
        rf"|\bread\b[^;\n]{{0,20}}|getopts \w+)\s{{0,9}}(?:{_SETTINGS})\b|\$\{{PATH:?=",
    ),
    (
        "destructive/windows",
        r"(?i:\bremove-item\b|invoke-expression|set-executionpolicy|\b(?:rd|rmdir|del) /[sq]\b"
        r"|encodedcommand|downloadstring|\b(?:gci|get-childitem) env:)",
    ),
    (
        "destructive/persist",
        rf"(?:>|\b(?:tee|cp|mv|ln|install|chmod|dd|rsync)\b|\b(?:sed|yq)\b[^;|\n]{{0,200}}-i"
        rf"|\bcd\b)[^;|\n]{{0,80}}(?:{_KEPT})",
    ),
    ("destructive/policy", r"(?:\.windlass|\bWINDLASS_\w+)|(?:kill|pgrep)[^;\n]{0,200}windlass"),
    (
        "destructive/device",
        r">\s{0,9}/dev/(?!null\b|std|tty\b|fd/)\w|\b(?:if|of)=/dev/(?:sd|nvme|disk|mem|hd|vd|xvd)|(?:^"
        r"|\s)/dev/(?:sd[a-z]|nvme|disk\d|mem\b|hd[a-z]|vd[a-z]|kmem|port)",
    ),
    (
        "destructive/outside",
        r"[>&]\|?\s{0,9}(?:/(?!dev/(?:null|std|tty|fd/))|~|\.\./|\$\{?HOME)|\b(?:cd|pushd) (?:/"
        r"|~)[^\n]{0,200}(?:>|\btouch\b)",
    ),
    (
        "destructive",
        r"(?:/dev/null|^\s{0,9}:|^|^(?:true|echo -n))\s{0,9}>\|?\s{0,9}\w[\w./-]{0,200}\s*$"
        r"|>\|?\s{0,9}\S{1,200}\.(?:db|sqlite3?|wal)\b|\btee \S+ ?<\s{0,9}/dev/null",
    ),
    (
        "read/secret",
        r"/proc/\S{0,100}(?:environ|mem|maps|auxv|kcore)|\$\{?!?\w{0,60}(?:SECRET|TOKEN|PASSW|CREDENTIAL"
        r"|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|_KEY\b|_PWD\b|COOKIE|DATABASE_URL)"
        r"|\bcompgen\s+-[ev]|\.e(?:nv|\?v|\*)",
    ),
    ("read/ssrf", r"169\.254\.169\.254|metadata\.google|docker\.sock|100\.100\.100\.200"),
    (
        "destructive/exfil",
        r"\b(?:curl|wget|nc|ncat|ping|dig|host|nslookup|telnet|socat)\b[^;\n]{0,300}(?:\$\(|`|<\s{0,9}\w)",
    ),
    (
        "destructive/tool-exec",
        rf"{_INTERPRETER}[^|;\n]{{0,60}}\s(?:-\w{{0,9}}[eEcrpn]\w{{0,9}}|--eval|--execute|eval|-"
        rf"|--expression)\s(?s:.{{0,300}})(?:{_CODE})",
    ),
)
"""Patterns of the whole text, and the category."""

_SEPARATORS: Final = re.compile(r"[;&|\n(){}`]+|\$\(|<\(|>\(")
_QUOTES: Final = re.compile(r"['\"\\]")
_ANSI: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_ESCAPED: Final = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4})")
_BRACES: Final = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_DEFAULTS: Final = re.compile(r"\$\{\w*:?[-=+]([^{}$]*)\}")
_IFS: Final = re.compile(r"\$(?:IFS\b|\{IFS[^}]*\})(?:\$9)?")
_ASSIGNED: Final = re.compile(r"(?:^|[\s;])([A-Za-z_]\w*)=([A-Za-z0-9_./-]+)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*=.*")
_SKIPPED: Final = frozenset(
    "then do else elif if while until ! time coproc in exec command builtin nohup function { not -p".split()
)
_SUFFIX: Final = re.compile(r"(?:\.exe|[-.]?[0-9][0-9.]*)$")
_CANDIDATES_MAX: Final = 60
_PARTS_MAX: Final = 200


def dangers(text: str, commands: tuple[Simple, ...]) -> list[Finding]:
    """Return the destructive patterns in a command that is not in the safe language."""
    findings: list[Finding] = []
    if commands:
        parts: list[Sequence[str]] = [command.argv for command in commands]
        # Quoted text of a literal command is data, unless a program of the command may run it.
        if any(_is_runner(argv) for argv in parts):
            parts += rough_commands(text)
            shown = text
        else:
            shown = "\n".join(" ".join(argv) for argv in _outlines(commands))
    else:
        parts, shown = rough_commands(text), text
    for argv in parts[:_PARTS_MAX]:
        findings += _find_in(argv)
    findings += [(category, match.group()) for category, match in _texts(shown)]
    return findings


def rough_commands(text: str) -> list[Sequence[str]]:
    """Return text that is not literal as words of commands, without quotes and simple disguises."""
    plain = _ANSI.sub(lambda match: _unescape(match.group(1)), text.replace("\\\n", ""))
    plain = _BRACES.sub(lambda match: " " + match.group(1).replace(",", " ") + " ", _IFS.sub(" ", plain))
    plain = _DEFAULTS.sub(r"\1", plain)
    for name, value in _ASSIGNED.findall(plain)[:20]:
        plain = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", value, plain)
    plain = _QUOTES.sub("", plain)
    return [argv for part in _SEPARATORS.split(plain) if (argv := part.split())]


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _letter(match.group()[1:]), text)


def _letter(code: str) -> str:
    return chr(int(code[1:], 16) if code[0] in "xu" else int(code, 8) & 0xFF)


def _outlines(commands: tuple[Simple, ...]) -> Iterator[Sequence[str]]:
    """Yield the words of commands without those that only carry text, and their redirections."""
    for command in commands:
        argv = [word for word in command.argv if not set(word) & set(" \t\n")]
        yield [*argv, *(f"{redirect.operator} {redirect.target.text}" for redirect in command.redirects)]


def _is_runner(argv: Sequence[str]) -> bool:
    name = _name_of(argv[0])
    return name in RUNNERS or (name in FAMILIES and not set(argv[1:]).isdisjoint(FAMILIES[name].split()))


def _name_of(word: str) -> str:
    name = word.rsplit("/", 1)[-1]
    return name if name in _names() else _SUFFIX.sub("", name)


def _find_in(argv: Sequence[str]) -> Iterator[Finding]:
    secrets = [word for word in argv[1:] if is_secret(_bare(word))]
    yield from (("read/secret", word) for word in secrets[:1])
    start = 0
    while start < len(argv) and (argv[start] in _SKIPPED or _NAME.fullmatch(argv[start])):
        start += 1
    last = start + 1
    for at in range(start, min(len(argv), _CANDIDATES_MAX)):
        if at >= last:
            break
        category = _category(argv[at:])
        if category is not None:
            yield category, " ".join(argv[at:])
            return
        if _is_runner(argv[at:]):
            last = len(argv)


def _bare(word: str) -> str:
    return word.rpartition("=")[2].rpartition("@")[2].rpartition(":")[2].rstrip(",")


def _category(argv: Sequence[str]) -> str | None:
    name = _name_of(argv[0])
    always = _names().get(name) or _names().get(name.lower())
    if always is not None:
        return always
    rest = " ".join(argv[1:])[:REST_CHARS_MAX]
    for pattern, category in _rules().get(name, ()):
        if re.search(pattern, rest, re.DOTALL):
            return category
    if name.startswith(("mkfs", "fsck")):
        return "destructive/device"
    return None


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {name: category for category, names in NAMES.items() for name in names.split()}


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[tuple[str, str]]]:
    rules: dict[str, list[tuple[str, str]]] = {}
    for names, pattern, category in WORDS:
        for name in names.split():
            rules.setdefault(name, []).append((pattern, category))
    return rules


def _texts(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for category, pattern in TEXTS:
        match = re.search(pattern, text)
        if match is not None:
            yield category, match
