"""Adapters for other frameworks, one module each. They import `Memory` and what lies below it."""
