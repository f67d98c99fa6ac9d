"""A saga: it reserves, waits for a payment, and reverses its calls if none comes."""

from windlass import ToolContext, tool
from windlass.testing import crash_everywhere
from windlass.tools import UndoCall
from windlass.workflow import WorkflowContext, workflow


async def release(ctx: ToolContext, call: UndoCall) -> str:
    return "released"


@tool(mode="safe_write", effect="idempotent", undo=release)
async def reserve(item: str) -> str:
    """Reserve an item."""
    return f"{item} reserved"


@workflow
async def order(ctx: WorkflowContext, item: str) -> str:
    reserved = await ctx.call(reserve, item)
    # run.send("paid"), HTTP or a webhook sends it; the run is a row in the store meanwhile.
    if await ctx.wait_for("paid", timeout=3_600):
        return f"{reserved} and paid"
    return f"not paid: {await ctx.undo()} call reversed"


# Ends the process at each point in turn: every run ends alike.
print({crash.result.output for crash in crash_everywhere(order, "lamp", send={"paid": True})})
