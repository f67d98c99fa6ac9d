"""Requests to people: how a model asks, and what an answer means."""

from typing import Final

from pydantic import ValidationError

from windlass.errors import Rejected
from windlass_harness.loop.people import APPROVE, DENY
from windlass_protocol import (
    ErrorKind,
    InputDisplay,
    InputKind,
    InputOption,
    InputOutcome,
    InputRequest,
    InputResolution,
    InputResponse,
    JsonObject,
    JsonValue,
    RetryClass,
    ToolCallAction,
)

ASK_QUESTION: Final = "ask_question"
OPTIONS_MAX: Final = 32
"""Options of one question."""
APPROVAL_OPTIONS: Final = (InputOption(id=APPROVE, label="Yes"), InputOption(id=DENY, label="No"))
QUESTION_TOOL: Final[JsonObject] = {
    "name": ASK_QUESTION,
    "description": (
        "Ask the user one question and wait for the answer. Use it when you cannot go on without something "
        "that only the user knows or may decide. Give options if the possible answers are few."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "The question."},
            "options": {
                "type": "array",
                "maxItems": OPTIONS_MAX,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "What you get back."},
                        "label": {"type": "string", "description": "What the user sees."},
                        "description": {"type": "string", "description": "What it means."},
                    },
                    "required": ["id", "label"],
                },
            },
            "allowFreeform": {
                "type": "boolean",
                "description": "Whether the user may answer beside the options.",
            },
        },
        "required": ["prompt"],
    },
}
_FIELDS: Final = ("options", "allowFreeform")


def question_request(request_id: str, call_id: str, *, asked: JsonValue) -> InputRequest:
    """Return the request that a call of `ask_question` asks for.

    Raises:
        Rejected: it is no question; the message is for the model.
    """
    if not isinstance(asked, dict):
        raise _no_question("expected an object with prompt")
    prompt, options = asked.get("prompt"), asked.get("options")
    if not isinstance(prompt, str) or not prompt.strip():
        raise _no_question("/prompt: expected the question")
    action = ToolCallAction(call_id=call_id, tool_name=ASK_QUESTION, input=asked)
    display = InputDisplay.SELECT if options else InputDisplay.TEXT
    given = {name: asked[name] for name in _FIELDS if asked.get(name) is not None}
    body = {"requestId": request_id, "action": action, "prompt": prompt, "display": display, **given}
    try:
        request = InputRequest.model_validate({**body, "kind": InputKind.QUESTION})
    except ValidationError as error:
        place = "/".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise _no_question(f"/{place}: does not fit") from None
    ids = [option.id for option in request.options or ()]
    if len(ids) > OPTIONS_MAX or len(set(ids)) < len(ids):
        raise _no_question(f"/options: at most {OPTIONS_MAX}, each with an id of its own")
    return request


def _no_question(problem: str) -> Rejected:
    return Rejected(
        f"the arguments of {ASK_QUESTION} do not fit: {problem}",
        kind=ErrorKind.TOOL_FAILURE,
        retry=RetryClass.REPAIR_NEEDED,
    )


def match_option(request: InputRequest, text: str) -> str | None:
    """Return the option that a text names: by id, by label, or by its number from 1."""
    options, said = request.options or (), text.strip()
    for option in options:
        if option.id == said:
            return option.id
    named = [option.id for option in options if option.label.casefold() == said.casefold()]
    if named:
        # Two options of one label: the text does not say which.
        return named[0] if len(named) == 1 else None
    if said.isascii() and said.isdigit() and 1 <= int(said[:4]) <= len(options) and len(said) <= 4:
        return options[int(said) - 1].id
    return None


def takes_text(request: InputRequest) -> bool:
    """Whether any text is an answer."""
    return request.allow_freeform is True or not request.options


def answer_to(request: InputRequest, text: str) -> InputResponse | None:
    """Return the answer that a text is to a request; None if it is none.

    For channels in which people only write: call it when the person has seen the request.
    """
    option = match_option(request, text)
    if option is not None:
        return InputResponse(request_id=request.request_id, option_id=option)
    return InputResponse(request_id=request.request_id, text=text) if takes_text(request) else None


def resolve(request: InputRequest, response: InputResponse) -> InputResolution:
    """Say what came of a request.

    An answer that says nothing at all lets the request go (ignored); one that fits nothing is invalid and
    leaves it open. Consent is only what names the option to approve.
    """
    option, text = response.option_id, response.text
    if option is None and text is not None:
        option = match_option(request, text)
    known = {one.id for one in request.options or ()}
    is_other_call = response.arguments_hash not in (None, request.arguments_hash)
    if is_other_call or (option is not None and option not in known):
        outcome = InputOutcome.INVALID
    elif option is None and text is None:
        outcome = InputOutcome.IGNORED
    elif request.kind is InputKind.APPROVAL:
        outcome = {APPROVE: InputOutcome.APPROVED, DENY: InputOutcome.DENIED}.get(
            option or "", InputOutcome.INVALID
        )
    elif option is not None or takes_text(request):
        outcome = InputOutcome.ANSWERED
    else:
        outcome = InputOutcome.INVALID
    settled = response if option == response.option_id else response.model_copy(update={"option_id": option})
    return InputResolution(
        request_id=request.request_id, outcome=outcome, kind=request.kind, response=settled
    )


def answer_value(resolution: InputResolution) -> JsonObject:
    """Return what the model gets as the result of its question."""
    if resolution.outcome is not InputOutcome.ANSWERED or resolution.response is None:
        return {"status": "ignored"}
    value: JsonObject = {"status": "answered"}
    if resolution.response.option_id is not None:
        value["optionId"] = resolution.response.option_id
    if resolution.response.text is not None:
        value["text"] = resolution.response.text
    return value
