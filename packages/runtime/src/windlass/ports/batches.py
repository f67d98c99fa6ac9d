"""Port of batches: model calls that a provider answers together, within a day, at a lower price.

A batch is made in two steps, so that a process that dies between them leaves a question that can be answered:
what was prepared costs nothing, and what was created can be found by the name of the batch or by its items.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk, ModelFault, ModelUnavailable
from windlass_protocol import ErrorInfo, JsonObject
from windlass_protocol.frozen import frozen


@frozen
class BatchRequest:
    """A model call as an item of a batch."""

    item_id: str
    """Unique among all items of all batches; letters, digits and `-`, at most 64."""
    body: JsonObject


@frozen
class BatchResult:
    """What became of an item: the answer of its model, or an error."""

    item_id: str
    answer: JsonObject | None = None
    error: ErrorInfo | None = None


def no_answer_error(reason: str | None = None) -> ModelUnavailable:
    """Return the error of an item that the provider did not get to; it costs nothing."""
    detail = "" if reason is None else f" ({reason})"
    return ModelUnavailable(
        f"the batch ended without an answer to this call{detail}", fault=ModelFault.TIMEOUT, is_unpaid=True
    )


@frozen
class OwnBatch:
    """A batch of which it is not known whether it was created."""

    name: str
    item_ids: frozenset[str]
    since: datetime
    """It was not created before."""


class BatchApi(Protocol):
    """Batches of one model at one account of a provider."""

    @property
    def key(self) -> str:
        """Items with the same key can share a batch; it tells nothing of the account."""
        ...

    async def prepare(self, name: str, requests: Sequence[BatchRequest]) -> Callable[[], Awaitable[str]]:
        """Send what a batch needs; return the function that creates it and returns its id.

        Raises:
            AgentError: the provider refused it or is away. No batch was created by `prepare`; whether one
                was created by the function is known only of a request that was refused.
        """
        ...

    async def find(self, batch: OwnBatch, others: Collection[str]) -> str | None:
        """Return the id of a batch; None if it was not created. `others` are ids of other batches.

        Raises:
            AgentError: the provider is away, or it cannot tell yet; ask again later.
        """
        ...

    async def cancel(self, batch_id: str) -> None:
        """Stop a batch: items that have an answer are paid for. A batch that has ended stays as it is.

        Raises:
            AgentError: the provider refused it or is away.
        """
        ...

    async def results(self, batch_id: str) -> AsyncIterator[BatchResult] | None:
        """Return the results of a batch, in any order; None until it has ended.

        An item that is not among them has no answer.

        Raises:
            AgentError: the provider is away, also while the results are read.
        """
        ...


@runtime_checkable
class BatchProvider(LLMProvider, Protocol):
    """A provider that can answer calls in batches."""

    def batch_api(self) -> BatchApi:
        """Return the batches of the model."""
        ...

    def batch_body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        """Return the body of a request.

        Raises:
            Rejected: a part of the newest message cannot be sent.
        """
        ...

    def read_answer(self, answer: JsonObject, *, tools: Iterable[JsonObject]) -> Iterator[LLMStreamChunk]:
        """Yield an answer of a batch as chunks of a stream; see `LLMProvider`.

        Raises:
            Unavailable: it is not valid.
        """
        ...
