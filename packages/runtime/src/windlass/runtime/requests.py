"""Requests of a run to people, with the answers that fit: `Approval`, `Question`, `Interrupted`."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.errors import Conflict
from windlass_harness.loop.people import APPROVE, APPROVE_SESSION, DENY, match_option
from windlass_harness.views.payloads import action_name, is_limit_ask
from windlass_protocol import (
    InputKind,
    InputOption,
    InputRequest,
    InputResponse,
    JsonObject,
    RecoveryChoice,
)
from windlass_protocol.generated.records import InputRequested

if TYPE_CHECKING:
    from windlass.runtime.handle import RunHandle


class _Asked:
    """A request to a person. An answer returns whether it was the first.

    False means that the request was closed before: another person answered it, it expired, or the run was
    cancelled. `by` names the person who answers.

    Every answer raises:
        Denied: this person may not answer.
        Rejected: the answer does not fit the request.
    """

    def __init__(self, run: "RunHandle[object]", data: InputRequest) -> None:
        self._run = run
        self.run_id: Final = run.run_id
        self.data: Final = data
        """The request as wire data: its options, expiry, responders and the hash of the arguments."""
        self.conflict: Conflict | None = None
        """Why the last answer was not the first; it names the answer that counts."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.request_id!r})"

    @property
    def request_id(self) -> str:
        """The id of the request; the same after a restart."""
        return self.data.request_id

    @property
    def prompt(self) -> str:
        """The question in words."""
        return self.data.prompt

    @property
    def tool_name(self) -> str:
        """The tool whose call asks."""
        return action_name(self.data.action)

    @property
    def arguments(self) -> JsonValue:
        """The arguments of the call."""
        return self.data.action.input

    async def _answer(
        self,
        option: str | None,
        by: str | None,
        text: str | None = None,
        arguments: JsonObject | None = None,
    ) -> bool:
        response = InputResponse(
            request_id=self.request_id,
            option_id=option,
            text=text,
            responder=by,
            arguments_hash=self.data.arguments_hash,
            arguments=arguments,
        )
        try:
            await self._run.answer_all((response,))
        except Conflict as error:
            self.conflict = error
            return False
        return True


class Approval(_Asked):
    """A call that needs the consent of a person. See `windlass.RunHandle.requests`."""

    async def approve(self, *, by: str | None = None, for_session: bool = False) -> bool:
        """Approve this call; with `for_session`, also later calls of the tool in the session.

        Returns whether this answer was the first. `for_session` is refused for a request that does not offer
        the option `approve_session`.
        """
        return await self._answer(APPROVE_SESSION if for_session else APPROVE, by)

    async def modify(
        self,
        changes: Mapping[str, JsonValue] | None = None,
        /,
        *,
        by: str | None = None,
        **changed: JsonValue,
    ) -> bool:
        """Approve the call with other arguments: `request.modify(cents=2000, by="ann")`.

        Arguments that are not named stay as they are. The changed ones are validated, the policy decides
        about them, the journal records who changed them, and the model is told. `changes` takes arguments
        whose names cannot be written as keywords. Returns whether this answer was the first.

        Raises:
            Rejected: the arguments do not fit the tool.
        """
        arguments = self.arguments if isinstance(self.arguments, dict) else {}
        return await self._answer(APPROVE, by, arguments={**arguments, **(changes or {}), **changed})

    async def deny(self, reason: str | None = None, *, by: str | None = None) -> bool:
        """Deny the call; the model sees the reason. Returns whether this answer was the first."""
        return await self._answer(DENY, by, reason)


class Question(_Asked):
    """A question of the model. See `windlass.RunHandle.requests`."""

    @property
    def options(self) -> tuple[InputOption, ...]:
        """The options to choose from; empty if the question takes any text."""
        return self.data.options or ()

    async def reply(self, text: str, *, by: str | None = None) -> bool:
        """Answer with a text, or with the label of an option. Returns whether this answer was the first."""
        return await self._answer(None, by, text)

    async def choose(self, option_id: str, *, by: str | None = None) -> bool:
        """Answer with one of the options, by its id. Returns whether this answer was the first."""
        return await self._answer(option_id, by)


class Interrupted(_Asked):
    """A call that a crash interrupted; it may have taken effect. See `windlass.RunHandle.requests`."""

    async def retry(self, *, by: str | None = None) -> bool:
        """Run the call again, with the same idempotency key. Returns whether this answer was the first."""
        return await self._answer(RecoveryChoice.RETRY, by)

    async def skip(self, *, by: str | None = None) -> bool:
        """Go on without the call; the model sees that its outcome is unknown.

        Returns whether this answer was the first.
        """
        return await self._answer(RecoveryChoice.SKIP, by)

    async def undo(self, *, by: str | None = None) -> bool:
        """Reverse the call with the `undo` of its tool, which has to find out whether it took effect.

        The model sees that the call was reversed. Refused if the tool has no `undo`. Returns whether this
        answer was the first.
        """
        return await self._answer(RecoveryChoice.UNDO, by)

    async def supply(self, result: JsonValue, *, by: str | None = None) -> bool:
        """Supply the result of the call, which took effect. Returns whether this answer was the first."""
        return await self._answer(RecoveryChoice.SUPPLY, by, to_json(result).decode())


Request = Approval | Question | Interrupted


def typed_request(run: "RunHandle[object]", data: InputRequest) -> Request:
    """Return a request as an object of its kind."""
    match data.kind:
        case InputKind.APPROVAL:
            return Approval(run, data)
        case InputKind.RECOVERY:
            return Interrupted(run, data)
        case _:
            return Question(run, data)


async def requests_of(run: "RunHandle[object]") -> AsyncGenerator[Request]:
    """Yield each open request of a run once, up to the end of the run.

    The journal decides, not the events: each `input.requested`, old or new, makes it read the requests that
    are open now. So a loop that starts again after a crash gets those without an answer.
    """
    yielded_ids: set[str] = set()
    async with aclosing(run.events()) as events:
        async for event in events:
            if event.type != InputRequested.TYPE:
                continue
            while fresh := [
                request for request in await run.open_requests() if _is_fresh(request, yielded_ids)
            ]:
                yielded_ids.add(fresh[0].request_id)
                yield typed_request(run, fresh[0])


def _is_fresh(request: InputRequest, yielded_ids: set[str]) -> bool:
    return not request.is_answered and request.request_id not in yielded_ids


def makes_call(request: InputRequest, response: InputResponse) -> bool:
    """Whether a response has the call of a request executed.

    Unlike `consents`, a recovery that supplies a result or reverses the call does not execute it.
    """
    option_id = match_option(request, response).option_id
    if request.kind is InputKind.RECOVERY:
        return option_id == RecoveryChoice.RETRY
    return option_id in (APPROVE, APPROVE_SESSION) and not is_limit_ask(request.action.call_id)


def consents(request: InputRequest, response: InputResponse) -> bool:
    """Whether a response lets a call happen, and its responder is not named by the request."""
    names = {response.responder, *(response.roles or ())}
    if request.responders is not None and not names.isdisjoint(request.responders):
        return False
    option_id = match_option(request, response).option_id
    if request.kind is InputKind.RECOVERY:
        return option_id != RecoveryChoice.SKIP
    return option_id in (APPROVE, APPROVE_SESSION)
