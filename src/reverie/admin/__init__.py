"""The memory as a whole: history, erasure, diagnosis, transfer, statistics.

Imports `repositories` and what is below.
"""
