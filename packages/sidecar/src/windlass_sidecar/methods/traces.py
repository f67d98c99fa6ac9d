"""`trace.*`: what a run did and how long it took, folded from the journal."""

from typing import Final

from pydantic import JsonValue

from windlass_harness.tracing import TraceState, fold_trace
from windlass_sidecar.app import App
from windlass_sidecar.errors import not_found
from windlass_sidecar.params import Name, Params
from windlass_sidecar.rpc import Method, method


class TraceFetch(Params):
    """Which trace: its id is that of the stream."""

    trace_id: Name


async def fetch(app: App, params: TraceFetch) -> JsonValue:
    """Return a trace with its spans and events, also of a run that goes on."""
    run = await app.store.run(params.trace_id)
    state = TraceState()
    after = 0
    while run is not None and (records := await app.store.read(run.session_id, after=after)):
        state = fold_trace(records, state, run_id=params.trace_id)
        after = records[-1].seq
    if state.trace is None:
        raise not_found("there is no such trace")
    return {
        "trace": state.trace.model_dump(mode="json", by_alias=True),
        "spans": [span.model_dump(mode="json", by_alias=True) for span in state.spans],
        "events": [event.model_dump(mode="json", by_alias=True) for event in state.events],
    }


METHODS: Final[tuple[Method[App], ...]] = (method("trace.fetch", TraceFetch, run=fetch),)
