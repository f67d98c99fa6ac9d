"""Port of documents: small named values beside the sessions, such as schedules, due at a time or never."""

from typing import Final, Protocol

from windlass_protocol import JsonObject
from windlass_protocol.frozen import frozen

SCHEDULE: Final = "schedule"
"""The kind of the document of a schedule."""
RUN_PUSH: Final = "run-push"
"""The kind of the documents with the push configurations of runs."""
BATCH: Final = "batch"
"""The kind of the document of a batch of model calls, until its results were read."""
BATCH_ITEM: Final = "batch-item"
"""The kind of the documents of the model calls that runs have in batches."""
WORKFLOWS: Final = "workflows"
"""The kind of the documents of owners: the versions of the workflows that each has, by its id."""
SURVIVED: Final = "survived"
"""The kind of the documents of runs: the epochs of owners that lost the session and went on."""
RESTORED: Final = "restored"
"""The kind of the documents of sessions that are held after a restore, by their ids."""
OF_RUNS: Final = (RUN_PUSH, BATCH_ITEM, SURVIVED)
"""Kinds of documents that belong to a run.

Each has the id of its run as its name, and is deleted in the transaction that deletes the run.
"""


@frozen
class Document:
    """A small JSON document that is replaced as a whole, such as a schedule."""

    kind: str
    name: str
    revision: int
    """1 for the first version; every replacement adds 1."""
    body: JsonObject
    due_at_ms: int | None = None
    """When something has to be done about it, in milliseconds since 1970."""


class Documents(Protocol):
    """Documents by kind and name. A write names the revision that it replaces."""

    async def put_document(self, document: Document) -> None:
        """Write a document durably: as the first version, or in place of the revision before its own.

        Raises:
            Conflict: another revision is stored, or none.
            Rejected: the body is larger than `DOCUMENT_BYTES_MAX`.
            Unavailable: nothing was written.
        """
        ...

    async def drop_document(self, document: Document) -> None:
        """Delete a document for good.

        Raises:
            Conflict: another revision is stored, or none.
            Unavailable: nothing was deleted.
        """
        ...

    async def document(self, kind: str, name: str) -> Document | None:
        """Return a document; None if it does not exist."""
        ...

    async def documents(
        self, kind: str, *, after: str | None = None, limit: int = 100
    ) -> tuple[Document, ...]:
        """Return documents of a kind, by name."""
        ...

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        """Return documents of a kind that are due, the earliest first."""
        ...

    async def next_document_ms(self, kind: str) -> int | None:
        """Return when the next document of a kind is due; None if none is."""
        ...
