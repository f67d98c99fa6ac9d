"""Ports: small Protocols, and the data that crosses them.

Small Protocols, and the data that crosses them.
"""
