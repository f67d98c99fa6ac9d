"""`windlass deliveries`: list, retry and give up notifications that were not taken."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass_cli.backend import Backend, command_of
from windlass_cli.output import NO_VALUE, show_page, show_table, when

if TYPE_CHECKING:
    from windlass_protocol import DeliveryInfo

app = typer.Typer(no_args_is_help=True, help="Notifications and messages of channels that were not taken.")
Id = Annotated[str, typer.Argument(help="The id of the delivery.")]
_HEADER: Final = ("delivery", "target", "event", "attempts", "next", "problem", "session")


@app.command("list")
def list_deliveries(
    context: typer.Context,
    *,
    dead: Annotated[bool, typer.Option(help="Only those that are tried no more.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of deliveries.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each delivery.")] = False,
) -> None:
    """List deliveries that were not taken, dead letters included.

    Example: windlass deliveries list --dead
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        show_page(
            command.terminal,
            await backend.deliveries.list(dead_only=dead, limit=limit),
            show=lambda items: show_table(command.terminal, _HEADER, rows=map(_row, items)),
            empty="There are no dead letters." if dead else "Everything was delivered.",
            as_json=as_json,
        )

    command.ask(work)


def _row(delivery: "DeliveryInfo") -> tuple[str, ...]:
    time = "dead" if delivery.is_dead else when(delivery.next_at)
    return (
        delivery.delivery_id,
        delivery.target,
        delivery.event or NO_VALUE,
        str(delivery.attempts),
        time,
        delivery.problem or NO_VALUE,
        delivery.session_id,
    )


@app.command()
def retry(context: typer.Context, delivery: Id) -> None:
    """Try a delivery again now; its attempts are counted from the beginning.

    Example: windlass deliveries retry msg_5f0c…
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await backend.deliveries.retry(delivery)
        command.terminal.say(f"{delivery} is due now. windlass serve sends it.")

    command.ask(work)


@app.command()
def remove(context: typer.Context, delivery: Id) -> None:
    """Give a delivery up.

    Example: windlass deliveries remove msg_5f0c…
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        await backend.deliveries.delete(delivery)
        command.terminal.say(f"{delivery} is given up.")

    command.ask(work)
