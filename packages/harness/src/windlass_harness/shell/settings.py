"""Variables that are set before or without a command."""

from windlass_harness.shell.paths import matches_exactly
from windlass_harness.shell.scene import Call
from windlass_harness.shell.tables_names import EXECUTING_SETTINGS, HARMLESS_SETTINGS


def grade_setting(call: Call, name: str, *, is_prefix: bool) -> None:
    """Report what setting a variable means; a prefix reaches the command after it."""
    if name in HARMLESS_SETTINGS:
        return
    if matches_exactly(name, EXECUTING_SETTINGS):
        call.note("destructive/env-exec")
    elif is_prefix:
        call.note("unknown/env")
