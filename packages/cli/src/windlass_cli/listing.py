"""Lists of what a store holds: as a table for people, as lines for machines."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from windlass_cli.problems import Exit
from windlass_cli.session import Session, finish
from windlass_cli.shapes import show_table, to_json

if TYPE_CHECKING:
    from windlass.catalog import Page
    from windlass_cli.session import Place
    from windlass_cli.terminal import Terminal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """How a kind of things is listed."""

    show: "Callable[[Terminal, Iterable[T]], int]"
    """Writes them and returns how many there are."""
    nothing: str
    """What is said when there are none."""
    then: str = ""
    """What can be done with them."""


def table(
    header: tuple[str, ...], row: Callable[[T], tuple[str, ...]]
) -> "Callable[[Terminal, Iterable[T]], int]":
    """Return how things are listed, each in a row."""
    return lambda terminal, items: show_table(terminal, header, rows=map(row, items))


def show_list(
    session: Session,
    ask: "Callable[[Place], Awaitable[Page[T]]]",
    *,
    shape: Shape[T],
    as_json: bool,
) -> NoReturn:
    """Ask the store for a page of things, show it, and end the command."""

    async def work() -> Exit:
        async with session.place() as place:
            page = await ask(place)
        if as_json:
            for one in page.items:
                session.terminal.line(to_json(one))
            return Exit.DONE
        count = shape.show(session.terminal, page.items)
        if not count:
            session.terminal.say(shape.nothing)
        elif page.next is not None:
            session.terminal.say(f"There are more than these {count}; --limit shows more.", "dim")
        if count and shape.then:
            session.terminal.say(shape.then, "dim")
        return Exit.DONE

    finish(work())
