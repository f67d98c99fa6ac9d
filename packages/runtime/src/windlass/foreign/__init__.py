"""Agents, checkpoints and sessions of other frameworks: one module for each framework."""
