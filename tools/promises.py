"""Hold the table of PROMISES.md against the tests that carry a promise's id.

A test proves a promise by its marker, `@pytest.mark.promise("J1")`; the table says which promises are proved,
partly proved or made for later, and where the proof is. Neither may say more than the other.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TypeGuard

_PATH = re.compile(r"`([^`]+)`")
_ID = re.compile(r"[A-Z]\d{1,2}")
_COLUMNS = ("id", "promise", "status", "proof")
_NO_PROOF = "—"


class PromiseError(ValueError):
    """The table or a marker is not written as it has to be."""


class Status(StrEnum):
    """How far a promise is kept today."""

    PROVED = "proved"
    PARTLY = "partly"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Promise:
    """A row of the table; a proof is a test file, or a folder with some."""

    promise_id: str
    status: Status
    proofs: tuple[PurePosixPath, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker in a test file."""

    promise_id: str
    path: PurePosixPath
    line: int


def read_table(page: str) -> list[Promise]:
    """The promises of a page, in its order.

    Raises:
        PromiseError: there is no table, or a row has another form; the message names the line.
    """
    rows = [
        (number, _cells(line)) for number, line in enumerate(page.splitlines(), 1) if line.startswith("|")
    ]
    body = [row for row in rows if row[1] != _COLUMNS and not set("".join(row[1])) <= set("-: ")]
    if len(body) != len(rows) - 2:
        raise PromiseError(f"PROMISES.md: expected one table with the columns {' | '.join(_COLUMNS)}")
    promises = [_promise(line, cells) for line, cells in body]
    for number, promise in enumerate(promises):
        if promise.promise_id in {other.promise_id for other in promises[:number]}:
            raise PromiseError(f"PROMISES.md:{promise.line}: {promise.promise_id} is there twice")
    return promises


def read_marks(path: PurePosixPath, source: str) -> Iterator[Mark]:
    """The promise markers of a Python file: on functions, in lists, on parameters.

    Raises:
        PromiseError: the id of a marker is not written out.
    """
    nodes = list(ast.walk(ast.parse(source, filename=str(path))))
    names = [node for node in nodes if _is_marker(node)]
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    for name in names:
        match calls.get(name):
            case ast.Call(args=[ast.Constant(value=str() as promise_id)], keywords=[]):
                yield Mark(promise_id, path, name.lineno)
            case _:
                raise PromiseError(f'{path}:{name.lineno}: write the id: @pytest.mark.promise("J1")')


def disagreements(promises: Sequence[Promise], marks: Sequence[Mark]) -> list[str]:
    """Everything that the table says and the tests do not, or the other way round."""
    known = {promise.promise_id for promise in promises}
    wrong = [
        f"{mark.path}:{mark.line}: {mark.promise_id} is not a promise of PROMISES.md"
        for mark in marks
        if mark.promise_id not in known
    ]
    for promise in promises:
        wrong += _disagreements(promise, [mark for mark in marks if mark.promise_id == promise.promise_id])
    return wrong


def _disagreements(promise: Promise, marks: Sequence[Mark]) -> Iterator[str]:
    row = f"PROMISES.md:{promise.line}: {promise.promise_id}"
    if promise.status is not Status.LATER and not marks:
        yield f"{row} is {promise.status} but no test carries its id"
        return
    for mark in marks:
        if promise.status is Status.LATER:
            yield f"{row} is for later but {mark.path}:{mark.line} proves it"
        elif not any(mark.path.is_relative_to(proof) for proof in promise.proofs):
            yield f"{row} does not name {mark.path}, which proves it on line {mark.line}"
    for proof in promise.proofs:
        if not any(mark.path.is_relative_to(proof) for mark in marks):
            yield f"{row} names {proof} but no test there carries its id"


def _promise(line: int, cells: tuple[str, ...]) -> Promise:
    where = f"PROMISES.md:{line}"
    if len(cells) != len(_COLUMNS):
        raise PromiseError(f"{where}: found {len(cells)} columns, expected {len(_COLUMNS)}")
    promise_id, words, status, proof = cells
    if not _ID.fullmatch(promise_id) or not words:
        raise PromiseError(
            f"{where}: expected an id like J1 and a promise, found {promise_id!r} and {words!r}"
        )
    if status not in {*Status}:
        raise PromiseError(f"{where}: the status is {status!r}, expected {', '.join(Status)}")
    proofs = tuple(PurePosixPath(path) for path in _PATH.findall(proof))
    if bool(proofs) == (status == Status.LATER) or (not proofs and proof != _NO_PROOF):
        raise PromiseError(
            f"{where}: the proof is {proof!r}; later has {_NO_PROOF}, the others name `tests/…`"
        )
    return Promise(promise_id, Status(status), proofs, line)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def _is_marker(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether this is `pytest.mark.promise`, called or not."""
    match node:
        case ast.Attribute(attr="promise", value=ast.Attribute(attr="mark")):
            return True
        case _:
            return False
