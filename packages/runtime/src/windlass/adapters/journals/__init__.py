"""Stores: one journal with everything around it, in memory or in one SQLite file."""
