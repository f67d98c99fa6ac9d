"""What comes back from a remote agent, and what it is told, as data."""

from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import to_json

from windlass.question import OPTION_CHARS_MAX, OPTIONS_MAX, QUESTION_CHARS_MAX
from windlass_protocol import InputKind, InputRequest, RunInfo, RunResult, RunStatus, Usage

JsonObject = dict[str, JsonValue]

REMOTE: Final = "remote"
"""The tool of a remote agent."""
OUTPUT_CHARS_MAX: Final = 60_000
"""What is taken of an answer; less than a model sees of one result."""
REPORT_BYTES_MAX: Final = 90_000
ERROR_CHARS_MAX: Final = 2_000
_DENY: Final = "deny"
_CUT: Final = "\n[… cut; the whole request is on the server]"
_CUT_CONSENT: Final = "\n[… cut: it is too long to be approved here. Approve it on the server, or deny it.]"


class Asked(BaseModel):
    """A request to a person, as much of it as an answer needs."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    request_id: str
    arguments_hash: str | None = None
    question: JsonObject
    """The arguments of `ask_question`: what the person is asked here."""


class Report(BaseModel):
    """How far a piece of work is: it ended, or it asks a person."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str = ""
    output: str | None = None
    error: str | None = None
    usage: Usage | None = None
    asked: Asked | None = None


class Reply(BaseModel):
    """What a person said to a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    request_id: str
    option_id: str | None = None
    text: str | None = None
    arguments_hash: str | None = None


def report_of(info: RunInfo) -> Report | None:
    """Return what to report of a run; None while it goes on by itself."""
    run_id = info.run.run_id
    if info.result is not None:
        return _ended(info.result)
    asked = next((request for request in info.requests if not request.is_answered), None)
    if info.run.status is not RunStatus.WAITING or asked is None:
        return None
    return Report(
        run_id=run_id,
        asked=Asked(
            request_id=asked.request_id, arguments_hash=asked.arguments_hash, question=_question(asked)
        ),
    )


def _ended(result: RunResult) -> Report:
    if result.status is not RunStatus.COMPLETED:
        why = result.error.message if result.error is not None else result.reason
        told = f"{result.status.value}: {why}" if why else result.status.value
        return Report(run_id=result.run_id, error=told[:ERROR_CHARS_MAX], usage=result.usage)
    if result.structured_output is None:
        return Report(run_id=result.run_id, output=_fitting(result.output), usage=result.usage)
    data = to_json(result.structured_output).decode()
    if len(to_json(data)) > REPORT_BYTES_MAX:
        told = f"its data is too large: over the limit of {REPORT_BYTES_MAX:,} bytes"
        return Report(run_id=result.run_id, error=told, usage=result.usage)
    return Report(run_id=result.run_id, output=data, usage=result.usage)


def _fitting(text: str) -> str:
    """Return as much of a text as one result can hold."""
    most = OUTPUT_CHARS_MAX
    shown = text[:most]
    while len(to_json(shown)) > REPORT_BYTES_MAX:
        most //= 2
        shown = text[:most]
    left = len(text) - len(shown)
    return f"{shown}\n[… {left:,} characters left out …]" if left else shown


def _question(request: InputRequest) -> JsonObject:
    """Return what a person is asked here; the arguments of the call are in the prompt.

    Nobody can say yes to a call that was not shown whole.
    """
    prompt = request.prompt or "?"
    if len(prompt) > QUESTION_CHARS_MAX:
        if _is_consent(request):
            denial: JsonObject = {"id": _DENY, "label": "Deny"}
            return {"prompt": _cut(prompt, _CUT_CONSENT), "options": [denial], "allow_freeform": False}
        prompt = _cut(prompt, _CUT)
    options: list[JsonValue] = [
        {"id": option.id, "label": (option.label or option.id)[:OPTION_CHARS_MAX]}
        for option in (request.options or ())[:OPTIONS_MAX]
        if len(option.id) <= OPTION_CHARS_MAX
    ]
    return {
        "prompt": prompt,
        "options": options,
        "allow_freeform": not options or bool(request.allow_freeform),
    }


def _is_consent(request: InputRequest) -> bool:
    """Whether a yes lets a call run; whatever looks like it counts."""
    ids = {option.id for option in request.options or ()}
    return request.kind is not InputKind.QUESTION or request.arguments_hash is not None or _DENY in ids


def _cut(prompt: str, mark: str) -> str:
    return prompt[: QUESTION_CHARS_MAX - len(mark)] + mark


def reply_to(report: Report, answered: JsonObject) -> Reply:
    """Return what the server is told of an answer; one that was passed over is a no."""
    asked = report.asked
    assert asked is not None, "only a report that asks was answered"
    option, text = answered.get("optionId"), answered.get("text")
    given = (option if isinstance(option, str) else None, text if isinstance(text, str) else None)
    if given == (None, None):
        options = asked.question.get("options")
        can_deny = isinstance(options, list) and any(
            isinstance(one, dict) and one.get("id") == _DENY for one in options
        )
        given = (_DENY, None) if can_deny else (None, "Nobody answered.")
    return Reply(
        run_id=report.run_id,
        request_id=asked.request_id,
        option_id=given[0],
        text=given[1],
        arguments_hash=asked.arguments_hash,
    )
