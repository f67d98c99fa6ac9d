"""Journal adapters: a complete `Store` in memory, or in one SQLite file."""
