"""Generates the Python and TypeScript wire types from spec/."""
