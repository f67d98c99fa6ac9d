"""OpenAPI documents: the chosen operations of a document 3.0 or 3.1, with their arguments as one JSON Schema.

Nothing is fetched: references lead into the document itself, and others are refused. Parameters and bodies
are read as the specification says; what a tool cannot send, such as cookies or multipart, is refused at the
start.
"""

from collections.abc import Callable, Mapping
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
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords with schemas by name: a property may be named like a keyword."""
_DATA: Final = frozenset({"enum", "const", "default", "examples"})
"""Keywords with data instead of schemas."""
_LEVELS_MAX: Final = 64
_PARTS_MAX: Final = 200_000
"""Parts of the schemas of one operation. An alias of YAML counts each time that it is used."""
_NOT_PARAMETERS: Final = frozenset(
    {"accept", "authorization", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that no parameter sets: the specification says so, or they belong to the connection."""
_UNNAMED: Final = lazy_pattern(r"[^A-Za-z0-9._-]+")


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

    def __init__(self, name: str, content: Mapping[str, object], *, url: str | None = None) -> None:
        self._name = name
        self._content = content
        self._url = url
        version = str(content.get("openapi", ""))
        if not _VERSION.fullmatch(version):
            older = "; convert it from Swagger 2.0 to OpenAPI 3 first" if "swagger" in content else ""
            raise self._wrong(f"openapi is a version 3.0 or 3.1, found {version[:20]!r}{older}")
        self._is_old = version.startswith("3.0")
        self._repeated: set[str] = set()
        try:
            self.schemes = cast("Mapping[str, JsonObject]", self._components("securitySchemes"))
            self._operations = self._found()
            self.address: Final = url or self._server()
        except (AttributeError, TypeError) as error:
            raise self._wrong("paths, servers or components are not as the specification says") from error

    def _server(self) -> str | None:
        """Return the first server of the document that needs no variables; None if there is none."""
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
        if operation_id in self._repeated:
            raise self._wrong(f"two operations have the operationId {operation_id}")
        try:
            return self._operation(operation_id, *found)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"operation {operation_id} is not as the specification says ({type(error).__name__})"
            raise self._wrong(problem) from error

    def _operation(
        self, operation_id: str, method: str, path: str, item: JsonObject, said: JsonObject
    ) -> Operation:
        given = [*cast("list[JsonObject]", item.get("parameters") or [])]
        given += cast("list[JsonObject]", said.get("parameters") or [])
        # A parameter of the operation replaces that of its path.
        known = {(str(one["name"]), str(one["in"])): one for one in map(self._resolved, given)}
        schemas = _Schemas(self._lookup, self._wrong, is_old=self._is_old)
        properties: dict[str, object] = {}
        parameters: list[Parameter] = []
        for (name, place), one in known.items():
            made = self._parameter(operation_id, name, place, one, taken=properties)
            if made is not None:
                parameters.append(made)
                properties[made.argument] = _described(one, schemas.plain(self._schema_of(one)))
        body_type, required = None, [one.argument for one in parameters if one.is_required]
        if "requestBody" in said:
            body = self._resolved(cast(JsonObject, said["requestBody"]))
            body_type, schema = self._body(operation_id, body)
            properties[BODY] = _described(body, schemas.plain(schema))
            required += [BODY] if body.get("required") else []
        arguments: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if schemas.defs:
            arguments["$defs"] = schemas.defs
        words = [str(said.get(one) or "").strip() for one in ("summary", "description")]
        description = "\n".join(one for one in words if one) or f"{method.upper()} {path}"
        security = cast("list[JsonObject]", said.get("security", self._content.get("security") or []))
        alternatives = tuple(tuple(one) for one in security)
        counted: object = [
            *(operation_id, method, path, description, arguments, [*map(list, alternatives)]),
            [[one.name, one.argument, one.place, one.style, one.explode] for one in parameters],
            body_type,
            {name: self._carrier(name) for names in alternatives for name in names},
            # An address that the program gives is its own choice.
            self.address if self._url is None else None,
        ]
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
                    operation_id = str(said.get("operationId") or f"{method} {path}")
                    if operation_id in operations:
                        self._repeated.add(operation_id)
                    operations[operation_id] = (method, path, item, said)
        return operations

    def _carrier(self, scheme: str) -> list[object]:
        """Return where and how the credentials of a security scheme are sent."""
        found = self.schemes.get(scheme) or {}
        return [found.get(one) for one in ("type", "in", "name", "scheme")]

    def _parameter(
        self, operation_id: str, name: str, place: str, one: JsonObject, *, taken: Mapping[str, object]
    ) -> Parameter | None:
        if place == "header" and name.lower() in _NOT_PARAMETERS:
            return None
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


class _Schemas:
    """The schemas of one operation as plain JSON Schema 2020-12."""

    def __init__(
        self, lookup: Callable[[str], object], refused: Callable[[str], Rejected], *, is_old: bool
    ) -> None:
        self._lookup = lookup
        self._refused = refused
        self._is_old = is_old
        self._names: dict[str, str] = {}
        """Names by reference."""
        self._taken: set[str] = set()
        self._ahead: list[str] = []
        """References that were met and not followed yet."""
        self._parts = 0
        self.defs: dict[str, object] = {}
        """The schemas that others refer to, by name."""

    def plain(self, schema: object) -> object:
        """Return a schema; those that it refers to, directly or not, are in `defs`."""
        made = self._plain(schema, 0)
        # One after the other, not one within the other: a chain of references has any length.
        while self._ahead:
            reference = self._ahead.pop()
            self.defs[self._names[reference]] = self._plain(self._lookup(reference), 0)
        return made

    def _plain(self, schema: object, level: int) -> object:
        self._parts += 1
        if level > _LEVELS_MAX:
            raise self._refused(f"a schema has more than {_LEVELS_MAX} levels")
        if self._parts > _PARTS_MAX:
            raise self._refused(f"the schemas of an operation have more than {_PARTS_MAX:,} parts")
        if isinstance(schema, list):
            return [self._plain(one, level + 1) for one in cast("list[object]", schema)]
        if not isinstance(schema, dict):
            return schema
        given = cast("dict[str, object]", schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            return {"$ref": f"#/$defs/{self._name(reference)}"}
        made = {
            key: self._value(key, value, level + 1)
            for key, value in given.items()
            if key not in _DROPPED and not key.startswith("x-")
        }
        return _current(given, made) if self._is_old else made

    def _value(self, key: str, value: object, level: int) -> object:
        if key in _DATA:
            return value
        if key in _NAMED and isinstance(value, dict):
            named = cast("dict[str, object]", value)
            return {name: self._plain(one, level + 1) for name, one in named.items()}
        return self._plain(value, level)

    def _name(self, reference: str) -> str:
        """Return the name of the schema of a reference: one that a JSON pointer holds as it is."""
        known = self._names.get(reference)
        if known is None:
            plain = unquote(reference.removeprefix(_SCHEMAS)).replace("/", ".")
            known = base = _UNNAMED.sub("_", plain)
            number = 1
            while known in self._taken:
                number += 1
                known = f"{base}-{number}"
            self._taken.add(known)
            self._names[reference] = known
            self._ahead.append(reference)
        return known


def _described(one: JsonObject, schema: object) -> object:
    made, description = cast("dict[str, object]", schema), one.get("description")
    return {"description": description, **made} if isinstance(description, str) else made


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
