"""Every limit of tools and agents as their authors define them, with its unit."""

from typing import Final

NAME_CHARS_MAX: Final = 64
"""Of a tool or an agent: what every provider takes as the name of a function."""
DESCRIPTION_CHARS_MAX: Final = 16_384
INSTRUCTIONS_CHARS_MAX: Final = 1_000_000
SUBAGENTS_MAX: Final = 64
SUBAGENT_LEVELS_MAX: Final = 8
"""Agents inside one another."""
TIMEOUT_MS_MAX: Final = 86_400_000
CONCURRENCY_MAX: Final = 1_024
ARGUMENT_BYTES_MAX: Final = 524_288
"""Arguments of one call, as canonical JSON; half of a record."""
ARGUMENT_LEVELS_MAX: Final = 48
"""Objects and lists inside one another; a record puts some more around them."""
PROBLEMS_MAX: Final = 8
"""Problems of one call that the model is told."""
PROBLEM_CHARS_MAX: Final = 300
NAMES_SHOWN_MAX: Final = 24
"""Names of parameters or tools that one message lists."""
FAILURE_CHARS_MAX: Final = 500
"""What the model is told of an exception."""
FAILED_CHARS_MAX: Final = 8_192
"""What a tool itself may tell the model of a failure."""
REPR_CHARS_MAX: Final = 2_000
"""Kept of the repr of a value that has no JSON form."""
REPR_READ_CHARS_MAX: Final = 65_536
"""Of a repr in which secrets are masked before it is cut: half a secret is not recognised."""
RESULT_LEVELS_MAX: Final = 48
RESULT_VALUES_MAX: Final = 1_000_000
"""Values of a result that is not plain JSON; what comes after is left out."""
PROGRESS_REPORTS_MAX: Final = 1_000
"""Reports of one call; later ones are dropped."""
PROGRESS_BYTES_MAX: Final = 16_384
THREADS_MAX: Final = 64
"""Calls of tools that are not async, at the same time in one process."""
OWN_THREADS_MAX: Final = 4
"""For large results, which are made fit to be kept; tools do not run in them."""
LIGHT_VALUES_MAX: Final = 10_000
"""Values of a result that is looked through at once; a larger one is looked through in a thread."""
LIGHT_CHARS_MAX: Final = 500_000
CLOSE_NAMES_MAX: Final = 3
PACKAGE_BYTES_MAX: Final = 16 * 1_048_576
SKILLS_MAX: Final = 128
"""Skills of one agent; the model is told of each in every prompt."""
SKILL_BYTES_MAX: Final = 65_536
"""One SKILL.md."""
SKILL_DESCRIPTION_CHARS_MAX: Final = 1_024
SKILL_FILES_MAX: Final = 256
"""Files of one skill beside its SKILL.md."""
SKILL_FILE_BYTES_MAX: Final = 16 * 1_048_576
"""All files of one skill together."""
SKILL_LEVELS_MAX: Final = 8
"""Folders inside one another in one skill."""

STATE_KEY_CHARS_MAX: Final = 128
STATE_VALUE_BYTES_MAX: Final = 65_536
"""One value in the state of a session, as JSON."""
STATE_LEVELS_MAX: Final = 32
"""Arrays and objects inside one another in such a value."""
