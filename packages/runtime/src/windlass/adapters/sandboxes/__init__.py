"""Sandboxes: none, and bubblewrap."""
