"""The loop as a pure function.

What happened goes in, what to write and to do next comes out.
"""
