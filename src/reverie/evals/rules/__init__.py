"""Measurements of rules: folding, redaction, quoting, attacks.

Imports the other parts of `evals` and the root modules.
"""
