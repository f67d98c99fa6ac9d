"""`windlass approvals`: what waits for a person, and the answers."""

from typing import TYPE_CHECKING, Annotated

import typer

from windlass_cli.problems import Exit, Problem
from windlass_cli.session import Session, finish, session_of
from windlass_cli.shapes import show_table, to_json, when

if TYPE_CHECKING:
    from windlass.ports.listing import OpenRequest

app = typer.Typer(no_args_is_help=True, help="Requests to people: list, answer.")
Id = Annotated[str, typer.Argument(help="The request.")]


@app.command("list")
def list_requests(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
) -> None:
    """List everything that waits for a person, the oldest first.

    Example: windlass approvals list
    """
    self = session_of(context)

    async def work() -> Exit:
        async with self.reading() as runtime:
            page = await runtime.sessions.requests(limit=200)
        if as_json:
            for one in page.items:
                self.terminal.line(to_json(one))
            return Exit.DONE
        header = ("request", "agent", "tool", "asked", "expires", "answers", "arguments")
        if not show_table(self.terminal, header, map(_row, page.items)):
            self.terminal.say("Nobody is being asked anything.")
        else:
            self.terminal.say("Answer with: windlass approvals answer REQUEST approve", "dim")
        return Exit.DONE

    finish(work())


def _row(one: "OpenRequest") -> tuple[str, ...]:
    request, options = one.request, one.request.options or ()
    times = (when(one.asked_at), when(request.expires_at))
    answers, arguments = "|".join(option.id for option in options), to_json(request.action.input)
    return (
        request.request_id,
        one.agent_id,
        str(getattr(request.action, "tool_name", "–")),
        *times,
        answers,
        arguments,
    )


@app.command()
def answer(
    context: typer.Context,
    request_id: Id,
    option: Annotated[str | None, typer.Argument(help="One of its answers, such as approve or deny.")] = None,
    *,
    text: Annotated[str | None, typer.Option(help="Words, such as the reason of a denial.")] = None,
) -> None:
    """Answer a request. What it waits for goes on wherever its agent runs.

    Example: windlass approvals answer approval:019a8f… deny --text "too dear"
    """
    finish(_answer(session_of(context), request_id, option=option, text=text))


async def _answer(self: Session, request_id: str, *, option: str | None, text: str | None) -> Exit:
    async with self.reading() as runtime:
        after: str | None = None
        while True:
            page = await runtime.sessions.requests(after=after, limit=200)
            found = next((one for one in page.items if one.request.request_id == request_id), None)
            if found is not None or page.next is None:
                break
            after = page.next
        if found is None:
            raise Problem(f"nobody is being asked {request_id}", "See what is: windlass approvals list")
        await runtime.handle(found.run_id).answer(request_id, option, text=text, responder=self.user)
    self.terminal.say(f"Answered. Go on with it: windlass runs resume {found.run_id}")
    return Exit.DONE
