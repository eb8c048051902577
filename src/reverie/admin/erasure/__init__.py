"""Permanent erasure of content and its traces. Imports `files`, `search`, `stores` and `domain`."""
