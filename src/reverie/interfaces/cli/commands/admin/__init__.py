"""Commands that look after a memory: history, erasure, dreams and upkeep. Imports as `commands` does."""
