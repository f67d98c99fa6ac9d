"""The journal in a SQLite file: `store.SqliteStore` and its parts."""
