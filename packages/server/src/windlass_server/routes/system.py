"""Routes of the server: agents, tools, health, metrics."""

from fastapi import APIRouter, Request, Response

import windlass_server
from windlass.agent.agent import AnyAgent
from windlass.tools import Tool
from windlass_protocol import AgentInfo, AgentList, Health, ToolInfo, ToolList
from windlass_server.guard import Metrics
from windlass_server.openapi import answers
from windlass_server.problems import RETRY_S, Problem
from windlass_server.requests import PREFIX, CallerDep, reply
from windlass_server.routing import AnyQueryDep, Route
from windlass_server.streams import Streams
from windlass_server.tenants import Tenants
from windlass_server.work import METRICS_TYPE

agents = APIRouter(prefix=PREFIX, tags=["agents"], route_class=Route)
router = APIRouter(prefix=PREFIX, tags=["server"], route_class=Route)


@agents.get(
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
)
async def list_agents(request: Request, caller: CallerDep) -> Response:
    """Return the agents that runs can be started with."""
    tenants: Tenants = request.app.state.tenants
    infos = tuple(_agent(agent, tenants.unready.get(agent.agent_id)) for agent in tenants.agents.values())
    return reply(AgentList(agents=infos))


@agents.get(
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
)
async def list_tools(request: Request, caller: CallerDep) -> Response:
    """Return the tools of all agents; tools that are added at run time are not included."""
    tenants: Tenants = request.app.state.tenants
    agents_by_tool: dict[tuple[str, int], tuple[Tool[..., object], list[str]]] = {}
    for agent in tenants.agents.values():
        for tool in agent.offered_tools:
            agents_by_tool.setdefault((tool.name, id(tool)), (tool, []))[1].append(agent.agent_id)
    return reply(ToolList(tools=tuple(_tool(tool, names) for tool, names in agents_by_tool.values())))


def _agent(agent: AnyAgent, problem: str | None) -> AgentInfo:
    values = {
        "agentId": agent.agent_id,
        "description": agent.description,
        "model": "/".join(agent.route),
        "version": agent.version,
        "tools": tuple(tool.name for tool in agent.offered_tools),
        "subagents": tuple(subagent.agent_id for subagent in agent.subagents),
        "problem": problem,
    }
    return AgentInfo.model_validate(values)


def _tool(tool: Tool[..., object], agents: list[str]) -> ToolInfo:
    spec = tool.spec
    values = {
        "name": spec.name,
        "description": spec.description or "",
        "mode": str(spec.mode or ""),
        "effect": str(spec.effect or ""),
        "agents": tuple(agents),
        "inputSchema": spec.input_schema,
    }
    return ToolInfo.model_validate(values)


@router.get(
    "/health",
    response_model=Health,
    responses=answers(200, {"status": "ok", "version": "0.1.0"}),
)
async def health(request: Request, query: AnyQueryDep) -> Response:
    """Return whether the server is alive; needs no credentials."""
    return reply(_health(request))


@router.get(
    "/ready",
    response_model=Health,
    responses=answers(200, {"status": "ok", "version": "0.1.0"}),
)
async def ready(request: Request, query: AnyQueryDep) -> Response:
    """Return whether requests should be sent here; needs no credentials."""
    return reply(require_ready(request))


def require_ready(request: Request) -> Health:
    """Return the health of a server that accepts requests.

    Raises:
        Problem: 503, the server shuts down, or a store cannot be written.
    """
    state = _health(request)
    if state.status == "closing":
        raise Problem(503, "the server shuts down: send requests elsewhere", retry_s=RETRY_S)
    if state.problem is not None:
        raise Problem(503, f"the store cannot be written: {state.problem}", retry_s=RETRY_S)
    return state


def _health(request: Request) -> Health:
    streams: Streams = request.app.state.streams
    tenants: Tenants = request.app.state.tenants
    return Health(
        status="closing" if streams.is_closing or request.app.state.shutdown.has_begun else "ok",
        version=windlass_server.__version__,
        pid=request.app.state.pid,
        problem=tenants.write_problem,
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses=answers(200, "windlass_streams_open 3.0\n", media_type="text/plain"),
)
async def metrics(request: Request, caller: CallerDep) -> Response:
    """Return metrics of the whole server; for operators only."""
    counted: Metrics = request.app.state.metrics
    tenants: Tenants = request.app.state.tenants
    counted.tenants.set(tenants.open_count)
    await counted.work.update(tenants.runtimes)
    return Response(counted.text(), media_type=METRICS_TYPE)
