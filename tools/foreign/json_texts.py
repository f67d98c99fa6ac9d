"""JSONTestSuite: the strict codec takes what each parser must take, and refuses what each must refuse."""

import sys
from pathlib import Path
from typing import Final

from tools.foreign.counts import Counts
from windlass_protocol import CodecError
from windlass_protocol.codec import parse

STRICTER: Final = {
    "y_object_duplicated_key.json": "two values for one key",
    "y_object_duplicated_key_and_value.json": "two values for one key",
}
"""Texts that are refused on purpose: they would mean different things to different readers."""


def main(folder: Path) -> Counts:
    """Parse each text of the suite."""
    counts = Counts()
    for path in sorted((folder / "test_parsing").glob("*.json")):
        try:
            parse(path.read_bytes())
            is_taken = True
        except CodecError:
            is_taken = False
        kind = path.name[0]
        if kind == "i" or (path.name in STRICTER and not is_taken):
            counts.skipped += 1
        else:
            counts.check(path.name, None if is_taken is (kind == "y") else f"taken: {is_taken}")
    counts.notes.append(
        "skipped are texts that parsers may judge either way, and those that are refused on purpose: "
        + "; ".join(f"{name} ({reason})" for name, reason in STRICTER.items())
    )
    return counts


if __name__ == "__main__":
    main(Path(sys.argv[1])).show()
