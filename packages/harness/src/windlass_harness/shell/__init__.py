"""Grade shell commands: prove that a command only reads, or say why not."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass_harness.shell.classify import classify_shell_command as classify_shell_command
    from windlass_harness.shell.model import Severity as Severity
    from windlass_harness.shell.model import ShellConfig as ShellConfig
    from windlass_harness.shell.model import ShellReason as ShellReason
    from windlass_harness.shell.model import ShellVerdict as ShellVerdict

_HOMES = {
    "windlass_harness.shell.classify": ("classify_shell_command",),
    "windlass_harness.shell.model": (
        "Severity",
        "ShellConfig",
        "ShellReason",
        "ShellVerdict",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
