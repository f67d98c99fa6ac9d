"""Programs with subcommands: rules of their family, matched against the arguments."""

from windlass_harness.shell.limits import FAMILY_WORDS_MAX
from windlass_harness.shell.paths import matches_exactly
from windlass_harness.shell.scene import Call
from windlass_harness.shell.tables_families_cloud import CLOUD_FAMILIES
from windlass_harness.shell.tables_families_dev import DEVELOPMENT_FAMILIES
from windlass_harness.shell.tables_families_system import SYSTEM_FAMILIES

FAMILIES: dict[str, dict[str, str]] = {**DEVELOPMENT_FAMILIES, **CLOUD_FAMILIES, **SYSTEM_FAMILIES}
"""The rules of each program with subcommands, by category; their form is in `tables_families_dev.py`."""


def grade_family(call: Call, words: list[str] | None = None, *, from_start: bool = False) -> bool:
    """Report the first matching rule of each category; say whether any matched.

    With `from_start` a rule's words must be the first ones, so that a name given later cannot match.
    """
    texts = (call.texts if words is None else words)[:FAMILY_WORDS_MAX]
    call.engine.spend(len(texts))
    if len(call.args) > FAMILY_WORDS_MAX:
        call.note("unknown/size")
    operands = [text for text in texts if not text.startswith("-") or text == "--"]
    options = _options(texts)
    is_dangerous = False
    for category, rules in FAMILIES[call.name].items():
        for rule in rules.split(";"):
            if _matches(rule.split(), operands, options, from_start=from_start):
                call.note(category, rule.strip())
                is_dangerous = True
                break
    return is_dangerous


def _options(texts: list[str]) -> set[str]:
    found: set[str] = set()
    for number, text in enumerate(texts):
        if not text.startswith("-") or text == "--":
            continue
        following = texts[number + 1] if number + 1 < len(texts) else ""
        name = text.partition("=")[0]
        found.update((text, name, f"{name}={following}"))
        if not text.startswith("--"):
            found.update(f"-{letter}" for letter in text[1:])
    return found


def _matches(rule: list[str], operands: list[str], options: set[str], *, from_start: bool) -> bool:
    words = [word for word in rule if not word.startswith("-") or word == "--"]
    flags = [word for word in rule if word.startswith("-") and word != "--"]
    if not all(flag in options or any(_matches_word(option, flag) for option in options) for flag in flags):
        return False
    last = min(len(operands) - len(words), 0 if from_start else FAMILY_WORDS_MAX)
    return any(
        all(_matches_word(operands[start + number], word) for number, word in enumerate(words))
        for start in range(last + 1)
    )


def _matches_word(text: str, pattern: str) -> bool:
    return text == pattern or ("*" in pattern and matches_exactly(text, (pattern,)))
