"""Reads `spec/operations.json`: the operations of the server."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

from tools.gen.load import Json, Schema, check_keywords, read_doc, read_type
from tools.gen.model import Constant, Spec, SpecError, Type

FILE: Final = "operations.json"
Repeat = Literal["harmless", "keyed", "derived", "refused"]
Who = Literal["public", "user", "improver", "operator"]
_NAME: Final = re.compile(r"[a-z][a-zA-Z]*")
_METHODS: Final = ("GET", "POST", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of a path, a name of a query, or a header."""

    wire: str
    doc: str
    type: Type
    schema: Schema
    is_required: bool = False
    default: Constant | float | None = None
    example: Constant | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the clients for an operation: most have one, with the name of the operation."""

    name: str
    doc: str
    fields: tuple[str, ...] | None
    """The fields of the body that it takes; None for all."""
    requires: tuple[str, ...]
    """Fields that it requires beside those that the body does."""
    fixed: dict[str, str]
    """Fields with one value."""
    answer: str | None
    """The definition of its answer."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the server."""

    group: str
    name: str
    summary: str
    doc: str
    method: str
    path: str
    who: Who
    repeat: Repeat
    ids: tuple[Parameter, ...]
    query: tuple[Parameter, ...]
    headers: tuple[Parameter, ...]
    body: str | None
    is_body_optional: bool
    status: int
    answer: str | None
    """The definition of the answer; None if it is not JSON."""
    media: tuple[str, ...]
    """The media types of an answer that is not JSON."""
    may_be_empty: bool
    items: str | None
    """The field of the answer with the items of a page."""
    problems: tuple[int, ...]
    example: Json
    methods: tuple[Method, ...]

    @property
    def id(self) -> str:
        """The group and the name."""
        return f"{self.group}.{self.name}"


@dataclass(frozen=True, slots=True)
class Group:
    """Operations on one kind of thing."""

    name: str
    doc: str
    operations: tuple[Operation, ...]


def load_operations(folder: Path, spec: Spec) -> tuple[Group, ...]:
    """Return the groups of operations; raises SpecError that names the place."""
    raw = _read(folder)
    check_keywords(raw, FILE, "title", "description", "ids", "page", "groups")
    ids = {name: _parameter(name, body, f"ids.{name}") for name, body in _objects(raw, "ids").items()}
    page = load_page(folder)
    groups = tuple(_group(name, body, ids, page) for name, body in _objects(raw, "groups").items())
    seen: dict[tuple[str, str], str] = {}
    for operation in (operation for group in groups for operation in group.operations):
        for name in (operation.body, operation.answer):
            if name is not None and name not in spec.home:
                raise SpecError(f"{operation.id}: there is no definition {name}")
        route = (operation.method, re.sub(r"\{\w+\}", "{}", operation.path))
        if route in seen:
            raise SpecError(f"{operation.id}: {seen[route]} has the same method and path")
        seen[route] = operation.id
    return groups


def load_page(folder: Path) -> tuple[Parameter, ...]:
    """Return the query that every list has."""
    return tuple(
        _parameter(name, body, f"page.{name}") for name, body in _objects(_read(folder), "page").items()
    )


def _read(folder: Path) -> dict[str, Json]:
    return cast(dict[str, Json], json.loads((folder / FILE).read_text("utf-8")))


def _objects(raw: Schema, name: str) -> dict[str, Schema]:
    return cast(dict[str, Schema], raw.get(name, {}))


def _group(name: str, raw: Schema, ids: dict[str, Parameter], page: tuple[Parameter, ...]) -> Group:
    check_keywords(raw, name, "description", "operations")
    operations = _objects(raw, "operations").items()
    return Group(
        name, read_doc(raw, name), tuple(_operation(name, key, body, ids, page) for key, body in operations)
    )


def _operation(
    group: str, name: str, raw: Schema, ids: dict[str, Parameter], page: tuple[Parameter, ...]
) -> Operation:
    where = f"{group}.{name}"
    check_keywords(
        raw,
        where,
        *("summary", "description", "method", "path", "who", "repeat", "items", "query", "headers", "body"),
        *("isBodyOptional", "status", "answer", "media", "mayBeEmpty", "example", "problems", "clients"),
    )
    method, path, answer = (cast(str | None, raw.get(key)) for key in ("method", "path", "answer"))
    media = tuple(cast(list[str], raw.get("media", [])))
    if not _NAME.fullmatch(name) or method not in _METHODS or path is None or not path.startswith("/"):
        raise SpecError(f"{where}: needs a name in camelCase, one of {', '.join(_METHODS)}, and a path")
    if (answer is None) == (not media):
        raise SpecError(
            f"{where}: say the definition of its answer, or the media types of an answer that is no JSON"
        )
    repeat = raw.get("repeat", "harmless" if method == "GET" else None)
    who = raw.get("who")
    if repeat not in get_args(Repeat) or who not in get_args(Who):
        raise SpecError(f"{where}: repeat is one of {get_args(Repeat)}, and who one of {get_args(Who)}")
    query = tuple(_parameter(key, body, f"{where}?{key}") for key, body in _objects(raw, "query").items())
    items = cast(str | None, raw.get("items"))
    return Operation(
        group,
        name,
        summary=cast(str, raw["summary"]),
        doc=read_doc(raw, where),
        method=method,
        path=path,
        who=cast(Who, who),
        repeat=cast(Repeat, repeat),
        ids=tuple(_id_of(ids, key, where) for key in re.findall(r"\{(\w+)\}", path)),
        query=query if items is None else (*page, *query),
        headers=tuple(_parameter(key, body, where) for key, body in _objects(raw, "headers").items()),
        body=cast(str | None, raw.get("body")),
        is_body_optional=raw.get("isBodyOptional") is True,
        status=cast(int, raw["status"]),
        answer=answer,
        media=media,
        may_be_empty=raw.get("mayBeEmpty") is True,
        items=items,
        problems=tuple(cast(list[int], raw.get("problems", []))),
        example=raw.get("example"),
        methods=tuple(_methods(name, raw, where)),
    )


def _methods(name: str, raw: Schema, where: str) -> Iterator[Method]:
    """Yield the methods of the clients."""
    answer = cast(str | None, raw.get("answer"))
    for key, body in (_objects(raw, "clients") or {name: {"description": raw["description"]}}).items():
        check_keywords(body, f"{where} {key}", "description", "fields", "requires", "fixed", "answer")
        fields = cast(list[str] | None, body.get("fields"))
        yield Method(
            key,
            read_doc(body, f"{where} {key}"),
            None if fields is None else tuple(fields),
            tuple(cast(list[str], body.get("requires", []))),
            cast(dict[str, str], body.get("fixed", {})),
            cast(str | None, body.get("answer", answer)),
        )


def _id_of(ids: dict[str, Parameter], name: str, where: str) -> Parameter:
    if name not in ids:
        raise SpecError(f"{where}: the path names {name}, which ids does not describe")
    return ids[name]


def _parameter(wire: str, raw: Schema, where: str) -> Parameter:
    own = ("description", "required", "default", "example")
    schema = {key: value for key, value in raw.items() if key not in own}
    return Parameter(
        wire,
        read_doc(raw, where),
        read_type(schema, where),
        schema,
        is_required=raw.get("required") is True,
        default=cast("Constant | float | None", raw.get("default")),
        example=cast("Constant | None", raw.get("example")),
    )
