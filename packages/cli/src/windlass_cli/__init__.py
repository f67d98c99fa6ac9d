"""The `windlass` command."""
