"""Every limit of the shell grader, each with its unit."""

COMMAND_CHARS_MAX = 10_000
"""Longer commands are not parsed: a person could not review them."""

NESTING_MAX = 16
"""Substitutions, quoted scripts and compound commands inside one another."""

PARSE_UNITS_MAX = 6_000
"""Words and parts that are read from one command."""

WORK_UNITS_MAX = 6_000
"""Fields, arguments and calls that are graded for one command."""

SCAN_UNITS_MAX = 1_500
"""The same, for a last look at a command that was too much to grade."""

NODES_MAX = 20_000
"""Nodes of the second parser's tree."""

CALLS_DEEP_MAX = 24
"""Commands that run commands that run commands: env nice env nice …"""

VALUE_CHARS_MAX = 20_000
"""Characters of one expanded word or variable."""

FAMILY_WORDS_MAX = 64
"""Words of one call that are compared with the rules of its family."""

BRACE_FIELDS_MAX = 64
"""Words that one brace expansion may become."""

LOOP_ITEMS_MAX = 8
"""Loop items that are tried one by one; further ones count as unknown text."""

REASONS_MAX = 20
"""Reasons in one verdict; the worst come first."""

PART_CHARS_MAX = 200
"""Characters of the offending text in one reason."""

PATTERN_CHARS_MAX = 500
"""Characters of one custom pattern."""

PATTERN_INPUT_CHARS_MAX = 4_000
"""Characters of the text that a custom pattern is matched against."""

CODE_CHARS_MAX = 8_000
"""Characters of inline program text that are inspected."""
