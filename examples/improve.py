"""An agent misses its goal; a change is proposed, tried, and approved."""

import asyncio
import json
from collections.abc import Sequence

from windlass import Agent, AgentRuntime, LLMMessage, tool
from windlass.ledger import Builder, BuilderQuery, Contains, Goal, report, report_text
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.testing.models import Answer


@tool(mode="read")
async def find_parcel(customer: str) -> dict[str, str]:
    """Find the parcel of a customer."""
    return {"number": f"parcel-{len(customer)}", "place": "Oslo"}


def answers(messages: Sequence[LLMMessage]) -> Answer:
    """Play the model of the clerk: it names the number only if it was told to."""
    results = [message.content for message in messages if message.role == "tool"]
    if not results:
        return call("find_parcel", {"customer": messages[-1].content.split()[-1]})
    found = json.loads(results[-1])
    is_told = "number" in messages[0].content
    return say(f"{found['number'] if is_told else 'It'} is in {found['place']}.")


better = {"part": "instructions", "text": "Say where parcels are. Always name the number."}
draft = {"changes": [better], "rationale": "No answer has the number.", "evidence": ["run-Ada"]}
# Scripts in place of two models. Real ones: model="anthropic/claude-sonnet-4-5" for both.
thinker = ScriptedModel(by_history([call("read_run", {"run_id": "run-Ada"}), say(json.dumps(draft))]))
clerk = Agent(
    "clerk", model=ScriptedModel(answers), tools=[find_parcel], instructions="Say where parcels are."
)
goal = Goal("parcels", "People learn the number and the place.", criteria=[Contains(["parcel-", "Oslo"])])


async def main() -> None:
    async with AgentRuntime.in_memory([clerk]) as runtime, Builder(thinker, runtime=runtime) as builder:
        for name in ("Ada", "Bob", "Cyd", "Dee", "Eli", "Fay"):
            handle = await runtime.start_run(
                clerk, f"Where is it? I am {name}", run_id=f"run-{name}", goal_id="parcels"
            )
            await handle.wait()
        await builder.evaluate(goal)
        query = BuilderQuery(runtime=runtime)
        print(report_text(report(query, goal_id=goal)), end="\n\n")

        proposal = await builder.propose(goal)
        await builder.check(proposal)  # both versions, the recorded inputs, tools that answer from the record
        state = await builder.approve(proposal, by="ada@example.com")
        print(report_text(report(query, proposal=state)), end="\n\n")

        improved = await builder.apply(proposal, by="ada@example.com")
        print((await improved.run("Where is it? I am Eve")).output)


asyncio.run(main())
