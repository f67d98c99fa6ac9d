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

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_NOT_PORTABLE = re.compile(r"\(\?(?![:=!]|<[=!]|<[A-Za-z])|\(\?P|\\[AZzGQEK]|[*+?}]\+|\\[pP]\{|\\[1-9]|\\k<")
_NESTED_SET = re.compile(r"^\[\^?\[|\[:|--|&&|~~|\|\|")
"""Sets inside sets: Python warns that their meaning will change, and other languages differ already."""
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d+,\d*\})")
_QUANTIFIER = re.compile(r"(?:[*+]|\{\d*,\d*\})")
_ADJACENT = re.compile(r"(?:\.|x)[*+](?:\(?\.|x)[*+]")
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
        match = expression.search(text)
        if match is not None:
            severity: Severity = "dangerous" if pattern.severity == "critical" else "caution"
            return ShellReason(
                pattern.category, severity, f"matches pattern {pattern.id}", match.group()[:PART_CHARS_MAX]
            )
    return None


def _compile(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > PATTERN_CHARS_MAX or _NOT_PORTABLE.search(pattern) or may_backtrack(pattern):
        return None
    if any(
        _NESTED_SET.search(character_class) for character_class in _CLASS.findall(_ESCAPE.sub("x", pattern))
    ):
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def may_backtrack(pattern: str) -> bool:
    """Say whether matching could take long: repeats inside repeats, or many wide ones."""
    plain = _CLASS.sub("x", _ESCAPE.sub("x", pattern))
    for group in _REPEATED_GROUP.finditer(plain):
        start = _group_start(plain, group.start())
        inner = plain[start : group.start()]
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
