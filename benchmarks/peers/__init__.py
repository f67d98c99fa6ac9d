"""One runner a peer, each in an environment of its own; all do the task of task.py."""
