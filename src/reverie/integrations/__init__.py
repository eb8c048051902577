"""Adapters for agent frameworks, one module each.

Imports the root modules and below; this module imports none of them.
"""
