"""Measurement of recall on a user's own data. Imports the root modules and below."""
