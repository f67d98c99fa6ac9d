"""Adapters of the storage port: `memory`, and `sqlalchemy` for SQLite and PostgreSQL."""
