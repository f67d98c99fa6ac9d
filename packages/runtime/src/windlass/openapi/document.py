"""OpenAPI documents: the chosen operations of a document 3.0 or 3.1, with their arguments as one JSON Schema.

Nothing is fetched: references lead into the document itself, and others are refused. Parameters and bodies
are read as the specification says; what a tool cannot send, such as cookies or multipart, is refused at the
start.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, cast
from urllib.parse import unquote

from windlass.errors import Rejected, near_names, wrong
from windlass.limits import DESCRIPTION_CHARS_MAX
from windlass_protocol import JsonObject, canonical
from windlass_protocol.frozen import sealed

METHODS: Final = ("get", "head", "options", "post", "put", "patch", "delete")
BODY: Final = "body"
"""The argument with the body of a request."""
FORM: Final = "application/x-www-form-urlencoded"
_VERSION: Final = re.compile(r"3\.[01]\.\d+")
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
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9._-]+")


@sealed
class ApiParameter:
    """A parameter of an operation."""

    name: str
    argument: str
    """The name of the argument; it differs if two parameters have the same name."""
    location: str
    """path, query or header."""
    style: str
    explode: bool
    is_required: bool


@sealed
class ApiOperation:
    """An operation of a document."""

    operation_id: str
    method: str
    path: str
    description: str
    parameters: tuple[ApiParameter, ...]
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
            self._operations = self._read_operations()
            self.address: Final = url or self._server()
        except (AttributeError, TypeError) as error:
            raise self._wrong("paths, servers or components are not as the specification says") from error

    def _server(self) -> str | None:
        """Return the first server of the document that needs no variables; None if there is none."""
        servers = cast("list[JsonObject]", self._content.get("servers") or [])
        urls = [str(server.get("url", "")) for server in servers]
        return next((url for url in urls if "{" not in url and url.startswith(("https://", "http://"))), None)

    def operation(self, operation_id: str) -> ApiOperation:
        """Return an operation.

        Raises:
            Rejected: there is none with this id, or a tool cannot call it.
        """
        definition = self._operations.get(operation_id)
        if definition is None:
            near = near_names([operation_id], [*self._operations])
            raise self._wrong(f"unknown operation {operation_id}{near}")
        if operation_id in self._repeated:
            raise self._wrong(f"two operations have the operationId {operation_id}")
        try:
            return self._operation(operation_id, *definition)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"operation {operation_id} is not as the specification says ({type(error).__name__})"
            raise self._wrong(problem) from error

    def _operation(
        self, operation_id: str, method: str, path: str, item: JsonObject, definition: JsonObject
    ) -> ApiOperation:
        declared = [*cast("list[JsonObject]", item.get("parameters") or [])]
        declared += cast("list[JsonObject]", definition.get("parameters") or [])
        # A parameter of the operation replaces that of its path.
        by_location = {(str(part["name"]), str(part["in"])): part for part in map(self._resolve, declared)}
        schemas = _Schemas(self._lookup, self._wrong, is_old=self._is_old)
        properties: dict[str, object] = {}
        parameters: list[ApiParameter] = []
        for (name, location), part in by_location.items():
            parameter = self._parameter(operation_id, name, location, part, properties=properties)
            if parameter is not None:
                parameters.append(parameter)
                properties[parameter.argument] = _add_description(part, schemas.plain(self._schema_of(part)))
        body_type, required = None, [parameter.argument for parameter in parameters if parameter.is_required]
        if "requestBody" in definition:
            body = self._resolve(cast(JsonObject, definition["requestBody"]))
            body_type, schema = self._body(operation_id, body)
            properties[BODY] = _add_description(body, schemas.plain(schema))
            required += [BODY] if body.get("required") else []
        arguments: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if schemas.defs:
            arguments["$defs"] = schemas.defs
        texts = [str(definition.get(field) or "").strip() for field in ("summary", "description")]
        description = "\n".join(text for text in texts if text) or f"{method.upper()} {path}"
        security = cast("list[JsonObject]", definition.get("security", self._content.get("security") or []))
        alternatives = tuple(tuple(schemes) for schemes in security)
        counted: object = [
            *(operation_id, method, path, description, arguments, [*map(list, alternatives)]),
            [[part.name, part.argument, part.location, part.style, part.explode] for part in parameters],
            body_type,
            {name: self._carrier(name) for names in alternatives for name in names},
            # An address that the program gives is its own choice.
            self.address if self._url is None else None,
        ]
        return ApiOperation(
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

    def _read_operations(self) -> dict[str, tuple[str, str, JsonObject, JsonObject]]:
        operations: dict[str, tuple[str, str, JsonObject, JsonObject]] = {}
        for path, path_item in cast("Mapping[str, JsonObject]", self._content.get("paths") or {}).items():
            item = self._resolve(path_item)
            for method in METHODS:
                if method in item:
                    definition = cast(JsonObject, item[method])
                    operation_id = str(definition.get("operationId") or f"{method} {path}")
                    if operation_id in operations:
                        self._repeated.add(operation_id)
                    operations[operation_id] = (method, path, item, definition)
        return operations

    def _carrier(self, scheme: str) -> list[object]:
        """Return where and how the credentials of a security scheme are sent."""
        security_scheme = self.schemes.get(scheme) or {}
        return [security_scheme.get(field) for field in ("type", "in", "name", "scheme")]

    def _parameter(
        self,
        operation_id: str,
        name: str,
        location: str,
        definition: JsonObject,
        *,
        properties: Mapping[str, object],
    ) -> ApiParameter | None:
        if location == "header" and name.lower() in _NOT_PARAMETERS:
            return None
        if location not in ("path", "query", "header"):
            if definition.get("required"):
                raise self._wrong(
                    f"operation {operation_id}: parameter {name} is in a {location}: not supported"
                )
            return None
        style = str(definition.get("style") or ("form" if location == "query" else "simple"))
        if style not in ("form", "simple", "deepObject"):
            raise self._wrong(f"operation {operation_id}: parameter {name} has style {style}: not supported")
        is_required = location == "path" or definition.get("required") is True
        explode = bool(definition.get("explode", style != "simple"))
        is_free = name not in properties and name != BODY
        return ApiParameter(
            name, name if is_free else f"{location}_{name}", location, style, explode, is_required
        )

    def _schema_of(self, parameter: JsonObject) -> JsonObject:
        content = parameter.get("content")
        if isinstance(content, dict):
            raise self._wrong(
                f"parameter {parameter.get('name')} has content instead of a schema: not supported"
            )
        return cast(JsonObject, parameter.get("schema") or {})

    def _body(self, operation_id: str, body: JsonObject) -> tuple[str, JsonObject]:
        content = cast("Mapping[str, JsonObject]", body.get("content") or {})
        for kind, media in content.items():
            plain = kind.partition(";")[0].strip().lower()
            if plain == "application/json" or plain.endswith("+json") or plain == FORM:
                return plain, cast(JsonObject, media.get("schema") or {})
        raise self._wrong(f"operation {operation_id}: a body is JSON or a form, found {', '.join(content)}")

    def _resolve(self, part: JsonObject) -> JsonObject:
        for _ in range(_LEVELS_MAX):
            reference = part.get("$ref")
            if not isinstance(reference, str):
                return part
            part = cast(JsonObject, self._lookup(reference))
        raise self._wrong("references lead in a circle")

    def _lookup(self, reference: str) -> object:
        value: object = self._content
        for part in reference.split("/")[1:] if reference.startswith("#/") else [""]:
            # A JSON pointer (RFC 6901) in the fragment of an address.
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            value = _get(value, name)
        if not isinstance(value, Mapping):
            raise self._wrong(f"reference {reference[:100]} does not lead to a part of the document")
        return cast(object, value)

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
        plain = self._plain(schema, 0)
        # One after the other, not one within the other: a chain of references has any length.
        while self._ahead:
            reference = self._ahead.pop()
            self.defs[self._names[reference]] = self._plain(self._lookup(reference), 0)
        return plain

    def _plain(self, schema: object, level: int) -> object:
        self._parts += 1
        if level > _LEVELS_MAX:
            raise self._refused(f"a schema has more than {_LEVELS_MAX} levels")
        if self._parts > _PARTS_MAX:
            raise self._refused(f"the schemas of an operation have more than {_PARTS_MAX:,} parts")
        if isinstance(schema, list):
            return [self._plain(item, level + 1) for item in cast("list[object]", schema)]
        if not isinstance(schema, dict):
            return schema
        keywords = cast("dict[str, object]", schema)
        reference = keywords.get("$ref")
        if isinstance(reference, str):
            return {"$ref": f"#/$defs/{self._name(reference)}"}
        plain = {
            key: self._value(key, value, level + 1)
            for key, value in keywords.items()
            if key not in _DROPPED and not key.startswith("x-")
        }
        return _current(keywords, plain) if self._is_old else plain

    def _value(self, key: str, value: object, level: int) -> object:
        if key in _DATA:
            return value
        if key in _NAMED and isinstance(value, dict):
            schemas = cast("dict[str, object]", value)
            return {name: self._plain(schema, level + 1) for name, schema in schemas.items()}
        return self._plain(value, level)

    def _name(self, reference: str) -> str:
        """Return the name of the schema of a reference: one that a JSON pointer holds as it is."""
        name = self._names.get(reference)
        if name is None:
            plain = unquote(reference.removeprefix(_SCHEMAS)).replace("/", ".")
            name = base = _UNNAMED.sub("_", plain)
            number = 1
            while name in self._taken:
                number += 1
                name = f"{base}-{number}"
            self._taken.add(name)
            self._names[reference] = name
            self._ahead.append(reference)
        return name


def _add_description(definition: JsonObject, schema: object) -> object:
    properties, description = cast("dict[str, object]", schema), definition.get("description")
    return {"description": description, **properties} if isinstance(description, str) else properties


def _get(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def _current(original: Mapping[str, object], schema: dict[str, object]) -> dict[str, object]:
    """Return a schema of OpenAPI 3.0 in the current dialect: `nullable`, and exclusive limits as flags."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and limit in schema:
            schema[exclusive] = schema.pop(limit)
        elif isinstance(schema.get(exclusive), bool):
            del schema[exclusive]
    if original.get("nullable") is True and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list):
            schema["enum"] = [*cast("list[object]", schema["enum"]), None]
    return schema
