"""Stores: the protocol, SQLite, in memory, the redacting wrapper and tombstones. Imports `domain` only."""
