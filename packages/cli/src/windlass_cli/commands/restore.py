"""`windlass restore`: hold the sessions of a restored store until a person releases them."""

from typing import Annotated

import typer

from windlass_cli.backend import Command, command_of, finish
from windlass_cli.output import CommandError, Exit


def restore(
    context: typer.Context,
    sessions: Annotated[
        list[str] | None, typer.Argument(help="With --release: sessions; all when left out.")
    ] = None,
    *,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Hold all sessions with something to do.")
    ] = False,
    release: Annotated[bool, typer.Option("--release", help="Let sessions go on.")] = False,
) -> None:
    """List the sessions of a restored store that are held, hold them, or release them.

    After a restore runs would make the effects again that they made after the backup. Held sessions are not
    driven by any process, so nothing of theirs begins until you release them. New sessions are not held.

    Example: windlass --store postgresql://user@host/restored restore --quarantine
    """
    if quarantine and (release or sessions):
        raise CommandError("--quarantine holds all sessions", "Release some with: windlass restore --release")
    if sessions and not release:
        raise CommandError("sessions are named to release them", "Add --release.")
    command = command_of(context)
    finish(_restore(command, sessions or [], is_quarantine=quarantine, is_release=release))


async def _restore(command: Command, sessions: list[str], *, is_quarantine: bool, is_release: bool) -> Exit:
    from windlass.catalog import restored  # noqa: PLC0415 - slow to import

    terminal = command.terminal
    async with command.reading() as runtime:
        store = runtime.core.store
        if is_quarantine:
            count = await restored.hold(store)
            terminal.say(f"{_sessions(count)} held. Release them with: windlass restore --release")
            return Exit.DONE
        held = await restored.list_held(store)
        if is_release:
            unknown = sorted({*sessions} - {*held})
            if unknown:
                raise CommandError(f"not held: {', '.join(unknown)}", "See what is: windlass restore")
            count = await restored.release(store, sessions or held)
            terminal.say(f"{_sessions(count)} released. Processes drive them within a minute.")
            return Exit.DONE
        if not held:
            terminal.say("No session is held. Hold all with something to do: windlass restore --quarantine")
        for name in held:
            terminal.line(name)
    return Exit.DONE


def _sessions(count: int) -> str:
    return "1 session is" if count == 1 else f"{count:,} sessions are"
