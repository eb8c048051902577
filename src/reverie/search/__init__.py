"""Search: query parsing, candidates from the index, exact ranking, calibration, hits.

Imports `stores` and `domain`.
"""
