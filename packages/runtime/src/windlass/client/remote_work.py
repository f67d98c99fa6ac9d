"""Work on another server: begun once, followed through crashes on both sides."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final

from pydantic import Field, JsonValue

from windlass.client.address import Address
from windlass.client.client import Client
from windlass.client.errors import NotFound, NotWindlass, is_passing
from windlass.client.limits import FEEDS
from windlass.client.remote_report import REMOTE, Reply, Report, report_of
from windlass.errors import AgentError, Ambiguous, Conflict
from windlass.hooks import Hook, hook
from windlass.ports.hook import HookCall
from windlass.subagents import MESSAGE_CHARS_MAX
from windlass.tool_context import ToolContext
from windlass.tools import Tool, ToolFailed, tool
from windlass_harness.retry import RetryPolicy
from windlass_protocol import EffectClass, RunMode, RunStatus, Taint, ToolMode, canonical

JsonObject = dict[str, JsonValue]

WORK_S: Final = 3_600.0
"""How long one piece of work may take, seconds."""
END_MS: Final = 30_000
"""How long telling a server that nobody waits for its work any more may take, milliseconds."""
WORDS_CHARS_MAX: Final = 2 * MESSAGE_CHARS_MAX
_LAST_WORDS: Final = RetryPolicy(max_attempts=8, base_delay_ms=250, max_delay_ms=5_000)
_ENDED: Final = "The run that it worked for has ended."


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server, and which of its agents is wanted."""

    address: Address
    agent: str | None
    key_env: str | None

    def client(self, retries: RetryPolicy | None = None) -> Client:
        """Return a client of it."""
        url, key = self.address.url, self.address.key
        return Client(url, key=key) if retries is None else Client(url, key=key, retries=retries)

    @property
    def facts(self) -> JsonObject:
        """What a package says of it: where it is, and where its key comes from."""
        known = {"url": self.address.shown, "agent": self.agent, "keyEnv": self.key_env}
        return {name: value for name, value in known.items() if value is not None}

    async def session(self, client: Client, session_id: str) -> str:
        """Return the session there that belongs to one here: always the same."""
        key = sha256(canonical(["remote session", session_id])).hexdigest()
        begun = await client.sessions.create(agent=self.agent, mode=RunMode.TASK, idempotency_key=key)
        return begun.session_id


def remote_tool(server: RemoteServer, timeout_s: float) -> Tool[..., object]:
    """Return the tool that gives work to a server and waits for what comes of it.

    A call begins nothing twice: its session there comes from the session here, and its message carries the
    key of the call.
    """

    @tool(
        name=REMOTE,
        mode=ToolMode.READ,
        effect=EffectClass.IDEMPOTENT,
        reads=Taint.UNTRUSTED,
        is_outbound=True,
        timeout=timeout_s,
        metadata={"remote": server.facts},
    )
    async def remote(
        ctx: ToolContext,
        message: Annotated[str, Field(max_length=WORDS_CHARS_MAX)] | None = None,
        output_schema: dict[str, JsonValue] | None = None,
        reply: Reply | None = None,
    ) -> JsonObject:
        """Give words to an agent of another server, and wait for what comes of them.

        Args:
            message: The task.
            output_schema: A JSON Schema that the result must fit.
            reply: What a person said to its request, instead of a task.
        """
        work = _Work(server, ctx, message or "", output_schema, reply)
        return (await work.done()).model_dump(mode="json", by_alias=True, exclude_none=True)

    return remote


@dataclass(frozen=True, slots=True)
class _Work:
    server: RemoteServer
    ctx: ToolContext
    message: str
    output_schema: JsonObject | None
    reply: Reply | None

    async def done(self) -> Report:
        """Try until it is done; whoever waits sets the time."""
        failures = 0
        async with self.server.client() as client:
            while True:
                try:
                    return await self._try(client)
                except AgentError as error:
                    # Everything that is sent here is known again, so it may be sent again.
                    if not (is_passing(error) or isinstance(error, Ambiguous)):
                        raise ToolFailed(f"the server refused: {error.message}") from None
                    after_ms = error.retry_after_ms
                failures += 1
                await client.link.pause(failures, FEEDS, retry_after_ms=after_ms)

    async def _try(self, client: Client) -> Report:
        if self.reply is not None:
            await _say(client, self.reply)
            return await _followed(client, self.reply.run_id)
        session_id = await self.server.session(client, self.ctx.session_id)
        begun = await client.sessions.send(
            session_id,
            self.message,
            agent=self.server.agent,
            mode=RunMode.TASK,
            output_schema=self.output_schema,
            # As a header has it: the key of a call is made of names, which may hold anything.
            idempotency_key=sha256(self.ctx.idempotency_key.encode()).hexdigest(),
        )
        if begun.run_id is None:
            raise NotWindlass("the server took a message and names no run that it begins")
        return await _followed(client, begun.run_id)


async def _say(client: Client, reply: Reply) -> None:
    try:
        await client.approvals.answer(
            reply.request_id, reply.option_id, text=reply.text, arguments_hash=reply.arguments_hash
        )
    except (Conflict, NotFound):
        # It is answered: by this very call before a crash, or by somebody on the server.
        return


async def _followed(client: Client, run_id: str) -> Report:
    """Return what to report of a run, once there is something."""
    async with client.events(run_id=run_id) as feed:
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
        raise ToolFailed("the server ended the feed of a run that goes on")
    return report


def remote_end(server: RemoteServer) -> Hook:
    """Return what tells the server that nobody waits for its work any more."""

    @hook("after_run_terminal", hook_id="remote_end", timeout_ms=END_MS)
    async def end(seen: HookCall) -> None:
        if seen.status == RunStatus.COMPLETED:
            return
        async with server.client(_LAST_WORDS) as client:
            session_id = await server.session(client, seen.session_id)
            if (await client.sessions.get(session_id)).run_count:
                await client.sessions.cancel(session_id, reason=_ENDED)
            else:
                await client.sessions.delete(session_id)

    return end
