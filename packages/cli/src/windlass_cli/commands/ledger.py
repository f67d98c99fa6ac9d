"""`windlass trace` and `windlass decisions`: what a run did, and why."""

from typing import Annotated

import typer

from windlass_cli.problems import Exit
from windlass_cli.session import finish, known_run, session_of
from windlass_cli.shapes import short, show_table, to_json
from windlass_cli.spans import show_waterfall

Id = Annotated[str, typer.Argument(help="The run.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


def trace(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Show when everything in a run happened, as a waterfall.

    Example: windlass trace 019a8f…
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            found = await runtime.sessions.trace(run_id)
        if as_json:
            self.terminal.line(to_json(found))
        else:
            show_waterfall(self.terminal, found)
        return Exit.DONE

    finish(work())


def decisions(context: typer.Context, run_id: Id, *, as_json: Json = False) -> None:
    """Show what a run chose, among what, and what came of it.

    Example: windlass decisions 019a8f…
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.place() as runtime:
            await known_run(runtime, run_id)
            found = await runtime.decisions(run_id)
        if as_json:
            self.terminal.line(to_json(found))
            return Exit.DONE
        rows = (
            (str(number), one.intent, one.chosen_option_id, str(len(one.options)), _outcome(one.outcome))
            for number, one in enumerate(found.decisions, start=1)
        )
        if not show_table(self.terminal, ("", "intent", "chosen", "options", "outcome"), rows=rows):
            self.terminal.say("It chose nothing.")
        for problem in found.problems:
            self.terminal.show(f"{problem.severity.value}: {short(problem.description, 400)}", "yellow")
        return Exit.DONE

    finish(work())


def _outcome(outcome: object) -> str:
    if outcome is None:
        return "pending"
    error = getattr(outcome, "error", None)
    return "ok" if getattr(outcome, "success", False) else f"failed: {error or ''}"
