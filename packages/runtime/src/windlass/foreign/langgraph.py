"""Checkpoints of LangGraph in a store of Windlass.

A checkpoint is a value named by its thread, its namespace and its id, newest first. What the tasks of a step
wrote before its next checkpoint is a value for each task.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import RESUME
from langgraph.pregel import Pregel
from langgraph.types import Command
from pydantic import JsonValue
from pydantic_core import to_json

from windlass.foreign.values import Values, key_of
from windlass.limits import QUESTION_CHARS_MAX
from windlass.parts import Store, open_store
from windlass.runtime.compose import AgentRuntime
from windlass.tools.context import ToolContext
from windlass_protocol import JsonObject
from windlass_protocol.frozen import frozen

T = TypeVar("T")

_CHECKPOINTS: Final = "langgraph-checkpoint"
_WRITES: Final = "langgraph-writes"
_QUESTIONS: Final = "langgraph-questions"
_NAME_CHARS: Final = 64
"""Characters of the thread and the namespace in a name."""
_WRONG_THREAD: Final = (
    "a synchronous call of a checkpointer would wait for itself in the thread of its event loop: write "
    "`await graph.ainvoke(…)`, or open it with `with WindlassSaver.open(…) as saver`"
)


@frozen
class _Thread:
    """The thread and the namespace of checkpoints."""

    thread_id: str
    namespace: str

    @property
    def prefix(self) -> str:
        return key_of(self.thread_id, self.namespace)

    def name(self, checkpoint_id: str) -> str:
        """Return the name of a checkpoint: newer ids, which are greater, come first."""
        return f"{self.prefix}{bytes(255 - byte for byte in checkpoint_id.encode()).hex()}g"

    def config(self, checkpoint_id: str) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": checkpoint_id,
            }
        }


def _thread_of(config: RunnableConfig) -> _Thread:
    chosen = config.get("configurable", {})
    return _Thread(str(chosen["thread_id"]), str(chosen.get("checkpoint_ns", "")))


class WindlassSaver(BaseCheckpointSaver[int]):
    """A checkpointer of LangGraph on a store of Windlass: SQLite, PostgreSQL or memory.

    Write `async with WindlassSaver.open("app.db") as saver:` and `builder.compile(checkpointer=saver)`;
    without an event loop `with WindlassSaver.open(…) as saver:`. `WindlassSaver.of(runtime)` uses the store
    of a runtime. A checkpoint is durable when the call that puts it returns.
    """

    def __init__(self, store: Store, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._loop = asyncio.get_running_loop()
        self._checkpoints = Values(store, _CHECKPOINTS)
        self._writes = Values(store, _WRITES)
        self._questions = Values(store, _QUESTIONS)

    @classmethod
    def of(cls, runtime: AgentRuntime, *, serde: SerializerProtocol | None = None) -> "WindlassSaver":
        """Return a checkpointer on the store of a runtime; call it in the event loop of the runtime."""
        return cls(runtime.core.store, serde=serde)

    @classmethod
    def open(cls, path: str | Path, *, serde: SerializerProtocol | None = None) -> "OpenedSaver":
        """Open a store, for `with` or `async with`: a file, or the address of a PostgreSQL database."""
        return OpenedSaver(path, serde)

    # LangGraph calls these. `a…` is called in any event loop, the others in threads that have none.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with the writes that follow it; the newest if the config names none."""
        return await self._here(self._get(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first: those whose metadata has the values of `filter`."""
        for checkpoint in await self._here(self._list(config, filter or {}, before, limit)):
            yield checkpoint

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as the child of the one that the config names."""
        return await self._here(self._put(config, checkpoint, metadata))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, so that a step that goes on does not run it again."""
        await self._here(self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        await self._here(self._delete(key_of(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs; it reads every checkpoint of the store."""
        await self._here(self._delete_for_runs(frozenset(run_ids)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints of a thread into another."""
        await self._here(self._copy_thread(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete old checkpoints of threads, or all of them (`delete`).

        `keep_latest` keeps the newest of each namespace, and of the older ones those that its channels with
        deltas are made of.
        """
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                await self._here(self._keep_latest(thread_id))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what the ancestors of a checkpoint wrote to channels since their newest stored values."""
        return await self._here(self._delta_history(config, channels))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Like `aget_tuple`."""
        return self._wait(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Like `alist`."""
        yield from self._wait(self._list(config, filter or {}, before, limit))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Like `aput`."""
        return self._wait(self._put(config, checkpoint, metadata))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Like `aput_writes`."""
        self._wait(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Like `adelete_thread`."""
        self._wait(self._delete(key_of(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Like `adelete_for_runs`."""
        self._wait(self._delete_for_runs(frozenset(run_ids)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Like `acopy_thread`."""
        self._wait(self._copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Like `aprune`."""
        self._wait(self.aprune(thread_ids, strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Like `aget_delta_channel_history`."""
        return self._wait(self._delta_history(config, channels))

    async def questions(self, thread_id: str) -> dict[str, str]:
        """Return the questions that `run_graph` asked for a thread, in their order."""
        stored = await self._here(self._questions.get(key_of(thread_id)))
        return dict(cast("list[tuple[str, str]]", stored or []))

    async def keep_questions(self, thread_id: str, questions: Mapping[str, str]) -> None:
        """Keep the questions of a thread before they are asked."""
        listed = cast("JsonValue", [list(question) for question in questions.items()])
        await self._here(self._questions.put(key_of(thread_id), listed))

    # where it runs

    async def _here(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the event loop of the store, and wait for it in that of the caller."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise RuntimeError(_WRONG_THREAD)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # what it does

    async def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        stored = await self._checkpoint(config)
        return None if stored is None else await self._tuple(stored)

    async def _checkpoint(self, config: RunnableConfig) -> JsonObject | None:
        """Return the value of a checkpoint; of the newest if the config names none."""
        thread, checkpoint_id = _thread_of(config), get_checkpoint_id(config)
        if checkpoint_id is None:
            return cast("JsonObject | None", await self._checkpoints.first(thread.prefix))
        return cast("JsonObject | None", await self._checkpoints.get(thread.name(str(checkpoint_id))))

    async def _tuple(self, stored: JsonObject) -> CheckpointTuple:
        thread, parent = _thread_in(stored), stored["parent"]
        checkpoint_id = str(stored["id"])
        return CheckpointTuple(
            thread.config(checkpoint_id),
            self._load(stored["checkpoint"]),
            self._load(stored["metadata"]),
            None if parent is None else thread.config(str(parent)),
            [write async for write in self._pending(thread.name(checkpoint_id))],
        )

    async def _pending(self, name: str) -> AsyncGenerator[PendingWrite]:
        """Yield the writes that follow a checkpoint, by task and in their order."""
        tasks = [cast("Any", value) async for _, value in self._writes.scan(name)]
        for task in sorted(tasks, key=lambda task: task["task"]):
            for _, (channel, value) in sorted(task["writes"].items(), key=lambda item: int(item[0])):
                yield task["task"], channel, self._load(value)

    async def _list(
        self,
        config: RunnableConfig | None,
        filters: Mapping[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointTuple]:
        chosen = {} if config is None else config.get("configurable", {})
        checkpoint_id = None if config is None else get_checkpoint_id(config)
        end = None if before is None else get_checkpoint_id(before)
        prefix = "" if "thread_id" not in chosen else key_of(str(chosen["thread_id"]))
        is_one_thread = bool(prefix) and chosen.get("checkpoint_ns") is not None
        if is_one_thread:
            prefix += key_of(str(chosen["checkpoint_ns"]))
        matching: list[JsonObject] = []
        async for _, value in self._checkpoints.scan(prefix):
            stored = cast(JsonObject, value)
            is_in_span = checkpoint_id in (None, stored["id"]) and (end is None or str(stored["id"]) < end)
            if not is_in_span or not _has(self._load(stored["metadata"]), filters):
                continue
            if is_one_thread and limit is not None and len(matching) >= limit:
                break
            matching.append(stored)
        matching.sort(key=lambda stored: str(stored["id"]), reverse=True)
        return [await self._tuple(stored) for stored in matching[:limit]]

    async def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        thread, checkpoint_id = _thread_of(config), checkpoint["id"]
        stored: JsonObject = {
            "thread": thread.thread_id,
            "namespace": thread.namespace,
            "id": checkpoint_id,
            "parent": get_checkpoint_id(config),
            "checkpoint": self._dump(checkpoint),
            "metadata": self._dump(get_checkpoint_metadata(config, metadata)),
        }
        await self._checkpoints.put(thread.name(checkpoint_id), stored)
        return thread.config(checkpoint_id)

    async def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        name = _thread_of(config).name(str(get_checkpoint_id(config)))
        new: JsonObject = {
            str(WRITES_IDX_MAP.get(channel, number)): [channel, self._dump(value)]
            for number, (channel, value) in enumerate(writes)
        }
        # An error or an interrupt is replaced by a later one; other writes of a task are made once.
        are_special = all(channel in WRITES_IDX_MAP for channel, _ in writes)

        def add(stored: JsonValue) -> JsonValue:
            old = cast(JsonObject, stored["writes"]) if isinstance(stored, dict) else {}
            both = {**old, **new} if are_special else {**new, **old}
            return {"task": task_id, "path": task_path, "writes": both}

        await self._writes.change(f"{name}{key_of(task_id)}", add)

    async def _delete(self, prefix: str) -> None:
        # First what names the rest.
        await self._checkpoints.drop(prefix)
        await self._writes.drop(prefix)
        await self._questions.drop(prefix)

    async def _delete_for_runs(self, run_ids: frozenset[str]) -> None:
        names = [
            name
            async for name, value in self._checkpoints.scan("")
            if self._load(cast(JsonObject, value)["metadata"]).get("run_id") in run_ids
        ]
        for name in names:
            await self._delete(name)

    async def _copy_thread(self, source: str, target: str) -> None:
        prefix = key_of(source)
        # The writes first: a checkpoint of the copy is there with all that follows it.
        for values in (self._writes, self._checkpoints):
            copies = [(name, value) async for name, value in values.scan(prefix)]
            # The oldest first: each has its ancestors.
            for name, value in reversed(copies):
                copy = cast(JsonObject, value)
                if "thread" in copy:
                    copy = {**copy, "thread": target}
                await values.put(f"{key_of(target)}{name.removeprefix(prefix)}", copy)

    async def _keep_latest(self, thread_id: str) -> None:
        names: list[str] = []
        needed: dict[str, set[str]] = {}
        parents: dict[str, str | None] = {}
        async for name, value in self._checkpoints.scan(key_of(thread_id)):
            stored = cast(JsonObject, value)
            thread, metadata = name[:_NAME_CHARS], self._load(stored["metadata"])
            if thread not in needed:
                needed[thread] = set(metadata.get("counters_since_delta_snapshot", ()))
                parents[thread] = str(stored["id"])
            if stored["id"] != parents[thread]:
                names.append(name)
                continue
            # An ancestor that the newest is made of, or the newest itself.
            needed[thread] -= self._load(stored["checkpoint"])["channel_values"].keys()
            parents[thread] = cast("str | None", stored["parent"]) if needed[thread] else None
        for name in names:
            await self._delete(name)

    async def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        open_channels = set(channels)
        stored = await self._checkpoint(config) if open_channels else None
        while stored is not None and stored["parent"] is not None and open_channels:
            thread, parent = _thread_in(stored), str(stored["parent"])
            stored = cast("JsonObject | None", await self._checkpoints.get(thread.name(parent)))
            if stored is None:
                break
            writes = [write async for write in self._pending(thread.name(parent))]
            values = self._load(stored["checkpoint"])["channel_values"]
            for channel in tuple(open_channels):
                earlier = [write for write in writes if write[1] == channel]
                history[channel]["writes"] = [*earlier, *history[channel]["writes"]]
                if channel in values:
                    history[channel]["seed"] = values[channel]
                    open_channels.remove(channel)
        return history

    def _dump(self, value: object) -> JsonValue:
        kind, raw = self.serde.dumps_typed(value)
        return [kind, b64encode(raw).decode()]

    def _load(self, value: JsonValue) -> Any:
        kind, text = cast("tuple[str, str]", value)
        return self.serde.loads_typed((kind, b64decode(text)))


def _thread_in(stored: JsonObject) -> _Thread:
    return _Thread(str(stored["thread"]), str(stored["namespace"]))


def _has(metadata: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    return all(key in metadata and metadata[key] == value for key, value in filters.items())


class OpenedSaver(AbstractContextManager[WindlassSaver], AbstractAsyncContextManager[WindlassSaver]):
    """A checkpointer with a store of its own, which is closed with it."""

    def __init__(self, path: str | Path, serde: SerializerProtocol | None) -> None:
        self._path = path
        self._serde = serde
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of a thread of its own, for programs without one."""
        self._thread: Thread | None = None

    async def __aenter__(self) -> WindlassSaver:
        self._store = await open_store(self._path)
        return WindlassSaver(self._store, serde=self._serde)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.aclose()

    def __enter__(self) -> WindlassSaver:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="windlass-langgraph", daemon=True)
        self._thread.start()
        try:
            return asyncio.run_coroutine_threadsafe(self.__aenter__(), self._loop).result()
        except BaseException:
            self._end_loop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None, "only what was entered is left"
        try:
            asyncio.run_coroutine_threadsafe(self.__aexit__(kind, error, trace), self._loop).result()
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        assert self._loop is not None and self._thread is not None, "they are made together"  # noqa: PT018
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def run_graph(
    ctx: ToolContext[object],
    graph: "Pregel[Any, Any, Any, Any]",
    value: object,
    *,
    thread_id: str | None = None,
) -> dict[str, Any]:
    """Run a graph in a tool, and return its state; each interrupt is a question to a person.

    The graph has a WindlassSaver. Call it in a tool with the effect idempotent: after an answer or a crash
    the tool runs again, and the graph goes on from its checkpoint. A question is the value of the interrupt
    as text.

    Args:
        ctx: the context of the tool.
        graph: a compiled graph.
        value: its input.
        thread_id: the thread of its checkpoints; one for each call when left out.
    """
    saver = cast(object, cast("Any", graph).checkpointer)
    if not isinstance(saver, WindlassSaver):
        raise TypeError("run_graph takes a graph that was compiled with a WindlassSaver as its checkpointer")
    thread_id = thread_id or f"{ctx.run_id}/{ctx.call_id}"
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    questions = await saver.questions(thread_id)
    answers = {key: await ctx.ask(prompt) for key, prompt in questions.items()}
    run: Callable[[object], Awaitable[object]] = partial(
        cast("Any", graph).ainvoke, config=config, durability="sync"
    )
    state = await graph.aget_state(config)
    if state.created_at is None:
        await run(value)
    elif state.next and not state.interrupts:
        await run(None)
    while (state := await graph.aget_state(config)).interrupts:
        stored = await saver.aget_tuple(config)
        assert stored is not None, "a graph that was interrupted has a checkpoint"
        resumed = {
            task: len(values) for task, channel, values in stored.pending_writes or () if channel == RESUME
        }
        resume: dict[str, str] = {}
        for task in state.tasks:
            for waiting in task.interrupts:
                # A task may ask again when it has its answer.
                key = f"{task.id}/{resumed.get(task.id, 0)}"
                if key not in questions:
                    questions[key] = _prompt_of(waiting.value)
                    await saver.keep_questions(thread_id, questions)
                if key not in answers:
                    answers[key] = await ctx.ask(questions[key])
                resume[waiting.id] = answers[key]
        await run(Command(resume=resume))
    return cast("dict[str, Any]", state.values)


def _prompt_of(value: object) -> str:
    text = value if isinstance(value, str) else to_json(value, serialize_unknown=True).decode()
    return text[:QUESTION_CHARS_MAX]
