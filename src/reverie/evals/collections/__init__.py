"""Readers of test collections."""
