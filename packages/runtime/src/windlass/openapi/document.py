"""OpenAPI documents: the chosen operations of a document 3.0 or 3.1, with their arguments as one JSON Schema.

Nothing is fetched: references lead into the document itself, and others are refused. Parameters and bodies
are read as the specification says; what a tool cannot send, such as cookies or multipart, is refused at the
start.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, cast
from urllib.parse import unquote

from windlass.errors import Rejected, meant, wrong
from windlass.limits import DESCRIPTION_CHARS_MAX
from windlass_protocol import JsonObject, canonical
from windlass_protocol.frozen import sealed
from windlass_protocol.lazy import lazy_pattern

METHODS: Final = ("get", "head", "options", "post", "put", "patch", "delete")
BODY: Final = "body"
"""The argument with the body of a request."""
FORM: Final = "application/x-www-form-urlencoded"
_VERSION: Final = lazy_pattern(r"3\.[01]\.\d+")
_SCHEMAS: Final = "#/components/schemas/"
_DROPPED: Final = frozenset({"discriminator", "xml", "externalDocs", "example", "nullable"})
"""Keywords of OpenAPI that JSON Schema does not have."""
_LEVELS_MAX: Final = 64


@sealed
class Parameter:
    """A parameter of an operation."""

    name: str
    argument: str
    """The name of the argument; it differs if two parameters have the same name."""
    place: str
    """path, query or header."""
    style: str
    explode: bool
    is_required: bool


@sealed
class Operation:
    """An operation of a document."""

    operation_id: str
    method: str
    path: str
    description: str
    parameters: tuple[Parameter, ...]
    body_type: str | None
    """The media type of the body; None if the operation takes none."""
    schema: JsonObject
    """The arguments."""
    security: tuple[tuple[str, ...], ...]
    """Alternatives of the names of security schemes; empty if none is needed."""
    fingerprint: str
    """`sha256:` and the digest of everything that counts."""


class ApiDocument:
    """A document, read once."""

    def __init__(self, name: str, content: Mapping[str, object]) -> None:
        self._name = name
        self._content = content
        version = str(content.get("openapi", ""))
        if not _VERSION.fullmatch(version):
            older = "; convert it from Swagger 2.0 to OpenAPI 3 first" if "swagger" in content else ""
            raise self._wrong(f"openapi is a version 3.0 or 3.1, found {version[:20]!r}{older}")
        self._is_old = version.startswith("3.0")
        self.schemes = cast("Mapping[str, JsonObject]", self._components("securitySchemes"))
        self._operations = self._found()

    @property
    def address(self) -> str | None:
        """The first server of the document that needs no variables; None if there is none."""
        servers = cast("list[JsonObject]", self._content.get("servers") or [])
        found = [str(one.get("url", "")) for one in servers]
        return next(
            (url for url in found if "{" not in url and url.startswith(("https://", "http://"))), None
        )

    def operation(self, operation_id: str) -> Operation:
        """Return an operation.

        Raises:
            Rejected: there is none with this id, or a tool cannot call it.
        """
        found = self._operations.get(operation_id)
        if found is None:
            near = meant([operation_id], [*self._operations])
            raise self._wrong(f"unknown operation {operation_id}{near}")
        method, path, item, said = found
        given = [*cast("list[JsonObject]", item.get("parameters") or [])]
        given += cast("list[JsonObject]", said.get("parameters") or [])
        # A parameter of the operation replaces that of its path.
        known = {(str(one["name"]), str(one["in"])): one for one in map(self._resolved, given)}
        defs: dict[str, object] = {}
        properties: dict[str, object] = {}
        parameters: list[Parameter] = []
        for (name, place), one in known.items():
            made = self._parameter(operation_id, name, place, one, taken=properties)
            if made is not None:
                parameters.append(made)
                properties[made.argument] = self._described(one, self._schema_of(one), defs)
        body_type, required = None, [one.argument for one in parameters if one.is_required]
        if "requestBody" in said:
            body = self._resolved(cast(JsonObject, said["requestBody"]))
            body_type, schema = self._body(operation_id, body)
            properties[BODY] = self._described(body, schema, defs)
            required += [BODY] if body.get("required") else []
        arguments: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if defs:
            arguments["$defs"] = defs
        words = [str(said.get(one) or "").strip() for one in ("summary", "description")]
        description = "\n".join(one for one in words if one) or f"{method.upper()} {path}"
        security = cast("list[JsonObject]", said.get("security", self._content.get("security") or []))
        alternatives = tuple(tuple(one) for one in security)
        counted: object = [operation_id, method, path, description, arguments, [*map(list, alternatives)]]
        return Operation(
            operation_id,
            method,
            path,
            description[:DESCRIPTION_CHARS_MAX],
            tuple(parameters),
            body_type,
            cast(JsonObject, arguments),
            alternatives,
            f"sha256:{sha256(canonical(cast(JsonObject, counted))).hexdigest()}",
        )

    def _found(self) -> dict[str, tuple[str, str, JsonObject, JsonObject]]:
        operations: dict[str, tuple[str, str, JsonObject, JsonObject]] = {}
        for path, given in cast("Mapping[str, JsonObject]", self._content.get("paths") or {}).items():
            item = self._resolved(given)
            for method in METHODS:
                if method in item:
                    said = cast(JsonObject, item[method])
                    operations[str(said.get("operationId") or f"{method} {path}")] = (
                        method,
                        path,
                        item,
                        said,
                    )
        return operations

    def _parameter(
        self, operation_id: str, name: str, place: str, one: JsonObject, *, taken: Mapping[str, object]
    ) -> Parameter | None:
        if place not in ("path", "query", "header"):
            if one.get("required"):
                raise self._wrong(
                    f"operation {operation_id}: parameter {name} is in a {place}: not supported"
                )
            return None
        style = str(one.get("style") or ("form" if place == "query" else "simple"))
        if style not in ("form", "simple", "deepObject"):
            raise self._wrong(f"operation {operation_id}: parameter {name} has style {style}: not supported")
        is_required = place == "path" or one.get("required") is True
        explode = bool(one.get("explode", style != "simple"))
        is_free = name not in taken and name != BODY
        return Parameter(name, name if is_free else f"{place}_{name}", place, style, explode, is_required)

    def _schema_of(self, one: JsonObject) -> JsonObject:
        content = one.get("content")
        if isinstance(content, dict):
            raise self._wrong(f"parameter {one.get('name')} has content instead of a schema: not supported")
        return cast(JsonObject, one.get("schema") or {})

    def _body(self, operation_id: str, body: JsonObject) -> tuple[str, JsonObject]:
        content = cast("Mapping[str, JsonObject]", body.get("content") or {})
        for kind, media in content.items():
            plain = kind.partition(";")[0].strip().lower()
            if plain == "application/json" or plain.endswith("+json") or plain == FORM:
                return plain, cast(JsonObject, media.get("schema") or {})
        raise self._wrong(f"operation {operation_id}: a body is JSON or a form, found {', '.join(content)}")

    def _described(self, one: JsonObject, schema: JsonObject, defs: dict[str, object]) -> object:
        made = cast("dict[str, object]", self._plain(schema, defs))
        description = one.get("description")
        return {"description": description, **made} if isinstance(description, str) else made

    def _plain(self, schema: object, defs: dict[str, object], level: int = 0) -> object:
        """Return a schema as plain JSON Schema 2020-12; what it refers to is added to `defs`."""
        if level > _LEVELS_MAX:
            raise self._wrong(f"a schema has more than {_LEVELS_MAX} levels")
        if isinstance(schema, list):
            return [self._plain(one, defs, level + 1) for one in cast("list[object]", schema)]
        if not isinstance(schema, dict):
            return schema
        given = cast("dict[str, object]", schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix(_SCHEMAS).replace("/", ".")
            if name not in defs:
                defs[name] = {}  # a schema may contain itself
                defs[name] = self._plain(self._lookup(reference), defs)
            return {"$ref": f"#/$defs/{name}"}
        made = {
            key: self._plain(value, defs, level + 1)
            for key, value in given.items()
            if key not in _DROPPED and not key.startswith("x-")
        }
        return _current(given, made) if self._is_old else made

    def _resolved(self, one: JsonObject) -> JsonObject:
        for _ in range(_LEVELS_MAX):
            reference = one.get("$ref")
            if not isinstance(reference, str):
                return one
            one = cast(JsonObject, self._lookup(reference))
        raise self._wrong("references lead in a circle")

    def _lookup(self, reference: str) -> object:
        found: object = self._content
        for part in reference.split("/")[1:] if reference.startswith("#/") else [""]:
            # A JSON pointer (RFC 6901) in the fragment of an address.
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            found = _get(found, name)
        if not isinstance(found, Mapping):
            raise self._wrong(f"reference {reference[:100]} does not lead to a part of the document")
        return cast(object, found)

    def _components(self, kind: str) -> Mapping[str, object]:
        components = cast("Mapping[str, Mapping[str, object]]", self._content.get("components") or {})
        return components.get(kind) or {}

    def _wrong(self, message: str) -> Rejected:
        return wrong(f"OpenAPI document {self._name}: {message}")


def _get(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def _current(given: Mapping[str, object], made: dict[str, object]) -> dict[str, object]:
    """Return a schema of OpenAPI 3.0 in the current dialect: `nullable`, and exclusive limits as flags."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if made.get(exclusive) is True and limit in made:
            made[exclusive] = made.pop(limit)
        elif isinstance(made.get(exclusive), bool):
            del made[exclusive]
    if given.get("nullable") is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        if isinstance(made.get("enum"), list):
            made["enum"] = [*cast("list[object]", made["enum"]), None]
    return made
