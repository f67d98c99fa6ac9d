"""The Agent Client Protocol: agents in editors, over standard input and output."""
