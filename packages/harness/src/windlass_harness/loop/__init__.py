"""The loop as a pure function: what happened goes in, what to write and to do next comes out."""
