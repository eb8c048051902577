"""Vectors of records, turns and paragraphs, derived from the store. Imports `stores`, `llm` and `domain`."""
