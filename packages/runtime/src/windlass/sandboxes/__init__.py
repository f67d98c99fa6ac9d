"""Adapters of sandboxes: bubblewrap, and the machine itself. Names are imported on first use."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.sandboxes.bubblewrap import BubblewrapSandboxes as BubblewrapSandboxes
    from windlass.sandboxes.none import HostSandboxes as HostSandboxes

_HOMES = {
    "windlass.sandboxes.bubblewrap": ("BubblewrapSandboxes",),
    "windlass.sandboxes.none": ("HostSandboxes",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
