"""One runner a peer, each in an environment of its own.

All do the task of task.py.
"""
