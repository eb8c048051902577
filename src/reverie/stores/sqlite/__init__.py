"""How is everything kept in one SQLite file? `SQLiteStore` is the answer; the other files are its parts.

`migrations` makes and renews the file, `connections` hands out connections to it, `rows` turns values into
rows and back, `changes` is what happens inside one transaction, `filters` says a filter in SQL, `check`
looks for anything wrong, `errors` translates SQLite's own.
"""

from reverie.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
