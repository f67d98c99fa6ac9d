"""`windlass costs`: what runs cost, by user, agent, model, version, day or tool."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass import parts
from windlass_cli.backend import command_of, finish
from windlass_cli.output import NO_VALUE, CommandError, Exit, cost, show_table, to_json, tokens
from windlass_protocol import JsonObject

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass.catalog import RunNumbers
    from windlass.catalog.stats import RunSplit
    from windlass_harness.views.costs import RunCosts

RUNS_MAX: Final = 10_000
"""The newest runs that costs by tool are computed from: their records are read."""
DAY_S: Final = 86_400
_MICROS: Final = 1_000_000
_SPAN: Final = re.compile(r"(\d{1,5})([hd])")
_HOURS: Final = {"h": 1, "d": 24}
_PAGE: Final = 200
_RECORDS: Final = 1_000


class By(StrEnum):
    """What costs are split by."""

    USER = "user"
    AGENT = "agent"
    MODEL = "model"
    VERSION = "version"
    DAY = "day"
    TOOL = "tool"


_SPLITS: Final[dict[By, "RunSplit"]] = {
    By.USER: "owner",
    By.AGENT: "agent",
    By.MODEL: "model",
    By.VERSION: "version",
}
_RUN_HEADER: Final = ("runs", "input tokens", "cached", "output tokens", "cost")
_TOOL_HEADER: Final = ("calls", "tokens of results", "tokens in prompts", "cost in prompts")


def costs(
    context: typer.Context,
    *,
    by: Annotated[By, typer.Option(help="What the costs are split by.")] = By.AGENT,
    since: Annotated[
        str, typer.Option(help="A time such as 2026-01-31 or 2026-01-31T09:00+01:00, or 24h or 30d ago.")
    ] = "30d",
    until: Annotated[str | None, typer.Option(help="A time; now when left out.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV, with the cost in dollars.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each row.")] = False,
) -> None:
    """Show what runs cost that started in a time, by user, agent, model, version, day (UTC) or tool.

    What subagents cost is part of the run that they work for, unless --agent names them. The cost of a tool
    is that of its results in later prompts; that of a model is what its own calls cost.

    Example: windlass costs --by user --since 30d --csv
    """
    command = command_of(context)

    async def work() -> Exit:
        now = parts.SystemClock().now()
        begin, end = _moment(since, now), now if until is None else _moment(until, now)
        async with command.reading() as runtime:
            if by is By.TOOL:
                header, rows = _TOOL_HEADER, await _by_tool(_read_costs(runtime, begin, end, agent))
            else:
                header, rows = _RUN_HEADER, await _by_run(runtime, by, begin, end, agent)
            if agent and not rows and not (await runtime.sessions.runs(agent_id=agent, limit=1)).items:
                raise CommandError(
                    f"no run of an agent {agent} is in the store",
                    "Show the agents that have runs: windlass costs --by agent",
                )
        names = (by.value, *header)
        if as_csv:
            command.terminal.line(_csv([names, *rows]).rstrip())
        elif as_json:
            keys = [name.replace(" ", "_") for name in names]
            for row in rows:
                command.terminal.line(to_json(dict(zip(keys, row, strict=True))))
        else:
            shown = [[_cell(name, value) for name, value in zip(names, row, strict=True)] for row in rows]
            show_table(command.terminal, names, rows=shown, right=range(1, len(names)))
            if not rows:
                what = "tools were called by runs that" if by is By.TOOL else "runs"
                command.terminal.say(f"No {what} started in this time.")
        return Exit.DONE

    finish(work())


def cost_lines(costs: "RunCosts") -> Iterator[str]:
    """Yield where the money of a run went: models, subagents, and results of tools in prompts."""
    from windlass_harness.views.costs import cache_share  # noqa: PLC0415 - slow to import

    for name, usage in costs.models.items():
        share = cache_share(usage)
        cached = "" if share is None else f", {share:.0%} of the input from the cache"
        yield f"model {name}: {tokens(usage)} tokens{cached}, {cost(usage)}"
    unpriced = sum(step.usage.cost_micros is None for step in costs.steps)
    if unpriced:
        yield f"without a price: {unpriced} of {len(costs.steps)} answers"
    for name, usage in costs.agents.items():
        yield f"subagent {name}: {tokens(usage)} tokens, {cost(usage)}"
    for name, tool in sorted(costs.tools.items(), key=lambda item: -item[1].prompt_tokens):
        yield (
            f"results of {name}: about {tool.result_tokens:,} tokens, {tool.prompt_tokens:,} in prompts, "
            f"${tool.cost_micros / _MICROS:.4f}"
        )


Row = tuple[str | int | float, ...]


async def _by_run(
    runtime: "AgentRuntime", by: By, begin: datetime, end: datetime, agent: str | None
) -> list[Row]:
    from windlass.catalog.stats import BUCKET_S_MAX  # noqa: PLC0415 - slow to import

    if by is By.DAY:
        begin = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    split: RunSplit | None = _SPLITS.get(by)
    # As few intervals as possible, unless days are asked for.
    width_s = DAY_S if by is By.DAY else BUCKET_S_MAX
    stats = await runtime.sessions.stats(begin, end, bucket_s=width_s, agent_id=agent, split=split)
    if by is By.DAY:
        return [_numbers(bucket.at[:10], bucket) for bucket in stats.buckets if bucket.runs]
    most = sorted(stats.groups, key=lambda group: (-group.total.cost_micros, group.name))
    return [_numbers(group.name or NO_VALUE, group.total) for group in most]


def _numbers(name: str, numbers: "RunNumbers") -> Row:
    share = numbers.cache_read_tokens / numbers.input_tokens if numbers.input_tokens else 0.0
    return (
        name,
        numbers.runs,
        numbers.input_tokens,
        round(share, 4),
        numbers.output_tokens,
        numbers.cost_micros / _MICROS,
    )


async def _read_costs(
    runtime: "AgentRuntime", begin: datetime, end: datetime, agent: str | None
) -> AsyncIterator["RunCosts"]:
    """Yield the costs of each run, from its records."""
    from windlass_harness.views.costs import fold_session_costs  # noqa: PLC0415 - slow to import

    run_ids: dict[str, set[str]] = {}
    async for run_id, session_id in _runs(runtime, begin, end, agent):
        run_ids.setdefault(session_id, set()).add(run_id)
    for session_id, chosen_ids in run_ids.items():
        costs_by_run = fold_session_costs([item async for item in _items(runtime, session_id)])
        for run_id in chosen_ids & costs_by_run.keys():
            yield costs_by_run[run_id]


async def _by_tool(runs: AsyncIterator["RunCosts"]) -> list[Row]:
    from windlass_harness.views.costs import RunCosts  # noqa: PLC0415 - slow to import

    total = RunCosts()
    async for costs_of_run in runs:
        total.add(costs_of_run)
    most = sorted(total.tools.items(), key=lambda item: (-item[1].cost_micros, item[0]))
    return [
        (name, tool.calls, tool.result_tokens, tool.prompt_tokens, tool.cost_micros / _MICROS)
        for name, tool in most
    ]


async def _runs(
    runtime: "AgentRuntime", begin: datetime, end: datetime, agent: str | None
) -> AsyncIterator[tuple[str, str]]:
    after: str | None = None
    count = 0
    while count < RUNS_MAX:
        page = await runtime.sessions.runs(
            agent_id=agent, since=begin, until=end, root_only=False, after=after, limit=_PAGE
        )
        for run in page.items:
            count += 1
            yield run.run_id, run.session_id
        after = page.next
        if after is None:
            return


async def _items(
    runtime: "AgentRuntime", session_id: str
) -> AsyncIterator[tuple[str | None, str, JsonObject]]:
    after = 0
    while records := await runtime.sessions.records(session_id, after=after, limit=_RECORDS):
        for record in records:
            yield record.run_id, record.type, record.data
        after = records[-1].seq


def _moment(text: str, now: datetime) -> datetime:
    """Return a time, or one that is so many hours or days ago.

    Raises:
        CommandError: it is neither.
    """
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now - timedelta(hours=int(span[1]) * _HOURS[span[2]])
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise CommandError(
            f"not a time: {text}", "Write a day such as 2026-01-31, or a span such as 24h or 30d."
        ) from None


def _cell(name: str, value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    if name.startswith("cost"):
        return f"${value:,.4f}"
    return f"{value:.0%}" if name == "cached" else f"{value:,}"


def _csv(table: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()
