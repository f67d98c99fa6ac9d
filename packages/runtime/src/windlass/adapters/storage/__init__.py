"""Storages: `memory` for tests and sidecars, `sqlalchemy` for real databases."""
