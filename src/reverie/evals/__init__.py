"""Measurements of recall, folding, redaction and defences. Imports the root modules and below."""
