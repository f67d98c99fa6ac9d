"""Slack as a channel: threads are sessions, approvals are buttons, replies answer questions.

Messages come by the Events API, clicks by interactions, both to the address of one webhook with the scheme
`slack`. Messages go out by the web API. A thread is named by team, channel and the time of its first message,
so a session id says where its answers belong.
"""

import json
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from windlass import parts
from windlass.ports.channel import Answer, Delivered, Incoming, Message, Notice, Reply, SignedRequest
from windlass.refusals import bad_setup
from windlass.runtime.requests import consents
from windlass.webhooks.inbound import is_variable
from windlass.webhooks.outbound import outcome_of, post
from windlass_protocol import InputKind, InputResponse, JsonObject, encode
from windlass_protocol.lazy import lazy_pattern

SLACK_API: Final = "https://slack.com/api"
TEXT_CHARS_MAX: Final = 12_000
"""Characters of a message; Slack cuts longer ones."""
SECTION_CHARS_MAX: Final = 2_900
"""Characters of one section of a request; Slack takes 3,000."""
SECTIONS_MAX: Final = 3
"""Sections of one request; Slack refuses messages with more than about 11,000 characters in blocks."""
_CUT: Final = "The call is too long to be shown here. Approve it in the inspector, or deny it."
_LABEL_CHARS_MAX: Final = 75
_OPTIONS_MAX: Final = 25
_ACTION: Final = "windlass"
_MENTION: Final = lazy_pattern(r"^\s*<@[A-Z0-9]+(?:\|[^>]*)?>\s*")
_LATER: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
"""Errors of Slack after which the same message may be taken."""
_STYLES: Final = ("danger", "primary")


class SlackChannel:
    """A Slack app as a channel; `token` is the environment variable with its bot token (`xoxb-…`).

    The app needs the scope `chat:write` and the events `app_mention` and `message.im`; with
    `message.channels`, replies in a thread need no mention.
    """

    def __init__(
        self,
        token: str,
        *,
        api: str = SLACK_API,
        variable: Callable[[str], str | None] = parts.variable,
    ) -> None:
        if not is_variable(token):
            raise bad_setup(
                "token of SlackChannel is the name of an environment variable, such as SLACK_TOKEN"
            )
        if urlsplit(api).scheme not in ("http", "https"):
            raise bad_setup(f"api of SlackChannel is an address such as {SLACK_API}")
        self._token = token
        self._api = api.rstrip("/")
        self._variable = variable

    def identify(self, delivery: SignedRequest) -> Incoming:
        """Return the message, the click or the handshake of a request of Slack."""
        payload = delivery.payload
        match payload.get("type"):
            case "url_verification":
                return Reply(str(payload["challenge"]))
            case "event_callback":
                return _message(payload)
            case "block_actions":
                return _click(payload)
            case _:
                return None

    def render(self, notice: Notice) -> JsonObject | None:
        """Return the arguments of `chat.postMessage`, or `chat.postEphemeral` for one user."""
        _, channel, thread = _place(notice.session)
        text = _escaped(notice.text)[:TEXT_CHARS_MAX]
        content: JsonObject = {"channel": channel, "thread_ts": thread, "text": text}
        if notice.user is not None:
            content["user"] = notice.user
        if notice.request is not None:
            content["blocks"] = _blocks(notice)
        return content

    async def deliver(self, content: JsonObject, *, key: str) -> Delivered:
        """Call the web API of Slack."""
        token = self._variable(self._token)
        if not token:
            return Delivered(f"the environment variable {self._token} is not set")
        method = "chat.postEphemeral" if "user" in content else "chat.postMessage"
        body = dict(content)
        if key:
            # A program that reads messages by the API recognises one that was posted twice.
            body["metadata"] = {"event_type": "windlass_delivery", "event_payload": {"id": key}}
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
        # The address is the operator's choice, not that of a sender.
        answer = await post(f"{self._api}/{method}", headers, encode(body), is_private=True)
        outcome = outcome_of(answer)
        if outcome.problem is not None or isinstance(answer, Delivered):
            return outcome
        try:
            said = json.loads(answer.body)
        except ValueError:
            return Delivered("the answer of Slack is not JSON")
        if said.get("ok") is True:
            return Delivered()
        error = str(said.get("error"))[:80]
        return Delivered(f"Slack refused the message: {error}", is_final=error not in _LATER)


def _message(payload: JsonObject) -> Message | None:
    event = cast(JsonObject, payload["event"])
    kind, thread = event.get("type"), event.get("thread_ts")
    # Bots, edits and joins: our own messages come back as well.
    if kind not in ("app_mention", "message") or "bot_id" in event or "subtype" in event:
        return None
    text, is_direct = str(event.get("text") or ""), event.get("channel_type") == "im"
    if kind == "message" and not is_direct and (thread is None or _MENTION.match(text)):
        # A mention comes as an event of its own; other messages of a channel are not for us.
        return None
    said = _plain(_MENTION.sub("", text, count=1)).strip()
    if not said:
        return None
    session = f"{payload['team_id']}:{event['channel']}:{thread or event['ts']}"
    needs_session = kind == "message" and not is_direct
    return Message(session, said, user=str(event["user"]), needs_session=needs_session)


def _click(payload: JsonObject) -> Answer | None:
    action = cast("list[JsonObject]", payload["actions"])[0]
    if not str(action.get("action_id")).startswith(f"{_ACTION}:"):
        return None
    value = json.loads(str(action["value"]))
    user = cast(JsonObject, payload["user"])["id"]
    return Answer(value["session"], value["request"], value["option"], str(user))


def _blocks(notice: Notice) -> JsonValue:
    """Return a request as text and buttons; a call that is not shown whole has no button that approves it."""
    request = notice.request
    assert request is not None, "a notice with a request"
    head, details = notice.text, ""
    if request.kind is InputKind.APPROVAL:
        # The prompt has the arguments, one value a line, with invisible characters as escapes.
        head, _, details = notice.text.partition("\n")
    elif request.kind is not InputKind.QUESTION:
        details = json.dumps(request.action.input, indent=1, ensure_ascii=False, default=str)
    # Backticks with a zero-width space between them do not end the block of code.
    code = _escaped(details).replace("```", "`\u200b`\u200b`")
    sections = [*_split(_escaped(head)), *(f"```{part}```" for part in _split(code))]
    options = (request.options or ())[:_OPTIONS_MAX]
    if len(sections) > SECTIONS_MAX:
        sections = [*sections[:SECTIONS_MAX], _CUT]
        answers = {one.id: InputResponse(request_id=request.request_id, option_id=one.id) for one in options}
        options = tuple(one for one in options if not consents(request, answers[one.id]))
    blocks: list[JsonValue] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": words}} for words in sections
    ]
    buttons: list[JsonValue] = []
    for number, option in enumerate(options):
        value: JsonObject = {"session": notice.session, "request": request.request_id, "option": option.id}
        button: JsonObject = {
            "type": "button",
            "action_id": f"{_ACTION}:{number}",
            "text": {"type": "plain_text", "text": option.label[:_LABEL_CHARS_MAX]},
            "value": encode(value).decode(),
        }
        if option.style in _STYLES:
            button["style"] = option.style
        buttons.append(button)
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return blocks


def _split(text: str) -> list[str]:
    """Return an escaped text in parts of the size of a section; no part ends within `&amp;`."""
    found: list[str] = []
    while text:
        part = text[:SECTION_CHARS_MAX]
        escape = part.rfind("&", -4)
        if len(part) < len(text) and escape >= 0 and ";" not in part[escape:]:
            part = part[:escape]
        found.append(part)
        text = text[len(part) :]
    return found


def _place(session: str) -> tuple[str, str, str]:
    team, channel, thread = session.split(":", 2)
    return team, channel, thread


def _escaped(text: str) -> str:
    """Return a text without mentions: a model must not be able to notify a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
