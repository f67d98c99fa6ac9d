"""Puts definitions in an order in which each can be written down."""

from tools.gen.model import Definition, SpecError, references


def ordered(definitions: tuple[Definition, ...]) -> list[Definition]:
    """Return definitions so that each comes after those it refers to."""
    by_name = {definition.name: definition for definition in definitions}
    done: dict[str, Definition] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise SpecError(f"definitions refer to each other: {' -> '.join((*path, name))}")
        if name in done or name not in by_name:
            return
        for other in references(by_name[name]):
            visit(other, (*path, name))
        done[name] = by_name[name]

    for definition in definitions:
        visit(definition.name, ())
    return list(done.values())
