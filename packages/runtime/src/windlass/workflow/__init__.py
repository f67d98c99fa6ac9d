"""Durable functions: async functions whose calls are journaled, and which go on after a crash."""

from windlass.workflow.context import WorkflowContext as WorkflowContext
from windlass.workflow.definition import Workflow as Workflow
from windlass.workflow.definition import workflow as workflow
from windlass.workflow.replay import CallFailed as CallFailed
