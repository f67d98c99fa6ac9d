"""The handle of a run: wait for it, watch, answer and cancel it anywhere."""

from collections.abc import Sequence
from typing import Protocol, cast

from pydantic import BaseModel, ValidationError

from windlass.definitions import kind_of
from windlass.ports.feed import EventStream, refused
from windlass.refusals import bad_request
from windlass.setup_check import misfit
from windlass_protocol import (
    Cursor,
    InputRequest,
    InputResponse,
    RunCursor,
    RunResult,
    RunStatus,
)
from windlass_protocol.limits import INTEGER_MAX


class RunHost(Protocol):
    """What a handle asks of its runtime."""

    async def run_status(self, run_id: str) -> RunStatus:
        """Return where a run is."""
        ...

    async def run_result(self, run_id: str, timeout: float | None) -> RunResult:  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return what came of a run, once it has ended."""
        ...

    def subscribe_run(
        self, run_id: str, cursor: Cursor | None = None, *, until_terminal: bool = False
    ) -> EventStream:
        """Watch a run."""
        ...

    async def cancel_run(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Ask a run to end."""
        ...

    async def run_requests(self, run_id: str) -> tuple[InputRequest, ...]:
        """Return what a run is waiting to be told."""
        ...

    async def answer_run(self, run_id: str, responses: Sequence[InputResponse]) -> None:
        """Answer requests of a run."""
        ...


class RunHandle:
    """A run, wherever it is driven."""

    def __init__(self, host: RunHost, run_id: str) -> None:
        self._host = host
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"RunHandle({self.run_id!r})"

    async def status(self) -> RunStatus:
        """Return where the run is.

        Raises:
            Conflict: nobody ever started it.
        """
        return await self._host.run_status(self.run_id)

    async def wait(self, timeout: float | None = None) -> RunResult:  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return what came of the run, once it has ended.

        A run that waits for people has not.

        Raises:
            TimeoutError: it did not end in so many seconds. It goes on.
            Conflict: nobody ever started it.
        """
        return await self._host.run_result(self.run_id, timeout)

    def events(self, after: int | Cursor | None = None) -> EventStream:
        """Return the events of the run, stored and live, up to its end.

        `after` is the `seq` of the last event that was seen, or a cursor; None begins at the beginning.
        """
        return self._host.subscribe_run(self.run_id, _cursor(self.run_id, after), until_terminal=True)

    async def cancel(self, *, by: str | None = None, reason: str | None = None) -> None:
        """Ask the run to end; nothing happens to one that has ended."""
        await self._host.cancel_run(self.run_id, by=by, reason=reason)

    async def requests(self) -> tuple[InputRequest, ...]:
        """Return what people are being asked."""
        return await self._host.run_requests(self.run_id)

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        responder: str | None = None,
    ) -> None:
        """Answer a request: with one of its options, with words, or with both.

        Raises:
            Conflict: nobody is being asked this any more.
            Denied: this responder may not answer.
            Rejected: the answer does not fit the request.
        """
        given = {"request_id": request_id, "option_id": option_id, "text": text, "responder": responder}
        try:
            response = InputResponse.model_validate(given)
        except ValidationError as error:
            problem = misfit(error, "answer", value=given)
        else:
            return await self._host.answer_run(self.run_id, (response,))
        raise bad_request(problem)


def _cursor(run_id: str, after: object) -> Cursor | None:
    if after is None or isinstance(after, BaseModel):
        return cast(Cursor, after)  # one of another kind is refused by the feed
    if not isinstance(after, int) or isinstance(after, bool):
        raise refused(f"after takes the seq of an event or a cursor, found {kind_of(after)}")
    if not 0 <= after <= INTEGER_MAX:
        found = after if after < 0 else "more"
        raise refused(f"after is the seq of an event, 0 to {INTEGER_MAX:,}, found {found}")
    return RunCursor(run_id=run_id, seq=after)
