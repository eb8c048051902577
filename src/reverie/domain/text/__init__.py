"""Pure functions over text: escaping, tokens, dates, ids, validation.

Imports `domain.errors` and `domain.secrets`.
"""
