"""Approvals: how a request for consent reaches whoever answers it."""

from typing import Protocol

from windlass_protocol import InputRequest, InputResponse


class ApprovalDispatcher(Protocol):
    """Takes requests to people, or to a program that answers for them."""

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        """Bring a request to whoever answers; return the answer, or nothing.

        Nothing says that an answer, if any, comes another way: that is journaled, and the request is not
        brought again. The request is durable before this is called, once for each request and beside the run.

        It is called again only if nobody knows whether it was brought: it raised, took too long, or its
        process ended before that it returned was durable. Then the next runtime that opens the store, also
        beside one that is still busy with it, calls it for as long as the request is open. So be ready for a
        request that was seen before: `request.request_id` names it.

        An answer goes the way of every answer and has to pass the same checks. Whatever this raises, and an
        answer that is refused, leaves the request open.
        """
        ...
