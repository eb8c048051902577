"""Comparison of Reverie with other memories for agents: `python -m benchmarks.compare`, or `make compare`.

Each memory runs in its own environment, set up as its own documentation says, with the same embedder, which is served
on loopback. A memory that cannot run without a network is named with its error.
"""
