"""Data sets that a store keeps: made, filled case by case, changed, and read as a `Dataset`.

A data set is one document, and each of its cases another one in the form of a file. The document of the data
set repeats what follows from the cases: how many there are, and the version of all. It is written after them,
so a kill between the two leaves it behind, and the next change or `get` brings it up to date.

Scorers are kept as data. Nothing here imports a function that one names, except `load`.
"""

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, TypedDict, Unpack, cast

from pydantic import JsonValue

from windlass.catalog.reading import Page, check_limit, page_of, place_of
from windlass.engine.clocks import moment
from windlass.errors import Conflict, wrong
from windlass.evals.dataset import (
    Case,
    Conversation,
    Dataset,
    case_of_run,
    check_title,
    read_case,
    text_of,
    version_of_data,
)
from windlass.evals.results import keep_document
from windlass.limits import WRITES_MAX
from windlass.ports.documents import Document
from windlass.ports.store import Store
from windlass.refusals import change_conflict, check_part, missing_port, too_many_writers, unknown_document
from windlass.runtime.compose import AgentRuntime
from windlass_protocol import EvalDataset, EvalDatasetCase, JsonObject, canonical

DATASET: Final = "dataset"
"""The kind of the document of a data set."""
CASE: Final = "dataset-case"
"""The kind of the document of a case."""
KEPT_CASES_MAX: Final = 10_000
"""Cases of a data set in a store."""
_PAGE: Final = 200
_AT_ONCE: Final = 16


class CaseChanges(TypedDict, total=False):
    """The parts of a case to replace; the rest stays as it is."""

    inputs: JsonValue | Conversation
    expected: JsonValue
    metadata: JsonObject
    tags: Sequence[str]


class Datasets:
    """The data sets of one owner in a store; with `owner` None, those without an owner."""

    def __init__(self, runtime: AgentRuntime, *, owner: str | None = None) -> None:
        if runtime.core.ports.store is None:
            raise missing_port("run journal")
        self._store: Store = runtime.core.ports.store
        self._runtime = runtime
        self._owner = owner
        self._mine = f"{_hash('' if owner is None else f'={owner}')}/"

    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[EvalDataset]:
        """Return a page of data sets, by name."""
        begin = self._mine if after is None else f"{self._mine}{check_title(after, 'after')}"
        page = await self._store.documents(DATASET, after=begin, limit=check_limit(limit) + 1)
        infos = [_info(document) for document in page if document.name.startswith(self._mine)]
        items = tuple(infos[:limit])
        return Page(items, items[-1].name if len(infos) > limit else None)

    async def make(self, name: str) -> EvalDataset:
        """Make a data set without cases; one with this name stays as it is."""
        check_title(name, "the name of a data set")
        return await self._settle(name, scorers=None)

    async def get(self, name: str) -> EvalDataset:
        """Return a data set.

        Raises:
            Conflict: it is unknown.
        """
        await self._head(name)
        return await self._settle(name, scorers=None)

    async def cases(self, name: str, *, after: str | None = None, limit: int = 100) -> Page[EvalDatasetCase]:
        """Return a page of the cases of a data set, in their order; none if it is unknown."""
        begin = place_of(after, "case") or 0
        documents = (await self._cases(name))[begin:][: check_limit(limit) + 1]
        numbered = [*enumerate(map(_case_info, documents), begin + 1)]
        page = page_of(numbered, limit, kind="case", place=lambda pair: pair[0])
        return Page(tuple(case for _, case in page.items), page.next)

    async def load(self, name: str, *, evaluators: Sequence[type] = ()) -> Dataset:
        """Return a data set with all of its cases, for an experiment.

        See `Dataset.of_data` for `evaluators` and functions; files are looked for in the working directory.

        Raises:
            Conflict: it is unknown.
            Rejected: it names an evaluator or a function that is not there.
        """
        return Dataset.of_data(await self._data(name), evaluators=evaluators)

    async def text(self, name: str, kind: str = "yaml") -> str:
        """Return a data set as the text of a file: `yaml`, `json` or `jsonl`.

        Raises:
            Conflict: it is unknown.
        """
        return text_of(await self._data(name), kind)

    async def save(self, dataset: Dataset) -> EvalDataset:
        """Keep a data set under its name, in place of what is there.

        Raises:
            Rejected: it has more than `KEPT_CASES_MAX` cases.
        """
        check_part(dataset, Dataset, what="dataset", words="a Dataset")
        _check_room(dataset.name, len(dataset.cases))
        documents = {document.name: document for document in await self._cases(dataset.name)}
        turns = asyncio.Semaphore(_AT_ONCE)

        async def put(at: int, case: Case) -> None:
            async with turns:
                document_name = self._document_name(dataset.name, case.name)
                await keep_document(self._runtime, CASE, document_name, {"at": at, "case": case.data()})

        await asyncio.gather(*(put(at, case) for at, case in enumerate(dataset.cases, 1)))
        mine = {self._document_name(dataset.name, case.name) for case in dataset.cases}
        for document in [document for name, document in documents.items() if name not in mine]:
            await self._drop(document)
        scorers = cast("builtins.list[JsonValue]", dataset.data().get("evaluators", []))
        return await self._settle(dataset.name, scorers=scorers)

    async def add(self, name: str, case: Case) -> EvalDatasetCase:
        """Add a case to a data set, which is made if it is unknown. An equal case stays as it is.

        Raises:
            Conflict: the data set has another case with this name.
            Rejected: it has `KEPT_CASES_MAX` cases.
        """
        check_title(name, "the name of a data set")
        check_part(case, Case, what="case", words="a Case")
        document_name = self._document_name(name, case.name)
        documents = await self._cases(name)
        data = await self._mask(case.data())
        version_of_data({"cases": [data]})  # refuses a case that is too large
        document = next((candidate for candidate in documents if candidate.name == document_name), None)
        if document is not None and document.body["case"] != data:
            raise change_conflict(
                f"data set {name} has another case named {case.name}: change it, or use another name"
            )
        if document is None:
            _check_room(name, len(documents) + 1)
            at = 1 + max((_at(other_document) for other_document in documents), default=0)
            document = Document(CASE, document_name, 1, {"at": at, "case": data})
            try:
                await self._store.put_document(document)
            except Conflict:  # another process adds it
                return await self.add(name, case)
        await self._settle(name, scorers=None)
        return _case_info(document)

    async def add_run(
        self, name: str, run_id: str, *, case: str | None = None, **changes: Unpack[CaseChanges]
    ) -> EvalDatasetCase:
        """Add a case with the message of a recorded run and its answer as the one expected, if it has one.

        `case` is its name, that of the run if left out; `changes` replaces what the run says.

        Raises:
            Conflict: the run is unknown, or the data set has another case with its name.
        """
        recorded = await case_of_run(run_id, runtime=self._runtime, needs_answer=False)
        return await self.add(name, replace(recorded, name=case or recorded.name, **changes))

    async def change(self, name: str, case: str, **changes: Unpack[CaseChanges]) -> EvalDatasetCase:
        """Change a case.

        Raises:
            Conflict: the data set or the case is unknown.
            Rejected: a value is invalid.
        """
        for _ in range(WRITES_MAX):
            document = await self._case(name, case)
            data = cast(JsonObject, document.body["case"])
            # Scorers stay as they are: reading them might import functions.
            scorers = {key: value for key, value in data.items() if key == "evaluators"}
            before = read_case({key: value for key, value in data.items() if key != "evaluators"}, 1)
            new = await self._mask({**replace(before, **changes).data(), **scorers})
            body: JsonObject = {**document.body, "case": new}
            after = replace(document, revision=document.revision + 1, body=body)
            try:
                if body != document.body:
                    await self._store.put_document(after)
            except Conflict:
                continue
            await self._settle(name, scorers=None)
            return _case_info(after)
        raise too_many_writers(f"data set {name}")

    async def remove(self, name: str, case: str) -> None:
        """Remove a case.

        Raises:
            Conflict: the data set or the case is unknown.
        """
        await self._drop(await self._case(name, case))
        await self._settle(name, scorers=None)

    async def delete(self, name: str) -> None:
        """Delete a data set; experiments on it stay.

        Raises:
            Conflict: it is unknown.
        """
        head = await self._head(name)
        for document in await self._cases(name):
            await self._drop(document)
        await self._drop(head)

    # documents

    async def _head(self, name: str) -> Document:
        document = await self._store.document(
            DATASET, f"{self._mine}{check_title(name, 'the name of a data set')}"
        )
        if document is None:
            raise unknown_document("data set", name)
        return document

    async def _case(self, name: str, case: str) -> Document:
        await self._head(name)
        document = await self._store.document(
            CASE, self._document_name(name, check_title(case, "the name of a case"))
        )
        if document is None:
            raise change_conflict(f"data set {name} has no case {case}")
        return document

    async def _cases(self, name: str) -> builtins.list[Document]:
        """Return the documents of the cases of a data set, in their order."""
        prefix = after = self._prefix(name)
        documents: builtins.list[Document] = []
        while page := await self._store.documents(CASE, after=after, limit=_PAGE):
            mine = [document for document in page if document.name.startswith(prefix)]
            documents += mine
            after = page[-1].name
            if len(mine) < _PAGE:
                break
        return sorted(documents, key=lambda document: (_at(document), document.name))

    async def _data(self, name: str) -> JsonObject:
        """Return a data set in the form of a file."""
        head = await self._head(name)
        return _file(name, await self._cases(name), cast("builtins.list[JsonValue]", head.body["scorers"]))

    async def _settle(self, name: str, *, scorers: builtins.list[JsonValue] | None) -> EvalDataset:
        """Write the document of a data set as it follows from its cases; with scorers, also those."""
        document_name = f"{self._mine}{name}"
        for _ in range(WRITES_MAX):
            document = await self._store.document(DATASET, document_name)
            cases = await self._cases(name)
            old: Mapping[str, JsonValue] = {"scorers": [], "hash": ""} if document is None else document.body
            specs = cast("builtins.list[JsonValue]", old["scorers"] if scorers is None else scorers)
            facts: JsonObject = {
                "name": name,
                "owner": self._owner,
                "scorers": cast("builtins.list[JsonValue]", (await self._mask({"_": specs}))["_"]),
            }
            facts["hash"] = version_of_data(
                _file(name, cases, cast("builtins.list[JsonValue]", facts["scorers"]))
            )
            if document is not None and facts["hash"] == old["hash"]:
                return _info(document)
            now = moment(self._runtime.core.ports.machine.clock).at
            body: JsonObject = {**facts, "cases": len(cases), "at": old.get("at", now), "changedAt": now}
            new = Document(DATASET, document_name, 1 if document is None else document.revision + 1, body)
            try:
                await self._store.put_document(new)
            except Conflict:
                continue
            return _info(new)
        raise too_many_writers(f"data set {name}")

    async def _drop(self, document: Document) -> None:
        current: Document | None = document
        for _ in range(WRITES_MAX):
            try:
                return await self._store.drop_document(current)
            except Conflict:
                current = await self._store.document(document.kind, document.name)
                if current is None:
                    return None
        raise too_many_writers("the data set")

    async def _mask(self, data: JsonObject) -> JsonObject:
        # A document is as durable as a record, so it must not hold a secret either.
        return await self._runtime.core.ports.scribe.mask_body(data)

    def _prefix(self, name: str) -> str:
        return f"{_hash(f'{self._mine}{name}')}/"

    def _document_name(self, name: str, case: str) -> str:
        return f"{self._prefix(name)}{_hash(case)}"


def case_name(inputs: JsonValue) -> str:
    """Return a name for a case that was given none: equal for equal inputs."""
    return f"case-{_hash(canonical(inputs).decode())[:8]}"


def _file(name: str, documents: Sequence[Document], scorers: builtins.list[JsonValue]) -> JsonObject:
    data: JsonObject = {"name": name, "cases": [document.body["case"] for document in documents]}
    return {**data, "evaluators": scorers} if scorers else data


def _info(document: Document) -> EvalDataset:
    facts = {key: value for key, value in document.body.items() if value is not None}
    return EvalDataset.model_validate({**facts, "scorers": _scorer_objects(document.body["scorers"])})


def _case_info(document: Document) -> EvalDatasetCase:
    data = cast("dict[str, JsonValue]", document.body["case"])
    metadata = dict(cast("Mapping[str, JsonValue]", data.get("metadata", {})))
    facts: dict[str, JsonValue] = {
        "name": data["name"],
        "inputs": data["inputs"],
        "expected": data.get("expected_output"),
        "tags": metadata.pop("tags", None),
        "runId": metadata.pop("run_id", None),
        "metadata": metadata or None,
        "scorers": _scorer_objects(data.get("evaluators", [])) or None,
    }
    return EvalDatasetCase.model_validate({key: value for key, value in facts.items() if value is not None})


def _scorer_objects(specs: JsonValue) -> builtins.list[JsonValue]:
    """Return scorers as objects; a file may hold the mere name of one."""
    return [{spec: {}} if isinstance(spec, str) else spec for spec in cast("builtins.list[JsonValue]", specs)]


def _at(document: Document) -> int:
    return cast(int, document.body["at"])


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:24]


def _check_room(name: str, cases: int) -> None:
    if cases > KEPT_CASES_MAX:
        raise wrong(
            f"data set {name} would have {cases:,} cases, limit {KEPT_CASES_MAX:,}: use a second data set"
        )
