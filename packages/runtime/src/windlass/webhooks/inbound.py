"""Webhooks in: entry points that turn signed requests into messages for sessions.

The order is fixed: the size is limited by the server, the signature is checked over the bytes that were sent,
and only then is anything parsed. The run id follows from the id of the delivery, so a delivery that arrives
again is the same run, also after a crash and in another process.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast
from urllib.parse import parse_qs

from windlass import parts
from windlass.errors import Conflict, Denied, Rejected, near_names
from windlass.ports.documents import Document
from windlass.ports.listing import OpenRequest
from windlass.refusals import bad_setup, check_id, check_items
from windlass.runtime.requests import consents, makes_call
from windlass.webhooks.channel import (
    Channel,
    ChannelAnswer,
    Incoming,
    Message,
    Reply,
    Route,
    RunEvent,
    SignedRequest,
)
from windlass.webhooks.signatures import SCHEMES, Scheme
from windlass_harness.loop.people import match_option
from windlass_protocol import InputKind, InputResponse, JsonObject, SourceKind, SourceRef
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import ID_CHARS_MAX

if TYPE_CHECKING:
    from windlass.runtime.compose import AgentRuntime

VALUES_MAX: Final = 50_000
"""Values in one body, counted by its commas and opening brackets."""
MESSAGE_CHARS_MAX: Final = 100_000
"""Characters of a message; the rest of a longer one is cut off."""
WEBHOOKS_MAX: Final = 100
REPLIES_KEPT_MS: Final = 7 * 86_400_000
"""How long it is known that a delivery answered a question, and which one."""
_REPLY: Final = "reply"
"""The kind of the document that says so."""
_EXPIRED_MAX: Final = 32
LOCAL: Final = "local"
"""The tenant and the user of a server without keys and tokens."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PLACE: Final = re.compile(r"\{([A-Za-z0-9_.]{1,200})\}")
_SESSION: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
_FORM: Final = "application/x-www-form-urlencoded"
T = TypeVar("T")


def is_name(value: object) -> bool:
    """Whether a value can be the name of a webhook or an endpoint."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_variable(value: object) -> bool:
    """Whether a value can be the name of an environment variable."""
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


class PayloadRefused(Exception):
    """A signed request that cannot be understood; the message does not quote it."""

    code: Final = "webhook_payload"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: Final = message


@sealed
class Webhook:
    """An entry point for signed requests: `POST /webhooks/NAME`.

    `channel`, `route`, or the templates `session` and `message` make the message of a request. A template has
    places such as `{issue.title}`, which are filled from the body; `{event}` and `{delivery}` are the kind
    and the id of the delivery.
    """

    name: str
    agent: str
    """The name of the agent."""
    scheme: Scheme | Literal["github", "slack", "stripe", "standard"]
    """How requests are signed."""
    secrets: tuple[str, ...]
    """Environment variables with the secrets; a request may be signed with any of them."""
    message: str = ""
    """The template of the message."""
    session: str = "{delivery}"
    """The template of the session name: equal names are one session. Each delivery has its own by default."""
    route: Route | None = None
    """A function that returns the message of a delivery, or None to ignore it; instead of templates."""
    channel: Channel | None = None
    """The channel that reads requests and delivers the messages of its sessions; instead of templates."""
    sends: str = ""
    """The name of an event that a delivery sends to the run `run`, with its body; instead of a message."""
    run: str = "{delivery}"
    """The template of the id of that run; only runs of `agent` and `owner` get events."""
    events: tuple[str, ...] = ()
    """The kinds of events that count, such as `issues` or `issues.opened`; all when empty."""
    approvers: tuple[str, ...] = ()
    """Users of the channel who may approve calls; others can only deny."""
    owner: str = LOCAL
    """The owner of the sessions."""
    tenant: str = LOCAL
    """The tenant of the sessions."""

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise bad_setup("the name of a webhook has up to 64 small letters, digits, - and _")
        check_id(self.agent, f"the agent of webhook {self.name}")
        check_id(self.owner, f"the owner of webhook {self.name}")
        check_id(self.tenant, f"the tenant of webhook {self.name}")
        if not isinstance(self.scheme, Scheme) and self.scheme not in SCHEMES:
            schemes = ", ".join(SCHEMES)
            raise bad_setup(f"the scheme of webhook {self.name} is a Scheme or one of {schemes}")
        for option in ("secrets", "events", "approvers"):
            check_items(getattr(self, option), str, what=f"{option} of webhook {self.name}", words="texts")
        if not self.secrets or not all(is_variable(name) for name in self.secrets):
            raise bad_setup(f"secrets of webhook {self.name} are one or more environment variables")
        sources = [name for name in ("message", "sends", "route", "channel") if getattr(self, name)]
        if len(sources) != 1:
            names = " and ".join(sources) or "none"
            raise bad_setup(
                f"webhook {self.name} needs one of message, sends, route and channel, found {names}"
            )
        if self.approvers and self.channel is None:
            raise bad_setup(f"approvers of webhook {self.name} need a channel")
        if self.events and self.channel is not None:
            raise bad_setup(f"events of webhook {self.name}: leave them out, its channel chooses the events")

    @property
    def signing(self) -> Scheme:
        """The scheme itself."""
        return self.scheme if isinstance(self.scheme, Scheme) else SCHEMES[self.scheme]

    @classmethod
    def read(cls, name: str, table: Mapping[str, object]) -> "Webhook":
        """Return the webhook that a table declares, such as one of windlass.toml.

        Raises:
            Rejected: a field is unknown, or its value cannot be used.
        """
        field_names = [item.name for item in fields(cls) if item.name not in ("name", "route", "channel")]  # pyright: ignore[reportArgumentType] - `sealed` makes fields
        values: dict[str, object] = {}
        for field, value in table.items():
            if field not in field_names:
                raise bad_setup(f"webhook {name}: unknown field {field}{near_names([field], field_names)}")
            if field == "scheme" and isinstance(value, Mapping):
                value = _scheme(name, cast("Mapping[str, object]", value))
            values[field] = tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for field in ("agent", "scheme", "secrets"):
            if field not in values:
                raise bad_setup(f"webhook {name}: {field} is missing")
        for field in ("message", "session", "sends", "run"):
            if not isinstance(values.get(field, ""), str):
                raise bad_setup(f"webhook {name}: {field} is a text")
        return cls(name, **values)  # pyright: ignore[reportArgumentType] - checked by `__post_init__`

    def session_id(self, session: str) -> str:
        """Return the id of a session; it begins with the name of the webhook, whatever a sender says."""
        plain = f"{self.name}:{session}"
        if _SESSION.fullmatch(plain) and len(plain) <= ID_CHARS_MAX:
            return plain
        return f"{self.name}:{derive_id(session)}"

    def identify(self, delivery: SignedRequest) -> Incoming:
        """Return the message, answer or reply that a delivery is; None if it is to be ignored.

        Raises:
            PayloadRefused: a place of a template is not in the body, or the channel does not understand it.
        """
        if self.events and not self._counts(delivery.event):
            return None
        if self.sends:
            return RunEvent(_fill_template(self.run, delivery), self.sends, delivery.payload)
        find = self.channel.identify if self.channel is not None else self.route
        if find is None:
            text = _fill_template(self.message, delivery)
            return Message(_fill_template(self.session, delivery), text[:MESSAGE_CHARS_MAX])
        try:
            return find(delivery)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            problem = type(error).__name__
        raise PayloadRefused(f"webhook {self.name} does not understand this body ({problem})")

    def _counts(self, event: str) -> bool:
        return any(event == counted or event.startswith(f"{counted}.") for counted in self.events)


def _scheme(name: str, table: Mapping[str, object]) -> Scheme:
    field_names = {item.name: item for item in fields(Scheme)}  # pyright: ignore[reportArgumentType] - `sealed` makes fields
    for field, value in table.items():
        if field not in field_names:
            raise bad_setup(
                f"webhook {name}: unknown field scheme.{field}{near_names([field], [*field_names])}"
            )
        kind = bool if field == "has_base64_secrets" else str
        if not isinstance(value, kind):
            raise bad_setup(
                f"webhook {name}: scheme.{field} is {'true or false' if kind is bool else 'a text'}"
            )
    if "signature_header" not in table:
        raise bad_setup(f"webhook {name}: scheme.signature_header is missing")
    return Scheme(**table)  # pyright: ignore[reportArgumentType] - checked above


@sealed
class Taken:
    """The outcome of a delivery."""

    session_id: str | None = None
    run_id: str | None = None
    """The run that was started, or whose request was answered."""
    reply: str | None = None
    """The body of the response, of a handshake."""
    refused: str | None = None
    """Why an answer was refused; the channel tells its author."""
    user: str | None = None
    """The author of a refused answer."""


class Webhooks:
    """Entry points by name, with their secrets.

    The server has one; an application with its own server calls `verify` and `take`.
    """

    def __init__(
        self,
        webhooks: Iterable[Webhook],
        *,
        variable: Callable[[str], str | None] = parts.variable,
        clock: parts.Clock | None = None,
    ) -> None:
        checked = check_items(webhooks, Webhook, what="webhooks", words="Webhooks")
        self._by_name = {webhook.name: webhook for webhook in checked}
        self._clock = clock or parts.SystemClock()
        if len(self._by_name) < len(checked):
            raise bad_setup("two webhooks have the same name; give each its own")
        if len(checked) > WEBHOOKS_MAX:
            raise bad_setup(f"webhooks: found {len(checked):,}, limit {WEBHOOKS_MAX}")
        self._secrets = {
            webhook.name: webhook.signing.secrets(webhook.secrets, variable, user=f"webhook {webhook.name}")
            for webhook in checked
        }

    def __iter__(self) -> Iterator[Webhook]:
        return iter(self._by_name.values())

    @property
    def secrets(self) -> tuple[str, ...]:
        """All secrets, for `AgentRuntime.open(secrets=…)`: no record or log line may hold them."""
        return tuple(dict.fromkeys(secret for some in self._secrets.values() for secret in some))

    def find(self, name: str) -> Webhook | None:
        """Return a webhook by its name; None if there is none."""
        return self._by_name.get(name)

    def verify(self, name: str, headers: Mapping[str, str], body: bytes) -> SignedRequest:
        """Check the signature of a request and parse it.

        Raises:
            SignatureRefused: it is not signed with a secret of the webhook, or not lately.
            PayloadRefused: the body cannot be parsed.
            KeyError: there is no such webhook.
        """
        webhook = self._by_name[name]
        small = {key.lower(): value for key, value in headers.items()}
        now_s = self._clock.now().timestamp()
        webhook.signing.check(small, body, self._secrets[name], now_s=now_s)
        return _parse_delivery(webhook, small, body)

    async def take(self, runtime: "AgentRuntime", delivery: SignedRequest) -> Taken:
        """Start the run of a delivery, or answer a request; return once that is durable.

        Raises:
            PayloadRefused: the webhook does not understand the body.
            Conflict: the delivery id was used with another message, or the session was deleted.
            AgentError: the run cannot be started.
        """
        webhook = self._by_name[delivery.entry]
        match webhook.identify(delivery):
            case None:
                return Taken()
            case Reply(text):
                return Taken(reply=text)
            case Message() as message:
                return await _start_run(runtime, webhook, delivery, message)
            case RunEvent() as event:
                return await _send_event(runtime, webhook, delivery, event)
            case ChannelAnswer(session, request_id, option_id, user):
                response = InputResponse(request_id=request_id, option_id=option_id, responder=user)
                key = derive_id(webhook.name, delivery.delivery_id)
                return await _answer_request(runtime, webhook, webhook.session_id(session), response, key=key)


def derive_id(*parts: str) -> str:
    """Return an id that is a digest of texts."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:44]


def _parse_delivery(webhook: Webhook, headers: Mapping[str, str], body: bytes) -> SignedRequest:
    """Return a request with its payload: JSON, or a form with JSON in its field `payload`."""
    raw = body
    if headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        try:
            raw = parse_qs(body.decode(), strict_parsing=True, max_num_fields=16)["payload"][0].encode()
        except (ValueError, KeyError):
            raise PayloadRefused(
                f"the body is {_FORM} and has no field payload: send JSON as application/json"
            ) from None
    count = count_values(raw, VALUES_MAX)
    if count > VALUES_MAX:
        raise PayloadRefused(f"the body has too many values: {count:,}, limit {VALUES_MAX:,}")
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        raise PayloadRefused("the body is not JSON") from None
    if not isinstance(payload, dict):
        raise PayloadRefused("the body is not a JSON object")
    content, scheme = cast(JsonObject, payload), webhook.signing
    delivery_id = headers.get(scheme.id_header or "") or _text_at(content, scheme.id_path)
    events = (headers.get(scheme.event_header or ""), _text_at(content, scheme.event_path))
    return SignedRequest(
        webhook.name,
        delivery_id or sha256(body).hexdigest(),
        ".".join(event for event in events if event),
        content,
        headers,
    )


def _text_at(payload: JsonObject, path: str | None) -> str | None:
    """Return the text, number or flag at a path such as `issue.labels.0.name`; None if there is none."""
    value: object = payload
    for part in (path or "").split("."):
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get(part)
        elif isinstance(value, list) and part.isdigit() and int(part[:6]) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(part[:6])]
        else:
            return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _fill_template(template: str, delivery: SignedRequest) -> str:
    variables = {"event": delivery.event, "delivery": delivery.delivery_id}

    def value(path: str) -> str:
        text = variables.get(path, _text_at(delivery.payload, path))
        if text is None:
            raise PayloadRefused(f"webhook {delivery.entry}: the body has no text at {path}")
        return text

    return _PLACE.sub(lambda match: value(match[1]), template)


async def _start_run(
    runtime: "AgentRuntime", webhook: Webhook, delivery: SignedRequest, message: Message
) -> Taken:
    session_id = webhook.session_id(message.session)
    run_id = f"webhook:{derive_id(webhook.name, delivery.delivery_id)}"
    store = runtime.core.ports.store
    assert store is not None, "a runtime that can start has one"
    is_known = await store.session(session_id) is not None
    if message.needs_session and not is_known:
        return Taken()
    if is_known and webhook.channel is not None and message.user is not None:
        request_id = await _question(runtime, session_id, run_id)
        if request_id is not None:
            return await _reply_to_question(runtime, webhook, message, request_id, key=run_id)
    await runtime.start_run(
        webhook.agent,
        message.text[:MESSAGE_CHARS_MAX],
        session_id=session_id,
        run_id=run_id,
        owner=webhook.owner,
        source=SourceRef(kind=SourceKind.REMOTE_CHANNEL, id=message.user or webhook.name),
        metadata={
            "webhook": webhook.name,
            "event": delivery.event[:256],
            "delivery": delivery.delivery_id[:256],
        },
    )
    return Taken(session_id, run_id)


async def _send_event(
    runtime: "AgentRuntime", webhook: Webhook, delivery: SignedRequest, event: RunEvent
) -> Taken:
    """Send the event of a delivery; one for a run that others own, or that has ended, has no effect."""
    store = runtime.core.ports.store
    assert store is not None, "a runtime that can start has one"
    run = await store.run(event.run_id)
    if run is None or (run.agent_id, run.owner) != (webhook.agent, webhook.owner):
        return Taken()
    key = f"webhook:{derive_id(webhook.name, delivery.delivery_id)}"
    with suppress(Conflict):
        await runtime.handle(run.run_id).send(event.name, event.data, key=key, by=webhook.name)
    return Taken(run.session_id, run.run_id)


async def _question(runtime: "AgentRuntime", session_id: str, run_id: str) -> str | None:
    """Return the question that a message answers, if it answers one; the same again for the same delivery."""
    store = runtime.core.ports.store
    assert store is not None, "a runtime that can start has one"
    request_id = await reply_of(runtime, run_id)
    if request_id is not None:
        return request_id
    if await store.run(run_id) is not None:
        return None  # it has started a run before the question was asked
    open_ = await runtime.sessions.open_requests(session_id)
    questions = [
        request for request in open_ if request.kind is InputKind.QUESTION and not request.is_answered
    ]
    return await keep_reply(runtime, run_id, questions[0].request_id) if questions else None


async def reply_of(runtime: "AgentRuntime", key: str) -> str | None:
    """Return the request that the message with a key answered; None if it has not been here."""
    store = runtime.core.ports.store
    assert store is not None, "a runtime that can start has one"
    reply = await store.document(_REPLY, key)
    return None if reply is None else str(reply.body["requestId"])


async def keep_reply(runtime: "AgentRuntime", key: str, request_id: str) -> str:
    """Keep which request a message answers, before it does; return that of its first arrival.

    A message that arrives again must not answer the next request.
    """
    store, now_ms = runtime.core.ports.store, int(runtime.core.ports.machine.clock.now().timestamp() * 1_000)
    assert store is not None, "a runtime that can start has one"
    for old in await store.due_documents(_REPLY, now_ms=now_ms, limit=_EXPIRED_MAX):
        with suppress(Conflict):
            await store.drop_document(old)
    reply = Document(_REPLY, key, 1, {"requestId": request_id}, now_ms + REPLIES_KEPT_MS)
    try:
        await store.put_document(reply)
    except Conflict:  # the same message at another server
        return await reply_of(runtime, key) or request_id
    return request_id


async def _reply_to_question(
    runtime: "AgentRuntime", webhook: Webhook, message: Message, request_id: str, *, key: str
) -> Taken:
    """Answer a question with a message; the author is told if it is not an answer."""
    session_id, user = webhook.session_id(message.session), message.user
    stored = await runtime.sessions.request(request_id)
    response = InputResponse(request_id=request_id, text=message.text[:MESSAGE_CHARS_MAX], responder=user)
    refused = None
    if isinstance(stored, OpenRequest):
        request = stored.request
        if makes_call(request, response):
            refused = "a text approves nothing; use the button"
        elif not request.allow_freeform and match_option(request, response).option_id is None:
            labels = ", ".join(option.label for option in request.options or ())
            refused = f"please answer with one of: {labels}"
    if stored is not None and refused is not None:
        return Taken(session_id, stored.run_id, refused=refused, user=user)
    return await _answer_request(runtime, webhook, session_id, response, key=key)


async def _answer_request(
    runtime: "AgentRuntime", webhook: Webhook, session_id: str, response: InputResponse, *, key: str
) -> Taken:
    """Answer a request in the name of a user, who is told if the answer is refused, or was not the first.

    A delivery that comes again has the same `key`, and answers nothing further.
    """
    request, user = await runtime.sessions.request(response.request_id), response.responder
    run_id, refused = None if request is None else request.run_id, None
    if request is None or request.owner != webhook.owner:
        run_id, refused = None, "this request does not exist any more"
    elif (
        isinstance(request, OpenRequest)
        and user not in webhook.approvers
        and consents(request.request, response)
    ):
        refused = "you may not approve this call; you may deny it"
    else:
        try:
            await runtime.sessions.answer(request.session_id, [response], key=key)
        except (Conflict, Denied, Rejected) as error:
            refused = error.message
    return Taken(session_id, run_id, refused=refused, user=user)
