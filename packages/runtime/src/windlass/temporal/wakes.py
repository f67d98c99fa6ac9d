"""Wakes by Temporal: a short workflow for each session that has to be driven.

A wake is a signal with start: it starts the workflow of its session, or signals the one that runs. The
workflow calls one activity, which drives the session until it parks, and calls it again if a signal came
meanwhile. Then it ends, or continues as new after the time that the session waits for. So its history has a
dozen events whatever the run does, and while a session is parked no code of a workflow is under way: any
release may wake it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypedDict

from temporalio import activity, workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributeUpdate,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from windlass.errors import Unavailable
from windlass.limits import DRAIN_S_MAX
from windlass.ports.wakes import Drive, NotParked, Parked
from windlass.temporal import misconfiguration
from windlass_protocol import ErrorKind, RetryClass

_LOG: Final = logging.getLogger("windlass.wakes")

WORKFLOW: Final = "windlass.session"
ACTIVITY: Final = "windlass.drive"
SIGNAL: Final = "wake"
LOST_AFTER_MS: Final = 15_000
"""Time after which the wake of a session that is due and has no owner is repeated."""
HEARTBEAT_S: Final = 10.0
"""Heartbeat timeout of the activity: Temporal then gives the session to another worker."""
HELD_S: Final = 5.0
"""Pause before the next attempt if another owner has the session, which may be dead: its lease ends."""
DRIVE_S_MAX: Final = 365 * 24 * 3_600
"""Start-to-close timeout of the activity; runs have time limits of their own."""
RETRY_S_MAX: Final = 30.0
DRIVES_MAX: Final = 1_000
"""Sessions that one process drives at the same time; further ones wait in Temporal."""
DRIVES_PER_WORKFLOW_MAX: Final = 50
"""Drives of one workflow before it continues as new, so that its history stays short."""
WAKES_AT_ONCE: Final = 64
WAKES_MAX: Final = 100_000
"""Wakes that wait to be sent; further ones are left to the sweeps."""
RPC_S_MAX: Final = 10.0
SEND_S_MAX: Final = 5.0
"""The longest pause between two attempts to send, and the time that a closing process still sends."""
STOP_S_MAX: Final = DRAIN_S_MAX + 60.0
"""Time that a closing worker waits for its drives to stop; `drain_s` ends them before."""
SETTLE_S: Final = 120.0
"""Time until all servers of Temporal know a new search attribute."""
ATTRIBUTES_S: Final = 60.0
"""Time for which search attributes are taken for known: a server that was started empty has lost them."""
TASK_ATTEMPTS_MAX: Final = 3
"""Attempts of one workflow task after which a workflow with a lost wake cannot go on."""
WORKFLOW_ID_BYTES_MAX: Final = 900

_AGENT: Final = SearchAttributeKey.for_keyword("WindlassAgent")
_STATUS: Final = SearchAttributeKey.for_keyword("WindlassStatus")
_TENANT: Final = SearchAttributeKey.for_keyword("WindlassTenant")
ATTRIBUTES: Final = (_AGENT, _STATUS, _TENANT)
"""Search attributes of the workflows."""


class DriveOutcome(TypedDict):
    """The result of the activity."""

    wakeInMs: int | None
    attributes: dict[str, str]
    """Search attributes of the session; empty if Temporal has none for us."""


@workflow.defn(name=WORKFLOW, sandboxed=False)
class SessionWorkflow:
    """Has one session driven, until no wake is left."""

    def __init__(self) -> None:
        self._is_woken = True

    @workflow.signal(name=SIGNAL)
    def wake(self) -> None:
        """Have the session driven once more, after the drive under way."""
        self._is_woken = True

    @workflow.run
    async def run(self, session_id: str) -> None:
        """Drive a session until it parks, and again for each wake meanwhile."""
        wake_in_ms: int | None = None
        for _ in range(DRIVES_PER_WORKFLOW_MAX):
            if not self._is_woken:
                break
            self._is_woken = False
            outcome: DriveOutcome = await workflow.execute_activity(
                ACTIVITY,
                session_id,
                result_type=DriveOutcome,
                start_to_close_timeout=timedelta(seconds=DRIVE_S_MAX),
                heartbeat_timeout=timedelta(seconds=HEARTBEAT_S),
                retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=RETRY_S_MAX)),
            )
            wake_in_ms = outcome["wakeInMs"]
            updates = _updates(outcome["attributes"])
            if updates:
                workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType] - theirs
        if self._is_woken:
            workflow.continue_as_new(session_id)
        if wake_in_ms is not None:
            # A signal ends the pause. No event follows before, so nothing binds the next release.
            workflow.continue_as_new(session_id, backoff_start_interval=timedelta(milliseconds=wake_in_ms))


def _updates(values: dict[str, str]) -> Sequence[SearchAttributeUpdate[str]]:
    now = workflow.info().typed_search_attributes
    return [
        key.value_set(values[key.name])
        for key in ATTRIBUTES
        if key.name in values and now.get(key) != values[key.name]
    ]


class TemporalWakes:
    """Sessions of one store are woken through a Temporal namespace.

    Keys and certificates come from the variables of Temporal's own programs: `TEMPORAL_API_KEY`,
    `TEMPORAL_TLS_CLIENT_CERT_PATH` and so on, or its configuration file.
    """

    lost_after_ms = LOST_AFTER_MS

    def __init__(self, target: str, namespace: str, *, store_id: str, tenant: str | None = None) -> None:
        self._target = target
        self._namespace = namespace
        self._store_id = store_id
        self._tenant = tenant
        self._client: Client | None = None
        self._drive: Drive | None = None
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._unsent: dict[str, None] = {}
        """Sessions to wake, in order."""
        self._doubted: dict[str, None] = {}
        """Sessions with a wake that seems lost, in order."""
        self._sending: asyncio.Task[None] | None = None
        self._is_told = False
        """Whether the log says that wakes cannot be sent."""
        self._is_closing = False
        self._attributes_at_s: float | None = None
        """When search attributes may be used, by the clock of the event loop; None if not now."""
        self._attributes_seen_s = 0.0
        """When they were looked for."""

    @property
    def task_queue(self) -> str:
        """The queue of the workers of this store."""
        return f"windlass/{self._store_id}"

    def workflow_id(self, session_id: str) -> str:
        """Return the id of the workflow of a session."""
        name = f"{self.task_queue}/{session_id}"
        if len(name.encode()) > WORKFLOW_ID_BYTES_MAX:
            name = f"{self.task_queue}/{blake2b(session_id.encode(), digest_size=32).hexdigest()}"
        return name

    async def open(self, drive: Drive | None) -> None:
        """Connect; a process that drives also begins to take wakes."""
        if drive is None:
            # Without Temporal, starts and answers are still taken: the sweeps of workers find them.
            self._client = await self._connect(is_lazy=True)
            return
        client = await self._connect(is_lazy=False)
        await self._check(client)
        await self._prepare_attributes(client)
        self._client, self._drive = client, drive
        self._working = asyncio.create_task(self._work(client), name="windlass temporal worker")

    async def check(self) -> None:
        """Connect once, to learn whether that is possible.

        Raises:
            Unavailable: the server cannot be reached.
            Rejected: there is no such namespace.
        """
        await self._check(await self._connect(is_lazy=False))

    def wake(self, session_id: str, *, is_lost: bool = False) -> None:
        """Send a wake in the background."""
        sessions = self._doubted if is_lost else self._unsent
        if self._client is None or len(sessions) >= WAKES_MAX:
            return
        sessions[session_id] = None
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(self._client), name="windlass wakes")

    async def aclose(self) -> None:
        """Stop the worker, and send pending wakes, for `SEND_S_MAX` at most."""
        self._is_closing = True
        if self._worker is not None and self._worker.is_running:
            # It waits for its drives, which may post items to other sessions until they end.
            await self._worker.shutdown()
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])
        if self._sending is not None and not self._sending.done():
            await asyncio.wait([self._sending], timeout=SEND_S_MAX)
            self._sending.cancel()

    # waking

    async def _send(self, client: Client) -> None:
        """Send all wakes; those that fail are sent again.

        Wakes that seem lost are looked at one at a time: if Temporal is behind with thousands, looking at all
        of them would keep it from its work.
        """
        pause_s = 0.1
        while self._unsent or self._doubted:
            some, doubted = list(self._unsent)[:WAKES_AT_ONCE], list(self._doubted)[:1]
            for session_id in some:
                del self._unsent[session_id]
            for session_id in doubted:
                del self._doubted[session_id]
            results = await asyncio.gather(
                *(self._send_one(client, session) for session in some),
                *(self._repair(client, session) for session in doubted),
            )
            unsent = [
                session for session, is_sent in zip(some, results[: len(some)], strict=True) if not is_sent
            ]
            left = [
                session for session, is_sent in zip(doubted, results[len(some) :], strict=True) if not is_sent
            ]
            self._unsent.update(dict.fromkeys(unsent))
            self._doubted.update(dict.fromkeys(left))
            if unsent or left:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, SEND_S_MAX)
            elif self._is_told:
                self._is_told = False
                _LOG.info("wakes are sent to Temporal again")

    async def _send_one(self, client: Client, session_id: str) -> bool:
        try:
            await client.start_workflow(
                SessionWorkflow.run,
                session_id,
                id=self.workflow_id(session_id),
                task_queue=self.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=SIGNAL,
                rpc_timeout=timedelta(seconds=RPC_S_MAX),
            )
        except (RPCError, RuntimeError) as error:
            return self._tell_unsent(error)
        return True

    def _tell_unsent(self, error: Exception) -> bool:
        if not self._is_told:
            self._is_told = True
            _LOG.warning(
                "wakes cannot be sent to Temporal at %s (%s): they are kept and sent later",
                self._target,
                _reason(error),
            )
        return False

    async def _repair(self, client: Client, session_id: str) -> bool:
        """Send a wake again, unless the workflow of its session goes on without it."""
        try:
            if await self._is_under_way(client, session_id):
                return True
        except (RPCError, RuntimeError) as error:
            return self._tell_unsent(error)
        return await self._send_one(client, session_id)

    async def _is_under_way(self, client: Client, session_id: str) -> bool:
        """Return whether the workflow of a session goes on without another wake; end one that cannot go on.

        A workflow with a scheduled task or activity waits its turn: a signal would add to the backlog that it
        waits in. One that fails its task again and again never reads its signals: Temporal refuses its search
        attributes, or another release began it.
        """
        timeout = timedelta(seconds=RPC_S_MAX)
        handle = client.get_workflow_handle(self.workflow_id(session_id))
        try:
            description = await handle.describe(rpc_timeout=timeout)
            is_running = description.status is WorkflowExecutionStatus.RUNNING
            pending = description.raw_description
            if not is_running or pending.pending_workflow_task.attempt < TASK_ATTEMPTS_MAX:
                has_task = pending.HasField("pending_workflow_task")
                return is_running and (has_task or len(pending.pending_activities) > 0)
            _LOG.warning("the workflow of session %s cannot go on, and is begun again", session_id)
            stuck = client.get_workflow_handle(handle.id, run_id=description.run_id)
            await stuck.terminate("it cannot go on; its session is woken again", rpc_timeout=timeout)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        await self._prepare_attributes(client)
        return False

    # driving

    async def _work(self, client: Client) -> None:
        """Take wakes until closed; a worker that fails is started again."""
        while not self._is_closing:
            self._worker = Worker(
                client,
                task_queue=self.task_queue,
                workflows=[SessionWorkflow],
                activities=[self._activity()],
                workflow_runner=UnsandboxedWorkflowRunner(),
                # Histories are short. A cached workflow would wait for the return of a worker that is gone.
                max_cached_workflows=0,
                max_concurrent_activities=DRIVES_MAX,
                graceful_shutdown_timeout=timedelta(seconds=STOP_S_MAX),
            )
            try:
                await self._worker.run()
            except (RPCError, RuntimeError) as error:
                _LOG.warning("the worker of Temporal failed and is started again: %s", _reason(error))
                await asyncio.sleep(SEND_S_MAX)

    def _activity(self) -> Callable[[str], Awaitable[DriveOutcome]]:
        @activity.defn(name=ACTIVITY)
        async def drive(session_id: str) -> DriveOutcome:
            beating = asyncio.create_task(_beat())
            try:
                return await self._outcome(await self._drive_until_parked(session_id))
            finally:
                beating.cancel()

        return drive

    async def _drive_until_parked(self, session_id: str) -> Parked:
        """Drive a session until it parks; otherwise fail the activity, so that Temporal tries again."""
        assert self._drive is not None, "a worker was opened to drive"
        try:
            # If Temporal cancels the activity, the drive goes on: the run was not cancelled.
            return await asyncio.shield(asyncio.ensure_future(self._drive(session_id)))
        except NotParked as error:
            why, delay_s = str(error), 0.0 if self._is_closing else HELD_S
        except Exception as error:  # noqa: BLE001 - the engine has logged it; its text may hold values
            why, delay_s = type(error).__name__, None
        raise ApplicationError(
            why,
            type="NotParked",
            next_retry_delay=None if delay_s is None else timedelta(seconds=delay_s),
            category=ApplicationErrorCategory.BENIGN,
        )

    async def _outcome(self, parked: Parked) -> DriveOutcome:
        now_s = asyncio.get_running_loop().time()
        if self._client is not None and now_s >= self._attributes_seen_s + ATTRIBUTES_S:
            await self._prepare_attributes(self._client)
        at_s = self._attributes_at_s
        values: dict[str, str | None] = {}
        if at_s is not None and now_s >= at_s:
            values = {
                _AGENT.name: parked.agent_id,
                _STATUS.name: parked.status,
                _TENANT.name: self._tenant,
            }
        attributes = {name: value for name, value in values.items() if value is not None}
        return {"wakeInMs": parked.wake_in_ms, "attributes": attributes}

    # connecting

    async def _connect(self, *, is_lazy: bool) -> Client:
        config = ClientConfig.load_client_connect_config()
        config["target_host"], config["namespace"] = self._target, self._namespace
        try:
            return await Client.connect(**config, lazy=is_lazy, runtime=_runtime())
        except RuntimeError as error:
            raise self._unreachable(error) from None

    async def _check(self, client: Client) -> None:
        request = DescribeNamespaceRequest(namespace=self._namespace)
        try:
            await client.workflow_service.describe_namespace(request, timeout=timedelta(seconds=RPC_S_MAX))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise misconfiguration(
                    f"Temporal at {self._target} has no namespace {self._namespace}: create it with "
                    f"`temporal operator namespace create --namespace {self._namespace}`, or name another"
                ) from None
            raise self._unreachable(error) from None

    async def _prepare_attributes(self, client: Client) -> None:
        """Find the search attributes of sessions, or add them; without the right to, sessions have none."""
        expected = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in ATTRIBUTES}
        timeout, now_s = timedelta(seconds=RPC_S_MAX), asyncio.get_running_loop().time()
        settled_s, self._attributes_at_s, self._attributes_seen_s = self._attributes_at_s or 0.0, None, now_s
        with suppress(RPCError):
            request = ListSearchAttributesRequest(namespace=self._namespace)
            answer = await client.operator_service.list_search_attributes(request, timeout=timeout)
            missing = {name: kind for name, kind in expected.items() if name not in answer.custom_attributes}
            if any(answer.custom_attributes.get(name, kind) != kind for name, kind in expected.items()):
                # Made by another application, of another type: a workflow with ours would be refused.
                return
            if missing:
                more = AddSearchAttributesRequest(namespace=self._namespace, search_attributes=missing)
                await client.operator_service.add_search_attributes(more, timeout=timeout)
                settled_s = now_s + SETTLE_S
            self._attributes_at_s = settled_s

    def _unreachable(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"Temporal cannot be reached at {self._target} ({_reason(error)}): start it, or name another "
            "address",
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.RETRYABLE,
        )


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT_S / 4)


def _reason(error: Exception) -> str:
    return error.status.name if isinstance(error, RPCError) else "no connection"


@lru_cache(1)
def _runtime() -> Runtime:
    """Return the runtime of Temporal's client: threads that all clients of this process share."""
    forwarding = LogForwardingConfig(_LOG, append_target_to_name=False)
    logs = LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR"), forwarding=forwarding)
    return Runtime(telemetry=TelemetryConfig(logging=logs))
