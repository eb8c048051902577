"""SQLite store in parts, of which `SQLiteStore` is the only public one.

Imports `domain` and the store protocol.
"""

from reverie.stores.sqlite.store import SQLiteStore

__all__ = ["DATABASE", "UPGRADE_COPIES", "SQLiteStore"]

DATABASE = "reverie.db"
"""Name of the database in the folder of a memory."""

UPGRADE_COPIES = f"{DATABASE}.v*.backup*"
"""Pattern of the copies that are made of it before an upgrade."""
