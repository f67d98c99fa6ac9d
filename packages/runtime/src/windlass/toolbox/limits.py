"""Limits of the toolbox."""

from typing import Final

OUTPUT_LINES_MAX: Final = 2_000
"""What one call shows, whichever limit comes first."""
OUTPUT_BYTES_MAX: Final = 51_200
LINE_CHARS_MAX: Final = 2_000
"""What is shown of one line."""

PATH_CHARS_MAX: Final = 4_096
PATH_PARTS_MAX: Final = 128
NAME_BYTES_MAX: Final = 255
"""One name in a path, as UTF-8: what file systems take."""
LINKS_MAX: Final = 40
"""Symbolic links on the way to one file."""

MARKED_FILE_BYTES_MAX: Final = 16 * 1_048_576
"""A larger file can be read in parts, and is not overwritten: its whole content is never looked at."""
WRITE_CHARS_MAX: Final = 500_000
SCAN_BYTES_MAX: Final = 1_073_741_824
"""What is looked through of one file to find a far line."""
CHUNK_BYTES: Final = 65_536
SNIFF_BYTES: Final = 8_192
"""Where a NUL byte makes a file binary."""

GLOB_CHARS_MAX: Final = 1_024
GLOB_PARTS_MAX: Final = 32
GLOB_CHOICES_MAX: Final = 64
"""Patterns that the braces of one pattern make."""
WALK_ENTRIES_MAX: Final = 200_000
"""Files and folders that one search looks at."""
WALK_LEVELS_MAX: Final = 64
GREP_FILE_BYTES_MAX: Final = 8 * 1_048_576
"""A larger file is not searched."""
GREP_BYTES_MAX: Final = 256 * 1_048_576
"""What one search reads of all files together."""
GREP_LINE_CHARS_MAX: Final = 4_000
"""What is searched of one line: it bounds how long a single match can take."""
GREP_WEIGHT_MAX: Final = 1_000
"""Pieces of a pattern when its repetitions are written out."""
GREP_SHOWN_CHARS_MAX: Final = 500
"""What is shown of one matching line."""
GREP_CONTEXT_LINES_MAX: Final = 10
SEARCH_TIMEOUT_MS: Final = 60_000

COMMAND_CHARS_MAX: Final = 32_768
COMMAND_TIMEOUT_S: Final = 120
COMMAND_TIMEOUT_S_MAX: Final = 1_800
COMMAND_GRACE_S: Final = 2.0
"""Between the signal that asks a command to end and the one that ends it."""
COMMAND_DRAIN_S: Final = 1.0
"""How long output is waited for after a command has ended."""
PROGRESS_INTERVAL_S: Final = 0.5
PROGRESS_CHARS_MAX: Final = 2_000

URL_CHARS_MAX: Final = 2_048
REDIRECTS_MAX: Final = 5
BODY_BYTES_MAX: Final = 5 * 1_048_576
"""A page, both as it comes and unpacked."""
ADDRESSES_MAX: Final = 4
"""Addresses of one host that are tried."""
CONNECT_TIMEOUT_S: Final = 10.0
FETCH_TIMEOUT_S: Final = 30.0
"""A whole fetch, with all redirects."""

TODO_ITEMS_MAX: Final = 100
TODO_TEXT_CHARS_MAX: Final = 500
TODO_ID_CHARS_MAX: Final = 40

MARKS_MAX: Final = 256
"""Files of which a session remembers the content that it has seen; the oldest is forgotten first."""
MARKED_PATH_CHARS_MAX: Final = 256
"""A longer path is not named after a compaction."""
