"""The engine: the only place that performs effects.

Journal first, act second, show third.
"""
