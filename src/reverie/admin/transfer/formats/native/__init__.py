"""Reverie's own export formats."""
