"""python -m tests.golden VERSION: write the journals of a release, once for all."""

import json
import re
import sys

from tests.golden.journal import HASHES, JOURNALS, hashes, read, write
from tests.golden.stories import STORIES, tell
from tests.simulator import simulate

SEEDS = range(1, 31)
RECORDS_MIN = 12


def main(version: str) -> int:
    """Write journals of simulations and of stories, and the hashes of their states."""
    folder = JOURNALS / version
    if re.fullmatch(r"\d+\.\d+", version) is None:
        sys.stderr.write(f"a release is named as 0.1 is, found {version}\n")
        return 1
    if folder.exists():
        sys.stderr.write(f"{folder} exists: journals of a release are never written again\n")
        return 1
    folder.mkdir(parents=True)
    for name in STORIES:
        write(folder, name, tell(name))
    for seed in SEEDS:
        for session_id, records in simulate(seed).journals.items():
            if len(records) >= RECORDS_MIN:
                write(folder, f"seed-{seed}-{session_id}", records)
    found = {path.name: hashes(read(path)) for path in sorted(folder.glob("*.gz"))}
    (folder / HASHES).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found)} journals in {folder}\n")
    return 0


sys.exit(main(sys.argv[1]))
