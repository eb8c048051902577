"""Prompt context: budget, ledger, rendering and the pack. Imports `search` and `domain`.

Plain functions over values. No store, clock, model or file is visible here.
"""
