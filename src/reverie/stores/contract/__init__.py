"""For people who write their own store: the contract and the state machine that every store runs.

Needs pytest and hypothesis, which nothing else in Reverie does.
"""
