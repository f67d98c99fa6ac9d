"""Bringing what a run asks people to the host, and its answer to the run."""

import asyncio
import logging
from typing import Final

from pydantic import JsonValue, ValidationError

from windlass import RunHandle
from windlass.errors import AgentError, Conflict
from windlass_protocol import Event, HostInputRequest, InputRequest, JsonObject
from windlass_sidecar.errors import RpcError
from windlass_sidecar.limits import ASKED_MAX
from windlass_sidecar.params import Params
from windlass_sidecar.peers import INPUT, Host

_LOG: Final = logging.getLogger(__name__)


class Answer(Params):
    """What a person answers: one of the options, words, or both."""

    option_id: str | None = None
    text: str | None = None
    responder: str | None = None


class Asker:
    """Asks the host what one run wants to know, for as long as it does."""

    def __init__(self, host: Host, handle: RunHandle) -> None:
        self._host = host
        self._handle = handle
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def hear(self, event: Event) -> None:
        """Take note of an event: requests are brought, settled ones withdrawn."""
        if event.type == "input.requested" and self._host.can_ask_people:
            for request in _objects(event.data, "requests"):
                asked = InputRequest.model_validate(request)
                self._tasks[asked.request_id] = asyncio.create_task(self._ask(asked))
        elif event.type == "input.resolved":
            for resolution in _objects(event.data, "resolutions"):
                self._drop(str(resolution.get("requestId")))

    async def aclose(self) -> None:
        """Withdraw everything."""
        tasks = tuple(self._tasks.values())
        for request_id in tuple(self._tasks):
            self._drop(request_id)
        if tasks:
            await asyncio.wait(tasks)

    def _drop(self, request_id: str) -> None:
        task = self._tasks.pop(request_id, None)
        if task is not None:
            task.cancel()

    async def _ask(self, request: InputRequest) -> None:
        """Ask until an answer fits; a request that stays open can be answered another way."""
        problem: str | None = None
        for _ in range(ASKED_MAX):
            if request.request_id not in {one.request_id for one in await self._handle.requests()}:
                return
            problem = await self._ask_once(request, problem)
            if problem is None:
                return
            _LOG.warning("an answer of the host does not count: %s", problem)

    async def _ask_once(self, request: InputRequest, problem: str | None) -> str | None:
        """Return why the answer does not count; None if there is nothing more to do."""
        params = HostInputRequest(stream_id=self._handle.run_id, request=request, problem=problem)
        try:
            given = await self._host.call(INPUT, params.model_dump(mode="json", by_alias=True))
            if given is None:
                return None
            answer = Answer.model_validate(given)
            await self._handle.answer(
                request.request_id, answer.option_id, text=answer.text, responder=answer.responder
            )
        except Conflict:
            return None
        except (AgentError, RpcError) as error:
            return error.message
        except ValidationError:
            return "an answer is an object with optionId, text and responder"
        return None


def _objects(data: JsonObject, name: str) -> list[dict[str, JsonValue]]:
    found = data.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
