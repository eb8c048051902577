"""SQLite store in parts, of which `SQLiteStore` is the only public one.

Imports `domain` and the store protocol.
"""

from reverie.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
