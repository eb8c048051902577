"""Passes over stored values, each ending in a plan. Imports `consolidation.plan_builder`; no input or output."""
