"""Approvals: how a request for consent reaches whoever answers it."""

from typing import Protocol

from windlass_protocol import InputRequest, InputResponse


class ApprovalDispatcher(Protocol):
    """Takes requests to people, or to a program that answers for them."""

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        """Bring a request to whoever answers; return the answer, or nothing.

        Nothing says that an answer, if any, comes another way. The request is durable before this is called.
        It is called once for each request, beside the run, and again after a restart for as long as the
        request is open, so be ready for one that was seen before: `request.request_id` names it. An answer
        goes the way of every answer and has to pass the same checks. Whatever this raises, and an answer that
        is refused, leaves the request open.
        """
        ...
