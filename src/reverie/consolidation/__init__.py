"""Background thinking: rules after a turn, passes, plans, the cycle, the worker.

Imports `repositories` and what is below.
"""
