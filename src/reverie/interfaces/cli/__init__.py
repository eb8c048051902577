"""Command line. Imports the other interfaces and everything below."""
