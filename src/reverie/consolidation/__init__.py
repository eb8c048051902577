"""Background thinking: rules after a turn, passes, plans, the cycle and the worker. It imports the
repositories and what lies below them.
"""
