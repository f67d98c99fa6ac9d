"""Programs that run whatever they are given: no rule may always allow them.

An "always allow" for `python` or `sudo` is an "always allow" for everything.
"""

import re
from typing import Final

RUNNERS: Final = frozenset(
    """
    . aa-exec ansible ansible-playbook ash at awk bash batch bb bc bpython builtin bun bunx busybox
    bwrap caffeinate catchsegv cgexec choom chroot chrt clickhouse clickhouse-client clisp clojure cmd
    command cpulimit cqlsh crontab cscript csh csi daemonize dash dbus-run-session dc deno direnv doas
    dotnet-script duckdb dzdo ed elixir elvish emacs emacsclient entr env erl es eval ex exec expect
    fakeroot faketime find firejail fish flatpak-spawn flock forfiles gawk gdb ghc ghci gnuplot gosu
    groovy gsudo gtime guile heaptrack hyperfine iex ionice ipython irb java jjs jrunscript jshell julia
    kotlin ksh latex ld.so linux32 linux64 lldb loksh ltrace lua luajit lualatex luatex m4 mariadb mawk
    maxima mksh mongo mongosh mosh mysql nano nawk nc ncat nice nix-shell node nodejs nohup npx nsenter
    nu numactl nvim ocaml octave oksh osascript parallel pdflatex pdftex pdksh perl pexec php pipx
    perf pkexec pnpx posh powershell prlimit proot psql pwsh py pypy python R racket rbash rc
    red retry rlwrap
    Rscript rsync ruby run0 runas rundll runghc runuser rvim rzsh sash sbcl scala scp screen
    script sed sem setarch
    setpriv setsid sftp sg sh socat source sqlcmd sqlite sqlite3 ssh sshpass stdbuf strace su su-exec
    sudo sudoedit swift systemd-cat systemd-inhibit systemd-run taskset tclsh tcsh telnet tex texlua
    time timeout tmux torsocks toybox trap ts-node tsx unbuffer unshare uvx valgrind vi view
    vim vimdiff watch
    wine wish wscript wsl xargs xelatex xonsh xvfb-run yash zsh
    """.split()
)

FAMILIES: Final = {
    "asdf": "exec",
    "bazel": "run",
    "bundle": "exec",
    "cargo": "run",
    "conda": "run",
    "ctr": "run",
    "docker": "exec run",
    "dotnet": "exec run",
    "flatpak": "run",
    "git": "bisect config submodule",
    "go": "generate run tool",
    "gradle": "",
    "hatch": "run",
    "ip": "netns",
    "just": "",
    "kubectl": "debug exec run",
    "make": "",
    "mamba": "run",
    "mise": "exec run x",
    "mvn": "",
    "nix": "develop run shell",
    "npm": "exec run run-script start test x",
    "pdm": "run",
    "pipenv": "run",
    "pnpm": "dlx exec run start test",
    "podman": "exec run",
    "poetry": "run",
    "pyenv": "exec",
    "rails": "console runner",
    "rake": "",
    "rbenv": "exec",
    "rye": "run",
    "snap": "run",
    "tar": "",
    "uv": "run tool",
    "vagrant": "ssh",
    "yarn": "dlx exec node run start test",
}
"""Programs with subcommands, and which of these run whatever they are given."""

_SUFFIX: Final = re.compile(r"(?:[-.]?[0-9][0-9.]*)?(?:-dbg)?(?:\.(?:exe|cmd|bat|com))?$")


def runs_anything(words: tuple[str, ...]) -> bool:
    """Say whether commands that start with these words can run any program.

    The first word is read without its folder, version and case: /usr/bin/Python3.11 is python.
    A setting
    before the program can change what it runs.
    """
    if "=" in words[0]:
        return True
    base = words[0].replace("\\", "/").rpartition("/")[2]
    names = {base, base.lower(), _SUFFIX.sub("", base.lower())}
    if not names.isdisjoint(RUNNERS):
        return True
    # A program with subcommands needs one that is named and harmless; an option may stand for anything.
    return any(
        len(words) == 1
        or words[1].startswith(("-", "+"))
        or not set(words[1:]).isdisjoint(FAMILIES[name].split())
        for name in names & FAMILIES.keys()
    )
