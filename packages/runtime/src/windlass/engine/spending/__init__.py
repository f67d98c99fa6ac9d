"""Spending: what model calls may cost together, when they may be sent, and which wait for a batch."""
