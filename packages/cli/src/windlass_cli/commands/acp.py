"""`windlass acp`: the agent inside an editor."""

import importlib.util
from typing import Annotated

import typer

from windlass_cli.problems import Exit, Problem
from windlass_cli.session import finish, session_of


def acp(
    context: typer.Context,
    *,
    agent: Annotated[str | None, typer.Option(help="Which agent; the first when left out.")] = None,
) -> None:
    """Speak the Agent Client Protocol on standard input and output, for editors.

    Example, in the settings of an editor: {"command": "windlass", "args": ["acp"]}
    """
    if importlib.util.find_spec("acp") is None:
        raise Problem(
            "the Agent Client Protocol is not installed",
            "Install it beside the command: pip install agent-client-protocol",
        )
    # It takes longer to import than everything else together.
    from windlass_cli.acp.serving import serve  # noqa: PLC0415 - slow to import

    self = session_of(context)

    async def work() -> Exit:
        async with self.working() as runtime:
            await serve(runtime, self.agent(agent), user=self.user)
        return Exit.DONE

    finish(work())
