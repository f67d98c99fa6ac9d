"""Structured output: enforced by the provider where possible, and always validated here.

The system prompt states the schema as well, and every answer is validated against the contract. So the schema
sent to the provider may be stricter or looser than the contract.
"""

import re
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from hashlib import sha256
from inspect import iscoroutinefunction
from typing import Final, cast

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from windlass.agent.output import OutputContext, OutputType, dump_output
from windlass.engine.deadline import DeadlineExceeded, await_within
from windlass.engine.writing.masking import log_failure
from windlass.errors import Rejected, is_for_us, is_told_to_end, kind_of
from windlass.limits import (
    OUTPUT_BYTES,
    OUTPUT_BYTES_MAX,
    OUTPUT_ERRORS,
    OUTPUT_ERRORS_MAX,
    OUTPUT_RECORD_BYTES_MAX,
    OUTPUT_VALIDATOR_TIMEOUT_MS,
)
from windlass.ports.batches import BatchProvider
from windlass.ports.model import (
    LLMMessage,
    LLMProvider,
    LLMStreamChunk,
    ModelFault,
    ModelRejected,
    OutputProvider,
)
from windlass.tools.calling import CONVERSIONS, after_few_checks, in_thread, own_words
from windlass.tools.json_schema import error_text, schema_problem, value_errors
from windlass_harness.loop.events import OutputChecked
from windlass_harness.redact import Redactor
from windlass_protocol import (
    CodecError,
    CodecLimits,
    ErrorKind,
    JsonObject,
    OutputContract,
    OutputError,
    RetryClass,
    canonical,
    parse,
)
from windlass_protocol.codec_issues import invalid
from windlass_protocol.frozen import frozen
from windlass_protocol.limits import FREE_LEVELS_MAX

REFUSED_MAX: Final = 64
"""Refused schemas that are remembered; a forgotten one is only tried again."""
_KEPT: Final = frozenset({"type", "enum", "const", "description"})
"""Schema keywords that every provider accepts."""
_LOST: Final = frozenset(
    {"title", "default", "examples", "format", "pattern", "minLength", "maxLength", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems"}
    | {"$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"}
)
"""Keywords that some providers refuse; the validation here still applies them."""


class StructuredOutput:
    """Provider-side structured output of a session: which schemas a provider accepts."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def of(self, provider: LLMProvider, contract: OutputContract | None, *, has_tools: bool) -> LLMProvider:
        """Return the provider with structured output enabled, if it supports the contract.

        Some providers do not allow tool calls together with a schema.
        """
        schema = self._schema(provider, contract, has_tools=has_tools)
        if contract is None or schema is None or not isinstance(provider, OutputProvider):
            return provider
        name = _name(contract)
        return _Held(provider, schema, on_refused=lambda: self._note(name))

    def of_batch(
        self, provider: BatchProvider, contract: OutputContract | None, *, has_tools: bool
    ) -> BatchProvider:
        """Return the provider of a batch, likewise; a refusal of the schema is one of the call."""
        schema = self._schema(provider, contract, has_tools=has_tools)
        if schema is None or not isinstance(provider, OutputProvider):
            return provider
        held = provider.with_output(schema)
        return held if isinstance(held, BatchProvider) else provider

    def _schema(
        self, provider: LLMProvider, contract: OutputContract | None, *, has_tools: bool
    ) -> JsonObject | None:
        if contract is None or not isinstance(provider, OutputProvider):
            return None
        if has_tools and not getattr(provider, "holds_beside_tools", False):
            return None
        return None if _name(contract) in self._refused else strict_schema(contract.json_schema)

    def _note(self, name: str) -> None:
        if len(self._refused) >= REFUSED_MAX:
            self._refused.clear()
        self._refused.add(name)


def _name(contract: OutputContract) -> str:
    return contract.content_hash or contract.schema_id


class _Held:
    """A provider with a response schema, until the provider refuses it."""

    def __init__(
        self, provider: OutputProvider, schema: JsonObject, *, on_refused: Callable[[], None]
    ) -> None:
        self._provider = provider
        self._schema = schema
        self._on_refused = on_refused

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`."""
        offered = None if tools is None else tuple(tools)
        held = self._provider.with_output(self._schema)
        has_begun = False
        try:
            chunks = held.stream(messages, tools=offered, temperature=temperature)
            async with aclosing(cast(AsyncGenerator[LLMStreamChunk], chunks)):
                async for chunk in chunks:
                    has_begun = True
                    yield chunk
                return
        except ModelRejected as error:
            if has_begun or error.fault is not ModelFault.INVALID_REQUEST:
                raise
        # Nothing was streamed or charged: fall back to the schema in the prompt.
        self._on_refused()
        plain = self._provider.stream(messages, tools=offered, temperature=temperature)
        async with aclosing(cast(AsyncGenerator[LLMStreamChunk], plain)):
            async for chunk in plain:
                yield chunk


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return a schema in the strict dialect of providers; None if it cannot be expressed.

    Objects have exactly their named properties, all required. Every value that fits the result fits the
    contract too, except for limits that the dialect cannot express.
    """
    if schema.get("type") != "object":
        return None
    strict = _strict(schema)
    if strict is None:
        return None
    definitions = cast(JsonObject, schema.get("$defs") or {})
    if definitions:
        strict_definitions = {name: _strict(definition) for name, definition in definitions.items()}
        if None in strict_definitions.values():
            return None
        strict["$defs"] = cast(JsonObject, strict_definitions)
    return strict


def _strict(schema: JsonValue) -> JsonObject | None:
    if not isinstance(schema, dict) or not schema:
        return None
    strict: JsonObject = {}
    for key, value in schema.items():
        if key in _KEPT or (key == "$ref" and str(value).startswith("#/$defs/")):
            strict[key] = value
        elif key not in _LOST and key not in _OBJECT and not _put(strict, key, value):
            return None
    is_object = schema.get("type") == "object" or "properties" in schema
    return strict if not is_object else _object(schema, strict)


def _put(strict: JsonObject, key: str, value: JsonValue) -> bool:
    """Add a keyword that contains schemas; False if it cannot be expressed."""
    if key == "items":
        part = _strict(value)
        if part is not None:
            strict[key] = part
        return part is not None
    if key == "anyOf" and isinstance(value, list):
        all_of = [_strict(branch) for branch in value]
        strict[key] = cast(list[JsonValue], all_of)
        return None not in all_of
    return False


def _object(schema: JsonObject, strict: JsonObject) -> JsonObject | None:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.get("additionalProperties") not in (None, True, False):
        return None
    strict_properties = {name: _strict(property_schema) for name, property_schema in properties.items()}
    if None in strict_properties.values():
        return None
    fields = {
        "properties": strict_properties,
        "required": list(strict_properties),
        "additionalProperties": False,
    }
    return {**strict, **cast(JsonObject, fields)}


_OBJECT: Final = frozenset({"properties", "required", "additionalProperties", "$defs"})

_FENCE: Final = re.compile(r"\A\s*```[a-zA-Z]*\n(?P<inside>.*)\n```\s*\Z", re.DOTALL)


def check_output(contract: OutputContract, text: str) -> OutputChecked:
    """Return the validated value of an answer, or its errors; a code fence is removed."""
    fenced = _FENCE.match(text)
    candidate = (fenced["inside"] if fenced else text).encode("utf-8", "surrogatepass")
    try:
        value = parse(candidate, _limits(contract))
    except CodecError as error:
        return _unfit("json", error.message)
    return check_value(contract, value, text=text)


def _limits(contract: OutputContract) -> CodecLimits:
    bytes_max = min(contract.max_candidate_bytes or OUTPUT_BYTES, OUTPUT_BYTES_MAX)
    return CodecLimits(message_bytes_max=bytes_max, depth_max=FREE_LEVELS_MAX)


def check_value(contract: OutputContract, value: JsonValue, *, text: str) -> OutputChecked:
    """Return the value of an answer with its hash, or the places where it misses the schema."""
    try:
        hashed = f"sha256:{sha256(canonical(value, _limits(contract))).hexdigest()}"
    except CodecError as error:
        return _unfit("json", error.message)
    size = len(to_json(text.encode("utf-8", "replace").decode())) + len(to_json(value))
    if size > OUTPUT_RECORD_BYTES_MAX:
        limit = OUTPUT_RECORD_BYTES_MAX
        return _unfit(
            "size", f"answer and value have {size:,} bytes as JSON, limit {limit:,}; answer shorter"
        )
    problem = schema_problem(contract.json_schema)
    if problem is not None:
        return _unfit("schema", f"the schema of the output contract cannot be used: {problem}")
    most = min(contract.max_errors_returned or OUTPUT_ERRORS, OUTPUT_ERRORS_MAX)
    errors = value_errors(contract.json_schema, value, most=most)
    return OutputChecked(None, errors) if errors else OutputChecked(value, hash=hashed)


def _unfit(code: str, message: str) -> OutputChecked:
    return OutputChecked(None, (OutputError(path="", code=code, message=error_text(message)),))


@frozen
class OutputCheck:
    """The check of an output by its type and the validators of the agent.

    The type reads the value; then each validator gets the output and returns it. A changed output is recorded
    as JSON, which the type must be able to read again: the result of a run is made of its record.
    """

    output: OutputType
    contract: OutputContract
    context: OutputContext
    redactor: Redactor

    async def run(self, checked: OutputChecked, text: str) -> OutputChecked:
        """Return a value that fits the schema as the validators leave it, or the message of a refusal.

        Raises:
            Rejected: a validator raised something else than a ValueError, took too long, or returned an
                output that cannot be recorded.
        """
        value = checked.value
        try:
            read = result = await self._call(partial(self.output.parse, value), f"type {self._kind}")
            before = await self._json(read)
            for validator in self.output.validators:
                step = f"output validator {_name_of(validator)}"
                result = await self._call(partial(validator, self.context, result), step)
                if result is None and read is not None:
                    raise _validator_failure(f"{step} returned None: it must return the output")
        except ValidationError as error:
            return OutputChecked(None, self._errors(error, value))
        except ValueError as error:
            return _unfit("validator", str(error) or type(error).__name__)
        # A validator may have changed the output itself, and returned it.
        is_same = result is read and await self._json(result) == before
        return checked if is_same else await self._record_changed(result, text)

    async def _json(self, result: object) -> bytes | None:
        """Return an output as it would be recorded; None if no validator can change it, or it has no JSON."""
        if not self.output.validators:
            return None
        try:
            return cast(bytes, await self._call(partial(_json_of, self.output.kind, result), self._kind))
        except (ValueError, Rejected):
            return None

    async def _record_changed(self, result: object, text: str) -> OutputChecked:
        """Return the JSON of an output that a validator changed."""
        step = f"an output validator of {self._kind}"
        try:
            value = cast(JsonValue, await self._call(partial(dump_output, self.output.kind, result), step))
            checked = await after_few_checks(partial(check_value, self.contract, value, text=text))
            await self._call(partial(self.output.parse, value), step)
        except ValueError:
            raise _validator_failure(
                f"{step} returned {kind_of(result)}, which {self._kind} cannot read again"
            ) from None
        if checked.errors:
            first = checked.errors[0]
            raise _validator_failure(
                f"{step} returned an output that misses the schema, at {first.path or '/'}"
            )
        return checked

    async def _call(self, call: partial[object], step: str) -> object:
        """Call code of the application, in a thread unless it is async; ValueErrors pass."""
        try:
            if iscoroutinefunction(call.func):
                returned: object = call()
            else:
                with CONVERSIONS:
                    returned = await await_within(in_thread(call), OUTPUT_VALIDATOR_TIMEOUT_MS)
            return await await_within(returned, OUTPUT_VALIDATOR_TIMEOUT_MS)
        except DeadlineExceeded:
            problem = f"took over {OUTPUT_VALIDATOR_TIMEOUT_MS:,} ms"
        except ValueError:
            raise
        except CancelledError:
            if is_told_to_end():
                raise
            problem = "failed (CancelledError)"
        except BaseException as error:  # code of the application: any exception is a failure of it
            if is_for_us(error):
                raise
            log_failure(f"{step} failed", error, redactor=self.redactor)
            problem = f"failed ({type(error).__name__})"
        raise _validator_failure(f"{step} {problem}")

    @property
    def _kind(self) -> str:
        return "JSON" if self.output.kind is None else _name_of(self.output.kind)

    def _errors(self, error: ValidationError, value: JsonValue) -> tuple[OutputError, ...]:
        """Return the places at which a type refuses a value, with the messages of its validators."""
        most = min(self.contract.max_errors_returned or OUTPUT_ERRORS, OUTPUT_ERRORS_MAX)
        issues = invalid(error, value).issues[:most]
        details = error.errors(include_url=False, include_input=False)
        return tuple(
            OutputError(
                path=error_text(issue.path),
                code="validator",
                message=error_text(own_words(detail) or issue.message),
            )
            for issue, detail in zip(issues, details, strict=False)
        )


def _json_of(kind: object, output: object) -> bytes:
    return to_json(dump_output(kind, output))


def _name_of(code: object) -> str:
    return getattr(code, "__name__", type(code).__name__)


def _validator_failure(problem: str) -> Rejected:
    return Rejected(problem, kind=ErrorKind.EXTENSION_FAILURE, retry=RetryClass.REPAIR_NEEDED)
