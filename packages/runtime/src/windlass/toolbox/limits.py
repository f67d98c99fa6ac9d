"""Limits of the toolbox."""

from typing import Final

OUTPUT_LINES_MAX: Final = 2_000
"""Size of the output of one call; the first limit that is reached applies."""
OUTPUT_BYTES_MAX: Final = 51_200
PATTERN_FOLDERS_MAX: Final = 3
"""Parts of a pattern of file names that have wildcards; links may make a folder its own parent."""
PATTERN_NAMES_MAX: Final = 10_000
"""Names that one pattern of a safe command may match."""
SEARCHED_NAMES_MAX: Final = 200_000
"""Names that are looked at before a safe command reads through a folder; of more, patterns decide."""
SECRET_NAMES_MAX: Final = 1_000
"""Names of credentials below a folder that are left out one by one; of more, patterns decide."""
LINE_CHARS_MAX: Final = 2_000
"""Characters shown of one line."""

PATH_CHARS_MAX: Final = 4_096
PATH_PARTS_MAX: Final = 128
NAME_BYTES_MAX: Final = 255
"""One name in a path, as UTF-8: the limit of common file systems."""
LINKS_MAX: Final = 40
"""Symbolic links in one path."""

MARKED_FILE_BYTES_MAX: Final = 16 * 1_048_576
"""A larger file can be read in parts but not overwritten, because its whole content is never hashed."""
WRITE_CHARS_MAX: Final = 500_000
SCAN_BYTES_MAX: Final = 1_073_741_824
"""Bytes of one file that are scanned to find a far line."""
CHUNK_BYTES: Final = 65_536
SNIFF_BYTES: Final = 8_192
"""Bytes at the start of a file in which a NUL byte makes it binary."""

GLOB_CHARS_MAX: Final = 1_024
GLOB_PARTS_MAX: Final = 32
GLOB_CHOICES_MAX: Final = 64
"""Patterns that the braces of one pattern expand to."""
WALK_ENTRIES_MAX: Final = 200_000
"""Files and folders that one search visits."""
WALK_LEVELS_MAX: Final = 64
GREP_FILE_BYTES_MAX: Final = 8 * 1_048_576
"""A larger file is not searched."""
GREP_BYTES_MAX: Final = 256 * 1_048_576
"""Bytes that one search reads from all files together."""
GREP_LINE_CHARS_MAX: Final = 4_000
"""Characters searched of one line: they bound the time of a single match."""
GREP_WEIGHT_MAX: Final = 1_000
"""Size of a pattern after its repetitions are expanded."""
GREP_SHOWN_CHARS_MAX: Final = 500
"""Characters shown of one matching line."""
GREP_CONTEXT_LINES_MAX: Final = 10
SEARCH_TIMEOUT_MS: Final = 60_000

COMMAND_CHARS_MAX: Final = 32_768
COMMAND_TIMEOUT_S: Final = 120
COMMAND_TIMEOUT_S_MAX: Final = 1_800
PROGRESS_INTERVAL_S: Final = 0.5
PROGRESS_CHARS_MAX: Final = 2_000

REDIRECTS_MAX: Final = 5
BODY_BYTES_MAX: Final = 5 * 1_048_576
"""Size of a page, both compressed and decompressed."""
ADDRESSES_MAX: Final = 4
"""IP addresses of one host that are tried."""
CONNECT_TIMEOUT_S: Final = 10.0
FETCH_TIMEOUT_S: Final = 30.0
"""Time of a whole fetch, with all redirects."""

SENT_FILES_MAX: Final = 16
"""Files that one call hands over."""

TODO_ITEMS_MAX: Final = 100
TODO_TEXT_CHARS_MAX: Final = 500
TODO_ID_CHARS_MAX: Final = 40

MARKS_MAX: Final = 256
"""Files with a remembered content in one session; the oldest is dropped first."""
MARKED_PATH_CHARS_MAX: Final = 256
"""A longer path is not listed after a compaction."""
