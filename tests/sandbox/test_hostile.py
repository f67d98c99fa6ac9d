"""Commands that try to leave the sandbox, under the real bwrap.

An attack prints ESCAPED when it succeeds. Those that harm nothing are also run outside, where they succeed:
that proves that the attack works.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.sandbox.rig import (
    BUBBLEWRAP,
    CANARY,
    NOBODY,
    PYTHON,
    Outcome,
    as_nobody,
    attack,
    outside,
    require_bwrap,
)
from tests.toolbox.rig import Failed, gone, play, tool_of, use

from windlass.sandboxes import bubblewrap
from windlass.sandboxes.bubblewrap import REFUSED_CALLS
from windlass.toolbox import Workspace
from windlass_protocol import SandboxSpec

pytestmark = pytest.mark.promise("S3")
MARK = os.getpid()
"""Tells the processes of these tests from others on the machine."""
ABSTRACT = f"windlass-canary-{MARK}"
"""The name of an abstract socket."""
ESCAPED = "ESCAPED"
ADD_KEY, REQUEST_KEY, KEYCTL = (217, 218, 219) if os.uname().machine == "aarch64" else (248, 249, 250)
HAS_KEYS = Path("/proc/keys").exists()


def python(source: str) -> str:
    """A program of Python that prints ESCAPED if it runs to its end; the word is not in its source."""
    body = textwrap.indent(textwrap.dedent(source), "    ")
    shown = "print('ESC' + 'APED')\nexcept OSError as error:\n    print(error)"
    return f"{PYTHON} - <<'END'\ntry:\n{body}\n    {shown}\nEND"


@dataclass(frozen=True, slots=True)
class Attack:
    """A command; OUT is a folder, PORT a port and ABSTRACT a socket of the machine, PID this process."""

    text: str
    works_outside: bool = False


SIGNALS = "for pid in PID PARENT; do kill -0 $pid && echo ESCAPED; done"
ATTACKS = {
    "reads a file outside": Attack("grep -q canary OUT/secret.txt && echo ESCAPED", True),
    "reads the database beside": Attack("grep -qa canary OUT/agents.db && echo ESCAPED", True),
    "reads the folder of another session": Attack("ls OUT/root && echo ESCAPED", True),
    "reads a key from the environment of any process": Attack(
        "cat /proc/*/environ 2>/dev/null | grep -qa 'WINDLASS_CANARY=' && echo ESCAPED", True
    ),
    "reads its own environment for a key": Attack("env | grep -q WINDLASS_CANARY && echo ESCAPED"),
    "goes out by the root of another process": Attack(
        "for one in /proc/[0-9]*; do for way in root cwd root/proc/1/root; do "
        "grep -q canary $one/$way/OUT/secret.txt && echo ESCAPED; done; done 2>/dev/null"
    ),
    "goes out by an open handle": Attack(
        "for one in /proc/[0-9]*/fd/*; do [ -d $one/. ] && [ -e $one/OUT/secret.txt ] && echo ESCAPED; "
        "[ -d $one/. ] && [ -e $one/../../etc/shadow ] && echo ESCAPED; done 2>/dev/null"
    ),
    "inherits a handle": Attack(
        "for one in /proc/self/fd/*; do echo ${one##*/}; done | grep -qE '^([4-9]|..)' && echo ESCAPED"
    ),
    "sees the processes of the machine": Attack(
        "[ $(ls /proc | grep -c '^[0-9]') -gt 12 ] && echo ESCAPED", True
    ),
    "reads host paths from a command line": Attack(
        "tr '\\0' '\\n' < /proc/1/cmdline | grep -q '^--bind' && echo ESCAPED"
    ),
    "follows a symbolic link": Attack(
        "ln -sf OUT/secret.txt link; grep -q canary link && echo ESCAPED", True
    ),
    "follows a link to a folder": Attack(
        "ln -sfn OUT folder; grep -q canary folder/secret.txt && echo ESCAPED", True
    ),
    "makes a hard link to a file outside": Attack("ln OUT/secret.txt hard && echo ESCAPED", True),
    "makes a hard link to a program of the machine": Attack("ln /usr/bin/env hard2 && echo ESCAPED"),
    "writes beside its folder": Attack("touch /workspace/../beside && echo ESCAPED"),
    "changes a program of the machine": Attack("touch /usr/bin/windlass-evil && echo ESCAPED"),
    "changes the settings of the machine": Attack("touch /etc/windlass-evil && echo ESCAPED"),
    # Opened, not written: a success must not change the machine.
    "opens a setting of the kernel": Attack(
        "for one in core_pattern modprobe; do : >> /proc/sys/kernel/$one && echo ESCAPED; done"
    ),
    "opens the trigger of the kernel": Attack(": >> /proc/sysrq-trigger && echo ESCAPED"),
    "finds a setting of the kernel that it can open": Attack(
        "for one in $(find /proc/sys -type f -writable 2>/dev/null); do (: >> $one) && echo ESCAPED; done"
    ),
    "reads the messages of the kernel": Attack(
        "for one in /proc/kmsg /dev/kmsg /proc/kcore; do head -c 1 $one && echo ESCAPED; done;"
        " dmesg && echo ESCAPED"
    ),
    "reads addresses of the kernel": Attack("grep -qv '^0* ' /proc/kallsyms && echo ESCAPED"),
    "finds the devices of the machine": Attack("ls -A /sys | grep -q . && echo ESCAPED", True),
    "is killed last when memory is short": Attack("echo -1000 > /proc/self/oom_score_adj && echo ESCAPED"),
    "becomes another user": Attack("echo '0 0 1' > /proc/self/uid_map && echo ESCAPED"),
    "raises its own limits": Attack(
        "ulimit -n 100000 && echo ESCAPED; ulimit -f unlimited && echo ESCAPED; ulimit -c unlimited"
        " && echo ESCAPED"
    ),
    "comes before other processes": Attack(
        python("""
        import os
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        """)
    ),
    "sets the clock": Attack("date -s 2001-01-01 && echo ESCAPED"),
    "opens a file by its number": Attack(
        python("""
        import ctypes, os
        number = (ctypes.c_uint * 4)(8, 1, 2, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.open_by_handle_at(os.open("/workspace", os.O_RDONLY), number, 0) < 0:
            raise OSError(ctypes.get_errno(), "open_by_handle_at")
        """)
    ),
    "types into a terminal": Attack(
        python("""
        import fcntl
        for handle in (0, 1, 2):
            fcntl.ioctl(handle, 0x5412, b"x")
        """)
    ),
    "finds the control groups": Attack("ls /sys/fs/cgroup && echo ESCAPED", True),
    "mounts a file system": Attack("mkdir -p m; mount -t tmpfs none m && echo ESCAPED"),
    "mounts a folder over another": Attack("mkdir -p m; mount --bind / m && echo ESCAPED"),
    "makes a mount writable": Attack("mount -o remount,rw,bind /usr && echo ESCAPED"),
    "takes a mount away": Attack("umount -l /usr && echo ESCAPED; umount -l /proc && echo ESCAPED"),
    "makes a user namespace": Attack("unshare --user --map-root-user true && echo ESCAPED", True),
    "enters the namespaces of process 1": Attack("nsenter --target 1 --mount --pid true && echo ESCAPED"),
    "changes the root": Attack("chroot . /bin/true && echo ESCAPED"),
    "makes a device": Attack("mknod disk b 8 0 && echo ESCAPED"),
    "names the machine": Attack("hostname windlass-evil && echo ESCAPED"),
    "opens the terminal": Attack("exec 3<> /dev/tty && echo ESCAPED"),
    "gets rights by a set-user-id program": Attack(
        "cp /usr/bin/id own; chmod u+s,g+s own; grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED; "
        "su -c true < /dev/null && echo ESCAPED; [ $(./own -u) = 1000 ] || echo ESCAPED"
    ),
    "has a right of root": Attack(
        "grep -E '^Cap(Prm|Eff|Bnd|Amb)' /proc/self/status | grep -qv '0000000000000000' && echo ESCAPED"
    ),
    "sends a signal to the host process": Attack(SIGNALS, True),
    "sends a signal to everything": Attack("kill -9 -1; echo over"),
    "traces the host process": Attack(
        python("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(16, PID, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
        """)
    ),
    "reads a key of the host process": Attack(
        python(f"""
        import ctypes
        libc, content = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(100)
        key = libc.syscall({REQUEST_KEY}, b"user", b"windlass-canary", None, 0)
        if libc.syscall({KEYCTL}, 11, key, content, 100) <= 0:
            raise OSError(ctypes.get_errno(), "keyctl")
        """),
        HAS_KEYS,
    ),
    "opens the memory of the host process": Attack("head -c 1 /proc/PID/maps && echo ESCAPED", True),
    "opens a raw socket": Attack(python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")),
    "opens a packet socket": Attack(
        python("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)")
    ),
    "connects to an abstract socket": Attack(
        python("import socket; socket.socket(socket.AF_UNIX).connect('\\0ABSTRACT')"), True
    ),
    "connects to a port of the machine": Attack("(: < /dev/tcp/127.0.0.1/PORT) && echo ESCAPED", True),
    "connects to a metadata service": Attack("(: < /dev/tcp/169.254.169.254/80) && echo ESCAPED"),
    "connects to a public address": Attack("(: < /dev/tcp/93.184.216.34/80) && echo ESCAPED"),
    "sends a datagram": Attack("(echo > /dev/udp/93.184.216.34/53) && echo ESCAPED"),
    "gives itself a network": Attack(
        "ip link add d0 type dummy && echo ESCAPED; ip addr add 10.0.0.1/8 dev lo && echo ESCAPED"
    ),
}
ONLINE = {
    "connects past the proxy to a port of the machine": Attack(
        "#network\n(: < /dev/tcp/127.0.0.1/PORT) && echo ESCAPED"
    ),
    "connects past the proxy to a public address": Attack(
        "#network\n(: < /dev/tcp/93.184.216.34/80) && echo ESCAPED"
    ),
    "connects past the proxy to a metadata service": Attack(
        "#network\n(: < /dev/tcp/169.254.169.254/80) && echo ESCAPED"
    ),
    "connects past the proxy to an abstract socket": Attack(
        "#network\n" + python("import socket; socket.socket(socket.AF_UNIX).connect('\\0ABSTRACT')")
    ),
    "changes the network of the proxy": Attack("#network\nip addr add 10.0.0.1/8 dev lo && echo ESCAPED"),
    "asks the proxy for a port of the machine": Attack(
        "#network\nexec 3<> /dev/tcp/127.0.0.1/3128; "
        "printf 'CONNECT 127.0.0.1:PORT HTTP/1.1\\r\\n\\r\\n' >&3; grep -q ' 200 ' <&3 && echo ESCAPED"
    ),
}
TABLE = {**ATTACKS, **ONLINE}
ONLINE_SPEC = SandboxSpec(adapter="bubblewrap", network=("example.com",))


@dataclass(frozen=True, slots=True)
class Scene:
    """A folder with secrets beside it, and servers on this machine."""

    folder: Path
    port: int

    def text(self, name: str) -> str:
        found = TABLE[name].text.replace("OUT", str(self.folder.parent)).replace("PORT", str(self.port))
        found = found.replace("ABSTRACT", ABSTRACT)
        return found.replace("PID", str(os.getpid())).replace("PARENT", str(os.getppid()))


def secrets_in(above: Path, user: int) -> Path:
    """Make a folder of a user, with secrets of that user beside it; return the folder."""
    for name in ("workspace", "root"):
        (above / name).mkdir()
    for name in ("secret.txt", "agents.db"):
        (above / name).write_text(CANARY)
    for one in (above, *above.iterdir()):
        os.chown(one, user, user)
    return above / "workspace"


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    require_bwrap()
    libc = ctypes.CDLL(None)
    libc.syscall(KEYCTL, 1, None)  # a keyring of this process
    libc.syscall(ADD_KEY, b"user", b"windlass-canary", CANARY.encode(), len(CANARY), -3)
    # Not in the folder of pytest, which is closed to other users.
    with (
        TemporaryDirectory() as above,
        socket.socket() as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        server.bind(("127.0.0.1", 0))
        server.listen()
        abstract.bind("\0" + ABSTRACT)
        abstract.listen()
        yield Scene(secrets_in(Path(above), os.geteuid()), server.getsockname()[1])


@pytest.fixture(scope="module")
def by_nobody(scene: Scene) -> dict[str, Outcome]:
    """The outcomes of all attacks by a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("this user has no rights to give up")
    with TemporaryDirectory() as above:
        own = Scene(secrets_in(Path(above), NOBODY), scene.port)
        found = as_nobody([own.text(name) for name in TABLE], own.folder)
    return dict(zip(TABLE, found, strict=True))


@pytest.mark.parametrize("name", TABLE)
def test_an_attack_by_this_user_does_not_leave_the_sandbox(name: str, scene: Scene) -> None:
    outcome = attack(scene.text(name), scene.folder, spec=ONLINE_SPEC if name in ONLINE else BUBBLEWRAP)
    assert ESCAPED not in outcome.output, outcome
    assert CANARY not in outcome.output, outcome


@pytest.mark.parametrize("name", TABLE)
def test_an_attack_by_a_user_without_rights_does_not_leave_the_sandbox(
    name: str, by_nobody: dict[str, Outcome]
) -> None:
    outcome = by_nobody[name]
    assert ESCAPED not in outcome.output, outcome
    assert CANARY not in outcome.output, outcome


@pytest.mark.parametrize("name", [name for name, one in TABLE.items() if one.works_outside])
def test_the_attack_works_without_a_sandbox(name: str, scene: Scene) -> None:
    child = subprocess.Popen(["sleep", "1000"], env={"WINDLASS_CANARY": CANARY})
    try:
        outcome = outside(scene.text(name), scene.folder)
    finally:
        child.kill()
        child.wait()
    if "namespace" not in name or "not permitted" not in outcome.output:
        assert ESCAPED in outcome.output, outcome
    for left in ("link", "folder", "hard"):
        (scene.folder / left).unlink(missing_ok=True)


def test_system_calls_that_no_command_needs_are_refused(scene: Scene) -> None:
    # With these arguments the kernel refuses them for other reasons, or does nothing.
    tried = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for number in NUMBERS:
    done = libc.syscall(number, -1, -1, -1, -1, -1)
    print(errno.errorcode[ctypes.get_errno()] if done == -1 else done)
"""
    numbers = REFUSED_CALLS[os.uname().machine]
    for given, shown in ((numbers, ["EPERM"] * len(numbers)), ((0x4000_0000,), ["EPERM"])):
        outcome = attack(f"{PYTHON} -c '{tried.replace('NUMBERS', str(given))}'", scene.folder)
        assert outcome.output.split() == shown
    outcome = attack(
        "git init -q . && git status && sleep 0 & wait; (echo a | cat) && ls -l /proc/self", scene.folder
    )
    assert outcome.exit_code == 0, "others work"


def test_a_link_that_a_command_left_leads_the_file_tools_nowhere(scene: Scene) -> None:
    outcome = attack(
        f"ln -sfn {scene.folder.parent} way; ln -sf {scene.folder.parent}/secret.txt file", scene.folder
    )
    assert outcome.exit_code == 0
    for path in ("way/secret.txt", "file"):
        with pytest.raises(Failed, match="outside"):
            play(use(tool_of(Workspace(scene.folder), "read_file"), {"path": path}))


BOUNDS = SandboxSpec(
    adapter="bubblewrap",
    processes=40,
    memory_bytes=134_217_728,
    file_bytes=2_097_152,
    disk_bytes=33_554_432,
    cpu_seconds=1,
)


def test_a_fork_bomb_stops_at_the_limit_and_leaves_nothing(scene: Scene) -> None:
    # Bash pauses for seconds after a fork that failed, so nothing is forked after the bomb.
    bomb = f"bomb{MARK}"
    text = f"{bomb}() {{ {bomb} | {bomb} & }}; mkfifo /tmp/told; exec 3<> /tmp/told; {bomb} 2>&3"
    wait = "until [[ $told == *unavailable ]]; do read -r told <&3; done; echo $told"
    outcome = attack(f"{text}; {wait}", scene.folder, spec=BOUNDS)
    assert "Resource temporarily unavailable" in outcome.output, outcome
    assert not left_over(bomb)


def test_more_processes_than_the_limit_cannot_be_started(scene: Scene) -> None:
    many = python("import subprocess; held = [subprocess.Popen(['sleep', '1000']) for _ in range(100)]")
    outcome = attack(many, scene.folder, spec=BOUNDS)
    assert "Resource temporarily unavailable" in outcome.output, outcome
    assert ESCAPED not in outcome.output, outcome


@pytest.mark.parametrize(
    "text",
    [
        python("held = bytearray(b'x' * 1_000_000_000)"),
        python("held = [bytearray(b'x' * 30_000_000) for _ in range(40)]"),
        "head -c 1G /dev/zero | tail > /dev/null && echo ESCAPED",
        "head -c 600M /dev/zero > /tmp/big && echo ESCAPED",
        "head -c 600M /dev/zero > /dev/shm/big && echo ESCAPED",
        "head -c 600M /dev/zero > ~/big && echo ESCAPED",
        "head -c 1M /dev/zero > /dev/big && echo ESCAPED",
        "head -c 1M /dev/zero > /big && echo ESCAPED",
    ],
)
def test_memory_is_bounded(text: str, scene: Scene) -> None:
    outcome = attack(
        text, scene.folder, spec=BOUNDS.model_copy(update={"file_bytes": None, "cpu_seconds": 60})
    )
    assert ESCAPED not in outcome.output, outcome


def test_a_file_is_not_larger_than_its_limit(scene: Scene) -> None:
    outcome = attack("head -c 20M /dev/zero > large", scene.folder, spec=BOUNDS)
    assert outcome.exit_code != 0
    assert (scene.folder / "large").stat().st_size == BOUNDS.file_bytes
    (scene.folder / "large").unlink()


def test_a_command_that_fills_the_disk_is_ended(scene: Scene) -> None:
    fill = "for one in $(seq 100000); do head -c 2M /dev/urandom > fill$one || exit; done"
    outcome = attack(fill, scene.folder, spec=BOUNDS)
    for one in scene.folder.glob("fill*"):
        one.unlink()
    assert outcome.exit_code is None
    assert "the disk lost more than 33,554,432 bytes" in outcome.reason


def test_a_command_that_fills_the_disk_with_empty_files_is_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(scene.folder)
    if not found.f_favail:
        pytest.skip("this file system has no limit of files")
    monkeypatch.setattr(bubblewrap, "FILES_MAX", 2_000)
    outcome = attack("for one in $(seq 10000000); do : > empty$one; done", scene.folder, timeout_s=300)
    for one in scene.folder.glob("empty*"):
        one.unlink()
    assert outcome.exit_code is None
    assert outcome.reason == "ended: the disk lost room for more than 2,000 files while it ran"


def test_a_process_that_computes_without_end_is_ended(scene: Scene) -> None:
    # Other tests write to the same disk meanwhile.
    bounds = BOUNDS.model_copy(update={"disk_bytes": 1 << 36})
    outcome = attack("while :; do :; done", scene.folder, spec=bounds)
    assert outcome.exit_code == 128 + signal.SIGKILL, outcome


def test_processes_in_the_background_end_with_the_command(scene: Scene) -> None:
    long = f"sleep 98765.25{MARK}"
    text = f"setsid {long} & (trap '' TERM HUP; setsid nohup {long} &) ; disown -a; echo begun"
    assert attack(text, scene.folder) == Outcome(0, "begun\n")
    assert not left_over(f"98765.25{MARK}")


def test_a_command_that_is_timed_out_leaves_nothing(scene: Scene) -> None:
    long = f"sleep 98765.5{MARK}"
    outcome = attack(f"trap '' TERM; setsid {long} & {long}", scene.folder, timeout_s=1)
    assert (outcome.exit_code, outcome.reason) == (None, "terminated after its timeout of 1 seconds")
    assert not left_over(f"98765.5{MARK}")


def test_the_commands_of_a_killed_process_are_killed_with_it(scene: Scene) -> None:
    long = f"sleep 98765.75{MARK}"
    text = f"(trap '' TERM HUP; setsid {long} &); echo ready > born; {long}"
    code = f"""
from pathlib import Path
from tests.sandbox.rig import attack
attack({text!r}, Path({str(scene.folder)!r}))
"""
    os.mkfifo(scene.folder / "born")
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        assert (scene.folder / "born").read_text() == "ready\n"
        inside = left_over(f"98765.75{MARK}")
        assert len(inside) >= 2
    finally:
        process.kill()
        process.wait()
        (scene.folder / "born").unlink()
    for pid in inside:
        play(gone(pid))


def left_over(token: str) -> list[int]:
    """The processes with a text in their command line."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in line and int(place.name) != os.getpid() and b"pytest" not in line:
            found.append(int(place.name))
    return found
