"""Adapters: implementations of the ports.

Each module here implements ports and knows no other adapter.
"""
