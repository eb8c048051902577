"""Writing and scrubbing of the mirror. Imports `files.scan`, `files.disk`, `stores` and `domain`."""
