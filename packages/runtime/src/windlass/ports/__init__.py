"""Ports: small Protocols, and the data that crosses them."""
