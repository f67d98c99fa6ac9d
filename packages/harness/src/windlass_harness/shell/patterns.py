"""Custom patterns of the host: they can raise a grade, never lower one."""

import re
from collections.abc import Sequence

from windlass_harness.shell.model import (
    PART_CHARS_MAX,
    PATTERN_CHARS_MAX,
    PATTERN_INPUT_CHARS_MAX,
    Severity,
    ShellConfig,
    ShellReason,
)
from windlass_protocol import CommandSafetyPattern
from windlass_protocol.lazy import lazy_pattern

_CLASS = lazy_pattern(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPE = lazy_pattern(r"\\.", re.DOTALL)
_NOT_PORTABLE = lazy_pattern(
    r"\(\?(?![:=!]|<[=!]|<[A-Za-z])|\(\?P|\\[AZzGQEK]|[*+?}]\+|\\[pP]\{|\\[1-9]|\\k<"
)
_NESTED_SET = lazy_pattern(r"^\[\^?\[|\[:|--|&&|~~|\|\|")
"""Sets inside sets: Python warns that their meaning will change, and other languages differ already."""
_REPEATED_GROUP = lazy_pattern(r"\)(?:[*+]|\{\d+,\d*\})")
_QUANTIFIER = lazy_pattern(r"(?:[*+]|\{\d*,\d*\})")
_ADJACENT = lazy_pattern(r"(?:\.|x)[*+](?:\(?\.|x)[*+]")
_WIDE_REPEATS_MAX = 2


def pattern_reasons(commands: Sequence[str], config: ShellConfig) -> list[ShellReason]:
    """Match every pattern of this platform against these texts."""
    reasons: list[ShellReason] = []
    texts = [text[:PATTERN_INPUT_CHARS_MAX] for text in commands]
    for pattern in config.patterns:
        if pattern.platform not in ("all", config.platform):
            continue
        reason = _match(pattern, texts)
        if reason is not None:
            reasons.append(reason)
    return reasons


def _match(pattern: CommandSafetyPattern, texts: list[str]) -> ShellReason | None:
    expression = _compile(pattern.pattern)
    if expression is None:
        return ShellReason(
            "unknown/pattern",
            "caution",
            f"pattern {pattern.id} cannot be used",
            pattern.pattern[:PART_CHARS_MAX],
        )
    for text in texts:
        found = expression.search(text)
        if found is not None:
            severity: Severity = "dangerous" if pattern.severity == "critical" else "caution"
            return ShellReason(
                pattern.category, severity, f"matches pattern {pattern.id}", found.group()[:PART_CHARS_MAX]
            )
    return None


def _compile(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > PATTERN_CHARS_MAX or _NOT_PORTABLE.search(pattern) or may_backtrack(pattern):
        return None
    if any(_NESTED_SET.search(found) for found in _CLASS.findall(_ESCAPE.sub("x", pattern))):
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def may_backtrack(pattern: str) -> bool:
    """Say whether matching could take long: repeats inside repeats, or many wide ones."""
    plain = _CLASS.sub("x", _ESCAPE.sub("x", pattern))
    for found in _REPEATED_GROUP.finditer(plain):
        start = _group_start(plain, found.start())
        inner = plain[start : found.start()]
        if _QUANTIFIER.search(inner) or "|" in inner or "?" in inner.replace("(?:", ""):
            return True
    return bool(_ADJACENT.search(plain)) or len(_QUANTIFIER.findall(plain)) > _WIDE_REPEATS_MAX + 1


def _group_start(text: str, end: int) -> int:
    depth = 0
    for position in range(end, -1, -1):
        if text[position] == ")":
            depth += 1
        elif text[position] == "(":
            depth -= 1
            if not depth:
                return position
    return 0
