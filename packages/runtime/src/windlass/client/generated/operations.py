# Generated from spec/operations.json by `make gen`. Do not edit.
"""The operations of a server, by group."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType
from pydantic import JsonValue

import windlass_protocol as wire
from windlass.catalog.reading import Page
from windlass.client.connection import path_of
from windlass.client.operations import OperationGroup

if TYPE_CHECKING:
    from windlass_protocol.generated import values


class SessionsOperations(OperationGroup):
    """Sessions: created, continued, read, forked, exported and deleted.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def create(
        self,
        message: "wire.UserContent",
        *,
        agent: "str | None" = None,
        mode: "wire.RunMode | values.RunModeValue | None" = None,
        output_schema: "wire.JsonObject | None" = None,
        context: "Sequence[str] | None" = None,
        metadata: "wire.JsonObject | None" = None,
        budget: "wire.BudgetLimits | None" = None,
        batch: "Literal['within 24h', 'off'] | None" = None,
        goal: "str | None" = None,
        chat_id: "str | None" = None,
        current_stage: "str | None" = None,
        scenario: "str | None" = None,
        stage_data: "wire.JsonObject | None" = None,
        project_id: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AcceptedRun":
        """Create a session with its first message, which starts a run.

        The answer comes when the message is durable. With `chat_id`, `current_stage`, `scenario`,
        `stage_data` or `project_id` the session is journaled with its `AgentSession` before its first
        message, and stays if that message is refused.

        Args:
            message: The first message: text, or parts.
            agent: The agent; optional if the server or the session has only one.
            mode: Whether the run is a conversation or a task.
            output_schema: A JSON Schema that the output must fit.
            context: Texts that the model gets before the message.
            metadata: Data of the application, kept in `run.started`.
            budget: The most that the run may use.
            batch: Whether model calls of the run are items of batches, at a lower price; as the agent
                says if absent.
            goal: The goal of the run, by which runs are found and judged.
            chat_id: The chat of the AgentSession; the session itself if absent.
            current_stage: The first stage of the AgentSession; START if absent.
            scenario: The scenario tag of the AgentSession.
            stage_data: Scratch state of the first stage.
            project_id: The project that owns the AgentSession.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions"),
            body={
                "message": message,
                "agent": agent,
                "mode": mode,
                "outputSchema": output_schema,
                "context": context,
                "metadata": metadata,
                "budget": budget,
                "batch": batch,
                "goal": goal,
                "chatId": chat_id,
                "currentStage": current_stage,
                "scenario": scenario,
                "stageData": stage_data,
                "projectId": project_id,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AcceptedRun, call)

    async def create_empty(
        self,
        agent: "str | None" = None,
        *,
        chat_id: "str | None" = None,
        current_stage: "str | None" = None,
        scenario: "str | None" = None,
        stage_data: "wire.JsonObject | None" = None,
        project_id: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.Accepted":
        """Create a session without a message.

        Args:
            agent: The agent; optional if the server or the session has only one.
            chat_id: The chat of the AgentSession; the session itself if absent.
            current_stage: The first stage of the AgentSession; START if absent.
            scenario: The scenario tag of the AgentSession.
            stage_data: Scratch state of the first stage.
            project_id: The project that owns the AgentSession.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions"),
            body={
                "agent": agent,
                "chatId": chat_id,
                "currentStage": current_stage,
                "scenario": scenario,
                "stageData": stage_data,
                "projectId": project_id,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.Accepted, call)

    async def list(
        self,
        *,
        after: "str | None" = None,
        limit: "int | None" = None,
        agent: "str | None" = None,
        status: "wire.SessionStatus | values.SessionStatusValue | None" = None,
        text: "str | None" = None,
        subagents: "bool | None" = None,
        waits_on: "wire.WaitCause | values.WaitCauseValue | None" = None,
        version: "str | None" = None,
        error: "wire.ErrorKind | values.ErrorKindValue | Literal['any'] | None" = None,
        tag: "str | None" = None,
        feedback: "Literal['up', 'down', 'none'] | None" = None,
        crashed: "bool | None" = None,
        since: "str | None" = None,
        until: "str | None" = None,
        cost_min: "int | None" = None,
        cost_max: "int | None" = None,
        sort: "wire.SessionSort | values.SessionSortValue | None" = None,
        ascending: "bool | None" = None,
        total: "bool | None" = None,
    ) -> "Page[wire.SessionInfo]":
        """Return your sessions, newest first unless sorted otherwise.

        Sessions without a message are left out.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            agent: Sessions of this agent.
            status: Sessions with this status.
            text: Words of messages, answers and names of called tools, or prefixes of them.
            subagents: Include sessions of subagents. No by default.
            waits_on: What one of its runs waits for, as in the list of runs.
            version: The fingerprint of the package of one of its runs.
            error: The kind of the error of one of its runs; `any` for every error.
            tag: A tag of one of its runs.
            feedback: One of its runs has a thumb, or none has.
            crashed: One of its runs was taken over after a crash.
            since: Changed then or later.
            until: Not changed since.
            cost_min: Millionths of a dollar, of all its runs.
            cost_max: Millionths of a dollar, of all its runs.
            sort: The order, newest or largest first. `created` by default.
            ascending: The opposite order. No by default.
            total: Whether to count the rows that match, up to 10,001. No by default.
        """
        call = self._call(
            "GET",
            path_of("/v1/sessions"),
            query={
                "after": after,
                "limit": limit,
                "agent": agent,
                "status": status,
                "text": text,
                "subagents": subagents,
                "waitsOn": waits_on,
                "version": version,
                "error": error,
                "tag": tag,
                "feedback": feedback,
                "crashed": crashed,
                "since": since,
                "until": until,
                "costMin": cost_min,
                "costMax": cost_max,
                "sort": sort,
                "ascending": ascending,
                "total": total,
            },
        )
        page = await self._ask(wire.SessionPage, call)
        return Page(page.sessions, page.next, page.total)

    async def get(self, session_id: "str") -> "wire.SessionInfo":
        """Return the title, status and usage of a session.

        Args:
            session_id: A session.
        """
        call = self._call("GET", path_of("/v1/sessions/{}", session_id))
        return await self._ask(wire.SessionInfo, call)

    async def delete(self, session_id: "str", *, idempotency_key: "str | None" = None) -> "wire.Deleted":
        """Delete a session and everything that is stored of it.

        The sessions of its subagents are deleted as well. It is refused while a run is open: cancel that
        first.

        Args:
            session_id: A session.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call("DELETE", path_of("/v1/sessions/{}", session_id), key=self._key(idempotency_key))
        return await self._ask(wire.Deleted, call)

    async def send(
        self,
        session_id: "str",
        message: "wire.UserContent",
        *,
        continuation_token: "str | None" = None,
        agent: "str | None" = None,
        mode: "wire.RunMode | values.RunModeValue | None" = None,
        output_schema: "wire.JsonObject | None" = None,
        context: "Sequence[str] | None" = None,
        metadata: "wire.JsonObject | None" = None,
        budget: "wire.BudgetLimits | None" = None,
        batch: "Literal['within 24h', 'off'] | None" = None,
        goal: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AcceptedRun":
        """Send a message to a session: it starts a run after the current one.

        With a `continuation_token` it is refused if the session has changed since.

        Args:
            session_id: A session.
            message: The message: text, or parts.
            continuation_token: The token of the last answer; the message is refused if the session has
                changed since.
            agent: The agent; optional if the server or the session has only one.
            mode: Whether the run is a conversation or a task.
            output_schema: A JSON Schema that the output must fit.
            context: Texts that the model gets before the message.
            metadata: Data of the application, kept in `run.started`.
            budget: The most that the run may use.
            batch: Whether model calls of the run are items of batches, at a lower price; as the agent
                says if absent.
            goal: The goal of the run, by which runs are found and judged.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions/{}/messages", session_id),
            body={
                "message": message,
                "continuationToken": continuation_token,
                "agent": agent,
                "mode": mode,
                "outputSchema": output_schema,
                "context": context,
                "metadata": metadata,
                "budget": budget,
                "batch": batch,
                "goal": goal,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AcceptedRun, call)

    async def steer(
        self,
        session_id: "str",
        message: "wire.UserContent",
        *,
        agent: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.Accepted":
        """Send a message to the current run of a session.

        Args:
            session_id: A session.
            message: The message: text, or parts.
            agent: The agent; optional if the server or the session has only one.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions/{}/messages", session_id),
            body={"message": message, "agent": agent, "delivery": "steer"},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.Accepted, call)

    async def answer(
        self,
        session_id: "str",
        responses: "Sequence[wire.InputResponse]",
        *,
        continuation_token: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.Accepted":
        """Answer open requests of a session.

        Args:
            session_id: A session.
            responses: Responses to requests of the session.
            continuation_token: The token of the last answer; the message is refused if the session has
                changed since.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions/{}/messages", session_id),
            body={"responses": responses, "continuationToken": continuation_token},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.Accepted, call)

    async def cancel(
        self, session_id: "str", reason: "str | None" = None, *, idempotency_key: "str | None" = None
    ) -> "wire.Accepted":
        """Cancel the current run; queued runs start next.

        The response names the run; without one no run was active.

        Args:
            session_id: A session.
            reason: The reason, for the journal.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions/{}/cancel", session_id),
            body={"reason": reason},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.Accepted, call)

    async def compact(self, session_id: "str", *, idempotency_key: "str | None" = None) -> "wire.Accepted":
        """Compact the history: now, or before the next model call of the current run.

        Args:
            session_id: A session.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST", path_of("/v1/sessions/{}/compact", session_id), key=self._key(idempotency_key)
        )
        return await self._ask(wire.Accepted, call)

    async def fork(
        self, session_id: "str", at: "int | None" = None, *, idempotency_key: "str | None" = None
    ) -> "wire.SessionInfo":
        """Create a copy of a session as it is now, or was after one of its records.

        No run is repeated. A run that was open at that record is cancelled in the fork.

        Args:
            session_id: A session.
            at: The last record that is copied; the last of the session when absent.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions/{}/fork", session_id),
            body={"at": at},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.SessionInfo, call)

    async def history(
        self, session_id: "str", *, after: "str | None" = None, limit: "int | None" = None
    ) -> "Page[wire.ChatMessage]":
        """Return the messages of a session, oldest first.

        Args:
            session_id: A session.
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call(
            "GET", path_of("/v1/sessions/{}/history", session_id), query={"after": after, "limit": limit}
        )
        page = await self._ask(wire.HistoryPage, call)
        return Page(page.messages, page.next)

    async def safe_points(
        self, session_id: "str", *, before: "int | None" = None, limit: "int | None" = None
    ) -> "wire.SafePoints":
        """Return the records at which a fork can begin: no call is open there.

        A fork at another record begins at the last safe point before it. The newest points are returned,
        in order; `before` leads to older ones.

        Args:
            session_id: A session.
            before: Only records below this number.
            limit: Points per response. 1,000 by default.
        """
        call = self._call(
            "GET",
            path_of("/v1/sessions/{}/safe-points", session_id),
            query={"before": before, "limit": limit},
        )
        return await self._ask(wire.SafePoints, call)

    def export(self, session_id: "str") -> "AsyncGenerator[str]":
        """Send everything that is stored of a session.

        The last line has a checksum of the others. The response counts as a stream.

        Args:
            session_id: A session.
        """
        call = self._call("GET", path_of("/v1/sessions/{}/export", session_id))
        return self._lines(call, "application/x-ndjson")

    async def contents(
        self, session_id: "str", *, after: "str | None" = None, limit: "int | None" = None
    ) -> "Page[wire.ContentRef]":
        """Return the contents of a session: values that are too large for a record.

        Args:
            session_id: A session.
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call(
            "GET", path_of("/v1/sessions/{}/contents", session_id), query={"after": after, "limit": limit}
        )
        page = await self._ask(wire.ContentList, call)
        return Page(page.contents, page.next)

    async def content(self, session_id: "str", content_hash: "str") -> "bytes":
        """Send a content as a download; a browser does not show or run it.

        Records and messages refer to a content by its hash.

        Args:
            session_id: A session.
            content_hash: The hash of a content.
        """
        call = self._call("GET", path_of("/v1/sessions/{}/contents/{}", session_id, content_hash))
        return await self._read(call)


class AgentSessionsOperations(OperationGroup):
    """Sessions as `AgentSession` documents, with their stages.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self,
        *,
        after: "str | None" = None,
        limit: "int | None" = None,
        chat_id: "str | None" = None,
        active_only: "bool | None" = None,
    ) -> "Page[wire.AgentSession]":
        """Return your sessions as `AgentSession` documents, newest first.

        Sessions without a message are left out, unless they were created with such fields.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            chat_id: Sessions of this chat.
            active_only: Leave out sessions that have ended. No by default.
        """
        call = self._call(
            "GET",
            path_of("/v1/agent-sessions"),
            query={"after": after, "limit": limit, "chatId": chat_id, "activeOnly": active_only},
        )
        page = await self._ask(wire.AgentSessionList, call)
        return Page(page.sessions, page.next)

    async def get(self, session_id: "str") -> "wire.AgentSession":
        """Return a session as an `AgentSession` document: user, chat and stage.

        Args:
            session_id: A session.
        """
        call = self._call("GET", path_of("/v1/sessions/{}/agent-session", session_id))
        return await self._ask(wire.AgentSession, call)

    async def update(
        self,
        session_id: "str",
        current_stage: "str | None" = None,
        *,
        next_stage: "str | None | UnsetType" = UNSET,
        stage_data: "wire.JsonObject | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AgentSession":
        """Change the stage; fields that are left out stay as they are, and `nextStage: null` removes it.

        The change is durable when the response is sent. It is a `session.state_changed` among the events
        of the session, also while a run is under way.

        Args:
            session_id: A session.
            current_stage: The stage from now on.
            next_stage: The stage after it; null if it is not known any more.
            stage_data: Replaces the scratch state of the stage.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/sessions/{}/agent-session", session_id),
            body={"currentStage": current_stage, "nextStage": next_stage, "stageData": stage_data},
            nullable=("nextStage",),
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AgentSession, call)


class ApprovalsOperations(OperationGroup):
    """Requests to people over all sessions, and their answers.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self, *, after: "str | None" = None, limit: "int | None" = None
    ) -> "Page[wire.ApprovalInfo]":
        """Return the open requests of your sessions and their subagents, oldest first.

        You also get the questions of tools that name you or a role of yours, in sessions of all owners.
        Approvers get the requests of all sessions of the tenant.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call("GET", path_of("/v1/approvals"), query={"after": after, "limit": limit})
        page = await self._ask(wire.ApprovalPage, call)
        return Page(page.requests, page.next)

    async def get(self, request_id: "str") -> "wire.ApprovalView":
        """Return a request, open or closed: one that you may answer, or might have.

        A closed request says how it was closed, when, and by which user.

        Args:
            request_id: A request.
        """
        call = self._call("GET", path_of("/v1/approvals/{}", request_id))
        return await self._ask(wire.ApprovalView, call)

    async def answer(
        self,
        request_id: "str",
        option_id: "str | None" = None,
        *,
        text: "str | None" = None,
        arguments_hash: "str | None" = None,
        arguments: "wire.JsonObject | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AcceptedRun":
        """Answer a request: with one of its options, a text, or both.

        An approval holds for one call with the arguments that were shown, or with those that the answer
        gives instead: they are validated, and the policy decides about them. With the `arguments_hash` of
        the request, the answer is refused if the call has other arguments. A request that was already
        answered is a conflict, which names the option, the person and the time of that answer.

        Args:
            request_id: A request.
            option_id: The option.
            text: The text.
            arguments_hash: Digest of the arguments that were shown; the answer is refused if the call
                has others.
            arguments: With the option approve: the arguments that the call runs with instead of its own.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/approvals/{}", request_id),
            body={
                "optionId": option_id,
                "text": text,
                "argumentsHash": arguments_hash,
                "arguments": arguments,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AcceptedRun, call)


class RunsOperations(OperationGroup):
    """Runs: listed, read, explained, cancelled, continued and judged.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self,
        *,
        after: "str | None" = None,
        limit: "int | None" = None,
        session: "str | None" = None,
        runs: "str | None" = None,
        agent: "str | None" = None,
        status: "wire.RunStatus | values.RunStatusValue | None" = None,
        subagents: "bool | None" = None,
        playground: "bool | None" = None,
        waits_on: "wire.WaitCause | values.WaitCauseValue | None" = None,
        version: "str | None" = None,
        error: "wire.ErrorKind | values.ErrorKindValue | Literal['any'] | None" = None,
        tag: "str | None" = None,
        feedback: "Literal['up', 'down', 'none'] | None" = None,
        crashed: "bool | None" = None,
        since: "str | None" = None,
        until: "str | None" = None,
        cost_min: "int | None" = None,
        cost_max: "int | None" = None,
        duration_min: "int | None" = None,
        duration_max: "int | None" = None,
        text: "str | None" = None,
        sort: "wire.RunSort | values.RunSortValue | None" = None,
        ascending: "bool | None" = None,
        total: "bool | None" = None,
    ) -> "Page[wire.RunRow]":
        """Return the runs of your sessions, newest first unless sorted otherwise.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            session: Runs of this session.
            runs: Ids of runs, one a line; at most 100, in a query of 8 KiB.
            agent: Runs of this agent.
            status: Runs with this status.
            subagents: Include runs of subagents. Yes by default.
            playground: Include playground runs. No by default.
            waits_on: `person`: input or recovery.
            version: The fingerprint of the package.
            error: The kind of the error; `any` for every error.
            tag: Runs with this tag.
            feedback: Runs with such a thumb, or without one.
            crashed: Taken over after a crash, or not.
            since: Started then or later.
            until: Started before.
            cost_min: Millionths of a dollar.
            cost_max: Millionths of a dollar.
            duration_min: Milliseconds; 0 until a run has ended.
            duration_max: Milliseconds.
            text: Words in their sessions.
            sort: The order, newest or largest first. `started` by default.
            ascending: The opposite order. No by default.
            total: Whether to count the rows that match, up to 10,001. No by default.
        """
        call = self._call(
            "GET",
            path_of("/v1/runs"),
            query={
                "after": after,
                "limit": limit,
                "session": session,
                "runs": runs,
                "agent": agent,
                "status": status,
                "subagents": subagents,
                "playground": playground,
                "waitsOn": waits_on,
                "version": version,
                "error": error,
                "tag": tag,
                "feedback": feedback,
                "crashed": crashed,
                "since": since,
                "until": until,
                "costMin": cost_min,
                "costMax": cost_max,
                "durationMin": duration_min,
                "durationMax": duration_max,
                "text": text,
                "sort": sort,
                "ascending": ascending,
                "total": total,
            },
        )
        page = await self._ask(wire.RunPage, call)
        return Page(page.runs, page.next, page.total)

    async def get(self, run_id: "str") -> "wire.RunInfo":
        """Return the state of a run, its open requests and its result.

        Args:
            run_id: A run.
        """
        call = self._call("GET", path_of("/v1/runs/{}", run_id))
        return await self._ask(wire.RunInfo, call)

    async def trace(
        self, run_id: "str", *, events: "bool | None" = None, after: "int | None" = None
    ) -> "wire.TraceInfo":
        """Return the spans of a run: model calls, tool calls with their arguments in short, and waits; and
        its events.

        With `after`, the `seq` of an earlier answer, only spans that began or changed since.

        Args:
            run_id: A run.
            events: Whether its events come too; without them it is half. Yes by default.
            after: The `seq` of an earlier answer: what is new since. 0 by default.
        """
        call = self._call(
            "GET", path_of("/v1/runs/{}/trace", run_id), query={"events": events, "after": after}
        )
        return await self._ask(wire.TraceInfo, call)

    async def costs(self, run_id: "str") -> "wire.RunCosts":
        """Return what a run cost so far, by step, model, subagent and tool, and the results of tools that
        cost most.

        A result of a tool is paid for again with each later prompt that has it.

        Args:
            run_id: A run.
        """
        call = self._call("GET", path_of("/v1/runs/{}/costs", run_id))
        return await self._ask(wire.RunCosts, call)

    async def decisions(
        self, run_id: "str", *, after: "int | None" = None, limit: "int | None" = None
    ) -> "wire.DecisionRun":
        """Return the decisions of a run with their alternatives, outcomes and problems.

        With `limit` it is a page of them; `metrics.totalDecisions` counts all.

        Args:
            run_id: A run.
            after: How many to pass over. 0 by default.
            limit: The most; all if left out.
        """
        call = self._call(
            "GET", path_of("/v1/runs/{}/decisions", run_id), query={"after": after, "limit": limit}
        )
        return await self._ask(wire.DecisionRun, call)

    async def prompt(self, run_id: "str", step_index: "int") -> "wire.StepPrompt":
        """Return the instructions, tools and messages that the model received in a step.

        They are rebuilt from the journal and the version of the agent that the run is pinned to; `unknown`
        lists what cannot be rebuilt. Of several attempts at a step it is the last one.

        Args:
            run_id: A run.
            step_index: A step, from 0.
        """
        call = self._call("GET", path_of("/v1/runs/{}/steps/{}/prompt", run_id, str(step_index)))
        return await self._ask(wire.StepPrompt, call)

    async def draft(self, run_id: "str", step_index: "int") -> "wire.PlaygroundDraft":
        """Return the parts of a model call that the playground can change, the models that can be chosen, and
        the answer that the call got.

        Args:
            run_id: A run.
            step_index: A step, from 0.
        """
        call = self._call("GET", path_of("/v1/runs/{}/steps/{}/playground", run_id, str(step_index)))
        return await self._ask(wire.PlaygroundDraft, call)

    async def play(
        self,
        run_id: "str",
        step_index: "int",
        instructions: "str | None" = None,
        *,
        messages: "Sequence[wire.ModelMessage] | None" = None,
        tools: "Mapping[str, str] | None" = None,
        model: "str | None" = None,
        temperature: "float | None" = None,
        size: "Literal['call', 'run'] | None" = None,
        calls: "Literal['recorded', 'real'] | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AcceptedRun":
        """Start a playground run: a model call of a run again, in a session of its own.

        Calls are answered from the record, and a call without a record fails; with `"calls": "real"` tools
        are executed, under the policy of the agent. Lists leave playground runs out. A model that no agent
        of the server has is refused.

        Args:
            run_id: A run.
            step_index: A step, from 0.
            instructions: Other instructions.
            messages: Other messages; the last one is of the user or of a tool.
            tools: The tools that are offered, out of those of the step, with their descriptions.
            model: Another model of an agent of the server, as provider/model.
            temperature: Another temperature.
            size: What is run: this model call alone, or all that follows it; run when left out.
            calls: How calls are answered: from the record, or by the tools themselves; recorded when
                left out.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/runs/{}/steps/{}/playground", run_id, str(step_index)),
            body={
                "instructions": instructions,
                "messages": messages,
                "tools": tools,
                "model": model,
                "temperature": temperature,
                "size": size,
                "calls": calls,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AcceptedRun, call)

    async def cancel(self, run_id: "str", reason: "str | None" = None) -> "wire.AcceptedRun":
        """Cancel a run; no effect on a run that has ended.

        Args:
            run_id: A run.
            reason: The reason, for the journal.
        """
        call = self._call("POST", path_of("/v1/runs/{}/cancel", run_id), body={"reason": reason})
        return await self._ask(wire.AcceptedRun, call)

    async def send(
        self,
        run_id: "str",
        name: "str",
        *,
        data: "JsonValue | UnsetType" = UNSET,
        key: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AcceptedRun":
        """Send an event that the workflow of a run waits for; it is kept until then, and taken once.

        Args:
            run_id: A run.
            name: What the workflow waits for.
            data: What comes with it; true when absent.
            key: Events with the same key are one event; the Idempotency-Key of the request when absent.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/runs/{}/events", run_id),
            body={"name": name, "data": data, "key": key},
            nullable=("data",),
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AcceptedRun, call)

    async def retry(self, run_id: "str", budget: "wire.BudgetLimits | None" = None) -> "wire.AcceptedRun":
        """Continue a failed run in a new run of its session, without repeating finished calls.

        A budget is that of both runs together, within that of the agent.

        Args:
            run_id: A run.
            budget: The most that both runs together may use; what the failed run left if absent.
        """
        call = self._call("POST", path_of("/v1/runs/{}/retry", run_id), body={"budget": budget})
        return await self._ask(wire.AcceptedRun, call)

    async def undo_plan(self, run_id: "str") -> "wire.UndoPlan":
        """Return the calls of a run that may have changed something, newest first.

        Args:
            run_id: A run.
        """
        call = self._call("GET", path_of("/v1/runs/{}/undo", run_id))
        return await self._ask(wire.UndoPlan, call)

    async def undo(self, run_id: "str", *, idempotency_key: "str | None" = None) -> "wire.AcceptedRun":
        """Reverse the calls of a run, newest first, in a new run of its session.

        Args:
            run_id: A run.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call("POST", path_of("/v1/runs/{}/undo", run_id), key=self._key(idempotency_key))
        return await self._ask(wire.AcceptedRun, call)

    async def give_feedback(
        self,
        run_id: "str",
        thumb: "Literal['up', 'down'] | None" = None,
        *,
        score: "float | None" = None,
        note: "str | None" = None,
        tags: "Sequence[str] | None" = None,
        step_index: "int | None" = None,
        message_id: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.AcceptedRun":
        """Record what you say of a run, of one of its steps, or of an answer.

        Args:
            run_id: A run.
            thumb: Good or bad.
            score: From 0, the worst, to 1, the best.
            note: Why, in words.
            tags: Short words to find the run by.
            step_index: The step that is meant, from 0; the whole run when absent.
            message_id: The answer that is meant.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/runs/{}/feedback", run_id),
            body={
                "thumb": thumb,
                "score": score,
                "note": note,
                "tags": tags,
                "stepIndex": step_index,
                "messageId": message_id,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.AcceptedRun, call)

    async def feedback(
        self, run_id: "str", *, after: "str | None" = None, limit: "int | None" = None
    ) -> "Page[wire.FeedbackInfo]":
        """Return what people said of a run, its steps and its answers, oldest first.

        Args:
            run_id: A run.
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call(
            "GET", path_of("/v1/runs/{}/feedback", run_id), query={"after": after, "limit": limit}
        )
        page = await self._ask(wire.FeedbackList, call)
        return Page(page.feedback, page.next)

    async def refused(
        self, *, after: "str | None" = None, limit: "int | None" = None, agent: "str | None" = None
    ) -> "Page[wire.RefusedStart]":
        """Return the runs that you asked for and that were not started, newest first, with their errors.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            agent: Starts of this agent.
        """
        call = self._call(
            "GET", path_of("/v1/refused-starts"), query={"after": after, "limit": limit, "agent": agent}
        )
        page = await self._ask(wire.RefusedStartPage, call)
        return Page(page.refused_starts, page.next)

    async def stats(
        self,
        *,
        since: "str | None" = None,
        until: "str | None" = None,
        bucket: "int | None" = None,
        agent: "str | None" = None,
        split: "Literal['agent', 'user', 'model', 'version', 'tool'] | None" = None,
    ) -> "wire.Stats":
        """Return counts, durations and cost of your runs.

        The default is the last day in hours. Runs of subagents count as part of the run that they work
        for, unless `agent` names the subagent. `split` adds the eight groups with the most runs. A run
        counts for each model that answered it or a subagent of it, `provider/model`, with what that model
        used; durations of a model that several versions use are left out. `split=tool` adds the calls of
        the eight tools with the most.

        Args:
            since: Runs that started then or later.
            until: Runs that started before.
            bucket: Seconds per interval. 3,600 by default.
            agent: Runs of this agent.
            split: Also the same numbers by agent, user, model or version, or the calls by tool.
        """
        call = self._call(
            "GET",
            path_of("/v1/stats"),
            query={"since": since, "until": until, "bucket": bucket, "agent": agent, "split": split},
        )
        return await self._ask(wire.Stats, call)

    async def failures(
        self, *, since: "str | None" = None, until: "str | None" = None, agent: "str | None" = None
    ) -> "wire.Failures":
        """Return why your runs failed: by kind and by cause, with the runs of each.

        Errors that differ only in numbers, ids, paths or quoted values are one cause. The newest 10,000
        runs are counted.

        Args:
            since: Runs that started then or later.
            until: Runs that started before.
            agent: Runs of this agent.
        """
        call = self._call(
            "GET", path_of("/v1/failures"), query={"since": since, "until": until, "agent": agent}
        )
        return await self._ask(wire.Failures, call)


class FeedsOperations(OperationGroup):
    """Events, stored and live.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def all(
        self,
        *,
        after: "str | None" = None,
        follow: "bool | None" = None,
        format: "Literal['sse', 'ndjson'] | None" = None,
        types: "str | None" = None,
    ) -> "AsyncGenerator[str]":
        """Send the events of all your sessions, in their order.

        `after=now` starts with the next event. The header `windlass-cursor` has the cursor at which the
        stream begins: a client that is disconnected before the first event resumes there. Deltas are sent
        only if `types` names them. To keep a list up to date, open this feed first, then read the list.

        Args:
            after: The `id` of the last event that was received, or `now`; from the beginning when left
                out.
            follow: False ends the stream at the present end of the journal. Yes by default.
            format: By default `Accept` decides: Server-Sent Events unless it names
                `application/x-ndjson`.
            types: Event types, separated by commas.
        """
        call = self._call(
            "GET",
            path_of("/v1/events"),
            query={"after": after, "follow": follow, "format": format, "types": types},
        )
        return self._lines(call, "application/x-ndjson")

    def session(
        self,
        session_id: "str",
        *,
        after: "str | None" = None,
        follow: "bool | None" = None,
        format: "Literal['sse', 'ndjson'] | None" = None,
        shape: "Literal['events', 'steerable', 'eve'] | None" = None,
        deltas: "Literal['whole', 'slim'] | None" = None,
        start_index: "int | None" = None,
        last: "int | None" = None,
        before: "int | None" = None,
    ) -> "AsyncGenerator[str]":
        """Send every event of a session: first the stored ones, then new ones.

        Each has an `id`. A client that reconnects with the last `id` misses no event and gets none twice,
        even after a restart of the server. With `last` the feed starts near the end; `before` with `last`
        and `follow=false` is the page before a record. With `shape=eve` the `id` is the number of the
        event, and lines of JSON resume with `start_index`.

        Args:
            session_id: A session.
            after: The `id` of the last event that was received; from the beginning when left out.
            follow: False ends the stream at the present end of the journal. Yes by default.
            format: By default `Accept` decides: Server-Sent Events unless it names
                `application/x-ndjson`; with `shape=eve`, lines unless it names `text/event-stream`.
            shape: `steerable` sends the few kinds of events that a simple chat needs, and then `[DONE]`;
                `eve`, for sessions, sends the events of eve 0.13.8 in its order. `events` by default.
            deltas: Only with `shape=events`: `slim` leaves out of a text delta what it shares with the
                one before it. `whole` by default.
            start_index: Only with `shape=eve`: the number of events to leave out.
            last: Start with the newest records, this many of them.
            before: End before this record; only with `follow=false`.
        """
        call = self._call(
            "GET",
            path_of("/v1/sessions/{}/events", session_id),
            query={
                "after": after,
                "follow": follow,
                "format": format,
                "shape": shape,
                "deltas": deltas,
                "startIndex": start_index,
                "last": last,
                "before": before,
            },
        )
        return self._lines(call, "application/x-ndjson")

    def run(
        self,
        run_id: "str",
        *,
        after: "str | None" = None,
        follow: "bool | None" = None,
        format: "Literal['sse', 'ndjson'] | None" = None,
        shape: "Literal['events', 'steerable', 'eve'] | None" = None,
        deltas: "Literal['whole', 'slim'] | None" = None,
        start_index: "int | None" = None,
    ) -> "AsyncGenerator[str]":
        """Send every event of a run; the stream ends with the run.

        Args:
            run_id: A run.
            after: The `id` of the last event that was received; from the beginning when left out.
            follow: False ends the stream at the present end of the journal. Yes by default.
            format: By default `Accept` decides: Server-Sent Events unless it names
                `application/x-ndjson`.
            shape: `steerable` sends the few kinds of events that a simple chat needs, and then `[DONE]`;
                `eve`, for sessions, sends the events of eve 0.13.8 in its order. `events` by default.
            deltas: Only with `shape=events`: `slim` leaves out of a text delta what it shares with the
                one before it. `whole` by default.
            start_index: Only with `shape=eve`: the number of events to leave out.
        """
        call = self._call(
            "GET",
            path_of("/v1/runs/{}/events", run_id),
            query={
                "after": after,
                "follow": follow,
                "format": format,
                "shape": shape,
                "deltas": deltas,
                "startIndex": start_index,
            },
        )
        return self._lines(call, "application/x-ndjson")

    def replay(
        self,
        run_id: "str",
        *,
        after: "str | None" = None,
        format: "Literal['sse', 'ndjson'] | None" = None,
        speed: "float | None" = None,
        pause_max: "float | None" = None,
    ) -> "AsyncGenerator[str]":
        """Send the events of a run again, with the original pauses.

        Nothing is executed. The stream ends with the last event of the run so far. Deltas are not stored,
        so texts come whole.

        Args:
            run_id: A run.
            after: The `id` of the last event that was received; from the beginning when left out.
            format: By default `Accept` decides: Server-Sent Events unless it names
                `application/x-ndjson`.
            speed: 2 halves the pauses. 1.0 by default.
            pause_max: The longest pause, seconds. 5.0 by default.
        """
        call = self._call(
            "GET",
            path_of("/v1/runs/{}/replay", run_id),
            query={"after": after, "format": format, "speed": speed, "pauseMax": pause_max},
        )
        return self._lines(call, "application/x-ndjson")


class SchedulesOperations(OperationGroup):
    """Schedules: runs that start by the clock.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self, *, after: "str | None" = None, limit: "int | None" = None
    ) -> "Page[wire.ScheduleInfo]":
        """Return your schedules by name, with their next and last ticks.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call("GET", path_of("/v1/schedules"), query={"after": after, "limit": limit})
        page = await self._ask(wire.SchedulePage, call)
        return Page(page.schedules, page.next)

    async def put(
        self,
        name: "str",
        agent: "str",
        message: "str",
        *,
        cron: "str | None" = None,
        every_s: "int | None" = None,
        at: "str | None" = None,
        timezone: "str | None" = None,
        missed: "wire.MissedTicks | values.MissedTicksValue | None" = None,
        overlap: "wire.TickOverlap | values.TickOverlapValue | None" = None,
        jitter_s: "int | None" = None,
        session_id: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.ScheduleInfo":
        """Make a schedule that runs an agent for you, or replace yours with this name.

        An equal schedule stays as it is.

        Args:
            name: Its name.
            agent: The agent that is run.
            message: The message of each run.
            cron: A cron expression with five fields, or six with seconds first.
            every_s: Seconds between two ticks, counted from 1970.
            at: One moment; without an offset it is in `timezone`.
            timezone: The time zone of `cron` and `at`; UTC when left out.
            missed: Which ticks are made up for that passed while no process was running; `once` when
                left out.
            overlap: What happens at a tick while the run of an earlier one goes on; `skip` when left
                out.
            jitter_s: A tick starts up to so many seconds later.
            session_id: The session of all runs; when left out, each run has its own.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/schedules"),
            body={
                "name": name,
                "agent": agent,
                "message": message,
                "cron": cron,
                "everyS": every_s,
                "at": at,
                "timezone": timezone,
                "missed": missed,
                "overlap": overlap,
                "jitterS": jitter_s,
                "sessionId": session_id,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.ScheduleInfo, call)

    async def get(self, schedule_id: "str") -> "wire.ScheduleInfo":
        """Return a schedule with its next and last ticks.

        Args:
            schedule_id: A schedule.
        """
        call = self._call("GET", path_of("/v1/schedules/{}", schedule_id))
        return await self._ask(wire.ScheduleInfo, call)

    async def ticks(self, schedule_id: "str") -> "wire.ScheduleTicks":
        """Return up to ten ticks that come next, and the last ten with their runs; a skipped tick has none.

        Args:
            schedule_id: A schedule.
        """
        call = self._call("GET", path_of("/v1/schedules/{}/ticks", schedule_id))
        return await self._ask(wire.ScheduleTicks, call)

    async def pause(self, schedule_id: "str", *, idempotency_key: "str | None" = None) -> "wire.ScheduleInfo":
        """Start no further runs; those that go on are not affected.

        Args:
            schedule_id: A schedule.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST", path_of("/v1/schedules/{}/pause", schedule_id), key=self._key(idempotency_key)
        )
        return await self._ask(wire.ScheduleInfo, call)

    async def resume(
        self, schedule_id: "str", *, idempotency_key: "str | None" = None
    ) -> "wire.ScheduleInfo":
        """Start runs again, from the next tick on.

        Args:
            schedule_id: A schedule.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST", path_of("/v1/schedules/{}/resume", schedule_id), key=self._key(idempotency_key)
        )
        return await self._ask(wire.ScheduleInfo, call)

    async def run(self, schedule_id: "str", *, idempotency_key: "str | None" = None) -> "wire.AcceptedRun":
        """Start a run at once, beside the ticks; a second request within the same second is the same run.

        Args:
            schedule_id: A schedule.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST", path_of("/v1/schedules/{}/run", schedule_id), key=self._key(idempotency_key)
        )
        return await self._ask(wire.AcceptedRun, call)

    async def delete(self, schedule_id: "str", *, idempotency_key: "str | None" = None) -> "wire.Deleted":
        """Delete a schedule; its runs stay.

        Args:
            schedule_id: A schedule.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call("DELETE", path_of("/v1/schedules/{}", schedule_id), key=self._key(idempotency_key))
        return await self._ask(wire.Deleted, call)


class LimitsOperations(OperationGroup):
    """Limits for people and teams: what runs may spend together.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(self, *, after: "str | None" = None, limit: "int | None" = None) -> "Page[wire.LimitInfo]":
        """Return the limits that your runs count for, with what is left of them now.

        An operator gets all limits of the tenant.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call("GET", path_of("/v1/limits"), query={"after": after, "limit": limit})
        page = await self._ask(wire.LimitList, call)
        return Page(page.limits, page.next)

    async def put(
        self,
        name: "str",
        per: "wire.LimitPeriod | values.LimitPeriodValue",
        *,
        max_cost_micros: "int | None" = None,
        max_tokens: "int | None" = None,
        owner: "str | None" = None,
        agent: "str | None" = None,
        timezone: "str | None" = None,
        at_limit: "wire.LimitChoice | values.LimitChoiceValue | None" = None,
        responders: "Sequence[str] | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.LimitInfo":
        """Set a limit, or replace the one with this name; for operators only.

        It holds in every process of the fleet within two seconds. What was spent of a limit with the same
        name in the same period counts.

        Args:
            name: Its name, without a slash.
            per: What it is for.
            max_cost_micros: Millionths of a US dollar; absent does not limit money.
            max_tokens: Tokens of prompts and answers; absent does not limit them.
            owner: An owner, or `*` for each owner; absent is for all runs.
            agent: The name of an agent, or `*` for each agent; absent is for all.
            timezone: The time zone of days and months; UTC when left out.
            at_limit: What happens when it is reached; `refuse` when left out.
            responders: Names and roles that may let a run spend more, where it asks; absent is anyone
                who may answer for the run.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/limits"),
            body={
                "name": name,
                "per": per,
                "maxCostMicros": max_cost_micros,
                "maxTokens": max_tokens,
                "owner": owner,
                "agent": agent,
                "timezone": timezone,
                "atLimit": at_limit,
                "responders": responders,
            },
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.LimitInfo, call)

    async def delete(self, limit_name: "str", *, idempotency_key: "str | None" = None) -> "wire.LimitInfo":
        """Remove a limit; for operators only. What was spent of it is kept to the end of its period.

        Args:
            limit_name: A limit.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call("DELETE", path_of("/v1/limits/{}", limit_name), key=self._key(idempotency_key))
        return await self._ask(wire.LimitInfo, call)


class DatasetsOperations(OperationGroup):
    """Data sets of evaluations, and their cases.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self, *, after: "str | None" = None, limit: "int | None" = None
    ) -> "Page[wire.EvalDataset]":
        """Return your data sets by name.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call("GET", path_of("/v1/datasets"), query={"after": after, "limit": limit})
        page = await self._ask(wire.EvalDatasetPage, call)
        return Page(page.datasets, page.next)

    async def make(self, name: "str") -> "wire.EvalDataset":
        """Make a data set without cases; yours with this name stays as it is.

        Args:
            name: Its name.
        """
        call = self._call("POST", path_of("/v1/datasets"), body={"name": name})
        return await self._ask(wire.EvalDataset, call)

    async def get(
        self, dataset_id: "str", *, after: "str | None" = None, limit: "int | None" = None
    ) -> "wire.EvalDatasetView":
        """Return a data set with a page of its cases, in their order.

        Args:
            dataset_id: A data set.
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call(
            "GET", path_of("/v1/datasets/{}", dataset_id), query={"after": after, "limit": limit}
        )
        return await self._ask(wire.EvalDatasetView, call)

    async def yaml(self, dataset_id: "str") -> "str":
        """Return a data set as a YAML file in the form of pydantic-evals.

        Args:
            dataset_id: A data set.
        """
        call = self._call("GET", path_of("/v1/datasets/{}/yaml", dataset_id))
        return (await self._read(call)).decode()

    async def delete(self, dataset_id: "str", *, idempotency_key: "str | None" = None) -> "wire.Deleted":
        """Delete a data set with its cases; experiments on it stay.

        Args:
            dataset_id: A data set.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call("DELETE", path_of("/v1/datasets/{}", dataset_id), key=self._key(idempotency_key))
        return await self._ask(wire.Deleted, call)

    async def add_case(
        self,
        dataset_id: "str",
        name: "str | None" = None,
        *,
        run_id: "str | None" = None,
        inputs: "JsonValue | UnsetType" = UNSET,
        expected: "JsonValue | UnsetType" = UNSET,
        tags: "Sequence[str] | None" = None,
        metadata: "wire.JsonObject | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.EvalDatasetCase":
        """Add a case to a data set: from a run of yours, or from inputs. An equal case stays as it is.

        What is given beside `run_id` replaces what the run says. `inputs` with `conversation` are
        messages.

        Args:
            dataset_id: A data set.
            name: Its name; that of the run, or one that follows from the inputs, when left out.
            run_id: A recorded run: its message and its answer are taken unless they are given here.
            inputs: The message, data that is sent as JSON, or an object with `conversation`: several
                messages.
            expected: The expected answer; null means none, also if the run has an answer.
            tags: Its tags.
            metadata: Further facts.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/datasets/{}/cases", dataset_id),
            body={
                "name": name,
                "runId": run_id,
                "inputs": inputs,
                "expected": expected,
                "tags": tags,
                "metadata": metadata,
            },
            nullable=("inputs", "expected"),
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.EvalDatasetCase, call)

    async def change_case(
        self,
        dataset_id: "str",
        name: "str",
        *,
        inputs: "JsonValue | UnsetType" = UNSET,
        expected: "JsonValue | UnsetType" = UNSET,
        tags: "Sequence[str] | None" = None,
        metadata: "wire.JsonObject | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.EvalDatasetCase":
        """Change inputs, expected answer, tags or metadata of the case that `name` names; the rest stays.

        Args:
            dataset_id: A data set.
            name: The case.
            inputs: Other inputs.
            expected: Another expected answer; null means none.
            tags: Its tags.
            metadata: Other facts.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "PATCH",
            path_of("/v1/datasets/{}/cases", dataset_id),
            body={"name": name, "inputs": inputs, "expected": expected, "tags": tags, "metadata": metadata},
            nullable=("inputs", "expected"),
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.EvalDatasetCase, call)

    async def delete_case(
        self, dataset_id: "str", name: "str", *, idempotency_key: "str | None" = None
    ) -> "wire.EvalDataset":
        """Delete a case of a data set.

        Args:
            dataset_id: A data set.
            name: The case.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "DELETE",
            path_of("/v1/datasets/{}/cases", dataset_id),
            query={"name": name},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.EvalDataset, call)


class ExperimentsOperations(OperationGroup):
    """Evaluations with their cases.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self,
        *,
        after: "str | None" = None,
        limit: "int | None" = None,
        agent: "str | None" = None,
        dataset: "str | None" = None,
    ) -> "Page[wire.EvalExperiment]":
        """Return your experiments, the newest first; one that has not ended with what was scored so far.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            agent: Experiments with this agent.
            dataset: Experiments with this data set.
        """
        call = self._call(
            "GET",
            path_of("/v1/experiments"),
            query={"after": after, "limit": limit, "agent": agent, "dataset": dataset},
        )
        page = await self._ask(wire.EvalExperimentPage, call)
        return Page(page.experiments, page.next)

    async def get(self, experiment_id: "str") -> "wire.EvalResult":
        """Return an experiment with its attempts at cases.

        Args:
            experiment_id: An experiment.
        """
        call = self._call("GET", path_of("/v1/experiments/{}", experiment_id))
        return await self._ask(wire.EvalResult, call)

    async def compare(self, experiment_id: "str", old: "str") -> "wire.EvalComparison":
        """Compare an experiment with an older one of yours, case by case.

        Args:
            experiment_id: An experiment.
            old: The older experiment.
        """
        call = self._call("GET", path_of("/v1/experiments/{}/comparison", experiment_id), query={"old": old})
        return await self._ask(wire.EvalComparison, call)


class DeliveriesOperations(OperationGroup):
    """Notifications and messages of channels that were not taken.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self, *, after: "str | None" = None, limit: "int | None" = None, dead: "bool | None" = None
    ) -> "Page[wire.DeliveryInfo]":
        """Return the deliveries of your sessions that were not taken; with `dead`, the dead letters alone.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            dead: Only those that are tried no more. No by default.
        """
        call = self._call(
            "GET", path_of("/v1/deliveries"), query={"after": after, "limit": limit, "dead": dead}
        )
        page = await self._ask(wire.DeliveryPage, call)
        return Page(page.deliveries, page.next)

    async def get(self, delivery_id: "str") -> "wire.DeliveryInfo":
        """Return a delivery that was not taken.

        Args:
            delivery_id: A delivery.
        """
        call = self._call("GET", path_of("/v1/deliveries/{}", delivery_id))
        return await self._ask(wire.DeliveryInfo, call)

    async def retry(self, delivery_id: "str", *, idempotency_key: "str | None" = None) -> "wire.DeliveryInfo":
        """Try a delivery again now; its attempts are counted from the beginning.

        Args:
            delivery_id: A delivery.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST", path_of("/v1/deliveries/{}/retry", delivery_id), key=self._key(idempotency_key)
        )
        return await self._ask(wire.DeliveryInfo, call)

    async def delete(
        self, delivery_id: "str", *, idempotency_key: "str | None" = None
    ) -> "wire.DeliveryInfo":
        """Delete a delivery: it is tried no more.

        Args:
            delivery_id: A delivery.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call("DELETE", path_of("/v1/deliveries/{}", delivery_id), key=self._key(idempotency_key))
        return await self._ask(wire.DeliveryInfo, call)


class ProposalsOperations(OperationGroup):
    """Proposals to change agents; for improvers.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(
        self,
        *,
        after: "str | None" = None,
        limit: "int | None" = None,
        status: "Literal['open', 'accepted', 'refused', 'applied'] | None" = None,
        agent: "str | None" = None,
    ) -> "wire.ProposalList":
        """Return the proposals to change agents of the tenant, newest first.

        For improvers: a proposal quotes runs of all users of the tenant.

        Args:
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
            status: Proposals with this status.
            agent: Proposals for this agent.
        """
        call = self._call(
            "GET",
            path_of("/v1/proposals"),
            query={"after": after, "limit": limit, "status": status, "agent": agent},
        )
        return await self._ask(wire.ProposalList, call)

    async def create(
        self, goal: "str", *, agent: "str | None" = None, idempotency_key: "str | None" = None
    ) -> "wire.ProposalAccepted":
        """Let the builder model propose a change to an agent, for a goal.

        It works on recorded runs. The response is sent at once; the proposal appears in the list when it
        is made. After a restart of the server, the same key resumes the work.

        Args:
            goal: A goal that the server knows.
            agent: The agent; that of the newest run for the goal when absent.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/proposals"),
            body={"goal": goal, "agent": agent},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.ProposalAccepted, call)

    async def get(self, proposal_id: "str") -> "wire.ProposalView":
        """Return a proposal: the change, its evidence, its check and its verdict.

        Args:
            proposal_id: A proposal.
        """
        call = self._call("GET", path_of("/v1/proposals/{}", proposal_id))
        return await self._ask(wire.ProposalView, call)

    async def check(
        self,
        proposal_id: "str",
        run_ids: "Sequence[str] | None" = None,
        *,
        repeats: "int | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.ProposalAccepted":
        """Repeat recorded runs with both versions, and compare the results.

        Tools are replayed; models are called. The response is sent at once; the check appears in the
        proposal when it is done.

        Args:
            proposal_id: A proposal.
            run_ids: The runs; the server chooses when absent.
            repeats: Attempts per run; 1 when absent.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/proposals/{}/check", proposal_id),
            body={"runIds": run_ids, "repeats": repeats},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.ProposalAccepted, call)

    async def approve(
        self,
        proposal_id: "str",
        reason: "str | None" = None,
        *,
        fingerprint: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.ProposalView":
        """Record your approval; it can be withdrawn until the change is applied.

        The operator of the server applies the change with `builder.apply`.

        Args:
            proposal_id: A proposal.
            reason: The reason.
            fingerprint: The version that was read; the verdict is refused if the proposal makes another.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/proposals/{}/approve", proposal_id),
            body={"reason": reason, "fingerprint": fingerprint},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.ProposalView, call)

    async def refuse(
        self,
        proposal_id: "str",
        reason: "str | None" = None,
        *,
        fingerprint: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.ProposalView":
        """Record your refusal and its reason.

        Args:
            proposal_id: A proposal.
            reason: The reason.
            fingerprint: The version that was read; the verdict is refused if the proposal makes another.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/v1/proposals/{}/refuse", proposal_id),
            body={"reason": reason, "fingerprint": fingerprint},
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.ProposalView, call)


class AgentsOperations(OperationGroup):
    """Agents and their versions.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(self) -> "wire.AgentList":
        """Return the agents that runs can be started with.

        All of them: the program registers them when it starts, so the list has no pages."""
        call = self._call("GET", path_of("/v1/agents"))
        return await self._ask(wire.AgentList, call)

    async def versions(
        self, agent: "str", *, after: "str | None" = None, limit: "int | None" = None
    ) -> "wire.AgentVersions":
        """Return the versions of an agent in your runs, with the results of those runs.

        Rates and means have 95 % confidence intervals.

        Args:
            agent: An agent.
            after: The `next` of the previous page.
            limit: Items per page. 50 by default.
        """
        call = self._call(
            "GET", path_of("/v1/versions"), query={"after": after, "limit": limit, "agent": agent}
        )
        return await self._ask(wire.AgentVersions, call)

    async def compare(self, agent: "str", old: "str", new: "str") -> "wire.AgentComparison":
        """Return the results of two versions of an agent, and the confidence of their difference.

        The verdict is `better` or `worse` only with at least five runs of each version, if Fisher's exact
        test (`p_value`) and the whole confidence interval of the difference say so. Otherwise it is
        `unclear`.

        Args:
            agent: An agent.
            old: A version of the agent, as `/versions` names it.
            new: A version of the agent, as `/versions` names it.
        """
        call = self._call("GET", path_of("/v1/compare"), query={"agent": agent, "old": old, "new": new})
        return await self._ask(wire.AgentComparison, call)


class ToolsOperations(OperationGroup):
    """Tools of the agents.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def list(self) -> "wire.ToolList":
        """Return the tools of all agents; tools that are added at run time are not included.

        All of them: the program registers them when it starts, so the list has no pages."""
        call = self._call("GET", path_of("/v1/tools"))
        return await self._ask(wire.ToolList, call)


class ServerOperations(OperationGroup):
    """Health and metrics of the server.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def health(self) -> "wire.Health":
        """Return whether the server is alive; needs no credentials.

        `problem` says why a store cannot write: a restart would not help."""
        call = self._call("GET", path_of("/v1/health"))
        return await self._ask(wire.Health, call)

    async def ready(self) -> "wire.Health":
        """Return whether requests should be sent here; needs no credentials.

        503 from the signal that ends the server on: it still answers requests until its runs are drained.
        503 also while a store cannot be written, such as on a full disk, until a write has succeeded."""
        call = self._call("GET", path_of("/v1/ready"))
        return await self._ask(wire.Health, call)

    async def metrics(self) -> "str":
        """Return metrics of the whole server; for operators only."""
        call = self._call("GET", path_of("/v1/metrics"))
        return (await self._read(call)).decode()


class AguiOperations(OperationGroup):
    """AG-UI, for its clients.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def run(self, agent: "str", body: "wire.JsonObject") -> "AsyncGenerator[str]":
        """Send a message to a thread, or answer its interrupts, and follow the run.

        The server has the history: of `messages` only the last is used, if it is a user message. A
        repeated `runId` is the same run, from its beginning. A run that waits for people ends with an
        interrupt; the next run answers all of them in `resume`. A refused request is a `RUN_ERROR` with a
        stable code.

        Args:
            agent: An agent.
            body: The body.
        """
        call = self._call("POST", path_of("/v1/agui/{}", agent), body=body)
        return self._lines(call, "text/event-stream")


class AiOperations(OperationGroup):
    """The AI SDK, for its clients.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    def chat(self, agent: "str", body: "wire.JsonObject") -> "AsyncGenerator[str]":
        """Send a message to a chat, or answer its requests, and follow the run.

        The server has the history: only the last message is used. A repeated message is the same run. A
        regenerated answer or an edited message continues in a copy of the session.

        Args:
            agent: An agent.
            body: The body.
        """
        call = self._call("POST", path_of("/v1/ai/{}/chat", agent), body=body)
        return self._lines(call, "text/event-stream")

    async def history(self, agent: "str", chat_id: "str") -> "JsonValue":
        """Return the messages of a chat as `UIMessage[]`, oldest first; a new chat has none.

        The run under way is the last message, as far as it is stored: the stream replaces it.

        Args:
            agent: An agent.
            chat_id: The id of a chat, chosen by the client.
        """
        call = self._call("GET", path_of("/v1/ai/{}/chat/{}", agent, chat_id))
        return await self._read_json(call)

    def resume(self, agent: "str", chat_id: "str") -> "AsyncGenerator[str]":
        """Send the current run of a chat from its beginning; 204 without one.

        Args:
            agent: An agent.
            chat_id: The id of a chat, chosen by the client.
        """
        call = self._call("GET", path_of("/v1/ai/{}/chat/{}/stream", agent, chat_id))
        return self._lines(call, "text/event-stream")


class EveOperations(OperationGroup):
    """Routes of eve 0.13.8, for its clients.

    Every method raises an AgentError: see `windlass.client.connection`.
    """

    async def create(
        self,
        body: "wire.JsonObject",
        *,
        windlass_agent: "str | None" = None,
        idempotency_key: "str | None" = None,
    ) -> "wire.JsonObject":
        """Create a session with its first message; the response is sent when the message is durable.

        Args:
            body: The body.
            windlass_agent: The agent of a new session; optional if there is only one.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST",
            path_of("/eve/v1/session"),
            headers={"windlass-agent": windlass_agent},
            body=body,
            key=self._key(idempotency_key),
        )
        return await self._ask(wire.JsonObject, call)

    async def send(
        self, session_id: "str", body: "wire.JsonObject", *, idempotency_key: "str | None" = None
    ) -> "wire.JsonObject":
        """Send a message to a session, answer its requests, or both.

        A message to a session that waits for answers joins its run, and open requests without an answer
        are ignored. Any other message starts a run after the current one.

        Args:
            session_id: A session.
            body: The body.
            idempotency_key: The same key with the same request has one effect; a new key by default.
        """
        call = self._call(
            "POST", path_of("/eve/v1/session/{}", session_id), body=body, key=self._key(idempotency_key)
        )
        return await self._ask(wire.JsonObject, call)

    def stream(
        self, session_id: "str", *, start_index: "int | None" = None, follow: "bool | None" = None
    ) -> "AsyncGenerator[str]":
        """Send the events of a session in the sequence of eve, as lines of JSON; then new ones.

        The stream does not end by itself: `session.waiting`, `session.completed` and `session.failed` end
        a turn.

        Args:
            session_id: A session.
            start_index: The number of events to leave out.
            follow: False ends the stream at the current end of the journal. Yes by default.
        """
        call = self._call(
            "GET",
            path_of("/eve/v1/session/{}/stream", session_id),
            query={"startIndex": start_index, "follow": follow},
        )
        return self._lines(call, "application/x-ndjson")

    async def health(self) -> "wire.JsonObject":
        """Return whether the server accepts requests, as `/v1/ready` does; needs no credentials.

        503 while the server shuts down, and while a store cannot be written."""
        call = self._call("GET", path_of("/eve/v1/health"))
        return await self._ask(wire.JsonObject, call)
