"""Detection and redaction of secrets: keys, tokens, passwords, private keys, card numbers.

The functions examine one text. `reverie.stores.redacting` applies them to everything that is stored.
"""
