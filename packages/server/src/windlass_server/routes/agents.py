"""Agents and their tools."""

from fastapi import APIRouter, Request, Response

from windlass import Agent
from windlass.tools import Tool
from windlass_server.access import CallerDep
from windlass_server.docs import answers, reply
from windlass_server.guard import PREFIX
from windlass_server.models import AgentList, AgentView, ToolList, ToolView
from windlass_server.tenants import Tenants

router = APIRouter(prefix=PREFIX, tags=["agents"])


@router.get(
    "/agents",
    response_model=AgentList,
    responses=answers(
        200,
        {
            "agents": [
                {
                    "agentId": "guide",
                    "description": "",
                    "model": "demo/guide",
                    "tools": ["weather"],
                    "subagents": [],
                }
            ]
        },
    ),
    summary="The agents",
)
async def agents(request: Request, caller: CallerDep) -> Response:
    """Return the agents that runs can be started with."""
    tenants: Tenants = request.app.state.tenants
    return reply(AgentList(agents=tuple(_agent(agent) for agent in tenants.agents.values())))


@router.get(
    "/tools",
    response_model=ToolList,
    responses=answers(
        200,
        {
            "tools": [
                {
                    "name": "weather",
                    "description": "Say what the weather is.",
                    "mode": "read",
                    "effect": "read",
                    "agents": ["guide"],
                    "inputSchema": {"type": "object"},
                }
            ]
        },
    ),
    summary="The tools",
)
async def tools(request: Request, caller: CallerDep) -> Response:
    """Return the tools of all agents.

    Those that functions give at run time are not among them.
    """
    tenants: Tenants = request.app.state.tenants
    found: dict[tuple[str, int], tuple[Tool[..., object], list[str]]] = {}
    for agent in tenants.agents.values():
        for tool in agent.offered_tools:
            found.setdefault((tool.name, id(tool)), (tool, []))[1].append(agent.agent_id)
    return reply(ToolList(tools=tuple(_tool(tool, names) for tool, names in found.values())))


def _agent(agent: Agent) -> AgentView:
    given = {
        "agentId": agent.agent_id,
        "description": agent.description,
        "model": "/".join(agent.route),
        "version": agent.version,
        "tools": tuple(tool.name for tool in agent.offered_tools),
        "subagents": tuple(one.agent_id for one in agent.subagents),
    }
    return AgentView.model_validate(given)


def _tool(tool: Tool[..., object], agents: list[str]) -> ToolView:
    spec = tool.spec
    given = {
        "name": spec.name,
        "description": spec.description or "",
        "mode": str(spec.mode or ""),
        "effect": str(spec.effect or ""),
        "agents": tuple(agents),
        "inputSchema": spec.input_schema,
    }
    return ToolView.model_validate(given)
