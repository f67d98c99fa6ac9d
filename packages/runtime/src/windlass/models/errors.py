"""Translation of SDK, HTTP and connection errors into model errors.

The message of a provider may quote the prompt or the key, so it is dropped: a model error holds the HTTP
status, and the error code and parameter if they have the form of an identifier.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, Self, cast
from urllib.parse import urlsplit

from windlass.errors import AgentError
from windlass.ports.model import ModelFault, ModelRejected, ModelUnavailable
from windlass_harness.retry import ErrorFacts, classify_error, parse_retry_after_ms
from windlass_protocol import RetryClass
from windlass_protocol.frozen import sealed

EVENT_BYTES_MAX: Final = 8 * 1_048_576
"""Bytes of one event of a stream."""
EVENT_VALUES_MAX: Final = 100_000
"""Values of one event: it is read at once, and nothing else runs in the process meanwhile."""
ERROR_BYTES_MAX: Final = 65_536
"""Bytes that are read of the answer of a server that refused a request."""
Source = Literal["default", "variable", "argument"]
"""Where the address of a provider comes from."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\[\]-]{0,63}")
_OVERFLOW: Final = re.compile(
    r"(?:prompt|input) is too long|too many (?:input )?tokens|maximum context length|input token count"
    r"|\bexceeds?\b.{0,60}\bcontext\b|\bcontext (?:length|window|size)\b.{0,60}\bexceed",
    re.IGNORECASE,
)
"""Messages for a context overflow, of servers that send no error code."""
_RATE_CODE: Final = re.compile(r"rate_limit|throttling|resource_exhausted", re.IGNORECASE)
_OVERFLOW_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_OVERFLOW_STATUS: Final = frozenset({400, 413, 422, 500})
_UNREACHED: Final = frozenset(
    {
        "APIError",
        "HTTPError",
        "OSError",
        "StreamError",
        # of the services that AWS credentials come from
        "CredentialRetrievalError",
        "HTTPClientError",
        "MetadataRetrievalError",
    }
)
_UNSENT: Final = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})
"""Errors before a request is sent."""
_UNANSWERED: Final = frozenset({408, 502, 504})
"""Statuses of a gateway that lost the answer of a model: it may have been begun."""
_HOST_ERRORS: Final = frozenset({"UnsupportedProtocol", "LocalProtocolError", "InvalidURL"})
"""A wrong address, or a key that cannot be a header."""


@sealed
class _Problem:
    """The fields of a provider's error."""

    status: int | None = None
    code: str | None = None
    param: str | None = None
    text: str = ""
    retry_after_ms: int | None = None
    retry_delay: str | None = None
    """The pause that Google asks for, such as `34.1s`."""
    is_in_stream: bool = False

    def __str__(self) -> str:
        facts = [f"HTTP {self.status}"] if self.status and self.status >= 400 else []
        facts += [word for word in (self.code, self.param) if word and _WORD.fullmatch(word)]
        return f" ({', '.join(facts)})" if facts else ""


class ResponseError(Exception):
    """A server that is asked without an SDK refused a request."""

    def __init__(self, status_code: int, body: object, headers: Mapping[str, str]) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.body = body
        self.headers = headers

    @property
    def response(self) -> Self:
        """The response, as the errors of SDKs have it."""
        return self


@sealed
class ModelEndpoint:
    """The server of a provider and the source of its key, as error messages name them."""

    host: str
    key: str
    """The environment variable of the key, or the argument that it was given as."""
    address: str = "the argument base_url"
    """The environment variable that sets the address, or the argument that it was given as."""

    @classmethod
    def of(
        cls,
        base_url: str,
        url_variable: str,
        *,
        url_source: Source,
        api_key: str | None,
        key_variable: str,
    ) -> Self:
        """Return the endpoint of a base URL and a key."""
        host = urlsplit(base_url).netloc.rpartition("@")[2] or "an address without a host"
        source = f" (from {url_variable})" if url_source == "variable" else ""
        address = "the argument base_url" if url_source == "argument" else url_variable
        return cls(f"{host}{source}", "the argument api_key" if api_key else key_variable, address)


def translate(error: Exception, *, to: ModelEndpoint, now: datetime) -> AgentError:
    """Return the model error for an exception of an SDK."""
    if isinstance(error, AgentError):
        return error
    if getattr(error, "status_code", None) is not None or getattr(error, "body", None) is not None:
        return _meaning(_problem(error, now), to)
    names = {kind.__name__ for kind in type(error).__mro__}
    cause = error.__cause__
    if cause is not None:
        names |= {kind.__name__ for kind in type(cause).__mro__}
    if any("Timeout" in name for name in names):
        message = (
            f"the provider at {to.host} did not answer in time: check that it runs, and the address in "
            f"{to.address}, or raise the timeouts"
        )
        return ModelUnavailable(message, fault=ModelFault.TIMEOUT, is_unpaid=bool(names & _UNSENT))
    if names & _HOST_ERRORS:
        return ModelRejected(
            f"the request to the provider at {to.host} could not be built: check the address in "
            f"{to.address}, and {to.key}",
            fault=ModelFault.AUTH,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )
    if isinstance(error, ValueError):
        return stream_error("an event is not JSON")
    if "SSEError" in names:
        return stream_error(f"an event is too large: limit {EVENT_BYTES_MAX:,} bytes")
    if names & _UNREACHED:
        return ModelUnavailable(
            f"the provider at {to.host} could not be reached, or the connection broke: check that it runs, "
            f"and the address in {to.address}",
            fault=ModelFault.TRANSPORT,
            is_unpaid=bool(names & _UNSENT),
        )
    if "BotoCoreError" in names:
        return ModelRejected(
            f"the AWS credentials for {to.host} could not be read ({type(error).__name__}): check {to.key}, "
            "AWS_PROFILE and the files of the profile",
            fault=ModelFault.AUTH,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )
    return ModelRejected(
        f"the request to the provider failed with {type(error).__name__}",
        fault=ModelFault.SERVER,
        retry=RetryClass.NOT_RETRYABLE,
    )


def error_event(body: object, *, to: ModelEndpoint) -> AgentError:
    """Return the model error for an error event in a stream."""
    return _meaning(_read(body, status=None, is_in_stream=True), to)


def stream_error(problem: str) -> ModelUnavailable:
    """Return the error for a stream that violates the format of the API."""
    return ModelUnavailable(f"the provider sent an invalid stream: {problem}", fault=ModelFault.MALFORMED)


def truncation_error() -> ModelUnavailable:
    """Return the error of a stream that ended too early."""
    return ModelUnavailable("the model's answer was cut off before its end", fault=ModelFault.CUT_OFF)


def _problem(error: Exception, now: datetime) -> _Problem:
    status = cast(int | None, getattr(error, "status_code", None))
    response: object = getattr(error, "response", None)
    headers = cast(Mapping[str, str], getattr(response, "headers", {}))
    problem = _read(getattr(error, "body", None), status=status, is_in_stream=status is None or status < 400)
    return _Problem(
        problem.status,
        # AWS names the error in a header.
        problem.code or headers.get("x-amzn-errortype", "").partition(":")[0] or None,
        problem.param,
        text=problem.text or str(error),
        retry_after_ms=_retry_after_ms(headers, problem.retry_delay, now),
        is_in_stream=problem.is_in_stream,
    )


def _read(body: object, *, status: int | None, is_in_stream: bool) -> _Problem:
    inner = cast(list[object], body)[0] if isinstance(body, list) and body else cast(object, body)
    if isinstance(inner, dict):
        inner = cast(dict[str, object], inner).get("error", cast(object, inner))
    if not isinstance(inner, dict):
        text = inner if isinstance(inner, str) else ""
        return _Problem(status, text=text, is_in_stream=is_in_stream)
    fields = cast(dict[str, object], inner)
    code, kind = fields.get("code"), fields.get("type") or fields.get("status") or fields.get("__type")
    if isinstance(code, int) and is_in_stream:
        status = code
    code = code if isinstance(code, str) and code else kind
    param, delay = fields.get("param"), None
    # Google sends 400 for a wrong key, and the pause in the body.
    for detail in cast(list[dict[str, object]], fields.get("details") or ()):
        code = "invalid_api_key" if detail.get("reason") == "API_KEY_INVALID" else code
        delay = detail.get("retryDelay") or delay
    return _Problem(
        status,
        code if isinstance(code, str) else None,
        param if isinstance(param, str) else None,
        text=str(fields.get("message") or ""),
        retry_delay=str(delay) if delay else None,
        is_in_stream=is_in_stream,
    )


def _meaning(problem: _Problem, to: ModelEndpoint) -> AgentError:
    kind = "truncated" if problem.is_in_stream else None
    retry = classify_error(ErrorFacts(status=problem.status, code=problem.code, kind=kind))
    if _is_overflow(problem, retry):
        return ModelRejected(
            f"the messages exceed the context window of the model{problem}: shorten them, or "
            "enable compaction",
            fault=ModelFault.CONTEXT_OVERFLOW,
            retry=RetryClass.REPAIR_NEEDED,
        )
    match retry:
        case RetryClass.RETRYABLE:
            is_rate = problem.status == 429 or _RATE_CODE.search(problem.code or "") is not None
            fault = ModelFault.RATE_LIMIT if is_rate else ModelFault.SERVER
            reason = "rate limit" if is_rate else "server error or overload"
            return ModelUnavailable(
                f"the provider at {to.host} failed: {reason}{problem}",
                fault=fault,
                retry_after_ms=problem.retry_after_ms,
                is_unpaid=not problem.is_in_stream and problem.status not in _UNANSWERED,
            )
        case RetryClass.HOST_CONFIGURATION_NEEDED:
            reason, fault = f"authentication{problem}. Check {to.key} for {to.host}", ModelFault.AUTH
        case RetryClass.USER_ACTION_NEEDED:
            reason, fault = f"billing{problem}. Check the account of {to.key} at {to.host}", ModelFault.QUOTA
        case RetryClass.NOT_RETRYABLE | RetryClass.REPAIR_NEEDED:
            hint = (
                f". Check the name of the model and the base URL of {to.host}"
                if problem.status == 404
                else ""
            )
            reason, fault = f"invalid request{problem}{hint}", ModelFault.INVALID_REQUEST
    return ModelRejected(f"the provider refused the request: {reason}", fault=fault, retry=retry)


def _is_overflow(problem: _Problem, retry: RetryClass) -> bool:
    if problem.code in _OVERFLOW_CODES or retry is RetryClass.REPAIR_NEEDED:
        return True
    is_possible = problem.is_in_stream or problem.status in _OVERFLOW_STATUS
    return is_possible and _OVERFLOW.search(problem.text) is not None


def _retry_after_ms(headers: Mapping[str, str], delay: str | None, now: datetime) -> int | None:
    exact = headers.get("retry-after-ms")
    if exact is not None:
        delay_ms = parse_retry_after_ms(exact, now=now)
        return None if delay_ms is None else delay_ms // 1000
    value = headers.get("retry-after") or (delay and delay.removesuffix("s"))
    return None if value is None else parse_retry_after_ms(value, now=now)
