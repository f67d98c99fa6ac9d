"""`windlass limits`: list limits for people and teams with what is left, set and remove them."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass_cli.backend import Backend, command_of
from windlass_cli.output import MICROS, NO_VALUE, show_table, to_json, when

if TYPE_CHECKING:
    from windlass_protocol import LimitInfo

app = typer.Typer(no_args_is_help=True, help="Limits for people and teams: list, set, remove.")
Name = Annotated[str, typer.Argument(help="The name of the limit.")]
_HEADER: Final = (
    "limit",
    "per",
    "for",
    "period",
    "spent",
    "set aside",
    "left",
    "at the limit",
    "begins anew",
)


@app.command("list")
def list_limits(
    context: typer.Context,
    *,
    owner: Annotated[str | None, typer.Option(help="Only what is left for one owner.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each limit.")] = False,
) -> None:
    """List limits by name, with what was spent and what is left in the day or month of now.

    Example: windlass limits list --owner ann
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        infos = await backend.limits.infos(owner=owner)
        if as_json:
            for info in infos:
                command.terminal.line(to_json(info))
        elif infos:
            show_table(command.terminal, _HEADER, rows=map(_row, infos))
        else:
            command.terminal.say("No limits. Set one: windlass limits set NAME --per month --dollars 50")

    command.ask(work)


def _row(info: "LimitInfo") -> tuple[str, ...]:
    owners = info.subject or " ".join(name for name in (info.owner, info.agent) if name) or "all"
    return (
        info.name,
        info.per.value,
        owners,
        info.period or NO_VALUE,
        _amounts(
            None if info.max_cost_micros is None else info.cost_micros,
            None if info.max_tokens is None else info.tokens,
        ),
        _amounts(
            None if info.max_cost_micros is None else info.held_micros,
            None if info.max_tokens is None else info.held_tokens,
        ),
        _amounts(info.cost_micros_left, info.tokens_left)
        if info.period
        else _amounts(info.max_cost_micros, info.max_tokens),
        NO_VALUE if info.at_limit is None else info.at_limit.value,
        when(info.ends_at),
    )


def _amounts(micros: int | None, tokens: int | None) -> str:
    """Return amounts of money and tokens; None is one that is not limited."""
    amounts = [] if micros is None else [f"${micros / MICROS:,.4f}"]
    amounts += [] if tokens is None else [f"{tokens:,} tokens"]
    return ", ".join(amounts) or NO_VALUE


@app.command("set")
def set_limit(
    context: typer.Context,
    name: Name,
    *,
    per: Annotated[str, typer.Option(help="What it is for: each run, or all runs of a day or a month.")],
    dollars: Annotated[
        float | None, typer.Option(min=0.000001, max=9e9, help="Money, in US dollars.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of prompts and answers.")] = None,
    owner: Annotated[str | None, typer.Option(help="An owner, or '*' for each; default: all.")] = None,
    agent: Annotated[str | None, typer.Option(help="An agent, or '*' for each; default: all.")] = None,
    timezone: Annotated[str, typer.Option(help="The time zone of days and months.")] = "UTC",
    at_limit: Annotated[str, typer.Option(help="What happens at it: refuse, ask, cheaper.")] = "refuse",
    responder: Annotated[
        list[str] | None, typer.Option(help="With ask: who may let a run spend more; may be repeated.")
    ] = None,
) -> None:
    """Set a limit, or replace the one with this name; on a server, for operators only.

    Example: windlass limits set people --per month --dollars 5 --owner '*' --at-limit ask --responder finance
    """
    from windlass.parts import SpendLimit  # noqa: PLC0415 - slow to import

    command = command_of(context)

    async def work(backend: Backend) -> None:
        limit = SpendLimit(
            name,
            per,  # pyright: ignore[reportArgumentType] - `SpendLimit` checks it
            max_cost_micros=None if dollars is None else round(dollars * MICROS),
            max_tokens=tokens,
            owner=owner,
            agent=agent,
            timezone=timezone,
            at_limit=at_limit,  # pyright: ignore[reportArgumentType] - `SpendLimit` checks it
            responders=tuple(responder) if responder else None,
        )
        await backend.limits.set(limit)
        command.terminal.say(f"{name} is set. See what is left: windlass limits list")

    command.ask(work)


@app.command()
def remove(context: typer.Context, name: Name) -> None:
    """Remove a limit; on a server, for operators only.

    Example: windlass limits remove people
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await backend.limits.remove(name)
        command.terminal.say(f"{name} is removed.")

    command.ask(work)
