"""Slack as a channel: threads are sessions, approvals are buttons, replies answer questions.

Messages come by the Events API, clicks by interactions, both to the address of one webhook with the scheme
`slack`. Messages go out by the web API. A thread is named by team, channel and the time of its first message,
so a session id says where its answers belong.
"""

import json
import re
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from windlass import parts
from windlass.refusals import bad_setup
from windlass.runtime.requests import makes_call
from windlass.webhooks.channel import (
    ChannelAnswer,
    Delivered,
    Incoming,
    Message,
    Notice,
    Reply,
    SignedRequest,
)
from windlass.webhooks.inbound import is_variable
from windlass.webhooks.outbound import outcome_of, post
from windlass_protocol import InputKind, InputRequest, InputResponse, JsonObject, encode

SLACK_API: Final = "https://slack.com/api"
TEXT_CHARS_MAX: Final = 12_000
"""Characters of a message; Slack cuts longer ones."""
_SECTION_CHARS_MAX: Final = 2_900
_SECTIONS_MAX: Final = 4
"""Sections of one request; Slack refuses messages with much more text."""
_LABEL_CHARS_MAX: Final = 75
_OPTIONS_MAX: Final = 25
_ACTION: Final = "windlass"
_MENTION: Final = re.compile(r"^\s*<@[A-Z0-9]+(?:\|[^>]*)?>\s*")
_MENTIONED: Final = re.compile(r"<@([A-Z0-9]+)")
_LATER: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
"""Errors of Slack after which the same message may be taken."""
_STYLES: Final = {"danger": "danger", "primary": "primary"}


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
        _, channel, thread = _split_session(notice.session)
        text = _escape(notice.text)[:TEXT_CHARS_MAX]
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
            # Who reads messages by the API can tell that two of them are one.
            body["metadata"] = {"event_type": "windlass_delivery", "event_payload": {"id": key}}
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
        # The address is the operator's choice, not that of a sender.
        answer = await post(f"{self._api}/{method}", headers, encode(body), is_private=True)
        outcome = outcome_of(answer)
        if outcome.problem is not None or isinstance(answer, Delivered):
            return outcome
        try:
            reply = json.loads(answer.body)
        except ValueError:
            return Delivered("the answer of Slack is not JSON")
        if reply.get("ok") is True:
            return Delivered()
        error = str(reply.get("error"))[:80]
        return Delivered(f"Slack refused the message: {error}", is_final=error not in _LATER)


def _message(payload: JsonObject) -> Message | None:
    event = cast(JsonObject, payload["event"])
    kind, thread = event.get("type"), event.get("thread_ts")
    # Bots, edits and joins: our own messages come back as well.
    if kind not in ("app_mention", "message") or "bot_id" in event or "subtype" in event:
        return None
    text, is_direct = str(event.get("text") or ""), event.get("channel_type") == "im"
    if kind == "message" and not is_direct and (thread is None or _is_mention(payload, text)):
        # A mention comes as an event of its own; other messages of a channel are not for us.
        return None
    message = _plain(_MENTION.sub("", text, count=1)).strip()
    if not message:
        return None
    session = f"{payload['team_id']}:{event['channel']}:{thread or event['ts']}"
    needs_session = kind == "message" and not is_direct
    return Message(session, message, user=str(event["user"]), needs_session=needs_session)


def _is_mention(payload: JsonObject, text: str) -> bool:
    """Whether a text mentions the app anywhere, or someone at its beginning."""
    apps = {
        str(authorization["user_id"])
        for authorization in cast("list[JsonObject]", payload.get("authorizations") or [])
    }
    return _MENTION.match(text) is not None or not apps.isdisjoint(_MENTIONED.findall(text))


def _click(payload: JsonObject) -> ChannelAnswer | None:
    action = cast("list[JsonObject]", payload["actions"])[0]
    if not str(action.get("action_id")).startswith(f"{_ACTION}:"):
        return None
    value = json.loads(str(action["value"]))
    return ChannelAnswer(value["session"], value["request"], value["option"], _of(payload, "user", "id"))


def _of(payload: JsonObject, name: str, field: str) -> str:
    return str(cast(JsonObject, payload[name])[field])


def _blocks(notice: Notice) -> JsonValue:
    """Return a request as text and buttons."""
    request = notice.request
    assert request is not None, "a notice with a request"
    if request.kind is InputKind.QUESTION:
        pieces, fence = _pieces(notice.text), ""
    else:
        # The words of an approval have the arguments already.
        more = "" if request.kind is InputKind.APPROVAL else f"\n{json.dumps(request.action.input, indent=1)}"
        # Between fences nothing is markup, and no argument has a fence of its own.
        pieces, fence = _pieces(f"{notice.text}{more}".replace("`", "\\u0060")), "```"
    options = (request.options or ())[:_OPTIONS_MAX]
    blocks = [_section(f"{fence}{piece}{fence}") for piece in pieces[:_SECTIONS_MAX]]
    if len(pieces) > _SECTIONS_MAX:
        # Consent is to what a person has read.
        blocks.append(_section("There is more of it than Slack shows. Read and approve it in the inspector."))
        options = [option for option in options if not _has_effect(request, option.id)]
    buttons: list[JsonValue] = []
    for number, option in enumerate(options):
        value: JsonObject = {"session": notice.session, "request": request.request_id, "option": option.id}
        button: JsonObject = {
            "type": "button",
            "action_id": f"{_ACTION}:{number}",
            "text": {"type": "plain_text", "text": option.label[:_LABEL_CHARS_MAX]},
            "value": encode(value).decode(),
        }
        style = _STYLES.get(str(option.style or ""))
        if style is not None:
            button["style"] = style
        buttons.append(button)
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return blocks


def _section(text: str) -> JsonValue:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _pieces(text: str) -> list[str]:
    """Return an escaped text in pieces that a section can hold."""
    pieces = [""]
    for character in text:
        escaped = _escape(character)
        if len(pieces[-1]) + len(escaped) > _SECTION_CHARS_MAX:
            pieces.append("")
        pieces[-1] += escaped
    return pieces


def _has_effect(request: InputRequest, option_id: str) -> bool:
    return makes_call(request, InputResponse(request_id=request.request_id, option_id=option_id))


def _split_session(session: str) -> tuple[str, str, str]:
    team, channel, thread = session.split(":", 2)
    return team, channel, thread


def _escape(text: str) -> str:
    """Return a text without mentions: a model must not be able to call a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
