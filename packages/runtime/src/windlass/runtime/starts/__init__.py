"""Starts: every check of a start, and what a run runs under."""
