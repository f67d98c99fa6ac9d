"""`windlass run`: one prompt, to its end."""

from typing import Annotated

import typer

from windlass_cli.keeping import started, watched
from windlass_cli.problems import Exit
from windlass_cli.session import Session, finish, session_of
from windlass_cli.watch import Watch


def run(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(help="What to say; - reads it from the input.")],
    *,
    agent: Annotated[str | None, typer.Option(help="Which agent; the first when left out.")] = None,
    session: Annotated[str | None, typer.Option(help="The session to go on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Events and result, a line of JSON each.")] = False,
    ask: Annotated[bool, typer.Option(help="Ask for approvals here.")] = True,
) -> None:
    """Run an agent once, and show its answer as it comes.

    Exit code: 0 completed, 1 failed, 3 it waits for a person, 4 cancelled, 130 interrupted and kept.

    Example: windlass run "what is the weather in Oslo?"
    """
    words = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    self = session_of(context)
    watch = Watch(self.terminal, self.user, is_json=as_json, is_asking=ask and self.terminal.is_interactive)
    finish(_run(self, watch, words=words, agent=agent, session_id=session))


async def _run(self: Session, watch: Watch, *, words: str, agent: str | None, session_id: str | None) -> Exit:
    async with self.place(drives=True) as place:
        chosen = await self.agent_at(place, agent)
        handle = await started(self, place, agent=chosen, words=words, session_id=session_id)
        return await watched(self, place, watch=watch, handle=handle)
