"""How is a candidate found quickly? The search index, derived from the store and rebuilt at will."""
