"""Search index, derived from the store and rebuilt at will. Imports `stores` and `domain`."""
