"""Readers of other programs' formats."""
