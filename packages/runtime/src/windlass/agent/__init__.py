"""What an agent declares: its model, instructions, tools, output, hooks, skills and sandbox."""

from windlass.agent.agent import Agent as Agent
from windlass.agent.agent import Background as Background
from windlass.agent.agent import agent_tool as agent_tool
