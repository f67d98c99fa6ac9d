"""SQLite journal: `store.SqliteStore` and its parts."""
