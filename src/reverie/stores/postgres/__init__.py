"""PostgreSQL store in parts, of which `PostgresStore` is the only public one.

Imports `domain`, the store protocol and the codec; psycopg only when a store is opened.
"""

from reverie.stores.postgres.connections import is_postgres_url
from reverie.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "is_postgres_url"]
