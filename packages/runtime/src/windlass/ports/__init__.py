"""What the runtime asks of the world.

Small Protocols, and the data that crosses them.
"""
