"""JSON-Schema-Test-Suite, draft 2020-12: the schemas of tools and outputs judge as the suite says."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tools.foreign.counts import Counts
from windlass.tools.json_schema import schema_faults, schema_problem
from windlass_protocol import JsonObject

_ANNOTATION: Final = "is only an annotation by default"


def main(folder: Path) -> Counts:
    """Judge each instance; a schema that is refused is skipped, with the reason."""
    counts, refused = Counts(), Counter[str]()
    for path in sorted((folder / "tests/draft2020-12").glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema: JsonObject = (
                group["schema"] if isinstance(group["schema"], dict) else {"allOf": [group["schema"]]}
            )
            problem = schema_problem(schema)
            if problem is not None:
                counts.skipped += len(group["tests"])
                refused[problem.partition(":")[0]] += len(group["tests"])
                continue
            for test in group["tests"]:
                if path.name == "format.json" and test["description"].endswith(_ANNOTATION):
                    counts.skipped += 1
                    continue
                is_valid = not schema_faults(schema, test["data"])
                wrong = None if is_valid is test["valid"] else f"judged {'valid' if is_valid else 'invalid'}"
                counts.check(f"{path.name}: {group['description']}: {test['description']}", wrong)
    counts.notes.append("formats are checked on purpose: the cases that say they are not are skipped")
    counts.notes += [f"{number} cases: the schema is refused: {reason}" for reason, number in refused.items()]
    return counts


if __name__ == "__main__":
    main(Path(sys.argv[1])).show()
