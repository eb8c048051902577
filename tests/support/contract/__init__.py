"""Contract tests and a state machine for stores, including stores of your own. Imports `stores` and `domain`.

Needs pytest and hypothesis, which nothing else in Reverie does.
"""
