"""`windlass approvals`: list and answer the requests that wait for a person."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

import windlass
from windlass_cli.backend import Backend, command_of
from windlass_cli.follow import asked
from windlass_cli.output import Problem, show_page, when

if TYPE_CHECKING:
    from windlass_cli.backend import RequestRow

app = typer.Typer(no_args_is_help=True, help="Requests to people: list, answer.")
Id = Annotated[str, typer.Argument(help="The request.")]


@app.command("list")
def list_requests(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of requests.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each request.")] = False,
) -> None:
    """List the requests that wait for a person, the oldest first.

    Example: windlass approvals list
    """
    terminal = command_of(context).terminal

    def show(items: "Sequence[RequestRow]") -> None:
        for one in items:
            terminal.write(f"{_block(one)}\n")
        if items:
            terminal.say("Answer with: windlass approvals answer REQUEST ANSWER", "dim")

    async def work(backend: Backend) -> None:
        page = await backend.sessions.requests(limit=limit)
        show_page(terminal, page, show=show, empty="No open requests.", as_json=as_json)

    command_of(context).ask(work)


def _block(one: "RequestRow") -> str:
    """Return a request with the whole input of its action."""
    request = one.request
    until = "" if request.expires_at is None else f", expires {when(request.expires_at)}"
    answers = ", ".join(option.id for option in request.options or ()) or "--text …"
    lines = (
        f"{one.agent_id}, run {one.run_id}, asked {when(one.asked_at)}{until}",
        *asked(request).splitlines(),
        f"answers: {answers}",
    )
    return "\n  ".join((request.request_id, *lines))


@app.command()
def answer(
    context: typer.Context,
    request_id: Id,
    *,
    option: Annotated[str | None, typer.Argument(help="One of its answers, such as approve or deny.")] = None,
    text: Annotated[str | None, typer.Option(help="A text, such as the reason of a denial.")] = None,
) -> None:
    """Answer a request. The run continues where its agent is driven.

    Example: windlass approvals answer approval:019a8f… deny --text "too expensive"
    """
    command = command_of(context)

    async def work(backend: Backend) -> None:
        found = await _found(backend, request_id)
        if found is None:
            raise await _not_open(backend, request_id)
        run = backend.handle(found.run_id)
        if any(one.is_answered for one in await run.requests() if one.request_id == request_id):
            raise Problem(
                "the request is answered already, and no process has taken the answer yet",
                f"Drive the run here: windlass runs resume {found.run_id}",
            )
        command.terminal.say(_block(found))
        try:
            await run.answer(request_id, option, text=text, responder=command.user)
        except windlass.Conflict:  # answered or expired in the meantime
            raise await _not_open(backend, request_id) from None
        said = " ".join(filter(None, (option, text)))
        command.terminal.say(f"Answered: {said}. Drive the run here: windlass runs resume {found.run_id}")

    command.ask(work)


async def _found(backend: Backend, request_id: str) -> "RequestRow | None":
    after: str | None = None
    while True:
        page = await backend.sessions.requests(after=after, limit=200)
        for one in page.items:
            if one.request.request_id == request_id:
                return one
        if page.next is None:
            return None
        after = page.next


async def _not_open(backend: Backend, request_id: str) -> Problem:
    """Say how a request that is not open was resolved."""
    _, _, behind = request_id.partition(":")
    run_id = behind.partition(":")[0]
    unknown = Problem(f"unknown request: {request_id}", "List the open requests: windlass approvals list")
    try:
        await backend.run_snapshot(run_id)
    except windlass.AgentError:
        return unknown
    async for record in backend.run_records(run_id):
        resolutions = record.data.get("resolutions") if record.type == "input.resolved" else None
        for one in resolutions if isinstance(resolutions, list) else ():
            if isinstance(one, dict) and one.get("requestId") == request_id:
                response = one.get("response")
                said = response if isinstance(response, dict) else {}
                what = said.get("optionId") or one.get("outcome")
                by = f" by {said['responder']}" if said.get("responder") else ""
                return Problem(
                    f"the request is resolved already: {what}{by}",
                    f"Show the run: windlass runs show {run_id}",
                )
    return unknown
