"""The first process of a command, a program of its own: `python -I -S launch.py WAY DESCRIPTOR COMMAND…`.

Way `supervise`: the command runs as a child. When it ends, or when the other end of the descriptor is closed,
all its descendants are killed, also those in sessions of their own.

Way `network`: the process enters a network namespace with nothing but a loopback interface, sends a socket
that listens in it through the descriptor, a Unix socket, and becomes the command.
"""

import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import NoReturn

PROXY_PORT = 3128
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_IFREQ = "16sH14x"
_TURN_S = 0.001


def _supervise(control: int, command: list[str]) -> int:
    """Run a command, kill its descendants after it, and return its exit code or the negative signal."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Signals to the group are for the command; this process ends after it.
    end_signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in end_signals:
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.close(control)
        for number in (*end_signals, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        _become(command)
    # The output is the command's: it ends with the last process that writes.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    select.select([os.pidfd_open(child), control], [], [])
    return os.waitstatus_to_exitcode(_kill_all(child))


def _kill_all(child: int) -> int:
    """Kill the children of this process until there are none; return the wait status of `child`."""
    status = int(signal.SIGKILL)
    while True:
        try:
            ended, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == child:
            status = how
        elif ended == 0:
            # The children of a process that ends become those of this one.
            for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            time.sleep(_TURN_S)


def _separate_network(channel: socket.socket) -> None:
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no user namespace, and its commands get no rights over this network.
    if libc.unshare(_CLONE_NEWNET if uid == 0 else _CLONE_NEWNET | _CLONE_NEWUSER) != 0:
        _fail(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket() as listener:
        (flags,) = struct.unpack(_IFREQ, fcntl.ioctl(listener, _SIOCGIFFLAGS, struct.pack(_IFREQ, b"lo", 0)))[
            1:
        ]
        fcntl.ioctl(listener, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags | _IFF_UP))
        listener.bind(("127.0.0.1", PROXY_PORT))
        listener.listen(64)
        socket.send_fds(channel, [b"."], [listener.fileno()])


def _become(command: list[str]) -> NoReturn:
    try:
        os.execv(command[0], command)
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}")


def _fail(message: str) -> NoReturn:
    os.write(2, f"{message}\n".encode())
    os._exit(127)


def _main() -> NoReturn:
    way, descriptor, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    if way == "network":
        with socket.socket(fileno=descriptor) as channel:
            _separate_network(channel)
        _become(command)
    code = _supervise(descriptor, command)
    if code < 0:
        # It ends as the command did, without a core file of its own.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    _main()
