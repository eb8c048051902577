"""Construction and validation of plans.

Imports `llm`, `domain` and `consolidation.plan`; no input or output.
"""
