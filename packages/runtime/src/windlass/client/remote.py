"""RemoteAgent: an agent of another server as a subagent.

A remote agent is a local agent, so that all rules of subagents apply to it: its session is stored, a crash
needs no repair, its budget is a share that the other server enforces, and its questions are shown at the
root. An approval on the other server is a question here, with the responders of approvals. Its model is a few
rules (`RemoteModel`), and its only tool follows the run on the other server (`remote_tool`).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from importlib.util import find_spec
from typing import Annotated, Final, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import to_json

from windlass import parts
from windlass.agent.agent import MESSAGE_CHARS_MAX, Agent
from windlass.agent.hooks import Hook, hook
from windlass.client.client import Client
from windlass.client.connection import FEEDS, Key, NotFound, ServerAddress, check_url, is_passing
from windlass.errors import (
    AgentError,
    Ambiguous,
    Conflict,
    Denied,
    Rejected,
    Unavailable,
    check_name,
    install_hint,
    option_problem,
    wrong,
)
from windlass.limits import OPTION_CHARS_MAX, OPTIONS_MAX, QUESTION_CHARS_MAX
from windlass.ports.host import HookCall
from windlass.ports.model import REPORTED, LLMMessage, LLMStreamChunk, LLMUsage
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass.tools.question import ask_question
from windlass_harness.retry import RetryPolicy
from windlass_protocol import (
    CodecError,
    EffectClass,
    ErrorKind,
    FinishReason,
    InputKind,
    InputRequest,
    JsonObject,
    RetryClass,
    RunInfo,
    RunMode,
    RunResult,
    RunStatus,
    Taint,
    ToolCall,
    ToolMode,
    Usage,
    canonical,
    parse,
)
from windlass_protocol.frozen import sealed

REMOTE: Final = "remote"
"""The tool of a remote agent."""
OUTPUT_CHARS_MAX: Final = 60_000
"""Size of an answer that is taken over; smaller than the tool result that a model sees."""
REPORT_BYTES_MAX: Final = 90_000
ERROR_CHARS_MAX: Final = 2_000
_DENY: Final = "deny"
_CUT: Final = "\n[… cut; the whole request is on the server]"
_CUT_CONSENT: Final = "\n[… cut: it is too long to be approved here. Approve it on the server, or deny it.]"


class RemoteRequest(BaseModel):
    """A request to a person, as much of it as an answer needs."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    request_id: str
    arguments_hash: str | None = None
    question: JsonObject
    """The arguments of the local `ask_question` call."""


class Outage(BaseModel):
    """A server that could not be reached: the work goes on when it is back."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: str
    resume: JsonObject = Field(default_factory=dict)
    """Arguments of the call that goes on with the work."""


class Report(BaseModel):
    """How far a piece of work is: it ended, it asks a person, or its server is away."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str = ""
    output: str | None = None
    error: str | None = None
    usage: Usage | None = None
    asked: RemoteRequest | None = None
    away: Outage | None = None


class RemoteReply(BaseModel):
    """The answer of a person to a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    request_id: str
    option_id: str | None = None
    text: str | None = None
    arguments_hash: str | None = None


def report_of(info: RunInfo) -> Report | None:
    """Return the report on a run; None while it needs nothing."""
    run_id = info.run.run_id
    if info.result is not None:
        return _report_end(info.result)
    open_request = next((request for request in info.requests if not request.is_answered), None)
    if info.run.status is not RunStatus.WAITING or open_request is None:
        return None
    return Report(
        run_id=run_id,
        asked=RemoteRequest(
            request_id=open_request.request_id,
            arguments_hash=open_request.arguments_hash,
            question=question_of(open_request),
        ),
    )


def _report_end(result: RunResult) -> Report:
    if result.status is not RunStatus.COMPLETED:
        why = result.error.message if result.error is not None else result.reason
        error = f"{result.status.value}: {why}" if why else result.status.value
        return Report(run_id=result.run_id, error=error[:ERROR_CHARS_MAX], usage=result.usage)
    if result.structured_output is None:
        return Report(run_id=result.run_id, output=fit_result(result.output), usage=result.usage)
    data = to_json(result.structured_output).decode()
    if len(to_json(data)) > REPORT_BYTES_MAX:
        error = f"its data is too large: limit {REPORT_BYTES_MAX:,} bytes"
        return Report(run_id=result.run_id, error=error, usage=result.usage)
    return Report(run_id=result.run_id, output=data, usage=result.usage)


def fit_result(text: str) -> str:
    """Cut a text to the size of one result."""
    most = OUTPUT_CHARS_MAX
    part = text[:most]
    while len(to_json(part)) > REPORT_BYTES_MAX:
        most //= 2
        part = text[:most]
    left = len(text) - len(part)
    return f"{part}\n[… {left:,} characters left out …]" if left else part


def question_of(request: InputRequest) -> JsonObject:
    """Return the question to the person here; the arguments of the call are in the prompt.

    A call that cannot be shown whole cannot be approved here.
    """
    prompt = request.prompt or "?"
    if len(prompt) > QUESTION_CHARS_MAX:
        if _is_consent(request):
            denial: JsonObject = {"id": _DENY, "label": "Deny"}
            return {"prompt": _cut_prompt(prompt, _CUT_CONSENT), "options": [denial], "allow_freeform": False}
        prompt = fit_prompt(prompt)
    options: list[JsonValue] = [
        {"id": option.id, "label": (option.label or option.id)[:OPTION_CHARS_MAX]}
        for option in (request.options or ())[:OPTIONS_MAX]
        if len(option.id) <= OPTION_CHARS_MAX
    ]
    return {
        "prompt": prompt,
        "options": options,
        "allow_freeform": not options or bool(request.allow_freeform),
    }


def _is_consent(request: InputRequest) -> bool:
    """Whether an option approves a call; any similar spelling counts."""
    ids = {option.id for option in request.options or ()}
    return request.kind is not InputKind.QUESTION or request.arguments_hash is not None or _DENY in ids


def fit_prompt(prompt: str) -> str:
    """Cut the words of a question, which approve nothing, to the size of a question."""
    return prompt if len(prompt) <= QUESTION_CHARS_MAX else _cut_prompt(prompt, _CUT)


def _cut_prompt(prompt: str, mark: str) -> str:
    return prompt[: QUESTION_CHARS_MAX - len(mark)] + mark


def reply_to(report: Report, answered: JsonObject) -> RemoteReply:
    """Return the reply for the server; an ignored question is a denial."""
    request = report.asked
    assert request is not None, "only a report that asks was answered"
    option, text = answered.get("optionId"), answered.get("text")
    answer = (option if isinstance(option, str) else None, text if isinstance(text, str) else None)
    if answer == (None, None):
        options = request.question.get("options")
        can_deny = isinstance(options, list) and any(
            isinstance(choice, dict) and choice.get("id") == _DENY for choice in options
        )
        answer = (_DENY, None) if can_deny else (None, "No person answered.")
    return RemoteReply(
        run_id=report.run_id,
        request_id=request.request_id,
        option_id=answer[0],
        text=answer[1],
        arguments_hash=request.arguments_hash,
    )


ROUNDS_MAX: Final = 100
"""Questions to people in one piece of work."""
_ASK: Final = "ask_question"


Probe = Callable[[], Awaitable[str | None]]
"""Sends a cheap request to a server; returns why it cannot be reached, or None."""


class RemoteModel:
    """The model of an agent that works on another server.

    A message becomes a call that sends it to the server. The result of the call becomes an answer, a question
    to a person, or a failure; the answer to a question becomes another call. While the server is away the
    model is away too: the run waits for its next attempt, and fails after the time of the agent for that.
    """

    route_id = "remote"
    holds_beside_tools = True

    def __init__(
        self, model_id: str, probe: Probe, schema: JsonObject | None = None, *, prices: str | None = None
    ) -> None:
        self.model_id = model_id
        self.prices = prices
        self._schema = schema
        self._probe = probe

    def with_output(self, schema: JsonObject) -> "RemoteModel":
        """Return the same model; the schema is sent to the server."""
        return RemoteModel(self.model_id, self._probe, schema, prices=self.prices)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Continue from the last message; see `LLMProvider`."""
        last = messages[-1]
        if last.role != "tool":
            yield self._call(messages, REMOTE, self._task(last.content))
        elif last.is_error:
            # Also if no person can be asked: the server would only ask again.
            raise _failure(last.content)
        elif last.name == _ASK:
            yield self._call(messages, REMOTE, _answer(messages, last))
        else:
            report = _report(last)
            if report.away is not None:
                problem = await self._probe()
                if problem is not None:
                    raise _unreachable(problem)
                yield self._call(messages, REMOTE, _arguments_to_resume(messages, report.away))
            elif report.asked is not None:
                _check_rounds(messages)
                yield self._call(messages, _ASK, _question_of(report.asked, tools or ()))
            else:
                yield LLMStreamChunk(usage=_usage(report.usage))
                if report.output is None:
                    raise _failure(report.error or "it ended without an answer")
                yield LLMStreamChunk(content_delta=report.output)
                yield LLMStreamChunk(finish_reason=FinishReason.STOP)
                return
        yield LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS)

    def _task(self, message: str) -> JsonObject:
        task: JsonObject = {"message": message}
        if self._schema is not None:
            task["output_schema"] = self._schema
        return task

    def _call(self, messages: Sequence[LLMMessage], name: str, arguments: JsonObject) -> LLMStreamChunk:
        number = sum(len(message.tool_calls) for message in messages) + 1
        return LLMStreamChunk(tool_call_delta=ToolCall(id=f"remote-{number}", name=name, arguments=arguments))


def _check_rounds(messages: Sequence[LLMMessage]) -> None:
    questions = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        questions += message.name == _ASK
    if questions >= ROUNDS_MAX:
        raise _failure(f"too many questions: limit {ROUNDS_MAX} for one piece of work")


def _question_of(request: RemoteRequest, tools: Iterable[JsonObject]) -> JsonObject:
    if all(tool["name"] != _ASK for tool in tools):
        raise _failure("it waits for a person, but no person can be asked here; it was cancelled")
    return request.question


def _answer(messages: Sequence[LLMMessage], answer: LLMMessage) -> JsonObject:
    """Return a person's answer for the request behind the question."""
    call_result = next(message for message in reversed(messages) if message.name == REMOTE)
    reply: RemoteReply = reply_to(_report(call_result), _object(answer.content))
    return {"reply": cast(JsonObject, reply.model_dump(mode="json", exclude_none=True))}


def _arguments_to_resume(messages: Sequence[LLMMessage], away: Outage) -> JsonObject:
    """Return the arguments of the last call, with those that go on with its work."""
    calls = next(message.tool_calls for message in reversed(messages) if message.tool_calls)
    return {**calls[0].arguments, **away.resume}


def _report(message: LLMMessage) -> Report:
    return Report.model_validate(_object(message.content))


def _object(text: str) -> JsonObject:
    try:
        value = parse(text)
    except CodecError:
        return {}
    return value if isinstance(value, dict) else {}


def _usage(used: Usage | None) -> LLMUsage | None:
    if used is None:
        return None
    return LLMUsage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        reasoning_tokens=used.reasoning_tokens,
        cost_micros=used.cost_micros,
    )


def _failure(why: str) -> Rejected:
    return Rejected(
        f"the remote agent did not complete: {why}",
        kind=ErrorKind.SUBAGENT_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
    )


def _unreachable(why: str) -> Unavailable:
    return Unavailable(
        f"the server of the remote agent cannot be reached: {why}",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.RETRYABLE,
    )


AWAY_MS: Final = 300_000
"""How long a server may be away before the calling model gets an error, in milliseconds."""
WORK_S: Final = 3_600.0
"""Timeout of one piece of work, in seconds."""
END_MS: Final = 30_000
"""Timeout of cancelling the remote run after the local run has ended, in milliseconds."""
WORDS_CHARS_MAX: Final = 2 * MESSAGE_CHARS_MAX
_FAILURES_MAX: Final = 3
"""Failures in a row of the requests of one call after which the server is away."""
_ONE_ATTEMPT: Final = RetryPolicy(max_attempts=1)
_LAST_WORDS: Final = RetryPolicy(max_attempts=8, base_delay_ms=250, max_delay_ms=5_000)
_ENDED: Final = "The run that it worked for has ended."


@sealed
class WindlassServer:
    """A server, and the agent on it."""

    address: ServerAddress
    agent: str | None
    key_env: str | None

    def client(self, retries: RetryPolicy | None = None) -> Client:
        url, key = self.address.url, self.address.key
        return Client(url, key=key) if retries is None else Client(url, key=key, retries=retries)

    @property
    def facts(self) -> JsonObject:
        """The facts for the package: the address, and the source of the key."""
        facts = {"url": self.address.shown, "agent": self.agent, "keyEnv": self.key_env}
        return {name: value for name, value in facts.items() if value is not None}

    async def problem(self) -> str | None:
        """Return why the server cannot be reached; None if it answers, whatever it answers."""
        try:
            async with self.client(_ONE_ATTEMPT) as client:
                await client.agents.list()
        except AgentError as error:
            return error.message if is_passing(error) or isinstance(error, Ambiguous) else None
        return None

    async def session(self, client: Client, session_id: str) -> str:
        """Return the session on the server for a local session; it is always the same."""
        key = sha256(canonical(["remote session", session_id])).hexdigest()
        created = await client.sessions.create_empty(self.agent, idempotency_key=key)
        return created.session_id


def remote_tool(server: WindlassServer, timeout_s: float) -> Tool[..., object]:
    """Return the tool that sends work to a server and waits for its result.

    A repeated call starts nothing twice: the remote session is derived from the local one, and the message
    carries the idempotency key of the call, or of the call before an outage.
    """

    @tool(name=REMOTE, mode=ToolMode.READ, effect=EffectClass.IDEMPOTENT, timeout=timeout_s)
    async def remote(
        ctx: ToolContext,
        message: Annotated[str, Field(max_length=WORDS_CHARS_MAX)] | None = None,
        output_schema: dict[str, JsonValue] | None = None,
        reply: RemoteReply | None = None,
        key: Annotated[str, Field(max_length=64)] | None = None,
    ) -> JsonObject:
        """Send a task to an agent of another server, and wait for its result.

        Args:
            message: The task.
            output_schema: A JSON Schema that the result must fit.
            reply: The answer of a person to its request, instead of a task.
            key: The key of the same task, if it was sent before.
        """
        # Hashed for the HTTP header: the key of a call contains names with arbitrary characters.
        task_key = key or sha256(ctx.idempotency_key.encode()).hexdigest()
        work = _Work(server, ctx, message or "", output_schema, reply, task_key)
        return (await work.done()).model_dump(mode="json", by_alias=True, exclude_none=True)

    return remote.with_options(reads=Taint.UNTRUSTED, is_outbound=True, metadata={"remote": server.facts})


@sealed
class _Work:
    server: WindlassServer
    ctx: ToolContext
    message: str
    output_schema: JsonObject | None
    reply: RemoteReply | None
    key: str

    async def done(self) -> Report:
        """Return the end of the work, a request to a person, or that the server is away."""
        failures = 0
        # One attempt for each request: the pauses between attempts are here, and later those of the run.
        async with self.server.client(_ONE_ATTEMPT) as client:
            while True:
                try:
                    return await self._try(client)
                except MissingKey as error:
                    raise ToolFailed(error.message) from None
                except AgentError as error:
                    # The server deduplicates every request of this tool, so all of them may be repeated.
                    if not (is_passing(error) or isinstance(error, Ambiguous)):
                        raise ToolFailed(f"the server refused the request: {error.message}") from None
                    reason, after_ms = error.message, error.retry_after_ms
                failures += 1
                if failures >= _FAILURES_MAX:
                    away = Outage(reason=reason[:ERROR_CHARS_MAX], resume={"key": self.key})
                    return Report(away=away)
                await client.link.pause(failures, FEEDS, retry_after_ms=after_ms)

    async def _try(self, client: Client) -> Report:
        if self.reply is not None:
            await _say(client, self.reply)
            return await _follow(client, self.reply.run_id)
        session_id = await self.server.session(client, self.ctx.session_id)
        run = await client.sessions.send(
            session_id,
            self.message,
            agent=self.server.agent,
            mode=RunMode.TASK,
            output_schema=self.output_schema,
            budget=self.ctx.budget,
            idempotency_key=self.key,
        )
        return await _follow(client, run.run_id)


async def _say(client: Client, reply: RemoteReply) -> None:
    try:
        await client.approvals.answer(
            reply.request_id, reply.option_id, text=reply.text, arguments_hash=reply.arguments_hash
        )
    except (Conflict, NotFound):
        # It was answered before: by this call before a crash, or by a person on the server.
        return


async def _follow(client: Client, run_id: str) -> Report:
    """Return the report on a run, once there is one."""
    async with client.events(run_id=run_id) as feed:
        feed.attempts_max = FEEDS.max_attempts
        while True:
            report = report_of(await client.runs.get(run_id))
            if report is not None:
                return report
            async for event in feed:
                if event.type == "run.waiting":
                    break
            else:
                return _last(report_of(await client.runs.get(run_id)))


def _last(report: Report | None) -> Report:
    if report is None:
        raise ToolFailed("the server ended the feed of an unfinished run")
    return report


def remote_end(server: WindlassServer) -> Hook:
    """Return the hook that cancels the remote run when the local run has ended."""

    @hook("after_run_terminal", hook_id="remote_end", timeout_ms=END_MS)
    async def end(call: HookCall) -> None:
        if call.status == RunStatus.COMPLETED:
            return
        async with server.client(_LAST_WORDS) as client:
            session_id = await server.session(client, call.session_id)
            if (await client.sessions.get(session_id)).run_count:
                await client.sessions.cancel(session_id, reason=_ENDED)
            else:
                await client.sessions.delete(session_id)

    return end


A2A: Final = "a2a://"
"""The beginning of the address of an agent that speaks A2A."""
_VARIABLE: Final = "key_env must be the name of an environment variable, such as RESEARCH_KEY"


class RemoteOptions(TypedDict, total=False):
    """Options of a remote agent."""

    key: Key
    """The key for the server. It stays in memory: no package, record or event contains it."""
    key_env: str
    """The environment variable with the key; it is read when the key is needed, and must be set then."""
    agent: str
    """The agent of the server; optional if the server has only one."""
    description: str
    """The description for the calling model."""
    timeout: float
    """Timeout of one piece of work in seconds, without the time that people take; default one hour."""
    retry_for_ms: int
    """How long the server may be away before the calling model gets an error; default five minutes."""


def RemoteAgent(name: str, *, url: str, **options: Unpack[RemoteOptions]) -> Agent:  # noqa: N802 - it reads as the agent that it makes
    """Return an agent that works on another server, for `Agent(subagents=[…])`.

    `url` is the address of a Windlass server, or `a2a://…`, that of an agent of any server that speaks A2A.

    Options:
        key: the key for the server; it stays in memory.
        key_env: the environment variable with the key, instead of the key.
        agent: the agent of the server; optional if the server has only one.
        description: the description for the calling model.
        timeout: the timeout of one piece of work in seconds; default one hour.
        retry_for_ms: how long the server may be away before the calling model gets an error; default 300,000.

    Raises:
        Rejected: an option is not valid, or the extra `windlass-runtime[client]` is not installed.
    """
    problem = option_problem(options, RemoteOptions, what="RemoteAgent", beside=("url",))
    if problem is not None:
        raise wrong(problem)
    if find_spec("httpx2") is None:
        raise wrong(f"a remote agent needs an optional dependency: {install_hint('client')}")
    check_name(name, "an agent")
    key, variable, agent = options.get("key"), options.get("key_env"), options.get("agent")
    if agent is not None:
        check_name(agent, "the agent of a server", option="agent")
    if key is not None and variable is not None:
        raise wrong(f"agent {name}: give key or key_env, not both")
    server_key, host = key if variable is None else _from_environment(variable), urlsplit(url).netloc
    timeout_s = options.get("timeout", WORK_S)
    if url.startswith(A2A):
        from windlass.client.a2a import (  # noqa: PLC0415 - it imports this module
            A2AServer,
            a2a_end,
            a2a_probe,
            a2a_tool,
        )

        if agent is not None:
            raise wrong(f"agent {name}: the address of an A2A agent names the agent; leave agent out")
        a2a_server = A2AServer(url, server_key if callable(server_key) else lambda: server_key, variable)
        work, hooks, probe = a2a_tool(a2a_server, timeout_s), [a2a_end(a2a_server)], a2a_probe(a2a_server)
    else:
        server = WindlassServer(ServerAddress(check_url(url), server_key), agent, variable)
        work, hooks, probe = remote_tool(server, timeout_s), [remote_end(server)], server.problem
    return Agent(
        name,
        description=options.get("description", f"Works at {host}."),
        # A server of Windlass gets the limits of the run and says what it spent; of others nothing is known.
        model=RemoteModel(
            f"{agent or 'agent'}@{host}", probe, prices=None if url.startswith(A2A) else REPORTED
        ),
        retry_for_ms=options.get("retry_for_ms", AWAY_MS),
        tools=[work, ask_question],
        hooks=hooks,
    )


class MissingKey(Denied):
    """The environment variable with the key of a server is not set."""

    def __init__(self, variable: str) -> None:
        super().__init__(
            f"the environment variable {variable} is not set, which has the key for the server: set the "
            "variable, or leave key_env out for a server without keys",
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )


def _from_environment(variable: object) -> Callable[[], str]:
    if not isinstance(variable, str) or not variable.isidentifier():
        raise wrong(_VARIABLE)

    def read() -> str:
        key = parts.variable(variable)
        if not key:
            raise MissingKey(variable)
        return key

    return read
