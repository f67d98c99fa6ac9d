"""`windlass chat`: a conversation that outlives the terminal."""

from typing import Annotated, Final

import typer

from windlass_cli.keeping import started, watched
from windlass_cli.problems import Exit
from windlass_cli.session import Session, finish, new_session, session_of
from windlass_cli.watch import Watch

QUIT: Final = frozenset({"/quit", "/exit", "/q"})


def chat(
    context: typer.Context,
    *,
    agent: Annotated[str | None, typer.Option(help="Which agent; the first when left out.")] = None,
    session: Annotated[
        str | None, typer.Option(help="The session to go on with; a new one when left out.")
    ] = None,
) -> None:
    """Talk to an agent. Everything is kept: go on with --session where you stopped.

    The exit code is that of the last run, see windlass run --help.

    Example: windlass chat --session monday
    """
    self = session_of(context)
    finish(_chat(self, agent=agent, session_id=session))


async def _chat(self: Session, *, agent: str | None, session_id: str | None) -> Exit:
    terminal, code = self.terminal, Exit.DONE
    async with self.place(drives=True) as place:
        chosen = await self.agent_at(place, agent)
        name = session_id or await new_session(place, chosen)
        terminal.say(f"{chosen} listens. Leave with /quit; go on with: windlass chat --session {name}", "dim")
        while (line := await terminal.ask("> " if terminal.is_interactive else "")) is not None:
            words = line.strip()
            if words in QUIT:
                break
            if words.startswith("/"):
                terminal.say(f"There is no {words.split()[0]}; there is /quit.", "yellow")
            elif words:
                handle = await started(self, place, agent=chosen, words=words, session_id=name)
                watch = Watch(terminal, self.user, is_asking=terminal.is_interactive)
                code = await watched(self, place, watch=watch, handle=handle)
    return code
