"""Push notifications: changes of a run, sent to addresses that its client gave.

The configurations of a run are one document of the store, deleted with the run. An outbox with a bookmark of
its own delivers, from the first configuration of a store on; see `windlass.webhooks.outbox`. Clients choose
the addresses, so every address must be on the public internet and use https, and is checked again when it is
dialled; `PushRules` says what else is allowed.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.parse import urlsplit

from windlass.addresses import URL_CHARS_MAX, target_of
from windlass.errors import AgentError, Conflict, Rejected
from windlass.limits import WRITES_MAX
from windlass.parts import Store
from windlass.ports.clock import IDLE
from windlass.ports.documents import RUN_PUSH, Document
from windlass.tools import ToolFailed
from windlass.webhooks import DELIVERY, Outbox
from windlass.webhooks.channel import Delivered
from windlass.webhooks.outbound import outcome_of, post
from windlass.webhooks.outbox import BOOKMARK
from windlass_harness.record import Record
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import ErrorKind, JsonObject, RetryClass
from windlass_protocol.frozen import sealed
from windlass_server.settings import is_loopback

if TYPE_CHECKING:
    from windlass import AgentRuntime

CONFIGS_MAX: Final = 10
"""Configurations of one run."""
SECRET_CHARS_MAX: Final = 4_096
"""A token, and the credentials of one configuration."""
ID_CHARS_MAX: Final = 256
"""The id of a configuration."""
WATCH_S: Final = 30.0
"""Interval between two looks whether another process has stored the first configuration, seconds."""
TARGET: Final = "a2a"
"""The target of deliveries, and the name of the bookmark."""
PUSHED_TYPES: Final = frozenset({"run.started", "input.requested", *RUN_ENDS})
"""The types of records that are sent."""
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_HEADER: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SCHEME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


@sealed
class PushRules:
    """How a server sends push notifications."""

    render: Callable[[Record], bytes]
    """Returns the body of the notification of a record."""
    allows_loopback: bool = False
    """Whether addresses of this machine are allowed, with http as well."""
    allows_private: bool = False
    """Whether all addresses are allowed, with http as well."""

    def is_private(self, url: str) -> bool:
        """Check the text of an address; return whether it may be dialled without being public.

        Raises:
            ToolFailed: the address is not allowed.
        """
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host, parts = "", urlsplit("")
        if self.allows_private or (self.allows_loopback and is_loopback(host)):
            is_plain = parts.scheme in ("http", "https") and host and "@" not in parts.netloc
            if not is_plain or len(url) > URL_CHARS_MAX or not _VISIBLE.fullmatch(url):
                raise ToolFailed("the address is not valid; write it like https://example.com/hook")
            return True
        if target_of(url).scheme != "https":
            raise ToolFailed("the address must begin with https://")
        return False


@sealed
class PushConfig:
    """A configuration: where the changes of a run are sent."""

    config_id: str
    url: str
    token: str = field(default="", repr=False)
    """Sent in the header X-A2A-Notification-Token."""
    scheme: str = ""
    credentials: str = field(default="", repr=False)
    """Sent in the header Authorization, after the scheme."""

    def check(self, rules: PushRules) -> None:
        """Check what a client gave.

        Raises:
            Rejected: a field cannot be used.
        """
        try:
            rules.is_private(self.url)
        except ToolFailed as error:
            raise _rejection(f"url: {error.message}") from None
        if not _VISIBLE.fullmatch(self.config_id) or len(self.config_id) > ID_CHARS_MAX:
            raise _rejection(f"id: expected 1 to {ID_CHARS_MAX} visible ASCII characters without blanks")
        for name, value in (("token", self.token), ("credentials", self.credentials)):
            if len(value) > SECRET_CHARS_MAX or (value and not _HEADER.fullmatch(value)):
                raise _rejection(f"{name}: expected up to {SECRET_CHARS_MAX:,} visible ASCII characters")
        if (self.scheme or self.credentials) and not _SCHEME.fullmatch(self.scheme):
            raise _rejection("authentication.scheme: expected the name of an HTTP scheme, such as Bearer")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate a notification."""
        headers: dict[str, str] = {}
        if self.token:
            headers["x-a2a-notification-token"] = self.token
        if self.scheme and self.credentials:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        return headers


def _rejection(message: str) -> Rejected:
    return Rejected(message, kind=ErrorKind.INVALID_STATE_TRANSITION, retry=RetryClass.NOT_RETRYABLE)


class Push:
    """The push notifications of a store: configurations, and the outbox that delivers to them."""

    def __init__(self, runtime: "AgentRuntime", store: Store, rules: PushRules) -> None:
        self._runtime = runtime
        self._store = store
        self._clock = runtime.core.ports.machine.clock
        self.rules = rules
        self._outbox: Outbox | None = None
        self._opening = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None

    async def open(self) -> Self:
        """Deliver from now on, once the store has a configuration."""
        if await is_used(self._store):
            await self._deliver()
        else:
            self._watcher = asyncio.create_task(self._watch(), name="windlass push")
        return self

    async def aclose(self) -> None:
        """Stop; what was not delivered is delivered by the next process."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        if self._outbox is not None:
            await self._outbox.aclose()

    async def is_idle(self) -> bool:
        """Whether nothing is to be delivered."""
        return self._outbox is None or await self._outbox.is_idle()

    async def list(self, run_id: str) -> tuple[PushConfig, ...]:
        """Return the configurations of a run, the oldest first."""
        return tuple(_configs(await self._store.document(RUN_PUSH, run_id)).values())

    async def put(self, run_id: str, config: PushConfig) -> None:
        """Store a configuration of a run, in place of one with the same id. The caller has checked it.

        Raises:
            Rejected: the run has `CONFIGS_MAX` others.
        """
        # The bookmark comes first: no change after the configuration may be passed over.
        await self._deliver()
        for _ in range(WRITES_MAX):
            before = await self._store.document(RUN_PUSH, run_id)
            body = {} if before is None else before.body
            configs = cast("dict[str, JsonObject]", body.get("configs", {}))
            others = {name: fields for name, fields in configs.items() if fields["id"] != config.config_id}
            if len(others) >= CONFIGS_MAX:
                raise _rejection(f"push notification configurations of one task: limit {CONFIGS_MAX}")
            # A number is never used again: a delivery names the configuration that it was made for.
            number = cast(int, body.get("last", 0)) + 1
            stored: JsonObject = {
                "id": config.config_id,
                "url": config.url,
                "token": config.token,
                "scheme": config.scheme,
                "credentials": config.credentials,
            }
            after: JsonObject = {"last": number, "configs": {**others, str(number): stored}}
            revision = 1 if before is None else before.revision + 1
            with suppress(Conflict):
                return await self._store.put_document(Document(RUN_PUSH, run_id, revision, after))
        raise _rejection("the configurations of the task change too often; try again")

    async def drop(self, run_id: str, config_id: str) -> None:
        """Delete a configuration of a run; one that is not there stays so."""
        for _ in range(WRITES_MAX):
            before = await self._store.document(RUN_PUSH, run_id)
            if before is None:
                return
            configs = cast("dict[str, JsonObject]", before.body["configs"])
            left = {name: fields for name, fields in configs.items() if fields["id"] != config_id}
            if len(left) == len(configs):
                return
            after = replace(before, revision=before.revision + 1, body={**before.body, "configs": left})
            with suppress(Conflict):
                await self._store.put_document(after)
                return

    async def _deliver(self) -> None:
        async with self._opening:
            if self._outbox is None:
                target = PushTarget(self._store, self.rules)
                self._outbox = await Outbox(self._runtime, [target], bookmark=TARGET).__aenter__()

    async def _watch(self) -> None:
        """Wait until this or another process has stored a configuration, and deliver."""
        while self._outbox is None:
            pause = asyncio.create_task(self._sleep(), name=IDLE)
            try:
                await pause
            finally:
                pause.cancel()
            # An error: the store is unreachable for now.
            with suppress(AgentError):
                if await is_used(self._store):
                    await self._deliver()

    async def _sleep(self) -> None:
        await self._clock.sleep(WATCH_S)


async def is_used(store: Store) -> bool:
    """Whether a store has a configuration."""
    return bool(await store.documents(RUN_PUSH, limit=1))


async def is_owing(store: Store) -> bool:
    """Whether a store may have notifications that were not delivered."""
    if not await is_used(store):
        return False
    if await store.next_document_ms(DELIVERY) is not None:
        return True
    mark = await store.document(BOOKMARK, TARGET)
    return mark is not None and cast(int, mark.body["position"]) < await store.last_position()


class PushTarget:
    """The target of all push notifications of a store."""

    def __init__(self, store: Store, rules: PushRules) -> None:
        self.name: Final = TARGET
        self._store = store
        self._rules = rules

    def lane(self, owner: str | None) -> str:
        """Return a lane for each user: the receivers of one may be slow."""
        return f"{TARGET}:{owner or ''}"

    async def parts(self, record: Record) -> Sequence[int]:
        """Return the numbers of the configurations that a record is sent to."""
        if record.run_id is None or record.type not in PUSHED_TYPES:
            return ()
        return tuple(_configs(await self._store.document(RUN_PUSH, record.run_id)))

    async def send(self, record: Record, part: int, *, key: str) -> Delivered:
        """Send a notification, unless its configuration was deleted."""
        config = _configs(await self._store.document(RUN_PUSH, record.run_id or "")).get(part)
        if config is None:
            return Delivered()
        try:
            is_private = self._rules.is_private(config.url)
        except ToolFailed as error:
            return Delivered(error.message, is_final=True)
        headers = {"content-type": "application/json", "webhook-id": key, **config.headers}
        body = self._rules.render(record)
        return outcome_of(await post(config.url, headers, body, is_private=is_private))

    async def tell(self, session_id: str, text: str, user: str) -> Delivered:
        """Say that a configuration has no users."""
        return Delivered("push notifications have no users", is_final=True)


def _configs(document: Document | None) -> Mapping[int, PushConfig]:
    """Return the configurations of a document by their numbers."""
    stored = {} if document is None else cast("dict[str, dict[str, str]]", document.body["configs"])
    return {
        int(number): PushConfig(
            fields["id"], fields["url"], fields["token"], fields["scheme"], fields["credentials"]
        )
        for number, fields in sorted(stored.items(), key=lambda pair: int(pair[0]))
    }
