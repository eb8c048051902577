"""Finding the right memory: text to tokens, questions to terms, candidates to an exact and explained order.

Pure: nothing here reads a file, a clock or a store.
"""
