"""Routes: how the arguments of an endpoint are read from a request.

FastAPI describes the routes in the OpenAPI document. The arguments are read here, by a plan that is made once
for each route: FastAPI would look at every declaration again for each request. An endpoint takes what our
routes need: `Request`, `Depends`, parts of the path, a model of the query, headers, and a model of the body,
which `Guard` has parsed. It returns a `Response`, and a large one is compressed.
"""

import gzip
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from hashlib import sha256
from inspect import Parameter, signature
from typing import Annotated, Final, cast, get_args, get_origin, get_type_hints

from fastapi import params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.errors import near_names
from windlass.tools.calling import in_masking_thread
from windlass_protocol.codec_issues import invalid
from windlass_protocol.codec_words import EXPECTED, json_type
from windlass_protocol.frozen import frozen, sealed
from windlass_server.generated.table import OPERATIONS
from windlass_server.models import ServerOperation
from windlass_server.problems import not_found
from windlass_server.repeats import answer_once, read_key

Issue = Mapping[str, str]
"""A part of a request that does not fit: its `path`, and a `message` that quotes no value."""
Read = Callable[[Request, list[Issue]], object]
"""Reads an argument; adds to the issues if it does not fit."""
BODY: Final = "body"
"""The parsed body in the state of a request; missing if the request has none."""
_NONE: Final = object()
_PACKED_BYTES_MIN: Final = 16_384
"""Bytes of a body that is compressed; a smaller one is sent in a few packets."""
_CHECK: Final = "Value error, "
"""The words of pydantic before those of a check."""
_PACKED_LEVEL: Final = 1
"""The fastest: it makes a trace thirty times smaller, and a higher one hardly smaller still."""


class Route(APIRoute):
    """A route of the server."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI.

        Raises:
            RequestValidationError: an argument does not fit.
            HTTPException: the route does not take this method.
            Problem: the caller may not call it, and is told that there is no such route.
        """
        if self.methods and scope["method"] not in self.methods:
            raise HTTPException(405)
        request = Request(scope, receive, send)
        # `Guard` lets requests without a caller through to public operations alone.
        who = self._operation.who
        if who != "public" and not request.state.caller.principal.is_one_of(who):
            raise not_found("route")
        issues: list[Issue] = []
        values = self._plan.read(request, issues)
        if not self._plan.has_query:
            _read_no_query(request, issues)

        async def perform() -> Response:
            # What the path names comes first: only its owner learns what does not fit.
            solved = await self._plan.solve(request, {}, issues)
            if issues:
                raise RequestValidationError(issues)
            response = await self._plan.call(**values, **solved)
            assert isinstance(response, Response), "an endpoint returns its response"
            return response

        key = read_key(request) if self._operation.takes_key else None
        if key is None or issues:
            response = await perform()
        else:
            body = values.get(self._plan.body or "")
            assert body is None or isinstance(body, BaseModel), "a body is a model"
            headers = {name: request.headers[name] for name in self._plan.headers if name in request.headers}
            response = await answer_once(
                request, self._operation, key=key, body=body, headers=headers, perform=perform
            )
        await _pack(request, response)
        await response(scope, receive, send)

    @cached_property
    def _plan(self) -> "_Plan":
        return _Plan.of(self.endpoint)

    @cached_property
    def _operation(self) -> ServerOperation:
        return operation_of("".join(self.methods or ()), self.path)


_ID: Final = re.compile(r"\{\w+(?::path)?\}")
_OPERATIONS: Final = {(item.method, _ID.sub("{}", item.path)): item for item in OPERATIONS}


def operation_of(method: str, path: str) -> ServerOperation:
    """Return the operation of a route; its path may name the ids as it likes."""
    return _OPERATIONS[method, _ID.sub("{}", path)]


async def _pack(request: Request, response: Response) -> None:
    """Compress a large body if the client accepts that; streams have no body here.

    Lengths tell nothing to a foreign page: it cannot make a browser send the credentials of another one.
    """
    body = getattr(response, "body", b"")
    if len(body) < _PACKED_BYTES_MIN or not takes_gzip(request.headers.get("accept-encoding", "")):
        return
    response.body = await in_masking_thread(partial(gzip.compress, body, _PACKED_LEVEL, mtime=0))
    response.headers["content-length"] = str(len(response.body))
    response.headers["content-encoding"] = "gzip"
    response.headers.add_vary_header("accept-encoding")


def takes_gzip(accepted: str) -> bool:
    """Whether `Accept-Encoding` allows gzip; `gzip;q=0` does not, and counts more than `*`."""
    takes: dict[str, bool] = {}
    for item in accepted.lower().split(","):
        name, _, quality = item.partition(";")
        takes[name.strip()] = quality.strip().removeprefix("q=").rstrip("0.") != "" or not quality
    return takes.get("gzip", takes.get("*", False))


_PACKED_KINDS: Final = ("text/", "application/json", "application/javascript", "image/svg+xml")
"""Media types that are compressed; pictures and fonts already are."""


@sealed
class StaticBody:
    """A body that is the same for all callers, rendered and compressed once."""

    media_type: str
    raw: bytes
    packed: bytes | None
    tag: str

    def response(self, scope: Scope, headers: Mapping[str, str]) -> Response:
        """Return the response: the body, compressed if the client accepts that, or 304."""
        request = Headers(scope=scope)
        headers = {**headers, "etag": self.tag, "vary": "accept-encoding"}
        # Compared weakly, as the tag is the same for both codings.
        tags = [tag.strip().removeprefix("W/") for tag in request.get("if-none-match", "").split(",")]
        if "*" in tags or self.tag.removeprefix("W/") in tags:
            return Response(status_code=304, headers=headers)
        body = self.raw
        if self.packed is not None and takes_gzip(request.get("accept-encoding", "")):
            body, headers["content-encoding"] = self.packed, "gzip"
        headers["content-length"] = str(len(body))
        is_whole = scope["method"] == "GET"
        return Response(body if is_whole else b"", headers=headers, media_type=self.media_type)


def static_body(raw: bytes, media_type: str) -> StaticBody:
    """Return a body with its compressed form and its tag."""
    packed = gzip.compress(raw, 9, mtime=0) if media_type.startswith(_PACKED_KINDS) else None
    if packed is not None and len(packed) >= len(raw):
        packed = None
    return StaticBody(media_type, raw, packed, f'W/"{sha256(raw).hexdigest()[:32]}"')


@frozen
class _Plan:
    """The arguments of an endpoint or of a dependency."""

    call: Callable[..., Awaitable[object]]
    depends: tuple[tuple[str, "_Plan"], ...]
    reads: tuple[tuple[str, Read], ...]
    has_query: bool
    headers: tuple[str, ...]
    """The headers that it declares."""
    body: str | None
    """The argument with the body of the request."""

    @classmethod
    def of(cls, call: Callable[..., Awaitable[object]]) -> "_Plan":
        """Make the plan of a function from its annotations."""
        depends: list[tuple[str, _Plan]] = []
        reads: list[tuple[str, Read]] = []
        headers: list[str] = []
        has_query = False
        body: str | None = None
        hints = get_type_hints(call, include_extras=True)
        for name, parameter in signature(call).parameters.items():
            hint = hints[name]
            if hint is Request:
                reads.append((name, _request))
                continue
            kind = _kind(hint)
            if isinstance(kind, params.Depends):
                assert kind.dependency is not None, "a dependency names its function"
                depends.append((name, cls.of(kind.dependency)))
            else:
                reads.append((name, _reader(name, hint, kind, parameter.default)))
                has_query = has_query or isinstance(kind, params.Query)
                body = name if isinstance(kind, params.Body) else body
                if isinstance(kind, params.Header):
                    headers.append(kind.alias or name)
        return cls(call, tuple(depends), tuple(reads), has_query, tuple(headers), body)

    def read(self, request: Request, issues: list[Issue]) -> dict[str, object]:
        """Read the arguments that are in the request itself."""
        return {name: read(request, issues) for name, read in self.reads}

    async def solve(
        self, request: Request, solved: dict[object, object], issues: list[Issue]
    ) -> dict[str, object]:
        """Return the arguments that are dependencies; each is called once per request."""
        values: dict[str, object] = {}
        for name, plan in self.depends:
            value = solved.get(plan.call, _NONE)
            if value is _NONE:
                value = solved[plan.call] = await plan._call_dependency(request, solved, issues)
            values[name] = value
        return values

    async def _call_dependency(
        self, request: Request, solved: dict[object, object], issues: list[Issue]
    ) -> object:
        before = len(issues)
        values = {**await self.solve(request, solved, issues), **self.read(request, issues)}
        return await self.call(**values) if len(issues) == before else None


def _kind(hint: object) -> object:
    """Return how an argument is declared: the last part of its annotation."""
    assert get_origin(hint) is Annotated, f"an argument is annotated with its source, found {hint}"
    return get_args(hint)[-1]


def _reader(name: str, hint: type[object], kind: object, default: object) -> Read:
    match kind:
        case params.Path():
            return _path(name, hint)
        case params.Query():
            return _query(get_args(hint)[0])
        case params.Header():
            return _header(kind.alias or name, hint, default)
        case params.Body():
            return _body(hint, default)
        case _:
            raise TypeError(f"argument {name}: unknown source {kind!r}")


def _request(request: Request, issues: list[Issue]) -> Request:
    return request


def _path(name: str, hint: type[object]) -> Read:
    adapter: TypeAdapter[object] = TypeAdapter(hint)

    def read(request: Request, issues: list[Issue]) -> object:
        return _validate(adapter, request.path_params[name], f"path/{name}", issues)

    return read


def _query(model: type[BaseModel]) -> Read:
    nothing = model.model_validate({}) if _takes_nothing(model) else None

    def read(request: Request, issues: list[Issue]) -> object:
        if nothing is not None and not request.scope["query_string"]:
            return nothing
        items = request.query_params.multi_items()
        values: dict[str, JsonValue] = dict(items)
        if len(values) < len(items):
            names = [name for name, _ in items]
            repeated = sorted({name for name in names if names.count(name) > 1})
            issues += [_issue(f"query/{name}", "expected one value, found several") for name in repeated]
            return None
        try:
            return model.model_validate(values)
        except ValidationError as error:
            issues += _issues(error, values, "query", model=model)
        return None

    return read


class AnyQuery(BaseModel):
    """A query with any names, which have no meaning: probes of load balancers may add their own."""


AnyQueryDep = Annotated[AnyQuery, params.Query()]


class _NoQuery(BaseModel):
    """The query of a route without one: every name is an issue."""

    model_config = ConfigDict(extra="forbid")


def _takes_nothing(model: type[BaseModel]) -> bool:
    return not any(field.is_required() for field in model.model_fields.values())


_read_no_query: Final = _query(_NoQuery)


def _header(name: str, hint: type[object], default: object) -> Read:
    adapter: TypeAdapter[object] = TypeAdapter(hint)

    def read(request: Request, issues: list[Issue]) -> object:
        value = request.headers.get(name)
        return default if value is None else _validate(adapter, value, f"header/{name}", issues)

    return read


def _body(hint: type[object], default: object) -> Read:
    model = get_args(hint)[0]
    adapter: TypeAdapter[object] = TypeAdapter(model)

    def read(request: Request, issues: list[Issue]) -> object:
        value = request.scope["state"].get(BODY)
        if isinstance(value, dict):
            return _validate(adapter, cast(dict[str, JsonValue], value), "body", issues, model=model)
        if value is not None:
            issues.append(_issue("body", f"expected an object, found {json_type(value)}"))
            return default
        if default is Parameter.empty:
            issues.append(_issue("body", "expected an object, found no body"))
        return default

    return read


def _validate(
    adapter: TypeAdapter[object],
    value: JsonValue,
    part: str,
    issues: list[Issue],
    *,
    model: object = None,
) -> object:
    # Null does not leave a field out, see docs/decisions/numbers_and_null.md; strict validation refuses it.
    has_null = isinstance(value, dict) and None in value.values()
    try:
        return (
            adapter.validate_json(to_json(value), strict=True) if has_null else adapter.validate_python(value)
        )
    except ValidationError as error:
        issues += _issues(error, value, part, model=model)
    return None


def _issues(error: ValidationError, value: JsonValue, part: str, *, model: object = None) -> Iterator[Issue]:
    """Yield what does not fit a model or another type, at most as many issues as the codec lists."""
    issues = invalid(error, value).issues
    details = error.errors(include_url=False, include_context=False, include_input=False)
    for detail, issue in zip(details, issues, strict=False):
        # The checks of our own models quote no value, and say more than the codec knows of them.
        is_own = detail["type"] == "value_error" or detail["type"] not in EXPECTED
        text = detail["msg"].removeprefix(_CHECK) if is_own else issue.message
        if detail["type"] == "extra_forbidden":
            *path, name = detail["loc"]
            text += near_names([str(name)], _names_at(model, path))
        yield _issue(part + issue.path, text)


def _issue(path: str, message: str) -> Issue:
    return {"path": path, "message": message}


def _names_at(model: object, path: Sequence[int | str]) -> tuple[str, ...]:
    """Return the names of fields, as on the wire, of the model at a path in a model; none of another type."""
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        return ()
    models = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    if not path:
        return tuple(models)
    kind = models.get(str(path[0]))
    # An optional field is a union with None.
    return next((names for part in (kind, *get_args(kind)) if (names := _names_at(part, path[1:]))), ())
