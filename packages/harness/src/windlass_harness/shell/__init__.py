"""Grade shell commands: prove that a command only reads, or say why not."""

from windlass_harness.shell.classify import classify_shell_command
from windlass_harness.shell.model import Severity, ShellConfig, ShellReason, ShellVerdict

__all__ = ["Severity", "ShellConfig", "ShellReason", "ShellVerdict", "classify_shell_command"]
