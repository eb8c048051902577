"""Erasure of content, and redaction of stored secrets."""
