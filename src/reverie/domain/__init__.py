"""Domain model: frozen values, their rules, and pure functions over text.

Imports nothing else of Reverie.
"""
