"""The engine performs all effects: model calls, tool calls, subagents, hooks and deliveries.

Order: append the intent to the journal, perform the effect, append the result, publish.
"""
