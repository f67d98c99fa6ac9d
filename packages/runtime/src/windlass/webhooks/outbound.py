"""Webhooks out: signed notifications of chosen events, and the messages of channels.

Notifications follow Standard Webhooks: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`,
and a body with `type`, `timestamp` and `data`. An endpoint must be on the public internet, unless it is
declared otherwise: the address that is checked is the one that is dialled.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from windlass import parts
from windlass.addresses import target_of
from windlass.errors import install_hint, near_names
from windlass.ports.clock import Clock
from windlass.refusals import bad_setup, check_id, check_items
from windlass.tools import ToolFailed
from windlass.webhooks.channel import Channel, Delivered, Notice
from windlass.webhooks.inbound import LOCAL, Webhook, is_name, is_variable
from windlass.webhooks.outbox import Outbox
from windlass.webhooks.signatures import STANDARD
from windlass_harness.record import Record, to_event
from windlass_protocol import EVENT_DATA, InputRequest, JsonObject, encode
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    import httpcore2

    from windlass.runtime.compose import AgentRuntime
    from windlass_protocol.generated.values import EventFamilyValue, EventTypeValue

SEND_S: Final = 30.0
"""How long a receiver may take to answer, seconds."""
ANSWER_BYTES_MAX: Final = 65_536
"""Bytes of an answer that are read."""
ENDPOINTS_MAX: Final = 100
_GONE: Final = 410
_ENDS: Final = {
    "run.failed": "The run failed",
    "run.cancelled": "The run was cancelled.",
    "run.budget_exhausted": "The budget of the run is used up.",
}
_TOLD: Final = frozenset({"input.requested", "input.resolved", "run.completed", *_ENDS})
"""The types of records that channels show."""


@sealed
class Answered:
    """The answer of a receiver."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def post(
    url: str, headers: Mapping[str, str], body: bytes, *, is_private: bool
) -> Answered | Delivered:
    """Send a request; return the answer, or why there is none. Redirects are not followed.

    It reads no proxy, cookie or credentials from the environment.
    """
    httpcore2 = import_module("httpcore2")
    try:
        backend = None
        if not is_private:
            target_of(url)
            backend = import_module("windlass.toolbox.web_connect").PublicOnly(_network())
        parts_of_url = urlsplit(url)
        all_headers = {
            "host": parts_of_url.netloc,
            "user-agent": "windlass",
            "content-length": str(len(body)),
            **headers,
        }
        async with (
            asyncio.timeout(SEND_S),
            httpcore2.AsyncConnectionPool(network_backend=backend) as pool,
            pool.stream("POST", url, headers=list(all_headers.items()), content=body) as response,
        ):
            return await _read(response)
    except ToolFailed as error:
        return Delivered(error.message, is_final=not error.is_retryable)
    except TimeoutError:
        return Delivered(f"no answer within {SEND_S:g} seconds")
    except (OSError, httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        return Delivered(f"the receiver could not be reached ({type(error).__name__})")


async def _read(response: "httpcore2.Response") -> Answered:
    content = bytearray()
    async for chunk in response.aiter_stream():
        content += chunk
        if len(content) >= ANSWER_BYTES_MAX:
            break
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Answered(response.status, headers, bytes(content[:ANSWER_BYTES_MAX]))


def _network() -> object:
    return import_module("windlass.toolbox.fetch").Network()


def outcome_of(answer: Answered | Delivered) -> Delivered:
    """Return the outcome of a delivery from the answer of its receiver: only 2xx is a success."""
    if isinstance(answer, Delivered):
        return answer
    if 200 <= answer.status < 300:
        return Delivered()
    after = answer.headers.get("retry-after", "").strip()
    retry_s = float(after[:9]) if after.isascii() and after.isdigit() else None
    return Delivered(f"HTTP {answer.status}", is_final=answer.status == _GONE, retry_after_s=retry_s)


@sealed
class Endpoint:
    """An address that is notified of events."""

    name: str
    url: str
    events: "tuple[EventTypeValue | EventFamilyValue, ...]"
    """Types of events, such as `run.completed`, or their first part, such as `run`."""
    secrets: tuple[str, ...]
    """Environment variables with secrets, `whsec_` and base64; a notification is signed with each of them."""
    is_private: bool = False
    """Whether the address may be on a private network, and may be `http`."""
    tenant: str = LOCAL
    """The tenant whose sessions it is notified of."""

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise bad_setup("the name of an endpoint has up to 64 small letters, digits, - and _")
        check_id(self.tenant, f"the tenant of endpoint {self.name}")
        for option in ("secrets", "events"):
            check_items(getattr(self, option), str, what=f"{option} of endpoint {self.name}", words="texts")
        if not self.secrets or not all(is_variable(secret) for secret in self.secrets):
            raise bad_setup(f"secrets of endpoint {self.name} are one or more environment variables")
        for event in self.events:
            if not any(
                event_type == event or event_type.startswith(f"{event}.") for event_type in EVENT_DATA
            ):
                raise bad_setup(
                    f"endpoint {self.name}: unknown event {event}{near_names([event], [*EVENT_DATA])}"
                )
        if not self.events:
            raise bad_setup(f"endpoint {self.name} needs events, such as run.completed")
        scheme = urlsplit(self.url).scheme if isinstance(cast(object, self.url), str) else ""
        if scheme != "https" and not (self.is_private and scheme == "http"):
            expected = "an https address, or with is_private an http address"
            raise bad_setup(f"the url of endpoint {self.name} is {expected}")

    @classmethod
    def read(cls, name: str, table: Mapping[str, object]) -> "Endpoint":
        """Return the endpoint that a table declares, such as one of windlass.toml.

        Raises:
            Rejected: a field is unknown or missing, or its value cannot be used.
        """
        field_names = [item.name for item in fields(cls) if item.name != "name"]  # pyright: ignore[reportArgumentType] - `sealed` makes fields
        for field in table:
            if field not in field_names:
                raise bad_setup(f"endpoint {name}: unknown field {field}{near_names([field], field_names)}")
        for field in ("url", "events", "secrets"):
            if field not in table:
                raise bad_setup(f"endpoint {name}: {field} is missing")
        if not isinstance(table.get("is_private", False), bool):
            raise bad_setup(f"endpoint {name}: is_private is true or false")
        values = {
            field: tuple(cast("list[object]", value)) if isinstance(value, list) else value
            for field, value in table.items()
        }
        return cls(name, **values)  # pyright: ignore[reportArgumentType] - checked by `__post_init__`


class Notifications:
    """The target of an endpoint."""

    def __init__(self, endpoint: Endpoint, *, variable: Callable[[str], str | None], clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self.name: Final = endpoint.name
        user = f"endpoint {endpoint.name}"
        self.secrets: Final = STANDARD.secrets(endpoint.secrets, variable, user=user)

    def lane(self, owner: str | None) -> str:
        """Return one lane for all users: the operator declared the receiver."""
        return self.name

    async def parts(self, record: Record) -> Sequence[int]:
        """Return one part for an event that the endpoint is notified of."""
        events = self._endpoint.events
        return range(any(record.type == event or record.type.startswith(f"{event}.") for event in events))

    async def send(self, record: Record, part: int, *, key: str) -> Delivered:
        """Send a notification with all signatures."""
        event = to_event(record).model_dump(mode="json", by_alias=True, exclude_none=True)
        body = encode({"type": record.type, "timestamp": record.at, "data": event})
        stamp = str(int(self._clock.now().timestamp()))
        signed = STANDARD.signed(key, stamp, body)
        signatures = [f"v1,{STANDARD.signature(signed, secret)}" for secret in self.secrets]
        headers = {
            "content-type": "application/json",
            "webhook-id": key,
            "webhook-timestamp": stamp,
            "webhook-signature": " ".join(signatures),
        }
        endpoint = self._endpoint
        return outcome_of(await post(endpoint.url, headers, body, is_private=endpoint.is_private))

    async def tell(self, session_id: str, text: str, user: str) -> Delivered:
        """Refuse: an endpoint has no users."""
        return Delivered("an endpoint has no users", is_final=True)


class ChannelMessages:
    """The target of a channel: the answers and requests of its sessions."""

    def __init__(self, webhook: Webhook, channel: Channel) -> None:
        self._channel = channel
        self._prefix = f"{webhook.name}:"
        self.name: Final = webhook.name

    def lane(self, owner: str | None) -> str:
        """Return one lane for all users."""
        return self.name

    async def parts(self, record: Record) -> Sequence[int]:
        """Return the notices of a record; none for sessions of others."""
        if record.type not in _TOLD or not record.session_id.startswith(self._prefix):
            return ()
        is_asked = record.type == "input.requested"
        return range(len(cast("list[object]", record.data["requests"])) if is_asked else 1)

    async def send(self, record: Record, part: int, *, key: str) -> Delivered:
        """Render a notice and deliver it."""
        return await self._deliver(self._notice(record, part), key)

    async def tell(self, session_id: str, text: str, user: str) -> Delivered:
        """Tell one user something."""
        session = session_id.removeprefix(self._prefix)
        return await self._deliver(Notice(session, "refused", text, user=user), "")

    async def _deliver(self, notice: Notice, key: str) -> Delivered:
        content = self._channel.render(notice)
        return Delivered() if content is None else await self._channel.deliver(content, key=key)

    def _notice(self, record: Record, part: int) -> Notice:
        data, session = record.data, record.session_id.removeprefix(self._prefix)
        match record.type:
            case "input.requested":
                request = InputRequest.model_validate(cast("list[object]", data["requests"])[part])
                return Notice(session, "request", request.prompt, request)
            case "input.resolved":
                lines = [
                    _describe_resolution(resolution)
                    for resolution in cast("list[JsonObject]", data["resolutions"])
                ]
                return Notice(session, "resolved", "\n".join(lines))
            case "run.completed":
                text = data.get("output")
                if not text and "structuredOutput" in data:
                    text = json.dumps(data["structuredOutput"], ensure_ascii=False)
                return Notice(session, "output", str(text or "Done."))
            case "run.failed":
                error = cast(JsonObject, data["error"])
                return Notice(session, "failed", f"{_ENDS[record.type]}: {error['message']}")
            case _:
                return Notice(session, "failed", _ENDS[record.type])


def _describe_resolution(resolution: JsonObject) -> str:
    response = cast(JsonObject, resolution.get("response") or {})
    who = response.get("responder")
    return f"{str(resolution['outcome']).capitalize()} by {who}." if who else f"{resolution['outcome']}."


def targets_of(
    endpoints: "tuple[Endpoint, ...]",
    webhooks: "tuple[Webhook, ...]",
    *,
    variable: Callable[[str], str | None] = parts.variable,
    clock: Clock | None = None,
) -> "tuple[Notifications | ChannelMessages, ...]":
    """Return the targets of endpoints and of webhooks with a channel.

    Raises:
        Rejected: a variable is not set, two targets have the same name, or the extra `web` is not installed.
    """
    watch = clock or parts.SystemClock()
    targets: list[Notifications | ChannelMessages] = [
        Notifications(endpoint, variable=variable, clock=watch) for endpoint in endpoints
    ]
    targets += [
        ChannelMessages(webhook, webhook.channel) for webhook in webhooks if webhook.channel is not None
    ]
    if len({target.name for target in targets}) < len(targets):
        raise bad_setup("two endpoints or channels have the same name; give each its own")
    if len(targets) > ENDPOINTS_MAX:
        raise bad_setup(f"endpoints and channels: found {len(targets):,}, limit {ENDPOINTS_MAX}")
    if targets:
        try:
            import_module("httpcore2")
        except ModuleNotFoundError:
            raise bad_setup(f"notifications need an optional dependency: {install_hint('web')}") from None
    return tuple(targets)


@asynccontextmanager
async def notify(
    runtime: "AgentRuntime",
    *,
    endpoints: "tuple[Endpoint, ...] | list[Endpoint]" = (),
    channels: "tuple[Webhook, ...] | list[Webhook]" = (),
) -> "AsyncGenerator[Outbox]":
    """Notify endpoints and channels of the events of a runtime's sessions, until the end of the block.

    For applications with their own server; ours does so by itself.

    Raises:
        Rejected: as for `targets_of`.
    """
    checked = check_items(endpoints, Endpoint, what="endpoints", words="Endpoints")
    targets = targets_of(checked, tuple(channels), clock=runtime.core.ports.machine.clock)
    async with Outbox(runtime, targets) as outbox:
        yield outbox
