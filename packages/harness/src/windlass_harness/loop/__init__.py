"""The loop: pure functions from events to records and from state to effects."""
