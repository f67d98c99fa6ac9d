"""The arguments of a call: strict JSON in, validated Python values out.

What a model wrote is JSON, and stays so: that is what is asked about and recorded, and the hash of its
canonical form (RFC 8785) names it. The tool gets the Python values made of it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from windlass.errors import Rejected, is_for_us
from windlass.tool_limits import (
    ARGUMENT_BYTES_MAX,
    ARGUMENT_LEVELS_MAX,
    NAMES_SHOWN_MAX,
    PROBLEM_CHARS_MAX,
    PROBLEMS_MAX,
)
from windlass.tool_schema import Unfit
from windlass.tools import Tool
from windlass_harness.redact import mask_text
from windlass_protocol import CodecError, CodecLimits, ErrorKind, JsonObject, RetryClass, canonical, parse
from windlass_protocol.codec_errors import CodecErrorCode, shown
from windlass_protocol.codec_issues import invalid

ARGUMENT_LIMITS: Final = CodecLimits(message_bytes_max=ARGUMENT_BYTES_MAX, depth_max=ARGUMENT_LEVELS_MAX)
_OMITTED: Final = re.compile(r"\(arguments of ([\d,]+) characters, which are too many to be kept\)")
"""What stands in a record for arguments that are too large for one."""
_OWN_CHECKS: Final = frozenset({"value_error", "assertion_error"})
_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, in all the forms that are needed."""

    json: JsonObject
    """As the model wrote them."""
    hash: str
    """`sha256:` and the digest of the canonical JSON."""
    values: dict[str, object]
    """What the function gets; parameters that were left out are not in it."""


Mask = Callable[[str], str]


def arguments_of(tool: Tool[..., object], raw: JsonValue, *, mask: Mask = mask_text) -> Arguments:
    """Read and check the arguments of a call; a text is read as JSON.

    What the message quotes is masked with `mask` before it is cut: half a secret would be none to it later.

    Raises:
        Rejected: they are not JSON, not an object, or do not fit; the message is for the model, names places
            and what was expected there, and quotes nothing.
    """
    omitted = _OMITTED.fullmatch(raw) if isinstance(raw, str) else None
    if omitted is not None:
        size = f"{omitted[1]} characters, limit {ARGUMENT_BYTES_MAX:,} bytes"
        raise _refusal(tool, [f"they are too large: {size}; send less, or in several calls"])
    try:
        value = parse(raw, ARGUMENT_LIMITS) if isinstance(raw, str) else raw
        text = canonical(value, ARGUMENT_LIMITS)
    except CodecError as error:
        problem = error.message
        if error.code is CodecErrorCode.TOO_LARGE:
            raise _refusal(tool, [f"they are too large: {problem}; send less, or in several calls"]) from None
    else:
        return _validated(tool, value, text, mask=mask)
    raise _refusal(tool, [f"they are not good JSON: {problem}"])


def arguments_hash(arguments: JsonObject) -> str:
    """Return the hash that binds a decision to these arguments."""
    return _hash(canonical(arguments, ARGUMENT_LIMITS))


def _validated(tool: Tool[..., object], value: JsonValue, text: bytes, *, mask: Mask) -> Arguments:
    if not isinstance(value, dict):
        raise _refusal(tool, ["expected an object with the parameters by name"])
    try:
        values = tool.shape.validate(text)
    except ValidationError as error:
        problems = _problems(tool, error, value, mask=mask)
    except Unfit as error:
        problems = [shown(mask(text), PROBLEM_CHARS_MAX) for text in error.problems]
    except BaseException as error:  # a check is the author's code, and a model can reach all of it
        if is_for_us(error):
            raise
        problems = [f"a check of the tool failed with {type(error).__name__}"]
    else:
        return Arguments(value, _hash(text), values)
    # Raised out here: the validation error holds the input and must not stay on as the context.
    raise _refusal(tool, problems)


def _hash(text: bytes) -> str:
    return f"sha256:{sha256(text).hexdigest()}"


def _problems(tool: Tool[..., object], error: ValidationError, value: JsonValue, *, mask: Mask) -> list[str]:
    issues = invalid(error, value).issues
    details = error.errors(include_url=False, include_input=False)[: len(issues)]
    problems: list[str] = []
    for issue, detail in zip(issues, details, strict=False):
        text = f"{issue.path or 'the top'}: {_own_words(detail) or issue.message}"
        problems.append(shown(mask(text), PROBLEM_CHARS_MAX))
    if any(detail["type"] in _UNKNOWN and len(detail["loc"]) == 1 for detail in details):
        problems.append(
            f"the parameters are {_listed([part.name for part in tool.shape.signature.parameters])}"
        )
    return problems


def _own_words(detail: ErrorDetails) -> str | None:
    """Return what a check of the author's own said: the model needs it to do better."""
    if detail["type"] not in _OWN_CHECKS:
        return None
    said = str(detail.get("ctx", {}).get("error", "")).partition("\n")[0]
    return said or None


def _refusal(tool: Tool[..., object], problems: Sequence[str]) -> Rejected:
    told = list(problems[:PROBLEMS_MAX])
    if len(problems) > PROBLEMS_MAX:
        told.append(f"and {len(problems) - PROBLEMS_MAX} more")
    return Rejected(
        f"the arguments of {tool.name} do not fit: {'; '.join(told)}",
        kind=ErrorKind.TOOL_FAILURE,
        retry=RetryClass.REPAIR_NEEDED,
    )


def _listed(names: Sequence[str]) -> str:
    told = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
    return told if len(names) <= NAMES_SHOWN_MAX else f"{told} and {len(names) - NAMES_SHOWN_MAX} more"
