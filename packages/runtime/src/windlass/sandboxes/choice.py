"""The adapters of sandboxes that a runtime has unless it is given others."""

from pathlib import Path

from windlass.ports.sandbox import SandboxAdapter
from windlass.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.sandboxes.none import HostSandboxes


def default_sandboxes(root: Path | None) -> dict[str, SandboxAdapter]:
    """Return the adapters by name; `root` is the folder of their files, None: a temporary one."""
    return {"bubblewrap": BubblewrapSandboxes(root), "none": HostSandboxes(root)}
