# Generated from spec/common.schema.json by `make gen`. Do not edit.
"""Identifiers, times, references and amounts that the other files share.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol._wire import JsonObject as JsonObject
from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_Id() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Str, Says

    Id = Annotated[
        Annotated[
            Str, StringConstraints(min_length=1, max_length=512, pattern="^[^\\u0000-\\u001f\\u007f]+$")
        ],
        Says("an identifier: 1 to 512 characters, none of them a control character"),
    ]
    return Id


def _make_Timestamp() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Str, Says

    Timestamp = Annotated[
        Annotated[
            Str,
            StringConstraints(
                pattern="^(?:(?:(?:[1-9][0-9](?:[2468][048]|[13579][26]|0[48])|(?:[2468][048]|[13579][26])00)-02-29)|[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
            ),
        ],
        Says("a moment, as RFC 3339 with a time zone: 2026-01-31T09:30:00.250Z"),
    ]
    return Timestamp


def _make_Sha256() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Str, Says

    Sha256 = Annotated[
        Annotated[Str, StringConstraints(pattern="^sha256:[0-9a-f]{64}$")],
        Says("a SHA-256 digest: `sha256:` and 64 hexadecimal digits"),
    ]
    return Sha256


def _make_Integer() -> object:
    from typing import Annotated

    from windlass_protocol._wire import Whole

    Integer = Annotated[int, Whole(-9007199254740991, 9007199254740991)]
    return Integer


def _make_Count() -> object:
    from typing import Annotated

    from windlass_protocol._wire import Whole

    Count = Annotated[int, Whole(0, 9007199254740991)]
    return Count


def _make_Positive() -> object:
    from typing import Annotated

    from windlass_protocol._wire import Whole

    Positive = Annotated[int, Whole(1, 9007199254740991)]
    return Positive


def _make_RetentionClass() -> object:
    from enum import StrEnum

    class RetentionClass(StrEnum):
        """How long a value may be kept."""

        __qualname__ = "RetentionClass"

        EPHEMERAL = "ephemeral"
        RUN_SCOPED = "run_scoped"
        SESSION_SCOPED = "session_scoped"
        DURABLE = "durable"
        PERSISTENT = "persistent"
        HOST_POLICY = "host_policy"

    return RetentionClass


def _make_TrustClass() -> object:
    from enum import StrEnum

    class TrustClass(StrEnum):
        """How far the origin of a value is trusted."""

        __qualname__ = "TrustClass"

        TRUSTED = "trusted"
        SDK_GENERATED = "sdk_generated"
        HOST_PROVIDED = "host_provided"
        USER_PROVIDED = "user_provided"
        EXTERNAL = "external"
        UNTRUSTED = "untrusted"

    return TrustClass


def _make_SourceKind() -> object:
    from enum import StrEnum

    class SourceKind(StrEnum):
        """What kind of thing a request or value comes from."""

        __qualname__ = "SourceKind"

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

    return SourceKind


def _make_PolicyKind() -> object:
    from enum import StrEnum

    class PolicyKind(StrEnum):
        """What a policy is about."""

        __qualname__ = "PolicyKind"

        APPROVAL = "approval"
        PERMISSION = "permission"
        SANDBOX = "sandbox"
        CONTEXT = "context"
        PRIVACY = "privacy"
        RETENTION = "retention"
        REDACTION = "redaction"
        RUNTIME_PACKAGE = "runtime_package"
        HOST = "host"

    return PolicyKind


def _make_SourceRef() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id, SourceKind, TrustClass

    class SourceRef(Open):
        """Where a request or value comes from."""

        __qualname__ = "SourceRef"

        kind: SourceKind
        id: Id
        trust: Maybe[TrustClass] = None

    return SourceRef


def _make_PolicyRef() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id, PolicyKind

    class PolicyRef(Open):
        """Names the policy or rule that made a decision."""

        __qualname__ = "PolicyRef"

        kind: PolicyKind
        id: Id
        version: Maybe[Str] = None

    return PolicyRef


def _make_Usage() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count

    class Usage(Open):
        """Tokens and money that model calls used."""

        __qualname__ = "Usage"

        input_tokens: Maybe[Count] = None
        output_tokens: Maybe[Count] = None
        cache_read_tokens: Maybe[Count] = None
        cache_write_tokens: Maybe[Count] = None
        reasoning_tokens: Maybe[Count] = None
        cost_micros: Maybe[Count] = None

    return Usage


def _make_PriceSource() -> object:
    from enum import StrEnum

    class PriceSource(StrEnum):
        """The figure that is the cost of a model call."""

        __qualname__ = "PriceSource"

        PROVIDER = "provider"
        TABLE = "table"
        OWN = "own"
        NONE = "none"

    return PriceSource


def _make_PriceGap() -> object:
    from enum import StrEnum

    class PriceGap(StrEnum):
        """Why a model call has no price: the server is not in the price table, the table does not have the model,
        the usage is incomplete or contradicts itself, or the provider reported none.
        """

        __qualname__ = "PriceGap"

        NO_PRICES = "no-prices"
        UNLISTED = "unlisted"
        UNUSABLE = "unusable"
        NO_USAGE = "no-usage"

    return PriceGap


def _make_PricePart() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count

    class PricePart(Open):
        """A part of the price of a model call."""

        __qualname__ = "PricePart"

        unit: Str
        count: Count
        micros: Count

    return PricePart


def _make_Price() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, PriceGap, PricePart, PriceSource

    class Price(Open):
        """How the cost of a model call was found, or why it has none; the cost itself is in the usage."""

        __qualname__ = "Price"

        source: PriceSource
        list_micros: Maybe[Count] = None
        reported_micros: Maybe[Count] = None
        parts: Maybe[tuple[PricePart, ...]] = None
        table: Maybe[Str] = None
        entry: Maybe[Str] = None
        gap: Maybe[PriceGap] = None

    return Price


def _make_Reservation() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count

    class Reservation(Open):
        """What a model call may cost at most, set aside before it is made."""

        __qualname__ = "Reservation"

        cost_micros: Count
        answer_tokens: Count
        shared_call: Maybe[Str] = None

    return Reservation


def _make_PromptPart() -> object:
    from enum import StrEnum

    class PromptPart(StrEnum):
        """A kind of part of a prompt."""

        __qualname__ = "PromptPart"

        TOOL = "tool"
        SYSTEM = "system"
        MESSAGE = "message"

    return PromptPart


def _make_CacheLoss() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, PromptPart

    class CacheLoss(Open):
        """Tokens of a prompt that the provider had in its cache and read anew."""

        __qualname__ = "CacheLoss"

        tokens: Count
        part: Maybe[PromptPart] = None
        index: Maybe[Count] = None
        name: Maybe[Str] = None

    return CacheLoss


def _make_PromptCache() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import CacheLoss, Count

    class PromptCache(Open):
        """The parts of a prompt that a provider may cache, as far as they changed."""

        __qualname__ = "PromptCache"

        kept: Count
        added: tuple[Str, ...]
        loss: Maybe[CacheLoss] = None

    return PromptCache


def _make_CausalIds() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Count, Id

    class CausalIds(Open):
        """The things that led to a record or an error."""

        __qualname__ = "CausalIds"

        session_id: Maybe[Id] = None
        run_id: Maybe[Id] = None
        turn_id: Maybe[Id] = None
        step_index: Maybe[Count] = None
        attempt_id: Maybe[Id] = None
        event_id: Maybe[Id] = None
        call_id: Maybe[Id] = None
        request_id: Maybe[Id] = None
        decision_id: Maybe[Id] = None
        span_id: Maybe[Id] = None

    return CausalIds


def _make_ContentRef() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, RetentionClass, Sha256

    class ContentRef(Open):
        """Points at content that is stored once and referred to by its hash."""

        __qualname__ = "ContentRef"

        content_id: Id
        hash: Sha256
        size_bytes: Count
        media_type: Maybe[Str] = None
        retention: Maybe[RetentionClass] = None
        summary: Maybe[Str] = None

    return ContentRef


def _make_TraceContext() -> object:
    from windlass_protocol._wire import Maybe, Open, Str

    class TraceContext(Open):
        """Ties a record to a distributed trace."""

        __qualname__ = "TraceContext"

        trace_id: Str
        span_id: Maybe[Str] = None
        trace_state: Maybe[Str] = None

    return TraceContext


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "Id": _make_Id,
        "Timestamp": _make_Timestamp,
        "Sha256": _make_Sha256,
        "Integer": _make_Integer,
        "Count": _make_Count,
        "Positive": _make_Positive,
        "RetentionClass": _make_RetentionClass,
        "TrustClass": _make_TrustClass,
        "SourceKind": _make_SourceKind,
        "PolicyKind": _make_PolicyKind,
        "SourceRef": _make_SourceRef,
        "PolicyRef": _make_PolicyRef,
        "Usage": _make_Usage,
        "PriceSource": _make_PriceSource,
        "PriceGap": _make_PriceGap,
        "PricePart": _make_PricePart,
        "Price": _make_Price,
        "Reservation": _make_Reservation,
        "PromptPart": _make_PromptPart,
        "CacheLoss": _make_CacheLoss,
        "PromptCache": _make_PromptCache,
        "CausalIds": _make_CausalIds,
        "ContentRef": _make_ContentRef,
        "TraceContext": _make_TraceContext,
    },
)
