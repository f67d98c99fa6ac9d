"""`windlass approvals`: what waits for a person, and the answers."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

import windlass
from windlass_cli.listing import Shape, show_list
from windlass_cli.problems import Exit, Problem
from windlass_cli.records import run_records
from windlass_cli.session import Session, finish, session_of
from windlass_cli.shapes import when
from windlass_cli.watch import asked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from windlass.client import ApprovalInfo
    from windlass.ports.store import OpenRequest
    from windlass_cli.session import Place
    from windlass_cli.terminal import Terminal

app = typer.Typer(no_args_is_help=True, help="Requests to people: list, answer.")
Id = Annotated[str, typer.Argument(help="The request.")]


@app.command("list")
def list_requests(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
) -> None:
    """List everything that waits for a person, the oldest first.

    Example: windlass approvals list
    """
    show_list(
        session_of(context),
        lambda runtime: runtime.sessions.requests(limit=limit),
        shape=_LIST,
        as_json=as_json,
    )


def _block(one: "OpenRequest | ApprovalInfo") -> str:
    """Return a request with all of what is to be done."""
    request = one.request
    until = "" if request.expires_at is None else f", expires {when(request.expires_at)}"
    answers = ", ".join(option.id for option in request.options or ()) or "--text …"
    lines = (
        f"{one.agent_id}, run {one.run_id}, asked {when(one.asked_at)}{until}",
        *asked(request).splitlines(),
        f"answers: {answers}",
    )
    return "\n  ".join((request.request_id, *lines))


def _show(terminal: "Terminal", items: "Iterable[OpenRequest | ApprovalInfo]") -> int:
    blocks = [_block(one) for one in items]
    for block in blocks:
        terminal.write(f"{block}\n")
    return len(blocks)


_LIST: Final = Shape(
    _show, "Nobody is being asked anything.", "Answer with: windlass approvals answer REQUEST ANSWER"
)


@app.command()
def answer(
    context: typer.Context,
    request_id: Id,
    *,
    option: Annotated[str | None, typer.Argument(help="One of its answers, such as approve or deny.")] = None,
    text: Annotated[str | None, typer.Option(help="Words, such as the reason of a denial.")] = None,
) -> None:
    """Answer a request. What it waits for goes on wherever its agent runs.

    Example: windlass approvals answer approval:019a8f… deny --text "too dear"
    """
    finish(_answer(session_of(context), request_id, option=option, text=text))


async def _answer(self: Session, request_id: str, *, option: str | None, text: str | None) -> Exit:
    async with self.place() as runtime:
        found = await _found(runtime, request_id)
        if found is None:
            raise await _gone(runtime, request_id)
        handle = runtime.handle(found.run_id)
        if any(one.is_answered for one in await handle.requests() if one.request_id == request_id):
            raise Problem(
                "it is answered already, and whoever drives the run has not taken the answer yet",
                f"Go on with it here: windlass runs resume {found.run_id}",
            )
        self.terminal.say(_block(found))
        try:
            await handle.answer(request_id, option, text=text, responder=self.user)
        except windlass.Conflict:  # somebody was faster
            raise await _gone(runtime, request_id) from None
    said = " ".join(filter(None, (option, text)))
    self.terminal.say(f"Answered: {said}. Go on with it: windlass runs resume {found.run_id}")
    return Exit.DONE


async def _found(runtime: "Place", request_id: str) -> "OpenRequest | ApprovalInfo | None":
    after: str | None = None
    while True:
        page = await runtime.sessions.requests(after=after, limit=200)
        for one in page.items:
            if one.request.request_id == request_id:
                return one
        if page.next is None:
            return None
        after = page.next


async def _gone(runtime: "Place", request_id: str) -> Problem:
    """Say what became of a request that is not open."""
    _, _, behind = request_id.partition(":")
    run_id = behind.partition(":")[0]
    nobody = Problem(f"nobody is being asked {request_id}", "See what is asked: windlass approvals list")
    try:
        await runtime.run_status(run_id)
    except windlass.AgentError:
        return nobody
    async for record in run_records(runtime, run_id):
        resolutions = record.data.get("resolutions") if record.type == "input.resolved" else None
        for one in resolutions if isinstance(resolutions, list) else ():
            if isinstance(one, dict) and one.get("requestId") == request_id:
                response = one.get("response")
                said = response if isinstance(response, dict) else {}
                what = said.get("optionId") or one.get("outcome")
                by = f" by {said['responder']}" if said.get("responder") else ""
                return Problem(
                    f"it is settled already: {what}{by}", f"See what came of it: windlass runs show {run_id}"
                )
    return nobody
