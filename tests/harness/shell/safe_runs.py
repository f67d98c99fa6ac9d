"""Runs commands that are graded safe, for real, and reports every effect that is not a local read.

Each command runs as the tool runs it, in a copy of a hostile workspace inside bubblewrap, without a network,
watched by strace:
a file opened for writing, a change of the tree, a program that the grader does not list, a connection.

    python -m tests.harness.shell.safe_runs 20000     # generate, grade and run so many commands
"""

import hashlib
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.harness.shell.corpus import rows

from windlass_harness.shell import classify_shell_command, programs
from windlass_harness.shell.reads import read_of

BWRAP, STRACE = shutil.which("bwrap"), shutil.which("strace")
SEED = 20_261
BATCH = 250
COMMAND_SECONDS_MAX = 20
CALLS = (
    "execve,execveat,open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,mknod,"
    "mknodat,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,"
    "utimensat,setxattr,connect,bind,kill,tkill,mount,ptrace,settimeofday,clock_settime,sethostname"
)
_LINE = re.compile(r"^(\d+) +([a-z0-9_]+)\((.*)\) += (-?\d+|\?)(.*)$")
_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
_HARMLESS = re.compile(
    r'"/dev/(?:null|tty)"|nscd/socket|"/proc/self/'
    # tac keeps a pipe or folder in a temporary file, which it removes at once and empties for the next input.
    r'|["<]/tmp/tac[A-Za-z0-9]{6}[">]'
    # git diff gets a copy of the index, which it may write.
    r"|[\"<]/tmp/tmp\.[A-Za-z0-9]{10}(?:/index(?:\.lock)?)?[\">]"
    # node asks the kernel for the interfaces of this machine.
    r"|sa_family=AF_NETLINK"
    # pip looks whether there is IPv6: it takes any free port of this machine, and listens to none.
    r'|sin6_port=htons\(0\), sin6_flowinfo=htonl\(0\), inet_pton\(AF_INET6, "::1"'
)
_PROGRAM = re.compile(r'^"([^"]*)"')
LISTED = frozenset(
    {name.partition(" ")[0] for name in programs.PROGRAMS}
    | {"find", "git", "test", "[", "bash", "sh", "gzip", "mktemp", "cp", "rm", "rmdir"}
)
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C",
    "HOME": "/home/nobody",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
}
_DRIVER = f"""
import json, subprocess
for command, text in json.load(open("/home/log/commands.json")):
    try:
        words = ["bash", "-c", text, command]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout={COMMAND_SECONDS_MAX})
    except subprocess.TimeoutExpired:
        print(command)
"""
ODD_NAMES = (
    "-oPWN",
    "--output=PWN",
    "-delete",
    "-exec",
    "-i",
    "--compress-program=evil.sh",
    "--pre=evil.sh",
    "-f",
)
EVIL = "#!/bin/sh\n/usr/bin/touch PWN\n"


def make_workspace(folder: Path) -> None:
    """Fill a folder with a repository and with files whose names are options."""
    names = "README.md CHANGELOG.md Makefile pyproject.toml a.txt b.txt rm.txt src/app.py src/b.py docs/x.md"
    for name in names.split():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"one {name}\ntwo\nthree\n")
    (folder / "data.json").write_text('{"items": [{"name": "a"}], "env": 1}\n')
    for place in (folder, folder / "src"):
        for name in ODD_NAMES:
            (place / name).write_text("odd\n")
    for name in ("evil.sh", "1/ls", "3/ls"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(EVIL)
        path.chmod(0o755)
    (folder / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    environment = {"PATH": ENVIRONMENT["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for arguments in (("init", "-qb", "main"), ("add", "-A"), ("commit", "-qm", "one"), ("tag", "v1")):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=folder, env=environment, check=True)
    (folder / "a.txt").write_text("changed\n")
    # Its content is as it was, which git would write into the index.
    os.utime(folder / "b.txt", (1_577_836_800, 1_577_836_800))


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Everything below a folder, with its mode, size, time and content."""
    found: dict[str, tuple[int, int, int, str]] = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, content)
    return found


def effects(commands: Iterable[str], scratch: Path) -> list[str]:
    """Run commands one after another in one sandbox; return what they did beyond reading."""
    todo = [(command, _text(command)) for command in commands]
    workspace, log, home = scratch / "workspace", scratch / "log", scratch / "home"
    for folder in (workspace, log, home):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    make_workspace(workspace)
    before = snapshot(workspace)
    (log / "commands.json").write_text(json.dumps(todo))
    (log / "driver.py").write_text(_DRIVER)
    places = {str(home): "/home/nobody", str(log): "/home/log", str(workspace): "/home/work"}
    sandbox = [BWRAP or "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
    sandbox += ["--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/home", "--clearenv"]
    for place, name in places.items():
        sandbox += ["--bind", place, name]
    sandbox += ["--chdir", "/home/work"]
    for name, value in ENVIRONMENT.items():
        sandbox += ["--setenv", name, value]
    trace = [
        STRACE or "strace",
        "-f",
        "-qq",
        "-y",
        "--seccomp-bpf",
        "-s",
        "4000",
        "-o",
        "/home/log/trace",
        "-e",
        f"trace={CALLS}",
    ]
    python = [
        shutil.which("python3", path=ENVIRONMENT["PATH"]) or "python3",
        "-I",
        "-S",
        "-B",
        "/home/log/driver.py",
    ]
    done = subprocess.run([*sandbox, *trace, *python], capture_output=True, text=True, check=False)
    found = [f"never ended: {line}" for line in done.stdout.splitlines()]
    if done.returncode != 0:
        found.append(f"the sandbox failed: {done.stderr[-500:]}")
    found += _traced((log / "trace").read_text(errors="replace").splitlines())
    after = snapshot(workspace)
    found += [
        f"changed: {name}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    return found + [f"made in the home folder: {path.name}" for path in home.iterdir()]


def _text(command: str) -> str:
    read = read_of(command)
    return command if read is None else read.text


def _traced(lines: list[str]) -> Iterator[str]:
    """Yield the system calls that are effects, each with the command it belongs to."""
    command, driver = "", ""
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        pid, call, arguments, answer, _ = match.groups()
        driver = driver or pid
        if call == "execve" and arguments.startswith('"/usr/bin/bash", ["bash", "-c", '):
            command = arguments.rpartition('", "')[2].partition('"]')[0]
            continue
        if pid == driver or _HARMLESS.search(arguments):
            continue
        if call in ("open", "openat", "openat2"):
            is_effect = bool(_WRITING.search(arguments)) and not answer.startswith("-")
        elif call == "execve":
            program = _PROGRAM.match(arguments)
            name = "" if program is None else program.group(1).rsplit("/", 1)[-1]
            is_version = any(f'["{name}", "{word}"]' in arguments for word in programs.VERSIONS.get(name, ()))
            # npm is a program of node.
            is_version = is_version or '["node", "/usr/bin/npm", "-' in arguments
            is_effect = not answer.startswith("-") and name not in LISTED and not is_version
        elif call in ("kill", "tkill"):
            # awk ends itself by a signal when nobody reads its output.
            is_effect = not arguments.startswith(f"{pid}, ")
        else:
            is_effect = True
        if is_effect:
            yield f"{command}  ==>  {call}({arguments[:300]}) = {answer}"


NAMES = (
    "a.txt b.txt src/app.py README.md data.json src docs . - src/*.py ./* * *.txt *.md src/* HEAD HEAD~1"
    " main v1 PWN"
).split()
HOSTILE = (
    "-o -oPWN --output=PWN --output PWN -exec -delete -ok touch ./evil.sh -c -e -i -f -F -I -T -W -O"
    " -S -w --pre=./evil.sh --pager=./evil.sh --compress-program=./evil.sh --ext-diff --textconv"
    " -fprint -- + +1 -1 -n --files0-from=a.txt --help --version -z -Z -R -l --paginate -v -V -C -m"
    " -s --set -x -r ; | && || > >> < 2>&1 >PWN >/dev/null 2>/dev/null & $(./evil.sh) `./evil.sh`"
    " {a,b} a=b PATH=1 %n %s 'x y' \"q\" \\( ) ! = != ] [ -eq -a -t -u -U -p -P --format=%h"
    " --format=%G? --pretty=%(describe) --show-signature -S -G -L 1,2 1,2p 1p;w 1w '{print $1}'"
    " '{print > $1}' .items .env -k2 -k -t, -d, -f1 -n5 -5 5 xargs env eval bash sh tee cd .."
    " /etc/passwd ~ # \n é"
).split(" ")
_SAMPLES = (
    "N 3|COUNT +2|SMALL 7|SECONDS 0|CHAR ,|LIST 1,2|KEY 2,2n|NAME x1|WHEN never|SED 1,2p|AWK {print $1}"
    "|JQ .items[0].name|PRINTF %s\\n|TIME +%F|AGE -1|SIZE +1k|TYPE f|PERM -u+x|RANGE 1,2|GITDATE short"
    "|PRETTY %h %s|FILTER AM|SORT -refname|PS aux|COLUMNS pid,args|GITKEY user.name|ARCHIVE a.tar"
    "|PACKED a.gz|PSSORT -rss|YQ .items|REFS %(refname:short) %(subject)"
    "|EXPR 2|MOMENT 2 days ago|T one|W --- x|P a.txt|F b.txt|G HEAD|GLOB *.py"
)
VALUES = {kind: value for kind, _, value in (pair.partition(" ") for pair in _SAMPLES.split("|"))}


WHOLE = (
    "cd src; ls",
    "git -C src status",
    "git --no-pager -C docs log -1",
    *(f"{name} {word}" for name, listed in programs.VERSIONS.items() for word in listed),
)
"""Commands that take no other words."""


STRUCTURES = (
    "({0})|{{ {0}; }}|! {0}|time {0}|timeout 5 {0}|nice {0}|env {0}|LC_ALL=C {0}|{0} # {1}|{0}\n{1}"
    "|if {0}; then {1}; fi|if [[ -f a.txt ]]; then {0}; else {1}; fi|for f in a.txt src/b.py; do {0}; done"
    '|for f in *.txt; do echo "$f"; {0}; done|for f in a.txt docs/x.md; do cat "$f"; {0}; done|echo $({0})'
    "|echo \"$({0}) $HOME\"|diff <({0}) <({1})|cat <({0})|cat <<< x; {0}|find . -name '*.py' -exec {0} {{}} +"
    "|cat {{a,b}}.txt; {0}|echo $((1+2)) > /dev/null; {0}|set -e; {0}|{0} ||\n{1}|\n{0};\n\n{1}\n"
).split("|")
"""Lines around commands: none but the last two is in the language."""


class Source:
    """Makes random command lines: mostly in the language, and near its edges."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._samples = [
            row.command
            for name in ("corpus.tsv", "more.tsv", "unseen.tsv", "everyday.tsv")
            for row in rows(name)
        ]

    def command(self) -> str:
        """Return one command line."""
        draw = self._random.random()
        if draw < 0.1:
            return self._mutated(self._random.choice(self._samples))
        count = self._random.choice((1, 1, 1, 2, 3))
        line = self._simple()
        for _ in range(count - 1):
            line += self._random.choice((" | ", " && ", "; ", " || ", " | ")) + self._simple()
        if self._random.random() < 0.3:
            line = self._random.choice(STRUCTURES).format(line, self._simple())
        return self._mutated(line) if draw < 0.6 else line

    def _simple(self) -> str:
        names = [
            *programs.PROGRAMS,
            *(f"git {name}" for name in programs.GIT),
            *["find"] * 6,
            *["test"] * 2,
            *WHOLE,
        ]
        name = self._random.choice(names)
        if name == "find":
            words = [self._random.choice(NAMES), *self._expressions()]
        elif name in WHOLE:
            words = []
        elif name == "test":
            words = [self._random.choice((*programs.TEST_FILES, "-n", "! -f")), self._random.choice(NAMES)]
        else:
            words = self._words(
                *(programs.GIT[name[4:]] if name.startswith("git ") else programs.PROGRAMS[name])
            )
        tail = self._random.choice(("", "", "", " 2>&1", " 2>/dev/null", " < a.txt", " >/dev/null"))
        return " ".join([name, *words]) + tail

    def _expressions(self) -> Iterator[str]:
        for _ in range(self._random.randrange(4)):
            name, kind = self._random.choice(list(programs.FIND.items()))
            yield shlex.quote(name)
            if kind:
                yield self._value(kind)

    def _words(self, options: str, operands: str) -> list[str]:
        words = [self._option(one) for one in self._some(options.split())]
        kinds = operands.split()
        words += [
            self._value(kind.rstrip("*"))
            for kind in kinds[: self._random.randrange(len(kinds) + 1) or len(kinds)]
        ]
        if operands.endswith("*"):
            words += [self._value(kinds[-1].rstrip("*")) for _ in range(self._random.randrange(3))]
        if self._random.random() < 0.3:
            self._random.shuffle(words)
        return words

    def _some(self, options: list[str]) -> list[str]:
        return self._random.sample(options, min(len(options), self._random.choice((0, 1, 1, 2, 3))))

    def _option(self, entry: str) -> str:
        if entry.startswith("+"):
            return "-" + "".join(
                self._random.sample(entry[1:], self._random.randrange(1, min(5, len(entry))))
            )
        if entry == "-#":
            return "-3"
        for mark in "=:@":
            option, found, kind = entry.partition(mark)
            if found:
                glue = "=" if option.startswith("--") else ""
                if mark == "@" or (mark == "=" and self._random.random() < 0.5):
                    glue = " "
                return f"{option}{glue}{self._value(kind)}"
        return entry

    def _value(self, kind: str) -> str:
        draw = self._random.random()
        if kind in ("P", "F", "G", "T") and draw < 0.85:
            return self._random.choice(NAMES)
        if draw > 0.97:
            return shlex.quote(self._random.choice(HOSTILE))
        return shlex.quote(VALUES[kind])

    def _mutated(self, line: str) -> str:
        words = line.split(" ")
        for _ in range(self._random.choice((1, 1, 2, 3))):
            at = self._random.randrange(len(words) + 1)
            new = self._random.choice((*HOSTILE, *NAMES))
            match self._random.randrange(4):
                case 0 if at < len(words):
                    words[at] = new
                case 1 if at < len(words):
                    words[at] += new
                case 2 if len(words) > 1:
                    del words[at - 1]
                case _:
                    words.insert(at, new)
        return " ".join(words)


def safe_commands(count: int, seed: int = SEED) -> list[str]:
    """Return so many different generated commands that are graded safe."""
    source = Source(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        command = source.command()
        if "sleep" not in command and classify_shell_command(command).severity == "safe":
            found[command] = None
    return list(found)


def main() -> None:
    """Run generated commands in batches; exit with 1 if one has an effect."""
    if not (BWRAP and STRACE):
        sys.exit("commands are run in a sandbox and watched: install bubblewrap and strace")
    count = int(sys.argv[1])
    commands = safe_commands(count)
    found: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for start in range(0, count, BATCH):
            found += effects(commands[start : start + BATCH], Path(scratch))
            sys.stdout.write(
                f"{min(start + BATCH, count):,} commands graded safe were run: {len(found)} effects\n"
            )
            sys.stdout.flush()
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
