"""Passes over stored values, each ending in a plan. Imports `consolidation.planning`; no input or output."""
