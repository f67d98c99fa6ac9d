"""Suites that others wrote, run against Windlass: `python -m tools.foreign` (`make foreign`)."""
