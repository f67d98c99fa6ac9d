# Generated from spec/operations.json by `make gen`. Do not edit.
"""The query of each operation that has one."""

from typing import Annotated, Literal

from pydantic import Field

import windlass_protocol as wire
from windlass_server.models import Moment, WireModel


class PageQuery(WireModel):
    """Which page of a list."""

    after: Annotated[
        str | None, Field(min_length=1, max_length=512, description="The `next` of the previous page.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=200, description="Items per page.")] = 50


class SessionsListQuery(PageQuery):
    """The query of `sessions.list`."""

    agent: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Sessions of this agent.")
    ] = None
    status: Annotated[wire.SessionStatus | None, Field(description="Sessions with this status.")] = None
    text: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            description="Words of messages, answers and names of called tools, or prefixes of them.",
        ),
    ] = None
    subagents: Annotated[bool, Field(description="Include sessions of subagents.")] = False
    waits_on: Annotated[
        wire.WaitCause | None, Field(description="What one of its runs waits for, as in the list of runs.")
    ] = None
    version: Annotated[
        str | None,
        Field(min_length=1, max_length=512, description="The fingerprint of the package of one of its runs."),
    ] = None
    error: Annotated[
        wire.ErrorKind | Literal["any"] | None,
        Field(description="The kind of the error of one of its runs; `any` for every error."),
    ] = None
    tag: Annotated[
        str | None, Field(min_length=1, max_length=512, description="A tag of one of its runs.")
    ] = None
    feedback: Annotated[
        Literal["up", "down", "none"] | None, Field(description="One of its runs has a thumb, or none has.")
    ] = None
    crashed: Annotated[bool | None, Field(description="One of its runs was taken over after a crash.")] = None
    since: Annotated[Moment | None, Field(description="Changed then or later.")] = None
    until: Annotated[Moment | None, Field(description="Not changed since.")] = None
    cost_min: Annotated[
        int | None, Field(ge=0, le=9007199254740991, description="Millionths of a dollar, of all its runs.")
    ] = None
    cost_max: Annotated[
        int | None, Field(ge=0, le=9007199254740991, description="Millionths of a dollar, of all its runs.")
    ] = None
    sort: Annotated[wire.SessionSort, Field(description="The order, newest or largest first.")] = (
        wire.SessionSort("created")
    )
    ascending: Annotated[bool, Field(description="The opposite order.")] = False
    total: Annotated[bool, Field(description="Whether to count the rows that match, up to 10,001.")] = False


class SessionsSafePointsQuery(WireModel):
    """The query of `sessions.safePoints`."""

    before: Annotated[
        int | None, Field(ge=1, le=9007199254740991, description="Only records below this number.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=9999, description="Points per response.")] = 1000


class AgentSessionsListQuery(PageQuery):
    """The query of `agentSessions.list`."""

    chat_id: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Sessions of this chat.")
    ] = None
    active_only: Annotated[bool, Field(description="Leave out sessions that have ended.")] = False


class RunsListQuery(PageQuery):
    """The query of `runs.list`."""

    session: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Runs of this session.")
    ] = None
    runs: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=8192,
            description="Ids of runs, one a line; at most 100, in a query of 8 KiB.",
        ),
    ] = None
    agent: Annotated[str | None, Field(min_length=1, max_length=512, description="Runs of this agent.")] = (
        None
    )
    status: Annotated[wire.RunStatus | None, Field(description="Runs with this status.")] = None
    subagents: Annotated[bool, Field(description="Include runs of subagents.")] = True
    playground: Annotated[bool, Field(description="Include playground runs.")] = False
    waits_on: Annotated[wire.WaitCause | None, Field(description="`person`: input or recovery.")] = None
    version: Annotated[
        str | None, Field(min_length=1, max_length=512, description="The fingerprint of the package.")
    ] = None
    error: Annotated[
        wire.ErrorKind | Literal["any"] | None,
        Field(description="The kind of the error; `any` for every error."),
    ] = None
    tag: Annotated[str | None, Field(min_length=1, max_length=512, description="Runs with this tag.")] = None
    feedback: Annotated[
        Literal["up", "down", "none"] | None, Field(description="Runs with such a thumb, or without one.")
    ] = None
    crashed: Annotated[bool | None, Field(description="Taken over after a crash, or not.")] = None
    since: Annotated[Moment | None, Field(description="Started then or later.")] = None
    until: Annotated[Moment | None, Field(description="Started before.")] = None
    cost_min: Annotated[
        int | None, Field(ge=0, le=9007199254740991, description="Millionths of a dollar.")
    ] = None
    cost_max: Annotated[
        int | None, Field(ge=0, le=9007199254740991, description="Millionths of a dollar.")
    ] = None
    duration_min: Annotated[
        int | None, Field(ge=0, le=9007199254740991, description="Milliseconds; 0 until a run has ended.")
    ] = None
    duration_max: Annotated[int | None, Field(ge=0, le=9007199254740991, description="Milliseconds.")] = None
    text: Annotated[
        str | None, Field(min_length=1, max_length=256, description="Words in their sessions.")
    ] = None
    sort: Annotated[wire.RunSort, Field(description="The order, newest or largest first.")] = wire.RunSort(
        "started"
    )
    ascending: Annotated[bool, Field(description="The opposite order.")] = False
    total: Annotated[bool, Field(description="Whether to count the rows that match, up to 10,001.")] = False


class RunsTraceQuery(WireModel):
    """The query of `runs.trace`."""

    events: Annotated[bool, Field(description="Whether its events come too; without them it is half.")] = True
    after: Annotated[
        int,
        Field(ge=0, le=9007199254740991, description="The `seq` of an earlier answer: what is new since."),
    ] = 0


class RunsDecisionsQuery(WireModel):
    """The query of `runs.decisions`."""

    after: Annotated[int, Field(ge=0, le=9007199254740990, description="How many to pass over.")] = 0
    limit: Annotated[int | None, Field(ge=1, le=1000, description="The most; all if left out.")] = None


class RunsRefusedQuery(PageQuery):
    """The query of `runs.refused`."""

    agent: Annotated[str | None, Field(min_length=1, max_length=512, description="Starts of this agent.")] = (
        None
    )


class RunsStatsQuery(WireModel):
    """The query of `runs.stats`."""

    since: Annotated[Moment | None, Field(description="Runs that started then or later.")] = None
    until: Annotated[Moment | None, Field(description="Runs that started before.")] = None
    bucket: Annotated[int, Field(ge=1, le=31622400, description="Seconds per interval.")] = 3600
    agent: Annotated[str | None, Field(min_length=1, max_length=512, description="Runs of this agent.")] = (
        None
    )
    split: Annotated[
        Literal["agent", "user", "model", "version", "tool"] | None,
        Field(description="Also the same numbers by agent, user, model or version, or the calls by tool."),
    ] = None


class RunsFailuresQuery(WireModel):
    """The query of `runs.failures`."""

    since: Annotated[Moment | None, Field(description="Runs that started then or later.")] = None
    until: Annotated[Moment | None, Field(description="Runs that started before.")] = None
    agent: Annotated[str | None, Field(min_length=1, max_length=512, description="Runs of this agent.")] = (
        None
    )


class FeedsAllQuery(WireModel):
    """The query of `feeds.all`."""

    after: Annotated[
        str | None,
        Field(
            description="The `id` of the last event that was received, or `now`; from the beginning when left out."
        ),
    ] = None
    follow: Annotated[bool, Field(description="False ends the stream at the present end of the journal.")] = (
        True
    )
    format: Annotated[
        Literal["sse", "ndjson"] | None,
        Field(
            description="By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`."
        ),
    ] = None
    types: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4096,
            pattern="^[a-z_\\.]+(?:,[a-z_\\.]+)*$",
            examples=["run.started,run.waiting,run.completed"],
            description="Event types, separated by commas.",
        ),
    ] = None


class FeedsSessionQuery(WireModel):
    """The query of `feeds.session`."""

    after: Annotated[
        str | None,
        Field(description="The `id` of the last event that was received; from the beginning when left out."),
    ] = None
    follow: Annotated[bool, Field(description="False ends the stream at the present end of the journal.")] = (
        True
    )
    format: Annotated[
        Literal["sse", "ndjson"] | None,
        Field(
            description="By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`; with `shape=eve`, lines unless it names `text/event-stream`."
        ),
    ] = None
    shape: Annotated[
        Literal["events", "steerable", "eve"],
        Field(
            description="`steerable` sends the few kinds of events that a simple chat needs, and then `[DONE]`; `eve`, for sessions, sends the events of eve 0.13.8 in its order."
        ),
    ] = "events"
    deltas: Annotated[
        Literal["whole", "slim"],
        Field(
            description="Only with `shape=events`: `slim` leaves out of a text delta what it shares with the one before it."
        ),
    ] = "whole"
    start_index: Annotated[
        int | None,
        Field(
            ge=0, le=9007199254740991, description="Only with `shape=eve`: the number of events to leave out."
        ),
    ] = None
    last: Annotated[
        int | None, Field(ge=1, le=10000, description="Start with the newest records, this many of them.")
    ] = None
    before: Annotated[
        int | None,
        Field(ge=2, le=9007199254740991, description="End before this record; only with `follow=false`."),
    ] = None


class FeedsRunQuery(WireModel):
    """The query of `feeds.run`."""

    after: Annotated[
        str | None,
        Field(description="The `id` of the last event that was received; from the beginning when left out."),
    ] = None
    follow: Annotated[bool, Field(description="False ends the stream at the present end of the journal.")] = (
        True
    )
    format: Annotated[
        Literal["sse", "ndjson"] | None,
        Field(
            description="By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`."
        ),
    ] = None
    shape: Annotated[
        Literal["events", "steerable", "eve"],
        Field(
            description="`steerable` sends the few kinds of events that a simple chat needs, and then `[DONE]`; `eve`, for sessions, sends the events of eve 0.13.8 in its order."
        ),
    ] = "events"
    deltas: Annotated[
        Literal["whole", "slim"],
        Field(
            description="Only with `shape=events`: `slim` leaves out of a text delta what it shares with the one before it."
        ),
    ] = "whole"
    start_index: Annotated[
        int | None,
        Field(
            ge=0, le=9007199254740991, description="Only with `shape=eve`: the number of events to leave out."
        ),
    ] = None


class FeedsReplayQuery(WireModel):
    """The query of `feeds.replay`."""

    after: Annotated[
        str | None,
        Field(description="The `id` of the last event that was received; from the beginning when left out."),
    ] = None
    format: Annotated[
        Literal["sse", "ndjson"] | None,
        Field(
            description="By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`."
        ),
    ] = None
    speed: Annotated[float, Field(ge=0.1, le=1000, description="2 halves the pauses.")] = 1.0
    pause_max: Annotated[float, Field(ge=0, le=60.0, description="The longest pause, seconds.")] = 5.0


class DatasetsDeleteCaseQuery(WireModel):
    """The query of `datasets.deleteCase`."""

    name: Annotated[str, Field(min_length=1, max_length=200, description="The case.")]


class ExperimentsListQuery(PageQuery):
    """The query of `experiments.list`."""

    agent: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Experiments with this agent.")
    ] = None
    dataset: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Experiments with this data set.")
    ] = None


class ExperimentsCompareQuery(WireModel):
    """The query of `experiments.compare`."""

    old: Annotated[str, Field(min_length=1, max_length=512, description="The older experiment.")]


class DeliveriesListQuery(PageQuery):
    """The query of `deliveries.list`."""

    dead: Annotated[bool, Field(description="Only those that are tried no more.")] = False


class ProposalsListQuery(PageQuery):
    """The query of `proposals.list`."""

    status: Annotated[
        Literal["open", "accepted", "refused", "applied"] | None,
        Field(description="Proposals with this status."),
    ] = None
    agent: Annotated[str | None, Field(description="Proposals for this agent.")] = None


class AgentsVersionsQuery(PageQuery):
    """The query of `agents.versions`."""

    agent: Annotated[str, Field(min_length=1, max_length=512, description="An agent.")]


class AgentsCompareQuery(WireModel):
    """The query of `agents.compare`."""

    agent: Annotated[str, Field(min_length=1, max_length=512, description="An agent.")]
    old: Annotated[wire.Sha256, Field(description="A version of the agent, as `/versions` names it.")]
    new: Annotated[wire.Sha256, Field(description="A version of the agent, as `/versions` names it.")]


class EveStreamQuery(WireModel):
    """The query of `eve.stream`."""

    start_index: Annotated[
        int | None, Field(ge=0, le=9007199254740991, description="The number of events to leave out.")
    ] = None
    follow: Annotated[bool, Field(description="False ends the stream at the current end of the journal.")] = (
        True
    )
