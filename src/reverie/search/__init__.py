"""Search: query parsing, candidates from the index, exact ranking, hits.

Imports `stores` and `domain`.
"""
