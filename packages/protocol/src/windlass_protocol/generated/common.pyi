# Generated from spec/common.schema.json by `make gen`. Do not edit.
"""Identifiers, times, references and amounts that the other files share."""

from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from windlass_protocol._wire import JsonObject as JsonObject, Maybe, Open, Str, Says, Whole

Id = Annotated[
    Annotated[Str, StringConstraints(min_length=1, max_length=512, pattern="^[^\\u0000-\\u001f\\u007f]+$")],
    Says("an identifier: 1 to 512 characters, none of them a control character"),
]
"""An identifier: 1 to 512 characters, none of them a control character."""

Timestamp = Annotated[
    Annotated[
        Str,
        StringConstraints(
            pattern="^(?:(?:(?:[1-9][0-9](?:[2468][048]|[13579][26]|0[48])|(?:[2468][048]|[13579][26])00)-02-29)|[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
        ),
    ],
    Says("a moment, as RFC 3339 with a time zone: 2026-01-31T09:30:00.250Z"),
]
"""A moment, as RFC 3339 with a time zone: 2026-01-31T09:30:00.250Z."""

Sha256 = Annotated[
    Annotated[Str, StringConstraints(pattern="^sha256:[0-9a-f]{64}$")],
    Says("a SHA-256 digest: `sha256:` and 64 hexadecimal digits"),
]
"""A SHA-256 digest: `sha256:` and 64 hexadecimal digits."""

Integer = Annotated[int, Whole(-9007199254740991, 9007199254740991)]
"""A whole number that every language can hold."""

Count = Annotated[int, Whole(0, 9007199254740991)]
"""A whole number from 0 that every language can hold."""

Positive = Annotated[int, Whole(1, 9007199254740991)]
"""A whole number from 1 that every language can hold."""

class RetentionClass(StrEnum):
    """How long a value may be kept."""

    EPHEMERAL = "ephemeral"
    RUN_SCOPED = "run_scoped"
    SESSION_SCOPED = "session_scoped"
    DURABLE = "durable"
    PERSISTENT = "persistent"
    HOST_POLICY = "host_policy"

class TrustClass(StrEnum):
    """How far the origin of a value is trusted."""

    TRUSTED = "trusted"
    SDK_GENERATED = "sdk_generated"
    HOST_PROVIDED = "host_provided"
    USER_PROVIDED = "user_provided"
    EXTERNAL = "external"
    UNTRUSTED = "untrusted"

class SourceKind(StrEnum):
    """What kind of thing a request or value comes from."""

    SDK = "sdk"
    HOST = "host"
    USER = "user"
    SYSTEM = "system"
    DEVELOPER = "developer"
    MEMORY = "memory"
    COMPACTION = "compaction"
    HOOK = "hook"
    EXTENSION = "extension"
    TOOL = "tool"
    REMOTE_CHANNEL = "remote_channel"
    SCHEDULED_TASK = "scheduled_task"
    SUBAGENT = "subagent"
    EXTERNAL_RUNTIME = "external_runtime"
    REPLAY = "replay"

class PolicyKind(StrEnum):
    """What a policy is about."""

    APPROVAL = "approval"
    PERMISSION = "permission"
    SANDBOX = "sandbox"
    CONTEXT = "context"
    PRIVACY = "privacy"
    RETENTION = "retention"
    REDACTION = "redaction"
    RUNTIME_PACKAGE = "runtime_package"
    HOST = "host"

class SourceRef(Open):
    """Where a request or value comes from."""

    kind: SourceKind
    """What kind of origin this is."""
    id: Id
    """Identifier of the origin."""
    trust: Maybe[TrustClass] = None
    """How far the origin is trusted; host_provided when absent."""

class PolicyRef(Open):
    """Names the policy or rule that made a decision."""

    kind: PolicyKind
    """What the policy is about."""
    id: Id
    """Identifier of the policy or rule."""
    version: Maybe[Str] = None
    """Version of the policy, when it has one."""

class Usage(Open):
    """Tokens and money that model calls used."""

    input_tokens: Maybe[Count] = None
    """Tokens sent to the model."""
    output_tokens: Maybe[Count] = None
    """Tokens the model produced."""
    cache_read_tokens: Maybe[Count] = None
    """Input tokens that came from the provider's cache."""
    cache_write_tokens: Maybe[Count] = None
    """Input tokens written to the provider's cache."""
    reasoning_tokens: Maybe[Count] = None
    """Output tokens spent on reasoning."""
    cost_micros: Maybe[Count] = None
    """Cost in millionths of a US dollar, when known."""

class PriceSource(StrEnum):
    """The figure that is the cost of a model call."""

    PROVIDER = "provider"
    TABLE = "table"
    OWN = "own"
    NONE = "none"

class PriceGap(StrEnum):
    """Why a model call has no price: the server is not in the price table, the table does not have the model,
    the usage is incomplete or contradicts itself, or the provider reported none.
    """

    NO_PRICES = "no-prices"
    UNLISTED = "unlisted"
    UNUSABLE = "unusable"
    NO_USAGE = "no-usage"

class PricePart(Open):
    """A part of the price of a model call."""

    unit: Str
    """What is counted, such as input_tokens or cache_write_1h_tokens."""
    count: Count
    """How many, without those that another part counts."""
    micros: Count
    """Millionths of a US dollar; the parts add up to the amount by the prices."""

class Price(Open):
    """How the cost of a model call was found, or why it has none; the cost itself is in the usage."""

    source: PriceSource
    """The figure that is the cost."""
    list_micros: Maybe[Count] = None
    """Amount by the prices of the agent or of the table."""
    reported_micros: Maybe[Count] = None
    """Amount that the provider reported."""
    parts: Maybe[tuple[PricePart, ...]] = None
    """Parts of the amount by the prices."""
    table: Maybe[Str] = None
    """Name and version of the price table."""
    entry: Maybe[Str] = None
    """Provider and model in the price table, or the pattern among the application's own prices."""
    gap: Maybe[PriceGap] = None
    """Why there is no amount by prices."""

class Reservation(Open):
    """What a model call may cost at most, set aside before it is made."""

    cost_micros: Count
    """Millionths of a US dollar."""
    answer_tokens: Count
    """Tokens of the longest answer that this pays for."""
    shared_call: Maybe[Str] = None
    """What the call is known by where limits of people and teams are kept; absent if it counts for none."""

class PromptPart(StrEnum):
    """A kind of part of a prompt."""

    TOOL = "tool"
    SYSTEM = "system"
    MESSAGE = "message"

class CacheLoss(Open):
    """Tokens of a prompt that the provider had in its cache and read anew."""

    tokens: Count
    """Tokens that the call before had in the cache, and this one did not find there."""
    part: Maybe[PromptPart] = None
    """Kind of the first part of the prompt that changed; absent if none did."""
    index: Maybe[Count] = None
    """Its number among the parts of its kind, from 0; messages are counted together."""
    name: Maybe[Str] = None
    """The tool, or the role of the message."""

class PromptCache(Open):
    """The parts of a prompt that a provider may cache, as far as they changed."""

    kept: Count
    """Parts at the start that are those of the call before."""
    added: tuple[Str, ...]
    """A digest of each part after them: its kind, a colon, and twelve digits."""
    loss: Maybe[CacheLoss] = None
    """What was paid again, if it was."""

class CausalIds(Open):
    """The things that led to a record or an error."""

    session_id: Maybe[Id] = None
    """The session."""
    run_id: Maybe[Id] = None
    """The run."""
    turn_id: Maybe[Id] = None
    """The turn."""
    step_index: Maybe[Count] = None
    """The step of the turn, from 0."""
    attempt_id: Maybe[Id] = None
    """The attempt."""
    event_id: Maybe[Id] = None
    """The event."""
    call_id: Maybe[Id] = None
    """The tool call."""
    request_id: Maybe[Id] = None
    """The request to a person."""
    decision_id: Maybe[Id] = None
    """The decision."""
    span_id: Maybe[Id] = None
    """The trace span."""

class ContentRef(Open):
    """Points at content that is stored once and referred to by its hash."""

    content_id: Id
    """Identifier of the stored content."""
    hash: Sha256
    """Digest of the stored bytes."""
    size_bytes: Count
    """Length of the stored bytes."""
    media_type: Maybe[Str] = None
    """Media type, such as text/plain."""
    retention: Maybe[RetentionClass] = None
    """How long the content may be kept."""
    summary: Maybe[Str] = None
    """A short text that may be shown instead of the content."""

class TraceContext(Open):
    """Ties a record to a distributed trace."""

    trace_id: Str
    """W3C trace id."""
    span_id: Maybe[Str] = None
    """W3C span id."""
    trace_state: Maybe[Str] = None
    """W3C tracestate."""
