"""The method catalogue."""
