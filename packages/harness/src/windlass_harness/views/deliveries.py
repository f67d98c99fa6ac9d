"""Deliveries: what was to be given to which sink, and what came of it."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from windlass_harness.views.fold import read, text_in
from windlass_protocol import (
    DeliveryCompletedData,
    DeliveryDedupedData,
    DeliveryFailedData,
    DeliveryIntendedData,
    DeliveryUnknownData,
    ErrorInfo,
    JsonObject,
    Record,
)


class DeliveryStage(StrEnum):
    """How far a delivery has come."""

    INTENDED = "intended"
    """It is under way, or its owner is gone and nobody has said so yet."""
    COMPLETED = "completed"
    FAILED = "failed"
    """Nothing was delivered."""
    DEDUPED = "deduped"
    """It was not made, because its key had been used."""
    UNKNOWN = "unknown"
    """It may or may not have happened; it is not made again by itself."""


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """A delivery as its records tell it."""

    delivery_id: str
    sink_id: str
    stage: DeliveryStage
    run_id: str | None = None
    dedupe_key: str | None = None
    kind: str | None = None
    receipt: JsonObject | None = None
    """What the sink said."""
    error: ErrorInfo | None = None
    reason: str | None = None
    """Why nobody knows."""


@dataclass(slots=True)
class Deliveries:
    """The deliveries of a session, taking records one by one."""

    by_id: dict[str, DeliveryState] = field(default_factory=dict[str, DeliveryState])
    open_ids: dict[str, None] = field(default_factory=dict[str, None])
    """Those that were intended and have no result."""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Keys that are used up, and by which delivery; one that failed gives its key back."""

    def apply(self, record: Record) -> None:
        """Take a record about a delivery; any other changes nothing."""
        match record.type:
            case "delivery.intended":
                self._intend(record)
            case "delivery.completed":
                done = read(DeliveryCompletedData, record.data)
                self._settle(done.delivery_id, DeliveryStage.COMPLETED, receipt=done.receipt)
            case "delivery.failed":
                failed = read(DeliveryFailedData, record.data)
                self._settle(failed.delivery_id, DeliveryStage.FAILED, error=failed.error)
            case "delivery.unknown":
                lost = read(DeliveryUnknownData, record.data)
                self._settle(lost.delivery_id, DeliveryStage.UNKNOWN, reason=lost.reason)
            case "delivery.deduped":
                self._skip(record)
            case _:
                pass

    def _intend(self, record: Record) -> None:
        data = read(DeliveryIntendedData, record.data)
        self.by_id[data.delivery_id] = DeliveryState(
            data.delivery_id,
            data.sink_id,
            DeliveryStage.INTENDED,
            run_id=data.run_id or record.run_id,
            dedupe_key=data.dedupe_key,
            kind=data.kind,
        )
        self.open_ids[data.delivery_id] = None
        self.keys.setdefault(data.dedupe_key, data.delivery_id)

    def _skip(self, record: Record) -> None:
        data = read(DeliveryDedupedData, record.data)
        run_id = text_in(record.data, "runId") or record.run_id
        self.by_id[data.delivery_id] = DeliveryState(
            data.delivery_id,
            data.sink_id,
            DeliveryStage.DEDUPED,
            run_id=run_id,
            dedupe_key=data.dedupe_key,
        )

    def _settle(
        self,
        delivery_id: str,
        stage: DeliveryStage,
        *,
        receipt: JsonObject | None = None,
        error: ErrorInfo | None = None,
        reason: str | None = None,
    ) -> None:
        """Take a result; the first one counts."""
        if delivery_id not in self.open_ids:
            return
        del self.open_ids[delivery_id]
        known = self.by_id[delivery_id]
        self.by_id[delivery_id] = replace(known, stage=stage, receipt=receipt, error=error, reason=reason)
        if stage is DeliveryStage.FAILED and known.dedupe_key is not None:
            del self.keys[known.dedupe_key]


DELIVERY_RECORDS: Final = frozenset(
    {
        "delivery.intended",
        "delivery.completed",
        "delivery.failed",
        "delivery.deduped",
        "delivery.unknown",
    }
)
