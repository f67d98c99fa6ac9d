"""An interpreter of another release."""

from windlass.code_mode.monty import MontyInterpreter


class OtherRelease(MontyInterpreter):
    """An interpreter that loads nothing of the usual one."""

    @property
    def version(self) -> str:
        """Name and version."""
        return "monty/of another release"
