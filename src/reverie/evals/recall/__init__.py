"""Recall measurements: metrics, runs, reports. Imports `evals.collections` and the root modules."""
