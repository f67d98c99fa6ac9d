"""Bubblewrap: every command in namespaces of its own, made by `bwrap`.

A command sees its folder at `/workspace`, which it may change, the programs of the machine, which it may not,
and an empty home and temporary folder. It has no rights, no network (or a proxy to the hosts of a list), and
no variables of the host process. Its processes are counted and bounded together, and are all killed with the
first of them, or with this process.
"""

import asyncio
import errno
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from windlass.addresses import Resolver, resolve
from windlass.errors import Rejected, wrong
from windlass.ports.sandbox import Output, SandboxFailed
from windlass.sandboxes import launch
from windlass.sandboxes.disk import Disk, DiskUsage, settle, watch
from windlass.sandboxes.git import git_script
from windlass.sandboxes.processes import (
    OWN_VARIABLES,
    PATH,
    Clean,
    ProcessSandbox,
    ProcessSandboxes,
    Running,
    Start,
    absolute_paths,
    bash_at,
    option_variables,
    paths_outside,
    private_variables,
    start,
)
from windlass.sandboxes.proxy import Connect, Proxy, parse_host
from windlass.tools import ToolFailed
from windlass_harness.shell.reads import READS_PATH
from windlass_protocol import ErrorKind, JsonObject, RetryClass, SandboxSpec

ADAPTER: Final = "bubblewrap"
WORKSPACE: Final = "/workspace"
"""The folder, as commands see it."""
HOME: Final = "/home/agent"
_READS: Final = "/run/windlass"
"""The folder with the git of safe commands."""
USER_ID: Final = 1_000
"""The user and the group, as commands see them."""
MEMORY_BYTES: Final = 2 * 1_073_741_824
PROCESSES: Final = 256
CPU_SECONDS: Final = 1_800
FILE_BYTES: Final = 1_073_741_824
DISK_BYTES: Final = 4 * 1_073_741_824
FILES_MAX: Final = 500_000
"""Files and folders in the folder of a session; in another folder, files that one command may
take from the disk."""
HANDLES_MAX: Final = 1_024
TEMPORARY_BYTES_MAX: Final = 268_435_456
"""Size of the home folder, of the temporary folder and of shared memory, each."""
OWN_PROCESSES: Final = 3
"""Processes of bwrap and of the shell around a command."""
REMOVAL_TURN_S: Final = 0.01
REMOVAL_TURNS_MAX: Final = 100
"""Attempts to remove the control group of a command that has ended."""
START_TIMEOUT_S: Final = 10.0
PROBE_TIMEOUT_S: Final = 30.0
_INSTALL: Final = "install the package bubblewrap, such as with apt-get install bubblewrap"
_ALLOW: Final = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns), or in a container let its seccomp and AppArmor profiles "
    "allow unshare and mount"
)
_ETC: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
"""Settings that programs need, and that hold no secret."""
_LINKED: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_PROXY_VARIABLES: Final = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")
_ARCHITECTURES: Final = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""Names of the kernel for its system calls, by machine."""
REFUSED_CALLS: Final = {
    # Keyrings have no namespace: a command would read the keys of the user who started this process.
    "x86_64": (*(248, 249, 250), 321, 323, 298, *range(425, 434), 442, 103, 304, 165, 166, 155, 272, 308),
    "aarch64": (*(217, 218, 219), 280, 282, 241, *range(425, 434), 442, 116, 265, 40, 39, 41, 97, 268),
}
"""Numbers of `add_key`, `request_key`, `keyctl`, `bpf`, `userfaultfd`, `perf_event_open`, the three calls of
io_uring, the calls that mount (428 to 433, 442), `syslog`, `open_by_handle_at`, `mount`, `umount2`,
`pivot_root`, `unshare`, `setns`."""
RESERVING_CALLS: Final = {"x86_64": (285, 16), "aarch64": (47, 29)}
"""Numbers of `fallocate` and `ioctl`: the first takes any space of the disk in no time."""
_RESERVING_REQUESTS: Final = (0x4030_5828, 0x4030_582A, 0x4030_5839)
"""Requests of `ioctl` that do the same: FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE."""
MAPPING_CALLS: Final = {"x86_64": 9, "aarch64": 222}
"""The number of `mmap`: what is written to a shared mapping of a file passes by the limit of its size."""
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_ETC_KEY: Final = "\0etc"
"""The key of the folder with the files of `/etc` that are made; no session has it."""
_numbers: Final = count(1)


class BubblewrapSandbox(ProcessSandbox):
    """A folder whose commands run under `bwrap`."""

    def __init__(
        self, folder: Path, spec: SandboxSpec, *, etc: Path, proxy: Callable[[], Proxy | None], is_own: bool
    ) -> None:
        super().__init__(folder)
        self._spec = spec
        self._is_own = is_own
        """Whether the folder belongs to the key, and not to the application."""
        self._etc = etc
        self._proxy = proxy

    def snapshot(self) -> JsonObject:
        """Return the adapter and the folder."""
        return {"adapter": ADAPTER, "folder": str(self.folder)}

    async def begin(
        self, command: str, output: Output, environment: Mapping[str, str], stdin: bytes | None
    ) -> Running:
        """Start a command in namespaces of its own."""
        bwrap, spec = shutil.which("bwrap"), self._spec
        if bwrap is None or not self.folder.is_dir():
            raise SandboxFailed("the sandbox cannot be made: bubblewrap or its folder is not there any more")
        most = DiskUsage(spec.disk_bytes or DISK_BYTES, FILES_MAX)
        try:
            disk = await asyncio.to_thread(partial(Disk, self.folder, most, is_own=self._is_own))
        except OSError:
            raise SandboxFailed("the sandbox cannot be made: its folder is not there any more") from None
        proxy, cgroup = self._proxy(), Cgroup.make(spec)
        inner = _shell(command, spec, is_counted=cgroup is not None, is_full=disk.is_full)
        git = git_script(bash_at(PATH), PATH)
        options = _walls(self.folder, self._etc, spec, has_network=proxy is not None)
        handles = [_handle(_filter(is_full=disk.is_full))]
        if git is not None:
            handles.append(_handle(git.encode()))
            options = ["--perms", "0555", "--ro-bind-data", str(handles[1]), f"{_READS}/git", *options]
        handles.append(_handle(b"".join(os.fsencode(option) + b"\0" for option in options)))
        argv = [bwrap, "--args", str(handles[-1]), "--seccomp", str(handles[0]), "--", *inner]
        if cgroup is not None:
            argv = cgroup.around(argv)
        variables = {
            **OWN_VARIABLES,
            **private_variables(HOME, "/tmp"),
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "USER": "agent",
            "LOGNAME": "agent",
            **(_proxy_variables() if proxy is not None else {}),
            **option_variables(environment),
        }
        outside = paths_outside(absolute_paths(variables["PATH"]), Path(WORKSPACE))
        variables[READS_PATH] = os.pathsep.join([_READS, *outside])
        clean, program = (
            partial(_clean, cgroup, proxy),
            Start(argv, variables, self.folder, stdin, tuple(handles)),
        )
        try:
            if proxy is None:
                running = await start(program, output, kill=_kill, clean=clean)
            else:
                running = await _start_with_network(program, output, proxy, clean)
        finally:
            for handle in handles:
                os.close(handle)
        watching = asyncio.create_task(watch(disk, running))
        running.add_cleaner(partial(_cancel, watching))
        running.add_cleaner(partial(settle, disk, running))
        return running


async def _start_with_network(program: Start, output: Output, proxy: Proxy, clean: Clean) -> Running:
    """Start a program in a network namespace in which nothing but the proxy listens."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            number = theirs.fileno()
            argv = [sys.executable, "-I", "-S", launch.__file__, "network", str(number), *program.argv]
            program = replace(program, argv=argv, handles=(*program.handles, number))
            running = await start(program, output, kill=_kill, clean=clean)
        try:
            ours.settimeout(START_TIMEOUT_S)
            _, handles, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 1, 1)
            if not handles:
                raise SandboxFailed("the sandbox cannot be made: no network namespace; " + _ALLOW)
            await proxy.listen(socket.socket(fileno=handles[0]))
        except BaseException:
            await running.stop()
            raise
    return running


class BubblewrapSandboxes(ProcessSandboxes[BubblewrapSandbox]):
    """Makes sandboxes with `bwrap`; see `SandboxAdapter`.

    `resolver` and `connect` are the network behind the proxy.
    """

    def __init__(
        self, root: Path | None = None, *, resolver: Resolver = resolve, connect: Connect | None = None
    ) -> None:
        super().__init__(root)
        self._network = partial(Proxy, resolver=resolver, connect=connect)
        self._works: set[bool] = set()
        """Whether a probe succeeded, without and with a network."""

    async def check(self, spec: SandboxSpec) -> None:
        """Refuse what this machine cannot do, after a probe; see `SandboxAdapter`."""
        hosts = _hosts(spec)
        if bool(hosts) in self._works:
            return
        if sys.platform != "linux":
            raise _support_error("bubblewrap needs Linux")
        if shutil.which("bwrap") is None:
            raise _support_error(f"bwrap is not installed: {_INSTALL}")
        machine = os.uname().machine
        if machine not in REFUSED_CALLS:
            raise _support_error(
                f"it is known for {' and '.join(REFUSED_CALLS)}, and this machine is {machine}"
            )
        cgroup = Cgroup.make(spec)
        if cgroup is not None:
            cgroup.remove()
        elif os.geteuid() == 0:
            raise _support_error(
                "the processes of root can only be counted by a cgroup, and none can be made here: run this "
                "process as another user, or give it a writable cgroup with the controllers pids and memory"
            )
        Cgroup.sweep()
        output = bytearray()
        with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
            sandbox = self._make(spec, Path(folder), Path(folder), is_own=False)
            try:
                ended = await sandbox.run("true", timeout_s=PROBE_TIMEOUT_S, output=output.extend)
                problem = (
                    "" if ended.exit_code == 0 else output.decode("utf-8", "replace").strip()[:200] or "?"
                )
            except SandboxFailed as error:
                problem = str(error)
        if problem:
            raise _support_error(f"bwrap does not work here ({problem}): {_ALLOW}")
        self._works.add(bool(hosts))

    async def open(self, spec: SandboxSpec, *, key: str, folder: Path | None = None) -> BubblewrapSandbox:
        """Return the sandbox of a key or a folder."""
        await self.check(spec)
        session_folder = self.folders.folder(key) if folder is None else folder
        identity = session_folder, folder is None, spec.model_dump_json()
        etc = self.folders.folder(_ETC_KEY)
        make = partial(self._make, spec, session_folder, etc, is_own=folder is None)
        return self.find_or_make(identity, make)

    def _make(self, spec: SandboxSpec, folder: Path, etc: Path, *, is_own: bool) -> BubblewrapSandbox:
        hosts = _hosts(spec)
        (etc / "passwd").write_text(f"agent:x:{USER_ID}:{USER_ID}::{HOME}:/bin/bash\n")
        (etc / "group").write_text(f"agent:x:{USER_ID}:\n")
        return BubblewrapSandbox(
            folder, spec, etc=etc, proxy=lambda: self._network(hosts) if hosts else None, is_own=is_own
        )


class Cgroup:
    """A control group for the processes of one command."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders

    @classmethod
    def make(cls, spec: SandboxSpec) -> "Cgroup | None":
        """Make a group with the limits of a sandbox; None if this process may not."""
        memory = str(spec.memory_bytes or MEMORY_BYTES)
        processes = str((spec.processes or PROCESSES) + OWN_PROCESSES)
        unified = {"pids.max": processes, "memory.max": memory}
        # Controllers of version 1 have a tree each.
        separate = {"pids": {"pids.max": processes}, "memory": {"memory.limit_in_bytes": memory}}
        group = cls([])
        try:
            above = _own_cgroups()
            trees = {"": unified} if (_CGROUPS / "cgroup.controllers").exists() else separate
            for name, settings in trees.items():
                folder = above[name] / f"windlass-{os.getpid()}-{next(_numbers)}"
                folder.mkdir()
                group._folders.append(folder)
                for setting, value in settings.items():
                    # Not created if it is missing: the controller is not enabled here.
                    with (folder / setting).open("r+") as file:
                        file.write(value)
        except (OSError, KeyError):
            group.remove()
            return None
        return group

    @staticmethod
    def sweep() -> None:
        """Remove the groups of processes that were killed."""
        for above in _own_cgroups().values():
            for folder in above.glob("windlass-*-*"):
                if not Path("/proc", folder.name.split("-")[1]).exists():
                    with suppress(OSError):
                        folder.rmdir()

    def around(self, argv: list[str]) -> list[str]:
        """Return a command that enters the group and becomes another."""
        entered = [f"echo 0 > '{folder}/cgroup.procs'" for folder in self._folders]
        script = " && ".join([*entered, 'exec "$@"'])
        return [bash_at(PATH), "--noprofile", "--norc", "-c", script, "bash", *argv]

    def remove(self) -> bool:
        """Remove the group; return whether it is gone. One that has processes is not removed."""
        for folder in [*self._folders]:
            with suppress(OSError):
                folder.rmdir()
                self._folders.remove(folder)
        return not self._folders


def _own_cgroups() -> dict[str, Path]:
    """Return where this process may make control groups, by controller; by an empty name for version 2."""
    groups: dict[str, Path] = {}
    for line in _OWN_CGROUPS.read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            folder = _CGROUPS / name / path.lstrip("/")
            groups[name] = folder if folder.is_dir() else _CGROUPS / name
    if "" in groups:
        groups[""] = _with_controllers(groups[""])
    return groups


def _with_controllers(folder: Path) -> Path:
    """Return the group of this process or the one above, whichever can bound the groups in it.

    In version 2 a group that has processes cannot, but for the root. A service manager that delegates a
    group puts the process into one below it.
    """
    for group in (folder, folder.parent):
        with suppress(OSError), (group / "cgroup.subtree_control").open("r+") as file:
            file.write("+pids +memory")
            file.flush()
            return group
    return folder


def _hosts(spec: SandboxSpec) -> tuple[str, ...]:
    hosts: list[str] = []
    for name in spec.network or ():
        try:
            hosts.append(parse_host(name))
        except ToolFailed as error:
            problem = error.message
            raise wrong(f"Bubblewrap: a host of its network is not valid, {name!r}: {problem}") from None
    return tuple(hosts)


def _support_error(problem: str) -> Rejected:
    return Rejected(
        f"this machine cannot give the sandbox bubblewrap: {problem}",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


def _walls(folder: Path, etc: Path, spec: SandboxSpec, *, has_network: bool) -> list[str]:
    """Return the options of bwrap."""
    temporary = str(min(TEMPORARY_BYTES_MAX, spec.memory_bytes or MEMORY_BYTES))
    options = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    # With a proxy, the network namespace is there already: see `launch`.
    options += [] if has_network else ["--unshare-net"]
    options += ["--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", "sandbox"]
    options += ["--ro-bind", "/usr", "/usr"]
    for name in _LINKED:
        path = Path(name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            options += ["--ro-bind", name, name]
    # Images keep applications there.
    options += ["--tmpfs", "/usr/src", "--remount-ro", "/usr/src"] if Path("/usr/src").is_dir() else []
    for name in _ETC:
        options += ["--ro-bind-try", name, name]
    for name in ("passwd", "group"):
        options += ["--ro-bind", str(etc / name), f"/etc/{name}"]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for name in ("/dev/shm", "/tmp", HOME):
        options += ["--size", temporary, "--tmpfs", name]
    options += ["--bind", str(folder), WORKSPACE]
    # Root could change the kernel through /proc/sys, and fill the memory with files in / and /dev.
    for name in ("/proc", "/dev", "/"):
        options += ["--remount-ro", name]
    return [*options, "--chdir", WORKSPACE]


def _handle(content: bytes) -> int:
    """Return a handle from which bwrap reads its options, which a command could see in a command line."""
    read_end, write_end = os.pipe()
    try:
        # It fits into the buffer of a pipe.
        os.write(write_end, content)
    finally:
        os.close(write_end)
    return read_end


def _filter(*, is_full: bool) -> bytes:
    """Return the filter of system calls, a program of the kernel's classic BPF.

    Calls of `REFUSED_CALLS` fail with EPERM, and so do all calls of another architecture, whose numbers
    differ. Calls that reserve space fail as on a file system that cannot do so: programs then write. So do
    shared mappings of files while the folder is full: they would be writes.
    """
    machine = os.uname().machine
    load, equal, at_least, has_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    refuse, unsupported = 0x0005_0000 | errno.EPERM, 0x0005_0000 | errno.EOPNOTSUPP
    ends = {"allow": 0x7FFF_0000, "refuse": refuse, "unsupported": unsupported}
    fallocate, ioctl = RESERVING_CALLS[machine]
    # An instruction, its operand, and where to go if it holds and if it does not; "" is the next one.
    code = [
        (load, 4, "", ""),  # the architecture
        (equal, _ARCHITECTURES[machine], "", "refuse"),
        (load, 0, "", ""),  # the number of the call
        (at_least, 0x4000_0000, "refuse", ""),  # x32 calls of x86_64
        *((equal, number, "refuse", "") for number in REFUSED_CALLS[machine]),
        (equal, fallocate, "unsupported", ""),
        *([(equal, MAPPING_CALLS[machine], "mapping", "")] if is_full else []),
        (equal, ioctl, "", "allow"),
        (load, 24, "", ""),  # the second argument
        *((equal, request, "unsupported", "") for request in _RESERVING_REQUESTS),
        (give, ends["allow"], "", ""),
        (load, 40, "", ""),  # the fourth argument, at "mapping"
        (has_bit, _MAP_ANONYMOUS, "allow", ""),
        (has_bit, _MAP_SHARED, "unsupported", "allow"),
        *((give, answer, "", "") for answer in ends.values()),
    ]
    first = len(code) - len(ends)
    jumps = {"": 0, "mapping": first - 3, **{name: first + at for at, name in enumerate(ends)}}
    return b"".join(
        struct.pack("HBBI", kind, *(jumps[way] and jumps[way] - at - 1 for way in ways), operand)
        for at, (kind, operand, *ways) in enumerate(code)
    )


def _shell(command: str, spec: SandboxSpec, *, is_counted: bool, is_full: bool) -> list[str]:
    """Return a shell that bounds itself and becomes the command.

    The limits are set inside: the number of processes counts for the user in the namespace alone. In a folder
    that is full, no file may have a byte that is written, so that commands which write do not add up.
    """
    limits = [
        "-c 0",
        f"-n {HANDLES_MAX}",
        f"-f {0 if is_full else (spec.file_bytes or FILE_BYTES) // 1_024}",
        f"-t {spec.cpu_seconds or CPU_SECONDS}",
    ]
    if not is_counted:
        # Without a cgroup each process has the whole limit.
        limits += [f"-u {spec.processes or PROCESSES}", f"-v {(spec.memory_bytes or MEMORY_BYTES) // 1_024}"]
    bash = "/bin/bash"
    script = " && ".join(
        [*(f"ulimit {limit}" for limit in limits), f'exec {bash} --noprofile --norc -c "$1"']
    )
    return [bash, "--noprofile", "--norc", "-c", script, "bash", command]


def _proxy_variables() -> dict[str, str]:
    address = f"http://127.0.0.1:{launch.PROXY_PORT}"
    return {**dict.fromkeys(_PROXY_VARIABLES, address), "no_proxy": "", "NO_PROXY": ""}


async def _clean(cgroup: Cgroup | None, proxy: Proxy | None) -> None:
    if proxy is not None:
        proxy.close()
    if cgroup is not None:
        # Its last process may take a moment to be gone.
        turns = 0
        while not cgroup.remove() and turns < REMOVAL_TURNS_MAX:
            turns += 1
            await asyncio.sleep(REMOVAL_TURN_S)


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _kill(pid: int) -> None:
    # The processes inside are killed with their parent.
    with suppress(ProcessLookupError):
        os.kill(pid, 9)
