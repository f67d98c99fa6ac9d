"""Sandboxes that an agent declares: `Bubblewrap` and `NoSandbox`."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY
from typing import cast

from windlass.errors import check_whole, wrong
from windlass.limits import SANDBOX_HOSTS_MAX
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import packages
from windlass_protocol.limits import INTEGER_MAX


@sealed
class Bubblewrap:
    """Commands run under `bwrap`, which must be installed: apt-get install bubblewrap.

    They reach their folder, which they may change, the programs of the machine, and no other file or process.
    `network` is the list of host names that they may reach, over http and https through a proxy; by default
    there is no network. A start is refused on a machine that cannot do this.
    """

    _: KW_ONLY
    network: Sequence[str] = ()
    memory_bytes: int | None = None
    """Most memory of a command with all its processes; default: 2 GiB."""
    processes: int | None = None
    """Most processes of a command at once; default: 256."""
    cpu_seconds: int | None = None
    """Most CPU time of one process; default: 1,800."""
    file_bytes: int | None = None
    """Largest file; default: 1 GiB."""
    disk_bytes: int | None = None
    """Most disk space of the folder of a session, or that one command may take in another folder; default:
    4 GiB."""

    def __post_init__(self) -> None:
        hosts: object = self.network
        if not isinstance(hosts, list | tuple) or not all(
            isinstance(host, str) and host for host in cast(Iterable[object], hosts)
        ):
            raise wrong('Bubblewrap: network must be a list of host names, such as ["api.example.com"]')
        if len(self.network) > SANDBOX_HOSTS_MAX:
            raise wrong(f"Bubblewrap: network has {len(self.network):,} hosts, limit {SANDBOX_HOSTS_MAX}")
        for name in ("memory_bytes", "processes", "cpu_seconds", "file_bytes", "disk_bytes"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), f"Bubblewrap: {name}", most=INTEGER_MAX)

    @property
    def spec(self) -> "packages.SandboxSpec":
        """The sandbox as data of a package."""
        return packages.SandboxSpec(
            adapter="bubblewrap",
            network=tuple(sorted(self.network)) or None,
            memory_bytes=self.memory_bytes,
            processes=self.processes,
            cpu_seconds=self.cpu_seconds,
            file_bytes=self.file_bytes,
            disk_bytes=self.disk_bytes,
        )


@sealed
class NoSandbox:
    """Commands run beside the process, with the rights of its user: nothing is protected from them."""

    @property
    def spec(self) -> "packages.SandboxSpec":
        """The choice as data of a package."""
        return packages.SandboxSpec(adapter="none")
