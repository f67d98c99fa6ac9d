"""OpenAPI connections: operations of an HTTP API as tools.

Operations are chosen by name, and each tool is pinned by the hash of its definition. Credentials are names of
environment variables; neither the model nor the journal sees them. It needs the extra `client`.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypedDict, Unpack, cast
from urllib.parse import quote, urlencode, urlsplit

import yaml

from windlass import parts
from windlass.errors import check_name, install_hint, near_names, option_problem, wrong
from windlass.limits import NAME_CHARS_MAX
from windlass.openapi.document import BODY, FORM, ApiDocument, ApiOperation, ApiParameter
from windlass.tools import PIN, Tool, ToolFailed, ToolOptions, json_tool
from windlass.tools.calling import read_by_size
from windlass.tools.context import ToolContext
from windlass.yaml_value import TooManyValues, load_yaml
from windlass_harness.redact import SECRET_CHARS_MIN, Redactor
from windlass_protocol import EffectClass, JsonObject, ToolMode
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    import httpx2

DOCUMENT_BYTES_MAX: Final = 16 * 1_048_576
RESPONSE_BYTES_MAX: Final = 1_048_576
"""Bytes of one response; a longer one is an error."""
RESPONSE_VALUES_MAX: Final = 200_000
"""Values of JSON in one response; more is an error."""
ERROR_CHARS_MAX: Final = 500
"""Characters of the body of an error that the model sees."""
TIMEOUT_S: Final = 60.0
_BY_METHOD: Final[Mapping[str, tuple[ToolMode, EffectClass]]] = {
    "get": (ToolMode.READ, EffectClass.READ),
    "head": (ToolMode.READ, EffectClass.READ),
    "options": (ToolMode.READ, EffectClass.READ),
    "put": (ToolMode.EXTERNAL, EffectClass.IDEMPOTENT),
    "delete": (ToolMode.DESTRUCTIVE, EffectClass.IDEMPOTENT),
}
"""What a method does by the rules of HTTP; all others are external, and not repeated after a crash."""
_LATER: Final = frozenset({429, 502, 503, 504})
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")


class ApiOptions(TypedDict, total=False):
    """Options of an API."""

    url: str
    """The address of the API; the first server of the document when left out."""
    credentials: Mapping[str, str]
    """Environment variables with credentials, by the names of security schemes."""
    tools: Mapping[str, ToolOptions]
    """Options of tools, by operation: a mode that the method does not tell, a timeout, an approval."""
    pins: Mapping[str, str]
    """The hashes that operations must have; see `OpenApi.fingerprints`."""
    variable: Callable[[str], str | None]


class OpenApi:
    """An HTTP API; `tools` are for an Agent. Use it as `async with`, or call `aclose`."""

    def __init__(
        self,
        name: str,
        document: str | Path | Mapping[str, object],
        *,
        operations: Sequence[str],
        **options: Unpack[ApiOptions],
    ) -> None:
        problem = option_problem(options, ApiOptions, what="OpenApi", beside=("operations",))
        if problem is not None:
            raise wrong(problem)
        check_name(name, "an API")
        if isinstance(operations, str) or not operations:
            raise wrong(f"API {name}: operations is a list of operation ids, at least one")
        self._name = name
        self._options = options
        self._document = ApiDocument(name, _read(name, document), url=options.get("url"))
        self._operations = tuple(self._document.operation(operation_id) for operation_id in operations)
        self._address = _address(name, self._document.address)
        self._http: httpx2.AsyncClient | None = None
        self._credentials = {
            operation.operation_id: self._choose_schemes(operation) for operation in self._operations
        }
        if (
            options.get("url") is None
            and self._address.startswith("http:")
            and any(self._credentials.values())
        ):
            raise wrong(
                f"API {name}: its document names the address {self._address}, where credentials would go "
                "without encryption; give the address that you trust: url='https://…'"
            )
        for operation in options.get("tools", {}):
            if operation not in self.fingerprints:
                close = near_names([operation], list(self.fingerprints))
                raise wrong(f"API {name}: tools names {operation}, which is not among the operations{close}")
        for operation, pin in options.get("pins", {}).items():
            if self.fingerprints.get(operation) != pin:
                fingerprint = self.fingerprints.get(operation, "none: it is not among the operations")
                raise wrong(
                    f"API {name}: operation {operation} is not the one that was pinned, found {fingerprint}; "
                    "review its definition, then change the pin"
                )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The hash of each operation: path, method, description, arguments, security, and the address of the
        API if the document names it."""
        return {operation.operation_id: operation.fingerprint for operation in self._operations}

    @property
    def tools(self) -> tuple[Tool[..., object], ...]:
        """A tool for each operation, named `api__operation`."""
        return tuple(self._tool(operation) for operation in self._operations)

    def _tool(self, operation: ApiOperation) -> Tool[..., object]:
        async def run(arguments: JsonObject, context: ToolContext) -> object:
            return await self._call(operation, arguments)

        mode, effect = _BY_METHOD.get(operation.method, (ToolMode.EXTERNAL, EffectClass.ONCE))
        options = self._options.get("tools", {}).get(operation.operation_id, ToolOptions())
        if "mode" in options:
            # The method does not tell the effect of a mode that the host chose.
            effect = EffectClass.READ if options["mode"] == ToolMode.READ else EffectClass.ONCE
        tool_options = ToolOptions(
            name=f"{self._name}__{_OTHER.sub('_', operation.operation_id)}"[:NAME_CHARS_MAX],
            description=operation.description,
            mode=mode,
            effect=effect,
        )
        tool_options.update(options)
        metadata = {"openapi": operation.operation_id, PIN: operation.fingerprint}
        return json_tool(run, operation.schema, **tool_options).with_options(
            reads="untrusted", metadata=metadata
        )

    def _choose_schemes(self, operation: ApiOperation) -> tuple[str, ...]:
        """Return the security schemes to use: the first alternative with credentials for all of them."""
        if not operation.security:
            return ()
        credentials = self._options.get("credentials", {})
        for names in operation.security:
            if all(name in credentials for name in names):
                for name in names:
                    _check_scheme(self._name, name, self._document.schemes.get(name))
                return names
        needed = " or ".join(" and ".join(names) for names in operation.security)
        raise wrong(f"API {self._name}: operation {operation.operation_id} needs credentials for {needed}")

    async def _call(self, operation: ApiOperation, arguments: JsonObject) -> object:
        credentials = self._read_credentials(operation)
        redactor = Redactor(credentials.secrets)
        request = _request(operation, arguments)
        httpx2 = import_module("httpx2")
        address = f"{self._address}{request.path}"
        # An argument cannot take the place of a credential, however it is written.
        carried = {name.lower() for name in credentials.headers}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in carried}
        names = {name for name, _ in credentials.query}
        query = urlencode([*(pair for pair in request.query if pair[0] not in names), *credentials.query])
        try:
            async with self._client().stream(
                operation.method.upper(),
                f"{address}?{query}" if query else address,
                headers={**headers, **credentials.headers},
                content=request.body,
            ) as response:
                content = await _content(response, operation)
                status, kind = int(response.status_code), str(response.headers.get("content-type", ""))
        except httpx2.ConnectError:
            raise ToolFailed(f"{self._name} could not be reached; nothing was done", retryable=True) from None
        except httpx2.HTTPError as error:
            raise _no_answer_error(
                operation, f"{self._name} did not answer ({type(error).__name__})"
            ) from None
        if not 200 <= status < 300:
            # It is cut afterwards: the first half of a secret would not be masked.
            answer = await read_by_size(
                len(content), lambda: redactor.text(content.decode("utf-8", "replace"))[:ERROR_CHARS_MAX]
            )
            is_later = status in _LATER and operation.method == "get"
            raise ToolFailed(f"{self._name} answered with HTTP {status}: {answer}", retryable=is_later)
        is_json = "json" in kind.partition(";")[0]
        if is_json and count_values(content, RESPONSE_VALUES_MAX) > RESPONSE_VALUES_MAX:
            raise _too_large(operation, f"{RESPONSE_VALUES_MAX:,} values")
        read = partial(_read_masked, content, redactor, is_json=is_json)
        # In a thread if it is large: masking many values takes a while.
        return await read_by_size(len(content), read)

    def _client(self) -> "httpx2.AsyncClient":
        if self._http is None:
            try:
                httpx2 = import_module("httpx2")
            except ModuleNotFoundError:
                raise wrong(f"OpenAPI needs an optional dependency: {install_hint('client')}") from None
            # The environment is ignored: no proxy sees credentials, and no netrc file adds any.
            self._http = httpx2.AsyncClient(
                timeout=TIMEOUT_S, trust_env=False, follow_redirects=False, headers={"user-agent": "windlass"}
            )
        return cast("httpx2.AsyncClient", self._http)

    def _read_credentials(self, operation: ApiOperation) -> "_Credentials":
        """Return the credentials of a call; they are read when they are needed."""
        read = self._options.get("variable", parts.variable)
        headers: dict[str, str] = {}
        query: list[tuple[str, str]] = []
        secrets: list[str] = []
        for name in self._credentials[operation.operation_id]:
            variable = self._options.get("credentials", {})[name]
            secret = read(variable)
            if not secret:
                raise ToolFailed(f"the environment variable {variable} is not set; nothing was done")
            if len(secret) < SECRET_CHARS_MIN:
                raise ToolFailed(
                    f"the environment variable {variable} has {len(secret)} characters, and a secret of less "
                    f"than {SECRET_CHARS_MIN} cannot be masked; nothing was done"
                )
            secrets += [secret, base64.b64encode(secret.encode()).decode()]
            scheme = self._document.schemes[name]
            match str(scheme["type"]), str(scheme.get("in", "")), str(scheme.get("scheme", "")).lower():
                case "apiKey", "header", _:
                    headers[str(scheme["name"])] = secret
                case "apiKey", _, _:
                    query.append((str(scheme["name"]), secret))
                case "http", _, "basic":
                    headers["authorization"] = f"Basic {secrets[-1]}"
                case _:
                    headers["authorization"] = f"Bearer {secret}"
        return _Credentials(headers, tuple(query), tuple(secrets))


def _read_masked(content: bytes, redactor: Redactor, *, is_json: bool) -> object:
    if is_json:
        with suppress(ValueError, RecursionError):
            return redactor.value(json.loads(content)) if content else None
    return redactor.text(content.decode("utf-8", "replace"))


@sealed
class _Credentials:
    headers: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]


@sealed
class _Request:
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes | None


def _read(name: str, document: str | Path | Mapping[str, object]) -> Mapping[str, object]:
    """Return the content of a document: a mapping, or a file of JSON or YAML."""
    if isinstance(document, Mapping):
        return document
    try:
        raw = Path(document).read_bytes()
    except OSError as error:
        raise wrong(f"API {name}: {document} cannot be read: {error.strerror}") from None
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise wrong(f"API {name}: {document} is larger than {DOCUMENT_BYTES_MAX:,} bytes")
    try:
        content = json.loads(raw) if raw.lstrip()[:1] == b"{" else load_yaml(raw)
    except TooManyValues as error:
        raise wrong(f"API {name}: {document}: {error}") from None
    except (ValueError, RecursionError, yaml.YAMLError):
        content = None
    if not isinstance(content, dict):
        raise wrong(f"API {name}: {document} is not an OpenAPI document in JSON or YAML")
    return cast("Mapping[str, object]", content)


def _address(name: str, url: str | None) -> str:
    split = urlsplit(url or "")
    if split.scheme not in ("http", "https") or not split.hostname or split.query or split.fragment:
        raise wrong(f"API {name}: give its address: url='https://api.example.com'")
    if split.username is not None:
        raise wrong(f"API {name}: put credentials into variables, not into the address")
    return (url or "").rstrip("/")


def _check_scheme(name: str, scheme: str, definition: JsonObject | None) -> None:
    kinds = (("apiKey", "header"), ("apiKey", "query"), ("http", ""), ("oauth2", ""), ("openIdConnect", ""))
    kind = (str((definition or {}).get("type")), str((definition or {}).get("in", "")))
    is_known = kind[0] != "http" or str((definition or {}).get("scheme")).lower() in ("basic", "bearer")
    if kind not in kinds or not is_known:
        raise wrong(
            f"API {name}: security scheme {scheme} is not supported: {' in '.join(filter(None, kind))}"
        )


def _request(operation: ApiOperation, arguments: JsonObject) -> _Request:
    path, query, headers = operation.path, list[tuple[str, str]](), dict[str, str]()
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            continue
        value = arguments[parameter.argument]
        match parameter.location:
            case "path":
                text = _join_values(value)
                if not text or not {".", ".."}.isdisjoint(text.replace("\\", "/").split("/")):
                    # They would name another path; a proxy may decode slashes before it looks at dots.
                    raise ToolFailed(f"{parameter.name} must not be {text[:80]!r}; nothing was done")
                path = path.replace(f"{{{parameter.name}}}", quote(text, safe=""))
            case "header":
                text = _join_values(value)
                if not text.isprintable() or not text.isascii():
                    raise ToolFailed(f"{parameter.name} must be printable ASCII; nothing was done")
                headers[parameter.name] = text
            case _:
                query += _pairs(parameter, value)
    body = None
    if BODY in arguments and operation.body_type is not None:
        headers["content-type"] = operation.body_type
        content = arguments[BODY]
        if operation.body_type == FORM:
            pairs = [(str(key), _text(value)) for key, value in cast(JsonObject, content).items()]
            body = urlencode(pairs).encode()
        else:
            body = json.dumps(content).encode()
    return _Request(path, tuple(query), headers, body)


def _pairs(parameter: ApiParameter, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        items = [(str(key), _text(part)) for key, part in cast("dict[str, object]", value).items()]
        if parameter.style == "deepObject":
            return [(f"{parameter.name}[{key}]", text) for key, text in items]
        if parameter.explode:
            return items
        return [(parameter.name, ",".join(part for pair in items for part in pair))]
    if isinstance(value, list) and parameter.explode:
        return [(parameter.name, _text(part)) for part in cast("list[object]", value)]
    return [(parameter.name, _join_values(cast(object, value)))]


def _join_values(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key},{_text(part)}" for key, part in cast("dict[str, object]", value).items())
    return ",".join(map(_text, cast("list[object]", value))) if isinstance(value, list) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else json.dumps(value)


async def _content(response: "httpx2.Response", operation: ApiOperation) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > RESPONSE_BYTES_MAX:
            raise _too_large(operation, f"{RESPONSE_BYTES_MAX:,} bytes")
    return bytes(content)


def _too_large(operation: ApiOperation, limit: str) -> ToolFailed:
    done = "" if operation.method == "get" else "; the call itself was made"
    return ToolFailed(f"the response is too large: limit {limit}{done}")


def _no_answer_error(operation: ApiOperation, problem: str) -> ToolFailed:
    if operation.method in ("get", "head", "options"):
        return ToolFailed(problem, retryable=True)
    return ToolFailed(f"{problem}; whether {operation.operation_id} had an effect is unknown")
